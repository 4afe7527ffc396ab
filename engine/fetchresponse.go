package engine

import (
	"bytes"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// noAborted is an empty list of aborted transactions that is not null.
var noAborted = []wire.AbortedTransaction{}

// respond answers with what was read, and ends the request.
func (op *fetchOp) respond() {
	lp := op.loop
	resp := &lp.fetchResponse
	resp.Reset()
	lp.endpoints = lp.endpoints[:0]
	lp.aborted = lp.aborted[:0]
	if ms := op.throttle(); ms > 0 {
		op.respondThrottled(ms)
		return
	}
	switch op.mode {
	case sessionIncremental:
		op.addNews(resp)
	default:
		op.addAll(resp)
	}
	if op.badIsolation() {
		resp.ErrorCode = kerr.UnknownServerError.Code
	}
	resp.NodeEndpoints = lp.endpoints
	op.send(resp)
}

// respondThrottled answers with nothing but the throttle time. No session is made;
// one that there is goes on (FetchContext.getThrottledResponse).
func (op *fetchOp) respondThrottled(ms int32) {
	resp := &op.loop.fetchResponse
	resp.ThrottleMs = ms
	if op.mode == sessionIncremental {
		s := op.session
		resp.SessionID = s.id
		s.mu.Lock()
		if s.epoch != op.epoch {
			resp.ErrorCode = kerr.InvalidFetchSessionEpoch.Code
		}
		s.mu.Unlock()
	}
	op.send(resp)
}

// respondError answers a request whose session is at fault.
func (op *fetchOp) respondError(err *kerr.Error) {
	resp := &op.loop.fetchResponse
	resp.Reset()
	resp.ErrorCode = err.Code
	op.loop.stats.requests.Failed(op.key, err.Code)
	op.send(resp)
}

// send encodes the answer and ends the request.
func (op *fetchOp) send(resp *wire.FetchResponse) {
	op.begin()
	out := op.req.Out()
	out.Buf = resp.Append(out.Buf, op.version, op)
	req := op.req
	op.release() // what no partition of the answer took
	op.loop.freeFetchOp(op)
	req.Done()
}

// Splice implements wire.Splicer: the span follows its length.
func (op *fetchOp) Splice(dst []byte, p *wire.FetchPartitionResponse) []byte {
	part := &op.parts[p.User]
	span := part.result.Span
	part.result.Span = nil
	out := op.req.Out()
	out.Buf = dst
	out.Splice(netio.FileRange{FD: span.FD(), Position: span.Position(), Length: span.Length(), Owner: span, Source: span.File()})
	return out.Buf
}

// addAll names every partition, and makes the session that the client asked for.
func (op *fetchOp) addAll(resp *wire.FetchResponse) {
	var s *fetchSession
	if op.mode == sessionNew && op.version >= 7 {
		s = op.loop.engine.sessions.create(op.replicaID >= 0, op.version >= 13, len(op.parts), op.loop.net.NowMs())
	}
	if s != nil {
		resp.SessionID = s.id
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	for i := range op.parts {
		a := op.answerPart(i)
		op.add(resp, &a)
		if s != nil {
			s.remember(&op.parts[i], &a)
		}
	}
}

// addNews names the partitions of the session with news, and lets those that
// are sent records wait behind the others.
func (op *fetchOp) addNews(resp *wire.FetchResponse) {
	s := op.session
	resp.SessionID = s.id
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != op.epoch {
		// Another request of the session came meanwhile, on another connection.
		resp.ErrorCode = kerr.InvalidFetchSessionEpoch.Code
		return
	}
	for i := range op.parts {
		a := op.answerPart(i)
		c := op.parts[i].cached
		if !c.news(&a) {
			continue
		}
		op.add(resp, &a)
		if a.RecordsLength > 0 {
			s.served(c)
		}
	}
}

// add puts a partition behind the last topic of the answer if it is of that
// topic, else into a new one (FetchResponse.toMessage).
func (op *fetchOp) add(resp *wire.FetchResponse, a *wire.FetchPartitionResponse) {
	part := &op.parts[a.User]
	n := len(resp.Topics)
	if n == 0 || resp.Topics[n-1].ID != part.id || !bytes.Equal(resp.Topics[n-1].Name, part.name) {
		t := resp.AddTopic()
		t.Name, t.ID = part.name, part.id
	}
	*resp.AddPartition(a.Index) = *a
}

// answerPart is the answer for part i.
func (op *fetchOp) answerPart(i int) wire.FetchPartitionResponse {
	part := &op.parts[i]
	a := wire.FetchPartitionResponse{
		Index: part.index, User: int32(i),
		HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, PreferredReadReplica: -1,
		DivergingEpoch: wire.EpochEndOffset{Epoch: -1, EndOffset: -1},
		CurrentLeader:  wire.LeaderIDAndEpoch{ID: -1, Epoch: -1},
		SnapshotID:     wire.SnapshotID{EndOffset: -1, Epoch: -1},
	}
	switch {
	case part.err != nil:
		op.refuse(&a, part)
		return a
	case op.version < 10 && part.partition.Config().CompressionType == "zstd":
		a.ErrorCode, a.Aborted = kerr.UnsupportedCompressionType.Code, noAborted
		return a
	}
	res := &part.result
	a.HighWatermark = int64(res.HW)
	a.LastStableOffset = int64(res.LSO)
	a.LogStartOffset = int64(res.LogStart)
	if res.Diverging {
		a.DivergingEpoch = wire.EpochEndOffset{Epoch: int32(res.DivergingEpoch), EndOffset: int64(res.DivergingEnd)}
	}
	if res.Span != nil {
		a.RecordsLength = int32(res.Span.Length())
		if !op.isReplica() {
			part.partition.CountRead(res.Span.Length())
		}
	}
	if op.isolation == record.ReadCommitted && !op.isReplica() {
		a.Aborted = op.abortedOf(part)
	}
	return a
}

// refuse fills in the answer of a partition that failed.
func (op *fetchOp) refuse(a *wire.FetchPartitionResponse, part *fetchPart) {
	a.ErrorCode = asKerr(part.err).Code
	op.loop.stats.requests.Failed(op.key, a.ErrorCode)
	if part.partition != nil {
		part.partition.CountFailedFetch()
	}
	if part.partition == nil && a.ErrorCode != codeNotLeader || op.badIsolation() {
		a.Aborted = noAborted // where nothing was read Kafka's list is empty, not null
	}
	if !expected(part.err) {
		op.loop.engine.complain("fetch failed", "partition", part.partition.TopicPartition().String(), "offset", int64(part.offset), "err", part.err)
	}
	if a.ErrorCode == codeStorage && op.version <= 5 {
		a.ErrorCode = codeNotLeader
	}
	if op.version >= 16 && (a.ErrorCode == codeNotLeader || a.ErrorCode == codeFencedEpoch) {
		a.CurrentLeader = op.loop.leaderHint(op.conn.net.Listener(), true, nil, part.id, part.index)
	}
}

// abortedOf is the aborted transactions of a partition; not null.
func (op *fetchOp) abortedOf(part *fetchPart) []wire.AbortedTransaction {
	from, to := part.aborted[0], part.aborted[1]
	if from == to {
		return noAborted
	}
	lp := op.loop
	start := len(lp.aborted)
	for _, t := range op.aborted[from:to] {
		lp.aborted = append(lp.aborted, wire.AbortedTransaction{ProducerID: int64(t.ProducerID), FirstOffset: int64(t.FirstOffset)})
	}
	return lp.aborted[start:]
}

// remember puts a partition of a first answer into a new session. mu is held.
func (s *fetchSession) remember(part *fetchPart, a *wire.FetchPartitionResponse) {
	key := sessionKey{id: part.id, name: string(part.name), partition: part.index}
	c := s.partitions[key]
	if c == nil {
		c = s.add(key)
	}
	c.offset, c.maxBytes = int64(part.offset), part.maxBytes
	c.leaderEpoch, c.lastFetchedEpoch = int32(part.leaderEpoch), int32(part.lastFetchedEpoch)
	c.highWatermark, c.logStart = a.HighWatermark, a.LogStartOffset
}
