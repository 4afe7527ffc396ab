package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetched is the answer for the only partition of a fetch.
func (c *client) fetched(req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	c.Helper()
	return c.onlyPartition(c.ask(req).(*kmsg.FetchResponse))
}

func (c *client) onlyPartition(resp *kmsg.FetchResponse) kmsg.FetchResponseTopicPartition {
	c.Helper()
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		c.Fatalf("answer %+v", resp)
	}
	return resp.Topics[0].Partitions[0]
}

func TestFetchRefusals(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	b.createTopic("zstd", 1, map[string]string{"compression.type": "zstd"})
	c := b.dial()
	c.produce("t", 0, "a", "b", "c")
	epoch := func(req *kmsg.FetchRequest, current int32) *kmsg.FetchRequest {
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = current
		return req
	}
	replica := fetchFrom(11, "t", 0, 0, 1000)
	replica.ReplicaID = 7
	for _, tc := range []struct {
		name string
		req  *kmsg.FetchRequest
		want *kerr.Error
	}{
		{"unknown topic", fetchFrom(12, "nope", 0, 0, 1000), kerr.UnknownTopicOrPartition},
		{"unknown partition", fetchFrom(4, "t", 5, 0, 1000), kerr.UnknownTopicOrPartition},
		{"before the start", fetchFrom(12, "t", 0, -1, 1000), kerr.OffsetOutOfRange},
		{"beyond the end", fetchFrom(12, "t", 0, 4, 1000), kerr.OffsetOutOfRange},
		{"old leader epoch", epoch(fetchFrom(12, "t", 0, 0, 1000), -2), kerr.FencedLeaderEpoch},
		{"new leader epoch", epoch(fetchFrom(12, "t", 0, 0, 1000), 99), kerr.UnknownLeaderEpoch},
		{"zstd for old clients", fetchFrom(9, "zstd", 0, 0, 0), kerr.UnsupportedCompressionType},
		{"a replica that is none", replica, kerr.NotLeaderForPartition},
	} {
		t.Run(tc.name, func(t *testing.T) {
			begin := time.Now()
			p := b.dial().fetched(tc.req)
			if p.ErrorCode != tc.want.Code {
				t.Fatalf("error %v, want %v", kerr.ErrorForCode(p.ErrorCode), tc.want)
			}
			if p.HighWatermark != -1 || len(p.RecordBatches) != 0 {
				t.Errorf("%+v", p)
			}
			if d := time.Since(begin); d > 900*time.Millisecond {
				t.Errorf("the answer took %v", d)
			}
		})
	}
	// v12's -2 is older than any epoch only if the epoch is 0 or more.
	if e := b.manager.Lookup([]byte("t"), 0).LeaderEpoch(); e < 0 {
		t.Fatalf("leader epoch %d", e)
	}
}

func TestFetchByTopicID(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	id := b.createTopic("t", 1, nil)
	c := b.dial()
	c.produce("t", 0, "a")
	for version := int16(13); version <= 18; version++ {
		req := fetchFrom(version, "", 0, 0, 0)
		req.Topics[0].TopicID = id
		if p := c.fetched(req); p.ErrorCode != 0 || !slices.Equal(valuesOf(t, p.RecordBatches), []string{"a"}) {
			t.Fatalf("v%d: %+v", version, p)
		}
	}
	req := fetchFrom(18, "", 0, 0, 0)
	req.Topics[0].TopicID = record.TopicID{1, 2, 3}
	if p := c.fetched(req); p.ErrorCode != kerr.UnknownTopicID.Code {
		t.Fatalf("unknown id: %+v", p)
	}
}

// TestFetchWaitsForRecords: a fetch at the end is answered by the record that
// comes, whichever loop it comes by.
func TestFetchWaitsForRecords(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, o brokerOptions) {
		b := startBroker(t, o)
		b.createTopic("t", 1, nil)
		producer := b.dial()
		for i := range 8 {
			consumer := b.dial() // each on the next loop
			req := fetchFrom(11, "t", 0, int64(i), 10_000)
			consumer.send(req)
			b.parked(1)
			producer.produce("t", 0, fmt.Sprint(i))
			p := consumer.onlyPartition(consumer.receive(req).(*kmsg.FetchResponse))
			if got := valuesOf(t, p.RecordBatches); len(got) != 1 || got[0] != fmt.Sprint(i) || p.HighWatermark != int64(i+1) {
				t.Fatalf("fetch %d: %q, high watermark %d", i, got, p.HighWatermark)
			}
		}
	})
}

