package storage

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

func bases(l *Log) []record.Offset {
	var out []record.Offset
	for _, s := range l.Segments() {
		out = append(out, s.BaseOffset)
	}
	return out
}

func TestRollReasons(t *testing.T) {
	at := func(ts record.Timestamp) record.Batch { return batch(ts, 1, 20, "x") }
	size := int32(len(at(1)))
	for _, c := range []struct {
		name    string
		cfg     LogConfig
		batches []record.Batch
		advance int64
		want    string
	}{
		{"size", LogConfig{SegmentBytes: 3 * size}, []record.Batch{at(1), at(1), at(1), at(1)}, 0, "[0 3]"},
		{"time of the batches", LogConfig{SegmentMs: 100}, []record.Batch{at(1000), at(1100), at(1101), at(1150)}, 0, "[0 2]"},
		{"first batch counts, not the latest", LogConfig{SegmentMs: 100}, []record.Batch{at(1000), at(1090), at(1180)}, 0, "[0 2]"},
		{"wall clock of undated batches", LogConfig{SegmentMs: 100}, []record.Batch{at(-1), at(-1), at(-1)}, 60, "[0 2]"},
		{"full offset index", LogConfig{SegmentIndexBytes: 40, IndexIntervalBytes: 1}, []record.Batch{at(1), at(1), at(1), at(1), at(1), at(1), at(1)}, 0, "[0 6]"},
		{"full time index", LogConfig{SegmentIndexBytes: 36, IndexIntervalBytes: 1}, []record.Batch{at(1), at(2), at(3), at(4), at(5)}, 0, "[0 3]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t, vfs.NewMem(), c.cfg)
			l := e.open()
			for _, b := range c.batches {
				mustAppend(t, l, b)
				e.clock.advance(c.advance)
			}
			if got := fmt.Sprint(bases(l)); got != c.want {
				t.Errorf("segments at %s, want %s", got, c.want)
			}
			if l = e.restart(); fmt.Sprint(bases(l)) != c.want || len(readAll(t, l, 0, 1)) != len(c.batches) {
				t.Errorf("after a restart: segments at %v", bases(l))
			}
		})
	}
}

func TestRollOnOffsetOverflow(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{})
	l := e.open()
	far := record.Offset(math.MaxInt32)
	follow := func(o record.Offset) error {
		b := batch(1, 1, 10, fmt.Sprint(o))
		b.SetBaseOffset(o)
		b.SetLeaderEpoch(3)
		return l.AppendAsFollower(b)
	}
	for _, o := range []record.Offset{0, far, far + 1, 2*far + 2} {
		if err := follow(o); err != nil {
			t.Fatal(err)
		}
	}
	if err := follow(9 * far); err == nil {
		t.Error("a gap that no segment can span is taken")
	}
	// A segment begins where the one before ends, gap or not.
	want := fmt.Sprint([]record.Offset{0, far + 1, far + 2, 2*far + 3})
	for range 2 {
		if got := fmt.Sprint(bases(l)); got != want {
			t.Errorf("segments at %s, want %s", got, want)
		}
		s, err := l.Read(5, l.EndOffset(), 1, true, false)
		if err != nil || s == nil {
			t.Fatal(s, err)
		}
		if b, _, err := record.Split(spanBytes(t, s)); err != nil || b.BaseOffset() != far {
			t.Errorf("behind a gap: %v, %v", b, err)
		}
		l = e.kill(vfs.Crash{})
	}
}

