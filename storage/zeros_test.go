package storage

import (
	"fmt"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// zerosBehind is how far the active segment's file goes past its batches.
func zerosBehind(t *testing.T, l *Log) int64 {
	t.Helper()
	s := l.active()
	h, err := s.file.acquire(false)
	if err != nil {
		t.Fatal(err)
	}
	defer h.release()
	size, err := h.file.Size()
	if err != nil {
		t.Fatal(err)
	}
	return size - s.size.Load()
}

// appendUntil appends small batches until the active segment has n bytes.
func appendUntil(t *testing.T, l *Log, n int64) {
	t.Helper()
	for i := 0; l.active().size.Load() < n; i++ {
		mustAppend(t, l, batch(record.Timestamp(1000+i), 1, 4000, "x"))
	}
}

// TestZerosFollowTheRate: only a log that fills its steps quickly gets zeros
// behind its batches, up to the end of the step, and large appends get none.
func TestZerosFollowTheRate(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{})
	l := e.open()
	appendUntil(t, l, zeroStepBytes/2)
	if n := zerosBehind(t, l); n != 0 {
		t.Errorf("%d zeros behind the first appends", n)
	}
	appendUntil(t, l, zeroStepBytes+1)
	if got, want := zerosBehind(t, l), 2*zeroStepBytes-l.active().size.Load(); got != want {
		t.Errorf("%d zeros in the second step, want %d", got, want)
	}
	e.clock.advance(zeroFast + 1)
	appendUntil(t, l, 2*zeroStepBytes+1)
	if n := zerosBehind(t, l); n != 0 {
		t.Errorf("%d zeros behind slow appends", n)
	}
	mustAppend(t, l, batch(2000, 1, zeroStepBytes, "large"))
	if n := zerosBehind(t, l); n != 0 {
		t.Errorf("%d zeros behind a large append", n)
	}
}

// TestZerosStayInTheSegment: none go past segment.bytes, and a roll and a clean
// stop cut them off.
func TestZerosStayInTheSegment(t *testing.T) {
	const segment = 2*zeroStepBytes + zeroStepBytes/2
	e := newEnv(t, vfs.NewMem(), LogConfig{SegmentBytes: segment})
	l := e.open()
	appendUntil(t, l, 2*zeroStepBytes+1)
	if n := zerosBehind(t, l); n != 0 {
		t.Errorf("%d zeros in the last step of a segment", n)
	}
	for len(l.list()) == 1 {
		mustAppend(t, l, batch(5000, 1, 4000, "x"))
	}
	appendUntil(t, l, zeroStepBytes+1)
	if zerosBehind(t, l) == 0 {
		t.Error("no zeros in the second segment")
	}
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	appendUntil(t, l, zeroStepBytes+1)
	want := len(readAll(t, l, 0, 1<<30))
	l = e.restart()
	for _, s := range l.list() {
		entry, err := e.fs.Stat(s.file.path)
		if err != nil || entry.Size != s.size.Load() {
			t.Errorf("%s: %d bytes, %d of batches, %v", s.file.path, entry.Size, s.size.Load(), err)
		}
	}
	if got := len(readAll(t, l, 0, 1<<30)); got != want {
		t.Errorf("%d of %d records after a restart", got, want)
	}
}

// TestZerosAfterAKill: recovery cuts them off, loses nothing and goes on.
func TestZerosAfterAKill(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{})
	l := e.open()
	appendUntil(t, l, zeroStepBytes+1)
	if zerosBehind(t, l) == 0 {
		t.Fatal("no zeros")
	}
	want := len(readAll(t, l, 0, 1<<30))
	l = e.kill(vfs.Crash{})
	if n := zerosBehind(t, l); n != 0 {
		t.Errorf("%d zeros after recovery", n)
	}
	mustAppend(t, l, batch(9000, 1, 100, "y"))
	if got := len(readAll(t, l, 0, 1<<30)); got != want+1 {
		t.Errorf("%d of %d records", got, want+1)
	}
}

// TestZerosOnAFullDisk: an append whose zeros find no room is good, and one
// that itself finds none leaves the log as it was.
func TestZerosOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	q := &queue{} // nothing is reserved
	e := newEnv(t, mem, LogConfig{})
	e.exec = q
	l := e.open()
	appendUntil(t, l, zeroStepBytes-8000)
	free, total, err := mem.DiskFree(testDir)
	if err != nil {
		t.Fatal(err)
	}
	mem.SetCapacity(total - free + 20_000)
	full := false
	for i := 0; i < 20 && !full; i++ {
		full = appendBatch(l, batch(record.Timestamp(8000+i), 1, 4000, fmt.Sprint(i))).Err != nil
	}
	if !full || l.active().size.Load() <= zeroStepBytes {
		t.Fatalf("full %v after %d bytes", full, l.active().size.Load())
	}
	want := len(readAll(t, l, 0, 1<<30))
	mem.SetCapacity(total)
	mustAppend(t, l, batch(9000, 1, 4000, "y"))
	l = e.kill(vfs.Crash{})
	if got := len(readAll(t, l, 0, 1<<30)); got != want+1 {
		t.Errorf("%d of %d records", got, want+1)
	}
}
