//go:build iouring

package netio

import (
	"fmt"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
)

const (
	bufferGroup      = 0
	providedBytes    = 64 << 10 // of one buffer
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
// was filled stays out of the ring until all of it was cut and the last frame
// in it is released, and counts as request memory or as waiting meanwhile; if
// that leaves the ring empty, more are made.
type provided struct {
	poller *uringPoller
	ring   *giouring.BufAndRing
	mem    []byte
	// places are all buffers by number, nil where the number is free.
	places []*place
	free   []uint16
	// offered counts those in the ring, made all there are.
	offered, made int
}

// place is one buffer and its number.
type place struct {
	chunk
	of     *provided
	number uint16
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
	for _, p := range b.places {
		if p != nil && p.refs == 0 {
			unmapMemory(p.mem)
		}
	}
	if b.mem != nil {
		unmapMemory(b.mem)
	}
	*b = provided{}
}

func (b *provided) empty() bool { return b.offered == 0 }

func (b *provided) make() *place {
	p := &place{of: b}
	p.mem, p.home = mapMemory(providedBytes), p
	if n := len(b.free); n > 0 {
		p.number = b.free[n-1]
		b.free = b.free[:n-1]
		b.places[p.number] = p
	} else {
		p.number = uint16(len(b.places))
		b.places = append(b.places, p)
	}
	b.made++
	return p
}

// offer gives p to the kernel.
func (b *provided) offer(p *place) {
	b.ring.BufRingAdd(uintptr(unsafe.Pointer(unsafe.SliceData(p.mem))), uint32(len(p.mem)), p.number, bufferRingEntries-1, 0)
	b.ring.BufRingAdvance(1)
	b.offered++
}

// take is the buffer that the kernel filled, with one reference.
func (b *provided) take(number uint16) *chunk {
	b.offered--
	p := b.places[number]
	p.refs = 1
	return &p.chunk
}

// takeBack is called when nothing refers to the buffer any more.
func (p *place) takeBack() {
	mangle(p.mem)
	b := p.of
	if p.charged {
		p.charged = false
		b.poller.loop.server.budget.release(len(p.mem))
	}
	if b.offered < buffersBase {
		b.offer(p)
		return
	}
	b.places[p.number] = nil
	b.free = append(b.free, p.number)
	b.made--
	unmapMemory(p.mem)
}

// grow offers more buffers in place of those that are held, and reports
// whether it could.
func (b *provided) grow() bool {
	budget := &b.poller.loop.server.budget
	if budget.crowded() {
		budget.starved.Store(true)
		if budget.crowded() {
			return false
		}
	}
	if b.made >= buffersMax {
		return false
	}
	for range buffersBase / 4 {
		b.offer(b.make())
	}
	return true
}
