package netio

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory that the kernel fills lies outside the Go heap: the collector never
// scans it, its size is bounded by bytes rather than by GOGC, and pages once
// touched are kept, since first touch costs more than all else that is done
// with them.
//
// Two kinds serve the frames. A chunk is shared by the small frames that one
// or several receives brought whole; it is counted and starts over when the
// last of them is released, which in steady state is every turn, so that
// receives always land in the same warm memory. A buffer of its own, from size
// classes of powers of two, is for a frame that did not arrive whole: the part
// that has come is copied to its head and the rest received directly.
const (
	chunkBytes = 512 << 10
	// receiveBytesMax is the most that one receive into a chunk asks for.
	receiveBytesMax = 256 << 10
	// chunkFreeMax is how many free chunks a loop keeps.
	chunkFreeMax = 8

	// frameHeadroom is where a frame's length prefix would lie in a buffer of
	// its own. The kernel's copy (rep movsb) is many times slower when
	// destination and source differ by 1..15 modulo a page, which a bare
	// 4-byte prefix at the start of a buffer provokes when it is copied on.
	frameHeadroom = 64
	payloadOffset = frameHeadroom + prefixBytes

	classBitsMin = 8  // 256 B
	classBitsMax = 31 // more than the largest frame there can be
	// slabBits is the first class with mappings of its own; smaller buffers
	// are cut from slabs that are kept for ever.
	slabBits  = 18
	slabBytes = 1 << 20
	// keptBytesMax bounds the free mappings of one loop.
	keptBytesMax = 64 << 20
)

// chunk is shared receive memory. Loop-confined.
type chunk struct {
	mem []byte
	// pos is where the next receive goes.
	pos int
	// refs counts the frames that lie in mem.
	refs int
	// retired says that no more is received into it: it goes back to its pool
	// with the last reference.
	retired bool
	// charged says that its bytes count as request memory.
	charged bool
	// home takes it back instead of the loop's pool, where it has one.
	home chunkHome
	next *chunk
}

// chunkHome is the place of a chunk that a poller provides to the kernel.
type chunkHome interface{ takeBack() }

// freeNode heads a free buffer, in the buffer itself.
type freeNode struct{ next *freeNode }

// class is the free list of one size.
type class struct {
	free  *freeNode
	count int
	// idleMin is the smallest count since the last trim: that many were not
	// needed.
	idleMin int
}

// arena hands out buffers to one loop. Loop-confined.
type arena struct {
	classes [classBitsMax + 1]class
	slab    []byte
	slabs   [][]byte
	// kept is the bytes of free mappings.
	kept int64
}

func mapMemory(n int) []byte {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		// As a failed heap allocation would be.
		panic("netio: out of memory: " + err.Error())
	}
	return unsafe.Slice((*byte)(p), n)
}

func unmapMemory(p []byte) {
	if err := unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(p)), uintptr(cap(p))); err != nil {
		panic("BUG: netio: munmap: " + err.Error())
	}
}

func classOf(n int) int { return max(classBitsMin, bits.Len(uint(n-1))) }

// get returns a buffer of at least n bytes; its length is its class.
func (a *arena) get(n int) []byte {
	k := classOf(n)
	c := &a.classes[k]
	if node := c.free; node != nil {
		c.free = node.next
		c.count--
		c.idleMin = min(c.idleMin, c.count)
		if k >= slabBits {
			a.kept -= 1 << k
		}
		return unsafe.Slice((*byte)(unsafe.Pointer(node)), 1<<k)
	}
	if k >= slabBits {
		return mapMemory(1 << k)
	}
	if len(a.slab) < 1<<k {
		// What is left of the old slab, always a multiple of the smallest
		// class, becomes free buffers.
		for len(a.slab) > 0 {
			rest := bits.TrailingZeros(uint(len(a.slab)))
			a.put(a.slab[: 1<<rest : 1<<rest])
			a.slab = a.slab[1<<rest:]
		}
		a.slab = mapMemory(slabBytes)
		a.slabs = append(a.slabs, a.slab)
	}
	p := a.slab[: 1<<k : 1<<k]
	a.slab = a.slab[1<<k:]
	return p
}

// put takes back a buffer from get.
func (a *arena) put(p []byte) {
	mangle(p)
	k := classOf(len(p))
	if k >= slabBits {
		if a.kept+1<<k > keptBytesMax {
			unmapMemory(p)
			return
		}
		a.kept += 1 << k
	}
	node := (*freeNode)(unsafe.Pointer(unsafe.SliceData(p)))
	c := &a.classes[k]
	node.next = c.free
	c.free = node
	c.count++
}

// trim unmaps the large buffers that were not needed since the last trim.
func (a *arena) trim() {
	for k := slabBits; k <= classBitsMax; k++ {
		c := &a.classes[k]
		for ; c.idleMin > 0; c.idleMin-- {
			node := c.free
			c.free = node.next
			c.count--
			a.kept -= 1 << k
			unmapMemory(unsafe.Slice((*byte)(unsafe.Pointer(node)), 1<<k))
		}
		c.idleMin = c.count
	}
}

// close unmaps everything; no buffer may be in use.
func (a *arena) close() {
	for k := slabBits; k <= classBitsMax; k++ {
		a.classes[k].idleMin = a.classes[k].count
	}
	a.trim()
	for _, s := range a.slabs {
		unmapMemory(s)
	}
	*a = arena{}
}
