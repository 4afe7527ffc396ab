package storage

import (
	"errors"
	"fmt"

	"github.com/posthouse/posthouse/storage/record"
)

// Flush makes everything below an offset durable and raises the recovery point
// at least to it. Worker context. An error takes the log offline: what a
// failed sync has lost, no second one brings back.
func (l *Log) Flush(upTo record.Offset) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	if upTo <= l.RecoveryPoint() {
		return nil
	}
	end := l.EndOffset() // what is below is in the page cache now
	list := l.list()
	err := l.onFiles(func() error {
		named := false
		for _, s := range list {
			if s.flushed.Load() || s.size.Load() == 0 {
				continue
			}
			// The recovery point must not pass a segment that a power cut could
			// bring back under its provisional name, or without its snapshot.
			if err := l.completeNew(s); err != nil {
				return err
			}
			h, err := s.file.acquire(false)
			if err != nil {
				return err
			}
			err = h.file.Datasync()
			h.release()
			if err != nil {
				return err
			}
			named = true
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
		l.fail(err)
		return err
	}
	l.raiseRecoveryPoint(end)
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
	if l.warm {
		active.finishTimes()
	}
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
	if !active.file.used.Load() && active.ring.Load() != nil {
		l.cool()
	}
	active.file.sweep()
}

// cool gives back the memory of an active segment that is not in use. Its
// indexes go to their files; the next append brings them back. The appender is
// kept out only while the memory changes hands.
func (l *Log) cool() {
	s := l.active()
	err := l.onFiles(func() error { return s.writeIndexes(false) })
	if err != nil {
		l.logger.Debug("writing idle indexes failed", "dir", l.dir, "err", err)
		return
	}
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if s != l.active() || s.provisional.Load() || !s.index.table.handOver() || !s.times.table.handOver() {
		return
	}
	s.ring.Store(nil)
	l.warm = false
}
