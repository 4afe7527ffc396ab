package groups

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/posthouse/posthouse/cmd/posthouse/clitest"
	"github.com/posthouse/posthouse/cmd/posthouse/topics"
)

type node struct {
	t       *testing.T
	address string
}

func start(t *testing.T) node {
	address, _ := clitest.Broker(t)
	n := node{t, address}
	clitest.Run(t, topics.New(), "", "create", "orders", "-p", "2", "-b", address).OK(t)
	ctx := n.within()
	client := n.client(kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	for i := range 10 {
		r := &kgo.Record{Value: []byte{byte(i)}, Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)*1000)}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (n node) within() context.Context {
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	n.t.Cleanup(cancel)
	return ctx
}

func (n node) client(opts ...kgo.Opt) *kgo.Client {
	n.t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(n.address))...)
	if err != nil {
		n.t.Fatal(err)
	}
	return client
}

func (n node) run(args ...string) clitest.Result {
	return clitest.Run(n.t, New(), "", append(args, "-b", n.address)...)
}

// member joins a group and reads count records, which it commits.
func (n node) member(group string, count int, opts ...kgo.Opt) *kgo.Client {
	n.t.Helper()
	client := n.client(append(opts, kgo.ConsumerGroup(group), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(), kgo.ClientID("reader"))...)
	ctx := n.within()
	for got := 0; got < count; {
		fetches := client.PollRecords(ctx, count-got)
		if err := fetches.Err(); err != nil {
			n.t.Fatal(err)
		}
		got += fetches.NumRecords()
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		n.t.Fatal(err)
	}
	return client
}

func TestGroups(t *testing.T) {
	n := start(t)
	client := n.member("billing", 4)
	n.run("list").Contains(t, "GROUP    TYPE     STATE   PROTOCOL TYPE  COORDINATOR\nbilling  classic  Stable  consumer                 1\n")
	if got := n.run("list", "--names", "--state", "Empty").OK(t); got != "" {
		t.Errorf("%q", got)
	}
	d := clitest.Decode[[]described](t, n.run("describe", "billing", "--json"))[0]
	if d.State != "Stable" || d.Assignor != "cooperative-sticky" || len(d.Members) != 1 || d.Lag != 6 || len(d.Partitions) != 2 {
		t.Fatalf("%+v", d)
	}
	if p := d.Partitions[0]; p.Committed != 4 || p.End != 10 || p.Lag != 6 || p.ClientID != "reader" || p.Host != "127.0.0.1" {
		t.Errorf("%+v", p)
	}
	if p := d.Partitions[1]; p.Committed != -1 || p.Lag != -1 {
		t.Errorf("%+v", p)
	}
	n.run("describe", "billing").Contains(t, "group billing: Stable, type classic, assignor cooperative-sticky, 1 member, lag 6, coordinator 1 at 127.0.0.1:")
	n.run("members", "billing").Contains(t, "orders:0,1")
	n.run("lag").Contains(t, "billing  orders           2                  1    6\n")
	n.run("describe", "biling").Fails(t, 1, `group "biling" does not exist: did you mean "billing"?`)

	n.run("reset-offsets", "billing", "--topic", "orders", "--to-earliest").Fails(t, 1, `group "billing" is Stable with 1 member: stop them first`)
	n.run("delete", "billing", "--yes").Fails(t, 1, `group "billing" has members: stop them first`)
	n.run("delete-offsets", "billing", "--topic", "orders", "--yes").Fails(t, 1, "GROUP_SUBSCRIBED_TO_TOPIC")
	client.Close()

	n.run("delete", "billing").Fails(t, 2, "delete 1 group with all offsets: confirm it with --yes")
	n.run("members", "billing").Contains(t, "no members\n")
	n.run("delete-offsets", "billing", "--topic", "orders:0", "--yes").Contains(t, "deleted offsets of 1 partition\n")
	n.run("describe", "billing").Contains(t, "it has committed nothing and reads nothing\n")
	n.run("delete", "billing", "--yes").Contains(t, "deleted group billing\n")
	n.run("delete", "billing", "--yes").Fails(t, 1, `group "billing" does not exist`)
	n.run("lag", "billing").Fails(t, 1, "does not exist")
}

