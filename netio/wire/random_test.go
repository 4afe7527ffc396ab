package wire

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// generator makes random messages: small ones mostly, with nulls, empty arrays,
// extreme numbers, and names and arrays long enough for lengths of two and three
// bytes.
type generator struct{ *rand.Rand }

func (g generator) often() bool  { return g.IntN(4) > 0 }
func (g generator) seldom() bool { return g.IntN(8) == 0 }

func (g generator) bytes(most int) []byte { return g.fill(g.IntN(most + 1)) }

func (g generator) name() []byte {
	if g.seldom() {
		return g.bytes(300)
	}
	return g.bytes(20)
}

func (g generator) nullableName() []byte {
	if g.IntN(3) == 0 {
		return nil
	}
	return g.name()
}

// text never is "", which is null in this package's messages.
func (g generator) text() string { return "x" + string(g.name()) }

func (g generator) nullableText() string {
	if g.IntN(2) == 0 {
		return ""
	}
	return g.text()
}

func (g generator) records() []byte {
	switch g.IntN(50) {
	case 0, 1, 2, 3, 4:
		return nil
	case 5:
		return g.bytes(20000)
	default:
		return g.bytes(100)
	}
}

func (g generator) id() (id TopicID) {
	if g.seldom() {
		return id
	}
	return TopicID(g.fill(16))
}

func (g generator) fill(n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.BigEndian.AppendUint64(b, g.Uint64())
	}
	return b[:n]
}

func (g generator) i16() int16 { return int16(g.i64()) }
func (g generator) i32() int32 { return int32(g.i64()) }

func (g generator) i64() int64 {
	switch g.IntN(6) {
	case 0:
		return -1
	case 1:
		return 0
	case 2:
		return [...]int64{math.MinInt64, math.MaxInt64, math.MaxInt32, math.MinInt32}[g.IntN(4)]
	default:
		return int64(g.Uint64())
	}
}

// count is the length of an array.
func (g generator) count() int {
	if g.IntN(40) == 0 {
		return 126 + g.IntN(5) // where a compact count grows a byte
	}
	return g.IntN(4)
}

func (g generator) leader() LeaderIDAndEpoch {
	if g.often() {
		return noLeader
	}
	return LeaderIDAndEpoch{ID: g.i32(), Epoch: g.i32()}
}

func (g generator) nodes() (nodes []NodeEndpoint) {
	if g.often() {
		return nil
	}
	for range g.count() {
		nodes = append(nodes, NodeEndpoint{NodeID: g.i32(), Host: string(g.name()), Port: g.i32(), Rack: g.nullableText()})
	}
	return nodes
}

func (g generator) produceRequest(version int16) *ProduceRequest {
	r := &ProduceRequest{TransactionalID: g.nullableName(), Acks: g.i16(), TimeoutMs: g.i32()}
	for range g.count() {
		var t ProduceTopic
		if version >= 13 {
			t.ID = g.id()
		} else {
			t.Name = g.name()
		}
		for range g.count() {
			t.Partitions = append(t.Partitions, ProducePartition{Index: g.i32(), Records: g.records()})
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

// produceResponse fills r, which may be one that was used before.
func (g generator) produceResponse(r *ProduceResponse, version int16) {
	r.Reset()
	r.ThrottleMs = g.i32()
	for range g.count() {
		t := r.AddTopic()
		if version >= 13 {
			t.ID = g.id()
		} else {
			t.Name = g.name()
		}
		for range g.count() {
			p := r.AddPartition(g.i32())
			p.ErrorCode, p.BaseOffset, p.LogAppendTimeMs, p.LogStartOffset = g.i16(), g.i64(), g.i64(), g.i64()
			if g.seldom() {
				for range g.count() {
					p.RecordErrors = append(p.RecordErrors, RecordError{BatchIndex: g.i32(), Message: g.nullableText()})
				}
				p.ErrorMessage = g.nullableText()
			}
			p.CurrentLeader = g.leader()
		}
	}
	r.NodeEndpoints = append(r.NodeEndpoints, g.nodes()...)
}

func (g generator) fetchRequest(version int16) *FetchRequest {
	r := &FetchRequest{
		ReplicaID: g.i32(), ReplicaEpoch: g.i64(), MaxWaitMs: g.i32(), MinBytes: g.i32(), MaxBytes: g.i32(),
		Isolation: int8(g.i64()), SessionID: g.i32(), SessionEpoch: g.i32(), RackID: g.name(), ClusterID: g.nullableName(),
	}
	for range g.count() {
		var t FetchTopic
		if version >= 13 {
			t.ID = g.id()
		} else {
			t.Name = g.name()
		}
		for range g.count() {
			p := FetchPartition{
				Index: g.i32(), CurrentLeaderEpoch: g.i32(), FetchOffset: g.i64(), LastFetchedEpoch: g.i32(),
				LogStartOffset: g.i64(), MaxBytes: g.i32(), HighWatermark: NoHighWatermark,
			}
			if g.seldom() {
				p.DirectoryID = g.id()
			}
			if g.seldom() {
				p.HighWatermark = g.i64()
			}
			t.Partitions = append(t.Partitions, p)
		}
		r.Topics = append(r.Topics, t)
	}
	for range g.count() {
		var t ForgottenTopic
		if version >= 13 {
			t.ID = g.id()
		} else {
			t.Name = g.name()
		}
		for range g.count() {
			t.Partitions = append(t.Partitions, g.i32())
		}
		r.Forgotten = append(r.Forgotten, t)
	}
	return r
}

// fetchResponse fills r, which may be one that was used before.
func (g generator) fetchResponse(r *FetchResponse, version int16) {
	r.Reset()
	r.ThrottleMs, r.ErrorCode, r.SessionID = g.i32(), g.i16(), g.i32()
	for range g.count() {
		t := r.AddTopic()
		if version >= 13 {
			t.ID = g.id()
		} else {
			t.Name = g.name()
		}
		for range g.count() {
			g.fetchPartition(r.AddPartition(g.i32()))
		}
	}
	r.NodeEndpoints = append(r.NodeEndpoints, g.nodes()...)
}

func (g generator) fetchPartition(p *FetchPartitionResponse) {
	p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = g.i16(), g.i64(), g.i64(), g.i64()
	p.CurrentLeader = g.leader()
	if g.seldom() {
		p.DivergingEpoch = EpochEndOffset{Epoch: g.i32(), EndOffset: g.i64()}
	}
	if g.seldom() {
		p.SnapshotID = SnapshotID{EndOffset: g.i64(), Epoch: g.i32()}
	}
	if g.IntN(3) == 0 {
		p.Aborted = []AbortedTransaction{}
		for range g.count() {
			p.Aborted = append(p.Aborted, AbortedTransaction{ProducerID: g.i64(), FirstOffset: g.i64()})
		}
	}
	p.PreferredReadReplica = g.i32()
	p.Records = g.records()
	p.RecordsLength = int32(len(p.Records))
	if p.Records == nil {
		p.RecordsLength = -1
	}
}
