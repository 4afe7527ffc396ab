package engine

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestProduceCoalesces: many requests that are there at once, of several
// connections and to several partitions, cost few writes.
func TestProduceCoalesces(t *testing.T) {
	b := startBroker(t, brokerOptions{memory: true})
	b.createTopic("t", 2, nil)
	c := b.dial()
	c.produce("t", 0, "files are open")
	c.produce("t", 1, "files are open")
	var writes atomic.Int64
	b.files.SetHook(func(call vfs.Call) error {
		if call.Op == vfs.OpWrite && strings.HasSuffix(call.Path, ".log") {
			writes.Add(1)
		}
		return nil
	})
	const connections, each = 4, 64
	var done sync.WaitGroup
	for range connections {
		c := b.dial()
		done.Go(func() {
			var reqs []kmsg.Request
			for i := range each {
				reqs = append(reqs, produceTo(9, -1, "t", int32(i%2), batchOf("v")))
			}
			c.send(reqs...)
			for _, r := range reqs {
				if p := c.receive(r).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
					t.Errorf("%+v", p)
				}
			}
		})
	}
	done.Wait()
	// A turn hands in at most what one receive of each connection holds.
	if n := writes.Load(); n > connections*each/8 {
		t.Errorf("%d writes for %d requests", n, connections*each)
	}
}

// TestFetchColdPages: a read that would wait for the disk goes to a worker, and
// the answer is the same.
func TestFetchColdPages(t *testing.T) {
	b := startBroker(t, brokerOptions{memory: true, loops: 2})
	b.createTopic("t", 2, map[string]string{"index.interval.bytes": "100"})
	c := b.dial()
	var want []string
	for i := range 5000 { // beyond what is remembered of the tail
		v := fmt.Sprint("value ", i)
		want = append(want, v)
		if i%50 == 49 {
			var reqs []kmsg.Request
			for _, v := range want[i-49:] {
				reqs = append(reqs, produceTo(9, 1, "t", 0, batchOf(v)))
			}
			c.send(reqs...)
			for _, r := range reqs {
				c.receive(r)
			}
		}
	}
	c.produce("t", 1, "other")
	var cold, read atomic.Int64
	b.files.SetHook(func(call vfs.Call) error {
		switch call.Op {
		case vfs.OpReadNowait:
			cold.Add(1)
			return vfs.ErrWouldBlock
		case vfs.OpRead:
			read.Add(1)
		}
		return nil
	})
	defer b.files.SetHook(nil)
	var got []string
	for len(got) < len(want) {
		req := fetchFrom(11, "t", 1, 1, 1000) // at the end: nothing
		addFetch(req, "t", 0, int64(len(got)), 20_000)
		resp := c.ask(req).(*kmsg.FetchResponse)
		p := resp.Topics[0].Partitions[1]
		if p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
			t.Fatalf("at %d: %+v", len(got), p)
		}
		got = append(got, valuesOf(t, p.RecordBatches)...)
	}
	if !slices.Equal(got, want) {
		t.Fatal("other records were read than produced")
	}
	if cold.Load() == 0 || read.Load() == 0 {
		t.Fatalf("%d cold look-ups, %d reads by workers", cold.Load(), read.Load())
	}
}

// TestProduceFullDisk: a write that fails is KAFKA_STORAGE_ERROR, nothing is
// there, and when there is room again all goes on.
func TestProduceFullDisk(t *testing.T) {
	b := startBroker(t, brokerOptions{memory: true})
	b.createTopic("t", 1, nil)
	c := b.dial()
	c.produce("t", 0, "a")
	b.files.Inject(vfs.Fault{Op: vfs.OpWrite, Path: "*.log", Times: 1, Err: syscall.ENOSPC})
	if p := c.produced(produceTo(9, -1, "t", 0, batchOf("lost"))); p.ErrorCode != kerr.KafkaStorageError.Code {
		t.Fatalf("%+v", p)
	}
	if offset := c.produce("t", 0, "b"); offset != 1 {
		t.Fatalf("offset %d", offset)
	}
}

// TestPanicClosesOneConnection: others go on.
func TestPanicClosesOneConnection(t *testing.T) {
	row := lookupAPI(apiVersionsKey)
	saved := row.onLoop
	defer func() { row.onLoop = saved }()
	row.onLoop = func(*loop, *call) { panic("of a test") }
	watch := new(panicWatch)
	b := startBroker(t, brokerOptions{logger: newLogger(watch)})
	b.createTopic("t", 1, nil)
	other, victim := b.dial(), b.dial()
	victim.send(kmsg.NewPtrApiVersionsRequest())
	victim.closed()
	if p := watch.seen.Load(); p == nil || !strings.Contains(*p, "TestPanicClosesOneConnection") {
		t.Errorf("logged: %v", p)
	}
	other.produce("t", 0, "a")
}

