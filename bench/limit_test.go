package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// startLimit starts the limit with some more arguments and returns its address.
func startLimit(t *testing.T, args ...string) (string, *Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	binary, err := LimitBinary(ctx)
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p, err := StartProcess(ProcessSpec{Name: "limit", Path: binary, LogPath: filepath.Join(dir, "log"),
		Args: append([]string{"--dir", filepath.Join(dir, "data")}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	line, err := p.WaitLine(ctx, "limit ready ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(line, "limit ready "), p
}

// TestLimitWithClient has a real client produce and read back.
func TestLimitWithClient(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
	}{
		{name: "default"},
		{name: "growing files", args: []string{"--prealloc", "0", "--zero-ahead", "0"}},
		{name: "group commit", args: []string{"--sync"}},
		{name: "group commit in the loop", args: []string{"--sync-inline"}},
		{name: "two loops", args: []string{"--loops", "2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr, _ := startLimit(t, append(c.args, "--topic", "there:3")...)
			roundTrip(t, addr, "there", 3)
		})
	}
}

// roundTrip writes records of many sizes to each partition and reads them all,
// in order, while they are written and again from the start.
func roundTrip(t *testing.T, addr, topic string, partitions int32) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const each = 3000
	rng := rand.New(rand.NewPCG(7, 7))
	values := make([][]byte, each)
	for i := range values {
		values[i] = fmt.Appendf(nil, "%06d", i)
		size := rng.IntN(400)
		if i%500 == 0 {
			size = 700_000 // frames of several receives
		}
		values[i] = append(values[i], bytes.Repeat([]byte{byte(i)}, size)...)
	}
	offsets := make(map[int32]kgo.Offset)
	for p := range partitions {
		offsets[p] = kgo.NewOffset().AtStart()
	}
	consumer := func() *kgo.Client {
		client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.FetchMaxWait(200*time.Millisecond),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
	readAll := func(client *kgo.Client) error {
		next := make([]int, partitions)
		for left := each * int(partitions); left > 0; {
			fetches := client.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return fmt.Errorf("%d records left: %w", left, err)
			}
			for r := range fetches.RecordsAll() {
				i := next[r.Partition]
				if r.Offset != int64(i) || !bytes.Equal(r.Value, values[i]) {
					return fmt.Errorf("partition %d: offset %d has %.20q where record %d was expected", r.Partition, r.Offset, r.Value, i)
				}
				next[r.Partition]++
				left--
			}
		}
		return nil
	}
	live := make(chan error, 1)
	tail := consumer()
	go func() { live <- readAll(tail) }()

	producer, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	for _, value := range values {
		for p := range partitions {
			producer.Produce(ctx, &kgo.Record{Topic: topic, Partition: p, Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	if err := producer.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-live; err != nil {
		t.Errorf("while it was written: %v", err)
	}
	if err := readAll(consumer()); err != nil {
		t.Errorf("from the start: %v", err)
	}
}

// TestLimitRefuses covers what a broken client, or one that asks for what is
// not there, gets.
func TestLimitRefuses(t *testing.T) {
	addr, _ := startLimit(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := CreateTopic(ctx, addr, "t", 2, map[string]string{"file.delete.delay.ms": "0"}); err != nil {
		t.Fatal(err)
	}
	if err := CreateTopic(ctx, addr, "t", 2, nil); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("created twice: %v", err)
	}
	good := Batch(rand.New(rand.NewPCG(1, 1)), 3, 100)
	damaged := bytes.Clone(good)
	damaged[len(damaged)-1]++
	for _, c := range []struct {
		name  string
		topic string
		batch []byte
		want  error
	}{
		{"good", "t", good, nil},
		{"damaged", "t", damaged, kerr.CorruptMessage},
		{"cut", "t", good[:len(good)-1], kerr.InvalidRecord},
		{"two batches", "t", append(bytes.Clone(good), good...), kerr.InvalidRecord},
		{"empty", "t", nil, kerr.InvalidRecord},
		{"no topic", "u", good, kerr.UnknownTopicOrPartition},
	} {
		conn, err := DialRaw(ctx, addr)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Pipeline(conn, ProduceFrame(c.topic, 1, -1, c.batch), Bound{Requests: 3}, 2)
		if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		conn.Close()
	}
	conn, err := DialRaw(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	resp, err := conn.Do(FetchRequest("t", 1, 100, 1000))
	if err != nil {
		t.Fatal(err)
	}
	partition := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if partition.ErrorCode != kerr.OffsetOutOfRange.Code || partition.HighWatermark != 9 {
		t.Errorf("fetch beyond the end: %+v", partition)
	}
	if err := DeleteTopic(ctx, addr, "t"); err != nil {
		t.Error(err)
	}
	if err := DeleteTopic(ctx, addr, "t"); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("deleted twice: %v", err)
	}
	// An API that it does not have, and a frame that lies.
	for _, frame := range [][]byte{AppendFrame(nil, kmsg.NewPtrHeartbeatRequest(), 1), {0, 0, 0, 3, 0, 0, 0}, {0xff, 0, 0, 0, 0}} {
		raw, err := DialRaw(ctx, addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := raw.Write(frame); err != nil {
			t.Fatal(err)
		}
		if answer, err := raw.ReadFrame(); err == nil {
			t.Errorf("% x is answered with % x", frame, answer)
		}
		raw.Close()
	}
	if err := WaitAnswer(ctx, addr, time.Millisecond); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestLimitWaits has a fetch wait for its bytes, and give up at its time.
func TestLimitWaits(t *testing.T) {
	addr, _ := startLimit(t, "--topic", "t:1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	reader, err := DialRaw(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ask := func(wait time.Duration, min int32) ([]byte, time.Duration) {
		t.Helper()
		req := FetchRequest("t", 0, 0, 1<<20)
		req.MaxWaitMillis, req.MinBytes = int32(wait.Milliseconds()), min
		began := time.Now()
		resp, err := reader.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches, time.Since(began)
	}
	if got, took := ask(50*time.Millisecond, 1); len(got) != 0 || took < 40*time.Millisecond {
		t.Errorf("%d bytes after %v", len(got), took)
	}
	batch := Batch(rand.New(rand.NewPCG(1, 1)), 1, 100)
	go func() {
		writer, err := DialRaw(ctx, addr)
		if err != nil {
			t.Error(err)
			return
		}
		defer writer.Close()
		for range 3 {
			time.Sleep(20 * time.Millisecond)
			if _, err := Pipeline(writer, ProduceFrame("t", 0, 1, batch), Bound{Requests: 1}, 1); err != nil {
				t.Error(err)
			}
		}
	}()
	if got, took := ask(10*time.Second, int32(2*len(batch)+1)); len(got) != 3*len(batch) || took > 5*time.Second {
		t.Errorf("%d bytes after %v, want 3 batches of %d", len(got), took, len(batch))
	}
}

// TestLimitNull has the null server answer, keep nothing for its own sake, and
// hand the newest records to a reader at the tail.
func TestLimitNull(t *testing.T) {
	addr, p := startLimit(t, "--null", "--topic", "t:1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	batch := Batch(rand.New(rand.NewPCG(1, 1)), 2, 100)
	conn, err := DialRaw(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	frame := ProduceFrame("t", 0, 1, batch)
	if n, err := Pipeline(conn, frame, Bound{Requests: 100}, 5); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	fetch := func(offset int64) kmsg.FetchResponseTopicPartition {
		t.Helper()
		req := FetchRequest("t", 0, offset, 1<<20)
		req.MaxWaitMillis = 0
		resp, err := conn.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	}
	if got := fetch(200); got.ErrorCode != 0 || len(got.RecordBatches) != 0 || got.HighWatermark != 200 {
		t.Errorf("at the tail: %+v", got)
	}
	if n, err := Pipeline(conn, frame, Bound{Requests: 3}, 1); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if got := fetch(202); len(got.RecordBatches) != 2*len(batch) {
		t.Errorf("%d bytes, want two batches of %d", len(got.RecordBatches), len(batch))
	}
	files, err := os.ReadDir(filepath.Join(filepath.Dir(p.spec.LogPath), "data"))
	if err != nil || len(files) != 0 {
		t.Errorf("files %v, %v", files, err)
	}
}
