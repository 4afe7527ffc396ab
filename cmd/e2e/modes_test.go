//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const modePartitions = 7

// reading is what one consumer of a group has read so far, by value.
type reading struct {
	mu   sync.Mutex
	seen map[string]int // guarded by mu: how often each value came
}

// startReader consumes a topic as a member of a group until the test ends. It
// commits what it has read before a partition is taken away.
func startReader(t *testing.T, addr, group, topic string, into *reading, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl := newClient(t, addr, append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.BlockRebalanceOnPoll(), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(300 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			fetches := cl.PollFetches(ctx)
			into.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) { into.seen[string(r.Value)]++ })
			into.mu.Unlock()
			if err := cl.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("commit of %s: %v", group, err)
			}
			cl.AllowRebalance()
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return cl
}

// produceValues produces "PREFIX 0" to "PREFIX n-1".
func produceValues(t *testing.T, addr, topic, prefix string, n int) {
	t.Helper()
	cl := newClient(t, addr, kgo.DefaultProduceTopic(topic))
	defer cl.Close()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Key: fmt.Appendf(nil, "%d", i), Value: fmt.Appendf(nil, "%s %d", prefix, i)}
	}
	if err := cl.ProduceSync(within(t, time.Minute), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// TestPointToPoint is a queue: many consumers in one group, and each record
// reaches exactly one of them, also while some come and go.
func TestPointToPoint(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		s := startServer(t, engine, "group.initial.rebalance.delay.ms=0")
		mustCreateTopic(t, s.addr, "queue", modePartitions, nil)
		n := amount(20_000, 3_000)
		readings := make([]*reading, 4)
		var leaver *kgo.Client
		for i := range readings {
			readings[i] = &reading{seen: map[string]int{}}
			cl := startReader(t, s.addr, "workers", "queue", readings[i])
			if i == 0 {
				leaver = cl
			}
			waitShared(t, s.addr, "workers", "queue", i+1)
			produceValues(t, s.addr, "queue", fmt.Sprint("round ", i), n)
		}
		waitUntil(t, time.Minute, "reader of every record", func() bool { return total(readings) >= len(readings)*n })
		leaver.Close()
		produceValues(t, s.addr, "queue", "last round", n)
		want := (len(readings) + 1) * n
		waitUntil(t, time.Minute, "reader of every record", func() bool { return total(readings) >= want })
		// What comes too often comes soon.
		time.Sleep(500 * time.Millisecond)
		all := map[string]int{}
		for _, r := range readings {
			r.mu.Lock()
			for value, times := range r.seen {
				all[value] += times
			}
			r.mu.Unlock()
		}
		for value, times := range all {
			if times != 1 {
				t.Errorf("%q was read %d times", value, times)
			}
		}
		if len(all) != want {
			t.Errorf("%d records read, %d produced", len(all), want)
		}
		for i, r := range readings {
			if len(r.seen) == 0 {
				t.Errorf("consumer %d got nothing: the work is not shared", i)
			}
		}
	})
}

// waitShared waits until the group has that many members, each with a partition.
func waitShared(t *testing.T, addr, group, topic string, members int) {
	t.Helper()
	cl := newClient(t, addr)
	defer cl.Close()
	admin := kadm.NewClient(cl)
	waitUntil(t, time.Minute, fmt.Sprintf("group of %d members", members), func() bool {
		// The first question may come while the offsets topic is made.
		described, err := admin.DescribeGroups(within(t, 10*time.Second), group)
		if err != nil {
			return false
		}
		g := described[group]
		if g.State != "Stable" || len(g.Members) != members {
			return false
		}
		all := 0
		for _, m := range g.Members {
			assignment, ok := m.Assigned.AsConsumer()
			if !ok {
				return false
			}
			own := 0
			for _, in := range assignment.Topics {
				if in.Topic == topic {
					own += len(in.Partitions)
				}
			}
			if own == 0 {
				return false
			}
			all += own
		}
		return all == modePartitions
	})
}

// total is how many records all of them have read.
func total(readings []*reading) int {
	n := 0
	for _, r := range readings {
		r.mu.Lock()
		n += sum(r.seen)
		r.mu.Unlock()
	}
	return n
}

