//go:build e2e

package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// loadPartitions is how many partitions each load writes to.
const loadPartitions = 3

// load is a producer that keeps a topic busy across kills of the broker, and
// the log of what was acknowledged to it, which lives here, outside the broker.
//
// Each partition gets the values 0, 1, 2, … in this order. Nothing is ever
// given up: a record that failed is sent again until it is acknowledged. So
// the first occurrences of the values in the log are 0, 1, 2, … without a gap,
// whatever happened to the broker; and for an idempotent producer value v is
// at offset v, since nothing else writes there and nothing is there twice.
type load struct {
	topic      string
	idempotent bool
	client     *kgo.Client
	stop       context.CancelFunc
	stopped    chan struct{}
	failure    atomic.Pointer[error] // the first record that was not written

	mu       sync.Mutex
	produced [loadPartitions]int64           // values handed to the client; guarded by mu
	acked    [loadPartitions]map[int64]int64 // offset → value, acknowledged; guarded by mu
	last     [loadPartitions]int64           // the highest acknowledged offset, -1 none; guarded by mu

	// What verify has read so far; only the test's goroutine uses it.
	readNext  [loadPartitions]int64 // offset
	readValue [loadPartitions]int64 // the value expected to occur next for the first time
}

// startLoad produces at most some 20,000 records of 500 B a second until end
// is called. The topic exists.
func startLoad(t *testing.T, addr, topic string, idempotent bool) *load {
	t.Helper()
	opts := []kgo.Opt{
		kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(2000),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.DialTimeout(time.Second),
		// A kill between a connection and its first answer looks like a missing login.
		kgo.AlwaysRetryEOF(),
	}
	if idempotent {
		// A broker that has lost what it acknowledged must not be forgiven by a
		// client that starts its sequences anew.
		opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.StopProducerOnDataLossDetected())
	} else {
		// One request at a time: with more, a retry may overtake.
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	l := &load{topic: topic, idempotent: idempotent, client: newClient(t, addr, opts...), stopped: make(chan struct{})}
	for p := range loadPartitions {
		l.acked[p], l.last[p] = map[int64]int64{}, -1
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.stop = cancel
	go l.produce(ctx)
	t.Cleanup(func() { l.stop(); l.client.Close(); <-l.stopped })
	return l
}

func (l *load) produce(ctx context.Context) {
	defer close(l.stopped)
	const perTick = 100
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for range perTick {
			for p := range int32(loadPartitions) {
				l.mu.Lock()
				value := l.produced[p]
				l.produced[p]++
				l.mu.Unlock()
				record := &kgo.Record{Partition: p, Value: binary.BigEndian.AppendUint64(make([]byte, 0, 500), uint64(value))}
				record.Value = record.Value[:500]
				// Not ctx: a record that was begun must be finished.
				l.client.Produce(context.Background(), record, func(r *kgo.Record, err error) { l.done(r, value, err) })
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// done enters an outcome into the log of acknowledgements.
func (l *load) done(r *kgo.Record, value int64, err error) {
	if err != nil {
		err = fmt.Errorf("%s-%d: value %d was not written: %w", l.topic, r.Partition, value, err)
		l.failure.CompareAndSwap(nil, &err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[r.Partition][r.Offset] = value
	l.last[r.Partition] = max(l.last[r.Partition], r.Offset)
}

// end stops the load and waits until everything is acknowledged.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	<-l.stopped
	if err := l.client.Flush(within(t, 30*time.Second)); err != nil {
		t.Fatalf("%s: flush: %v", l.topic, err)
	}
	if err := l.failure.Load(); err != nil {
		t.Fatal(*err)
	}
}

// ackedCount is the number of acknowledged records.
func (l *load) ackedCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, acked := range l.acked {
		n += len(acked)
	}
	return n
}

// verify reads on to the last record that is acknowledged now and holds what
// it reads against the log of acknowledgements.
func (l *load) verify(t *testing.T, addr string) {
	t.Helper()
	if err := l.failure.Load(); err != nil {
		t.Fatal(*err)
	}
	l.mu.Lock()
	target := l.last
	l.mu.Unlock()
	from := map[int32]kgo.Offset{}
	left := 0
	for p := range loadPartitions {
		if l.readNext[p] <= target[p] {
			from[int32(p)] = kgo.NewOffset().At(l.readNext[p])
			left++
		}
	}
	if left == 0 {
		return
	}
	ctx := within(t, time.Minute)
	cl := newClient(t, addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: from}),
		// What was acknowledged and is gone must be an error, not a new position.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	defer cl.Close()
	for left > 0 {
		pollRecords(t, ctx, cl).EachRecord(func(r *kgo.Record) {
			before := l.readNext[r.Partition] <= target[r.Partition]
			l.check(t, r)
			if before && l.readNext[r.Partition] > target[r.Partition] {
				left--
			}
		})
	}
}

// check holds one record, the next of its partition, against the log.
func (l *load) check(t *testing.T, r *kgo.Record) {
	t.Helper()
	p, value := r.Partition, int64(binary.BigEndian.Uint64(r.Value))
	if r.Offset != l.readNext[p] {
		t.Fatalf("%s-%d: offset %d follows %d", l.topic, p, r.Offset, l.readNext[p]-1)
	}
	l.readNext[p]++
	l.mu.Lock()
	acked, isAcked := l.acked[p][r.Offset]
	l.mu.Unlock()
	if isAcked && acked != value {
		t.Fatalf("%s-%d: offset %d was acknowledged for value %d and holds %d", l.topic, p, r.Offset, acked, value)
	}
	switch {
	case value == l.readValue[p]:
		l.readValue[p]++
	case value > l.readValue[p]:
		t.Fatalf("%s-%d: value %d at offset %d, but %d never came: lost or out of order", l.topic, p, value, r.Offset, l.readValue[p])
	case l.idempotent:
		t.Fatalf("%s-%d: value %d at offset %d is there for the second time (next new one: %d)", l.topic, p, value, r.Offset, l.readValue[p])
	}
}

// verifyEnd checks after end that the topic holds all and, for an idempotent
// producer, nothing else.
func (l *load) verifyEnd(t *testing.T, addr string) {
	t.Helper()
	l.verify(t, addr)
	for p := range loadPartitions {
		if l.readValue[p] != l.produced[p] {
			t.Errorf("%s-%d: %d of %d values are there", l.topic, p, l.readValue[p], l.produced[p])
		}
		if end := endOffset(t, addr, l.topic, int32(p)); l.idempotent && end != l.produced[p] {
			t.Errorf("%s-%d: ends at %d after %d values", l.topic, p, end, l.produced[p])
		}
	}
}
