package storage

import (
	"sync/atomic"

	"github.com/posthouse/posthouse/storage/vfs"
)

// The next segment is made before it is needed. When less than a quarter of the
// active one, or 4 MiB, is left, a worker creates next.log.prepared and
// reserves its first blocks. The roll takes it over as it is, in memory alone,
// and appends go on into it under that name; a worker then renames it to its
// base offset. There is one prepared file at a time: no other is made before
// the rename is done.

// preparedFile is the next segment's file, open and empty.
type preparedFile struct {
	file     vfs.File
	reserved int64
}

// prepare asks a worker for the next segment, once.
func (l *Log) prepare() {
	if l.renaming.Load() || !l.preparing.CompareAndSwap(false, true) {
		return
	}
	l.exec.Submit(l.makePrepared)
}

// prepareNow makes the next segment in the caller's goroutine, which is a
// worker's, unless one is there or on its way.
func (l *Log) prepareNow() {
	if l.prepared.Load() == nil && !l.renaming.Load() && l.preparing.CompareAndSwap(false, true) {
		l.makePrepared()
	}
}

func (l *Log) makePrepared() {
	defer l.preparing.Store(false)
	err := l.onFiles(func() error {
		// Again, now that nobody else prepares: the name must be free. A roll
		// says renaming before it takes the file, hence this order.
		if l.prepared.Load() != nil || l.renaming.Load() {
			return nil
		}
		f, err := l.fs.Create(join(l.dir, preparedName))
		if err != nil {
			return err
		}
		p := &preparedFile{file: f}
		if n := min(l.ahead.chunk.Load(), int64(l.Config().SegmentBytes)); f.Preallocate(0, n) == nil {
			p.reserved = n
		}
		l.prepared.Store(p)
		return nil
	})
	if err != nil && err != errClosed {
		// The roll tries again, and reports when it can wait no longer.
		l.logger.Warn("preparing the next segment failed", "dir", l.dir, "err", err)
	}
}

// dropIdlePrepared gives back what a log that is not in use has prepared: a
// descriptor and up to a chunk of blocks. Worker context.
func (l *Log) dropIdlePrepared() {
	if l.prepared.Load() == nil || !l.preparing.CompareAndSwap(false, true) {
		return
	}
	defer l.preparing.Store(false)
	if !l.mu.TryLock() {
		return
	}
	p := l.prepared.Swap(nil) // under mu: a roll sees it or does not
	l.mu.Unlock()
	if p == nil {
		return
	}
	err := p.file.Close()
	if err == nil {
		err = l.onFiles(func() error { return l.fs.Remove(join(l.dir, preparedName)) })
	}
	if err != nil && err != errClosed {
		l.logger.Warn("removing a prepared segment failed", "dir", l.dir, "err", err)
	}
}

// dropPrepared removes a prepared file that was never used. The caller holds
// files exclusively.
func (l *Log) dropPrepared() error {
	p := l.prepared.Swap(nil)
	if p == nil {
		return nil
	}
	if err := p.file.Close(); err != nil {
		return err
	}
	return l.fs.Remove(join(l.dir, preparedName))
}

// Sizes of what is reserved ahead at a time, and how quickly a chunk must have
// been used up for the next to be twice as large, or slowly to be half.
const (
	reserveMin  = 1 << 20
	reserveMax  = 64 << 20
	reserveFast = 1000  // ms
	reserveSlow = 10000 // ms
)

// reservation keeps blocks reserved ahead of the active segment's end, so that
// an append allocates nothing and its tail latency is that of a copy into the
// page cache. It begins with a log's first write: idle partitions reserve
// nothing. The chunk follows the log's rate between 1 and 64 MiB. The file's
// size stays that of its content and of zeros behind it; what a kill leaves of
// either, recovery trims.
type reservation struct {
	log    *Log
	chunk  atomic.Int64
	last   atomic.Int64 // when the last chunk was reserved, ms
	stepAt int64        // when the last step of zeros was due, ms; appender only
	busy   atomic.Bool
	active atomic.Pointer[segment]
	job    func()
}

