package netio

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// backlogBytesMax and backlogMax bound the requests of one connection that
	// are cut but may not start yet.
	backlogBytesMax = 64 << 10
	backlogMax      = 64
	// unansweredMax bounds those that the handler has.
	unansweredMax = 1024
	// heldBytesMax bounds a connection's unreleased frames; one frame may
	// exceed it.
	heldBytesMax = 16 << 20
	// unsentBytesMax bounds the memory of a connection's finished requests that
	// are not sent, file ranges aside; one reply may exceed it.
	unsentBytesMax = 256 << 10
	// requestBytes is what a finished request counts beside its reply's bytes.
	requestBytes = 256
)

// Conn is one connection. It belongs to its loop's goroutine; only ID, Loop,
// RemoteAddr and Listener may be called from elsewhere.
//
// Its requests form one list in order of arrival: first those that are
// answered or with the handler, then, from next on, those that wait to start.
// Replies leave from the head of the list only.
type Conn struct {
	// State is the handler's own.
	State any

	loop     *Loop
	listener *listener
	remote   netip.AddrPort
	id       uint64
	fd       int
	slot     uint32
	// gen tells this use of the slot from earlier ones in late events.
	gen uint32

	// The list of requests.
	first, last, next *Request
	// unanswered counts those the handler has, waiting those before it.
	unanswered, waiting int
	waitingBytes        int64
	// held is the bytes of unreleased payloads, the one being received
	// included.
	held int64
	// owed is the bytes of finished replies that are not sent; unsent is the
	// memory of it.
	owed, unsent int64

	// The frame cutter: an incomplete length prefix, or a frame that is being
	// received into its own buffer and how much of it is there.
	head    [prefixBytes]byte
	headLen int
	frame   *Request
	got     int
	// gotWatched is how much of frame had arrived when watchFrames last looked,
	// negative if it has not, and waitLooks how many times on end it found the
	// frame waiting for memory.
	gotWatched, waitLooks int
	// badInput is why no more is read: the answers to what came before it go
	// out, then the connection is closed.
	badInput error

	closeReason error
	muteTimer   *Timer
	idleTimer   Timer
	lastActive  Instant

	readyNext, dirtyNext *Conn
	isReady, isDirty     bool
	isHungry             bool

	closed bool
	// exclusive says that a request that is not pipelined is unanswered.
	exclusive bool
	// failing says that a request was ended by Fail: no more are started.
	failing bool
	// ended says that the peer will send no more.
	ended bool
	muted bool
	// large says that the last frame was long, so the next likely is; frameBytes
	// is its length with the prefix, and bulk, while positive, says that one of
	// the last was of some length.
	large      bool
	frameBytes int
	bulk       uint8
	// full says that the socket takes no more output for now.
	full bool
	// onWritable hears when it takes some again; dialled connections only.
	onWritable WritableHandler

	// The poller's own.
	readable bool  // the kernel said so and nothing said otherwise
	hangUp   bool  // epoll: a short read is not the end of what there is
	lowWater int   // SO_RCVLOWAT as set
	ring     rings // io_uring: what is in flight
}

// Loop is the loop that the connection belongs to.
func (c *Conn) Loop() *Loop { return c.loop }

// ID is unique in the server's life.
func (c *Conn) ID() uint64 { return c.id }

// RemoteAddr is the peer's address; an IPv4 one is never in mapped form.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// LocalAddr is our end's address, asked from the kernel each time.
func (c *Conn) LocalAddr() netip.AddrPort {
	sa, err := unix.Getsockname(c.fd)
	if err != nil {
		return netip.AddrPort{}
	}
	return addrPort(sa)
}

// Listener is the name given to [Server.Listen].
func (c *Conn) Listener() string { return c.listener.name }

// Close closes the connection at the end of the turn, after what replies the
// socket takes at once. The first reason counts.
func (c *Conn) Close(reason error) {
	if c.closeReason == nil {
		if reason == nil {
			reason = ErrServerClosed
		}
		c.closeReason = reason
		c.loop.markDirty(c)
	}
}

