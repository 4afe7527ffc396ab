package storage

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// pool runs each job in a goroutine of its own and waits for all at the end.
type pool struct{ wg sync.WaitGroup }

func (p *pool) Submit(job func()) { p.wg.Go(job) }

// TestReadersBesideAppends reads at the tail and elsewhere, on real files,
// while one goroutine appends, another deletes records and closes idle files.
func TestReadersBesideAppends(t *testing.T) {
	e := newEnv(t, vfs.OS(), LogConfig{SegmentBytes: 20000, IndexIntervalBytes: 300, FileDeleteDelayMs: 1})
	e.dir = t.TempDir()
	p := new(pool)
	e.exec = p
	e.mcfg.IdleCloseMs = 1
	l := e.open()
	calls := 2000
	if testing.Short() {
		calls = 500
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for r := range 3 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if err := readBeside(l, i, r); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for i := 0; !stop.Load(); i++ {
			e.clock.advance(5)
			e.m.Tick()
			if i%10 == 0 {
				if err := l.SetStartOffset(l.StartOffset() + (l.EndOffset()-l.StartOffset())/4); err != nil {
					t.Error(err)
				}
				if err := e.m.Checkpoint(); err != nil {
					t.Error(err)
				}
				if err := l.Flush(l.EndOffset()); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for i := range calls {
		as := make([]*Append, 1+i%7)
		for k := range as {
			as[k] = &Append{Batch: batch(record.Timestamp(i), 1+k%3, 50+i%100, fmt.Sprint(i)), FromClient: true}
		}
		l.AppendAsLeader(0, as)
		for _, a := range as {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	start, end := l.StartOffset(), l.EndOffset()
	want := readAll(t, l, start, 1<<20)
	p.wg.Wait()
	e.stop()
	p.wg.Wait()
	if l = e.open(); l.StartOffset() != start || l.EndOffset() != end {
		t.Fatalf("[%d, %d) after a restart, want [%d, %d)", l.StartOffset(), l.EndOffset(), start, end)
	}
	if got := readAll(t, l, start, 1<<20); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatal("other records after a restart")
	}
	e.stop()
	p.wg.Wait()
}

// readBeside reads one span at or behind the tail and checks its batches.
func readBeside(l *Log, i, r int) error {
	end := l.EndOffset()
	at := end - record.Offset(i%40) - 1
	if r == 2 {
		at = l.StartOffset() + (end-l.StartOffset())*record.Offset(i%97)/97
	}
	if at < 0 {
		return nil
	}
	limit := end - record.Offset(i%3)
	s, err := l.Read(at, limit, int32(100+i%5000), i%2 == 0, true)
	if err == vfs.ErrWouldBlock {
		s, err = l.Read(at, limit, int32(100+i%5000), i%2 == 0, false)
	}
	if errors.Is(err, kerr.OffsetOutOfRange) && at < l.StartOffset() {
		return nil
	}
	if err != nil || s == nil {
		return err
	}
	defer s.Release()
	p := make([]byte, s.Length())
	if _, err := s.ReadAt(p, 0); err != nil {
		return err
	}
	next := s.BaseOffset()
	for first := true; ; first = false {
		b, rest, err := record.Split(p)
		if errors.Is(err, record.ErrShort) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read at %d: %w", at, err)
		}
		if b.BaseOffset() != next || !b.VerifyCRC() || b.NextOffset() > limit || first && b.LastOffset() < at {
			return fmt.Errorf("read at %d below %d: %v where %d is due", at, limit, b, next)
		}
		next, p = b.NextOffset(), rest
	}
}
