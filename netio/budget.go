package netio

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// frameStepBytes is how much request memory a frame that does not arrive
	// whole is promised at a time, tightStepBytes once half of it is used: a
	// peer that only says how long its frame is must not take all there is,
	// while ordinary frames in ordinary times need one step and one wake-up.
	frameStepBytes = 2 << 20
	tightStepBytes = 64 << 10
	// watchInterval is how often frames are looked at while memory is short,
	// and stalledBytes what must have arrived meanwhile.
	watchInterval = 500 * time.Millisecond
	stalledBytes  = 32 << 10
	// waitLooksMax is how often a frame may be found waiting for its next step
	// before it is given up: ten seconds of a memory that is full all the time.
	waitLooksMax = 20
)

// budget is the request memory of all loops together.
//
// While it is used up no frame is begun, and frames that were begun wait for
// their next step. Were all of it held by such frames, they would wait for each
// other: one at a time, whose turn it is until it is released, goes on
// regardless, so the bound may be exceeded by one frame. While others wait for
// memory, a peer that has some and does not send is closed, and so is one whose
// frame got none for too long: what it holds is better given to frames that can
// be finished.
//
// Promising the whole frame when it is begun was tried: two peers that each
// announced a frame of 90 MiB and sent none of it shut out all others.
type budget struct {
	// limit is in bytes; zero is unlimited.
	limit int64
	// used is what requests hold or are promised.
	used atomic.Int64
	// waiting is what was received and is held back uncut. It keeps more from
	// being received, but not itself from being cut: else the two could wait
	// for each other.
	waiting atomic.Int64
	// starved is set while some loop has connections that wait for memory.
	starved atomic.Bool
	// turn is the frame that may exceed the limit, if one does.
	turn atomic.Pointer[Request]
	// watched is when the loops were last told to watch their frames.
	watched atomic.Int64
	// wake tells the loops to look again.
	wake func()
}

// crowded reports whether nothing that begins a frame may be received.
func (b *budget) crowded() bool {
	return b.limit > 0 && b.used.Load()+b.waiting.Load() >= b.limit
}

// jammed reports whether no frame may grow but the one whose turn it is.
func (b *budget) jammed() bool { return b.crowded() && b.turn.Load() != nil }

func (b *budget) charge(n int) {
	if b.limit > 0 {
		b.used.Add(int64(n))
	}
}

func (b *budget) release(n int) {
	if b.limit > 0 && b.used.Add(-int64(n)) < b.limit {
		b.feed()
	}
}

func (b *budget) feed() {
	if b.starved.Load() && b.starved.CompareAndSwap(true, false) {
		b.wake()
	}
}

// takeTurn reports whether it is, or is from now on, r's turn.
func (b *budget) takeTurn(r *Request) bool {
	return b.turn.Load() == r || b.turn.CompareAndSwap(nil, r)
}

func (b *budget) endTurn(r *Request) {
	if b.turn.Load() == r && b.turn.CompareAndSwap(r, nil) {
		b.feed()
	}
}

// promise charges the next step of a frame that was begun.
func (l *Loop) promise(r *Request) {
	step := len(r.payload) - r.charged
	b := &l.server.budget
	if b.limit > 0 {
		largest := frameStepBytes
		if b.used.Load() >= b.limit/2 {
			largest = tightStepBytes
		}
		step = min(step, largest)
		b.charge(step)
	}
	r.charged += step
}

// mayGrow reports whether more of the frame that c began may be received, and
// sees to it that there is memory for it.
func (l *Loop) mayGrow(c *Conn) bool {
	r := c.frame
	if c.got < r.charged {
		return true
	}
	b := &l.server.budget
	for b.crowded() && !b.takeTurn(r) {
		if l.starves(c, (*budget).jammed) {
			return false
		}
	}
	l.promise(r)
	return true
}

// starves reports whether request memory is short, and if so has c looked at
// again when there is some.
func (l *Loop) starves(c *Conn, short func(*budget) bool) bool {
	b := &l.server.budget
	if !short(b) {
		return false
	}
	if !c.isHungry {
		c.isHungry = true
		l.hungry = append(l.hungry, c)
	}
	b.starved.Store(true)
	l.server.watchFrames(l.now)
	// Memory released before the mark was set woke nobody.
	return short(b)
}

// feedTask looks again at the connections stopped for want of memory.
type feedTask struct{}

func (feedTask) Run(l *Loop) {
	n := len(l.hungry)
	for i := range n {
		c := l.hungry[i]
		c.isHungry = false
		if !c.closed {
			l.poll.inputChanged(c)
		}
	}
	l.hungry = append(l.hungry[:0], l.hungry[n:]...)
}

// watchFrames has every loop look for stalled frames, unless they were told
// just now.
func (s *Server) watchFrames(now Instant) {
	last := s.budget.watched.Load()
	if int64(now)-last < int64(watchInterval) && last != 0 || !s.budget.watched.CompareAndSwap(last, int64(now)) {
		return
	}
	for _, l := range s.loops {
		l.Post(watchFramesTask{})
	}
}

// watchFramesTask closes connections that hold request memory for a frame and
// do not send it, while others wait for memory. It goes on by a timer for as
// long as that is so.
type watchFramesTask struct{}

func (t watchFramesTask) Run(l *Loop) {
	if l.watchTimer.Active() || !l.server.budget.crowded() {
		return
	}
	going := l.now-l.watchedAt < Instant(2*watchInterval)
	l.watchedAt = l.now
	for _, c := range l.conns.slots {
		if c == nil || c.closed || c.frame == nil {
			continue
		}
		if reason := c.watchFrame(going); reason != "" {
			api, version := peekAPI(c.frame.payload[:c.got])
			l.closeConn(c, &ProtocolError{API: api, Version: version, Reason: reason})
		}
	}
	l.AddTimer(&l.watchTimer, l.now+Instant(watchInterval))
}

// watchFrame looks at the frame that c began and returns why it is given up, if
// it is. going says that the last look was an interval ago.
func (c *Conn) watchFrame(going bool) string {
	// The kernel keeps back what is below the low-water mark.
	queued, _ := unix.IoctlGetInt(c.fd, unix.SIOCINQ)
	last := c.gotWatched
	c.gotWatched = c.got + queued
	switch {
	case c.muted: // it is we who do not read
		c.gotWatched = -1
		return ""
	case c.isHungry && queued > 0:
		c.gotWatched = -1
		if c.waitLooks++; c.waitLooks > waitLooksMax {
			return "frame waited too long for request memory"
		}
		return ""
	}
	c.waitLooks = 0
	if going && last >= 0 && c.gotWatched-last < min(stalledBytes, len(c.frame.payload)-last) {
		return "frame arrives too slowly while request memory is used up"
	}
	return ""
}