// Mute stops reading and starting requests for d, as a broken quota demands;
// the replies that are due still go out. A later call moves the end.
func (c *Conn) Mute(d time.Duration) {
	if c.closed {
		return
	}
	if c.muteTimer == nil {
		c.muteTimer = NewTimer((*unmuteTask)(c))
	}
	c.muted = true
	c.loop.AddTimer(c.muteTimer, c.loop.now+Instant(d))
	c.loop.markDirty(c)
}

// Unmute ends a Mute early.
func (c *Conn) Unmute() {
	if c.muted && !c.closed {
		c.muted = false
		c.loop.StopTimer(c.muteTimer)
		c.loop.markReady(c)
	}
}

type unmuteTask Conn

func (t *unmuteTask) Run(*Loop) { (*Conn)(t).Unmute() }

// push appends a request that is cut.
func (c *Conn) push(r *Request) {
	r.state = requestWaiting
	r.arrived = c.loop.now
	c.loop.stats.waiting++
	if c.last == nil {
		c.first = r
	} else {
		c.last.next = r
	}
	c.last = r
	if c.next == nil {
		c.next = r
	}
	c.waiting++
	c.waitingBytes += int64(len(r.payload))
}

// pop takes the head of the list, which is answered and sent.
func (c *Conn) pop() *Request {
	r := c.first
	c.first = r.next
	if c.first == nil {
		c.last = nil
	}
	r.next = nil
	c.unsent -= requestBytes
	return r
}

// mayStart reports whether requests may be handed to the handler.
func (c *Conn) mayStart() bool {
	return !c.muted && !c.failing && c.closeReason == nil && !c.closed
}

// mayAdmit reports whether r, which waits next, may be the next to start.
func (c *Conn) mayAdmit(r *Request) bool {
	switch {
	case c.unsent > unsentBytesMax, c.unanswered >= unansweredMax:
		return false
	case c.unanswered == 0:
		return true
	default:
		return !c.exclusive && r.pipelined
	}
}

// admit starts every waiting request that may start.
func (l *Loop) admit(c *Conn) {
	for r := c.next; r != nil && c.mayStart(); r = c.next {
		if r.state == requestWaiting && !r.peeked {
			r.peeked = true
			r.pipelined = l.server.handler.Pipelined(r.payload)
			r.api, r.version = peekAPI(r.payload)
		}
		if !c.mayAdmit(r) {
			return
		}
		c.exclusive = !r.pipelined
		c.next = r.next
		c.waiting--
		c.waitingBytes -= int64(len(r.payload))
		c.unanswered++
		l.stats.waiting--
		l.stats.unanswered++
		r.admitted, r.waited = l.now, 0
		r.state = requestAdmitted
		l.active = true
		l.server.handler.Request(c, r)
	}
}

// mayReceive reports whether more may be read from the connection: of the
// frame that was begun, up to what [Conn.promised] gives, or of a new one.
func (c *Conn) mayReceive() bool {
	switch {
	case !c.takesInput():
		return false
	case c.frame != nil:
		return c.loop.mayGrow(c)
	default:
		return c.hasRoom() && !c.loop.starves(c, (*budget).crowded)
	}
}

func (c *Conn) takesInput() bool {
	return !c.ended && c.badInput == nil && c.mayStart() && !c.loop.draining
}

// hasRoom reports whether the connection is within its own bounds.
func (c *Conn) hasRoom() bool {
	return c.waiting < backlogMax && c.waitingBytes < backlogBytesMax &&
		c.unanswered < unansweredMax && c.held < heldBytesMax && c.unsent <= unsentBytesMax &&
		c.owed <= c.loop.server.config.OutputBytesMax
}

