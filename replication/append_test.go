package replication

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sys/unix"
)

// lane is one loop with one idempotent producer: storage itself refuses its
// batches unless they come in order.
type lane struct {
	id      int
	p       *Partition
	random  *rand.Rand
	next    record.Sequence
	sent    []*Append
	pending atomic.Int64
	twice   atomic.Bool
	done    map[*Append]bool // guarded by mu
	mu      sync.Mutex
}

func (l *lane) AppendDone(a *Append) {
	l.mu.Lock()
	if l.done[a] {
		l.twice.Store(true)
	}
	l.done[a] = true
	l.mu.Unlock()
	l.pending.Add(-1)
}

// send hands over a chain of one to four batches.
func (l *lane) send(t *testing.T, idempotent bool) {
	var head, tail *Append
	for range 1 + l.random.IntN(4) {
		b := record.NewBuilder()
		if idempotent {
			b.Producer(record.ProducerID(l.id), 0, l.next)
		}
		n := 1 + l.random.IntN(3)
		for i := range n {
			b.Add(1_700_000_000_000, []byte("k"), []byte(fmt.Sprintf("%d:%d", l.id, int(l.next)+i)))
		}
		l.next += record.Sequence(n)
		a := &Append{RequiredAcks: acksAll, Done: l}
		a.Batch, a.FromClient = b.Build(record.None), true
		l.sent = append(l.sent, a)
		if tail == nil {
			head = a
		} else {
			tail.Next = a
		}
		tail = a
	}
	l.pending.Add(int64(countChain(head)))
	for more := l.p.Append(head); more; more = l.p.Drain() {
		runtime.Gosched()
	}
}

func countChain(a *Append) (n int) {
	for ; a != nil; a = a.Next {
		n++
	}
	return n
}

func runLanes(t *testing.T, n *node, p *Partition, loops, rounds int, idempotent bool, control func(i int)) []*lane {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	lanes := make([]*lane, loops)
	var wg sync.WaitGroup
	for i := range lanes {
		l := &lane{id: i, p: p, random: rand.New(rand.NewPCG(seed, uint64(i))), done: map[*Append]bool{}}
		lanes[i] = l
		wg.Go(func() {
			for range rounds {
				l.send(t, idempotent)
				if l.random.IntN(8) == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	stop := make(chan struct{})
	var controls sync.WaitGroup
	controls.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				n.exec.one()
				control(i)
				runtime.Gosched()
			}
		}
	})
	wg.Wait()
	close(stop)
	controls.Wait()
	n.exec.drain()
	for _, l := range lanes {
		if l.pending.Load() != 0 || l.twice.Load() || len(l.done) != len(l.sent) {
			t.Fatalf("loop %d: %d appends, %d completions, %d missing, twice: %v", l.id, len(l.sent), len(l.done), l.pending.Load(), l.twice.Load())
		}
	}
	return lanes
}

// checkLog compares the log with the outcomes: every acknowledged record is
// there once, where the answer said, in its loop's order; nothing else is.
func checkLog(t *testing.T, p *Partition, lanes []*lane) {
	t.Helper()
	type at struct{ first, last record.Offset }
	want := map[string]at{}
	for _, l := range lanes {
		last := record.Offset(-1)
		for _, a := range l.sent {
			if a.Err != nil {
				if a.BaseOffset != -1 {
					t.Fatalf("a refused append is at offset %d", a.BaseOffset)
				}
				continue
			}
			if a.BaseOffset <= last {
				t.Fatalf("loop %d: offset %d after %d", l.id, a.BaseOffset, last)
			}
			last = a.LastOffset
			_ = a.Batch.Each(func(r record.Record) bool {
				o := a.BaseOffset + record.Offset(r.OffsetDelta)
				want[string(r.Value)] = at{o, o}
				return true
			})
		}
	}
	got := values(t, p, 0)
	for i, v := range got {
		if w, ok := want[v]; !ok || w.first != record.Offset(i) {
			t.Fatalf("record %d is %q, acknowledged at %+v (%v)", i, v, w, ok)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d records in the log, %d acknowledged", len(got), len(want))
	}
	if o := p.Offsets(); o.LEO != record.Offset(len(got)) || o.HW != o.LEO || o.LSO != o.LEO {
		t.Fatalf("offsets are %+v, %d records", o, len(got))
	}
}

func TestAppendFromLoops(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for _, loops := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			n := newNode(t).start()
			n.create("t", 1, map[string]string{"segment.bytes": "1048576"})
			n.settle()
			p := n.get("t", 0)
			lanes := runLanes(t, n, p, loops, rounds, true, func(int) { p.Refresh() })
			for _, l := range lanes {
				for _, a := range l.sent {
					if a.Err != nil {
						t.Fatalf("loop %d: %v", l.id, a.Err)
					}
				}
			}
			checkLog(t, p, lanes)
		})
	}
}

