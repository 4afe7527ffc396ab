package messages

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	return node{t, address}
}

func (n node) topic(name string, partitions int) {
	n.t.Helper()
	clitest.Run(n.t, topics.New(), "", "create", name, "-p", fmt.Sprint(partitions), "-b", n.address).OK(n.t)
}

func (n node) produce(stdin string, args ...string) clitest.Result {
	return clitest.Run(n.t, NewProduce(), stdin, append(args, "-b", n.address)...)
}

func (n node) consume(args ...string) clitest.Result {
	return clitest.Run(n.t, NewConsume(), "", append(args, "-b", n.address)...)
}

func TestLines(t *testing.T) {
	n := start(t)
	n.topic("lines", 1)
	r := n.produce("a\nb\n\nc", "lines")
	r.OK(t)
	if r.Out != "" || r.Err != "4 records acknowledged\n" {
		t.Errorf("%+v", r)
	}
	if got := n.consume("lines").OK(t); got != "a\nb\n\nc\n" {
		t.Errorf("%q", got)
	}
	for args, want := range map[string]string{
		"-n 2":                           "a\nb\n",
		"-o 3":                           "c\n",
		"-o -1":                          "c\n",
		"-o -9":                          "a\nb\n\nc\n",
		"--until 1":                      "a\n",
		"-o 1 --until -1":                "b\n\n",
		"-o end":                         "",
		"-o @1h -n 1":                    "a\n",
		"--until @1h":                    "",
		"-o 2 -F --idle 100ms":           "\nc\n",
		"-f %p:%o:%s:%S:%K\\x21\\n -n 1": "0:0:a:1:-1!\n",
	} {
		if got := n.consume(append([]string{"lines"}, strings.Fields(args)...)...).OK(t); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	n.consume("lines", "-o", "9").Fails(t, 1, `topic "lines" partition 0: offset 9 is not in it: it holds [0, 4)`)
	n.consume("lines:1").Fails(t, 1, `topic "lines" has no partition 1: it has 1 partition, from 0`)
	n.consume("linse").Fails(t, 1, `topic "linse" does not exist: did you mean "lines"?`)
	n.produce("x", "linse").Fails(t, 1, `did you mean "lines"?`, "--create makes it")
	n.produce("x", "fresh", "--create").OK(t)
	if got := n.consume("fresh").OK(t); got != "x\n" {
		t.Errorf("%q", got)
	}
}

func TestKeysHeadersNulls(t *testing.T) {
	n := start(t)
	n.topic("keyed", 3)
	n.produce("k1\tv1\nk1\tNULL\nNULL\tv3\n", "keyed", "-K", `\t`, "-N", "NULL", "-H", "a=1", "-H", "b=x=y", "-z", "zstd", "-p", "2").OK(t)
	if got, want := n.consume("keyed:2", "-f", `%k|%s|%S|%h|%t\n`).OK(t), "k1|v1|2|a=1,b=x=y|keyed\nk1||-1|a=1,b=x=y|keyed\n|v3|2|a=1,b=x=y|keyed\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	n.produce("no key here\n", "keyed", "-K", ":").Fails(t, 1, `standard input, line 1: no key: ":" does not occur`)
	n.produce("x", "keyed", "-p", "3").Fails(t, 1, "has no partition 3: it has 3 partitions")
	n.produce("a;b;c", "keyed", "-D", ";", "-p", "1", "--acks", "1").OK(t)
	if got := n.consume("keyed:1").OK(t); got != "a\nb\nc\n" {
		t.Errorf("%q", got)
	}
}

// TestJSONRoundTrip copies a topic with its keys, headers and bytes that are no
// text.
func TestJSONRoundTrip(t *testing.T) {
	n := start(t)
	n.topic("from", 2)
	n.topic("to", 2)
	in := `{"key":"a","value":"plain","partition":1,"timestamp":1700000000000,"headers":[{"key":"h","value":null},{"key":"g","valueBase64":"/w=="}]}
{"key":null,"value":{"deep": [1, 2]},"partition":1,"timestamp":"2023-11-14T22:13:21Z"}

{"keyBase64":"/wA=","value":null,"partition":1,"timestamp":1700000002000}
`
	n.produce(in, "from", "--json").OK(t)
	first := n.consume("from", "--json").OK(t)
	n.produce(first, "to", "--json").OK(t)
	second := n.consume("to", "--json").OK(t)
	if got := strings.ReplaceAll(second, `"topic":"to"`, `"topic":"from"`); got != first {
		t.Errorf("%s\nwant\n%s", got, first)
	}
	lines := strings.Split(strings.TrimSpace(first), "\n")
	if want := `{"topic":"from","partition":1,"offset":0,"timestamp":1700000000000,"leaderEpoch":0,"key":"a","value":"plain","headers":[{"key":"h","value":null},{"key":"g","value":null,"valueBase64":"/w=="}]}`; lines[0] != want {
		t.Errorf("%s\nwant\n%s", lines[0], want)
	}
	var l line
	if err := json.Unmarshal([]byte(lines[1]), &l); err != nil || *l.Value != `{"deep":[1,2]}` || *l.Timestamp != 1700000001000 {
		t.Errorf("%s: %v", lines[1], err)
	}
	for text, want := range map[string]string{
		"{":                             "standard input, line 1: not a record in JSON",
		`{"valeu":"x"}`:                 `unknown field "valeu"`,
		`{"value":"x"} {"value":"y"}`:   "more than one JSON value",
		`{"value":"x","partition":7}`:   "has no partition 7",
		`{"value":"x","timestamp":"x"}`: "want milliseconds or a time",
		`[]`:                            "not a record in JSON",
	} {
		n.produce(text, "to", "--json").Fails(t, 1, want)
	}
}

func TestFiles(t *testing.T) {
	n := start(t)
	n.topic("files", 1)
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for name, text := range map[string]string{a: "1\n2\n", b: "3\n4\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.produce("", "files", a, b).OK(t)
	n.produce("in\nstead", "files", "--whole", a, "-").OK(t)
	if got := n.consume("files", "-f", "<%s>").OK(t); got != "<1><2><3><4><1\n2\n><in\nstead>" {
		t.Errorf("%q", got)
	}
	n.produce("", "files", dir).Fails(t, 1, "is a directory")
	n.produce("", "files", a+".none").Fails(t, 1, "no such file")
}

func TestTooLarge(t *testing.T) {
	n := start(t)
	n.topic("big", 1)
	n.produce("ok\n"+strings.Repeat("x", 3_000_000), "big").Fails(t, 1, "standard input, line 2", "MESSAGE_TOO_LARGE", "of 2 records sent are acknowledged")
}

// TestPartitioners compares where keys go with what Kafka's Java client does
// (testdata/partitions-java.txt), in the partitioner and once through a broker.
func TestPartitioners(t *testing.T) {
	data, err := os.ReadFile("testdata/partitions-java.txt")
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := parsePartitioner(defaultPartitioner)
	if err != nil {
		t.Fatal(err)
	}
	counts := []int{1, 2, 3, 7, 12, 50, 100, 1000}
	n := start(t)
	n.topic("hashed", 7)
	var input strings.Builder
	want := map[string]string{}
	checked := 0
	for text := range strings.Lines(string(data)) {
		if strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Fields(text)
		key := []byte{}
		if fields[0] != "-" {
			if _, err := fmt.Sscanf(fields[0], "%x", &key); err != nil {
				t.Fatal(err)
			}
		}
		r := &kgo.Record{Key: key, Partition: noPartition}
		for i, count := range counts {
			topic := chosen.ForTopic("t")
			if got := topic.Partition(r, count); fmt.Sprint(got) != fields[1+i] || !topic.RequiresConsistency(r) {
				t.Errorf("key %s of %d partitions: %d, in Java %s", fields[0], count, got, fields[1+i])
			}
			checked++
		}
		encoded, err := json.Marshal(line{KeyBytes: key})
		if err != nil {
			t.Fatal(err)
		}
		if len(key) > 0 { // omitempty leaves out the other
			input.Write(append(encoded, '\n'))
			want[fields[0]] = fields[4]
		}
	}
	if checked < 500 {
		t.Fatalf("only %d places compared", checked)
	}
	n.produce(input.String(), "hashed", "--json").OK(t)
	for got := range strings.Lines(n.consume("hashed", "--json").OK(t)) {
		var l line
		if err := json.Unmarshal([]byte(got), &l); err != nil {
			t.Fatal(err)
		}
		hex := fmt.Sprintf("%x", choose(l.Key, l.KeyBytes))
		if want[hex] != fmt.Sprint(*l.Partition) {
			t.Errorf("key %s is in partition %d, Java puts it into %s", hex, *l.Partition, want[hex])
		}
		delete(want, hex)
	}
	if len(want) > 0 {
		t.Errorf("%d keys are missing", len(want))
	}
}

func TestRoundRobin(t *testing.T) {
	n := start(t)
	n.topic("turns", 3)
	n.produce("k:1\nk:2\nk:3\nk:4\nk:5\nk:6\n", "turns", "-K", ":", "--partitioner", "round-robin").OK(t)
	for p := range 3 {
		if got := n.consume(fmt.Sprintf("turns:%d", p), "--json").OK(t); strings.Count(got, "\n") != 2 {
			t.Errorf("partition %d: %s", p, got)
		}
	}
}

// TestSticky keeps to a partition until its batch is full, whatever the keys.
func TestSticky(t *testing.T) {
	chosen, err := parsePartitioner("sticky")
	if err != nil {
		t.Fatal(err)
	}
	topic := chosen.ForTopic("t")
	seen := map[int]bool{}
	for range 100 {
		first := topic.Partition(&kgo.Record{Key: []byte("a"), Partition: noPartition}, 10)
		for _, key := range []string{"b", "c", "d"} {
			if got := topic.Partition(&kgo.Record{Key: []byte(key), Partition: noPartition}, 10); got != first {
				t.Fatalf("partition %d after %d", got, first)
			}
		}
		seen[first] = true
		topic.(kgo.TopicPartitionerOnNewBatch).OnNewBatch()
	}
	if len(seen) < 5 {
		t.Errorf("batches went to %v alone", seen)
	}
}

// TestFollow reads on until it is interrupted; an interrupted end is a good one.
func TestFollow(t *testing.T) {
	n := start(t)
	n.topic("live", 1)
	n.produce("before\n", "live").OK(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := make(chan string, 1)
	go func() {
		// The command prints to memory; what it has printed shows at its end.
		r := clitest.RunContext(ctx, t, NewConsume(), strings.NewReader(""), "live", "--follow", "-n", "2", "-b", n.address)
		if r.Error != nil {
			t.Errorf("%v", r.Error)
		}
		out <- r.Out
	}()
	n.produce("after\n", "live").OK(t)
	select {
	case got := <-out:
		if got != "before\nafter\n" {
			t.Errorf("%q", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no end")
	}
	stopped, stop := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer stop()
	if r := clitest.RunContext(stopped, t, NewConsume(), strings.NewReader(""), "live", "-F", "-b", n.address); r.Error != nil || r.Out != "before\nafter\n" {
		t.Errorf("%q, %v", r.Out, r.Error)
	}
}

// TestInterruptedInput leaves a blocked input behind, with what came acknowledged.
func TestInterruptedInput(t *testing.T) {
	n := start(t)
	n.topic("typed", 1)
	reader, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.WriteString(writer, "one\n")
		for range 200 {
			if strings.HasPrefix(n.consume("typed").Out, "one") {
				break
			}
		}
		cancel()
	}()
	r := clitest.RunContext(ctx, t, NewProduce(), reader, "typed", "-b", n.address)
	r.Fails(t, 1, "interrupted")
	if r.Err != "1 record acknowledged\n" {
		t.Errorf("%q", r.Err)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"produce":                        "which topic?",
		"produce t --partitioner dice":   "want key-hash, round-robin, sticky",
		"produce t --compression rar":    "want one of none, gzip",
		"produce t --acks 2":             "want 0, 1 or all",
		"produce t -K \\q":               "is no escape",
		"produce t --json --whole":       "--json has keys and nulls of its own",
		"produce t -H x":                 "want key=value",
		"produce t -p -2":                "want 0 or more",
		"produce t --max-bytes 0":        "want more than 0",
		"consume":                        "which topic?",
		"consume t --format %z":          "stands for nothing",
		"consume t --format %":           "stands for nothing",
		"consume t --format \\q":         "is no escape",
		"consume t --json --format %s":   "--json or --format",
		"consume t -o middle":            "want beginning, end",
		"consume t -o @never":            "want a time",
		"consume t -n -1":                "want 0 or more",
		"consume t --isolation dirty":    "want read_uncommitted or read_committed",
		"consume t --protocol consumer":  "for members of a --group",
		"consume t -g g --until 3":       "no --until",
		"consume t -g g --protocol new":  "want classic or consumer",
		"consume t -g g -o 3":            "posthouse group reset-offsets",
		"consume t -g g --assignor best": "want cooperative-sticky, range, roundrobin, sticky",
		"consume t:0 -g g":               "gives partitions to its members",
		"consume t -F --until 3":         "--follow or --until",
	} {
		fields := strings.Fields(text)
		cmd := NewProduce()
		if fields[0] == "consume" {
			cmd = NewConsume()
		}
		clitest.Run(t, cmd, "", append(fields[1:], "-b", "127.0.0.1:1")...).Fails(t, 2, want)
	}
}

func TestBarLine(t *testing.T) {
	if got, want := barLine(1<<20, 4<<20, 2000, 2*time.Second), "[=======                       ]  25 % of 4.0 MiB, 2000 records, 1000/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := barLine(512, -1, 3, time.Second), "512 B, 3 records, 3/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBrokerGone gives up on a broker that stops answering, and says so.
func TestBrokerGone(t *testing.T) {
	address, _, stop := clitest.Start(t)
	n := node{t, address}
	n.topic("cut", 1)
	reader, writer := io.Pipe()
	defer writer.Close()
	go func() {
		_, _ = io.WriteString(writer, "one\n")
		for range 200 {
			if strings.HasPrefix(n.consume("cut").Out, "one") {
				break
			}
		}
		stop()
		_, _ = io.WriteString(writer, "two\n")
		_ = writer.Close()
	}()
	r := clitest.RunContext(t.Context(), t, NewProduce(), reader, "cut", "-b", n.address, "--timeout", "300ms")
	r.Fails(t, 1, "nothing was acknowledged for 900ms", "1 of 2 records sent are acknowledged")
}

// TestGroup reads in a group twice: the second begins where the first has
// printed to.
func TestGroup(t *testing.T) {
	n := start(t)
	n.topic("shared", 1)
	n.produce("1\n2\n3\n4\n5\n", "shared").OK(t)
	for _, want := range []string{"1\n2\n", "3\n4\n"} {
		if got := n.consume("shared", "-g", "readers", "-n", "2").OK(t); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := n.consume("shared", "-g", "readers", "--no-commit", "--idle", "1s", "--assignor", "range").OK(t); got != "5\n" {
		t.Errorf("%q", got)
	}
	if got := n.consume("^sha.*", "-g", "readers", "--regex", "-n", "1").OK(t); got != "5\n" {
		t.Errorf("%q", got)
	}
	if got := n.consume("shared", "-g", "late", "-o", "-1", "-n", "1").OK(t); got != "5\n" {
		t.Errorf("%q", got)
	}
	n.consume("sharde", "-g", "readers").Fails(t, 1, `did you mean "shared"?`)
}
