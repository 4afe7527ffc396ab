package storage

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/posthouse/posthouse/storage/record"
)

// SetStartOffset moves the start of the log up (DeleteRecords, KIP-107): it is
// made durable, then whole segments below it are removed. A start below the
// present one changes nothing; one past the end is kerr.OffsetOutOfRange. A log
// that is deleted meanwhile is an unknown partition. Worker context.
func (l *Log) SetStartOffset(o record.Offset) error {
	err := l.setStartOffset(o)
	if errors.Is(err, errClosed) {
		return record.Errorf(kerr.UnknownTopicOrPartition, "%v: %v", l.tp, err)
	}
	return err
}

func (l *Log) setStartOffset(o record.Offset) error {
	if o > l.EndOffset() {
		return kerr.OffsetOutOfRange
	}
	for {
		now := l.start.Load()
		if int64(o) <= now {
			return nil
		}
		if l.start.CompareAndSwap(now, int64(o)) {
			break
		}
	}
	l.mu.Lock()
	l.dirty = true
	l.mu.Unlock()
	if err := l.manager.checkpointStart(l); err != nil {
		return fmt.Errorf("checkpointing the start of %v: %w", l.tp, err)
	}
	l.epochs.truncatePrefix(o)
	if err := l.onFiles(l.epochs.write); err != nil {
		return err
	}
	return l.truncatePrefix(o)
}

// truncatePrefix removes the segments that end at or below an offset, never
// the active one. Readers that are under way keep their files.
func (l *Log) truncatePrefix(o record.Offset) error {
	l.mu.Lock()
	list := l.list()
	n := 0
	for n+1 < len(list) && list[n+1].base <= o {
		n++
	}
	removed := list[:n]
	if n > 0 {
		rest := append([]*segment(nil), list[n:]...)
		l.segs.Store(&rest)
	}
	l.mu.Unlock()
	if n == 0 {
		return nil
	}
	l.advanceRecoveryPoint()
	return l.onFilesAlone(func() error {
		// Recovery must find what stays by its name, and the producer state of
		// what goes in its snapshot.
		if err := l.completeNew(list[n]); err != nil {
			return err
		}
		if err := l.fs.SyncDir(l.dir); err != nil {
			return err
		}
		return l.setAside(removed)
	})
}

// setAside renames the files of segments that are out of the list and has them
// unlinked after file.delete.delay.ms. The caller holds files exclusively.
func (l *Log) setAside(removed []*segment) error {
	var names []string
	for _, s := range removed {
		if err := l.nameSegment(s); err != nil {
			return err
		}
		s.retire()
		for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix, snapshotSuffix} {
			name := join(l.dir, segmentName(s.base, suffix))
			if ok, err := l.fs.Exists(name); err != nil {
				return err
			} else if !ok {
				continue
			}
			if err := l.fs.Rename(name, name+deletedSuffix); err != nil {
				return err
			}
			names = append(names, name+deletedSuffix)
		}
	}
	l.manager.removeLater(l.clock.Now()+record.Timestamp(l.Config().FileDeleteDelayMs), names)
	return nil
}