// TestRollWaitsForNobody holds the workers back: appends go on in the active
// segment until the next one is there, and a kill at any moment keeps them.
func TestRollWaitsForNobody(t *testing.T) {
	q := &queue{}
	e := newEnv(t, vfs.NewMem(), LogConfig{SegmentBytes: 1000})
	e.exec = q
	l := e.open()
	n := 0
	add := func(k int) {
		for range k {
			mustAppend(t, l, batch(1, 1, 200, fmt.Sprint(n)))
			n++
		}
	}
	add(20)
	if got := len(bases(l)); got != 1 || l.Segments()[0].SizeBytes < 4000 {
		t.Fatalf("%d segments", got)
	}
	for len(bases(l)) == 1 {
		if !q.one() {
			t.Fatal("nothing to do, yet no roll")
		}
		add(1)
	}
	add(20) // the renaming waits, so the second roll does
	if got := len(bases(l)); got != 2 {
		t.Fatalf("%d segments", got)
	}
	if _, err := e.fs.Stat(join(l.Dir(), preparedName)); err != nil {
		t.Fatal(err)
	}
	if l = e.kill(vfs.Crash{}); l.EndOffset() != record.Offset(n) || len(readAll(t, l, 0, 1<<20)) != n {
		t.Fatalf("end %d, want %d", l.EndOffset(), n)
	}
	if len(bases(l)) != 2 {
		t.Fatalf("segments at %v", bases(l))
	}
}

func TestReadWouldBlock(t *testing.T) {
	mem := vfs.NewMem()
	e := newEnv(t, mem, LogConfig{IndexIntervalBytes: 100})
	l := e.open()
	for i := range 300 {
		mustAppend(t, l, batch(1, 1, 100, fmt.Sprint(i)))
	}
	l = e.restart()
	read := func(at record.Offset, nowait bool) error {
		s, err := l.Read(at, l.EndOffset(), 1000, true, nowait)
		if err == nil {
			s.Release()
		}
		return err
	}
	// Closed, then open but its index not mapped, then mapped but not resident.
	for _, nowait := range []bool{true, false, true} {
		if err := read(5, nowait); nowait && !errors.Is(err, vfs.ErrWouldBlock) && err != nil || !nowait && err != nil {
			t.Fatalf("nowait %v: %v", nowait, err)
		}
	}
	mem.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpReadNowait {
			return vfs.ErrWouldBlock
		}
		return nil
	})
	if err := read(5, true); !errors.Is(err, vfs.ErrWouldBlock) {
		t.Fatalf("not resident: %v", err)
	}
	if err := read(5, false); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, batch(1, 1, 100, "tail"))
	mem.SetHook(func(c vfs.Call) error {
		t.Errorf("the tail asks the file system: %v %s", c.Op, c.Path)
		return nil
	})
	if err := read(300, true); err != nil {
		t.Fatal(err)
	}
	mem.SetHook(nil)
}

func TestLogAppendTime(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{TimestampType: record.LogAppendTime})
	l := e.open()
	a := mustAppend(t, l, idempotent(5, 1, 0, 0, 3))
	if a.LogAppendTime != 42 || a.Batch.MaxTimestamp() != 42 || !a.Batch.Attributes().LogAppendTime() || !a.Batch.VerifyCRC() {
		t.Fatalf("%+v", a)
	}
	if d := appendBatch(l, idempotent(5, 1, 0, 0, 3)); !d.Duplicate || d.LogAppendTime != 42 {
		t.Fatalf("repeat: %+v", d)
	}
	if o, ts, _, err := l.OffsetForTimestamp(42); o != 0 || ts != 42 || err != nil {
		t.Fatal(o, ts, err)
	}
	if o, ts, _, err := l.MaxTimestampOffset(); o != 0 || ts != 42 || err != nil {
		t.Fatal(o, ts, err)
	}
}

func TestRecordListTooLarge(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{SegmentBytes: 500})
	if a := appendBatch(e.open(), batch(1, 1, 600, "x")); !errors.Is(a.Err, kerr.RecordListTooLarge) {
		t.Fatalf("%v", a.Err)
	}
}

