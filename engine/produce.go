package engine

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Produce, v3–v13 (ProduceRequest.json; KafkaApis.handleProduceRequest,
// ReplicaManager.appendRecords).
//
//   - One batch per partition, checked before any lock; a batch whose check must
//     decompress or compress is checked by a worker, and then what its
//     connection sends after it waits, so that the log keeps the order.
//   - The appends of one turn of the loop go to each partition in one call.
//   - Every partition has its own outcome. v8 adds messages and the records at
//     fault (KIP-467), v10 leader hints (KIP-951), v13 names topics by id.
//   - acks=0 gets no answer; if anything failed the connection is closed, so
//     that the producer refreshes its metadata.
//   - acks=-1 answers when the high watermark has passed the batch, or with
//     REQUEST_TIMED_OUT (the batch is written and may still be replicated).
//   - A partition named twice in one request: the later batch stands, the
//     earlier is dropped and there is one answer, as in Kafka, where a map
//     holds the batches.
//   - Transactions are refused until they exist, see errUnsupportedTransactions.

// adminClientID may write to internal topics (AdminUtils.ADMIN_CLIENT_ID).
const adminClientID = "__admin_client"

// producePart is one partition of a request.
type producePart struct {
	// append must not move while it is on its way: parts never grow then.
	append    replication.Append
	partition *replication.Partition
	records   []byte // of the request; nil once it is checked
	batch     record.Batch
	err       error // outcome; nil is success or unknown yet
	replaced  bool  // a later batch of the request took its place: no answer
	appended  bool
	acked     bool // by the ISR, for good: it is not asked again
	node      waitNode
}

// produceOp is one Produce request from decoding to its answer. Pooled per loop.
type produceOp struct {
	waiterLinks
	answer
	loop       *loop
	request    wire.ProduceRequest // slices of the frame
	parts      []producePart       // all partitions of request, in order
	names      []byte              // topic names, once the frame is given back
	frameBytes int                 // of the request
	policy     record.Policy       // scratch of check
	now        record.Timestamp    // when it arrived
	deadline   netio.Instant
	left       atomic.Int32 // appends without outcome
	waiting    int          // partitions without acknowledgement
	timer      netio.Timer
	next       *produceOp // free list
}

// produce starts a Produce request.
func (lp *loop) produce(k *call) {
	op := lp.takeProduceOp()
	if err := op.request.Decode(k.header.Version, k.header.Body); err != nil {
		lp.freeProduceOp(op)
		k.fail(err.Error())
		return
	}
	op.answer, op.conn, op.frameBytes = k.answer(), k.conn, len(k.req.Payload())
	k.exempt = op.request.Acks == 0
	op.now = record.Timestamp(lp.net.NowMs())
	op.deadline = lp.after(time.Duration(max(op.request.TimeoutMs, 0)) * time.Millisecond)
	needsWorker := op.resolve(string(k.header.ClientID) == adminClientID)
	if needsWorker {
		// The worker must not share the connection's order with later requests.
		k.taken = true
		op.conn.stalled++
		lp.engine.checks.submit(op.checkOffLoop)
		return
	}
	op.check()
	k.taken = true
	op.enqueue()
}

// resolve finds the partitions and what refuses them before their batches are
// looked at, and reports whether those must be checked off the loop.
func (op *produceOp) resolve(adminClient bool) (needsWorker bool) {
	lp, req := op.loop, &op.request
	op.reserve()
	i := 0
	for t := range req.Topics {
		topic := &req.Topics[t]
		for p := range topic.Partitions {
			part := &op.parts[i]
			i++
			part.records = topic.Partitions[p].Records
			part.partition, part.err = lp.lookup(op.version >= 13, topic.Name, topic.ID, topic.Partitions[p].Index)
			switch {
			case part.err != nil:
			case req.Acks < -1 || req.Acks > 1:
				part.err = kerr.InvalidRequiredAcks
			case !adminClient && meta.IsInternal(part.partition.TopicPartition().Topic):
				part.err = record.Errorf(kerr.InvalidTopicException, "Cannot append to internal topic %s", part.partition.TopicPartition().Topic)
			case req.TransactionalID != nil:
				part.err = errUnsupportedTransactions
			default:
				op.policy = part.partition.Config().Policy
				op.policy.RefuseZstd = op.version < 7
				needsWorker = needsWorker || op.policy.NeedsWorker(part.records)
			}
		}
	}
	return needsWorker
}

// reserve makes room for all partitions at once, since parts must not move.
func (op *produceOp) reserve() {
	n := 0
	for t := range op.request.Topics {
		n += len(op.request.Topics[t].Partitions)
	}
	if cap(op.parts) < n {
		op.parts = make([]producePart, n)
	}
	op.parts = op.parts[:n]
}

// check validates the batches. On the loop, or on a worker while the loop
// leaves the request alone.
func (op *produceOp) check() {
	for i := range op.parts {
		part := &op.parts[i]
		if part.err == nil {
			op.policy = part.partition.Config().Policy
			op.policy.RefuseZstd = op.version < 7
			op.policy.Now = op.now
			part.batch, part.err = op.policy.Check(part.records)
			if part.err == nil && part.batch.Attributes().Transactional() {
				part.err = errUnsupportedTransactions
			}
		}
		part.records = nil
	}
}

// checkOffLoop is check on a worker.
func (op *produceOp) checkOffLoop() {
	defer op.loop.net.Post((*produceChecked)(op))
	defer func() {
		if v := recover(); v != nil {
			op.loop.engine.logPanic(op.req, v)
			for i := range op.parts {
				op.parts[i].err = kerr.UnknownServerError
			}
		}
	}()
	op.check()
}

// produceChecked brings a request back from the worker.
type produceChecked produceOp

// Run implements netio.Task.
func (c *produceChecked) Run(*netio.Loop) {
	op := (*produceOp)(c)
	co, lp := op.conn, op.loop
	defer lp.recoverPanic(op.req)
	op.enqueue()
	co.stalled--
	// What came meanwhile, until the next one that needs a worker.
	n := 0
	for n < len(co.queue) && co.stalled == 0 {
		r := co.queue[n]
		co.queue[n] = nil
		n++
		lp.dispatch(co, r)
	}
	co.queue = co.queue[:copy(co.queue, co.queue[n:])]
}

// enqueue puts the good batches into the turn's chains; without any the answer
// is ready.
func (op *produceOp) enqueue() {
	lp := op.loop
	// Counted before any is handed over, which is when outcomes begin to come.
	n := int32(0)
	for i := range op.parts {
		part := &op.parts[i]
		if part.err != nil {
			continue
		}
		a := &part.append
		a.Batch, a.FromClient, a.AppendTime = part.batch, true, op.now
		a.RequiredAcks = op.request.Acks
		a.Next, a.Done = nil, op
		if lp.chain(op, a, part.partition) {
			part.appended = true
			n++
		} else {
			part.replaced = true
		}
		part.batch = nil
	}
	op.left.Store(n)
	if n == 0 {
		op.finish()
	}
}

// chain adds an append to the turn's chain of its partition. If the chain ends
// with another append of the same request, that one takes the new batch and
// chain returns false.
func (lp *loop) chain(op *produceOp, a *replication.Append, p *replication.Partition) bool {
	i, ok := lp.chainOf[p]
	if !ok {
		lp.chainOf[p] = len(lp.chains)
		lp.chains = append(lp.chains, chain{partition: p, head: a, tail: a})
		return true
	}
	c := &lp.chains[i]
	if c.tail.Done == replication.AppendDone(op) {
		c.tail.Batch = a.Batch
		return false
	}
	c.tail.Next = a
	c.tail = a
	return true
}

// AppendDone implements replication.AppendDone, on whatever goroutine did the
// append.
func (op *produceOp) AppendDone(*replication.Append) {
	if op.left.Add(-1) == 0 {
		op.loop.inbox.add(op.loop, nil, op)
	}
}

// produced goes on with a request whose appends all have their outcome.
func (lp *loop) produced(op *produceOp) {
	defer lp.recoverPanic(op.req)
	for i := range op.parts {
		part := &op.parts[i]
		if part.appended && part.append.Err != nil {
			part.err = part.append.Err
		}
		part.append.Batch = nil // a slice of the frame
	}
	if op.request.Acks == -1 && !op.acknowledged() && op.req.Alive() {
		op.park()
		return
	}
	op.finish()
}

// finish answers the request and ends it.
func (op *produceOp) finish() {
	lp := op.loop
	switch {
	case op.request.Acks != 0:
		op.respond()
	default:
		op.throttle()
		if err := op.firstError(); err != nil {
			op.req.Fail(err)
		} else {
			op.req.NoReply()
		}
	}
	lp.freeProduceOp(op)
}

// firstError is why an acks=0 producer loses its connection.
func (op *produceOp) firstError() error {
	i := 0
	for t := range op.request.Topics {
		topic := &op.request.Topics[t]
		for p := range topic.Partitions {
			if err := op.parts[i].err; err != nil {
				return fmt.Errorf("engine: produce with acks=0 to %s-%d: %w", op.topicName(topic), topic.Partitions[p].Index, err)
			}
			i++
		}
	}
	return nil
}

func (op *produceOp) topicName(t *wire.ProduceTopic) string {
	if op.version >= 13 {
		return record.TopicID(t.ID).String()
	}
	return string(t.Name)
}

// respond builds the answer.
func (op *produceOp) respond() {
	lp := op.loop
	resp := &lp.produceResponse
	resp.Reset()
	lp.endpoints = lp.endpoints[:0]
	i := 0
	for t := range op.request.Topics {
		topic := &op.request.Topics[t]
		answer := resp.AddTopic()
		answer.Name, answer.ID = topic.Name, topic.ID
		for p := range topic.Partitions {
			part := &op.parts[i]
			i++
			if part.replaced {
				continue
			}
			a := resp.AddPartition(topic.Partitions[p].Index)
			if part.err != nil {
				op.refuse(a, part, topic)
				continue
			}
			a.BaseOffset = int64(part.append.BaseOffset)
			a.LogAppendTimeMs = int64(part.append.LogAppendTime)
			a.LogStartOffset = int64(part.append.LogStartOffset)
		}
	}
	resp.NodeEndpoints = lp.endpoints
	resp.ThrottleMs = op.throttle()
	op.begin()
	out := op.req.Out()
	out.Buf = resp.Append(out.Buf, op.version)
	op.req.Done()
}

// refuse fills in the answer of a partition that failed.
func (op *produceOp) refuse(a *wire.ProducePartitionResponse, part *producePart, topic *wire.ProduceTopic) {
	err := part.err
	a.ErrorCode = asKerr(err).Code
	op.loop.stats.requests.Failed(op.key, a.ErrorCode)
	if part.partition != nil {
		part.partition.CountFailedProduce()
		if tellsLogStart(a.ErrorCode) {
			a.LogStartOffset = int64(part.partition.Offsets().LogStart)
		}
	}
	a.ErrorMessage = errorMessage(err)
	a.RecordErrors = recordErrors(err)
	if a.ErrorCode == codeNotLeader && op.version >= 10 {
		a.CurrentLeader = op.loop.leaderHint(op.conn.net.Listener(), op.version >= 13, topic.Name, topic.ID, a.Index)
	}
	if !expected(err) {
		op.loop.engine.complain("produce failed", "topic", op.topicName(topic), "partition", a.Index, "err", err)
	}
}

// tellsLogStart says whether Kafka gives the log start offset with an error: it
// does where the log was asked (ReplicaManager.appendToLocalLog).
func tellsLogStart(code int16) bool {
	switch code {
	case kerr.InvalidTimestamp.Code, kerr.OutOfOrderSequenceNumber.Code, kerr.InvalidProducerEpoch.Code,
		kerr.UnknownProducerID.Code, kerr.NotEnoughReplicas.Code:
		return true
	}
	return false
}

// takeProduceOp returns a request's state from the pool.
func (lp *loop) takeProduceOp() *produceOp {
	op := lp.freeProduce
	if op == nil {
		op = &produceOp{loop: lp}
		op.timer.Task = (*produceTimeout)(op)
		return op
	}
	lp.freeProduce, op.next = op.next, nil
	lp.freeProduces--
	return op
}

// producePartsKept and produceNamesKept bound the arrays that a pooled request
// keeps, produceOpsKept the pool.
const (
	producePartsKept = 256
	produceNamesKept = 4 << 10 // bytes
	produceOpsKept   = 1024
)

// freeProduceOp gives it back.
func (lp *loop) freeProduceOp(op *produceOp) {
	if lp.freeProduces >= produceOpsKept {
		return
	}
	lp.freeProduces++
	clear(op.parts)
	op.parts = op.parts[:0]
	if cap(op.parts) > producePartsKept {
		op.parts = nil
	}
	if cap(op.names) > produceNamesKept {
		op.names = nil
	}
	op.request.Reset()
	op.answer, op.conn = answer{}, nil
	op.waiting = 0
	op.next, lp.freeProduce = lp.freeProduce, op
}