// TruncateSuffix removes everything at or past an offset: a follower's records
// that its leader does not have (KIP-101). The batch that holds the offset goes
// whole. Readers under way may see bytes below the old end change, so their
// owners must have dropped spans that cross the cut. Worker context.
func (l *Log) TruncateSuffix(to record.Offset) error {
	if to >= l.EndOffset() {
		return nil
	}
	if to < l.StartOffset() {
		return fmt.Errorf("%v: truncating to offset %d below the log's start %d", l.tp, to, l.StartOffset())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil {
		return err
	}
	err := l.onFilesAlone(func() error { return l.truncateSuffix(to) })
	if err != nil {
		l.fail(fmt.Errorf("truncating to offset %d: %w", to, err))
	}
	return err
}

// truncateSuffix is TruncateSuffix under both locks. The segment that is cut is
// replaced by another object with the same file, so that lookups under way see
// the old indexes or the new ones.
func (l *Log) truncateSuffix(to record.Offset) error {
	list := l.list()
	i := max(0, find(list, to))
	for _, s := range list[:i+1] {
		if err := l.writeSnapshot(s); err != nil {
			return err
		}
	}
	old := list[i]
	h, err := old.file.acquire(false)
	if err != nil {
		return err
	}
	defer h.release()
	at, ok, err := old.locate(h, old.size.Load(), to, false)
	if err != nil {
		return err
	}
	size := old.size.Load()
	if ok {
		size = int64(at.pos)
	}
	s, err := old.truncated(l, size, to)
	if err != nil {
		return err
	}
	// First the recovery point, or a crash would take what is appended next for
	// durable; then the later segments from the last one down, so that a crash
	// leaves no hole.
	l.lowerRecoveryPoint(to)
	if err := l.manager.checkpointRecovery(l); err != nil {
		return err
	}
	kept := append(append([]*segment(nil), list[:i]...), s)
	for k := len(list) - 1; k > i; k-- {
		if err := l.setAside(list[k : k+1]); err != nil {
			return err
		}
	}
	if err := h.file.Truncate(size); err != nil {
		return err
	}
	old.alloc.mu.Lock()
	old.alloc.sealed = true // its reservations that are still queued are none of the new object's
	old.alloc.mu.Unlock()
	l.segs.Store(&kept)
	old.index.table.release()
	old.times.table.release()
	l.end.Store(int64(to))
	if hw := l.highWatermark.Load(); hw > int64(to) {
		l.highWatermark.Store(int64(to))
	}
	if err := h.file.Sync(); err != nil {
		return err
	}
	if err := s.writeIndexes(true); err != nil {
		return err
	}
	l.epochs.truncateSuffix(to)
	if err := l.epochs.write(); err != nil {
		return err
	}
	return l.reloadProducers(to)
}

// truncated is a copy of the segment cut to a size, ready for appends.
func (s *segment) truncated(l *Log, size int64, to record.Offset) (*segment, error) {
	c := newSegment(l, s.base, "")
	c.file = s.file
	c.provisional.Store(s.provisional.Load())
	n, err := s.index.entriesBelow(Position(size))
	if err != nil {
		return nil, err
	}
	m, err := s.times.entriesBelow(to)
	if err != nil {
		return nil, err
	}
	if c.index.table, err = s.index.table.copyOf(n); err != nil {
		return nil, err
	}
	if c.times.table, err = s.times.table.copyOf(m); err != nil {
		return nil, err
	}
	c.txns = s.txns
	c.txns.truncate(to)
	c.size.Store(size)
	c.maxTimestamp.Store(-1)
	h, err := s.file.acquire(false)
	if err != nil {
		return nil, err
	}
	defer h.release()
	err = scanHeaders(h.file, 0, size, false, func(_ Position, hd *record.Header) bool {
		if int64(hd.MaxTimestamp) > c.maxTimestamp.Load() {
			c.maxTimestampOffset.Store(int64(hd.LastOffset()))
			c.maxTimestamp.Store(int64(hd.MaxTimestamp))
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return c, c.warm(to)
}

// reloadProducers restores the producer state after a truncation.
func (l *Log) reloadProducers(to record.Offset) error {
	files, err := readLogFiles(l.fs, l.dir)
	if err != nil {
		return err
	}
	for _, at := range files.snapshots {
		if at > to {
			if err := l.removeFile(segmentName(at, snapshotSuffix)); err != nil {
				return err
			}
		}
	}
	return l.loadProducers(files, to, to)
}

func (l *Log) lowerRecoveryPoint(to record.Offset) {
	for {
		now := l.recoveryPoint.Load()
		if int64(to) >= now || l.recoveryPoint.CompareAndSwap(now, int64(to)) {
			return
		}
	}
}
