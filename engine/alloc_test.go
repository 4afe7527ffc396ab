package engine

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rawLoop sends prepared frames and reads answers without allocating.
type rawLoop struct {
	testing.TB
	net net.Conn
	buf []byte
}

func (b *testBroker) rawLoop() *rawLoop {
	return &rawLoop{TB: b, net: b.dial().net, buf: make([]byte, 2<<20)}
}

func (r *rawLoop) write(frame []byte) {
	if _, err := r.net.Write(frame); err != nil {
		r.Fatal(err)
	}
}

// read returns one answer without its length prefix.
func (r *rawLoop) read() []byte {
	if _, err := io.ReadFull(r.net, r.buf[:4]); err != nil {
		r.Fatal(err)
	}
	n := binary.BigEndian.Uint32(r.buf)
	if _, err := io.ReadFull(r.net, r.buf[:n]); err != nil {
		r.Fatal(err)
	}
	return r.buf[:n]
}

// allocations counts the allocations of the whole process for each call.
func allocations(rounds int, call func()) float64 {
	for range 200 {
		call() // pools, maps and buffers reach their size
	}
	var before, after runtime.MemStats
	runtime.GC()
	call()
	runtime.ReadMemStats(&before)
	for range rounds {
		call()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(rounds)
}

// allocationsMax is what may come from elsewhere in the process: a worker that
// prepares a segment, a timer of the runtime.
const allocationsMax = 0.1

// frameOf is a request with its length prefix.
func frameOf(t testing.TB, req kmsg.Request) []byte {
	c := &client{TB: t}
	return c.frame(req)
}

// hotRequest is one of the requests that must not allocate, as a step that can
// be repeated.
func hotRequest(t testing.TB, b *testBroker, name string) func() {
	raw := b.rawLoop()
	switch name {
	case "produce", "produce acks=all":
		acks := map[string]int16{"produce": 1, "produce acks=all": -1}[name]
		frame := frameOf(t, produceTo(9, acks, "t", 0, batchOf("some value", "another")))
		return func() { raw.write(frame); raw.read() }
	case "produce to two partitions":
		req := produceTo(9, -1, "t", 0, batchOf("some value"))
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = 1, batchOf("other")
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		frame := frameOf(t, req)
		return func() { raw.write(frame); raw.read() }
	case "pipelined produce":
		frame := bytes.Repeat(frameOf(t, produceTo(9, 1, "t", 0, batchOf("some value"))), 16)
		return func() {
			raw.write(frame)
			for range 16 {
				raw.read()
			}
		}
	case "fetch":
		req := fetchFrom(12, "t", 0, 0, 0)
		req.MaxBytes = 16 << 10
		frame := frameOf(t, req)
		return func() { raw.write(frame); raw.read() }
	case "fetch of nothing":
		frame := frameOf(t, fetchFrom(12, "empty", 0, 0, 0))
		return func() { raw.write(frame); raw.read() }
	case "incremental fetch":
		return incrementalFetch(t, raw)
	case "parked fetch":
		return parkedFetch(t, b, raw)
	}
	t.Fatalf("no request %q", name)
	return nil
}

var hotRequests = []string{
	"produce", "produce acks=all", "produce to two partitions", "pipelined produce",
	"fetch", "fetch of nothing", "incremental fetch", "parked fetch",
}

// incrementalFetch goes on in a session, an epoch each time.
func incrementalFetch(t testing.TB, raw *rawLoop) func() {
	first := inSession(12, 0, 0)
	addFetch(first, "t", 0, 0, 1<<20)
	addFetch(first, "t", 1, 0, 1<<20)
	raw.write(frameOf(t, first))
	answer := raw.read()
	// Response header v1 (5 bytes), throttle time, error code, session id.
	id := int32(binary.BigEndian.Uint32(answer[5+4+2:]))
	const mark = 0x7a7a7a7a
	next := inSession(12, id, mark)
	next.MaxBytes = 16 << 10
	frame := frameOf(t, next)
	at := bytes.Index(frame, []byte{0x7a, 0x7a, 0x7a, 0x7a})
	epoch := uint32(0)
	return func() {
		epoch++
		binary.BigEndian.PutUint32(frame[at:], epoch)
		raw.write(frame)
		raw.read()
	}
}

// parkedFetch waits at the end of a partition for the record that comes.
func parkedFetch(t testing.TB, b *testBroker, raw *rawLoop) func() {
	producer := b.rawLoop()
	const mark = 0x7a7a7a7a7a7a7a7a
	fetch := frameOf(t, fetchFrom(12, "parked", 0, mark, 60_000))
	at := bytes.Index(fetch, bytes.Repeat([]byte{0x7a}, 8))
	produce := frameOf(t, produceTo(9, 1, "parked", 0, batchOf("v")))
	offset := uint64(b.manager.Lookup([]byte("parked"), 0).Offsets().LEO)
	return func() {
		binary.BigEndian.PutUint64(fetch[at:], offset)
		raw.write(fetch)
		producer.write(produce)
		producer.read()
		raw.read()
		offset++
	}
}

// TestQuotasAllocateNothing holds it for clients with quotas too.
func TestQuotasAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates; the figures are for the plain build")
	}
	b := startBroker(t, brokerOptions{})
	for topic, partitions := range map[string]int32{"t": 2, "empty": 1, "parked": 1} {
		b.createTopic(topic, partitions, nil)
	}
	b.dial().produce("t", 0, "some record")
	b.engine.quotas.Update(map[meta.QuotaEntity]map[string]float64{
		{ClientID: meta.DefaultQuota}: {"producer_byte_rate": 1e15, "consumer_byte_rate": 1e15, "request_percentage": 1e15},
	})
	for _, name := range hotRequests {
		got := allocations(1000, hotRequest(t, b, name))
		if got > allocationsMax && !raceEnabled {
			t.Errorf("%s allocates %.2f times a request", name, got)
		}
	}
}

// TestHotPathAllocatesNothing holds the promise of the hot path, client and
// server in one process.
func TestHotPathAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates; the figures are for the plain build")
	}
	onEveryEngine(t, func(t *testing.T, o brokerOptions) {
		b := startBroker(t, o)
		for topic, partitions := range map[string]int32{"t": 2, "empty": 1, "parked": 1} {
			b.createTopic(topic, partitions, nil)
		}
		b.dial().produce("t", 0, "some record")
		for _, name := range hotRequests {
			got := allocations(1000, hotRequest(t, b, name))
			t.Logf("%s: %.3f allocations", name, got)
			if got > allocationsMax && !raceEnabled {
				t.Errorf("%s allocates %.2f times a request", name, got)
			}
		}
	})
}

// BenchmarkRequest times whole round trips over loopback, and fails if they
// allocate.
func BenchmarkRequest(b *testing.B) {
	for _, name := range hotRequests {
		b.Run(name, func(b *testing.B) {
			broker := startBroker(b, brokerOptions{})
			for topic, partitions := range map[string]int32{"t": 2, "empty": 1, "parked": 1} {
				broker.createTopic(topic, partitions, nil)
			}
			broker.dial().produce("t", 0, "some record")
			step := hotRequest(b, broker, name)
			if got := allocations(200, step); got > 2*allocationsMax {
				b.Fatalf("%.2f allocations a request", got)
			}
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
		})
	}
}
