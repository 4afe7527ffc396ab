//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// newClient makes a kgo client that is closed at the end of the test.
func newClient(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// fromOffset assigns partitions of a topic from one offset on.
func fromOffset(topic string, partitions int, offset int64) kgo.Opt {
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().At(offset)
	}
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
}

// readInOrder reads a topic from offset 0 until it has n records, checks that
// the offsets of each partition follow each other without a gap, and returns
// how many each partition holds.
func readInOrder(t *testing.T, addr, topic string, partitions int, n int64) map[int32]int64 {
	t.Helper()
	ctx := within(t, 3*time.Minute)
	cl := newClient(t, addr, fromOffset(topic, partitions, 0))
	next := map[int32]int64{}
	for total := int64(0); total < n; {
		fetches := pollRecords(t, ctx, cl)
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next[r.Partition] {
				t.Fatalf("%s-%d: offset %d follows %d", topic, r.Partition, r.Offset, next[r.Partition]-1)
			}
			next[r.Partition]++
			total++
		})
	}
	return next
}

// pollRecords polls once; an error of the broker or of ctx ends the test.
func pollRecords(t *testing.T, ctx context.Context, cl *kgo.Client) kgo.Fetches {
	t.Helper()
	fetches := cl.PollFetches(ctx)
	for _, err := range fetches.Errors() {
		t.Fatalf("fetch of %s-%d: %v", err.Topic, err.Partition, err.Err)
	}
	return fetches
}

// TestOutsideClients runs the programs under testdata, each of which creates
// its topic, produces with every codec it has, reads all back and compares
// values, keys, headers, offsets and order.
func TestOutsideClients(t *testing.T) {
	records := fmt.Sprint(amount(30_000, 3_000))
	confluent := pythonWith(t, "confluent-kafka==2.16.0")
	old := oldKafkaPython(t)
	sarama := sarama(t)
	onEachEngine(t, func(t *testing.T, engine string) {
		s := startServer(t, engine)
		for _, client := range []struct {
			name string
			args []string
		}{
			{"confluent-kafka", []string{confluent, filepath.Join("testdata", "python", "confluent.py")}},
			{"kafka-python-2.0.2", []string{old, filepath.Join("testdata", "python", "kafkapython.py")}},
			{"sarama-V1_0_0", []string{sarama}},
		} {
			t.Run(client.name, func(t *testing.T) {
				args := append(client.args[1:], s.addr, client.name, records)
				out := run(t, 3*time.Minute, exec.Command(client.args[0], args...))
				// The last line is the program's own verdict.
				if lastLine(out) != "PASS" {
					t.Fatalf("no PASS:\n%s", tail(out))
				}
				if strings.TrimSpace(out) != "PASS" {
					t.Logf("also printed:\n%s", tail(out))
				}
			})
		}
		t.Run("franz-go", func(t *testing.T) { testFranz(t, s.addr) })
		s.stop(t)
	})
}

// testFranz produces with kgo, with and without idempotence, with each acks and
// codec, and reads all back as a direct consumer.
func testFranz(t *testing.T, addr string) {
	ctx := within(t, 3*time.Minute)
	const partitions = 3
	admin := kadm.NewClient(newClient(t, addr))
	if _, err := admin.CreateTopic(ctx, partitions, 1, nil, "franz"); err != nil {
		t.Fatal(err)
	}
	perRun := amount(50_000, 3_000)
	next := map[int32]int{} // the next value of each partition
	for _, producer := range []struct {
		name string
		opts []kgo.Opt
	}{
		{"idempotent", []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}},
		{"idempotent-zstd", []kgo.Opt{kgo.ProducerBatchCompression(kgo.ZstdCompression())}},
		{"acks1-lz4", []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerBatchCompression(kgo.Lz4Compression())}},
		{"acks-all-gzip", []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.GzipCompression())}},
		// The last, since its end says nothing of when the broker has it all.
		{"acks0-snappy", []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck()), kgo.ProducerBatchCompression(kgo.SnappyCompression())}},
	} {
		cl := newClient(t, addr, append(producer.opts, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("franz"))...)
		var failed atomic.Pointer[error]
		for i := range perRun {
			p := int32(i % partitions)
			cl.Produce(ctx, &kgo.Record{Partition: p, Value: []byte(franzValue(p, next[p]))}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(&err)
				}
			})
			next[p]++
		}
		if err := cl.Flush(ctx); err != nil {
			t.Fatalf("%s: %v", producer.name, err)
		}
		if err := failed.Load(); err != nil {
			t.Fatalf("%s: %v", producer.name, *err)
		}
		cl.Close()
	}
	cl := newClient(t, addr, fromOffset("franz", partitions, 0))
	read := map[int32]int{}
	for total := 0; total < 5*perRun; {
		pollRecords(t, ctx, cl).EachRecord(func(r *kgo.Record) {
			want := franzValue(r.Partition, read[r.Partition])
			if r.Offset != int64(read[r.Partition]) || string(r.Value) != want {
				t.Fatalf("partition %d: %q at offset %d, want %q at %d", r.Partition, r.Value, r.Offset, want, read[r.Partition])
			}
			read[r.Partition]++
			total++
		})
	}
	ends, err := admin.ListEndOffsets(ctx, "franz")
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(partitions) {
		if end, _ := ends.Lookup("franz", p); end.Err != nil || end.Offset != int64(read[p]) {
			t.Errorf("partition %d ends at %d (%v), %d records were read", p, end.Offset, end.Err, read[p])
		}
	}
}

func franzValue(partition int32, i int) string { return fmt.Sprintf("franz %d %d", partition, i) }
