package replication

import (
	"sync/atomic"

	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// acksAll is the acks of a producer that waits for the whole ISR.
const acksAll = -1

// Append is one producer batch on its way into a partition. The caller owns it
// before Partition.Append and again from the moment Done is called; the
// outcome is in the embedded storage.Append.
type Append struct {
	storage.Append
	RequiredAcks int16
	// Fenced has the append refused with NOT_LEADER_OR_FOLLOWER if it is written
	// in another leader epoch than LeaderEpoch: a coordinator has read the log up
	// to its leadership's start, and nothing of an earlier one may come behind
	// that.
	Fenced      bool
	LeaderEpoch record.LeaderEpoch
	// Next chains appends of one partition, in order, into one call. The
	// partition uses it while it owns the append.
	Next *Append
	// Partition is the one this went to, set by Partition.Append.
	Partition *Partition
	// Done hears of the outcome, once.
	Done AppendDone
}

// AppendDone hears of an append's outcome. It runs on the goroutine that held
// the combiner, maybe another loop's: it must only post and return.
type AppendDone interface{ AppendDone(a *Append) }

// combiner lets many loops append to one log without waiting for one another.
//
// Every append is pushed on a lock-free stack; then the caller tries to become
// the holder. Whoever holds drains the stack, oldest first, writes all of it
// with one call, publishes the offsets, completes the appends, and looks
// again, until the stack is empty. Whoever does not get it has nothing to wait
// for: the holder looks at the stack once more after letting go, so a push
// that lost the race is never left behind. Order is kept per caller, since a
// caller's pushes are ordered and the drain reverses the stack.
//
// Under saturation the stack never is empty, and one loop would write for all
// others while its own connections wait. So a holder drains drainsMax times at
// most, lets go, and is told that it owes another Drain: in between the next
// append from anywhere takes over.
//
// Role changes, truncation and DeleteRecords need the log to themselves and
// may sleep. They claim the combiner (exclusive): the holder hands it over
// between two drains, and what is appended meanwhile queues up.
//
// A log that has to open its files first is no work for a loop: the holder lets
// go and has a worker drain (warmUp); what is appended meanwhile queues up. The
// combiner does not go with that job, which may have to wait for workers that
// wait for the combiner.
//
// A mutex around the log was rejected: a loop would sleep through another
// loop's write. A channel to a writer goroutine costs two wake-ups (LAB: 22 µs
// for each hand-off between locked threads).
type combiner struct {
	stack atomic.Pointer[Append]
	held  atomic.Bool
	claim atomic.Pointer[chan struct{}]
	// warming says that warmUp is on its way to a worker.
	warming atomic.Bool

	// Scratch of the holder, kept between drains.
	appends []*Append
	batches []*storage.Append
}

// push puts a chain on the stack, newest on top.
func (c *combiner) push(chain *Append) {
	first := chain
	var reversed *Append
	for chain != nil {
		next := chain.Next
		chain.Next = reversed
		reversed, chain = chain, next
	}
	for {
		top := c.stack.Load()
		first.Next = top
		if c.stack.CompareAndSwap(top, reversed) {
			return
		}
	}
}

// take empties the stack into c.appends, oldest first.
func (c *combiner) take() bool {
	top := c.stack.Swap(nil)
	if top == nil {
		return false
	}
	var ordered *Append
	for top != nil {
		next := top.Next
		top.Next = ordered
		ordered, top = top, next
	}
	c.appends = c.appends[:0]
	for a := ordered; a != nil; {
		next := a.Next
		a.Next = nil
		c.appends = append(c.appends, a)
		a = next
	}
	return true
}

// drainsMax is how many writes one call makes before it lets others have a go.
const drainsMax = 4

// Append hands over a chain of appends (linked by Next, Done and Batch set).
// It never waits for a lock. Each append's Done is called exactly once: during
// this call, or later by whoever holds the partition. If it returns true, appends
// of others are left and nobody is at them: the caller comes back with Drain,
// once it has looked after its own.
func (p *Partition) Append(chain *Append) (left bool) {
	for a := chain; a != nil; a = a.Next {
		a.Partition = p
	}
	p.combiner.push(chain)
	return p.Drain()
}

// Drain works off what is queued if nobody else does, for a while; true as for
// Append.
func (p *Partition) Drain() (left bool) { return p.drain(false) }

// drain is Drain; maySleep says that the caller is a worker.
func (p *Partition) drain(maySleep bool) (left bool) {
	c := &p.combiner
	writes := 0
	for c.held.CompareAndSwap(false, true) {
		leave := !maySleep && p.cold()
		limit := drainsMax - writes
		if leave {
			limit = 0 // but a claim is answered
		}
		n, handedOver := p.drainHeld(limit)
		if handedOver {
			return false
		}
		writes += n
		c.held.Store(false)
		switch {
		case c.claim.Load() != nil: // it is answered, even if no more is written
		case c.stack.Load() == nil:
			return false
		case leave:
			if c.warming.CompareAndSwap(false, true) {
				p.exec.Submit(p.warmUp)
			}
			return false
		case writes >= drainsMax:
			return true
		}
	}
	return false
}

// cold says that what is queued would make the log open files and read, after a
// start or a long idle time: nothing for a loop.
func (p *Partition) cold() bool {
	v := p.view.Load()
	return v.state == ready && v.log.Cold()
}

// warmUp works off on a worker what a loop must not. warming ends first: who
// pushes before that is seen here, who pushes later sees that it is over.
func (p *Partition) warmUp() {
	p.combiner.warming.Store(false)
	p.drainAll()
}

// drainAll works off everything, unless a loop comes along and takes over.
func (p *Partition) drainAll() {
	for p.drain(true) {
	}
}

// drainHeld works the stack off with at most limit writes. It reports how many
// it made, and whether the combiner went to a claimant; otherwise the caller
// still holds it.
func (p *Partition) drainHeld(limit int) (writes int, handedOver bool) {
	c := &p.combiner
	for ; ; writes++ {
		if claim := c.claim.Load(); claim != nil && c.claim.CompareAndSwap(claim, nil) {
			close(*claim)
			return writes, true
		}
		if writes >= limit || !c.take() {
			return writes, false
		}
		p.write()
	}
}

// write appends what the holder took, publishes and completes.
func (p *Partition) write() {
	c := &p.combiner
	v := p.view.Load()
	c.batches = c.batches[:0]
	refused := v.checkLeader(record.NoLeaderEpoch)
	notEnough := refused == nil && len(v.isr) < v.minISR
	for _, a := range c.appends {
		switch {
		case refused != nil:
			a.fail(refused)
		case a.Fenced && a.LeaderEpoch != v.leaderEpoch:
			a.fail(kerr.NotLeaderForPartition)
		case notEnough && a.RequiredAcks == acksAll:
			a.fail(kerr.NotEnoughReplicas)
		case len(a.Batch) > int(v.config.SegmentBytes):
			a.fail(kerr.RecordListTooLarge) // it would fit into no segment (UnifiedLog.append)
		default:
			c.batches = append(c.batches, &a.Append)
		}
	}
	if len(c.batches) > 0 {
		v.log.AppendAsLeader(v.leaderEpoch, c.batches)
		if p.publish(v) {
			p.wake()
		}
	}
	p.counts.written(c.appends)
	// The appends belong to their callers again from Done on: keep no pointer.
	for i, a := range c.appends {
		c.appends[i] = nil
		a.Done.AppendDone(a)
	}
	clear(c.batches)
}

func (a *Append) fail(err error) {
	a.Err = err
	a.BaseOffset, a.LastOffset, a.LogStartOffset, a.LogAppendTime = -1, -1, -1, record.NoTimestamp
}

// exclusive runs fn while nothing else touches the log. It may sleep: worker
// context only. Appends that arrive meanwhile wait in the stack; they are worked
// off before exclusive returns, or by a loop that comes first.
func (p *Partition) exclusive(fn func()) {
	p.alone(fn)
	p.drainAll()
}

// alone is exclusive without what follows.
func (p *Partition) alone(fn func()) {
	p.control.Lock()
	defer p.control.Unlock()
	c := &p.combiner
	ch := make(chan struct{})
	c.claim.Store(&ch)
	if c.held.CompareAndSwap(false, true) {
		c.claim.Store(nil) // only a holder answers claims, and that is now us
	} else {
		<-ch
	}
	fn()
	c.held.Store(false)
}
