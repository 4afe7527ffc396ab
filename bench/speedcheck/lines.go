package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/posthouse/posthouse/bench"
)

// line is one kind of load.
type line struct {
	key        string
	name       string
	partitions int32
	reads      bool // reads what was written once, instead of a topic of its own per round
	run        func(ctx context.Context, l load) (result, error)
}

// load is what a line gets for one round.
type load struct {
	addr    string
	topic   string
	read    []bench.Written
	seconds float64
}

// result is what the client saw in one round.
type result struct {
	records int64
	bytes   int64 // of record batches
	elapsed time.Duration
	client  time.Duration // CPU of the client
}

const (
	recordBytes   = 1024
	batchRecords  = 16
	batchConns    = 8
	singleConns   = 64
	pipelineDepth = 5 // Kafka's max.in.flight.requests.per.connection
	fetchBytes    = 1 << 20

	// A round writes no more than this, so that writeback does not begin to
	// throttle the faster contender.
	roundBytesMax = 2 << 30
)

var allLines = []line{
	{key: "perf", name: "ProducerPerformance, 1 KiB records, its defaults (acks=all, idempotent, linger 5 ms, batch 16 KiB)", partitions: 6, run: runPerf},
	{key: "batch", name: "16 KiB batches of 1 KiB records, 8 connections, 5 in flight, acks=all", partitions: 8,
		run: produceWith(batchConns, pipelineDepth, batchRecords, recordBytes)},
	{key: "single", name: "batches of one 100 B record, 64 connections, 1 in flight, acks=all", partitions: 8,
		run: produceWith(singleConns, 1, 1, 100)},
	{key: "ping", name: "lone ping-pong: one connection, one 100 B record at a time, acks=all", partitions: 1,
		run: produceWith(1, 1, 1, 100)},
	{key: "read", name: "plain reads: 8 connections, 1 MiB fetches of cached 16 KiB batches", partitions: batchConns, reads: true, run: runRead},
}

// produceWith is a load of prebuilt frames over raw connections.
func produceWith(conns, depth, count, valueBytes int) func(context.Context, load) (result, error) {
	return func(ctx context.Context, l load) (result, error) {
		batch := bench.Batch(rand.New(rand.NewPCG(1, 2)), count, valueBytes)
		perConn := roundBytesMax / len(batch) / conns
		var acked atomic.Int64
		before, began := bench.SelfCPU(), time.Now()
		bound := bench.Bound{Deadline: began.Add(time.Duration(l.seconds * float64(time.Second))), Requests: perConn}
		err := bench.OnConns(ctx, l.addr, conns, func(i int, conn *bench.RawConn) error {
			frame := bench.ProduceFrame(l.topic, int32(i)%partitionsOf(conns), -1, batch)
			n, err := bench.Pipeline(conn, frame, bound, depth)
			acked.Add(int64(n))
			return err
		})
		return result{
			records: acked.Load() * int64(count), bytes: acked.Load() * int64(len(batch)),
			elapsed: time.Since(began), client: bench.SelfCPU().Sub(before).Total(),
		}, err
	}
}

// partitionsOf spreads connections over at most 8 partitions.
func partitionsOf(conns int) int32 { return int32(min(conns, 8)) }

// runPerf runs Kafka's own load generator; its rate is the one that it reports,
// its JVM's start left out.
func runPerf(ctx context.Context, l load) (result, error) {
	const warmup = 100_000
	records := int(l.seconds * 150_000)
	cmd, err := bench.JavaCommand(ctx, bench.LoadFlags, "org.apache.kafka.tools.ProducerPerformance", "--topic", l.topic,
		"--num-records", fmt.Sprint(records+warmup), "--warmup-records", fmt.Sprint(warmup),
		"--record-size", fmt.Sprint(recordBytes), "--throughput", "-1", "--bootstrap-server", l.addr)
	if err != nil {
		return result{}, err
	}
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("ProducerPerformance: %w\n%s%s", err, out, stderrOf(err))
	}
	rate, err := reportedRate(string(out))
	if err != nil {
		return result{}, err
	}
	sent := int64(records + warmup)
	return result{
		records: sent, bytes: sent * recordBytes,
		elapsed: time.Duration(float64(sent) / rate * float64(time.Second)),
		client:  cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
	}, nil
}

func stderrOf(err error) []byte {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.Stderr
	}
	return nil
}

// reportedRate takes the records/sec of the last line of ProducerPerformance.
func reportedRate(out string) (float64, error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := lines[len(lines)-1]
	var rate float64
	_, after, found := strings.Cut(last, "sent, ")
	if _, err := fmt.Sscanf(after, "%f records/sec", &rate); !found || err != nil {
		return 0, fmt.Errorf("ProducerPerformance's last line: %q", last)
	}
	return rate, nil
}

// readTopic is written once per contender and read by every round.
const (
	readTopic      = "speed-read"
	readBatches    = 4096 // per partition: 64 MiB, so that all stays cached
	readPartitions = batchConns
)

// writeForReads fills the topic of the read line.
func writeForReads(ctx context.Context, addr string) ([]bench.Written, error) {
	if err := bench.CreateTopic(ctx, addr, readTopic, readPartitions, nil); err != nil {
		return nil, err
	}
	batch := bench.Batch(rand.New(rand.NewPCG(3, 4)), batchRecords, recordBytes)
	written := make([]bench.Written, readPartitions)
	err := bench.OnConns(ctx, addr, readPartitions, func(i int, conn *bench.RawConn) error {
		frame := bench.ProduceFrame(readTopic, int32(i), -1, batch)
		_, err := bench.Pipeline(conn, frame, bench.Bound{Requests: readBatches}, pipelineDepth)
		written[i] = bench.Written{Topic: readTopic, Partition: int32(i), BatchBytes: len(batch), BatchRecords: batchRecords, End: readBatches * batchRecords}
		return err
	})
	return written, err
}

func runRead(ctx context.Context, l load) (result, error) {
	var records, bytes atomic.Int64
	before, began := bench.SelfCPU(), time.Now()
	bound := bench.Bound{Deadline: began.Add(time.Duration(l.seconds * float64(time.Second)))}
	err := bench.OnConns(ctx, l.addr, len(l.read), func(i int, conn *bench.RawConn) error {
		n, size, err := bench.ReadLoop(conn, l.read[i], bound, fetchBytes)
		records.Add(n)
		bytes.Add(size)
		return err
	})
	return result{records: records.Load(), bytes: bytes.Load(), elapsed: time.Since(began), client: bench.SelfCPU().Sub(before).Total()}, err
}
