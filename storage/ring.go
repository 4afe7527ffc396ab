package storage

import (
	"sync/atomic"

	"github.com/posthouse/posthouse/storage/record"
)

// ringSize is how many batch boundaries of its tail the active segment
// remembers.
const ringSize = 128

// boundary is where one batch ends and the next begins.
type boundary struct {
	offset record.Offset
	pos    Position
}

// tailRing remembers the latest batch boundaries of the active segment, so
// that a reader at the tail finds its batch without a system call. One writer,
// any number of readers, no locks: the writer first reserves the slots that it
// will overwrite, then writes them, then publishes. A reader that finds its
// slots reserved meanwhile throws away what it read.
type tailRing struct {
	reserved  atomic.Int64 // boundaries ever pushed, ahead of writing them
	published atomic.Int64 // boundaries ever pushed
	offsets   [ringSize]atomic.Int64
	positions [ringSize]atomic.Int64
}

// push adds boundaries in order.
func (r *tailRing) push(bs []boundary) {
	n := r.published.Load()
	r.reserved.Store(n + int64(len(bs)))
	skip := max(0, len(bs)-ringSize)
	for i, b := range bs[skip:] {
		slot := (n + int64(skip+i)) % ringSize
		r.offsets[slot].Store(int64(b.offset))
		r.positions[slot].Store(int64(b.pos))
	}
	r.published.Store(n + int64(len(bs)))
}

// floor finds the last boundary at or below an offset, and the boundary after
// it (equal to the first if there is none). ok is false where the ring does
// not reach back so far, or lost a race with the writer.
func (r *tailRing) floor(o record.Offset) (at, next boundary, ok bool) {
	end := r.published.Load()
	lo := max(0, end-ringSize)
	hi := end
	first := lo
	for lo < hi { // first boundary above o
		mid := (lo + hi) / 2
		if r.offsets[mid%ringSize].Load() <= int64(o) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == first {
		return at, next, false
	}
	at = r.load(lo - 1)
	next = at
	if lo < end {
		next = r.load(lo)
	}
	return at, next, first >= r.reserved.Load()-ringSize
}

func (r *tailRing) load(i int64) boundary {
	return boundary{record.Offset(r.offsets[i%ringSize].Load()), Position(r.positions[i%ringSize].Load())}
}
