package storage

import (
	"fmt"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// benchLog is a log on real files whose workers are a goroutine of their own.
func benchLog(tb testing.TB, cfg LogConfig) *Log {
	e := newEnv(tb, vfs.OS(), cfg)
	e.dir = tb.TempDir()
	w := newWorker()
	e.exec = w
	tb.Cleanup(w.stop)
	l := e.open()
	tb.Cleanup(func() { e.stop() })
	return l
}

// worker runs jobs in one goroutine.
type worker struct {
	jobs chan func()
	done chan struct{}
}

func newWorker() *worker {
	w := &worker{jobs: make(chan func(), 1024), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for job := range w.jobs {
			job()
		}
	}()
	return w
}

func (w *worker) Submit(job func()) { w.jobs <- job }

func (w *worker) stop() {
	close(w.jobs)
	<-w.done
}

func benchAppends(n, size int) []*Append {
	as := make([]*Append, n)
	for i := range as {
		as[i] = &Append{Batch: batch(1, 1, size, "b"), FromClient: true}
	}
	return as
}

// allocs is testing.AllocsPerRun after a warm-up of as many rounds.
func allocs(t *testing.T, rounds int, fn func()) {
	t.Helper()
	for range rounds {
		fn()
	}
	if n := testing.AllocsPerRun(rounds, fn); n > 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	l := benchLog(t, LogConfig{})
	plain := benchAppends(16, 100)
	t.Run("plain", func(t *testing.T) {
		allocs(t, 1000, func() { l.AppendAsLeader(0, plain) })
	})
	t.Run("idempotent", func(t *testing.T) {
		var as []*Append
		for i := range 16 {
			as = append(as, &Append{Batch: idempotent(1, record.ProducerID(i), 0, 0, 1), FromClient: true})
		}
		n := record.Sequence(0)
		allocs(t, 1000, func() {
			for _, a := range as {
				setSequence(a.Batch, n)
			}
			n++
			l.AppendAsLeader(0, as)
			if as[3].Err != nil || as[3].Duplicate {
				t.Fatalf("%+v", as[3])
			}
		})
	})
	for _, a := range plain {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

// setSequence changes the sequence in place; the CRC, which the log does not
// look at again, is left.
func setSequence(b record.Batch, s record.Sequence) {
	b[53], b[54], b[55], b[56] = byte(s>>24), byte(s>>16), byte(s>>8), byte(s)
}

func TestReadAllocatesNothing(t *testing.T) {
	l := benchLog(t, LogConfig{})
	for range 2000 {
		l.AppendAsLeader(0, benchAppends(1, 100))
	}
	for _, at := range []record.Offset{1999, 1950, 3, 700} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			allocs(t, 1000, func() {
				s, err := l.Read(at, 2000, 4096, true, true)
				if err != nil || s == nil {
					t.Fatal(s, err)
				}
				s.Release()
			})
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ batches, size int }{{1, 100}, {1, 1024}, {64, 1024}, {8, 16 << 10}, {1, 1 << 20}} {
		b.Run(fmt.Sprintf("%dx%d", c.batches, c.size), func(b *testing.B) {
			l := benchLog(b, LogConfig{SegmentBytes: 256 << 20})
			as := benchAppends(c.batches, c.size)
			b.SetBytes(int64(c.batches * c.size))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				l.AppendAsLeader(0, as)
			}
			b.StopTimer()
			if as[0].Err != nil {
				b.Fatal(as[0].Err)
			}
		})
	}
}

func benchRead(b *testing.B, pick func(i int, end record.Offset) record.Offset) {
	l := benchLog(b, LogConfig{})
	as := benchAppends(64, 1024)
	for range 1000 {
		l.AppendAsLeader(0, as)
	}
	end := l.EndOffset()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		s, err := l.Read(pick(i, end), end, 64<<10, true, true)
		if err != nil {
			b.Fatal(err)
		}
		s.Release()
	}
}

func BenchmarkReadTail(b *testing.B) {
	benchRead(b, func(i int, end record.Offset) record.Offset { return end - 1 - record.Offset(i%64) })
}

func BenchmarkReadLookup(b *testing.B) {
	benchRead(b, func(i int, end record.Offset) record.Offset { return record.Offset(i*7919) % (end - 200) })
}
