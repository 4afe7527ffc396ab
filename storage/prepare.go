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
	reserveMin   = 1 << 20
	reserveMax   = 64 << 20
	reserveFast  = 1000  // ms
	reserveSlow  = 10000 // ms
	writebackMin = 4 << 20
)

// reservation keeps blocks reserved ahead of the active segment's end, so that
// an append allocates nothing and its tail latency is that of a copy into the
// page cache. It begins with a log's first write: idle partitions reserve
// nothing. The chunk follows the log's rate between 1 and 64 MiB. The file's
// size stays that of its content; what a kill leaves reserved, recovery trims.
//
// Tried and not kept: filling 256 KiB with zeros ahead of writes up to 64 KiB.
// A broker's CPU per GiB, 8 partitions, 6 interleaved pairs with batches of 16
// KiB: −12, −16, −3, +1, −13, +11 %; 4 pairs of 2 KiB: −15, −11, −9, −23 %; one
// partition, 16 KiB, 3 pairs: +10, +8, −13 %. On a busy machine; not clear.
type reservation struct {
	log    *Log
	chunk  atomic.Int64
	last   atomic.Int64 // when the last chunk was reserved, ms
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

// writeback starts the writing of dirty pages in steps of a few MiB behind the
// append position, so that they never pile up to a burst. It makes nothing
// durable and waits for nothing.
type writeback struct {
	log    *Log
	busy   atomic.Bool
	active atomic.Pointer[segment]
	job    func()
}

func (w *writeback) init(l *Log) {
	w.log = l
	w.job = w.run
}

// advance has a worker start a step once it is full. Appender only.
func (w *writeback) advance(s *segment) {
	if s.size.Load()-s.alloc.dirty.Load() < writebackMin || w.busy.Load() {
		return
	}
	w.busy.Store(true)
	w.active.Store(s)
	w.log.exec.Submit(w.job)
}

func (w *writeback) run() {
	defer w.busy.Store(false)
	s := w.active.Load()
	from, to := s.alloc.dirty.Load(), s.size.Load()&^(writebackMin-1)
	if to <= from {
		return
	}
	err := w.log.onFiles(func() error {
		h, err := s.file.acquire(false)
		if err != nil {
			return err
		}
		defer h.release()
		return h.file.SyncRange(from, to-from)
	})
	if err != nil {
		w.log.logger.Debug("starting writeback failed", "dir", w.log.dir, "err", err)
		return
	}
	s.alloc.dirty.Store(to)
}
