// Package netio carries Kafka's framed requests and replies between sockets
// and the engine: event loops, frame cutting, replies in order, back-pressure.
//
// # Shape
//
// A [Server] owns N loops and any number of listeners. Each [Loop] is one
// goroutine locked to one thread, with one poller: epoll, or io_uring when the
// program is built with the tag iouring. choose is the only place that
// knows both; everything else in the package talks to the poller interface.
// A [Conn] belongs to one loop for life, and so does each [Request] cut from
// it, so nothing here is locked except three doors: [Loop.Post], the count of
// connections, and the budget of request memory.
//
// # One turn of a loop
//
//  1. The poller waits and hands in what has arrived; frames are cut and
//     [Handler.Request] is called for each that may start.
//  2. Connections with work left over from the last turn continue.
//  3. Posted tasks run, then timers that are due.
//  4. [Handler.EndTurn] is called, if anything ran: appends coalesced over the
//     whole turn are written here.
//  5. Finished replies go out, one send for all of a connection.
//
// # Memory
//
// What the kernel fills lies outside the Go heap. A frame that arrives whole
// is a slice of a shared, counted receive chunk; one that does not gets a
// buffer of its own from size classes and the rest is received into it
// directly. An idle connection holds no buffer at all. See memory.go and, for
// what all of it may come to, budget.go.
//
// # Where things are
//
//	server.go listener.go   start, accept, limits, orderly end
//	loop.go timer.go        the turn, posted tasks, timers
//	conn.go request.go      a connection and its requests: admission, back-pressure, closing
//	limits.go               how many connections, and how fast new ones
//	input.go                the frame cutter
//	output.go reply.go      gathering, sending, file ranges
//	workers.go              cold pages
//	memory.go budget.go     chunks, buffers, the bound on request memory
//	stats.go                what metrics are made of
//	engine.go poller.go     the choice of engine and what one must do
//	epoll.go uring*.go      the engines
package netio

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Engines names the engines built into this program, preferred first.
func Engines() []string { return append(builtInUring(), EngineEpoll) }

// Names of the engines for [Config.Engine].
const (
	EngineAuto  = "auto"
	EngineUring = "io_uring"
	EngineEpoll = "epoll"
)

// Config is what a [Server] is built from. Zero values mean the default named
// beside each field.
type Config struct {
	// Engine is auto, io_uring or epoll. Auto takes io_uring if it is built in
	// and the kernel lets us, else epoll. Default auto.
	Engine string
	// Loops is the number of event loops. Default 1.
	Loops int
	// BusyPoll is how long a loop spins before it sleeps. Default 0.
	BusyPoll time.Duration
	// LoopbackCongestion is the TCP_CONGESTION of connections from loopback
	// peers; empty leaves the host's.
	LoopbackCongestion string
	// MaxFrameBytes bounds one request (socket.request.max.bytes). Default
	// 100 MiB.
	MaxFrameBytes int32
	// MaxConnections bounds the connections of the server; while it is reached
	// new ones wait in the listen queue, as in Kafka. Default unlimited.
	MaxConnections int
	// MaxConnectionsPerIP bounds those of one address; more are closed at
	// once. Default unlimited.
	MaxConnectionsPerIP int
	// IdleTimeout closes a connection that neither asks nor is owed an answer
	// for that long (connections.max.idle.ms). Default never.
	IdleTimeout time.Duration
	// RequestMemoryBytes bounds the memory of unreleased request frames
	// (queued.max.request.bytes). While it is used up no new frame is begun and
	// but one of those begun goes on, so a frame larger than the bound still
	// passes; see budget. Default unlimited.
	RequestMemoryBytes int64
	// SendBufferBytes and ReceiveBufferBytes are SO_SNDBUF and SO_RCVBUF; zero
	// or less leaves the kernel's autotuning, which suits large frames better.
	SendBufferBytes, ReceiveBufferBytes int
	// OutputBytesMax is how many bytes of finished replies a connection may
	// owe before its requests are no longer read. Default 4 MiB.
	OutputBytesMax int64
	// Workers makes cold pages of file ranges resident. Default: a small pool
	// of the server's own.
	Workers Executor
	// Observer hears of every request that was answered; may be nil.
	Observer Observer
	// Logger receives one line per refused or broken connection, rate-limited.
	// Default slog.Default().
	Logger *slog.Logger
}

// Executor runs work that may block; Submit itself does not.
type Executor interface{ Submit(func()) }

const (
	defaultMaxFrameBytes  = 100 << 20
	defaultOutputBytesMax = 4 << 20
)

func (c *Config) setDefaults() error {
	switch c.Engine {
	case "":
		c.Engine = EngineAuto
	case EngineAuto, EngineUring, EngineEpoll:
	default:
		return fmt.Errorf("netio: engine %q: want auto, io_uring or epoll", c.Engine)
	}
	if c.Loops <= 0 {
		c.Loops = 1
	}
	if c.MaxFrameBytes <= 0 {
		c.MaxFrameBytes = defaultMaxFrameBytes
	}
	if c.OutputBytesMax <= 0 {
		c.OutputBytesMax = defaultOutputBytesMax
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// Handler is what stands above the network. All calls for one connection come
// on the goroutine of its loop, one at a time; none may block.
type Handler interface {
	// Opened announces a connection; the handler may set c.State.
	Opened(c *Conn)
	// Pipelined says whether a request may start while earlier ones of its
	// connection are unanswered, provided all of those are pipelined too.
	// Every other request waits until it is the only one: Kafka's order.
	// payload is the frame without its length prefix.
	Pipelined(payload []byte) bool
	// Request hands over one request. The handler ends it exactly once, now or
	// later, with Done, NoReply or Fail, even when it is no longer Alive.
	Request(c *Conn, r *Request)
	// EndTurn comes after a batch of Request, Task and Timer calls and before
	// the replies they finished go out.
	EndTurn(l *Loop)
	// Drain says that shutdown began: parked requests are to be answered now.
	Drain(l *Loop)
	// Closed comes once after Opened. The connection's unanswered requests are
	// already dead (Alive is false); the handler still ends those it holds.
	Closed(c *Conn, reason error)
}

// Releaser is told when netio is done with a [FileRange]; called on the
// connection's loop.
type Releaser interface{ Release() }

// FileRange is a run of bytes of a file, half-open [Position,
// Position+Length). It must not change or shrink until Owner is released.
type FileRange struct {
	FD       int
	Position int64
	Length   int64
	// Owner may be nil.
	Owner Releaser
	// Source is read instead where FD is negative (files in memory); it must
	// not block.
	Source io.ReaderAt
}

// ProtocolError is the reason to close a connection whose peer broke the
// protocol. API and Version are -1 where they are not known; the close log
// then takes them from the frame, if there is one.
type ProtocolError struct {
	API, Version int16
	Reason       string
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("protocol error: api %d version %d: %s", e.API, e.Version, e.Reason)
}

// Reasons for which netio itself closes a connection.
var (
	ErrPeerClosed   = errors.New("netio: closed by the peer")
	ErrIdle         = errors.New("netio: idle too long")
	ErrShutdown     = errors.New("netio: server shut down")
	ErrTruncated    = errors.New("netio: file range ended early")
	ErrServerClosed = errors.New("netio: server closed")
)
