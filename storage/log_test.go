package storage

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sys/unix"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

func checkRecords(t *testing.T, l *Log, want []stored) {
	t.Helper()
	for _, maxBytes := range []int32{1, 300, 1 << 20} {
		got := readAll(t, l, l.StartOffset(), maxBytes)
		if len(got) != len(want) {
			t.Fatalf("%d records with maxBytes %d, want %d", len(got), maxBytes, len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("record %d is %v, want %v", i, got[i], want[i])
			}
		}
	}
}

func TestAppendReadRollRestart(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{SegmentBytes: 4096, IndexIntervalBytes: 256})
	l := e.open()
	var want []stored
	write := func(n int) {
		for i := range n {
			tag := fmt.Sprint("r", len(want), "-", i)
			a := mustAppend(t, e.log, batch(1000+record.Timestamp(len(want)), 1+i%4, 60, tag))
			for k := range 1 + i%4 {
				want = append(want, stored{a.BaseOffset + record.Offset(k), string(value(tag, k, 60))})
			}
		}
	}
	write(100)
	if n := len(l.Segments()); n < 3 {
		t.Fatalf("%d segments", n)
	}
	checkRecords(t, l, want)
	for range 3 {
		l = e.restart()
		checkRecords(t, l, want)
		write(30)
		checkRecords(t, l, want)
	}
	for range 3 {
		l = e.kill(vfs.Crash{Mode: vfs.CrashKeep})
		checkRecords(t, l, want)
		write(30)
		checkRecords(t, l, want)
	}
	e.stop()
}

func TestReadBounds(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{})
	l := e.open()
	for i := range 300 {
		mustAppend(t, l, batch(1, 2, 100, fmt.Sprint(i)))
	}
	size := int64(len(batch(1, 2, 100, "100")))
	if _, err := l.Read(601, 601, 100, true, true); err != kerr.OffsetOutOfRange {
		t.Fatalf("past the end: %v", err)
	}
	if s, err := l.Read(600, 600, 100, true, true); s != nil || err != nil {
		t.Fatalf("at the end: %v, %v", s, err)
	}
	for _, limit := range []record.Offset{599, 598, 300, 299, 201} {
		for _, from := range []record.Offset{limit - 1, limit - 2, limit - 80, 200} {
			s, err := l.Read(from, limit, 1<<30, true, true)
			if err != nil {
				t.Fatal(err)
			}
			if s == nil {
				if whole := limit &^ 1; from < whole {
					t.Fatalf("[%d, %d): nothing", from, limit)
				}
				continue
			}
			last := record.Offset(-1)
			for p := spanBytes(t, s); len(p) > 0; {
				b, rest, err := record.Split(p)
				if err != nil {
					t.Fatal(err)
				}
				last, p = b.LastOffset(), rest
			}
			if want := limit&^1 - 1; last != want {
				t.Fatalf("[%d, %d) ends at %d, want %d", from, limit, last, want)
			}
		}
	}
	if s, err := l.Read(300, 600, int32(size)-1, false, true); s != nil || err != nil {
		t.Fatalf("a first batch that does not fit: %v, %v", s, err)
	}
	s, err := l.Read(301, 600, 1, true, true)
	if err != nil || s == nil || s.Length() != size || s.BaseOffset() != 300 {
		t.Fatalf("a first batch is whole: %v, %v", s, err)
	}
	s.Release()
}

func TestAppendWriteFails(t *testing.T) {
	for _, short := range []int64{0, 1, 70, 200} {
		mem := vfs.NewMem()
		e := newEnv(t, mem, LogConfig{})
		l := e.open()
		mustAppend(t, l, idempotent(1, 7, 0, 0, 2))
		mem.Inject(vfs.Fault{Op: vfs.OpWrite, Path: "*.log", Err: unix.ENOSPC, Short: short})
		as := []*Append{
			{Batch: idempotent(1, 7, 0, 2, 3), FromClient: true},
			{Batch: idempotent(1, 7, 0, 5, 1), FromClient: true},
			{Batch: idempotent(1, 7, 0, 2, 3), FromClient: true}, // repeats one that is not written
			{Batch: idempotent(1, 8, 0, 0, 1), FromClient: true},
			{Batch: idempotent(1, 7, 0, 0, 2), FromClient: true}, // repeats one that is
		}
		l.AppendAsLeader(0, as)
		for i, a := range as[:4] {
			if !errors.Is(a.Err, kerr.KafkaStorageError) || a.BaseOffset != -1 || a.Duplicate {
				t.Fatalf("append %d: %+v", i, a)
			}
		}
		if a := as[4]; a.Err != nil || !a.Duplicate || a.BaseOffset != 0 {
			t.Fatalf("repeat of a written batch: %+v", a)
		}
		if l.EndOffset() != 2 || l.producers.len() != 1 {
			t.Fatalf("end %d, %d producers", l.EndOffset(), l.producers.len())
		}
		a := mustAppend(t, l, idempotent(1, 7, 0, 2, 3))
		if a.BaseOffset != 2 || a.Duplicate {
			t.Fatalf("after the failure: %+v", a)
		}
		if l = e.kill(vfs.Crash{}); l.EndOffset() != 5 {
			t.Fatalf("end %d after a restart", l.EndOffset())
		}
	}
}