// parked waits until that many requests wait on all loops together.
func (b *testBroker) parked(want int) {
	b.Helper()
	for deadline := time.Now().Add(clientTimeout); ; time.Sleep(time.Millisecond) {
		n := 0
		b.onLoops(func(lp *loop) bool {
			seen := make(map[waiter]bool)
			for _, w := range lp.waitPoints {
				for node := w.root.next; node != &w.root; node = node.next {
					seen[node.waiter] = true
				}
			}
			n += len(seen)
			return true
		})
		if n == want {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d requests are parked, want %d", n, want)
		}
	}
}

func TestFetchTimesOut(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	c := b.dial()
	begin := time.Now()
	if p := c.fetched(fetchFrom(11, "t", 0, 0, 150)); p.ErrorCode != 0 || len(p.RecordBatches) != 0 {
		t.Fatalf("%+v", p)
	}
	if d := time.Since(begin); d < 150*time.Millisecond || d > 2*time.Second {
		t.Fatalf("after %v", d)
	}
	// A topic that is not known does not end the wait, as in Kafka.
	begin = time.Now()
	req := fetchFrom(11, "t", 0, 0, 150)
	addFetch(req, "nope", 0, 0, 100)
	resp := c.ask(req).(*kmsg.FetchResponse)
	if d := time.Since(begin); d < 150*time.Millisecond {
		t.Fatalf("after %v", d)
	}
	if len(resp.Topics) != 2 || resp.Topics[1].Topic != "nope" || resp.Topics[1].Partitions[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Fatalf("%+v", resp)
	}
	// Nothing that is known: at once.
	begin = time.Now()
	c.ask(fetchFrom(11, "nope", 0, 0, 5000))
	if d := time.Since(begin); d > time.Second {
		t.Fatalf("after %v", d)
	}
}

// TestFetchAnswersAtOnce has the conditions of row 4 beside errors.
func TestFetchAnswersAtOnce(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	c := b.dial()
	c.produce("t", 0, "a")
	none := kmsg.NewPtrFetchRequest()
	none.Version, none.MaxWaitMillis, none.MinBytes, none.SessionEpoch = 11, 5000, 1, -1
	noMin := fetchFrom(11, "t", 0, 1, 5000)
	noMin.MinBytes = 0
	capped := fetchFrom(11, "t", 0, 1, 5000)
	capped.MaxBytes = 0 // min_bytes becomes 0 with it
	diverging := fetchFrom(12, "t", 0, 1, 5000)
	diverging.Topics[0].Partitions[0].LastFetchedEpoch = 77
	for name, req := range map[string]*kmsg.FetchRequest{
		"no partitions": none, "no wait": fetchFrom(11, "t", 0, 1, 0), "negative wait": fetchFrom(11, "t", 0, 1, -5),
		"no minimum": noMin, "minimum capped by maximum": capped, "diverging": diverging,
	} {
		begin := time.Now()
		resp := c.ask(req).(*kmsg.FetchResponse)
		if d := time.Since(begin); d > time.Second {
			t.Errorf("%s: after %v", name, d)
		}
		if name == "diverging" {
			p := resp.Topics[0].Partitions[0]
			if p.DivergingEpoch.Epoch < 0 && p.ErrorCode == 0 {
				t.Errorf("diverging: %+v", p)
			}
		}
	}
}

func TestFetchMinBytes(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 2})
	b.createTopic("t", 2, nil)
	consumer, producer := b.dial(), b.dial()
	size := len(batchOf(strings.Repeat("x", 100)))
	req := fetchFrom(11, "t", 0, 0, 10_000)
	addFetch(req, "t", 1, 0, 1<<20)
	req.MinBytes = int32(3*size - 10)
	consumer.send(req)
	b.parked(1)
	producer.produce("t", 0, strings.Repeat("x", 100))
	producer.produce("t", 1, strings.Repeat("x", 100))
	consumer.silent(50 * time.Millisecond)
	producer.produce("t", 0, strings.Repeat("x", 100))
	resp := consumer.receive(req).(*kmsg.FetchResponse)
	if a, b := len(resp.Topics[0].Partitions[0].RecordBatches), len(resp.Topics[0].Partitions[1].RecordBatches); a != 2*size || b != size {
		t.Fatalf("%d and %d bytes, batches of %d", a, b, size)
	}

	// At the end of the wait what is there is sent, be it too little.
	req = fetchFrom(11, "t", 1, 0, 100)
	req.MinBytes = 1 << 19
	if p := consumer.fetched(req); len(p.RecordBatches) != size {
		t.Fatalf("%d bytes", len(p.RecordBatches))
	}
}

