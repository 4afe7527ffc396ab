package storage

import (
	"fmt"
	"slices"

	"github.com/posthouse/posthouse/storage/record"
)

// rollIfDue starts a new segment if a batch must not go into the active one.
// What waits is written first. Where the reason can wait (size, time, a full
// index) and no next segment is prepared, one is asked for and the active
// segment grows past its bound meanwhile; where it cannot (offsets or
// positions would overflow) the file is created here and now. The error is
// that of writing what waited, or of creating the file.
func (l *Log) rollIfDue(cfg *LogConfig, last record.Offset, maxTs record.Timestamp, size int) error {
	s := l.active()
	must := overflows(s, last) || s.size.Load()+l.call.bytes+int64(size) > MaxSegmentBytes
	if !must {
		if !l.shouldRoll(cfg, s, maxTs, size) {
			l.prepareEarly(cfg, s, size)
			return nil
		}
		if l.prepared.Load() == nil {
			l.prepare()
			if l.prepared.Load() == nil {
				return nil
			}
		}
	}
	next := l.call.next
	if err := l.flushCall(cfg); err != nil {
		return err
	}
	// An empty segment is not rolled: the new one would bear the same name.
	if s.size.Load() > 0 || s.base != next {
		if err := l.roll(next); err != nil {
			return err
		}
		l.producers.begin()
	}
	if overflows(l.active(), last) {
		return fmt.Errorf("%v: offset %d is too far behind the log's end %d for a segment", l.tp, last, next)
	}
	return nil
}

// shouldRoll is Kafka's LogSegment.shouldRoll, without the overflow of offsets.
func (l *Log) shouldRoll(cfg *LogConfig, s *segment, maxTs record.Timestamp, size int) bool {
	have := s.size.Load() + l.call.bytes
	if have == 0 {
		return false
	}
	if have+int64(size) > int64(cfg.SegmentBytes) || l.indexesFull(cfg, s) {
		return true
	}
	return s.waited(l, maxTs) > cfg.SegmentMs-s.jitterMs
}

// waited is how long a segment has been open on the clock of segment.ms: the
// batches' own, or the wall's where its first batch is undated.
func (s *segment) waited(l *Log, maxTs record.Timestamp) int64 {
	first := s.firstTimestamp
	if !s.firstKnown && len(l.call.headers) > 0 {
		first = l.call.headers[0].MaxTimestamp
	}
	if first >= 0 {
		return int64(maxTs - first)
	}
	return int64(l.clock.Now() - s.created)
}

func (l *Log) indexesFull(cfg *LogConfig, s *segment) bool {
	return s.index.table.count() >= int(cfg.SegmentIndexBytes/offsetEntryBytes) ||
		s.times.table.count() >= int(cfg.SegmentIndexBytes/timeEntryBytes)-1
}

// prepareEarly has the next segment made when a batch of this size leaves less
// than a quarter of the active one, so that it is there when it is due.
func (l *Log) prepareEarly(cfg *LogConfig, s *segment, size int) {
	left := int64(cfg.SegmentBytes) - (s.size.Load() + l.call.bytes + int64(size))
	if left <= max(int64(cfg.SegmentBytes)/4, prepareAhead) && l.prepared.Load() == nil {
		l.prepare()
	}
}

// prepareAhead is the least that is left of a segment when the next one is
// made, as a quarter of a small one is written before a worker gets to it.
const prepareAhead = 4 << 20

