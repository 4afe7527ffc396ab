package storage

import (
	"errors"
	"fmt"

	"github.com/posthouse/posthouse/storage/record"
)

// Flush makes everything below an offset durable and raises the recovery point
// at least to it. Worker context. An error takes the log offline, since what a
// failed sync has lost no second one brings back; but for a full disk, which
// has lost nothing as long as no sync says so.
func (l *Log) Flush(upTo record.Offset) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	if upTo <= l.RecoveryPoint() {
		return nil
	}
	defer l.manager.timeFlush()()
	end := l.EndOffset() // what is below is in the page cache now
	list := l.list()
	err := l.onFiles(func() error {
		named := false
		for i, s := range list {
			if s.flushed.Load() || s.size.Load() == 0 {
				continue
			}
			named = true
			// The recovery point must not pass a segment that a power cut could
			// bring back under its provisional name, or without its snapshot.
			if err := l.completeNew(s); err != nil {
				return err
			}
			// Nor what a start takes as it is without its indexes.
			if i < len(list)-1 {
				if err := l.seal(s); err != nil {
					return err
				}
				continue
			}
			if err := s.syncBatches(); err != nil {
				return err
			}
			if err := s.writeIndexes(true); err != nil {
				return err
			}
		}
		if named {
			if err := l.fs.SyncDir(l.dir); err != nil {
				return err
			}
		}
		// Recovery takes the epochs below the recovery point from the file.
		return l.epochs.write()
	})
	if errors.Is(err, errClosed) {
		return err
	}
	if err != nil {
		err = fmt.Errorf("flushing up to offset %d: %w", upTo, err)
		if !outOfSpace(err) {
			l.fail(err)
		}
		return err
	}
	l.raiseRecoveryPoint(end)
	return nil
}

// syncBatches makes the batches of a segment that is in use durable.
func (s *segment) syncBatches() error {
	h, err := s.file.acquire(false)
	if err != nil {
		return err
	}
	defer h.release()
	if err := h.file.Datasync(); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}

// unflushedBytes estimates what a recovery would have to check.
func (l *Log) unflushedBytes() int64 {
	if l.RecoveryPoint() >= l.EndOffset() {
		return 0
	}
	n := int64(0)
	for _, s := range l.list() {
		if !s.flushed.Load() {
			n += s.size.Load()
		}
	}
	return n
}

// close completes what is under way, makes the log durable, trims its files
// and writes the producer snapshot at its end, so that the next start reads
// nothing. The log takes no more appends; spans stay good.
func (l *Log) close() error {
	l.mu.Lock()
	l.closed = true
	dirty := l.dirty
	active := l.active()
	active.finishTimes()
	snapshot := l.producers.appendSnapshot(nil)
	end := l.EndOffset()
	l.mu.Unlock()

	l.files.Lock()
	if l.gone {
		l.files.Unlock()
		return nil
	}
	l.gone = true
	var err error
	if dirty && l.Err() == nil {
		err = l.closeFiles(active, end, snapshot)
	}
	l.files.Unlock()
	for _, s := range l.list() {
		s.retire()
	}
	return err
}

func (l *Log) closeFiles(active *segment, end record.Offset, snapshot []byte) error {
	if err := l.dropPrepared(); err != nil {
		return err
	}
	for _, s := range l.list() {
		if err := l.completeNew(s); err != nil {
			return err
		}
		if s != active && s.flushed.Load() {
			continue
		}
		if err := l.seal(s); err != nil {
			return err
		}
	}
	if err := l.epochs.write(); err != nil {
		return err
	}
	if err := l.fs.WriteFileAtomic(join(l.dir, segmentName(end, snapshotSuffix)), snapshot); err != nil {
		return err
	}
	l.raiseRecoveryPoint(end)
	return nil
}

// remove makes the log unusable and moves its directory aside for deletion.
// Running jobs are waited for; those still queued find the log gone.
func (l *Log) remove(to string) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.files.Lock()
	defer l.files.Unlock()
	if l.gone {
		return errClosed
	}
	if err := l.fs.Rename(l.dir, to); err != nil {
		return err
	}
	l.gone = true
	if p := l.prepared.Swap(nil); p != nil {
		// The file is on its way out; there is nothing to save in it.
		_ = p.file.Close()
	}
	for _, s := range l.list() {
		s.retire()
	}
	return nil
}

// expireProducers forgets the producers that were idle for so long, unless an
// append is under way. Worker context.
func (l *Log) expireProducers(now record.Timestamp, idleMs int64) {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if n := l.producers.expire(now, idleMs); n > 0 {
		l.logger.Debug("forgot idle producers", "count", n)
	}
}

// sweep closes the files and drops the maps that nobody used since the last
// sweep. Worker context.
func (l *Log) sweep() {
	list := l.list()
	for _, s := range list[:len(list)-1] {
		if s.flushed.Load() {
			s.sweep()
		}
	}
	active := list[len(list)-1]
	if !active.file.used.Load() {
		l.dropIdlePrepared()
		if active.index.table.inMemory() {
			l.cool()
		}
	}
	active.sweep()
}

// cool gives back the memory of an active segment that is not in use. Its
// indexes go to their files; the next append brings them back. The appender is
// kept out only while the memory changes hands.
func (l *Log) cool() {
	if l.Err() != nil || !l.mu.TryLock() {
		return
	}
	s := l.active()
	s.finishTimes()
	l.mu.Unlock()
	err := l.onFiles(func() error { return s.writeIndexes(false) })
	if err != nil {
		l.logger.Debug("writing idle indexes failed", "dir", l.dir, "err", err)
		return
	}
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if l.closed || s != l.active() || s.provisional.Load() || !s.handOver() {
		return
	}
	s.ring.Store(nil)
	l.warm.Store(false)
}