// TestFetchMinBytesBehindARoll: what is there at the end of a segment is sent
// when the log goes on in another (DelayedFetch, case F).
func TestFetchMinBytesBehindARoll(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	consumer, producer := b.dial(), b.dial()
	producer.produce("t", 0, "old segment")
	req := fetchFrom(11, "t", 0, 0, 60_000)
	req.MinBytes = 1 << 19
	consumer.send(req)
	b.parked(1)
	if err := b.manager.Lookup([]byte("t"), 0).Log().Roll(); err != nil {
		t.Fatal(err)
	}
	producer.produce("t", 0, "new segment")
	p := consumer.onlyPartition(consumer.receive(req).(*kmsg.FetchResponse))
	if got := valuesOf(t, p.RecordBatches); len(got) == 0 || got[0] != "old segment" {
		t.Fatalf("%q", got)
	}
	// So it is when the roll was there before.
	if p := consumer.fetched(req); len(valuesOf(t, p.RecordBatches)) == 0 {
		t.Fatalf("%+v", p)
	}
}

// TestFetchLimits has the first-batch rule (KIP-74) and the limits of later
// partitions.
func TestFetchLimits(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 4, nil)
	c := b.dial()
	for p := range int32(3) { // partition 3 stays empty
		c.produce("t", p, strings.Repeat("x", 1000))
		c.produce("t", p, strings.Repeat("y", 1000))
	}
	size := len(batchOf(strings.Repeat("x", 1000)))
	for _, tc := range []struct {
		name     string
		order    []int32
		max      int32
		perPart  int32
		want     []int // bytes by place in the request
		capBytes string
	}{
		{"all fits", []int32{0, 1}, 1 << 20, 1 << 20, []int{2 * size, 2 * size}, ""},
		{"first batch whole in spite of the partition's limit", []int32{0, 1}, 1 << 20, 10, []int{size, 0}, ""},
		{"first batch whole in spite of the request's limit", []int32{0, 1}, 10, 1 << 20, []int{size, 0}, ""},
		{"the first with data, not the first", []int32{3, 1, 0}, 10, 10, []int{0, size, 0}, ""},
		{"the second gets what is left", []int32{0, 1, 2}, int32(3 * size), 1 << 20, []int{2 * size, size, 0}, ""},
		{"a batch is cut by the limit", []int32{0}, int32(size + 100), 1 << 20, []int{size + 100}, ""},
		{"a second partition whose first batch does not fit", []int32{0, 1}, int32(2*size + 100), 1 << 20, []int{2 * size, 0}, ""},
		{"no room at all", []int32{1}, 0, 0, []int{size}, ""},
	} {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MinBytes, req.MaxBytes, req.SessionEpoch = 11, 1, tc.max, -1
		for _, p := range tc.order {
			addFetch(req, "t", p, 0, tc.perPart)
		}
		resp := c.ask(req).(*kmsg.FetchResponse)
		var got []int
		for i, p := range resp.Topics[0].Partitions {
			if p.Partition != tc.order[i] {
				t.Fatalf("%s: order %+v", tc.name, resp.Topics[0].Partitions)
			}
			got = append(got, len(p.RecordBatches))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v bytes, want %v", tc.name, got, tc.want)
		}
	}
}

func TestFetchMaxBytesOfTheBroker(t *testing.T) {
	b := startBroker(t, brokerOptions{properties: map[string]string{"fetch.max.bytes": "1024"}})
	b.createTopic("t", 1, nil)
	c := b.dial()
	for range 10 {
		c.produce("t", 0, strings.Repeat("x", 300))
	}
	if p := c.fetched(fetchFrom(11, "t", 0, 0, 0)); len(p.RecordBatches) == 0 || len(p.RecordBatches) > 1024 {
		t.Fatalf("%d bytes", len(p.RecordBatches))
	}
}

// TestFetchInTheMiddle: an offset inside a batch gets the batch from its
// beginning.
func TestFetchInTheMiddle(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	c := b.dial()
	c.produce("t", 0, "a", "b", "c")
	p := c.fetched(fetchFrom(11, "t", 0, 1, 0))
	if got := valuesOf(t, p.RecordBatches); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Fatalf("%q", got)
	}
}

