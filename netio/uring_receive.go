//go:build iouring

package netio

import (
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kinds of receive, for rings.receiving.
const (
	receiveMany   = 1 // multishot into provided buffers
	receiveHead   = 2 // once, into a provided buffer, a few bytes
	receiveDirect = 3 // once, into the frame's own buffer
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

// inputChanged starts what may receive and stops what may not. A receive into
// a frame's own buffer or of a few bytes is left to finish.
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
		l.server.budget.unhold(receiveBytesMax)
		p.cutUp(in.chunk)
		c.ring.pending = c.ring.pending[:copy(c.ring.pending, c.ring.pending[1:])]
	}
	if len(c.ring.pending) == 0 {
		c.ring.pending = nil
		if c.ring.ended != nil && c.mayCut() {
			l.inputEnded(c, c.ring.ended)
			c.ring.ended = nil
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
	if c.ring.receiving == receiveMany && c.frame != nil && len(c.rest()) >= lowWaterMin {
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
		p.loop.server.budget.hold(receiveBytesMax)
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
	case res > 0 && kind == receiveDirect:
		l.filled(c, int(res))
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

// arm starts the receive that fits what is expected.
func (p *uringPoller) arm(c *Conn) {
	if c.ring.receiving != 0 || c.ring.starved || len(c.ring.pending) > 0 || c.ring.ended != nil || !c.mayReceive() {
		return
	}
	if c.frame != nil {
		p.armDirect(c)
		return
	}
	setLowWater(c, 1)
	if p.buffers.empty() && !p.buffers.grow() {
		p.starve(c)
		return
	}
	sqe := p.entry(opRecv, c.fd, eventData(kindReceive, c.gen, c.slot))
	sqe.Flags = sqeBufferSelect
	sqe.BufIG = bufferGroup
	if c.large {
		c.ring.receiving = receiveHead
		sqe.Len = headBytes
		return
	}
	c.ring.receiving = receiveMany
	sqe.IoPrio = recvMultishot
}

// armDirect receives into the frame that was begun: what is there at once,
// then, by the ring, the rest when all of it is there.
func (p *uringPoller) armDirect(c *Conn) {
	l := p.loop
	for share := directBytesMax; c.frame != nil; {
		if !l.mayGrow(c) {
			return
		}
		dst := c.promised()
		n, errno := receiveNow(c.fd, dst[:min(len(dst), directBytesMax)])
		if errno == unix.EINTR {
			continue
		}
		if errno == unix.EAGAIN {
			break
		}
		if errno != 0 {
			l.inputEnded(c, errno)
			return
		}
		if n == 0 {
			l.inputEnded(c, io.EOF)
			return
		}
		l.filled(c, n)
		if share -= n; share <= 0 {
			l.markReady(c)
			return
		}
	}
	if c.frame == nil {
		l.markDirty(c) // settle arms the next one
		return
	}
	dst := c.promised()
	setLowWater(c, lowWaterFor(len(dst)))
	c.ring.receiving = receiveDirect
	sqe := p.entry(opRecv, c.fd, eventData(kindReceive, c.gen, c.slot))
	sqe.Addr = uint64(uintptr(unsafe.Pointer(&dst[0])))
	sqe.Len = uint32(len(dst))
	sqe.IoPrio = recvPollFirst
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
