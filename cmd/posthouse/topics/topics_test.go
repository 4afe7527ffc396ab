package topics

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/posthouse/posthouse/cmd/posthouse/clitest"
)

// node is a broker and the way to run topic commands against it.
type node struct {
	t       *testing.T
	address string
}

func start(t *testing.T, overrides ...string) node {
	address, _ := clitest.Broker(t, overrides...)
	return node{t, address}
}

func (n node) run(args ...string) clitest.Result {
	return clitest.Run(n.t, New(), "", append(args, "--bootstrap", n.address)...)
}

// produce writes n records a second apart, from a time on, into partition 0.
func (n node) produce(topic string, count int, from time.Time) {
	n.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(n.address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		n.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	for i := range count {
		r := &kgo.Record{Topic: topic, Value: fmt.Append(nil, i), Timestamp: from.Add(time.Duration(i) * time.Second)}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			n.t.Fatal(err)
		}
	}
}

func TestCreateListDelete(t *testing.T) {
	n := start(t)
	n.run("create", "orders", "events", "--partitions", "3", "-c", "retention.ms=1000").Contains(t, "created topic orders: 3 partitions, replication factor 1\n", "created topic events")
	n.run("create", "orders").Fails(t, 1, `topic "orders"`, "TOPIC_ALREADY_EXISTS")
	n.run("create", "orders", "--if-not-exists").Contains(t, "topic orders exists\n")
	n.run("create", "new", "--validate-only", "-p", "2").Contains(t, "topic new would be created: 2 partitions, replication factor 1\n")
	n.run("create", "wrong", "-c", "retention.ms=soon").Fails(t, 1, `topic "wrong"`, "INVALID_CONFIG")
	n.run("create", "wide", "-r", "3").Fails(t, 1, `topic "wide"`, "INVALID_REPLICATION_FACTOR")

	if got, want := n.run("list").OK(t), "TOPIC   PARTITIONS  REPLICATION\nevents           3            1\norders           3            1\n"; got != want {
		t.Errorf("list:\n%s\nwant\n%s", got, want)
	}
	if got := n.run("list", "--names").OK(t); got != "events\norders\n" {
		t.Errorf("names: %q", got)
	}
	rows := clitest.Decode[[]listed](t, n.run("list", "--json"))
	if len(rows) != 2 || rows[0].Topic != "events" || rows[0].Partitions != 3 || rows[0].Replication != 1 || len(rows[0].ID) != 22 {
		t.Errorf("%+v", rows)
	}

	n.run("delete", "orders").Fails(t, 2, "delete 1 topic with all records: confirm it with --yes")
	n.run("delete", "ordres", "--yes").Fails(t, 1, `topic "ordres" does not exist: did you mean "orders"?`)
	n.run("delete", "orders", "events", "--yes").Contains(t, "deleted topic events\n", "deleted topic orders\n")
	n.run("delete", "orders", "--yes", "--if-exists").Contains(t, "topic orders does not exist\n")
	if got := clitest.Decode[[]listed](t, n.run("list", "--json")); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
}

func TestDescribeAndAlter(t *testing.T) {
	n := start(t)
	n.run("create", "orders", "-p", "2").OK(t)
	n.produce("orders", 3, time.UnixMilli(1_700_000_000_000))
	n.run("alter", "orders", "-c", "retention.ms=86400000", "-c", "cleanup.policy=compact").Contains(t, "changed topic orders\n")
	n.run("describe", "orders").Contains(t, "topic orders (id ", ": 2 partitions, replication factor 1\n",
		"configs:\n  cleanup.policy=compact\n  retention.ms=86400000\n", "PARTITION  LEADER  EPOCH")
	got := clitest.Decode[[]described](t, n.run("describe", "orders", "--json"))[0]
	if p := got.Partitions[0]; p.Leader != 1 || p.Start != 0 || p.End != 3 || p.Bytes <= 0 || len(p.ISR) != 1 {
		t.Errorf("%+v", p)
	}
	if got.Configs["retention.ms"] != "86400000" || len(got.Warnings) != 0 {
		t.Errorf("%+v", got)
	}
	n.run("alter", "orders", "--delete-config", "retention.ms").OK(t)
	if got := clitest.Decode[[]described](t, n.run("describe", "orders", "--json"))[0].Configs; len(got) != 1 {
		t.Errorf("configs %v", got)
	}
	n.run("alter", "orders").Fails(t, 2, "nothing to change")
	n.run("alter", "orders", "-c", "retention").Fails(t, 2, `"retention": want key=value`)
	n.run("alter", "orders", "-c", "retention.ms=soon", "--validate-only").Fails(t, 1, "INVALID_CONFIG", "retention.ms")
	n.run("describe", "orders", "oders").Fails(t, 1, `topic "oders" does not exist: did you mean "orders"?`)
	n.run("describe", "xyz").Fails(t, 1, `topic "xyz" does not exist: posthouse topic list shows those that do`)
	if got := n.run("describe", "orders", "--under-replicated", "--json").OK(t); !strings.Contains(got, `"partitions": []`) {
		t.Errorf("%s", got)
	}
}