// TestAppendWhileWritesFail fails some writes, at times half way. What failed
// is not in the log, what was acknowledged is.
func TestAppendWhileWritesFail(t *testing.T) {
	for _, loops := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			n := newNode(t).start()
			n.create("t", 1, nil)
			n.settle()
			p := n.get("t", 0)
			n.ok(p.Log().WarmUp())
			// The lanes may be through before the other goroutine gets its turn.
			n.fs.Inject(vfs.Fault{Op: vfs.OpWrite, Path: "*.log", Err: unix.ENOSPC})
			lanes := runLanes(t, n, p, loops, 100, false, func(i int) {
				if i%50 == 0 {
					n.fs.Inject(vfs.Fault{Op: vfs.OpWrite, Path: "*.log", Skip: i % 3, Err: unix.ENOSPC, Short: int64(i % 100)})
				}
			})
			failed := 0
			for _, l := range lanes {
				for _, a := range l.sent {
					if a.Err != nil {
						failed++
						if !errors.Is(a.Err, kerr.KafkaStorageError) {
							t.Fatalf("error is %v", a.Err)
						}
					}
				}
			}
			if failed == 0 {
				t.Fatal("no write failed")
			}
			checkLog(t, p, lanes)
		})
	}
}

// TestAppendWhileLeadershipMoves gives the leadership away and back while loops
// append.
func TestAppendWhileLeadershipMoves(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 1, nil)
	n.settle()
	p := n.get("t", 0)
	part := *n.controller.Image().Partition(p.tp)
	moves := 0
	lanes := runLanes(t, n, p, 3, 300, false, func(i int) {
		if moves > 400 {
			return
		}
		moves++
		part.LeaderEpoch++
		part.Leader = testNode
		if i%2 == 0 {
			part.Leader = 2
		}
		next := part
		p.change(&next, p.Config())
	})
	for _, l := range lanes {
		for _, a := range l.sent {
			if a.Err != nil && !errors.Is(a.Err, kerr.NotLeaderForPartition) {
				t.Fatalf("error is %v", a.Err)
			}
		}
	}
	part.LeaderEpoch++
	part.Leader = testNode
	p.change(&part, p.Config())
	checkLog(t, p, lanes)
	if _, err := p.Read(ReadParams{CurrentLeaderEpoch: part.LeaderEpoch, LastFetchedEpoch: record.NoLeaderEpoch, MaxBytes: 1}); err != nil {
		t.Fatal(err)
	}
}

// reentrant appends again from the completion, as a loop may.
type reentrant struct {
	t    *testing.T
	p    *Partition
	left int
	done int
}

func (r *reentrant) AppendDone(*Append) {
	r.done++
	if r.left == 0 {
		return
	}
	r.left--
	a := &Append{Done: r}
	a.Batch, a.FromClient = batchOf(r.t, 1_700_000_000_000, 1, "again"), true
	r.p.Append(a)
}

func TestAppendFromACompletion(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 1, nil)
	n.settle()
	r := &reentrant{t: t, p: n.get("t", 0), left: 50}
	n.ok(r.p.Log().WarmUp())
	r.AppendDone(nil)
	for r.p.Drain() {
		// each hands over what came meanwhile
	}
	if r.done != 51 || r.p.Offsets().LEO != 50 {
		t.Fatalf("%d completions, LEO %d", r.done, r.p.Offsets().LEO)
	}
}

// TestFencedAppend: what is fenced by the leader epoch is written in that epoch or
// not at all.
func TestFencedAppend(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 1, nil)
	n.settle()
	p := n.get("t", 0)
	n.ok(p.Log().WarmUp())
	now := p.LeaderEpoch()
	for _, c := range []struct {
		epoch record.LeaderEpoch
		want  error
	}{{now, nil}, {now - 1, kerr.NotLeaderForPartition}, {now + 1, kerr.NotLeaderForPartition}, {now, nil}} {
		a := &Append{Done: new(doneList), Fenced: true, LeaderEpoch: c.epoch}
		a.Batch = batchOf(t, 1_700_000_000_000, 1, "x")
		if p.Append(a); !errors.Is(a.Err, c.want) {
			t.Errorf("in epoch %d an append of epoch %d: %v, want %v", now, c.epoch, a.Err, c.want)
		}
	}
	if leo := p.Offsets().LEO; leo != 2 {
		t.Errorf("the log ends at %d, want 2", leo)
	}
}

// TestHolderIsNotHeldFor: whoever holds the partition writes for others only so
// often; what keeps coming is left to the next who comes, or to a later Drain.
func TestHolderIsNotHeldFor(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 1, nil)
	n.settle()
	r := &reentrant{t: t, p: n.get("t", 0), left: 1000}
	n.ok(r.p.Log().WarmUp())
	a := &Append{Done: r}
	a.Batch, a.FromClient = batchOf(t, 1_700_000_000_000, 1, "first"), true
	if !r.p.Append(a) {
		t.Fatal("nothing is left after a thousand others came in the meantime")
	}
	if r.done > drainsMax {
		t.Fatalf("%d appends were written by one call", r.done)
	}
	// An append of another loop takes over what was left, before its own.
	before, other := r.done, new(doneList)
	b := &Append{Done: other}
	b.Batch, b.FromClient = batchOf(t, 1_700_000_000_000, 1, "other"), true
	if !r.p.Append(b) || len(other.got) != 1 || b.BaseOffset != record.Offset(before+1) {
		t.Fatalf("%d completions at %d, %d were done before", len(other.got), b.BaseOffset, before)
	}
	// So does whoever needs the log to itself.
	r.p.Refresh()
	rounds := 0
	for r.p.Drain() {
		rounds++
	}
	if r.done != 1001 || r.p.Offsets().LEO != 1002 {
		t.Fatalf("%d completions, LEO %d after %d rounds", r.done, r.p.Offsets().LEO, rounds)
	}
}

