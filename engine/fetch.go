package engine

import (
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Fetch, v4–v18 (FetchRequest.json; KafkaApis.handleFetchRequest,
// ReplicaManager.fetchMessages, DelayedFetch).
//
//   - Answered at once if max_wait ≤ 0, nothing is asked of a partition that is
//     known, min_bytes are there, or a partition failed or diverges. Otherwise
//     the request parks (delayedfetch.go). A topic that is not known does not
//     make the answer come at once, as in Kafka.
//   - min_bytes is capped by max_bytes, max_bytes by fetch.max.bytes.
//   - The first batch of the first partition with any data is sent whole,
//     whatever the limits (KIP-74); later partitions obey them.
//   - OFFSET_OUT_OF_RANGE only outside [log start, log end].
//   - read_committed ends at the last stable offset and lists aborted
//     transactions; for others the list is null.
//   - Sessions (session.go), topic ids from v13 (KIP-516), diverging epochs from
//     v12 (KIP-595), leader hints from v16 (KIP-951).
//   - A topic whose compression.type is zstd is UNSUPPORTED_COMPRESSION_TYPE
//     below v10, decided by the topic's config as in Kafka (KIP-110).
//   - An isolation level that there is not, or a negative number of bytes, is
//     UNKNOWN_SERVER_ERROR, as in Kafka.
//   - KAFKA_STORAGE_ERROR is NOT_LEADER_OR_FOLLOWER up to v5.
//
// Record bytes never pass through here: a read gives a span of a segment file,
// which the network sends.

// answerBytesMax keeps an answer below what its length prefix can say.
const answerBytesMax = 1 << 30

// futureReplicaID is the replica id of a broker that fetches from itself into
// another directory (FetchRequest.FUTURE_LOCAL_REPLICA_ID).
const futureReplicaID = -3

// fetchPart is one partition of a request.
type fetchPart struct {
	partition *replication.Partition // nil if err says why there is none
	cached    *sessionPartition      // of the session, if there is one
	name      []byte                 // up to v12; not a slice of the frame
	id        record.TopicID         // v13+
	index     int32

	offset           record.Offset
	maxBytes         int32
	leaderEpoch      record.LeaderEpoch
	lastFetchedEpoch record.LeaderEpoch

	err     error
	result  replication.ReadResult
	aborted [2]int // range of fetchOp.aborted
	// seen is where the log ended for this reader at the last look while it is
	// parked, and available the bytes that were there from offset on.
	seen      record.Offset
	available int64
	node      waitNode
}

// sessionMode is what a request has to do with a session.
type sessionMode uint8

const (
	sessionless sessionMode = iota
	sessionNew              // to be made with the answer
	sessionIncremental
)

// fetchOp is one Fetch request from decoding to its answer. Pooled per loop.
type fetchOp struct {
	waiterLinks
	answer
	loop    *loop
	parts   []fetchPart // never grows while parked
	names   []byte      // names of topics that are not known
	aborted []storage.AbortedTxn

	mode    sessionMode
	session *fetchSession
	epoch   int32 // that the session must still have at the answer

	replicaID          int32
	isolation          record.Isolation
	minBytes, maxBytes int32
	maxWait            time.Duration
	deadline           netio.Instant

	// State of a read, which may begin on the loop and end on a worker.
	cursor    int   // next part to read
	remaining int32 // bytes of maxBytes left
	minOne    bool  // nothing found yet
	bytes     int64 // found
	urgent    bool  // a partition failed or diverges

	available   int64 // sum over parts, while parked
	waited      bool  // parked once: the next answer is final
	anyReadable bool  // at least one partition is known

	timer netio.Timer
	next  *fetchOp // free list
}

// fetch starts a Fetch request.
func (lp *loop) fetch(k *call) {
	req := &lp.fetchRequest
	if err := req.Decode(k.header.Version, k.header.Body); err != nil {
		req.Reset()
		k.fail(err.Error())
		return
	}
	op := lp.takeFetchOp()
	op.answer, op.conn = k.answer(), k.conn
	op.replicaID = req.ReplicaID
	lp.mark(op.req, op.version, op.isReplica(), len(op.req.Payload()))
	op.isolation = record.Isolation(req.Isolation)
	op.maxBytes = min(req.MaxBytes, lp.engine.config.FetchMaxBytes, answerBytesMax)
	op.bound()
	op.minBytes = min(req.MinBytes, op.maxBytes)
	k.exempt = op.isReplica()
	op.maxWait = time.Duration(req.MaxWaitMs) * time.Millisecond
	op.deadline = lp.after(op.maxWait)
	err := op.open(req)
	req.Reset()
	k.taken = true
	if err != nil {
		op.respondError(err)
		return
	}
	op.req.ReleasePayload()
	op.startRead()
	op.goOn(op.read(true))
}

// open finds or ends the session and lists the partitions.
func (op *fetchOp) open(req *wire.FetchRequest) *kerr.Error {
	cache := op.loop.engine.sessions
	if req.SessionEpoch == initialSessionEpoch || req.SessionEpoch == finalSessionEpoch {
		if req.SessionID != noSessionID {
			cache.remove(req.SessionID)
		}
		if req.SessionEpoch == initialSessionEpoch {
			op.mode = sessionNew
		}
		op.listRequest(req)
		return nil
	}
	s := cache.get(req.SessionID)
	if s == nil {
		return kerr.FetchSessionIDNotFound
	}
	size, err := s.begin(req, op.version >= 13)
	switch {
	case err != nil:
		return err
	case size == 0:
		cache.remove(s.id)
		op.listRequest(req)
	case !cache.touch(s, size, op.loop.net.NowMs()):
		return kerr.FetchSessionIDNotFound
	default:
		op.mode, op.session, op.epoch = sessionIncremental, s, nextSessionEpoch(req.SessionEpoch)
		op.listSession()
	}
	return nil
}

// listRequest takes the partitions from the request, in its order.
func (op *fetchOp) listRequest(req *wire.FetchRequest) {
	n := 0
	for t := range req.Topics {
		n += len(req.Topics[t].Partitions)
	}
	op.reserve(n)
	i := 0
	for t := range req.Topics {
		topic := &req.Topics[t]
		for p := range topic.Partitions {
			q := &topic.Partitions[p]
			part := &op.parts[i]
			part.id, part.index = topic.ID, q.Index
			part.offset, part.maxBytes = record.Offset(q.FetchOffset), q.MaxBytes
			part.leaderEpoch = record.LeaderEpoch(q.CurrentLeaderEpoch)
			part.lastFetchedEpoch = record.LeaderEpoch(q.LastFetchedEpoch)
			op.find(part, topic.Name)
			if n > 1 && op.askedBefore(i) {
				continue
			}
			i++
			switch {
			case op.version >= 13:
			case part.partition != nil:
				part.name = bytesOf(part.partition.TopicPartition().Topic)
			default:
				start := len(op.names)
				op.names = append(op.names, topic.Name...)
				part.name = op.names[start:]
			}
		}
	}
	clear(op.parts[i:])
	op.parts = op.parts[:i]
	clear(op.loop.asked)
}

// askedBefore looks for an earlier part with the partition of part i. If there is
// one it keeps its place and takes what part i asks, as in Kafka, where a linked
// map holds the partitions.
func (op *fetchOp) askedBefore(i int) bool {
	part := &op.parts[i]
	if part.partition == nil {
		return false
	}
	asked := op.loop.asked
	j, ok := asked[part.partition]
	if !ok {
		asked[part.partition] = i
		return false
	}
	op.parts[j].offset, op.parts[j].maxBytes = part.offset, part.maxBytes
	op.parts[j].leaderEpoch, op.parts[j].lastFetchedEpoch = part.leaderEpoch, part.lastFetchedEpoch
	*part = fetchPart{}
	return true
}

// listSession takes the partitions from the session, in its order.
func (op *fetchOp) listSession() {
	s := op.session
	s.mu.Lock()
	defer s.mu.Unlock()
	op.reserve(len(s.partitions))
	i := 0
	for c := s.head; c != nil; c = c.next {
		part := &op.parts[i]
		i++
		part.cached = c
		part.id, part.index, part.name = c.key.id, c.key.partition, bytesOf(c.key.name)
		part.offset, part.maxBytes = record.Offset(c.offset), c.maxBytes
		part.leaderEpoch = record.LeaderEpoch(c.leaderEpoch)
		part.lastFetchedEpoch = record.LeaderEpoch(c.lastFetchedEpoch)
		op.find(part, part.name)
	}
}

// reserve makes room for n partitions at once, since they must not move.
func (op *fetchOp) reserve(n int) {
	if cap(op.parts) < n {
		op.parts = make([]fetchPart, n)
	}
	op.parts = op.parts[:n]
}

// find looks the partition up. A partition that is known but not here is an
// error of reading; one that is not known is left out of it.
func (op *fetchOp) find(part *fetchPart, name []byte) {
	part.partition, part.err = op.loop.lookup(op.version >= 13, name, part.id, part.index)
	switch {
	case part.err == nil:
		op.anyReadable = true
		if op.isReplica() && !op.mayReplicate(part.partition) {
			part.partition, part.err = nil, kerr.NotLeaderForPartition
			op.urgent = true
		}
	case part.err == kerr.NotLeaderForPartition:
		op.anyReadable, op.urgent = true, true
	}
}

// isReplica says that a broker asks, which reads up to the log's end.
func (op *fetchOp) isReplica() bool { return op.replicaID >= 0 || op.replicaID == futureReplicaID }

// badIsolation says that the isolation level is none that Kafka has.
func (op *fetchOp) badIsolation() bool {
	return op.isolation != record.ReadUncommitted && op.isolation != record.ReadCommitted
}

// mayReplicate says whether the asking broker is assigned the partition.
func (op *fetchOp) mayReplicate(p *replication.Partition) bool {
	assigned := op.loop.engine.image().Partition(p.TopicPartition())
	return assigned != nil && op.replicaID != op.loop.engine.config.NodeID && slices.Contains(assigned.Replicas, op.replicaID)
}

// startRead sets out to read all partitions.
func (op *fetchOp) startRead() {
	op.cursor, op.remaining, op.minOne, op.bytes = 0, op.maxBytes, true, 0
	op.aborted = op.aborted[:0]
}

// read reads from cursor on. With nowait it stops at what is not in memory, and
// reports false.
func (op *fetchOp) read(nowait bool) bool {
	for ; op.cursor < len(op.parts); op.cursor++ {
		part := &op.parts[op.cursor]
		if part.partition == nil {
			continue
		}
		room := min(part.maxBytes, op.remaining)
		if room < 0 || op.badIsolation() {
			part.err, op.urgent = kerr.UnknownServerError, true
			continue
		}
		res, err := part.partition.Read(replication.ReadParams{
			Offset:             part.offset,
			MaxBytes:           room,
			MinOne:             op.minOne,
			Isolation:          op.isolation,
			Replica:            op.isReplica(),
			Nowait:             nowait,
			CurrentLeaderEpoch: part.leaderEpoch,
			LastFetchedEpoch:   part.lastFetchedEpoch,
		})
		part.aborted[0] = len(op.aborted)
		if err == nil && res.Span != nil && op.isolation == record.ReadCommitted {
			op.aborted, err = part.partition.AbortedTxns(op.aborted, part.offset, res.LSO, nowait)
			if err != nil {
				res.Span.Release()
				res.Span = nil
			}
		}
		if nowait && err != nil && errors.Is(err, vfs.ErrWouldBlock) {
			return false
		}
		part.aborted[1] = len(op.aborted)
		part.result, part.err = res, err
		if err != nil || res.Diverging {
			op.urgent = true
		}
		if res.Span != nil {
			n := res.Span.Length()
			op.bytes += n
			op.minOne = false
			op.remaining = max(op.remaining-int32(min(n, int64(op.remaining))), 0)
		}
	}
	return true
}

// goOn answers, parks, or lets a worker go on with a read that met cold pages.
func (op *fetchOp) goOn(complete bool) {
	switch {
	case !complete:
		op.loop.engine.config.Workers.Submit(op.readOffLoop)
	case op.waited || op.urgent || op.maxWait <= 0 || !op.anyReadable || op.bytes >= int64(op.minBytes):
		op.respond()
	default:
		op.park()
	}
}

// readOffLoop ends a read on a worker.
func (op *fetchOp) readOffLoop() {
	defer op.loop.net.Post((*fetchRead)(op))
	defer func() {
		if v := recover(); v != nil {
			op.loop.engine.logPanic(op.req, v)
			for i := op.cursor; i < len(op.parts); i++ {
				op.parts[i].partition, op.parts[i].err = nil, kerr.UnknownServerError
			}
			op.urgent = true
		}
	}()
	op.read(false)
}

// fetchRead brings a request back from the worker.
type fetchRead fetchOp

// Run implements netio.Task.
func (f *fetchRead) Run(*netio.Loop) {
	op := (*fetchOp)(f)
	defer op.loop.recoverPanic(op.req)
	if !op.req.Alive() {
		op.drop()
		return
	}
	op.goOn(true)
}

// release gives back the spans that were read.
func (op *fetchOp) release() {
	for i := range op.parts {
		if s := op.parts[i].result.Span; s != nil {
			op.parts[i].result.Span = nil
			s.Release()
		}
	}
}

// drop ends a request whose connection is closed.
func (op *fetchOp) drop() {
	op.release()
	op.req.NoReply()
	op.loop.freeFetchOp(op)
}

// bytesOf is the bytes of a string, which must not be written to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// takeFetchOp returns a request's state from the pool.
func (lp *loop) takeFetchOp() *fetchOp {
	op := lp.freeFetch
	if op == nil {
		op = &fetchOp{loop: lp}
		op.timer.Task = (*fetchTimeout)(op)
		return op
	}
	lp.freeFetch, op.next = op.next, nil
	lp.freeFetches--
	return op
}

// fetchPartsKept bounds the arrays that a pooled request keeps, fetchOpsKept the
// pool.
const (
	fetchPartsKept = 1024
	fetchOpsKept   = 256
)

// freeFetchOp gives it back.
func (lp *loop) freeFetchOp(op *fetchOp) {
	if lp.freeFetches >= fetchOpsKept {
		return
	}
	lp.freeFetches++
	clear(op.parts)
	parts, names, aborted := op.parts[:0], op.names[:0], op.aborted[:0]
	if cap(parts) > fetchPartsKept {
		parts = nil
	}
	if cap(names) > fetchPartsKept {
		names = nil
	}
	if cap(aborted) > fetchPartsKept {
		aborted = nil
	}
	*op = fetchOp{loop: lp, parts: parts, names: names, aborted: aborted, timer: op.timer, next: lp.freeFetch}
	lp.freeFetch = op
}
