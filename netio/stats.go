package netio

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Observer hears of requests that are over, for histograms of latency. It runs
// on the loop and must neither block nor keep r.
type Observer interface {
	// Answered says that the last byte of r's reply went to the kernel, or that
	// r ended without one. Requests of connections that were closed meanwhile
	// are not reported.
	Answered(l *Loop, r *Request)
}

// Timing is how long a request took. All times are those at which turns of the
// loop began, but for its end, which is when replies began to go out: what the
// turn did for other requests counts too, as it did for whoever waited.
type Timing struct {
	// Total is from the arrival of the request's last byte to the end.
	Total time.Duration
	// Queued is the part of it before the handler was given the request.
	Queued time.Duration
	// Waited is the part in which it was parked, see [Request.Park].
	Waited time.Duration
}

// API and Version are what the request says of itself, -1 where it is too short
// to say.
func (r *Request) API() int16 { return r.api }

// Version is the request's version.
func (r *Request) Version() int16 { return r.version }

// Park notes that the request waits from now on for something that is not this
// broker's work: other replicas, records to come, members of a group. Unpark
// ends that; both may come several times. Loop goroutine only.
func (r *Request) Park() { r.parked = r.loop.now }

// Unpark ends what Park began.
func (r *Request) Unpark() {
	r.waited += r.loop.now - r.parked
	r.parked = r.loop.now
}

// Timing is for [Observer.Answered].
func (r *Request) Timing() Timing {
	return Timing{
		Total:  time.Duration(r.loop.stats.sentAt - r.arrived),
		Queued: time.Duration(r.admitted - r.arrived),
		Waited: time.Duration(r.waited),
	}
}

// answered reports that r is over.
func (l *Loop) answered(r *Request) {
	l.stats.unsent--
	if o := l.server.config.Observer; o != nil {
		if l.stats.sentAt == 0 {
			// Once for all that leaves in this turn.
			l.stats.sentAt = Instant(time.Since(clockStart))
		}
		o.Answered(l, r)
	}
}

// CloseCause says why connections were closed, for counting.
type CloseCause uint8

// The causes.
const (
	ClosedByPeer CloseCause = iota // in order, or reset
	ClosedIdle
	ClosedProtocol // the peer broke the protocol, or held memory back
	ClosedIO       // sockets or files failed
	ClosedShutdown
	ClosedHandler // what stands above asked for it
	closeCauses
)

func (c CloseCause) String() string {
	return [closeCauses]string{"peer", "idle", "protocol", "io", "shutdown", "handler"}[c]
}

// closeCauseOf sorts the reason of a close.
func closeCauseOf(reason error) CloseCause {
	var protocol *ProtocolError
	var errno unix.Errno
	switch {
	case errors.Is(reason, ErrPeerClosed), errors.Is(reason, io.EOF), errors.Is(reason, unix.ECONNRESET), errors.Is(reason, unix.EPIPE):
		return ClosedByPeer
	case errors.Is(reason, ErrIdle):
		return ClosedIdle
	case errors.Is(reason, ErrShutdown), errors.Is(reason, ErrServerClosed):
		return ClosedShutdown
	case errors.As(reason, &protocol):
		return ClosedProtocol
	case errors.Is(reason, ErrTruncated), errors.As(reason, &errno):
		return ClosedIO
	}
	return ClosedHandler
}

// loopStats is what a loop counts, in plain fields: they are its own, and
// whoever wants them has the loop copy them (Loop.Stats), so that counting
// costs an addition and no locked instruction.
type loopStats struct {
	began Instant
	// idle is the time asleep, sleeping that it sleeps at the moment.
	idle     Instant
	sleeping bool
	wakeUps  int64
	// sentAt is when replies began to go out in this turn; zero: not read yet.
	sentAt Instant

	waiting, unanswered, unsent int // requests, by where they are
	bytesSent                   int64
	coldReads                   int64
	closed                      [closeCauses]int64
}

// goesToSleep says that the poller is about to sleep, with the clock read just
// before.
func (l *Loop) goesToSleep() {
	l.stats.sleeping = true
	l.stats.wakeUps++
}

// awake comes after every wait, as soon as there is work.
func (l *Loop) awake() {
	l.mail.asleep.Store(false)
	before := l.now
	l.readClock()
	if l.stats.sleeping {
		l.stats.sleeping = false
		l.stats.idle += l.now - before
	}
}

// LoopStats is what a loop has done since it began, and what it holds.
type LoopStats struct {
	Turns, WakeUps int64
	// Busy is the time that it did not sleep.
	Busy, Idle               time.Duration
	BytesReceived, BytesSent int64
	// ColdReads is how often replies had to wait for a disk.
	ColdReads int64
	// Closed counts connections by the cause of their end.
	Closed [closeCauses]int64

	Connections int
	// Waiting requests are complete and not begun, Unanswered ones are with the
	// handler, Unsent ones have a reply that is not all sent.
	Waiting, Unanswered, Unsent int
}

// Stats are the loop's counters. Loop goroutine only: post a task to read them.
func (l *Loop) Stats() LoopStats {
	s := &l.stats
	return LoopStats{
		Turns: l.turns.Load(), WakeUps: s.wakeUps,
		Busy: time.Duration(l.now - s.began - s.idle), Idle: time.Duration(s.idle),
		BytesReceived: l.bytesReceived.Load(), BytesSent: s.bytesSent,
		ColdReads: s.coldReads, Closed: s.closed, Connections: l.conns.used,
		Waiting: s.waiting, Unanswered: s.unanswered, Unsent: s.unsent,
	}
}

// listenerCounts are counted once for each connection, from any goroutine.
type listenerCounts struct{ opened, closed, refused, failed atomic.Int64 }

// ListenerStats is what came to a listener.
type ListenerStats struct {
	Name string
	// Opened and Closed count connections; the difference is open now.
	Opened, Closed int64
	// Refused ones came from addresses that had their share; Failed is how often
	// the kernel gave an error in place of a connection.
	Refused, Failed int64
}

// ListenerStats are the counters of all listeners. Any goroutine.
func (s *Server) ListenerStats() []ListenerStats {
	s.listenersMu.Lock()
	defer s.listenersMu.Unlock()
	all := make([]ListenerStats, len(s.listeners))
	for i, ln := range s.listeners {
		n := &ln.counts
		all[i] = ListenerStats{Name: ln.name, Closed: n.closed.Load(), Opened: n.opened.Load(), Refused: n.refused.Load(), Failed: n.failed.Load()}
	}
	return all
}