// settle sends what is finished, closes what is over, and otherwise lets the
// connection go on. It is the only place that closes a connection, but for
// shutdown and the idle timer.
func (l *Loop) settle(c *Conn) {
	if c.closed {
		return
	}
	l.flush(c)
	switch {
	case c.closeReason != nil:
		l.closeConn(c, c.closeReason)
		return
	case c.first == nil && c.badInput != nil:
		l.closeConn(c, c.badInput)
		return
	case c.first == nil && c.ended:
		l.closeConn(c, ErrPeerClosed)
		return
	case c.first == nil && l.draining:
		l.closeConn(c, ErrShutdown)
		return
	}
	if c.next != nil && c.mayStart() && c.mayAdmit(c.next) {
		l.markReady(c)
	}
	l.poll.inputChanged(c)
}

// closeConn ends c at once.
func (l *Loop) closeConn(c *Conn, reason error) {
	if c.closed {
		return
	}
	c.closed = true
	l.stats.closed[closeCauseOf(reason)]++
	l.stats.waiting -= c.waiting
	l.stats.unanswered -= c.unanswered
	api, version := int16(-1), int16(-1)
	for r := c.first; r != nil; {
		next := r.next
		r.next = nil
		if r.failed != nil {
			api, version = r.api, r.version
		}
		r.dead.Store(true)
		if r.state == requestDone {
			l.stats.unsent--
		}
		if r.state != requestAdmitted {
			l.recycle(r)
		}
		r = next
	}
	c.first, c.last, c.next = nil, nil, nil
	l.StopTimer(&c.idleTimer)
	if c.muteTimer != nil {
		l.StopTimer(c.muteTimer)
	}
	l.poll.remove(c)
	l.server.connClosed(c)
	l.server.closeLog.closed(c, reason, api, version)
	l.server.handler.Closed(c, reason)
	l.active = true
}

// forget frees what the kernel could still write to, and the slot: the last
// step of a close.
func (l *Loop) forget(c *Conn) {
	if c.frame != nil {
		l.recycle(c.frame)
		c.frame = nil
	}
	c.ring = rings{}
	l.conns.release(c)
}

// idleTask closes the connection if nothing happened for long enough, else
// looks again later: one timer setting per connection and idle timeout.
type idleTask Conn

func (t *idleTask) Run(l *Loop) {
	c := (*Conn)(t)
	timeout := Instant(l.server.config.IdleTimeout)
	last := c.lastActive
	if c.unanswered > 0 || c.muted {
		// An answer is owed by us, or we do not listen: the silence is ours.
		last = l.now
	} else if c.frame != nil {
		// Bytes of a large frame may arrive without a wake-up.
		last = max(last, l.now-sinceReceived(c.fd))
	}
	if due := last + timeout; due > l.now {
		l.AddTimer(&c.idleTimer, due)
		return
	}
	l.closeConn(c, ErrIdle)
}

// sinceReceived asks TCP when data last came in.
func sinceReceived(fd int) Instant {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return Instant(1) << 62
	}
	return Instant(info.Last_data_recv) * Instant(time.Millisecond)
}

// connTable finds a connection by the number that travels through the kernel.
type connTable struct {
	slots []*Conn
	gens  []uint32
	free  []uint32
	used  int
}

func (t *connTable) insert(c *Conn) {
	if n := len(t.free); n > 0 {
		c.slot = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		c.slot = uint32(len(t.slots))
		t.slots = append(t.slots, nil)
		t.gens = append(t.gens, 0)
	}
	t.gens[c.slot] = (t.gens[c.slot] + 1) & genMask
	c.gen = t.gens[c.slot]
	t.slots[c.slot] = c
	t.used++
}

func (t *connTable) release(c *Conn) {
	if t.slots[c.slot] != c {
		panic("BUG: netio: connection forgotten twice")
	}
	t.slots[c.slot] = nil
	t.free = append(t.free, c.slot)
	t.used--
}

// lookup returns nil for a connection that is gone.
func (t *connTable) lookup(slot, gen uint32) *Conn {
	if int(slot) < len(t.slots) {
		if c := t.slots[slot]; c != nil && c.gen == gen {
			return c
		}
	}
	return nil
}

// genMask keeps a generation in the 24 bits that user data has for it.
const genMask = 1<<24 - 1