// Roll starts a new segment at the end of the log, unless the active one is
// empty. Worker context.
func (l *Log) Roll() error {
	if l.active().size.Load() > 0 {
		l.prepareNow()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil {
		return err
	}
	if l.active().size.Load() == 0 {
		return nil
	}
	l.call.reset(l.EndOffset())
	return l.roll(l.EndOffset())
}

// roll puts a new active segment in place at base, the log's end, and hands
// the old one to a worker. With a prepared file it makes no system call. The
// caller holds mu and has nothing waiting.
func (l *Log) roll(base record.Offset) error {
	old := l.active()
	s, err := l.nextSegment(base)
	if err != nil {
		l.logger.Error("rolling failed", "dir", l.dir, "base", base, "err", err)
		return storageError()
	}
	old.finishTimes()
	r := new(tailRing)
	r.push([]boundary{{base, 0}})
	s.ring.Store(r)
	snapshot := l.producers.appendSnapshot(nil)
	s.snapshot.Store(&snapshot)
	list := l.list()
	next := make([]*segment, 0, len(list)+1)
	next = append(append(next, list...), s)
	l.segs.Store(&next)
	old.ring.Store(nil)
	l.exec.Submit(func() { l.finishRoll(old, s) })
	return nil
}

// nextSegment takes the prepared file, or makes one where there is none.
func (l *Log) nextSegment(base record.Offset) (*segment, error) {
	if l.prepared.Load() != nil {
		l.renaming.Store(true) // before the file is taken: see makePrepared
		p := l.prepared.Swap(nil)
		s := newSegment(l, base, join(l.dir, preparedName))
		s.file.adopt(p.file)
		s.alloc.end.Store(p.reserved)
		s.provisional.Store(true)
		return s, nil
	}
	// Recovery looks for a prepared file behind the last segment only.
	if err := l.nameSegment(l.active()); err != nil {
		return nil, err
	}
	s := newSegment(l, base, join(l.dir, segmentName(base, logSuffix)))
	f, err := l.fs.Create(s.file.path)
	if err != nil {
		return nil, err
	}
	s.file.adopt(f)
	return s, nil
}

// finishRoll is the worker's part of a roll: it gives the new file its name,
// writes the producer snapshot at its base, trims the old file, completes its
// indexes, makes all of it durable and only then lets the recovery point pass.
// A kill at any moment leaves what recovery understands. Either segment may be
// gone by now, or have been cut and replaced; then it is left alone.
func (l *Log) finishRoll(old, s *segment) {
	err := l.onFiles(func() error {
		if slices.Contains(l.list(), s) {
			return l.completeNew(s)
		}
		return nil
	})
	if err == nil && l.Config().SegmentBytes <= prepareAhead {
		l.prepareNow() // before the sync: it may be due by then
	}
	if err == nil {
		err = l.onFiles(func() error {
			if slices.Contains(l.list(), old) {
				return l.seal(old)
			}
			return nil
		})
	}
	switch {
	case outOfSpace(err):
		// Nothing is lost by waiting: the active segment goes on meanwhile.
		l.logger.Warn("completing a roll waits for disk space", "dir", l.dir, "base", s.base, "err", err)
		l.manager.retryLater(l)
	case err != nil && err != errClosed:
		l.fail(fmt.Errorf("completing the roll at offset %d: %w", s.base, err))
	default:
		l.advanceRecoveryPoint()
	}
}

// completeRolls tries again what finishRoll could not do.
func (l *Log) completeRolls() {
	list := l.list()
	for i, s := range list[:len(list)-1] {
		if !s.flushed.Load() {
			l.finishRoll(s, list[i+1])
		}
	}
}

func (l *Log) completeNew(s *segment) error {
	if err := l.nameSegment(s); err != nil {
		return err
	}
	if err := l.writeSnapshot(s); err != nil {
		return err
	}
	if err := s.writeIndexes(false); err != nil {
		return err
	}
	return l.epochs.write()
}

// writeSnapshot writes the producer snapshot at a segment's base, if the roll
// that made it has not got to that yet.
func (l *Log) writeSnapshot(s *segment) error {
	l.snapshotting.Lock()
	defer l.snapshotting.Unlock()
	p := s.snapshot.Load()
	if p == nil {
		return nil
	}
	if err := l.fs.WriteFileAtomic(join(l.dir, segmentName(s.base, snapshotSuffix)), *p); err != nil {
		return err
	}
	s.snapshot.Store(nil)
	return nil
}

// nameSegment gives a prepared file that is in use its final name, once. Then
// and no sooner the next one may be prepared.
func (l *Log) nameSegment(s *segment) error {
	if !s.provisional.Load() {
		return nil
	}
	l.naming.Lock()
	defer l.naming.Unlock()
	if !s.provisional.Load() {
		return nil
	}
	if err := s.file.rename(join(l.dir, segmentName(s.base, logSuffix))); err != nil {
		return err
	}
	s.provisional.Store(false)
	l.renaming.Store(false)
	return nil
}

// seal trims a segment that takes no more appends, makes it durable and closes
// it until someone reads it: small segments may come faster than idle ones are
// looked for.
func (l *Log) seal(s *segment) error {
	h, err := s.file.acquire(false)
	if err != nil {
		return err
	}
	defer h.release()
	if err := s.trim(h.file); err != nil {
		return err
	}
	if err := h.file.Sync(); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	if err := s.sealIndexes(); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	s.flushed.Store(true)
	s.file.drop()
	return nil
}

// advanceRecoveryPoint moves it over the leading segments that are durable.
func (l *Log) advanceRecoveryPoint() {
	list := l.list()
	for i, s := range list {
		if !s.flushed.Load() {
			l.raiseRecoveryPoint(s.base)
			return
		}
		if i == len(list)-1 {
			return
		}
	}
}

func (l *Log) raiseRecoveryPoint(to record.Offset) {
	for {
		now := l.recoveryPoint.Load()
		if int64(to) <= now || l.recoveryPoint.CompareAndSwap(now, int64(to)) {
			return
		}
	}
}
