package replication

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// MaxSlots is the number of waiters, one per event loop, that a partition can
// wake.
const MaxSlots = 64

// Waker is told that a partition's offsets or leadership have moved. It runs
// on the goroutine that moved them, maybe another loop's: it must only post
// and return. The same news may come more than once.
type Waker interface{ PartitionAdvanced(p *Partition) }

// wakers is who waits in each slot, shared by all partitions of a node so that
// a partition itself costs 8 bytes.
type wakers struct {
	slots [MaxSlots]atomic.Pointer[Waker]
}

func (t *wakers) set(slot int, w Waker) {
	if old := t.slots[slot].Load(); old != nil {
		if *old != w {
			panic(fmt.Sprintf("BUG: slot %d has two wakers", slot))
		}
		return
	}
	t.first(slot, w)
}

// first is apart from set so that only a slot's first waiter is put on the
// heap.
//
//go:noinline
func (t *wakers) first(slot int, w Waker) {
	if !t.slots[slot].CompareAndSwap(nil, &w) {
		t.set(slot, w)
	}
}

// Wait asks that w be told of every change from now on, until Unwait. The
// caller sets it first and then looks once more at Offsets and CheckLeader: a
// change either is seen by that look or calls w. A slot has one waker for life.
func (p *Partition) Wait(slot int, w Waker) {
	if p.waiting.Load()&(1<<slot) == 0 {
		p.wakers.set(slot, w)
		p.waiting.Or(1 << slot)
	}
}

// Unwait ends a Wait. A call that is under way may still arrive.
func (p *Partition) Unwait(slot int) { p.waiting.And(^(uint64(1) << slot)) }

// wake tells all who wait.
func (p *Partition) wake() {
	for set := p.waiting.Load(); set != 0; set &= set - 1 {
		w := p.wakers.slots[bits.TrailingZeros64(set)].Load()
		(*w).PartitionAdvanced(p)
	}
}
