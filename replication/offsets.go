package replication

import (
	"fmt"
	"sync/atomic"

	"github.com/posthouse/posthouse/storage/record"
)

// Offsets are the four offsets of a partition. LogStart is the first offset
// that is there; the others are exclusive ends: what read_committed consumers
// may see (LSO), what consumers may see (HW), what is in the log (LEO).
// LogStart ≤ LSO ≤ HW ≤ LEO always.
type Offsets struct {
	LogStart, LSO, HW, LEO record.Offset
}

// offsetsCell publishes Offsets to readers without a lock. Only the holder of
// the partition's combiner writes it.
type offsetsCell struct {
	logStart, lso, hw, leo atomic.Int64
}

// load reads the offsets in ascending order of position. Each only grows while
// this node leads, so a value read later is at least the one that bounded an
// earlier one, and the order holds in the copy too, though a writer moves on
// meanwhile.
func (c *offsetsCell) load() Offsets {
	return Offsets{
		LogStart: record.Offset(c.logStart.Load()),
		LSO:      record.Offset(c.lso.Load()),
		HW:       record.Offset(c.hw.Load()),
		LEO:      record.Offset(c.leo.Load()),
	}
}

// set is the one place where offsets move. It returns whether any did. The
// stores go from the end to the start, so that no reader ever sees an offset
// beyond the next one.
func (c *offsetsCell) set(o Offsets) bool {
	if o.LogStart > o.LSO || o.LSO > o.HW || o.HW > o.LEO || o.LogStart < 0 {
		panic(fmt.Sprintf("BUG: offsets out of order: logStart %d, LSO %d, HW %d, LEO %d", o.LogStart, o.LSO, o.HW, o.LEO))
	}
	moved := false
	store := func(a *atomic.Int64, v record.Offset) {
		if a.Load() != int64(v) {
			a.Store(int64(v))
			moved = true
		}
	}
	store(&c.leo, o.LEO)
	store(&c.hw, o.HW)
	store(&c.lso, o.LSO)
	store(&c.logStart, o.LogStart)
	return moved
}
