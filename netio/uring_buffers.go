//go:build iouring

package netio

import (
	"fmt"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
)

const (
	bufferGroup      = 0
	bufferEntryBytes = 16
	// bufferRingEntries is the room in the ring; giouring's arithmetic on
	// entries overflows 16 bits from 4096 on.
	bufferRingEntries = 256
	// buffersBase is how many buffers the kernel is offered at a time. It takes
	// them in turn, so more of them only spread over more of the cache.
	buffersBase = 64
	// buffersMax bounds the buffers there are, most of them held by requests.
	buffersMax = 1 << 14
)

// provided is a ring of buffers that the kernel receives into. A buffer that
// was filled stays out of the ring until the last frame in it is released; if
// that leaves the ring empty, more are made, and those count as request
// memory, as do the chunks of the other engine.
type provided struct {
	poller *uringPoller
	ring   *giouring.BufAndRing
	mem    []byte
	// chunks are all buffers by number, nil where the number is free.
	chunks []*chunk
	free   []uint16
	// offered counts those in the ring, made all there are.
	offered, made int
}

func (b *provided) init(p *uringPoller) error {
	b.poller = p
	b.mem = mapMemory(bufferRingEntries * bufferEntryBytes)
	b.ring = (*giouring.BufAndRing)(unsafe.Pointer(unsafe.SliceData(b.mem)))
	reg := &giouring.BufReg{
		RingAddr:    uint64(uintptr(unsafe.Pointer(b.ring))),
		RingEntries: bufferRingEntries,
		Bgid:        bufferGroup,
	}
	if _, err := p.ring.RegisterBufferRing(reg, 0); err != nil {
		return fmt.Errorf("register buffer ring: %w", err)
	}
	b.ring.BufRingInit()
	for range buffersBase {
		b.offer(b.make())
	}
	return nil
}

// close unmaps what no request holds; the ring must be gone.
func (b *provided) close() {
	for _, ch := range b.chunks {
		if ch != nil && ch.refs == 0 {
			unmapMemory(ch.mem)
		}
	}
	if b.mem != nil {
		unmapMemory(b.mem)
	}
	*b = provided{}
}

func (b *provided) empty() bool { return b.offered == 0 }

func (b *provided) make() *chunk {
	ch := &chunk{mem: mapMemory(receiveBytesMax), home: b.poller}
	if n := len(b.free); n > 0 {
		ch.bid = b.free[n-1]
		b.free = b.free[:n-1]
		b.chunks[ch.bid] = ch
	} else {
		ch.bid = uint16(len(b.chunks))
		b.chunks = append(b.chunks, ch)
	}
	b.made++
	return ch
}

// offer gives ch to the kernel.
func (b *provided) offer(ch *chunk) {
	b.ring.BufRingAdd(uintptr(unsafe.Pointer(unsafe.SliceData(ch.mem))), uint32(len(ch.mem)), ch.bid, bufferRingEntries-1, 0)
	b.ring.BufRingAdvance(1)
	b.offered++
}

// take is the buffer that the kernel filled, with one reference.
func (b *provided) take(bid uint16) *chunk {
	b.offered--
	ch := b.chunks[bid]
	ch.refs = 1
	return ch
}

// put takes back a buffer that nothing refers to.
func (b *provided) put(ch *chunk) {
	if b.offered < buffersBase {
		b.offer(ch)
		return
	}
	// With as many offered as there were at first, this one was made by grow.
	b.chunks[ch.bid] = nil
	b.free = append(b.free, ch.bid)
	b.made--
	b.poller.loop.server.budget.release(len(ch.mem))
	unmapMemory(ch.mem)
}

// grow offers more buffers in place of those that requests hold, and reports
// whether it could.
func (b *provided) grow() bool {
	budget := &b.poller.loop.server.budget
	if budget.exhausted() {
		budget.starved.Store(true)
		if budget.exhausted() {
			return false
		}
	}
	if b.made >= buffersMax {
		return false
	}
	for range buffersBase / 4 {
		ch := b.make()
		budget.charge(len(ch.mem))
		b.offer(ch)
	}
	return true
}
