package storage

import "sync/atomic"

const (
	// writebackStep is how much is appended between two looks, writebackMax the
	// most that one of them begins to write. Behind by more, a log catches up.
	writebackStep = 4 << 20
	writebackMax  = 4 * writebackStep
	// writebackLook is the distance of looks while there is nothing to do.
	writebackLook = 16 << 20
)

// writeback starts the writing of dirty pages in steps of a few MiB behind the
// append position, so that they never pile up to a burst. It makes nothing
// durable and waits for nothing.
//
// It begins when ManagerConfig.DirtyPressing says so: below the kernel's
// threshold the kernel writes what is some seconds old anyway, at no less cost
// (0.08 of 0.37 s/GiB that an append costs), and what is deleted before, never.
type writeback struct {
	log    *Log
	busy   atomic.Bool
	active atomic.Pointer[segment]
	look   atomic.Int64 // size of the active segment at which to look again
	job    func()
}

func (w *writeback) init(l *Log) {
	w.log = l
	w.job = w.run
}

// advance has a worker look whether a step is due once enough was appended.
// Appender only.
func (w *writeback) advance(s *segment) {
	size := s.size.Load()
	if size-s.alloc.dirty.Load() < writebackStep || w.busy.Load() || w.active.Load() == s && size < w.look.Load() {
		return
	}
	w.busy.Store(true)
	w.active.Store(s)
	w.log.exec.Submit(w.job)
}

func (w *writeback) run() {
	defer w.busy.Store(false)
	s := w.active.Load()
	if due := w.log.manager.cfg.DirtyPressing; due != nil && !due() {
		w.look.Store(s.size.Load() + writebackLook)
		return
	}
	from := s.alloc.dirty.Load()
	to := min(s.size.Load()&^(writebackStep-1), from+writebackMax)
	w.look.Store(s.size.Load() + writebackStep)
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
