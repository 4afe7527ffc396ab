//go:build e2e

package e2e

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestStreams runs a word count on Kafka Streams (testdata/java/WordCount.java):
// a repartition topic, a store with a changelog, a second instance that takes
// part of the work, and the end of the first, after which the second has it all
// from the changelog.
func TestStreams(t *testing.T) {
	const partitions = 4
	words := []string{"post", "house", "horse", "rider", "letter", "road", "inn"}
	onEachEngineInFull(t, func(t *testing.T, engine string) {
		s := startServer(t, engine, "group.initial.rebalance.delay.ms=0")
		mustCreateTopic(t, s.addr, "lines", partitions, nil)
		mustCreateTopic(t, s.addr, "counts", partitions, nil)
		start := func() *program {
			return startProgram(t, javaProgram(t, "WordCount", s.addr, "wordcount", "lines", "counts", scratchDir(t)))
		}
		counts := map[string]int64{}
		write := func(lines int) {
			t.Helper()
			cl := newClient(t, s.addr, kgo.DefaultProduceTopic("lines"))
			defer cl.Close()
			var records []*kgo.Record
			for i := range lines {
				line := []string{words[i%len(words)], words[i*i%len(words)], words[0]}
				for _, w := range line {
					counts[w]++
				}
				records = append(records, kgo.StringRecord(strings.Join(line, " ")))
			}
			if err := cl.ProduceSync(within(t, time.Minute), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		lines := amount(20_000, 2_000)
		write(lines)
		first := start()
		first.waitLine(t, 90*time.Second, 0, "RUNNING")
		waitCounts(t, s.addr, partitions, counts)
		second := start()
		second.waitLine(t, 90*time.Second, 0, "RUNNING")
		write(lines)
		waitCounts(t, s.addr, partitions, counts)
		first.stdin.Close()
		first.waitLine(t, time.Minute, 0, "CLOSED")
		first.wait(t, time.Minute)
		write(lines)
		waitCounts(t, s.addr, partitions, counts)
		from := 0
		for _, w := range words {
			if counts[w] == 0 {
				continue
			}
			fmt.Fprintln(second.stdin, w)
			var line string
			if line, from = second.waitLine(t, time.Minute, from, w+"="); line != fmt.Sprintf("%s=%d", w, counts[w]) {
				t.Errorf("the store says %s, want %d", line, counts[w])
			}
		}
		second.stdin.Close()
		second.wait(t, time.Minute)
		for _, topic := range []string{"wordcount-words-repartition", "wordcount-counts-changelog"} {
			if found, ok := describeTopic(t, s.addr, topic); !ok || len(found.Partitions) != partitions {
				t.Errorf("%s: there %v, %d partitions", topic, ok, len(found.Partitions))
			}
		}
		s.stop(t)
		dumpLogs(t, s.Config.Dir, allSegments)
	})
}

// waitCounts reads the topic of counts until the last count of each word is the
// one wanted.
func waitCounts(t *testing.T, addr string, partitions int, want map[string]int64) {
	t.Helper()
	ctx := within(t, 90*time.Second)
	cl := newClient(t, addr, fromOffset("counts", partitions, 0))
	defer cl.Close()
	last := map[string]int64{}
	for {
		right := 0
		for w, n := range want {
			if last[w] == n {
				right++
			}
		}
		if right == len(want) {
			return
		}
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the counts are %v, want %v", last, want)
		}
		fetches.EachRecord(func(r *kgo.Record) { last[string(r.Key)] = int64(binary.BigEndian.Uint64(r.Value)) })
	}
}

// TestConnect runs Connect standalone with Kafka's file connectors: lines of a
// file go into a topic and from there into another file, across a restart of the
// worker, which finds the sink's offsets in its group.
func TestConnect(t *testing.T) {
	onEachEngineInFull(t, func(t *testing.T, engine string) {
		s := startServer(t, engine, "group.initial.rebalance.delay.ms=0")
		mustCreateTopic(t, s.addr, "files", 1, nil)
		dir := scratchDir(t)
		source, sink := filepath.Join(dir, "source.txt"), filepath.Join(dir, "sink.txt")
		property := func(name string, lines ...string) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			return path
		}
		rest, err := bench.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		worker := property("worker.properties", "bootstrap.servers="+s.addr, "listeners=http://"+rest,
			"key.converter=org.apache.kafka.connect.storage.StringConverter", "value.converter=org.apache.kafka.connect.storage.StringConverter",
			"offset.storage.file.filename="+filepath.Join(dir, "offsets"), "offset.flush.interval.ms=500", "plugin.discovery=only_scan")
		in := property("source.properties", "name=file-source", "connector.class=FileStreamSource", "tasks.max=1", "file="+source, "topic=files")
		out := property("sink.properties", "name=file-sink", "connector.class=FileStreamSink", "tasks.max=1", "file="+sink, "topics=files")
		lines := amount(20_000, 2_000)
		var want []string
		appendLines := func(n int) {
			t.Helper()
			f, err := os.OpenFile(source, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			w := bufio.NewWriter(f)
			for range n {
				line := fmt.Sprintf("line %d of the file", len(want))
				want = append(want, line)
				fmt.Fprintln(w, line)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		arrived := func() bool {
			data, err := os.ReadFile(sink)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return strings.Count(string(data), "\n") >= len(want)
		}
		for round := range 2 {
			appendLines(lines)
			connect := startProgram(t, connectStandalone(t, worker, in, out))
			waitUntil(t, 90*time.Second, "last line in the sink", arrived)
			appendLines(lines)
			waitUntil(t, time.Minute, "last line in the sink", arrived)
			if round == 0 {
				waitUntil(t, time.Minute, "commit of the sink", func() bool {
					return committedOffsets(t, s.addr, "connect-file-sink", "files")[0] == int64(len(want))
				})
			}
			connect.terminate(t, time.Minute)
		}
		data, err := os.ReadFile(sink)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Split(strings.TrimSpace(string(data)), "\n"); !slices.Equal(got, want) {
			t.Errorf("%d lines arrived, %d were written, or they differ", len(got), len(want))
		}
		s.stop(t)
	})
}
