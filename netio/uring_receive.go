//go:build iouring

package netio

import (
	"io"

	"golang.org/x/sys/unix"
)

// Kinds of receive, for rings.receiving.
const (
	receiveMany = 1 // multishot into provided buffers
	receivePoll = 2 // a poll once, then direct calls
)

// rings is what io_uring has in flight for a connection, and what it brought
// while the connection may not receive.
type rings struct {
	// receiving is the kind of receive that is armed, zero if none.
	receiving uint8
	// cancelled says that it was asked to end.
	cancelled bool
	// polling says that a poll for output is armed.
	polling bool
	// starved says that it waits for a provided buffer.
	starved bool
	// pending is input that came after the connection was stopped, in order;
	// ended is what came behind it, if the stream is over.
	pending []pendingInput
	ended   error
}

// pendingInput is part of a provided buffer, which it holds.
type pendingInput struct {
	chunk *chunk
	data  []byte
}

// mayCut reports whether what was received may be given to the frame cutter.
func (c *Conn) mayCut() bool { return c.takesInput() && (c.frame != nil || c.mayBegin()) }

// mayBegin reports whether another frame may be begun, on a connection that
// takes input.
func (c *Conn) mayBegin() bool { return c.hasRoom() && !c.loop.starves(c, (*budget).exhausted) }

// exhausted reports whether no frame may be begun.
func (b *budget) exhausted() bool { return b.limit > 0 && b.used.Load() >= b.limit }

func (b *budget) hold(n int) { b.waiting.Add(int64(n)) }

func (b *budget) unhold(n int) {
	b.waiting.Add(-int64(n))
	if !b.exhausted() {
		b.feed()
	}
}

func (p *uringPoller) cancelReceive(c *Conn) {
	if c.ring.receiving != 0 && !c.ring.cancelled {
		c.ring.cancelled = true
		p.cancel(eventData(kindReceive, c.gen, c.slot), eventData(kindCancel, c.gen, c.slot))
	}
}

// cancelMissed tries again: a multishot receive that the kernel was about to
// run once more is not found.
func (p *uringPoller) cancelMissed(c *Conn) {
	if c.ring.receiving == 0 || !c.ring.cancelled {
		return // it had ended by itself
	}
	c.ring.cancelled = false
	if c.closed {
		p.cancelReceive(c)
		return
	}
	p.loop.markDirty(c) // settle looks whether it is still to end
}

// inputChanged starts what may receive and stops what may not. A poll is left
// to finish.
func (p *uringPoller) inputChanged(c *Conn) {
	if c.ring.receiving == receiveMany && !c.mayReceive() {
		p.cancelReceive(c)
	}
	if len(c.ring.pending) > 0 || c.ring.ended != nil {
		if c.mayCut() {
			p.loop.markReady(c)
		}
		return
	}
	p.arm(c)
}

// resume hands in what came while the connection was stopped.
func (p *uringPoller) resume(c *Conn) {
	l := p.loop
	for len(c.ring.pending) > 0 && c.mayCut() {
		in := &c.ring.pending[0]
		if in.data = p.feed(c, in.chunk, in.data); len(in.data) > 0 {
			break
		}
		l.server.budget.unhold(providedBytes)
		p.cutUp(in.chunk)
		c.ring.pending = c.ring.pending[:copy(c.ring.pending, c.ring.pending[1:])]
	}
	if len(c.ring.pending) == 0 {
		c.ring.pending = nil
		if c.ring.ended != nil && c.mayCut() {
			l.inputEnded(c, c.ring.ended)
			c.ring.ended = nil
		}
		if c.readable {
			l.receiveFrom(c)
		}
		p.arm(c)
	}
}

// feed cuts what c may receive of data and returns the rest: where only the
// frame that was begun may be finished, what lies behind it is held back.
func (p *uringPoller) feed(c *Conn, ch *chunk, data []byte) []byte {
	if c.frame != nil && len(c.rest()) < len(data) && !c.mayBegin() {
		n := len(c.rest())
		p.loop.feed(c, ch, data[:n])
		data = data[n:]
	} else {
		p.loop.feed(c, ch, data)
		data = nil
	}
	if c.ring.receiving == receiveMany && c.isBulk() {
		p.cancelReceive(c)
	}
	return data
}

// arrived takes n bytes in a provided buffer, with the one reference to it.
func (p *uringPoller) arrived(c *Conn, ch *chunk, n int) {
	data := ch.mem[:n]
	if len(c.ring.pending) == 0 && c.mayCut() {
		data = p.feed(c, ch, data)
	}
	if len(data) > 0 {
		p.loop.server.budget.hold(providedBytes)
		c.ring.pending = append(c.ring.pending, pendingInput{ch, data})
		p.loop.markDirty(c)
		return
	}
	p.cutUp(ch)
}