func TestProducerSequences(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{})
	l := e.open()
	ok := func(a *Append, base record.Offset, dup bool) {
		t.Helper()
		if a.Err != nil || a.BaseOffset != base || a.Duplicate != dup {
			t.Fatalf("%+v, want base %d, duplicate %v", a, base, dup)
		}
	}
	bad := func(a *Append, code error) {
		t.Helper()
		if !errors.Is(a.Err, code) {
			t.Fatalf("%v, want %v", a.Err, code)
		}
	}
	ok(appendBatch(l, idempotent(9, 1, 3, 50, 2)), 0, false) // unknown: any sequence
	ok(appendBatch(l, idempotent(9, 1, 3, 50, 2)), 0, true)
	bad(appendBatch(l, idempotent(9, 1, 3, 53, 1)), kerr.OutOfOrderSequenceNumber)
	bad(appendBatch(l, idempotent(9, 1, 2, 52, 1)), kerr.InvalidProducerEpoch)
	bad(appendBatch(l, idempotent(9, 1, 4, 52, 1)), kerr.OutOfOrderSequenceNumber) // new epoch starts at 0
	for i := range record.Sequence(5) {
		ok(appendBatch(l, idempotent(9, 1, 3, 52+i, 1)), 2+record.Offset(i), false)
	}
	ok(appendBatch(l, idempotent(9, 1, 3, 52, 1)), 2, true)
	bad(appendBatch(l, idempotent(9, 1, 3, 50, 2)), kerr.OutOfOrderSequenceNumber) // sixth last
	ok(appendBatch(l, idempotent(9, 1, 4, 0, 1)), 7, false)
	// Wrap inside a batch and between batches.
	ok(appendBatch(l, idempotent(9, 2, 0, math.MaxInt32-1, 4)), 8, false)
	ok(appendBatch(l, idempotent(9, 2, 0, math.MaxInt32-1, 4)), 8, true)
	ok(appendBatch(l, idempotent(9, 2, 0, 2, 1)), 12, false)
	ok(appendBatch(l, idempotent(9, 3, 0, math.MaxInt32, 1)), 13, false)
	ok(appendBatch(l, idempotent(9, 3, 0, 0, 1)), 14, false)
	l = e.restart()
	ok(appendBatch(l, idempotent(9, 3, 0, 0, 1)), 14, true)
	ok(appendBatch(l, idempotent(9, 2, 0, 3, 1)), 15, false)
	l = e.kill(vfs.Crash{})
	ok(appendBatch(l, idempotent(9, 2, 0, 3, 1)), 15, true)
	ok(appendBatch(l, idempotent(9, 3, 0, 1, 1)), 16, false)
	// One call judges batch after batch.
	as := []*Append{
		{Batch: idempotent(9, 5, 0, 0, 1), FromClient: true},
		{Batch: idempotent(9, 5, 0, 1, 1), FromClient: true},
		{Batch: idempotent(9, 5, 0, 3, 1), FromClient: true},
		{Batch: idempotent(9, 5, 0, 1, 1), FromClient: true},
		{Batch: idempotent(9, 5, 0, 2, 1), FromClient: true},
	}
	l.AppendAsLeader(0, as)
	ok(as[0], 17, false)
	ok(as[1], 18, false)
	bad(as[2], kerr.OutOfOrderSequenceNumber)
	ok(as[3], 18, true)
	ok(as[4], 19, false)
}
