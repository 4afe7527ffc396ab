package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// moveLeader lets another broker lead the partition.
func (b *testBroker) moveLeader(tp record.TopicPartition) {
	b.Helper()
	b.show(tp, func(im *meta.Image, p *meta.Partition) {
		p.Replicas, p.ISR = []int32{testNode, 2}, []int32{testNode, 2}
		p.Leader, p.LeaderEpoch = 2, p.LeaderEpoch+1
		im.Brokers = append(slices.Clone(im.Brokers), meta.Broker{ID: 2, Rack: "r", Listeners: []meta.Endpoint{
			{Name: "OTHER", Host: "elsewhere", Port: 1}, {Name: "PLAINTEXT", Host: "two.example", Port: 9092},
		}})
	})
}

// TestLeaderHints: whoever asks the wrong broker is told the right one, and how
// to reach it by the same listener (KIP-951).
func TestLeaderHints(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	id := b.createTopic("t", 1, nil)
	c := b.dial()
	c.produce("t", 0, "a")
	tp := record.TopicPartition{Topic: "t"}
	old := b.manager.Lookup([]byte("t"), 0).LeaderEpoch()
	b.moveLeader(tp)
	epoch := int32(old) + 1

	req := produceTo(13, -1, "", 0, batchOf("x"))
	req.Topics[0].TopicID = id
	resp := c.ask(req).(*kmsg.ProduceResponse)
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != kerr.NotLeaderForPartition.Code || p.CurrentLeader.LeaderID != 2 || p.CurrentLeader.LeaderEpoch != epoch {
		t.Fatalf("produce: %+v", p)
	}
	if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 2 || resp.Brokers[0].Host != "two.example" || resp.Brokers[0].Port != 9092 {
		t.Fatalf("produce: brokers %+v", resp.Brokers)
	}
	if p := c.produced(produceTo(9, -1, "t", 0, batchOf("x"))); p.ErrorCode != kerr.NotLeaderForPartition.Code {
		t.Fatalf("produce v9: %+v", p)
	}

	for name, current := range map[string]int32{"no epoch": -1, "the old epoch": int32(old)} {
		fetch := fetchFrom(16, "", 0, 0, 1000)
		fetch.Topics[0].TopicID = id
		fetch.Topics[0].Partitions[0].CurrentLeaderEpoch = current
		answer := c.ask(fetch).(*kmsg.FetchResponse)
		want := kerr.NotLeaderForPartition.Code
		if current >= 0 {
			want = kerr.FencedLeaderEpoch.Code
		}
		f := answer.Topics[0].Partitions[0]
		if f.ErrorCode != want || f.CurrentLeader.LeaderID != 2 || f.CurrentLeader.LeaderEpoch != epoch || len(answer.Brokers) != 1 {
			t.Fatalf("fetch, %s: %+v, brokers %+v", name, f, answer.Brokers)
		}
	}
	if p := c.listed(4, "t", -1, nil); p.ErrorCode != kerr.NotLeaderForPartition.Code {
		t.Fatalf("list offsets: %+v", p)
	}
}

// TestParkedWhenLeadershipGoes: what waits is answered with the news.
func TestParkedWhenLeadershipGoes(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 2})
	b.createTopic("t", 1, nil)
	tp := record.TopicPartition{Topic: "t"}
	b.setISR(tp, testNode, 2)
	consumer, producer := b.dial(), b.dial()
	fetch := fetchFrom(12, "t", 0, 0, 60_000)
	produce := produceTo(9, -1, "t", 0, batchOf("a"))
	produce.TimeoutMillis = 60_000
	consumer.send(fetch)
	b.parked(1)
	producer.send(produce)
	b.parked(2)
	b.moveLeader(tp)
	if p := consumer.onlyPartition(consumer.receive(fetch).(*kmsg.FetchResponse)); p.ErrorCode != kerr.NotLeaderForPartition.Code {
		t.Errorf("fetch: %+v", p)
	}
	if p := producer.receive(produce).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != kerr.NotLeaderForPartition.Code {
		t.Errorf("produce: %+v", p)
	}
}

// TestFetchFromAReplica reads up to the log's end, not the high watermark.
func TestFetchFromAReplica(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	b.setISR(record.TopicPartition{Topic: "t"}, testNode, 2)
	c := b.dial()
	if p := c.produced(produceTo(9, 1, "t", 0, batchOf("a"))); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
	if p := c.fetched(fetchFrom(12, "t", 0, 0, 0)); len(p.RecordBatches) != 0 || p.HighWatermark != 0 {
		t.Fatalf("a consumer sees what is not committed: %+v", p)
	}
	// Between high watermark and log end a consumer gets an empty answer.
	if p := c.fetched(fetchFrom(12, "t", 0, 1, 0)); p.ErrorCode != 0 || len(p.RecordBatches) != 0 {
		t.Fatalf("%+v", p)
	}
	req := fetchFrom(12, "t", 0, 0, 0)
	req.ReplicaID = 2
	if p := c.fetched(req); !slices.Equal(valuesOf(t, p.RecordBatches), []string{"a"}) {
		t.Fatalf("%+v", p)
	}
}

