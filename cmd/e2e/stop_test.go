//go:build e2e

package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStopUnderLoad sends SIGTERM in the middle of a load: exit code 0 within
// the bound, the clean mark, all files in order, nothing acknowledged lost and
// nothing twice.
func TestStopUnderLoad(t *testing.T) {
	// 2 s for what is in flight, the rest for the flush to a slow disk.
	const limit = 10 * time.Second
	onEachEngine(t, func(t *testing.T, engine string) {
		s := startServer(t, engine)
		configs := map[string]string{"segment.bytes": "1048576"}
		mustCreateTopic(t, s.addr, "acks1", loadPartitions, configs)
		mustCreateTopic(t, s.addr, "idempotent", loadPartitions, configs)
		loads := []*load{startLoad(t, s.addr, "acks1", false), startLoad(t, s.addr, "idempotent", true)}
		for range amount(5, 2) {
			waitAcks(t, loads, 5000)
			began := time.Now()
			s.stop(t)
			took := time.Since(began)
			t.Logf("stopped in %v", took.Round(time.Millisecond))
			if took > limit {
				t.Errorf("the stop took %v, the bound is %v", took, limit)
			}
			if _, err := os.Stat(filepath.Join(s.Config.Dir, ".kafka_cleanshutdown")); err != nil {
				t.Errorf("no clean mark: %v", err)
			}
			dumpLogs(t, s.Config.Dir, allSegments)
			s.start(t)
			for _, l := range loads {
				l.verify(t, s.addr)
			}
		}
		// Rolled segments are in order at any time, under load as well.
		waitAcks(t, loads, 5000)
		dumpLogs(t, s.Config.Dir, rolledSegments)
		for _, l := range loads {
			l.end(t)
			l.verifyEnd(t, s.addr)
		}
		s.stop(t)
	})
}

// TestBadFrames fires garbage at the port while a neighbour produces and
// reads: the neighbour keeps its connections and misses nothing, and the
// broker still serves new clients at the end.
func TestBadFrames(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		s := startServer(t, engine)
		mustCreateTopic(t, s.addr, "neighbour", loadPartitions, nil)
		watch := &disconnects{}
		neighbour := newClient(t, s.addr, kgo.DefaultProduceTopic("neighbour"), kgo.WithHooks(watch),
			fromOffset("neighbour", loadPartitions, 0))
		// Its connections exist before the first bad frame.
		ctx := within(t, 2*time.Minute)
		exchange(t, ctx, neighbour, "first")
		watch.count.Store(0)

		rng := newRand(t)
		duration := time.Duration(amount(20, 3)) * time.Second
		shots, rounds := 0, 0
		for until := time.Now().Add(duration); time.Now().Before(until); rounds++ {
			for range 20 {
				shots += shoot(t, s.addr, rng)
			}
			exchange(t, ctx, neighbour, fmt.Sprint(rounds))
		}
		t.Logf("%d bad frames, %d exchanges of the neighbour", shots, rounds)
		if n := watch.count.Load(); n > 0 {
			t.Errorf("the neighbour lost %d connections", n)
		}
		if err := bench.WaitAnswer(within(t, 5*time.Second), s.addr, 10*time.Millisecond); err != nil {
			t.Error(err)
		}
		s.stop(t)
		dumpLogs(t, s.Config.Dir, allSegments)
	})
}

// disconnects counts connections that the other side closed.
type disconnects struct{ count atomic.Int64 }

// OnBrokerDisconnect is kgo's hook.
func (d *disconnects) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { d.count.Add(1) }

// exchange produces one record and reads on until it comes back.
func exchange(t *testing.T, ctx context.Context, cl *kgo.Client, value string) {
	t.Helper()
	if err := cl.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
		t.Fatalf("the neighbour's produce: %v", err)
	}
	for found := false; !found; {
		pollRecords(t, ctx, cl).EachRecord(func(r *kgo.Record) { found = found || string(r.Value) == value })
	}
}

// shoot opens a connection, writes one bad frame and reads what comes, for a
// moment. It returns 1 if the frame could be written.
func shoot(t *testing.T, addr string, rng *rand.Rand) int {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatalf("connect among bad frames: %v", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(badFrame(rng)); err != nil {
		return 0
	}
	// An answer, the end of the connection or nothing: all are allowed here.
	_, _ = conn.Read(make([]byte, 4096))
	return 1
}

// badFrame makes one of the frames that no client should send.
func badFrame(rng *rand.Rand) []byte {
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	framed := func(size uint32, b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, size), b...) }
	good := goodFrame(rng)
	switch rng.IntN(8) {
	case 0: // noise, its length included
		return noise(1 + rng.IntN(300))
	case 1: // noise of the length that it says
		b := noise(rng.IntN(300))
		return framed(uint32(len(b)), b)
	case 2: // a length that is negative, zero or too much
		return framed([]uint32{0, 1, 3, 1 << 31, 1<<32 - 1, 1 << 30}[rng.IntN(6)], noise(8))
	case 3: // an unknown API or version
		binary.BigEndian.PutUint16(good[4+2*rng.IntN(2):], uint16(rng.Uint32()))
		return good
	case 4: // cut short, and the rest never comes
		return good[:1+rng.IntN(len(good)-1)]
	case 5: // shorter than its fields need, with a length that agrees
		cut := 5 + rng.IntN(len(good)-5)
		binary.BigEndian.PutUint32(good, uint32(cut-4))
		return good[:cut]
	case 6: // a flipped byte somewhere behind the length
		good[4+rng.IntN(len(good)-4)] ^= byte(1 + rng.IntN(255))
		return good
	default: // a good frame, and noise behind it
		return append(good, noise(1+rng.IntN(100))...)
	}
}

// goodFrame is a request as clients send it, of an API that is parsed by hand
// or one that is not. The records go to a topic that does not exist.
func goodFrame(rng *rand.Rand) []byte {
	switch rng.IntN(4) {
	case 0:
		return bench.ProduceFrame("nobody", 0, int16(rng.IntN(3)-1), bench.Batch(rng, 3, 50))
	case 1:
		return bench.AppendFrame(nil, bench.FetchRequest("neighbour", 0, rng.Int64N(10), 1<<20), 1)
	case 2:
		req := kmsg.NewPtrMetadataRequest()
		req.Version = int16(rng.IntN(13))
		return bench.AppendFrame(nil, req, 2)
	default:
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version = int16(rng.IntN(4))
		return bench.AppendFrame(nil, req, 3)
	}
}