func TestWarnings(t *testing.T) {
	healthy := describedPartition{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}}
	short, none := healthy, healthy
	short.ISR = []int32{1}
	none.Leader = -1
	for _, c := range []struct {
		minISR, unclean string
		partition       describedPartition
		want            string
	}{
		{"2", "false", healthy, ""},
		{"1", "false", healthy, "min.insync.replicas is 1"},
		{"4", "false", healthy, "no produce with acks=all can succeed"},
		{"2", "true", healthy, "unclean.leader.election.enable"},
		{"2", "false", short, "fewer than min.insync.replicas"},
		{"1", "false", short, "1 of 3 replicas in sync"},
		{"2", "false", none, "no leader"},
	} {
		got := strings.Join(warnings(described{Replication: 3, Partitions: []describedPartition{c.partition}},
			map[string]string{"min.insync.replicas": c.minISR, "unclean.leader.election.enable": c.unclean}), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestAddPartitions(t *testing.T) {
	n := start(t)
	n.run("create", "orders", "-p", "2").OK(t)
	n.run("add-partitions", "orders").Fails(t, 2, "--total")
	n.run("add-partitions", "orders", "--total", "5").OK(t)
	n.run("add-partitions", "orders", "--add", "1").OK(t)
	n.run("add-partitions", "orders", "--add", "9", "--validate-only").OK(t)
	if got := clitest.Decode[[]listed](t, n.run("list", "--json")); got[0].Partitions != 6 {
		t.Errorf("%+v", got)
	}
	n.run("add-partitions", "orders", "--total", "3").Fails(t, 1, `topic "orders"`, "INVALID_PARTITIONS")
}

func TestOffsetsAndDeleteRecords(t *testing.T) {
	n := start(t)
	n.run("create", "orders", "-p", "2").OK(t)
	begin := time.UnixMilli(1_700_000_000_000)
	n.produce("orders", 10, begin)
	rows := clitest.Decode[[]offsets](t, n.run("offsets", "orders", "--json", "--at", begin.Add(4*time.Second).UTC().Format(time.RFC3339)))
	if r := rows[0]; r.Start != 0 || r.End != 10 || r.Records != 10 || *r.At != 4 || *r.AtTime != begin.UnixMilli()+4000 {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.End != 0 || *r.At != -1 {
		t.Errorf("%+v", r)
	}
	if r := clitest.Decode[[]offsets](t, n.run("offsets", "orders", "--json", "--at", "max-timestamp"))[0]; *r.At != 9 {
		t.Errorf("%+v", r)
	}
	n.run("offsets", "orders", "--at", "whenever").Fails(t, 2, `"whenever": want a time`)
	n.run("offsets", "orders", "--at", "1700000004000").Contains(t, "2023-11-14T22:13:24.000Z")

	n.run("delete-records", "orders", "--yes").Fails(t, 2, "give --before")
	n.run("delete-records", "orders", "--before", "3").Fails(t, 2, "confirm it with --yes")
	n.run("delete-records", "orders", "--before", "3", "--partitions", "0", "--yes").OK(t)
	n.run("delete-records", "orders", "--before", "99", "--partitions", "0", "--yes").Fails(t, 1, "OFFSET_OUT_OF_RANGE")
	n.run("delete-records", "orders", "--before", "1", "--partitions", "7", "--yes").Fails(t, 1, `has no partition 7: it has 2 partitions`)
	n.run("delete-records", "orders", "--before", "2023-11-14T22:13:25Z", "--yes").OK(t)
	rows = clitest.Decode[[]offsets](t, n.run("offsets", "orders", "--json"))
	if rows[0].Start != 5 {
		t.Errorf("%+v", rows[0])
	}
	if got := clitest.Decode[[]cutOff](t, n.run("delete-records", "orders", "--before", "end", "--yes", "--json")); got[0].Start != 10 || got[1].Start != 0 {
		t.Errorf("%+v", got)
	}
}
