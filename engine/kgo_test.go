package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKgo lets franz-go's client produce, idempotent and with acks=all as it
// does by default, and consume partitions directly: every record once, in the
// order of each partition.
func TestKgo(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, o brokerOptions) {
		b := startBroker(t, o)
		b.createTopic("t", 4, nil)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		records := 20_000
		if testing.Short() {
			records = 2_000
		}
		for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
			produceWithKgo(ctx, t, b.addr, codec, records/5)
		}
		consumer, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ConsumeTopics("t"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			t.Fatal(err)
		}
		defer consumer.Close()
		last := make(map[int32]int64)
		seen := make(map[string]int)
		for n := 0; n < records/5*5; {
			fetches := consumer.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if want := last[r.Partition]; r.Offset != want {
					t.Errorf("partition %d: offset %d after %d", r.Partition, r.Offset, want-1)
				}
				last[r.Partition] = r.Offset + 1
				seen[string(r.Value)]++
				n++
			})
		}
		for v, n := range seen {
			if n != 5 { // once with each codec
				t.Fatalf("%q came %d times", v, n)
			}
		}
	})
}

func produceWithKgo(ctx context.Context, t *testing.T, addr string, codec kgo.CompressionCodec, records int) {
	t.Helper()
	producer, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("t"),
		kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for i := range records {
		producer.Produce(ctx, &kgo.Record{Value: fmt.Appendf(nil, "record %d", i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("record %d: %v", i, err)
			}
		})
	}
	if err := producer.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}
