package storage

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/posthouse/posthouse/storage/record"
)

// loadState is what the checkpoints of a log directory say of one log.
type loadState struct {
	clean         bool // the last stop was in order
	trusted       bool // and was ours: the recovery point is the end
	recoveryPoint record.Offset
	logStart      record.Offset
	highWatermark record.Offset
}

// load brings a log up from its directory. After a clean stop nothing is read
// but the small files beside the segments. Otherwise everything from the
// recovery point on is checked, batch by batch, and cut at the first that is
// not whole; see recovery.
func (l *Log) load(st loadState) error {
	files, err := readLogFiles(l.fs, l.dir)
	if err != nil {
		return err
	}
	if err := files.removeLeftovers(l.fs, l.dir); err != nil {
		return err
	}
	if err := l.dropBelowStart(files, st.logStart); err != nil {
		return err
	}
	epochsErr := l.epochs.load()
	if st.clean && files.prepared >= 0 {
		st.clean = false // whoever set the mark did not complete this log's last roll
	}
	if st.clean && epochsErr == nil {
		err = l.loadClean(files, st)
	} else {
		if epochsErr != nil {
			l.logger.Warn("rebuilding the leader epochs from the batches", "err", epochsErr)
			st.recoveryPoint = 0
		}
		r := recovery{log: l, files: files, st: st}
		err = r.run()
	}
	if err != nil {
		return err
	}
	return l.loaded(files, st)
}

// dropBelowStart removes the segments that lie wholly below the log's start.
// Their removal may have been under way, so there may be holes among them.
func (l *Log) dropBelowStart(files *logFiles, start record.Offset) error {
	for len(files.segments) > 1 && files.segments[1].base <= start {
		base := files.segments[0].base
		if err := l.removeSegmentFiles(openSegment(l, files.segments[0])); err != nil {
			return err
		}
		files.dropSnapshot(base)
		files.segments = files.segments[1:]
	}
	return nil
}

// loadClean opens the segments as they are.
func (l *Log) loadClean(files *logFiles, st loadState) error {
	list, err := l.openSegments(files)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return l.startEmpty(max(st.logStart, 0))
	}
	active := list[len(list)-1]
	for _, s := range list[:len(list)-1] {
		s.flushed.Store(true)
	}
	end := st.recoveryPoint
	empty := active.size.Load() == 0
	if !st.trusted || end < active.base || empty != (end == active.base) {
		if end, err = active.findEnd(); err != nil {
			return err
		}
	}
	l.segs.Store(&list)
	l.end.Store(int64(end))
	l.recoveryPoint.Store(int64(end))
	return l.loadProducers(files, end, end)
}