func TestResetOffsets(t *testing.T) {
	n := start(t)
	n.member("billing", 4).Close()
	committed := func() int64 {
		for _, p := range clitest.Decode[[]described](t, n.run("describe", "billing", "--json"))[0].Partitions {
			if p.Partition == 0 {
				return p.Committed
			}
		}
		return -1
	}
	for _, c := range []struct {
		args string
		want int64
	}{
		{"--to-earliest", 0}, {"--to-latest", 10}, {"--to-offset 7", 7}, {"--shift-by -2", 5}, {"--shift-by 99", 10},
		{"--to-datetime 2023-11-14T22:13:23Z", 3}, {"--by-duration 1h", 10}, {"--to-offset 99", 10}, {"--to-offset 2", 2}, {"--to-current", 2},
	} {
		args := append([]string{"reset-offsets", "billing", "--topic", "orders:0"}, strings.Fields(c.args)...)
		before := committed()
		moves := clitest.Decode[[]move](t, n.run(append(args, "--json")...))
		if len(moves) != 1 || moves[0].From != before || moves[0].To != c.want || moves[0].Lag != 10-c.want {
			t.Errorf("%s: %+v", c.args, moves)
		}
		if got := committed(); got != before {
			t.Errorf("%s: %d is committed without --execute", c.args, got)
		}
		n.run(append(args, "--execute")...).OK(t)
		if got := committed(); got != c.want {
			t.Errorf("%s: %d is committed", c.args, got)
		}
	}
	n.run("reset-offsets", "billing", "--all-topics", "--to-latest").Contains(t, "nothing was done: --execute does it\n")

	file := filepath.Join(t.TempDir(), "offsets.csv")
	if err := os.WriteFile(file, []byte(n.run("reset-offsets", "billing", "--topic", "orders", "--to-offset", "6", "--csv").OK(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	n.run("reset-offsets", "anew", "--from-file", file, "--execute").Contains(t, "orders          0          -    6         4")
	if got := clitest.Decode[[]described](t, n.run("describe", "anew", "--json"))[0]; got.State != "Empty" || got.Lag != 4 {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(file, []byte("orders,0,x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.run("reset-offsets", "anew", "--from-file", file).Fails(t, 1, file+":1", "want topic,partition,offset")
	n.run("reset-offsets", "anew", "--topic", "orders:1", "--shift-by", "1").Contains(t, "orders          1")
	n.run("reset-offsets", "billing", "--topic", "oders", "--to-latest").Fails(t, 1, `did you mean "orders"?`)
	n.run("reset-offsets", "billing", "--topic", "orders:9", "--to-latest").Fails(t, 1, "has no partition 9")
	n.run("reset-offsets", "nobody", "--all-topics", "--to-latest").Fails(t, 1, "committed nothing")
}

func TestMistakes(t *testing.T) {
	n := node{t, "127.0.0.1:1"}
	for args, want := range map[string]string{
		"describe":                   "which group?",
		"reset-offsets":              "which group?",
		"reset-offsets a b":          `unexpected "b"`,
		"delete-offsets a --topic t": "confirm it with --yes",
		"list --tpye x":              "unknown flag",
	} {
		n.run(strings.Fields(args)...).Fails(t, 2, want)
	}
}

// TestTargets wants one of the flags that say where to.
func TestTargets(t *testing.T) {
	for args, want := range map[string]string{
		"--to-earliest": "to-earliest", "--to-offset 0": "to-offset", "": "error", "--to-latest --shift-by 3": "error",
	} {
		cmd, to := &cobra.Command{Use: "x"}, &target{}
		to.register(cmd)
		if err := cmd.ParseFlags(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		got, err := to.chosen()
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s, %v", args, got, err)
		}
	}
}

func TestWithin(t *testing.T) {
	p := place{start: 5, end: 10}
	for offset, want := range map[int64]string{4: "5 4 is before the beginning", 5: "5 ", 10: "10 ", 11: "10 11 is past the end"} {
		got, note := p.within(offset)
		if text := fmt.Sprint(got, " ", note); text != want {
			t.Errorf("%d: %q, want %q", offset, text, want)
		}
	}
}
