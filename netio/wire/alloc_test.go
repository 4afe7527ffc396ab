package wire

import (
	"bytes"
	"fmt"
	"testing"
)

// usual* are the messages of a client that keeps a connection busy: several topics
// and partitions, 16 KiB of records each.

func usualProduceRequest() *ProduceRequest {
	r := &ProduceRequest{Acks: -1, TimeoutMs: 30000}
	for i := range 3 {
		t := ProduceTopic{Name: []byte(fmt.Sprintf("orders-%d", i)), ID: TopicID{1, byte(i)}}
		for j := range 4 {
			t.Partitions = append(t.Partitions, ProducePartition{Index: int32(j), Records: bytes.Repeat([]byte{byte(j)}, 16384)})
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func usualFetchRequest() *FetchRequest {
	r := &FetchRequest{ReplicaID: 2, ReplicaEpoch: 7, MaxWaitMs: 500, MinBytes: 1, MaxBytes: 1 << 20, SessionEpoch: -1,
		RackID: []byte("rack"), ClusterID: []byte("4L6g3nShT-eMCtK--X86sw")}
	for i := range 3 {
		t := FetchTopic{Name: []byte(fmt.Sprintf("orders-%d", i)), ID: TopicID{1, byte(i)}}
		for j := range 4 {
			t.Partitions = append(t.Partitions, FetchPartition{Index: int32(j), FetchOffset: 1 << 40, MaxBytes: 1 << 20, HighWatermark: 5, DirectoryID: TopicID{3}})
		}
		r.Topics = append(r.Topics, t)
		r.Forgotten = append(r.Forgotten, ForgottenTopic{Name: t.Name, ID: t.ID, Partitions: []int32{4, 5}})
	}
	return r
}

// fillProduceResponse builds an answer as the engine does.
func fillProduceResponse(r *ProduceResponse, name []byte) {
	r.Reset()
	for range 3 {
		t := r.AddTopic()
		t.Name = name
		for j := range int32(4) {
			p := r.AddPartition(j)
			p.BaseOffset, p.LogStartOffset = 1<<40, 0
		}
	}
	r.AddTopic()
	p := r.AddPartition(9)
	p.ErrorCode, p.ErrorMessage, p.CurrentLeader = 6, "not here", LeaderIDAndEpoch{ID: 2, Epoch: 3}
	r.NodeEndpoints = append(r.NodeEndpoints, NodeEndpoint{NodeID: 2, Host: "127.0.0.1", Port: 9092, Rack: "r"})
}

// fillFetchResponse builds an answer as the engine does, records by a Splicer.
func fillFetchResponse(r *FetchResponse, name []byte, aborted []AbortedTransaction) {
	r.Reset()
	r.SessionID = 77
	for range 3 {
		t := r.AddTopic()
		t.Name = name
		for j := range int32(4) {
			p := r.AddPartition(j)
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = 1<<40, 1<<40, 0
			p.Aborted, p.RecordsLength, p.User = aborted, 16384, j
		}
	}
	r.AddTopic()
	p := r.AddPartition(9)
	p.ErrorCode, p.CurrentLeader, p.DivergingEpoch = 6, LeaderIDAndEpoch{ID: 2, Epoch: 3}, EpochEndOffset{Epoch: 2, EndOffset: 9}
	r.NodeEndpoints = append(r.NodeEndpoints, NodeEndpoint{NodeID: 2, Host: "127.0.0.1", Port: 9092})
}

// spans stands for a Splicer that sends file ranges: it adds nothing.
type spans struct{ length int64 }

func (s *spans) Splice(dst []byte, p *FetchPartitionResponse) []byte {
	s.length += int64(p.RecordsLength)
	return dst
}

// noAllocs fails unless f, after a first call, allocates nothing.
func noAllocs(t *testing.T, what string, f func()) {
	t.Helper()
	f()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s: %v allocations a run, want none", what, n)
	}
}

// TestNoAllocs has the whole hot path of every version: a header, a body in, a
// body out, and the pool's Reset in between.
func TestNoAllocs(t *testing.T) {
	flexible := func(int16, int16) bool { return true }
	frame := append(AppendRequestHeader(nil, KeyFetch, 12, 1, []byte("client"), true), "body"...)
	noAllocs(t, "ParseRequestHeader", func() {
		if _, err := ParseRequestHeader(frame, flexible); err != nil {
			t.Fatal(err)
		}
	})
	out, name := make([]byte, 0, 1<<20), []byte("orders")
	noAllocs(t, "AppendResponseHeader", func() { out = AppendResponseHeader(out[:0], KeyFetch, 12, 1, true) })
	eachVersion(t, ProduceMinVersion, ProduceMaxVersion, func(t *testing.T, version int16) {
		body, request := usualProduceRequest().Append(nil, version), new(ProduceRequest)
		noAllocs(t, "ProduceRequest.Decode", func() {
			if err := request.Decode(version, body); err != nil {
				t.Fatal(err)
			}
			request.Reset()
		})
		response := new(ProduceResponse)
		noAllocs(t, "ProduceResponse.Append", func() {
			fillProduceResponse(response, name)
			out = response.Append(out[:0], version)
		})
		request = usualProduceRequest()
		noAllocs(t, "ProduceRequest.Append", func() { out = request.Append(out[:0], version) })
	})
	eachVersion(t, FetchMinVersion, FetchMaxVersion, func(t *testing.T, version int16) {
		body, request := usualFetchRequest().Append(nil, version), new(FetchRequest)
		noAllocs(t, "FetchRequest.Decode", func() {
			if err := request.Decode(version, body); err != nil {
				t.Fatal(err)
			}
			request.Reset()
		})
		response, s, aborted := new(FetchResponse), new(spans), []AbortedTransaction{{ProducerID: 1, FirstOffset: 2}}
		noAllocs(t, "FetchResponse.Append", func() {
			fillFetchResponse(response, name, aborted)
			out = response.Append(out[:0], version, s)
		})
		request = usualFetchRequest()
		noAllocs(t, "FetchRequest.Append", func() { out = request.Append(out[:0], version) })
		// Hosts and messages are copied, but only errors carry them.
		response.Reset()
		response.AddTopic()
		p := response.AddPartition(1)
		p.Aborted, p.Records, p.RecordsLength = aborted, make([]byte, 100), 100
		body = response.Append(nil, version, nil)
		noAllocs(t, "FetchResponse.Decode", func() {
			if err := response.Decode(version, body); err != nil {
				t.Fatal(err)
			}
		})
	})
}
