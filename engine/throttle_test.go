package engine

import (
	"testing"
	"time"

	"github.com/posthouse/posthouse/engine/quota"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// limited sets quotas for the client id that test clients have; another is
// dialled by dialAs.
func (b *testBroker) limited(values map[string]float64) {
	b.engine.quotas.Update(map[meta.QuotaEntity]map[string]float64{{ClientID: meta.ExactQuota("test")}: values})
}

// produceBytes sends one batch of about n bytes and returns the answer's
// throttle time.
func (c *client) produceBytes(acks int16, n int) time.Duration {
	c.Helper()
	req := produceTo(9, acks, "t", 0, batchOf(string(make([]byte, n))))
	if acks == 0 {
		c.send(req)
		return 0
	}
	resp := c.ask(req).(*kmsg.ProduceResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		c.Fatalf("produce: %s", errorName(code))
	}
	return time.Duration(resp.ThrottleMillis) * time.Millisecond
}

// TestAGreedyProducerIsHeld lets one client break its quota: it is answered at
// once and told so, its connection is not read until the time is over, and
// another client notices nothing.
func TestAGreedyProducerIsHeld(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, o brokerOptions) {
		b := startBroker(t, o)
		b.createTopic("t", 1, nil)
		const rate = 100_000 // bytes a second: ten seconds' worth pass at once
		b.limited(map[string]float64{"producer_byte_rate": rate})
		greedy, other := b.dial(), b.dialAs("other")
		sent := 0
		throttled := time.Duration(0)
		for throttled == 0 {
			if sent > 12*rate {
				t.Fatal("the quota is not enforced")
			}
			throttled = greedy.produceBytes(1, 50_000)
			sent += 50_000
		}
		answered := time.Now()
		if sent < 10*rate {
			t.Errorf("throttled after %d bytes, ten windows hold %d", sent, 10*rate)
		}
		if throttled > time.Duration(sent-9*rate)*time.Second/rate {
			t.Errorf("throttled for %v after %d bytes", throttled, sent)
		}
		for range 5 {
			if d := other.produceBytes(1, 100_000); d != 0 {
				t.Errorf("the other client is throttled for %v", d)
			}
		}
		greedy.produceBytes(1, 10)
		if waited := time.Since(answered); waited < throttled-50*time.Millisecond {
			t.Errorf("told to wait %v and read again after %v", throttled, waited)
		}
		if s := b.engine.quotas.Stats().Produce; s.Times == 0 || s.Milliseconds < throttled.Milliseconds() {
			t.Errorf("counted %+v", s)
		}
	})
}

// TestAcks0IsMuted throttles a producer that gets no answers.
func TestAcks0IsMuted(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	b.limited(map[string]float64{"producer_byte_rate": 10_000, "request_percentage": 1e-9})
	c := b.dial()
	c.produceBytes(0, 102_500) // of 100 kB: some 250 ms too much
	for deadline := time.Now().Add(clientTimeout); b.engine.quotas.Stats().Produce.Times == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody was throttled")
		}
	}
	begin := time.Now()
	c.produceBytes(1, 10)
	if waited := time.Since(begin); waited < 200*time.Millisecond {
		t.Errorf("read again after %v", waited)
	}
}

// TestFetchOverQuotaIsEmpty holds a consumer, in a session and outside.
func TestFetchOverQuotaIsEmpty(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	filler := b.dialAs("filler")
	for range 8 {
		filler.produceBytes(1, 100_000)
	}
	b.limited(map[string]float64{"consumer_byte_rate": 25_000})
	c := b.dial()
	first := inSession(12, 0, 0)
	addFetch(first, "t", 0, 0, 1<<20)
	first.MaxBytes = 1 << 20
	opened := c.ask(first).(*kmsg.FetchResponse)
	// One fetch may have what ten full windows hold, and no more.
	if n := len(opened.Topics[0].Partitions[0].RecordBatches); opened.ThrottleMillis != 0 || n < 100_000 || n > 250_000 {
		t.Fatalf("the first fetch got %d bytes and %d ms", n, opened.ThrottleMillis)
	}
	next := inSession(12, opened.SessionID, 1)
	next.MaxBytes = 1 << 20
	over := c.ask(next).(*kmsg.FetchResponse)
	if over.ThrottleMillis == 0 || len(over.Topics) != 0 || over.SessionID != opened.SessionID || over.ErrorCode != 0 {
		t.Fatalf("over quota: %d ms, %d topics, session %d, error %d", over.ThrottleMillis, len(over.Topics), over.SessionID, over.ErrorCode)
	}
	other := b.dialAs("other").ask(fetchFrom(12, "t", 0, 0, 0)).(*kmsg.FetchResponse)
	if other.ThrottleMillis != 0 || len(other.Topics[0].Partitions[0].RecordBatches) < 500_000 {
		t.Error("another client is held")
	}
	b.engine.quotas.Update(nil)
	// The connection is muted still, but the session goes on where it was.
	on := inSession(12, opened.SessionID, 2)
	on.MaxBytes = 1 << 20
	c.send(on)
	c.net.SetReadDeadline(time.Now().Add(time.Minute))
	frame, err := c.receiveRaw(time.Minute)
	if err != nil || len(frame) < 500_000 {
		t.Errorf("after the quota is gone: %d bytes, %v", len(frame), err)
	}
}

