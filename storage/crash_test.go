package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// history is what was given to a log, so that a crash can be judged.
type history struct {
	published []stored // appended and acknowledged, never truncated here
	inFlight  []stored // of the append that is running
	start     record.Offset
	nextStart record.Offset // of the SetStartOffset that is running
}

// judge opens what a crash left and says what is wrong with it. At least the
// records below required must be there, and nothing but what was appended, in
// order, without a hole.
func (h *history) judge(t *testing.T, e *env, disk *vfs.Mem, required record.Offset) error {
	c := newEnv(t, disk, e.cfg)
	c.clock = e.clock
	if err := c.start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if c.log == nil {
		return fmt.Errorf("the partition is gone")
	}
	if err := c.log.Err(); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	if err := h.compare(c.log, required); err != nil {
		return err
	}
	// What is appended now must be all that follows, whatever happens next.
	want, err := tryReadAll(c.log, c.log.StartOffset(), 1<<20)
	if err != nil {
		return err
	}
	a := appendBatch(c.log, batch(5, 1, 10, "after"))
	if a.Err != nil {
		return a.Err
	}
	want = append(want, stored{a.BaseOffset, string(value("after", 0, 10))})
	c = &env{t: t, fs: disk.Crash(vfs.Crash{Mode: vfs.CrashKeep}), dir: e.dir, exec: inPlace{}, clock: e.clock, cfg: e.cfg}
	for range 2 {
		if err := c.start(); err != nil {
			return fmt.Errorf("second start: %w", err)
		}
		got, err := tryReadAll(c.log, c.log.StartOffset(), 1<<20)
		if err != nil {
			return err
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("after one more append and a start: %d records, want %d", len(got), len(want))
		}
		if err := c.m.Close(nil); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) compare(l *Log, required record.Offset) error {
	if s := l.StartOffset(); s != h.start && s != h.nextStart {
		return fmt.Errorf("start %d, want %d or %d", s, h.start, h.nextStart)
	}
	if l.EndOffset() < required {
		return fmt.Errorf("end %d, but everything below %d was promised", l.EndOffset(), required)
	}
	got, err := tryReadAll(l, l.StartOffset(), 1<<20)
	if err != nil {
		return err
	}
	all := append(h.published[:len(h.published):len(h.published)], h.inFlight...)
	all = all[min(int(l.StartOffset()), len(all)):]
	if len(got) > len(all) {
		return fmt.Errorf("%d records, only %d were appended", len(got), len(all))
	}
	for i := range got {
		if got[i] != all[i] {
			return fmt.Errorf("record %d is %v, want %v", i, got[i], all[i])
		}
	}
	if n := int(l.EndOffset() - l.StartOffset()); n != len(got) {
		return fmt.Errorf("%d records in [%d, %d)", len(got), l.StartOffset(), l.EndOffset())
	}
	return nil
}

// crashModes are the ways to go down; the process alone first.
var crashModes = []vfs.CrashMode{vfs.CrashKeep, vfs.CrashDrop, vfs.CrashTear, vfs.CrashReorder}

// TestCrashAtEveryCall runs random work and crashes the log before each call
// that changes the disk: a kill keeps all that was published, a power cut all
// that is below the recovery point.
func TestCrashAtEveryCall(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	cuts := 0
	for seed := range seeds * *rounds {
		cuts += crashRun(t, seed)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d crashes", cuts)
}

func crashRun(t *testing.T, seed uint64) (cuts int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	mem := vfs.NewMem()
	e := newEnv(t, mem, LogConfig{SegmentBytes: 2000 + rng.Int32N(2000), IndexIntervalBytes: 200, FileDeleteDelayMs: 1000})
	q := &queue{}
	e.exec = q
	e.mcfg.CheckpointFlushBytes = 3000
	l := e.open()
	h := &history{}
	mem.SetHook(func(c vfs.Call) error {
		if !c.Op.Changes() || t.Failed() {
			return nil
		}
		for _, mode := range crashModes {
			required := l.RecoveryPoint()
			if mode == vfs.CrashKeep {
				required = record.Offset(len(h.published))
			}
			cuts++
			crash := vfs.Crash{Mode: mode, Seed: seed + uint64(c.N)}
			if err := h.judge(t, e, mem.CrashClone(crash), required); err != nil {
				t.Log("live", listing(mem), "crashed", listing(mem.CrashClone(crash)))
				t.Errorf("seed %d: %v before call %d (%v %s at %d, %d bytes): %v", seed, mode, c.N, c.Op, c.Path, c.Offset, c.Length, err)
			}
		}
		return nil
	})
	seq := record.Sequence(0)
	for range 60 {
		switch n := rng.IntN(20); {
		case n < 10:
			h.append(t, l, rng, &seq)
		case n < 14:
			q.any(rng)
		case n < 15:
			if err := e.m.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		case n < 16:
			if err := l.Flush(l.EndOffset()); err != nil {
				t.Fatal(err)
			}
		case n < 17:
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
		case n < 18:
			h.nextStart = h.start + record.Offset(rng.IntN(len(h.published)-int(h.start)+1)/2)
			if err := l.SetStartOffset(h.nextStart); err != nil {
				t.Fatal(err)
			}
			h.start = h.nextStart
		case n < 19:
			e.clock.advance(700)
			e.m.Tick()
		default:
			q.drain()
		}
		if t.Failed() {
			return cuts
		}
	}
	q.drain()
	e.stop()
	mem.SetHook(nil)
	if l = e.open(); !t.Failed() {
		if err := h.compare(l, record.Offset(len(h.published))); err != nil {
			t.Fatalf("seed %d: after a clean stop: %v", seed, err)
		}
	}
	return cuts
}

// append appends one to three batches, some of a producer.
func (h *history) append(t *testing.T, l *Log, rng *rand.Rand, seq *record.Sequence) {
	t.Helper()
	var as []*Append
	next := l.EndOffset()
	for range 1 + rng.IntN(3) {
		n := 1 + rng.IntN(3)
		tag := fmt.Sprint("v", next)
		b := batch(record.Timestamp(next), n, 50+rng.IntN(150), tag)
		if rng.IntN(2) == 0 {
			b = idempotent(record.Timestamp(next), 9, 0, *seq, n)
			*seq += record.Sequence(n)
		}
		as = append(as, &Append{Batch: b, FromClient: true})
		_ = b.Each(func(r record.Record) bool {
			h.inFlight = append(h.inFlight, stored{next, string(r.Value)})
			next++
			return true
		})
	}
	l.AppendAsLeader(0, as)
	for _, a := range as {
		if a.Err != nil {
			t.Fatalf("append: %v", a.Err)
		}
	}
	h.published = append(h.published, h.inFlight...)
	h.inFlight = nil
}

// listing is the content of the partition's directory, for messages.
func listing(m *vfs.Mem) string {
	entries, err := m.ReadDir(testDir + "/" + testTP.String())
	if err != nil {
		return err.Error()
	}
	out := ""
	for _, e := range entries {
		out += fmt.Sprintf(" %s:%d", e.Name, e.Size)
	}
	return out
}