// cutUp gives up a buffer from which all was cut. If requests hold it, it
// counts as theirs.
func (p *uringPoller) cutUp(ch *chunk) {
	if ch.refs > 1 {
		ch.charged = true
		p.loop.server.budget.charge(len(ch.mem))
	}
	p.loop.releaseChunk(ch)
}

// received takes one completion of a receive.
func (p *uringPoller) received(c *Conn, res int32, flags uint32) {
	l := p.loop
	kind := c.ring.receiving
	if flags&cqeMore == 0 {
		c.ring.receiving, c.ring.cancelled = 0, false
	}
	if kind == receivePoll {
		p.polled(c, res)
		return
	}
	var ch *chunk
	if flags&cqeBuffer != 0 {
		ch = p.buffers.take(uint16(flags >> cqeBufferShift))
	}
	if c.closed || res <= 0 && ch != nil {
		if ch != nil {
			l.releaseChunk(ch)
		}
		ch = nil
	}
	if c.closed {
		if c.ring.receiving == 0 {
			p.forgetIfIdle(c)
		}
		return
	}
	switch errno := unix.Errno(max(0, -res)); {
	case res > 0:
		p.arrived(c, ch, int(res))
	case res == 0:
		p.inputEnded(c, io.EOF)
		return
	case errno == unix.ENOBUFS:
		p.starve(c)
		return
	case errno == unix.ECANCELED, errno == unix.EAGAIN, errno == unix.EINTR:
	default:
		p.inputEnded(c, errno)
		return
	}
	if c.ring.receiving == 0 {
		l.markDirty(c) // settle arms the next one
	}
}

// inputEnded reports the end of the stream, after what came before it.
func (p *uringPoller) inputEnded(c *Conn, err error) {
	if len(c.ring.pending) > 0 || err == io.EOF && !c.mayCut() {
		c.ring.ended = err
		p.loop.markDirty(c)
		return
	}
	p.loop.inputEnded(c, err)
}

// isBulk says that c receives by direct calls: the ring's buffers are taken in
// turn, so bulk would go through all of them and find none in the cache, and a
// frame that a buffer's end cuts in two must be copied. For batches of 16 and
// 64 KiB that was 6 and 13 % of the broker's CPU.
func (c *Conn) isBulk() bool { return c.bulk > 0 }

// arm starts the receive that fits what is expected.
func (p *uringPoller) arm(c *Conn) {
	if c.ring.receiving != 0 || c.ring.starved || len(c.ring.pending) > 0 || c.ring.ended != nil || !c.mayReceive() {
		return
	}
	if c.readable {
		p.loop.markReady(c)
		return
	}
	if c.isBulk() {
		c.ring.receiving = receivePoll
		sqe := p.entry(opPollAdd, c.fd, eventData(kindReceive, c.gen, c.slot))
		sqe.OpcodeFlags = unix.POLLIN
		return
	}
	setLowWater(c, 1)
	if p.buffers.empty() && !p.buffers.grow() {
		p.starve(c)
		return
	}
	c.ring.receiving = receiveMany
	sqe := p.entry(opRecv, c.fd, eventData(kindReceive, c.gen, c.slot))
	sqe.Flags = sqeBufferSelect
	sqe.BufIG = bufferGroup
	sqe.IoPrio = recvMultishot
}

// polled takes the end of a poll. An error or the end of the stream shows in
// the receive that follows.
func (p *uringPoller) polled(c *Conn, res int32) {
	if c.closed {
		p.forgetIfIdle(c)
		return
	}
	c.readable = c.readable || res != -int32(unix.ECANCELED)
	if c.readable && !c.isReady {
		p.loop.receiveFrom(c)
	}
	p.loop.markDirty(c) // settle arms the next one
}

// starve has c wait for a provided buffer.
func (p *uringPoller) starve(c *Conn) {
	if !c.ring.starved {
		c.ring.starved = true
		p.starving = append(p.starving, c)
	}
}

// feedStarving arms the connections that waited, now that buffers are back.
func (p *uringPoller) feedStarving() {
	if len(p.starving) == 0 || p.buffers.empty() && !p.buffers.grow() {
		return
	}
	waiting := p.starving
	p.starving = p.starving[len(p.starving):]
	for i, c := range waiting {
		waiting[i] = nil
		c.ring.starved = false
		if !c.closed {
			p.arm(c)
		}
	}
	if len(p.starving) == 0 {
		p.starving = waiting[:0]
	}
}
