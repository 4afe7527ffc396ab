package engine

import (
	"github.com/posthouse/posthouse/netio"
	"github.com/twmb/franz-go/pkg/kerr"
)

// A parked Produce holds the offsets that its batches got, and waits for the
// high watermarks to pass them (DelayedProduce).

// acknowledged looks at every partition that the ISR has yet to confirm.
func (op *produceOp) acknowledged() bool {
	op.waiting = 0
	for i := range op.parts {
		part := &op.parts[i]
		if !part.awaited() {
			continue
		}
		done, err := part.partition.CheckAcked(part.append.LastOffset + 1)
		part.err, part.acked = err, done && err == nil
		if !done {
			op.waiting++
		}
	}
	return op.waiting == 0
}

// awaited says that the ISR has yet to confirm the partition.
func (p *producePart) awaited() bool { return p.appended && !p.acked && p.err == nil }

// park waits for the high watermarks (DelayedProduce).
func (op *produceOp) park() {
	lp := op.loop
	op.keepNames()
	op.req.ReleasePayload()
	for i := range op.parts {
		part := &op.parts[i]
		if part.awaited() {
			part.node.waiter, part.node.part = op, i
			lp.wait(&part.node, part.partition)
		}
	}
	if op.acknowledged() {
		op.unpark()
		op.finish()
		return
	}
	op.conn.parked.add(op)
	op.req.Park()
	lp.stats.delayedProduces++
	lp.net.AddTimer(&op.timer, op.deadline)
	if lp.draining {
		op.expire()
	}
}

// keepNames moves the topic names out of the frame, which is given back.
func (op *produceOp) keepNames() {
	op.names = op.names[:0]
	for t := range op.request.Topics {
		op.names = append(op.names, op.request.Topics[t].Name...)
	}
	rest := op.names
	for t := range op.request.Topics {
		topic := &op.request.Topics[t]
		n := len(topic.Name)
		topic.Name, rest = rest[:n:n], rest[n:]
		for p := range topic.Partitions {
			topic.Partitions[p].Records = nil
		}
	}
}

// unpark takes the request out of all lists.
func (op *produceOp) unpark() {
	for i := range op.parts {
		op.parts[i].node.unlink()
	}
	if op.parked {
		op.loop.stats.delayedProduces--
		op.req.Unpark()
	}
	op.conn.parked.remove(op)
	op.loop.net.StopTimer(&op.timer)
}

func (op *produceOp) links() *waiterLinks        { return &op.waiterLinks }
func (op *produceOp) netRequest() *netio.Request { return op.req }

// advanced implements waiter.
func (op *produceOp) advanced(int) {
	if op.acknowledged() {
		op.unpark()
		op.finish()
	}
}

// expire implements waiter.
func (op *produceOp) expire() {
	op.unpark()
	for i := range op.parts {
		part := &op.parts[i]
		if !part.awaited() {
			continue
		}
		done, err := part.partition.CheckAcked(part.append.LastOffset + 1)
		if !done {
			err = kerr.RequestTimedOut
		}
		part.err = err
	}
	op.finish()
}

// abandon implements waiter.
func (op *produceOp) abandon() {
	op.unpark()
	op.req.NoReply()
	op.loop.freeProduceOp(op)
}

// produceTimeout is the timer of a parked request.
type produceTimeout produceOp

// Run implements netio.Task.
func (t *produceTimeout) Run(*netio.Loop) {
	op := (*produceOp)(t)
	defer op.loop.recoverPanic(op.req)
	op.expire()
}
