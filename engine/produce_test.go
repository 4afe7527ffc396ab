package engine

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// onEveryEngine runs a test with each poller that is built in, and with one,
// two and four loops.
func onEveryEngine(t *testing.T, test func(t *testing.T, o brokerOptions)) {
	for _, engine := range netio.Engines() {
		for _, loops := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s/%d", engine, loops), func(t *testing.T) {
				test(t, brokerOptions{engine: engine, loops: loops})
			})
		}
	}
}

// produced is the answer for the only partition of a request.
func (c *client) produced(req *kmsg.ProduceRequest) kmsg.ProduceResponseTopicPartition {
	c.Helper()
	resp := c.ask(req).(*kmsg.ProduceResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		c.Fatalf("answer %+v", resp)
	}
	return resp.Topics[0].Partitions[0]
}

func TestProduceThenFetch(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, o brokerOptions) {
		b := startBroker(t, o)
		b.createTopic("t", 2, nil)
		c := b.dial()
		want := int64(0)
		for version := int16(3); version <= 12; version++ {
			for _, acks := range []int16{1, -1} {
				p := c.produced(produceTo(version, acks, "t", 1, batchOf(fmt.Sprint("v", version, acks), "x")))
				if p.ErrorCode != 0 || p.BaseOffset != want || p.LogAppendTime != -1 {
					t.Fatalf("v%d acks %d: %+v", version, acks, p)
				}
				if version >= 5 && p.LogStartOffset != 0 {
					t.Fatalf("v%d: log start %d", version, p.LogStartOffset)
				}
				want += 2
			}
		}
		for version := int16(4); version <= 12; version++ {
			resp := c.ask(fetchFrom(version, "t", 1, 6, 0)).(*kmsg.FetchResponse)
			p := resp.Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.HighWatermark != want || p.LastStableOffset != want {
				t.Fatalf("fetch v%d: %+v", version, p)
			}
			if got := valuesOf(t, p.RecordBatches); len(got) != int(want)-6 || got[0] != "v4 -1" {
				t.Fatalf("fetch v%d: %q", version, got)
			}
		}
	})
}

func TestProduceByTopicID(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	id := b.createTopic("t", 1, nil)
	c := b.dial()
	req := produceTo(13, -1, "", 0, batchOf("a"))
	req.Topics[0].TopicID = id
	resp := c.ask(req).(*kmsg.ProduceResponse)
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 0 || resp.Topics[0].TopicID != id {
		t.Fatalf("%+v", resp)
	}
	req.Topics[0].TopicID[3]++
	if p := c.produced(req); p.ErrorCode != kerr.UnknownTopicID.Code {
		t.Fatalf("unknown id: %+v", p)
	}
	req.Topics[0].TopicID = id
	req.Topics[0].Partitions[0].Partition = 7
	if p := c.produced(req); p.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Fatalf("unknown partition: %+v", p)
	}
}

func TestProduceRefusals(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	b.createTopic("compacted", 1, map[string]string{"cleanup.policy": "compact"})
	b.createTopic("small", 1, map[string]string{"max.message.bytes": "100"})
	corrupt := batchOf("a", "b")
	corrupt[len(corrupt)-3] ^= 1
	now := record.Timestamp(time.Now().UnixMilli())
	noKey := record.NewBuilder().Add(now, []byte("k"), []byte("v")).Add(now, nil, []byte("v")).Build(record.None)
	transactional := record.NewBuilder().Producer(5, 0, 0).Transactional().Add(now, nil, []byte("v")).Build(record.None)
	control := record.NewBuilder().Producer(5, 0, 0).Control().Add(now, nil, []byte("v")).Build(record.None)
	zstd := record.NewBuilder().Add(now, nil, []byte("v")).Build(record.Zstd)
	future := record.NewBuilder().Add(now+2*3600_000, nil, []byte("v")).Build(record.None)
	two := append(append([]byte{}, batchOf("a")...), batchOf("b")...)
	withID := produceTo(9, -1, "t", 0, batchOf("a"))
	withID.TransactionID = kmsg.StringPtr("tx")
	for _, tc := range []struct {
		name    string
		req     *kmsg.ProduceRequest
		want    *kerr.Error
		message string
		blamed  int32 // first record blamed, -1 none
	}{
		{"unknown topic", produceTo(9, -1, "nope", 0, batchOf("a")), kerr.UnknownTopicOrPartition, "", -1},
		{"unknown partition", produceTo(9, 1, "t", 1, batchOf("a")), kerr.UnknownTopicOrPartition, "", -1},
		{"negative partition", produceTo(9, 1, "t", -1, batchOf("a")), kerr.UnknownTopicOrPartition, "", -1},
		{"acks 2", produceTo(9, 2, "t", 0, batchOf("a")), kerr.InvalidRequiredAcks, "", -1},
		{"acks -2", produceTo(9, -2, "t", 0, batchOf("a")), kerr.InvalidRequiredAcks, "", -1},
		{"corrupt", produceTo(9, -1, "t", 0, corrupt), kerr.CorruptMessage, "", -1},
		{"nothing", produceTo(9, -1, "t", 0, nil), kerr.InvalidRecord, "", -1},
		{"cut", produceTo(9, -1, "t", 0, batchOf("abc")[:64]), kerr.InvalidRecord, "", -1},
		{"two batches", produceTo(9, -1, "t", 0, two), kerr.InvalidRecord, "", -1},
		{"control", produceTo(9, -1, "t", 0, control), kerr.InvalidRecord, "", -1},
		{"no key", produceTo(9, -1, "compacted", 0, noKey), kerr.InvalidRecord, "", 1},
		{"too large", produceTo(9, -1, "small", 0, batchOf(strings.Repeat("x", 200))), kerr.MessageTooLarge, "", -1},
		{"zstd of old", produceTo(6, -1, "t", 0, zstd), kerr.UnsupportedCompressionType, "", -1},
		{"future", produceTo(9, -1, "t", 0, future), kerr.InvalidTimestamp, "", 0},
		{"transactional batch", produceTo(9, -1, "t", 0, transactional), kerr.UnsupportedVersion, "transactions", -1},
		{"transactional id", withID, kerr.UnsupportedVersion, "transactions", -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := b.dial()
			p := c.produced(tc.req)
			if p.ErrorCode != tc.want.Code {
				t.Fatalf("error %v, want %v", kerr.ErrorForCode(p.ErrorCode), tc.want)
			}
			if p.BaseOffset != -1 {
				t.Errorf("base offset %d", p.BaseOffset)
			}
			if tc.message != "" && (p.ErrorMessage == nil || !strings.Contains(*p.ErrorMessage, tc.message)) {
				t.Errorf("message %v", p.ErrorMessage)
			}
			if tc.blamed >= 0 && (len(p.ErrorRecords) == 0 || p.ErrorRecords[0].RelativeOffset != tc.blamed) {
				t.Errorf("blames %v", p.ErrorRecords)
			}
		})
	}
	for _, topic := range []string{"t", "compacted", "small"} {
		if leo := b.manager.Lookup([]byte(topic), 0).Offsets().LEO; leo != 0 {
			t.Errorf("%d records of refused batches are in %s", leo, topic)
		}
	}
}