func (r *reservation) init(l *Log) {
	r.log = l
	r.chunk.Store(reserveMin)
	r.job = r.run
}

// extend has a worker reserve more once half a chunk is left. Appender only.
func (r *reservation) extend(s *segment) {
	end := s.alloc.end.Load()
	if end-s.size.Load() >= r.chunk.Load()/2 || end >= int64(r.log.Config().SegmentBytes) || r.busy.Load() {
		return
	}
	r.busy.Store(true)
	r.active.Store(s)
	r.log.exec.Submit(r.job)
}

// zeroStep is a step of zeros; its pages are the kernel's one page of zeros.
var zeroStep [zeroStepBytes]byte

const (
	zeroStepBytes = 128 << 10
	// zeroFast is how quickly a step must have been written for the next one to
	// be filled: slower logs would gain nothing, and thousands of them would
	// fill the page cache with zeros.
	zeroFast = 1000 // ms
)

// zeros says how many zeros go behind an append of n bytes at a position, in
// the same write: up to the end of the step, if the append is the first in it.
//
// The page cache is managed in folios, whose size is that of the write that
// made them as far as its alignment goes: a step is one of 32 pages. Without
// them, each append makes a few folios of a page or two, which cost more than
// the copying, when they are written and again each time they are read. Large
// appends make large folios by themselves. The zeros begin and end on the
// step's alignment: zeros of any other make small folios and win nothing.
//
// Of the limit program's throughput and CPU, without → with, 4 interleaved
// rounds: 16 KiB batches on 8 connections 0.72 → 0.87 and 1.53 → 1.27, reads of
// them in 1 MiB fetches 0.84 → 1.00 and 1.39 → 1.21. The kernel's part of an
// append (C, preallocated file, CPU s/GiB): 2 KiB at a time 1.01 → 0.63, 16 KiB
// 0.64 → 0.27, 80 KiB 0.28 → 0.23. Steps of 256 KiB are no better, and cost 15
// % more at 2 KiB and below, since ext4 looks at all blocks of a folio for each
// write into it.
func (r *reservation) zeros(s *segment, at, n int64) int64 {
	end := at + n
	if end <= s.alloc.step {
		return 0
	}
	step := (end + zeroStepBytes - 1) &^ (zeroStepBytes - 1)
	s.alloc.step = step
	now := int64(r.log.clock.Now())
	waited := now - r.stepAt
	r.stepAt = now
	if n >= zeroStepBytes || waited > zeroFast || step > int64(r.log.Config().SegmentBytes) {
		return 0
	}
	return step - end
}

func (r *reservation) run() {
	defer r.busy.Store(false)
	s := r.active.Load()
	now := int64(r.log.clock.Now())
	chunk := r.chunk.Load()
	switch waited := now - r.last.Load(); {
	case waited < reserveFast:
		chunk = min(chunk*2, reserveMax)
	case waited > reserveSlow:
		chunk = max(chunk/2, reserveMin)
	}
	r.chunk.Store(chunk)
	r.last.Store(now)
	from := max(s.alloc.end.Load(), s.size.Load())
	to := min(s.size.Load()+2*chunk, int64(r.log.Config().SegmentBytes))
	if to <= from {
		return
	}
	err := r.log.onFiles(func() error {
		h, err := s.file.acquire(false)
		if err != nil {
			return err
		}
		defer h.release()
		s.alloc.mu.Lock()
		defer s.alloc.mu.Unlock()
		if s.alloc.sealed {
			return nil
		}
		// First, as who trims the file goes by it; and also of what then fails:
		// it is tried again for the next chunk, not for each append.
		s.alloc.end.Store(to)
		return h.file.Preallocate(from, to-from)
	})
	if err != nil {
		// Appends work without it; a full disk will say so itself.
		r.log.logger.Debug("reserving space failed", "dir", r.log.dir, "err", err)
	}
}