// TestConcurrentProducersOnAllLoops: every acknowledged record is in the log
// once, and each connection's in its order.
func TestConcurrentProducersOnAllLoops(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, o brokerOptions) {
		b := startBroker(t, o)
		b.createTopic("t", 1, nil)
		const connections, rounds, depth = 8, 20, 5
		var done sync.WaitGroup
		for n := range connections {
			c := b.dial()
			done.Go(func() {
				for round := range rounds {
					var reqs []kmsg.Request
					for i := range depth {
						reqs = append(reqs, produceTo(9, -1, "t", 0, batchOf(fmt.Sprintf("%d %d", n, round*depth+i))))
					}
					c.send(reqs...)
					last := int64(-1)
					for _, r := range reqs {
						p := c.receive(r).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
						if p.ErrorCode != 0 || p.BaseOffset <= last {
							t.Errorf("connection %d: %+v after offset %d", n, p, last)
						}
						last = p.BaseOffset
					}
				}
			})
		}
		done.Wait()
		next := make(map[string]int)
		c := b.dial()
		for offset := 0; offset < connections*rounds*depth; {
			p := c.fetched(fetchFrom(11, "t", 0, int64(offset), 1000))
			for _, v := range valuesOf(t, p.RecordBatches) {
				n, i, _ := strings.Cut(v, " ")
				if i != fmt.Sprint(next[n]) {
					t.Fatalf("connection %s: record %s where %d is due", n, i, next[n])
				}
				next[n]++
				offset++
			}
		}
	})
}

// TestLongPollNoLostWakeups races a producer with a consumer that parks anew
// after each record, for as many rounds as there is time.
func TestLongPollNoLostWakeups(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 2})
	b.createTopic("t", 1, nil)
	rounds := 3000
	if testing.Short() {
		rounds = 500
	}
	producer, consumer := b.dial(), b.dial()
	begin := time.Now()
	for i := range rounds {
		fetch := fetchFrom(11, "t", 0, int64(i), 5000)
		produce := produceTo(9, 1, "t", 0, batchOf("v"))
		consumer.send(fetch)
		producer.send(produce)
		producer.receive(produce)
		if p := consumer.onlyPartition(consumer.receive(fetch).(*kmsg.FetchResponse)); len(p.RecordBatches) == 0 {
			t.Fatalf("round %d: nothing after %v", i, time.Since(begin))
		}
	}
	if d := time.Since(begin); d > time.Duration(rounds)*20*time.Millisecond {
		t.Errorf("%d rounds took %v: wake-ups are late", rounds, d)
	}
}

// TestConnectionsComeAndGo breaks connections off in the middle of everything:
// parked fetches and produces, batches with a worker, cold requests. Nothing
// stays behind, and the partition serves on.
func TestConnectionsComeAndGo(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, o brokerOptions) {
		b := startBroker(t, o)
		b.createTopic("t", 1, nil)
		b.createTopic("gzip", 1, map[string]string{"compression.type": "gzip"})
		b.createTopic("waits", 1, nil)
		b.setISR(record.TopicPartition{Topic: "waits"}, testNode, 2)
		rounds := 60
		if testing.Short() {
			rounds = 20
		}
		var done sync.WaitGroup
		for n := range 4 {
			done.Go(func() {
				for round := range rounds {
					conn, err := net.Dial("tcp", b.addr)
					if err != nil {
						t.Error(err)
						return
					}
					c := &client{TB: b, net: conn}
					var frames []byte
					for i := range 6 {
						switch (n + round + i) % 6 {
						case 0:
							frames = append(frames, c.frame(produceTo(9, 1, "t", 0, batchOf("v")))...)
						case 1:
							frames = append(frames, c.frame(produceTo(9, -1, "gzip", 0, batchOf("v")))...)
						case 2:
							frames = append(frames, c.frame(produceTo(9, -1, "waits", 0, batchOf("v")))...)
						case 3:
							frames = append(frames, c.frame(kmsg.NewPtrMetadataRequest())...)
						case 4:
							frames = append(frames, c.frame(fetchFrom(11, "t", 0, 0, 10))...)
						case 5:
							frames = append(frames, c.frame(fetchFrom(11, "waits", 0, 0, 60_000))...)
						}
					}
					conn.Write(frames)
					if round%3 == 0 {
						c.receiveRaw(20 * time.Millisecond)
					}
					conn.(*net.TCPConn).SetLinger(0)
					conn.Close()
				}
			})
		}
		done.Wait()
		b.parked(0)
		b.dial().produce("t", 0, "still here")
	})
}

// foreign counts the outcomes of appends that the test makes itself.
type foreign struct{ done atomic.Int32 }

func (f *foreign) AppendDone(a *replication.Append) {
	if a.Err == nil {
		f.done.Add(1)
	}
}

// TestLoopComesBackToWhatItLeft: a loop that finds a partition's queue never
// empty, since others append all the time, goes on with its own connections and
// comes back in later turns, until nothing is left.
func TestLoopComesBackToWhatItLeft(t *testing.T) {
	const others = 100
	b := startBroker(t, brokerOptions{memory: true})
	b.createTopic("t", 1, nil)
	c := b.dial()
	c.produce("t", 0, "files are open")
	p := b.manager.Lookup([]byte("t"), 0)
	var sent, done = 0, new(foreign)
	b.files.SetHook(func(call vfs.Call) error {
		// While the loop writes, which is always one at a time.
		if call.Op == vfs.OpWrite && strings.HasSuffix(call.Path, ".log") && sent < others {
			sent++
			a := &replication.Append{Done: done}
			a.Batch, a.FromClient = batchOf(fmt.Sprint("other ", sent)), true
			if p.Append(a) {
				t.Error("an append was worked off by another caller than the holder")
			}
		}
		return nil
	})
	c.produce("t", 0, "first")
	c.produce("t", 0, "second") // and nothing wakes the loop after its answer
	deadline := time.Now().Add(clientTimeout)
	for done.done.Load() < others && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	b.files.SetHook(nil)
	if n := done.done.Load(); n != others {
		t.Fatalf("%d of %d appends of others were written", n, others)
	}
	if leo := p.Offsets().LEO; leo != others+3 {
		t.Fatalf("the log ends at %d", leo)
	}
}