func TestProduceInternalTopic(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("__consumer_offsets", 1, nil)
	c := b.dial()
	if p := c.produced(produceTo(9, 1, "__consumer_offsets", 0, batchOf("a"))); p.ErrorCode != kerr.InvalidTopicException.Code {
		t.Fatalf("%+v", p)
	}
}

func TestProduceWithoutAcks(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	c := b.dial()
	c.send(produceTo(9, 0, "t", 0, batchOf("a")), produceTo(9, 0, "t", 0, batchOf("b")))
	// The next answer is that of the next request.
	if p := c.produced(produceTo(9, 1, "t", 0, batchOf("c"))); p.BaseOffset != 2 {
		t.Fatalf("%+v", p)
	}
	c.send(produceTo(9, 0, "nope", 0, batchOf("a")))
	c.closed()
}

// TestProducePartialFailure has good and bad partitions in one request.
func TestProducePartialFailure(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 2})
	b.createTopic("t", 3, nil)
	c := b.dial()
	req := produceTo(9, -1, "t", 0, batchOf("a"))
	for partition, batch := range map[int32][]byte{1: nil, 2: batchOf("b")} {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = partition, batch
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	resp := c.ask(req).(*kmsg.ProduceResponse)
	for _, p := range resp.Topics[0].Partitions {
		if want := map[int32]int16{1: kerr.InvalidRecord.Code}[p.Partition]; p.ErrorCode != want {
			t.Errorf("partition %d: error %d", p.Partition, p.ErrorCode)
		}
	}
}

// TestProducePartitionTwice: as in Kafka the later batch stands.
func TestProducePartitionTwice(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	c := b.dial()
	req := produceTo(9, -1, "t", 0, batchOf("first", "1"))
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batchOf("second")
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	if p := c.produced(req); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Fatalf("%+v", p)
	}
	resp := c.ask(fetchFrom(11, "t", 0, 0, 0)).(*kmsg.FetchResponse)
	if got := valuesOf(t, resp.Topics[0].Partitions[0].RecordBatches); len(got) != 1 || got[0] != "second" {
		t.Fatalf("%q", got)
	}
}

func TestProduceLogAppendTime(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	c := b.dial()
	before := time.Now().UnixMilli()
	p := c.produced(produceTo(9, -1, "t", 0, record.NewBuilder().Add(7, nil, []byte("v")).Build(record.None)))
	if p.ErrorCode != 0 || p.LogAppendTime < before-1000 || p.LogAppendTime > time.Now().UnixMilli() {
		t.Fatalf("%+v at %d", p, before)
	}
	resp := c.ask(fetchFrom(11, "t", 0, 0, 0)).(*kmsg.FetchResponse)
	batch := record.Batch(resp.Topics[0].Partitions[0].RecordBatches)
	if !batch.VerifyCRC() || !batch.Attributes().LogAppendTime() || int64(batch.MaxTimestamp()) != p.LogAppendTime {
		t.Fatalf("batch has time %d, the answer %d", batch.MaxTimestamp(), p.LogAppendTime)
	}
}

