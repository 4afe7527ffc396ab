package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestGroupOfKgo lets members of a stock client come and go: every record is
// consumed once by the group, and what was committed is there after a restart of
// all members.
func TestGroupOfKgo(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 2, properties: map[string]string{"group.initial.rebalance.delay.ms": "50"}})
	const partitions, records = 6, 600
	b.createTopic("t", partitions, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.addr)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		return cl
	}
	producer := client(kgo.DefaultProduceTopic("t"))
	defer producer.Close()
	produce := func(from, to int) {
		for i := from; i < to; i++ {
			if err := producer.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	seen := make(map[string]int)
	consume := func(n int, members ...*kgo.Client) {
		for left := n; left > 0; {
			for _, cl := range members {
				short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				fetches := cl.PollFetches(short)
				cancel()
				fetches.EachRecord(func(r *kgo.Record) {
					seen[string(r.Value)]++
					left--
				})
				if ctx.Err() != nil {
					t.Fatalf("%d records are missing", left)
				}
			}
		}
		for _, cl := range members {
			if err := cl.CommitUncommittedOffsets(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	group := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(100 * time.Millisecond)}
	one, two := client(group...), client(group...)
	adm := kadm.NewClient(producer)
	// What a member has polled and not committed is consumed again by who gets the
	// partition next: nobody polls before both are there.
	for both := false; !both; time.Sleep(5 * time.Millisecond) {
		groups, err := adm.DescribeGroups(ctx, "g")
		if ctx.Err() != nil {
			t.Fatalf("the group is not stable: %+v, %v", groups["g"], err)
		}
		both = err == nil && groups["g"].State == "Stable" && len(groups["g"].Members) == 2
	}
	produce(0, records/2)
	consume(records/2, one, two)
	one.Close()
	two.Close()
	produce(records/2, records)
	three := client(append(group, kgo.InstanceID("i"))...)
	consume(records/2, three)
	for i := range records {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			t.Errorf("record %d was consumed %d times", i, n)
		}
	}
	groups, err := adm.DescribeGroups(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	if g := groups["g"]; g.State != "Stable" || len(g.Members) != 1 || g.Members[0].InstanceID == nil {
		t.Errorf("described as %+v", g)
	}
	lag, err := adm.Lag(ctx, "g")
	if err != nil || lag["g"].Lag.Total() != 0 {
		t.Errorf("lag %v, %v", lag["g"].Lag.Total(), err)
	}
	three.Close()
	if _, err := adm.LeaveGroup(ctx, kadm.LeaveGroup("g").InstanceIDs("i")); err != nil {
		t.Error(err)
	}
	if resp, err := adm.DeleteGroup(ctx, "g"); err != nil || resp.Err != nil {
		t.Errorf("deleting: %v, %v", err, resp.Err)
	}
}