func TestFetchIsolation(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	c := b.dial()
	c.produce("t", 0, "a")
	req := fetchFrom(11, "t", 0, 0, 0)
	if p := c.fetched(req); p.AbortedTransactions != nil {
		t.Fatalf("read_uncommitted is told of aborted transactions: %+v", p)
	}
	req.IsolationLevel = 1
	if p := c.fetched(req); p.AbortedTransactions == nil || len(p.AbortedTransactions) != 0 || p.LastStableOffset != 1 || len(p.RecordBatches) == 0 {
		t.Fatalf("read_committed: %+v", p)
	}
}

// TestFetchParkedWhenTheTopicGoes ends the wait with an error.
func TestFetchParkedWhenTheTopicGoes(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	id := b.createTopic("t", 1, nil)
	byName, byID := b.dial(), b.dial()
	reqName, reqID := fetchFrom(12, "t", 0, 0, 10_000), fetchFrom(13, "", 0, 0, 10_000)
	reqID.Topics[0].TopicID = id
	byName.send(reqName)
	byID.send(reqID)
	b.parked(2)
	b.deleteTopic("t")
	if p := byName.onlyPartition(byName.receive(reqName).(*kmsg.FetchResponse)); p.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("by name: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	if p := byID.onlyPartition(byID.receive(reqID).(*kmsg.FetchResponse)); p.ErrorCode != kerr.UnknownTopicOrPartition.Code && p.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("by id: %v", kerr.ErrorForCode(p.ErrorCode))
	}
	b.onLoops(func(lp *loop) bool { return len(lp.waitPoints) == 0 })
}

// TestFetchParkedHoldsUpItsConnection: requests behind a parked fetch wait.
func TestFetchParkedHoldsUpItsConnection(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	c := b.dial()
	fetch := fetchFrom(11, "t", 0, 0, 10_000)
	produce := produceTo(9, 1, "t", 0, batchOf("a"))
	c.send(fetch, produce)
	c.silent(50 * time.Millisecond)
	b.dial().produce("t", 0, "other")
	c.receive(fetch)
	if p := c.receive(produce).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.BaseOffset != 1 {
		t.Fatalf("%+v", p)
	}
}

// TestFetchParkedConnectionCloses lets the request go.
func TestFetchParkedConnectionCloses(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 2})
	b.createTopic("t", 1, nil)
	for range 4 {
		c := b.dial()
		c.send(fetchFrom(11, "t", 0, 0, 60_000))
		b.parked(1)
		c.reset()
		b.parked(0)
	}
	b.dial().produce("t", 0, "a")
	b.onLoops(func(lp *loop) bool { return len(lp.waitPoints) == 0 })
}

// TestFetchManyWaiters wakes consumers of all loops at once, again and again.
func TestFetchManyWaiters(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 4})
	b.createTopic("t", 2, nil)
	var consumers []*client
	for range 24 {
		consumers = append(consumers, b.dial())
	}
	producer := b.dial()
	for round := range 20 {
		req := fetchFrom(11, "t", 0, int64(round), 10_000)
		addFetch(req, "t", 1, int64(round), 1<<20)
		for _, c := range consumers {
			c.send(req)
		}
		if round%2 == 0 {
			b.parked(len(consumers))
		}
		producer.produce("t", int32(round%2), "x")
		producer.produce("t", int32(1-round%2), "x")
		for i, c := range consumers {
			resp := c.receive(req).(*kmsg.FetchResponse)
			n := 0
			for _, p := range resp.Topics[0].Partitions {
				n += len(p.RecordBatches)
			}
			if n == 0 {
				t.Fatalf("round %d: consumer %d got nothing", round, i)
			}
		}
	}
}

// TestDrain answers what is parked when the server stops.
func TestDrain(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 2})
	b.createTopic("t", 1, nil)
	c := b.dial()
	req := fetchFrom(11, "t", 0, 0, 60_000)
	c.send(req)
	b.parked(1)
	for _, l := range b.server.Loops() {
		l.Post(taskFunc(b.engine.Drain))
	}
	if p := c.onlyPartition(c.receive(req).(*kmsg.FetchResponse)); p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
	begin := time.Now()
	c.ask(req)
	if d := time.Since(begin); d > time.Second {
		t.Fatalf("a fetch while stopping takes %v", d)
	}
}
