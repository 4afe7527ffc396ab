package storage

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// The tests of this file are about what shows only in a log's longer life:
// after idle times, several starts, deletions and full disks.

// wantTimes checks that a log finds its records by time.
func wantTimes(t *testing.T, l *Log, when string, ts record.Timestamp, offset record.Offset) {
	t.Helper()
	o, at, _, err := l.OffsetForTimestamp(ts)
	if err != nil || o != offset || at != ts {
		t.Errorf("%s: the first record at %d is %d at %d (%v), want %d", when, ts, o, at, err, offset)
	}
	if o, at, _, err := l.MaxTimestampOffset(); err != nil || at < ts {
		t.Errorf("%s: the greatest timestamp is %d at %d (%v), but there is %d", when, at, o, err, ts)
	}
}

// TestTimesSurviveIdleAndRecovery: the last entry of the time index is written
// whichever way the active segment came to its end.
func TestTimesSurviveIdleAndRecovery(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(e *env)
	}{
		{"idle, then a clean stop", func(e *env) {
			e.clock.advance(20 * 60 * 1000)
			for range 4 {
				e.m.Tick()
				e.clock.advance(20 * 60 * 1000)
			}
		}},
		{"a kill, then a clean stop", func(e *env) { e.kill(vfs.Crash{}) }},
		{"a kill, idle, then a clean stop", func(e *env) {
			e.kill(vfs.Crash{})
			for range 4 {
				e.m.Tick()
				e.clock.advance(20 * 60 * 1000)
			}
		}},
	} {
		for _, n := range []int{3, 300} { // without and with other entries in the index
			t.Run(fmt.Sprintf("%s/%d", c.name, n), func(t *testing.T) {
				e := newEnv(t, vfs.NewMem(), LogConfig{})
				l := e.open()
				for i := range n {
					mustAppend(t, l, batch(record.Timestamp(1000+i), 1, 100, "x"))
				}
				last := record.Timestamp(1000 + n - 1)
				c.end(e)
				wantTimes(t, e.log, "before the stop", last, record.Offset(n-1))
				l = e.restart()
				wantTimes(t, l, "after it", last, record.Offset(n-1))
				mustAppend(t, l, batch(5000, 1, 100, "y"))
				l = e.restart()
				wantTimes(t, l, "after another", 5000, record.Offset(n))
				wantTimes(t, l, "after another", last, record.Offset(n-1))
			})
		}
	}
}

// TestRecreatedStartsAtNothing: however many checkpoints come between, a new
// log of an old name has nothing of the old one's checkpoints.
func TestRecreatedStartsAtNothing(t *testing.T) {
	for _, checkpoints := range []int{0, 1, 2, 3} {
		e := newEnv(t, vfs.NewMem(), LogConfig{})
		l := e.open()
		for range 10 {
			mustAppend(t, l, batch(1, 1, 100, "old"))
		}
		if err := l.SetStartOffset(7); err != nil {
			t.Fatal(err)
		}
		e.restart()
		if err := e.m.Delete(testTP); err != nil {
			t.Fatal(err)
		}
		for range checkpoints {
			if err := e.m.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
		l, err := e.m.Create(testTP, record.TopicID{9}, e.cfg)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			mustAppend(t, l, batch(1, 1, 100, "new"))
		}
		l = e.kill(vfs.Crash{})
		if l.StartOffset() != 0 || l.EndOffset() != 3 || l.Err() != nil {
			t.Errorf("%d checkpoints: the new log is [%d, %d), %v", checkpoints, l.StartOffset(), l.EndOffset(), l.Err())
		}
	}
}

// TestRecoveryPointPastTheEnd: a log that has lost what was durable forgets
// what its producers wrote there, or their repeats would pass for duplicates.
func TestRecoveryPointPastTheEnd(t *testing.T) {
	// One index entry, before the cut: the check begins there.
	e := newEnv(t, vfs.NewMem(), LogConfig{IndexIntervalBytes: 200})
	l := e.open()
	b := idempotent(1, 7, 0, 0, 1)
	for i := range 6 {
		mustAppend(t, l, idempotent(1, 7, 0, record.Sequence(i), 1))
	}
	e.stop()
	if err := e.fs.Remove(testDir + "/" + cleanMarkName); err != nil {
		t.Fatal(err)
	}
	f, err := e.fs.Open(testDir + "/t-0/" + segmentName(0, logSuffix))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(4 * int64(len(b))); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	l = e.open()
	if l.EndOffset() != 4 {
		t.Fatalf("end %d", l.EndOffset())
	}
	for i := 4; i < 6; i++ {
		if a := mustAppend(t, l, idempotent(1, 7, 0, record.Sequence(i), 1)); a.Duplicate || a.BaseOffset != record.Offset(i) {
			t.Errorf("sequence %d: %+v", i, a)
		}
	}
}