// TestProduceOrderAcrossWorker mixes batches that must be recompressed by a
// worker with others, on one pipelined connection.
func TestProduceOrderAcrossWorker(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, o brokerOptions) {
		b := startBroker(t, o)
		b.createTopic("t", 1, map[string]string{"compression.type": "lz4"})
		c := b.dial()
		const n = 200
		var reqs []kmsg.Request
		now := record.Timestamp(time.Now().UnixMilli())
		for i := range n {
			codec := record.LZ4 // kept as it is
			if i%3 == 0 {
				codec = record.Gzip
			}
			batch := record.NewBuilder().Add(now, nil, fmt.Append(nil, i)).Build(codec)
			reqs = append(reqs, produceTo(9, 1, "t", 0, batch))
		}
		var frames []byte
		for _, r := range reqs {
			frames = append(frames, c.frame(r)...)
		}
		go c.net.Write(frames) // beside reading, or both sides would wait
		for i, r := range reqs {
			if p := c.receive(r).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(i) {
				t.Fatalf("request %d: %+v", i, p)
			}
		}
		resp := c.ask(fetchFrom(11, "t", 0, 0, 0)).(*kmsg.FetchResponse)
		records := resp.Topics[0].Partitions[0].RecordBatches
		for i, v := range valuesOf(t, records) {
			if v != fmt.Sprint(i) {
				t.Fatalf("record %d is %q", i, v)
			}
		}
		for len(records) > 0 {
			if codec := record.Batch(records).Attributes().Codec(); codec != record.LZ4 {
				t.Fatalf("codec %v is stored", codec)
			}
			records = records[record.LogOverhead+binary.BigEndian.Uint32(records[8:]):]
		}
	})
}

// setISR gives a partition a second replica and an in-sync set.
func (b *testBroker) setISR(tp record.TopicPartition, isr ...int32) {
	b.Helper()
	b.show(tp, func(_ *meta.Image, p *meta.Partition) { p.Replicas, p.ISR = []int32{testNode, 2}, isr })
}

// TestProduceWaitsForTheISR has a second replica that never fetches.
func TestProduceWaitsForTheISR(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 2})
	b.createTopic("t", 1, nil)
	tp := record.TopicPartition{Topic: "t"}
	b.setISR(tp, testNode, 2)
	p := b.manager.Lookup([]byte("t"), 0)
	c := b.dial()
	req := produceTo(9, -1, "t", 0, batchOf("a"))
	req.TimeoutMillis = 100
	begin := time.Now()
	if p := c.produced(req); p.ErrorCode != kerr.RequestTimedOut.Code {
		t.Fatalf("%+v", p)
	}
	if d := time.Since(begin); d < 100*time.Millisecond || d > 2*time.Second {
		t.Fatalf("after %v", d)
	}

	// acks=1 does not wait, and a parked request holds up no other of its
	// connection but its answers.
	req = produceTo(9, -1, "t", 0, batchOf("b"))
	req.TimeoutMillis = 10_000
	one := produceTo(9, 1, "t", 0, batchOf("c"))
	c.send(req, one)
	c.silent(100 * time.Millisecond)
	if leo := p.Offsets().LEO; leo != 3 {
		t.Fatalf("log end %d", leo)
	}
	// The second replica leaves the ISR: what waits is acknowledged.
	b.setISR(tp, testNode)
	if p := c.receive(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 1 {
		t.Fatalf("%+v", p)
	}
	if p := c.receive(one).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 2 {
		t.Fatalf("%+v", p)
	}
}

// TestProduceParkedConnectionCloses leaves nothing behind.
func TestProduceParkedConnectionCloses(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	b.setISR(record.TopicPartition{Topic: "t"}, testNode, 2)
	p := b.manager.Lookup([]byte("t"), 0)
	c := b.dial()
	c.send(produceTo(9, -1, "t", 0, batchOf("a")))
	for deadline := time.Now().Add(clientTimeout); p.Offsets().LEO == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	c.reset()
	b.onLoops(func(lp *loop) bool {
		for _, w := range lp.waitPoints {
			if !w.empty() {
				return false
			}
		}
		return true
	})
}

// onLoops waits until a condition holds on every loop, on whose goroutines it
// is asked.
func (b *testBroker) onLoops(holds func(*loop) bool) {
	b.Helper()
	for deadline := time.Now().Add(clientTimeout); ; time.Sleep(time.Millisecond) {
		all := true
		for _, l := range b.server.Loops() {
			answer := make(chan bool, 1)
			l.Post(taskFunc(func(l *netio.Loop) {
				lp, ok := l.State.(*loop)
				answer <- !ok || holds(lp)
			}))
			all = <-answer && all
		}
		if all {
			return
		}
		if time.Now().After(deadline) {
			b.Fatal("the loops do not get there")
		}
	}
}

// taskFunc is a netio.Task.
type taskFunc func(*netio.Loop)

func (f taskFunc) Run(l *netio.Loop) { f(l) }