// TestColdLogIsOpenedByAWorker: after a start a log's files are closed, and no
// loop opens them. What is appended meanwhile is written in its order, and whoever
// needs the log to itself need not wait for the worker.
func TestColdLogIsOpenedByAWorker(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 1, nil)
	n.settle()
	appendOne(t, n.get("t", 0), batchOf(t, baseTime, 1, "before"), 1)
	n.stop()
	n.start()
	p := n.get("t", 0)
	opened := 0
	n.fs.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpOpen || c.Op == vfs.OpRead || c.Op == vfs.OpWrite {
			opened++
		}
		return nil
	})
	var d doneList
	want := []string{"before/0"}
	for i := range 3 {
		a := &Append{Done: &d}
		a.Batch, a.FromClient = batchOf(t, baseTime, 1, fmt.Sprint(i)), true
		want = append(want, fmt.Sprintf("%d/0", i))
		if p.Append(a) {
			t.Error("the caller owes a Drain")
		}
	}
	if len(d.got) != 0 || opened != 0 {
		t.Fatalf("%d appends done, %d calls of the file system by a loop", len(d.got), opened)
	}
	if !n.exec.one() || len(d.got) != 3 {
		t.Fatalf("%d appends done by one job", len(d.got))
	}
	n.exec.drain()
	n.fs.SetHook(nil)
	if got := values(t, p, 0); !slices.Equal(got, want) {
		t.Fatalf("records %q", got)
	}
	a := &Append{Done: &d}
	a.Batch, a.FromClient = batchOf(t, baseTime, 1, "warm"), true
	if p.Append(a); len(d.got) != 4 {
		t.Fatal("a warm log sends its loop away")
	}

	n.stop()
	n.start()
	p = n.get("t", 0)
	b := &Append{Done: &d}
	b.Batch, b.FromClient = batchOf(t, baseTime, 1, "again"), true
	p.Append(b)
	p.Refresh() // on a worker, and does what is queued
	if len(d.got) != 5 || b.Err != nil {
		t.Fatalf("%d appends done, %v", len(d.got), b.Err)
	}
	n.exec.drain()
}

func TestAppendRefusals(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 1, map[string]string{"min.insync.replicas": "1"})
	n.settle()
	p := n.get("t", 0)
	part := *n.controller.Image().Partition(p.tp)
	// Two replicas, of which one is in the ISR.
	cfg, err := ParseTopicConfig(map[string]string{"min.insync.replicas": "2", "segment.bytes": "1048576"}, n.broker)
	n.ok(err)
	part.Replicas, part.PartitionEpoch = []int32{1, 2}, part.PartitionEpoch+1
	p.change(&part, cfg)
	if a := appendOne(t, p, batchOf(t, 1_700_000_000_000, 1, "x"), acksAll); !errors.Is(a.Err, kerr.NotEnoughReplicas) {
		t.Fatalf("acks=all below min ISR: %v", a.Err)
	}
	if a := appendOne(t, p, batchOf(t, 1_700_000_000_000, 2, "y"), 1); a.Err != nil {
		t.Fatalf("acks=1 below min ISR: %v", a.Err)
	}
	if o := p.Offsets(); o.HW != 0 || o.LEO != 2 {
		t.Fatalf("below min ISR the high watermark must stand still: %+v", o)
	}
	if done, err := p.CheckAcked(2); done || err != nil {
		t.Fatalf("acked: %v, %v", done, err)
	}
	huge := record.NewBuilder().Add(1_700_000_000_000, nil, []byte(strings.Repeat("x", 2<<20))).Build(record.None)
	if a := appendOne(t, p, huge, 1); !errors.Is(a.Err, kerr.RecordListTooLarge) {
		t.Fatalf("batch above segment.bytes: %v", a.Err)
	}
	part.ISR, part.PartitionEpoch = []int32{1}, part.PartitionEpoch+1
	part.Replicas = []int32{1}
	p.change(&part, cfg)
	if o := p.Offsets(); o.HW != 2 {
		t.Fatalf("min ISR is at most the number of replicas: %+v", o)
	}
	if done, err := p.CheckAcked(2); !done || err != nil {
		t.Fatalf("acked: %v, %v", done, err)
	}
	part.Replicas, part.PartitionEpoch = []int32{1, 2, 3}, part.PartitionEpoch+1
	p.change(&part, cfg)
	if done, err := p.CheckAcked(2); !done || !errors.Is(err, kerr.NotEnoughReplicasAfterAppend) {
		t.Fatalf("acked after the ISR shrank: %v, %v", done, err)
	}
}