// TestPublishSubscribe is a broadcast: each of many groups reads every record
// once, whichever protocol it uses and whenever it comes.
func TestPublishSubscribe(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		s := startServer(t, engine, "group.initial.rebalance.delay.ms=0")
		mustCreateTopic(t, s.addr, "news", modePartitions, nil)
		n := amount(10_000, 2_000)
		readings := make([]*reading, 10)
		for i := range readings {
			readings[i] = &reading{seen: map[string]int{}}
			var opts []kgo.Opt
			if i%2 == 1 {
				opts = append(opts, kgo.ServerSideBalancer())
			}
			if i == len(readings)/2 {
				produceValues(t, s.addr, "news", "early", n)
			}
			startReader(t, s.addr, fmt.Sprint("subscriber-", i), "news", readings[i], opts...)
		}
		produceValues(t, s.addr, "news", "late", n)
		for i, r := range readings {
			one := []*reading{r}
			waitUntil(t, time.Minute, fmt.Sprintf("end of the news for group %d", i), func() bool { return total(one) >= 2*n })
			r.mu.Lock()
			if len(r.seen) != 2*n || sum(r.seen) != 2*n {
				t.Errorf("group %d read %d records, %d different ones, of %d", i, sum(r.seen), len(r.seen), 2*n)
			}
			r.mu.Unlock()
		}
	})
}

func sum(seen map[string]int) int {
	n := 0
	for _, times := range seen {
		n += times
	}
	return n
}

// TestPartitionChoice lets Kafka's Java client choose partitions: explicit ones,
// by the hash of the key, sticky and round robin. Each record must be where the
// client was told that it is, the hash must agree with murmur2 as other clients
// know it, and keyless records must use more than one partition.
func TestPartitionChoice(t *testing.T) {
	const count = 2000
	onEachEngine(t, func(t *testing.T, engine string) {
		s := startServer(t, engine)
		mustCreateTopic(t, s.addr, "placed", modePartitions, nil)
		out := run(t, 2*time.Minute, javaProgram(t, "Placement", s.addr, "placed", fmt.Sprint(modePartitions), fmt.Sprint(count)))
		where := map[string][2]int64{} // value → partition, offset
		use := map[string][]int{}      // kind → records by partition
		for line := range strings.Lines(out) {
			var kind string
			var index, partition int
			var offset int64
			if n, err := fmt.Sscanf(line, "%s %d %d %d", &kind, &index, &partition, &offset); err != nil || n != 4 {
				continue
			}
			where[fmt.Sprintf("%s %d", kind, index)] = [2]int64{int64(partition), offset}
			if use[kind] == nil {
				use[kind] = make([]int, modePartitions)
			}
			use[kind][partition]++
		}
		if len(where) != 4*count {
			t.Fatalf("the Java client placed %d records of %d:\n%s", len(where), 4*count, tail(out))
		}
		ctx := within(t, time.Minute)
		cl := newClient(t, s.addr, fromOffset("placed", modePartitions, 0))
		for read := 0; read < 4*count; {
			pollRecords(t, ctx, cl).EachRecord(func(r *kgo.Record) {
				read++
				if at, ok := where[string(r.Value)]; !ok || at != [2]int64{int64(r.Partition), r.Offset} {
					t.Errorf("%q is at %d of partition %d, the producer was told %v", r.Value, r.Offset, r.Partition, at)
				}
			})
		}
		checkPlacement(t, where, use, count)
	})
}

func checkPlacement(t *testing.T, where map[string][2]int64, use map[string][]int, count int) {
	t.Helper()
	hash := kgo.StickyKeyPartitioner(nil).ForTopic("placed")
	for i := range count {
		if got := where[fmt.Sprintf("explicit %d", i)][0]; got != int64(i%modePartitions) {
			t.Errorf("explicit %d went to partition %d", i, got)
		}
		want := hash.Partition(&kgo.Record{Key: fmt.Appendf(nil, "key-%d", i)}, modePartitions)
		if got := where[fmt.Sprintf("key %d", i)][0]; got != int64(want) {
			t.Errorf("key-%d went to partition %d, by murmur2 it is %d", i, got, want)
		}
	}
	if used := len(slices.DeleteFunc(slices.Clone(use["sticky"]), func(n int) bool { return n == 0 })); used < 2 {
		t.Errorf("sticky records use %d partitions: %v", used, use["sticky"])
	}
	if low, high := slices.Min(use["robin"]), slices.Max(use["robin"]); high-low > 2 {
		t.Errorf("round robin is uneven: %v", use["robin"])
	}
	t.Logf("records by partition: explicit %v, key %v, sticky %v, robin %v", use["explicit"], use["key"], use["sticky"], use["robin"])
}