// TestMutationQuota refuses, and throttles, a client that creates too much.
func TestMutationQuota(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.limited(map[string]float64{"controller_mutation_rate": 1})
	create := func(c *client, version int16, name string) *kmsg.CreateTopicsResponse {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = version, 5000
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 12, 1
		req.Topics = append(req.Topics, topic)
		return c.ask(req).(*kmsg.CreateTopicsResponse)
	}
	c := b.dial()
	if resp := create(c, 7, "first"); resp.Topics[0].ErrorCode != 0 || resp.ThrottleMillis != 0 {
		t.Fatalf("the first topic: %s, %d ms", errorName(resp.Topics[0].ErrorCode), resp.ThrottleMillis)
	}
	resp := create(c, 7, "second")
	if resp.Topics[0].ErrorCode != kerr.ThrottlingQuotaExceeded.Code || resp.ThrottleMillis <= 0 || resp.ThrottleMillis > 1000 {
		t.Fatalf("the second topic: %s, %d ms", errorName(resp.Topics[0].ErrorCode), resp.ThrottleMillis)
	}
	if resp := create(b.dialAs("other"), 7, "third"); resp.Topics[0].ErrorCode != 0 {
		t.Errorf("another client: %s", errorName(resp.Topics[0].ErrorCode))
	}
}

// TestRequestTimeIsThrottled gives a client next to no processor.
func TestRequestTimeIsThrottled(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	b.limited(map[string]float64{"request_percentage": 1e-6})
	for name, ask := range map[string]func(c *client) int32{
		"on a loop": func(c *client) int32 {
			return c.ask(&kmsg.MetadataRequest{Version: 9, Topics: []kmsg.MetadataRequestTopic{}}).(*kmsg.MetadataResponse).ThrottleMillis
		},
		"on a goroutine": func(c *client) int32 {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.EndpointType = 1
			return c.ask(req).(*kmsg.DescribeClusterResponse).ThrottleMillis
		},
		"produce": func(c *client) int32 { return int32(c.produceBytes(1, 10).Milliseconds()) },
	} {
		c := b.dial()
		ask(c) // noted after it was answered
		if ms := ask(c); ms <= 0 || ms > 1000 {
			t.Errorf("%s: throttled for %d ms", name, ms)
		}
	}
	if ms := b.dialAs("other").produceBytes(1, 10); ms != 0 {
		t.Errorf("another client is throttled for %v", ms)
	}
}

// TestQuotasFollowTheImage sets a quota through the protocol.
func TestQuotasFollowTheImage(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	c := b.dial()
	change := func(remove bool) {
		req := kmsg.NewPtrAlterClientQuotasRequest()
		req.Version = 1
		e := kmsg.NewAlterClientQuotasRequestEntry()
		e.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user"}}
		e.Ops = []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: 1000, Remove: remove}}
		req.Entries = append(req.Entries, e)
		if resp := c.ask(req).(*kmsg.AlterClientQuotasResponse); resp.Entries[0].ErrorCode != 0 {
			t.Fatal(errorName(resp.Entries[0].ErrorCode))
		}
	}
	change(false)
	if !b.engine.quotas.Active(quota.Produce) {
		t.Error("the quota is not in force when the answer is there")
	}
	change(true)
	if b.engine.quotas.Any() {
		t.Error("the quota is still in force")
	}
}