// TestSnapshotsDoNotPileUp: of the snapshots of clean stops only the latest is
// of use.
func TestSnapshotsDoNotPileUp(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{SegmentBytes: 1000})
	l := e.open()
	for i := range 20 {
		mustAppend(t, l, idempotent(1, 7, 0, record.Sequence(i), 1))
		l = e.restart()
	}
	files, err := readLogFiles(e.fs, l.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if n, most := len(files.snapshots), len(files.segments); n > most {
		t.Errorf("%d snapshots of %d segments", n, most)
	}
	l = e.kill(vfs.Crash{})
	if a := mustAppend(t, l, idempotent(1, 7, 0, 19, 1)); !a.Duplicate {
		t.Errorf("a repeat is taken: %+v", a)
	}
}

// TestRecoveryOfCompactedLog: Kafka's cleaner leaves holes between segments,
// which are no reason to drop anything.
func TestRecoveryOfCompactedLog(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{Compact: true})
	l := e.open()
	for range 4 {
		mustAppend(t, l, batch(1, 1, 100, "x"))
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
	}
	e.stop()
	for _, name := range []string{cleanMarkName, recoveryPointName} {
		if err := e.fs.Remove(testDir + "/" + name); err != nil {
			t.Fatal(err)
		}
	}
	for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix} { // all of it cleaned away
		if err := e.fs.Remove(testDir + "/t-0/" + segmentName(2, suffix)); err != nil {
			t.Fatal(err)
		}
	}
	l = e.open()
	if l.EndOffset() != 4 {
		t.Errorf("end %d, segments at %v", l.EndOffset(), bases(l))
	}
	s, err := l.Read(2, l.EndOffset(), 1, true, false)
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	if b, _, err := record.Split(spanBytes(t, s)); err != nil || b.BaseOffset() != 3 {
		t.Errorf("behind the hole: %v, %v", b, err)
	}
}

// TestFullDiskDuringFlush: a flush that finds no space for an index has lost
// nothing, and the next one may well find some.
func TestFullDiskDuringFlush(t *testing.T) {
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT} {
		e := newEnv(t, vfs.NewMem(), LogConfig{IndexIntervalBytes: 1})
		l := e.open()
		for range 5 {
			mustAppend(t, l, batch(1, 1, 100, "x"))
		}
		mem := e.fs.(*vfs.Mem)
		mem.SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpWrite && strings.HasSuffix(c.Path, indexSuffix) {
				return full
			}
			return nil
		})
		if err := l.Flush(l.EndOffset()); err == nil || l.Err() != nil {
			t.Errorf("%v: the flush says %v, the log %v", full, err, l.Err())
		}
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		mem.SetHook(nil)
		mustAppend(t, l, batch(1, 1, 100, "x"))
		if err := l.Flush(l.EndOffset()); err != nil || l.RecoveryPoint() != 6 {
			t.Errorf("with space again: %v, recovery point %d", err, l.RecoveryPoint())
		}
	}
}

// TestFlushSealsWhatRolled: what lies below the recovery point is taken as it
// is, indexes included, so they must be durable first.
func TestFlushSealsWhatRolled(t *testing.T) {
	for seed := range uint64(20) {
		q := &queue{}
		e := newEnv(t, vfs.NewMem(), LogConfig{IndexIntervalBytes: 1})
		e.exec = q
		l := e.open()
		for i := range 5 {
			mustAppend(t, l, batch(record.Timestamp(1000+i), 1, 100, "x"))
		}
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, batch(900, 1, 100, "x"))
		if err := l.Flush(l.EndOffset()); err != nil {
			t.Fatal(err)
		}
		if err := e.m.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		l = e.kill(vfs.Crash{Mode: vfs.CrashReorder, Seed: seed})
		if l.EndOffset() != 6 {
			t.Fatalf("seed %d: end %d", seed, l.EndOffset())
		}
		wantTimes(t, l, fmt.Sprintf("seed %d", seed), 1004, 4)
	}
}

// TestReadBelowFirstSegment: a start that moves while a reader is under way
// must not make it skip.
func TestReadBelowFirstSegment(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{})
	l := e.open()
	for range 3 {
		mustAppend(t, l, batch(1, 1, 100, "x"))
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.SetStartOffset(2); err != nil {
		t.Fatal(err)
	}
	l.start.Store(0) // as the reader saw it
	if s, err := l.Read(0, 3, 1000, true, false); err != kerr.OffsetOutOfRange {
		t.Errorf("%v, %v", s, err)
	}
}

