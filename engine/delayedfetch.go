package engine

import (
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/storage/record"
)

// A parked Fetch holds offsets only: the spans of the read that was too small
// are given back. When a partition moves, only that one is looked at, and the
// sum of what is available kept; the answer is a new read of all (DelayedFetch).

// park lets the request wait until min_bytes are there, something fails, or
// max_wait is over.
func (op *fetchOp) park() {
	lp := op.loop
	op.waited = true
	op.available = 0
	for i := range op.parts {
		part := &op.parts[i]
		if part.partition == nil {
			continue
		}
		part.seen, part.available = op.end(part.result.Offsets), 0
		if s := part.result.Span; s != nil {
			part.available = min(s.Length(), int64(part.maxBytes))
			op.available += part.available
			part.result.Span = nil
			s.Release()
		}
		part.node.waiter, part.node.part = op, i
		lp.wait(&part.node, part.partition)
	}
	op.conn.parked.add(op)
	op.req.Park()
	lp.stats.delayedFetches++
	lp.net.AddTimer(&op.timer, op.deadline)
	if lp.draining || op.satisfied() {
		op.expire()
	}
}

// satisfied looks at all partitions, once they are waited for.
func (op *fetchOp) satisfied() bool {
	for i := range op.parts {
		if part := &op.parts[i]; part.partition != nil && op.look(part) {
			return true
		}
	}
	return false
}

// look reports whether the request can be answered, as far as this partition
// says (DelayedFetch.tryComplete, cases A to H).
func (op *fetchOp) look(part *fetchPart) bool {
	p := part.partition
	if p.CheckLeader(part.leaderEpoch) != nil {
		return true // the read will say what it is
	}
	if part.lastFetchedEpoch != record.NoLeaderEpoch {
		epoch, end, err := p.EndOffsetForEpoch(part.leaderEpoch, part.lastFetchedEpoch)
		if err != nil || epoch < part.lastFetchedEpoch || end < part.offset {
			return true // histories diverge
		}
	}
	end := op.end(p.Offsets())
	switch {
	case part.offset > end:
		return true // the log was cut, or this reader knows more than we do
	case part.offset < end && op.minBytes > 1 && rolled(p, part.offset, end):
		return true // case F: one read can no longer give all that there is
	case end == part.seen:
		return op.available >= int64(op.minBytes)
	case op.minBytes <= 1:
		return true
	}
	part.seen = end
	res, err := p.Read(replication.ReadParams{
		Offset: part.offset, MaxBytes: min(part.maxBytes, op.maxBytes), MinOne: true,
		Isolation: op.isolation, Replica: op.isReplica(), Nowait: true,
		CurrentLeaderEpoch: part.leaderEpoch, LastFetchedEpoch: record.NoLeaderEpoch,
	})
	if err != nil {
		return true // or what is there has left memory: it has waited long enough
	}
	if res.Span == nil {
		return op.counted(part, 0)
	}
	n := res.Span.Length()
	res.Span.Release()
	return op.counted(part, min(n, int64(part.maxBytes)))
}

// rolled says that [from, end) is spread over segments, or gone.
func rolled(p *replication.Partition, from, end record.Offset) bool {
	log := p.Log()
	return log == nil || !log.SameSegment(from, end)
}

// counted notes what a partition has to give and reports whether all together
// have enough.
func (op *fetchOp) counted(part *fetchPart, n int64) bool {
	op.available += n - part.available
	part.available = n
	return op.available >= int64(op.minBytes)
}

// end is where this reader's view of a log ends.
func (op *fetchOp) end(o replication.Offsets) record.Offset {
	switch {
	case op.isReplica():
		return o.LEO
	case op.isolation == record.ReadCommitted:
		return o.LSO
	}
	return o.HW
}

func (op *fetchOp) unpark() {
	for i := range op.parts {
		op.parts[i].node.unlink()
	}
	if op.parked {
		op.loop.stats.delayedFetches--
		op.req.Unpark()
	}
	op.conn.parked.remove(op)
	op.loop.net.StopTimer(&op.timer)
}

func (op *fetchOp) links() *waiterLinks { return &op.waiterLinks }

func (op *fetchOp) netRequest() *netio.Request { return op.req }

// advanced implements waiter.
func (op *fetchOp) advanced(part int) {
	if op.look(&op.parts[part]) {
		op.expire()
	}
}

// expire implements waiter: it answers with what there is now.
func (op *fetchOp) expire() {
	op.unpark()
	op.startRead()
	op.goOn(op.read(true))
}

// abandon implements waiter.
func (op *fetchOp) abandon() {
	op.unpark()
	op.drop()
}

// fetchTimeout is the timer of a parked request.
type fetchTimeout fetchOp

// Run implements netio.Task.
func (t *fetchTimeout) Run(*netio.Loop) {
	op := (*fetchOp)(t)
	defer op.loop.recoverPanic(op.req)
	op.expire()
}