// appended hands one batch to a partition as a coordinator does, and waits.
type appended chan struct{}

func (a appended) AppendDone(*replication.Append) { close(a) }

func (b *testBroker) append(p *replication.Partition, batch record.Batch) {
	b.Helper()
	done := make(appended)
	a := &replication.Append{Done: done}
	a.Batch, a.AppendTime = batch, record.Timestamp(time.Now().UnixMilli())
	p.Append(a)
	<-done
	if a.Err != nil {
		b.Fatal(a.Err)
	}
}

// TestFetchReadCommitted has an open, an aborted and a committed transaction
// (row 8); the broker has no coordinator yet, so the test writes the markers.
func TestFetchReadCommitted(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 2})
	b.createTopic("t", 1, nil)
	p := b.manager.Lookup([]byte("t"), 0)
	now := record.Timestamp(time.Now().UnixMilli())
	write := func(id record.ProducerID, seq record.Sequence, value string) {
		b.append(p, record.NewBuilder().Producer(id, 0, seq).Transactional().Add(now, nil, []byte(value)).Build(record.None))
	}
	end := func(id record.ProducerID, kind record.ControlType) {
		b.append(p, record.NewEndTxnMarker(now, id, 0, record.EndTxnMarker{Type: kind}))
	}
	c := b.dial()
	committed := func(offset int64, wait int32) *kmsg.FetchRequest {
		req := fetchFrom(12, "t", 0, offset, wait)
		req.IsolationLevel = 1
		return req
	}

	c.produce("t", 0, "plain") // 0
	write(7, 0, "aborted")     // 1
	write(8, 0, "committed")   // 2
	if f := c.fetched(committed(0, 0)); f.LastStableOffset != 1 || f.HighWatermark != 3 || !slices.Equal(valuesOf(t, f.RecordBatches), []string{"plain"}) {
		t.Fatalf("two open: %+v", f)
	}
	if f := c.fetched(fetchFrom(12, "t", 0, 0, 0)); len(valuesOf(t, f.RecordBatches)) != 3 {
		t.Fatalf("read_uncommitted: %+v", f)
	}
	if got := c.listed(4, "t", -1, func(r *kmsg.ListOffsetsRequest) { r.IsolationLevel = 1 }); got.Offset != 1 {
		t.Fatalf("latest stable: %+v", got)
	}

	// A reader that waits at the LSO is woken by the marker that moves it.
	waiting := b.dial()
	req := committed(1, 60_000)
	waiting.send(req)
	b.parked(1)
	end(7, record.ControlAbort) // 3
	f := waiting.onlyPartition(waiting.receive(req).(*kmsg.FetchResponse))
	if f.LastStableOffset != 2 || len(f.AbortedTransactions) != 1 || f.AbortedTransactions[0].ProducerID != 7 || f.AbortedTransactions[0].FirstOffset != 1 {
		t.Fatalf("one open: %+v", f)
	}
	end(8, record.ControlCommit) // 4
	f = c.fetched(committed(0, 0))
	if f.LastStableOffset != 5 || len(f.AbortedTransactions) != 1 {
		t.Fatalf("none open: %+v", f)
	}
	if f = c.fetched(committed(4, 0)); f.AbortedTransactions == nil || len(f.AbortedTransactions) != 0 {
		t.Fatalf("behind the aborted one: %+v", f)
	}
}

// TestProduceStaysAcknowledged: a partition that the ISR has confirmed is
// confirmed, whatever becomes of it while the request waits for another
// (DelayedProduce.tryComplete). An error would make the producer send a batch
// again that is there.
func TestProduceStaysAcknowledged(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 2, nil)
	b.setISR(record.TopicPartition{Topic: "t", Partition: 1}, testNode, 2)
	req := produceTo(9, -1, "t", 0, batchOf("a"))
	req.TimeoutMillis = 60_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = 1, batchOf("b")
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	c := b.dial()
	c.send(req)
	b.parked(1)
	b.moveLeader(record.TopicPartition{Topic: "t"})
	b.setISR(record.TopicPartition{Topic: "t", Partition: 1}, testNode)
	for _, p := range c.receive(req).(*kmsg.ProduceResponse).Topics[0].Partitions {
		if p.ErrorCode != 0 || p.BaseOffset != 0 {
			t.Errorf("%+v", p)
		}
	}
}
