package netio

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Server is a set of loops and the listeners they serve.
type Server struct {
	config  Config
	handler Handler
	choice  choice
	loops   []*Loop

	budget   budget
	workers  *workers // nil where Config.Workers was given
	closeLog closeLog

	connections atomic.Int64
	nextID      atomic.Uint64
	stopping    atomic.Bool

	// listenersMu guards listeners, which only grows until the end.
	listenersMu sync.Mutex
	listeners   []*listener

	limits atomic.Pointer[Limits]

	// perIPMu guards perIP, the connections of each address.
	perIPMu sync.Mutex
	perIP   map[netip.Addr]int

	// held are the connections kept open unserved; loop 0's.
	held map[*heldConn]struct{}

	endOnce sync.Once
	ended   chan struct{}
}

// NewServer starts the loops. An engine that was asked for by name and cannot
// be used is an error; auto falls back and logs why.
func NewServer(config Config, handler Handler) (*Server, error) {
	if err := config.setDefaults(); err != nil {
		return nil, err
	}
	picked, err := choose(config.Engine)
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, handler: handler, choice: picked, perIP: make(map[netip.Addr]int), held: make(map[*heldConn]struct{}), ended: make(chan struct{})}
	s.limits.Store(limitsOf(&config))
	s.closeLog.logger = config.Logger
	if config.Workers == nil {
		s.workers = newWorkers()
		s.config.Workers = s.workers
	}
	s.budget.limit = max(0, config.RequestMemoryBytes)
	s.budget.wake = func() {
		for _, l := range s.loops {
			l.Post(feedTask{})
		}
	}
	err = s.startLoops()
	if err != nil && config.Engine == EngineAuto && picked.name == EngineUring {
		// One ring could be made, as many as there are loops could not.
		s.choice = epollChoice("io_uring cannot be used: " + err.Error())
		err = s.startLoops()
	}
	if err != nil {
		return nil, err
	}
	config.Logger.Info("network engine", "engine", s.choice.name, "reason", s.choice.reason, "loops", config.Loops)
	return s, nil
}

// startLoops starts the loops with the chosen engine, all or none.
func (s *Server) startLoops() error {
	s.loops = nil
	for i := range s.config.Loops {
		l := &Loop{server: s, index: i, done: make(chan struct{})}
		l.out.init()
		started := make(chan error, 1)
		go l.run(s.choice.setup, started)
		if err := <-started; err != nil {
			l.out.close()
			for _, l := range s.loops {
				l.Post(drainTask{})
				<-l.done
			}
			return fmt.Errorf("netio: start %s loop %d: %w", s.choice.name, i, err)
		}
		s.loops = append(s.loops, l)
	}
	return nil
}

// Engine is the engine that runs and the reason it was chosen.
func (s *Server) Engine() (name, reason string) { return s.choice.name, s.choice.reason }

// Loops are the event loops, by index.
func (s *Server) Loops() []*Loop { return s.loops }

// Connections is the number of open connections.
func (s *Server) Connections() int { return int(s.connections.Load()) }

// RequestMemory is the bytes of unreleased request frames that count against
// Config.RequestMemoryBytes; zero while that is unlimited.
func (s *Server) RequestMemory() int64 { return s.budget.used.Load() }

// Listen accepts connections on address, "host:port"; name is what
// [Conn.Listener] returns. Port 0 picks one.
func (s *Server) Listen(name, address string) (net.Addr, error) {
	if s.stopping.Load() {
		return nil, ErrServerClosed
	}
	fd, bound, err := listen(address, s.config.ReceiveBufferBytes)
	if err != nil {
		return nil, err
	}
	ln := &listener{name: name, fd: fd, address: bound}
	ln.setCongestion(s.config.LoopbackCongestion)
	ln.pause.Task = acceptAgain{s}
	s.listenersMu.Lock()
	ln.index = len(s.listeners)
	s.listeners = append(s.listeners, ln)
	s.listenersMu.Unlock()
	s.loops[0].Post((*watchTask)(ln))
	return net.TCPAddrFromAddrPort(bound), nil
}

type watchTask listener

func (t *watchTask) Run(l *Loop) { l.server.watchListener(l, (*listener)(t), true) }

func (s *Server) listenerAt(i int) *listener {
	s.listenersMu.Lock()
	defer s.listenersMu.Unlock()
	if i < len(s.listeners) {
		return s.listeners[i]
	}
	return nil
}

// Shutdown stops accepting, has the handler answer what is parked, sends what
// is finished, closes the connections as they fall silent and ends the loops.
// When ctx ends first, what is left is cut off and its error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.begin()
	for i, l := range s.loops {
		select {
		case <-l.done:
		case <-ctx.Done():
			s.cutOff()
			s.finish()
			return fmt.Errorf("netio: shutdown: loop %d still had connections: %w", i, ctx.Err())
		}
	}
	s.finish()
	return nil
}

// Close cuts everything off at once.
func (s *Server) Close() {
	s.begin()
	s.cutOff()
	s.finish()
}

// begin stops accepting, then has every loop drain.
func (s *Server) begin() {
	if !s.stopping.Swap(true) {
		s.loops[0].Post(unlistenTask{})
	}
}

func (s *Server) cutOff() {
	for _, l := range s.loops {
		l.Post(stopTask{})
	}
}

// finish waits for the loops and frees what they shared.
func (s *Server) finish() {
	for _, l := range s.loops {
		<-l.done
	}
	s.endOnce.Do(func() {
		if s.workers != nil {
			s.workers.close()
		}
		close(s.ended)
	})
	<-s.ended
}

// unlistenTask closes the listening sockets, and only then drains the loops:
// after it no connection can be dealt to a loop that has ended.
type unlistenTask struct{}

func (unlistenTask) Run(l *Loop) {
	s := l.server
	for i := 0; ; i++ {
		ln := s.listenerAt(i)
		if ln == nil {
			break
		}
		l.StopTimer(&ln.pause)
		if ln.watched {
			_ = l.poll.watch(ln, false)
			ln.watched = false
		}
		_ = unix.Close(ln.fd)
	}
	s.closeHeld(l)
	for _, l := range s.loops {
		l.Post(drainTask{})
	}
}

// drainTask begins a loop's orderly end.
type drainTask struct{}

func (drainTask) Run(l *Loop) {
	if l.draining {
		return
	}
	l.draining = true
	l.server.handler.Drain(l)
	if l.cutOff {
		stopTask{}.Run(l)
		return
	}
	for _, c := range l.conns.slots {
		if c != nil {
			l.markDirty(c)
		}
	}
}

// stopTask closes what connections are left, once the loop drains.
type stopTask struct{}

func (stopTask) Run(l *Loop) {
	l.cutOff = true
	if !l.draining {
		return
	}
	for _, c := range l.conns.slots {
		if c != nil {
			l.closeConn(c, ErrServerClosed)
		}
	}
}

// Turns is the number of turns the loop has made; for metrics.
func (l *Loop) Turns() int64 { return l.turns.Load() }

// BytesReceived is what the loop has received, in bytes; for metrics.
func (l *Loop) BytesReceived() int64 { return l.bytesReceived.Load() }

// Since is the time from then to this turn.
func (l *Loop) Since(then Instant) time.Duration { return time.Duration(l.now - then) }
