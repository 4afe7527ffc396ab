package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/posthouse/posthouse/engine/metrics"
	"github.com/posthouse/posthouse/netio"
)

// statsTask reads a loop's counters on the loop.
type statsTask struct {
	engine *Engine
	stats  LoopStats
	done   chan struct{}
}

func (t *statsTask) Run(l *netio.Loop) {
	t.engine.LoopStats(l, &t.stats)
	close(t.done)
}

// stats adds up what all loops have counted.
func (b *testBroker) stats() *LoopStats {
	all := &LoopStats{}
	for _, l := range b.server.Loops() {
		t := &statsTask{engine: b.engine, done: make(chan struct{})}
		l.Post(t)
		<-t.done
		all.Requests.Add(&t.stats.Requests)
		all.DelayedFetches += t.stats.DelayedFetches
		all.DelayedProduces += t.stats.DelayedProduces
	}
	return all
}

// await polls until cond holds.
func (b *testBroker) await(what string, cond func() bool) {
	b.Helper()
	for deadline := time.Now().Add(clientTimeout); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestRequestCounts counts requests, their times, their errors and the traffic
// of partitions.
func TestRequestCounts(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, o brokerOptions) {
		b := startBroker(t, o)
		b.createTopic("t", 1, nil)
		c := b.dial()
		batch := batchOf("a", "b")
		size := uint64(len(batch))
		c.ask(produceTo(9, -1, "t", 0, batch))
		c.ask(produceTo(8, 1, "t", 7, batchOf("x")))
		c.ask(fetchFrom(12, "t", 0, 0, 0))
		c.ask(fetchFrom(12, "t", 0, 99, 0))
		meta := kmsg.NewPtrMetadataRequest()
		meta.Version, meta.AllowAutoTopicCreation = 9, false
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr("absent")
		meta.Topics = append(meta.Topics, topic)
		c.ask(meta)

		b.await("five answers", func() bool { return b.stats().Requests.API(3) != nil && b.stats().Requests.API(3).Total.Count() == 1 })
		s := b.stats()
		produce, fetch := s.Requests.API(0), s.Requests.API(ConsumerFetches.Key)
		if produce.Versions[9] != 1 || produce.Versions[8] != 1 || produce.Total.Count() != 2 || produce.Bytes < size {
			t.Errorf("produce: %+v", produce)
		}
		if n := s.Requests.API(1).Versions[12]; n != 2 || fetch.Versions[12] != 2 || fetch.Local.Count() != 2 {
			t.Errorf("fetch: %d, of consumers %+v", n, fetch)
		}
		if s.Requests.API(FollowerFetches.Key) != nil {
			t.Error("a consumer's fetch counts as a follower's")
		}
		errors := s.Requests.Errors()
		for key, want := range map[int16]int16{0: kerr.UnknownTopicOrPartition.Code, 1: kerr.OffsetOutOfRange.Code, 3: kerr.UnknownTopicOrPartition.Code} {
			if n := errors[metrics.APIError{Key: key, Code: want}]; n != 1 {
				t.Errorf("api %d error %d: counted %d times in %v", key, want, n, errors)
			}
		}
		traffic := b.manager.Lookup([]byte("t"), 0).Traffic()
		if traffic.Records != 2 || traffic.Bytes != size || traffic.Batches != 1 || traffic.BytesRead != size || traffic.FailedFetches != 1 {
			t.Errorf("traffic %+v, the batch has %d bytes", traffic, size)
		}
	})
}

// TestDelayedCounts looks at a fetch while it waits.
func TestDelayedCounts(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, o brokerOptions) {
		b := startBroker(t, o)
		b.createTopic("t", 1, nil)
		c := b.dial()
		follower := fetchFrom(12, "t", 0, 0, 60_000)
		c.send(follower)
		b.await("a parked fetch", func() bool { return b.stats().DelayedFetches == 1 })
		time.Sleep(20 * time.Millisecond)
		b.dial().produce("t", 0, "v")
		c.receive(follower)
		b.await("its count", func() bool {
			f := b.stats().Requests.API(ConsumerFetches.Key)
			return f != nil && f.Total.Count() == 1
		})
		s := b.stats()
		f := s.Requests.API(ConsumerFetches.Key)
		if s.DelayedFetches != 0 || f.Remote.Sum() < 20*time.Millisecond || f.Local.Sum() > f.Total.Sum()-f.Remote.Sum() {
			t.Errorf("delayed %d, remote %v, local %v, total %v", s.DelayedFetches, f.Remote.Sum(), f.Local.Sum(), f.Total.Sum())
		}
	})
}

// TestErrorCodes finds codes at every depth of an answer.
func TestErrorCodes(t *testing.T) {
	commit := kmsg.NewPtrOffsetCommitResponse()
	for _, code := range []int16{0, 25, 22} {
		p := kmsg.NewOffsetCommitResponseTopicPartition()
		p.ErrorCode = code
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Partitions = append(topic.Partitions, p)
		commit.Topics = append(commit.Topics, topic)
	}
	heartbeat := kmsg.NewPtrHeartbeatResponse()
	heartbeat.ErrorCode = 27
	for _, c := range []struct {
		resp kmsg.Response
		want []int16
	}{{commit, []int16{25, 22}}, {heartbeat, []int16{27}}, {kmsg.NewPtrMetadataResponse(), nil}} {
		if got := errorCodes(nil, c.resp); !slices.Equal(got, c.want) {
			t.Errorf("%T: codes %v, want %v", c.resp, got, c.want)
		}
	}
	for key := range int16(maxKey + 1) {
		if resp := kmsg.ResponseForKey(key); resp != nil {
			_ = errorCodes(nil, resp) // every type has a plan
		}
	}
}