// openSegments opens what the directory holds. A segment without usable
// indexes gets new ones.
func (l *Log) openSegments(files *logFiles) ([]*segment, error) {
	list := make([]*segment, 0, len(files.segments))
	for _, f := range files.segments {
		s := openSegment(l, f)
		if f.txnIndexSize > 0 {
			if err := s.txns.load(); err != nil {
				return nil, err
			}
		}
		if !f.indexesUsable() {
			l.logger.Warn("rebuilding the indexes of a segment", "file", s.file.name())
			if err := s.rebuildIndexes(l.Config().IndexIntervalBytes); err != nil {
				return nil, err
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// indexesUsable says whether the index files look whole from outside.
func (f *segmentFiles) indexesUsable() bool {
	return f.indexSize >= 0 && f.timeIndexSize >= 0 &&
		f.indexSize%offsetEntryBytes == 0 && f.timeIndexSize%timeEntryBytes == 0
}

// rebuildIndexes makes new indexes from the headers of a segment's batches.
func (s *segment) rebuildIndexes(interval int32) error {
	s.resetIndexes()
	h, err := s.file.acquire(false)
	if err != nil {
		return err
	}
	defer h.release()
	err = scanHeaders(h.file, 0, s.size.Load(), false, func(p Position, hd *record.Header) bool {
		s.note(p, hd.LastOffset(), hd.MaxTimestamp, hd.SizeBytes, interval)
		return true
	})
	if err != nil {
		return err
	}
	s.finishTimes()
	return s.sealIndexes()
}

// resetIndexes empties the offset and time index, in memory.
func (s *segment) resetIndexes() {
	s.index = newOffsetIndex(s.index.table.fs, s.index.table.path, s.base)
	s.times = newTimeIndex(s.times.table.fs, s.times.table.path, s.base)
	s.maxTimestamp.Store(int64(record.NoTimestamp))
	s.maxTimestampOffset.Store(int64(s.base))
	s.bytesSinceIndex = 0
}

// findEnd reads where a segment's batches end.
func (s *segment) findEnd() (record.Offset, error) {
	end := s.base
	if s.size.Load() == 0 {
		return end, nil
	}
	h, err := s.file.acquire(false)
	if err != nil {
		return end, err
	}
	defer h.release()
	var pos Position
	if err := s.index.table.each(max(0, s.index.table.count()-1), func(_ int, e []byte) bool {
		pos = offsetEntryPosition(e)
		return true
	}); err != nil {
		return end, err
	}
	size := s.size.Load()
	at := pos
	err = scanHeaders(h.file, int64(pos), size, false, func(p Position, hd *record.Header) bool {
		end, at = hd.NextOffset(), p+Position(hd.SizeBytes)
		return true
	})
	if err == nil && int64(at) != size {
		err = corrupt(s.file.name(), int64(at), "%d bytes behind the last batch after a clean stop", size-int64(at))
	}
	return end, err
}

// startEmpty gives the log one empty segment.
func (l *Log) startEmpty(base record.Offset) error {
	s := newSegment(l, base, join(l.dir, segmentName(base, logSuffix)))
	f, err := l.fs.Create(s.file.path)
	if err != nil {
		return err
	}
	s.file.adopt(f)
	if err := s.writeIndexes(false); err != nil {
		return err
	}
	l.segs.Store(&[]*segment{s})
	l.start.Store(int64(base))
	l.end.Store(int64(base))
	l.recoveryPoint.Store(int64(base))
	l.producers.reset()
	l.dirty = true
	return nil
}

// loadProducers restores the producer state at upTo: the latest snapshot that
// can be read at or below limit, then the batches after it.
func (l *Log) loadProducers(files *logFiles, limit, upTo record.Offset) error {
	l.producers.reset()
	from := l.list()[0].base
	for {
		at, ok := files.latestSnapshot(limit)
		if !ok {
			break
		}
		name := join(l.dir, segmentName(at, snapshotSuffix))
		data, err := l.fs.ReadFile(name)
		if err == nil {
			err = l.producers.loadSnapshot(name, data)
		}
		if err == nil {
			from = at
			break
		}
		var damage *CorruptionError
		if !errors.As(err, &damage) {
			return err
		}
		l.logger.Warn("removing a producer snapshot that cannot be read", "err", err)
		if err := l.removeFile(segmentName(at, snapshotSuffix)); err != nil {
			return err
		}
		files.dropSnapshot(at)
	}
	return l.replayProducers(from, upTo)
}

// replayProducers takes the batches of [from, to) into the producer state, by
// their headers.
func (l *Log) replayProducers(from, to record.Offset) error {
	list := l.list()
	for i := max(0, find(list, from)); i < len(list) && list[i].base < to && from < to; i++ {
		s := list[i]
		if s.size.Load() == 0 {
			continue
		}
		pos, err := s.index.lookup(from, false)
		if err != nil {
			return err
		}
		h, err := s.file.acquire(false)
		if err != nil {
			return err
		}
		var inner error
		err = scanHeaders(h.file, int64(pos), s.size.Load(), false, func(p Position, hd *record.Header) bool {
			if hd.BaseOffset >= to {
				return false
			}
			if hd.BaseOffset >= from && hd.ProducerID > record.NoProducerID {
				inner = l.replay(h, p, hd)
			}
			return inner == nil
		})
		h.release()
		if err == nil {
			err = inner
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replay takes one stored batch into the producer state. Its transaction, if
// it ends one, is in the transaction index already.
func (l *Log) replay(h *handle, pos Position, hd *record.Header) error {
	var m record.EndTxnMarker
	isMarker := false
	if hd.Attributes.Control() {
		b := make(record.Batch, hd.SizeBytes)
		if _, err := h.file.ReadAt(b, int64(pos)); err != nil {
			return err
		}
		var err error
		if m, isMarker, err = b.EndTxnMarker(); err != nil {
			return &CorruptionError{File: h.file.Name(), Position: pos, Err: err}
		}
	}
	l.producers.apply(hd, m, isMarker)
	return nil
}

// loaded completes a load, whichever way it went: start offset, epochs,
// snapshots that belong to nothing.
func (l *Log) loaded(files *logFiles, st loadState) error {
	end := l.EndOffset()
	if st.logStart > end {
		l.logger.Warn("the log ends before its start: beginning anew there", "end", end, "start", st.logStart)
		for _, s := range l.list() {
			if err := l.removeSegmentFiles(s); err != nil {
				return err
			}
		}
		l.epochs.truncateSuffix(0)
		if err := l.startEmpty(st.logStart); err != nil {
			return err
		}
		end = st.logStart
	}
	first := l.list()[0].base
	l.start.Store(int64(max(st.logStart, first)))
	l.checkOrder()
	hw := min(max(st.highWatermark, l.StartOffset()), end)
	l.highWatermark.Store(int64(hw))
	l.checkpointHW = hw
	l.producers.txns.replicated(hw)
	l.epochs.truncateSuffix(end)
	l.epochs.truncatePrefix(l.StartOffset())
	if err := l.epochs.write(); err != nil {
		// A full disk, likely: what is there can be read all the same, and the
		// next change is written with this one.
		l.logger.Warn("writing leader epochs failed", "dir", l.dir, "err", err)
	}
	return l.removeStraySnapshots(files, end)
}

// removeStraySnapshots removes those that no start will want: past the end,
// and those that earlier clean stops left between the segments' bases, but for
// the latest.
func (l *Log) removeStraySnapshots(files *logFiles, end record.Offset) error {
	latest, _ := files.latestSnapshot(end)
	list := l.list()
	for _, at := range files.snapshots {
		if i := find(list, at); at == latest || i >= 0 && list[i].base == at && at <= end {
			continue
		}
		if err := l.removeFile(segmentName(at, snapshotSuffix)); err != nil {
			return err
		}
	}
	return nil
}

// removeFile unlinks a file of the log's directory, if it is there.
func (l *Log) removeFile(name string) error {
	err := l.fs.Remove(join(l.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeSegmentFiles unlinks a segment that is not in use.
func (l *Log) removeSegmentFiles(s *segment) error {
	s.retire()
	for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix, snapshotSuffix} {
		if err := l.removeFile(segmentName(s.base, suffix)); err != nil {
			return err
		}
	}
	return nil
}

// errOffline wraps damage that recovery must not cut away.
func errOffline(err error) error {
	return fmt.Errorf("damage below the recovery point, nothing was cut: %w", err)
}