// TestCold: an append to a log that is not cold needs no call but its write.
func TestCold(t *testing.T) {
	mem := vfs.NewMem()
	e := newEnv(t, mem, LogConfig{IndexIntervalBytes: 1})
	l := e.open()
	if !l.Cold() {
		t.Error("warm before its files are open")
	}
	for i := range 10 {
		mustAppend(t, l, batch(record.Timestamp(1000+i), 1, 100, "x"))
	}
	if l.Cold() {
		t.Error("cold after an append")
	}
	l = e.restart()
	if !l.Cold() {
		t.Error("warm after a start")
	}
	if err := l.WarmUp(); err != nil || l.Cold() {
		t.Fatalf("warmed up: %v, cold %v", err, l.Cold())
	}
	mem.SetHook(func(c vfs.Call) error {
		if c.Op != vfs.OpWrite && c.Op != vfs.OpPreallocate {
			t.Errorf("an append made a call %v of %s", c.Op, c.Path)
		}
		return nil
	})
	mustAppend(t, l, batch(5000, 1, 100, "y"))
	mem.SetHook(nil)
	for range 4 {
		e.clock.advance(20 * 60 * 1000)
		e.m.Tick()
	}
	if !l.Cold() {
		t.Error("warm after an idle time")
	}
	mustAppend(t, l, batch(5001, 1, 100, "z"))
	wantTimes(t, l, "after an idle time", 5001, 11)
	l = e.restart()
	if n := len(readAll(t, l, 0, 1)); n != 12 {
		t.Errorf("%d records", n)
	}
}

// TestCreateOnAFullDisk leaves nothing behind, however often it is tried.
func TestCreateOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	e := newEnv(t, mem, LogConfig{})
	if err := e.start(); err != nil {
		t.Fatal(err)
	}
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpRename} {
		mem.Inject(vfs.Fault{Op: op, Err: unix.ENOSPC})
		if _, err := e.m.Create(testTP, testID, e.cfg); err == nil {
			t.Errorf("created in spite of %v", op)
		}
		if got := names(t, e); len(got) != 0 {
			t.Errorf("after a failed %v: %v", op, got)
		}
	}
	l, err := e.m.Create(testTP, testID, e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, batch(1, 1, 10, "x"))
}

// TestDeleteOfALogThatCannotBeLoaded needs nothing of it but its directory.
func TestDeleteOfALogThatCannotBeLoaded(t *testing.T) {
	mem := vfs.NewMem()
	e := newEnv(t, mem, LogConfig{FileDeleteDelayMs: 1})
	mustAppend(t, e.open(), batch(1, 1, 10, "x"))
	if err := e.m.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	e.fs = mem.Crash(vfs.Crash{})
	mem = e.fs.(*vfs.Mem)
	mem.Inject(vfs.Fault{Op: vfs.OpRead, Path: "*" + logSuffix, Err: unix.EIO, Times: -1})
	if err := e.start(); err == nil || e.m.Get(testTP) != nil {
		t.Fatalf("loaded: %v", err)
	}
	if err := e.m.Delete(testTP); err != nil {
		t.Fatal(err)
	}
	mem.ClearFaults()
	if got := names(t, e); len(got) != 1 || !strings.HasSuffix(got[0], deleteDirSuffix) {
		t.Errorf("deleted: %v", got)
	}
	e.clock.advance(100_000)
	e.m.Tick()
	if got := names(t, e); len(got) != 0 {
		t.Errorf("and removed: %v", got)
	}
	if err := e.m.Delete(testTP); err != nil {
		t.Errorf("deleted again: %v", err)
	}
}

// TestSmallSegments: where the workers keep up, a segment holds no more than
// segment.bytes, and one that nobody reads holds no descriptor.
func TestSmallSegments(t *testing.T) {
	q := &queue{}
	e := newEnv(t, vfs.NewMem(), LogConfig{SegmentBytes: 1000})
	e.exec = q
	l := e.open()
	const n = 40
	for i := range n {
		mustAppend(t, l, batch(1, 1, 500+i, "x")) // one fits, two do not
		q.drain()
	}
	if got := len(bases(l)); got != n {
		t.Errorf("%d batches in %d segments", n, got)
	}
	open := 0
	for _, s := range l.list() {
		if s.file.open.Load() != nil {
			open++
		}
	}
	if open != 1 {
		t.Errorf("%d files are open", open)
	}
	if got := len(readAll(t, l, 0, 1)); got != n {
		t.Errorf("%d records", got)
	}
}

// TestRecoveryOfRolledZeros: zeros at the end of a segment that another one
// follows, be they less than a header, are no reason to drop anything.
func TestRecoveryOfRolledZeros(t *testing.T) {
	for _, zeros := range []int64{1, 11, 60, 61, 200, 256 << 10} {
		q := &queue{}
		e := newEnv(t, vfs.NewMem(), LogConfig{})
		e.exec = q
		l := e.open()
		mustAppend(t, l, batch(1, 1, 100, "0"))
		h, err := l.active().file.acquire(false)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.file.Truncate(l.active().size.Load() + zeros); err != nil {
			t.Fatal(err)
		}
		h.release()
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, batch(1, 1, 100, "1"))
		l = e.kill(vfs.Crash{})
		if got := len(readAll(t, l, 0, 1000)); got != 2 || fmt.Sprint(bases(l)) != "[0 1]" {
			t.Errorf("%d zeros: %d records, segments at %v", zeros, got, bases(l))
		}
	}
}