// TestTransactions follows open, committed and aborted transactions through a
// restart and a kill.
func TestTransactions(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{SegmentBytes: 400})
	l := e.open()
	txn := func(id record.ProducerID, seq record.Sequence) {
		b := record.NewBuilder().Producer(id, 0, seq).Transactional().Add(1, nil, value("t", int(seq), 50)).Build(record.None)
		mustAppend(t, l, b)
	}
	unstable := func(want record.Offset) {
		t.Helper()
		if o, ok := l.FirstUnstableOffset(); ok != (want >= 0) || ok && o != want {
			t.Fatalf("first unstable %d, %v, want %d", o, ok, want)
		}
	}
	unstable(-1)
	txn(1, 0) // 0
	txn(2, 0) // 1
	unstable(0)
	mustAppendMarker(t, l, 1, 0, true) // 2
	unstable(0)                        // decided, but above the high watermark
	l.OnHighWatermark(3)
	unstable(1)
	txn(1, 1)                           // 3
	mustAppendMarker(t, l, 2, 0, false) // 4
	l.OnHighWatermark(5)
	unstable(3)
	if a := appendBatch(l, idempotent(1, 1, 0, 2, 1)); !errors.Is(a.Err, kerr.InvalidTxnState) {
		t.Fatalf("a plain write inside a transaction: %v", a.Err)
	}
	for i := range 3 {
		got, err := l.AbortedTxns(nil, 0, 5, true)
		want := []AbortedTxn{{ProducerID: 1, FirstOffset: 0, LastOffset: 2, LastStableOffset: 1}}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("aborted %v, want %v, %v", got, want, err)
		}
		unstable(3)
		if i == 0 {
			l = e.restart()
		} else {
			l = e.kill(vfs.Crash{})
		}
		l.OnHighWatermark(5)
	}
	if len(bases(l)) < 2 {
		t.Fatal("nothing rolled")
	}
	mustAppendMarker(t, l, 1, 0, true)
	l.OnHighWatermark(6)
	unstable(-1)
	if got, _ := l.AbortedTxns(nil, 3, 6, true); len(got) != 1 || got[0].FirstOffset != 3 {
		t.Fatalf("%v", got)
	}
}

func TestEpochs(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	c := newEpochCache(mem, testDir)
	for _, x := range []epochEntry{{0, 0}, {2, 10}, {3, 10}, {5, 30}} {
		c.assign(x.epoch, x.start)
	}
	if c.assign(4, 40) || c.assign(5, 35) {
		t.Error("older epochs are news")
	}
	if want := "[{0 0} {3 10} {5 30}]"; fmt.Sprint(c.entries) != want {
		t.Fatalf("%v, want %s", c.entries, want)
	}
	for _, x := range []struct {
		ask, epoch record.LeaderEpoch
		end        record.Offset
	}{{0, 0, 10}, {1, 0, 10}, {2, 0, 10}, {3, 3, 30}, {4, 3, 30}, {5, 5, 50}, {6, -1, -1}, {-1, -1, -1}} {
		if e, o := c.endOffset(x.ask, 50); e != x.epoch || o != x.end {
			t.Errorf("end of epoch %d: %d at %d, want %d at %d", x.ask, e, o, x.epoch, x.end)
		}
	}
	if err := c.write(); err != nil {
		t.Fatal(err)
	}
	again := newEpochCache(mem, testDir)
	if err := again.load(); err != nil || fmt.Sprint(again.entries) != fmt.Sprint(c.entries) {
		t.Fatalf("%v, %v", again.entries, err)
	}
	c.truncatePrefix(15)
	c.truncateSuffix(30)
	if want := "[{3 15}]"; fmt.Sprint(c.entries) != want {
		t.Fatalf("%v, want %s", c.entries, want)
	}
	if e, o := c.endOffset(1, 50); e != -1 && o != 15 {
		t.Errorf("an epoch older than all: %d at %d", e, o)
	}
}

func TestProducerLimitAndExpiry(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{})
	e.mcfg.MaxProducersPerLog = 3
	e.mcfg.ProducerIDExpirationMs = 1000
	l := e.open()
	now := e.clock.Now()
	for i := range 10 {
		mustAppend(t, l, idempotent(now+record.Timestamp(i), record.ProducerID(i), 0, 0, 1))
		mustAppend(t, l, idempotent(now+record.Timestamp(i), 0, 0, record.Sequence(i+1), 1))
	}
	var ids []string
	for _, p := range l.Producers() {
		ids = append(ids, fmt.Sprint(p.ProducerID))
	}
	if got := strings.Join(ids, " "); got != "0 8 9" {
		t.Fatalf("producers %s", got)
	}
	e.clock.advance(expiryCheckMs)
	e.m.Tick()
	if n := len(l.Producers()); n != 0 {
		t.Fatalf("%d producers after their time", n)
	}
}
