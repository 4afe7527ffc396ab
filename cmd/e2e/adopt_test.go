//go:build e2e

package e2e

import (
	"bytes"
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

const adoptedPartitions = 3

// TestAdoption lets Apache Kafka 4.4 write a topic, stops it, copies the
// partition directories into an empty store and compares every byte of every
// batch that the broker serves with Kafka's files.
func TestAdoption(t *testing.T) {
	kafka := startServer(t, engineKafka)
	mustCreateTopic(t, kafka.addr, "adopted", adoptedPartitions, map[string]string{"segment.bytes": "1048576"})
	writeAdopted(t, kafka.addr)
	kafka.stop(t)
	onEachEngine(t, func(t *testing.T, engine string) {
		s := kafka
		if engine == engineKafka {
			s.start(t)
		} else {
			dir := scratchDir(t)
			copyPartitions(t, kafka.Config.Dir, dir)
			s = startServerIn(t, engine, dir)
		}
		waitTopic(t, s.addr, "adopted", adoptedPartitions)
		for p := range int32(adoptedPartitions) {
			want := logBytes(t, filepath.Join(kafka.Config.Dir, fmt.Sprintf("adopted-%d", p)))
			got := fetchBytes(t, s.addr, "adopted", p)
			if !bytes.Equal(got, want) {
				t.Errorf("partition %d: %d bytes served, Kafka wrote %d, and they differ", p, len(got), len(want))
			}
		}
		if engine == engineKafka {
			s.stop(t)
			return
		}
		// The log goes on where Kafka left off, across a restart as well.
		end := endOffset(t, s.addr, "adopted", 0)
		rng := newRand(t)
		for n := range int64(2) {
			if base := produceBatch(t, s.addr, "adopted", 0, bench.Batch(rng, 1, 100)); base != end+n {
				t.Errorf("the record after Kafka's %d has offset %d", end+n, base)
			}
			s.stop(t)
			s.start(t)
		}
		s.stop(t)
		dumpLogs(t, s.Config.Dir, allSegments)
	})
}

// writeAdopted writes batches of all codecs, with and without producer ids.
func writeAdopted(t *testing.T, addr string) {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	perRun := amount(30_000, 6_000)
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, codec := range codecs {
		opts := []kgo.Opt{kgo.DefaultProduceTopic("adopted"), kgo.ProducerBatchCompression(codec)}
		if i%2 == 1 {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
		cl := newClient(t, addr, opts...)
		for n := range perRun {
			record := kgo.KeySliceRecord(fmt.Append(nil, n), fmt.Append(nil, n, strings.Repeat("v", n%300)))
			cl.Produce(ctx, record, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		if err := cl.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		cl.Close()
	}
}

// copyPartitions copies the directories of partitions and nothing else: no
// checkpoint, no meta.properties, no metadata log.
func copyPartitions(t *testing.T, from, to string) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(from, "adopted-*"))
	if err != nil || len(dirs) != adoptedPartitions {
		t.Fatalf("partition directories %v: %v", dirs, err)
	}
	for _, dir := range dirs {
		if err := os.CopyFS(filepath.Join(to, filepath.Base(dir)), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
}

// logBytes is what a partition's segment files hold, one behind the other.
func logBytes(t *testing.T, dir string) []byte {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("segments in %s: %v %v", dir, logs, err)
	}
	slices.Sort(logs)
	var all []byte
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}
