package storage

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// recovery is the check of a log after an unclean stop.
//
// Segments that end at or below the recovery point are durable and taken as
// they are. From there on every batch is verified: its header, that it begins
// where the last one ended, and its CRC. At the first that fails the file is
// cut and synced, and all later segments go: out-of-order writeback can leave
// a good batch behind a hole, and it must not come back to life behind what is
// appended next. Indexes, epochs and producer state are rebuilt on the way.
//
// Damage below the recovery point is not the end of the log but corruption of
// what was promised: nothing is cut, the log keeps its end, is readable up to
// the damage and in later segments, and takes no appends.
//
// A prepared file (see prepare.go) that holds batches is the active segment
// of a roll whose renaming a kill cut off: it gets its name if it continues
// the log, and goes if it does not, which only a power loss can cause.
type recovery struct {
	log   *Log
	files *logFiles
	st    loadState

	list   []*segment
	end    record.Offset
	from   record.Offset // producer state is complete up to here
	window window
}

// verdict is how the check of one segment ended.
type verdict int

const (
	whole   verdict = iota // all of it is good
	cut                    // it was cut: later segments go
	damaged                // below the recovery point: the log goes offline
)

func (r *recovery) run() (err error) {
	l := r.log
	defer func() {
		if err != nil {
			for _, s := range r.list {
				s.retire()
			}
		}
	}()
	list, err := l.openSegments(r.untouched())
	if err != nil {
		return err
	}
	r.list = list
	rest := r.files.segments[len(list):]
	if len(rest) == 0 && r.files.prepared < 0 && len(list) == 0 {
		return l.startEmpty(max(r.st.logStart, 0))
	}
	for _, s := range list {
		s.flushed.Store(true)
	}
	if len(rest) > 0 {
		r.end = rest[0].base
	} else if n := len(list); n > 0 {
		if r.end, err = list[n-1].findEnd(); err != nil {
			return err
		}
	}
	v, err := r.checkAll(rest)
	if err != nil {
		return err
	}
	if v != damaged && r.files.prepared >= 0 {
		if err := l.removeFile(preparedName); err != nil {
			return err
		}
	}
	if len(r.list) == 0 {
		if err := l.startEmpty(max(r.st.logStart, 0)); err != nil {
			return err
		}
		r.list = l.list()
	}
	return r.finish()
}

// untouched is the part of the directory that lies wholly below the recovery
// point.
func (r *recovery) untouched() *logFiles {
	n := 0
	segs := r.files.segments
	for n+1 < len(segs) && segs[n+1].base <= r.st.recoveryPoint {
		n++
	}
	return &logFiles{segments: segs[:n]}
}

// checkAll checks segments in order until one is not whole, with the prepared
// file where it belongs: behind the last of them, or in a hole that was left
// when its renaming was lost and the next segment's creation was not. Other
// holes end the log, but where compaction may have emptied a segment's end.
func (r *recovery) checkAll(rest []*segmentFiles) (verdict, error) {
	if err := r.startProducers(rest); err != nil {
		return whole, err
	}
	for i := 0; ; i++ {
		if i == len(rest) || len(r.list) > 0 && rest[i].base != r.end {
			p, err := r.takePrepared()
			if err != nil {
				return whole, err
			}
			if p != nil {
				rest = slices.Insert(rest, i, p)
			} else if i < len(rest) && !r.log.Config().Compact {
				r.log.logger.Warn("the log has a hole: dropping what lies behind it", "dir", r.log.dir, "end", r.end, "next", rest[i].base)
				return cut, r.dropAll(rest[i:])
			}
		}
		if i == len(rest) {
			return whole, nil
		}
		if n := len(r.list); n > 0 && !r.list[n-1].flushed.Load() {
			if err := r.sealChecked(r.list[n-1]); err != nil {
				return whole, err
			}
		}
		f := rest[i]
		r.end = f.base
		s := openSegment(r.log, f)
		if err := r.snapshotAt(s, i); err != nil {
			return whole, err
		}
		r.list = append(r.list, s)
		v, err := r.checkSegment(s, f)
		if err != nil {
			return v, err
		}
		if v == damaged {
			for _, later := range rest[i+1:] {
				r.list = append(r.list, openSegment(r.log, later))
			}
			return damaged, nil
		}
		if v == cut {
			return cut, r.dropAll(rest[i+1:])
		}
	}
}

// snapshotAt writes the producer snapshot at the base of a segment that
// follows one that was checked: a kill may have come before it, and it is the
// only memory of producers whose batches are deleted later.
func (r *recovery) snapshotAt(s *segment, checked int) error {
	if checked == 0 || r.from > s.base {
		return nil
	}
	state := r.log.producers.appendSnapshot(nil)
	s.snapshot.Store(&state)
	return r.log.writeSnapshot(s)
}

// startProducers restores the producer state as far as the segments that are
// not checked go, from the latest snapshot that the recovery point vouches for.
func (r *recovery) startProducers(rest []*segmentFiles) error {
	l := r.log
	list := r.list
	if len(list) == 0 && len(rest) == 0 {
		return nil
	}
	if len(list) == 0 {
		// loadProducers needs a first segment to begin at.
		list = []*segment{openSegment(l, rest[0])}
		list[0].size.Store(0)
	}
	l.segs.Store(&list)
	limit := r.st.recoveryPoint
	if len(rest) > 0 {
		// What lies before the first segment of all was deleted; only the
		// snapshot at its base remembers it.
		limit = max(limit, rest[0].base)
	}
	if err := l.loadProducers(r.files, limit, r.end); err != nil {
		return err
	}
	r.from = r.end
	if at, ok := r.files.latestSnapshot(limit); ok && at > r.from {
		r.from = at
	}
	return nil
}

// checkSegment verifies a segment from the recovery point on, or from its
// start where no index leads there, and rebuilds what hangs on it.
func (r *recovery) checkSegment(s *segment, f *segmentFiles) (verdict, error) {
	h, err := s.file.acquire(false)
	if err != nil {
		return whole, err
	}
	defer h.release()
	pos := r.keepPrefix(s, f, h.file)
	interval := r.log.Config().IndexIntervalBytes
	if pos == 0 {
		if err := r.startOver(s); err != nil {
			return whole, err
		}
	}
	for int64(pos) < f.logSize {
		b, err := r.readBatch(h.file, int64(pos), f.logSize)
		var hd record.Header
		if err == nil {
			hd, err = r.verify(s, b, pos)
		}
		var damage *CorruptionError
		switch {
		case err == nil:
		case !errors.As(err, &damage):
			return whole, err
		case r.end < r.st.recoveryPoint:
			s.size.Store(int64(pos))
			s.damaged.Store(true)
			r.log.fail(errOffline(err))
			return damaged, nil
		default:
			s.size.Store(int64(pos))
			return r.endAt(h.file, int64(pos), f.logSize, err)
		}
		s.note(pos, hd.LastOffset(), hd.MaxTimestamp, hd.SizeBytes, interval)
		if hd.LeaderEpoch > r.log.epochs.latest() {
			r.log.epochs.assign(hd.LeaderEpoch, hd.BaseOffset)
		}
		r.applyProducer(s, b, &hd)
		pos += Position(hd.SizeBytes)
		r.end = hd.NextOffset()
	}
	// Space that was reserved past the end is given back with the same call
	// that cuts a file elsewhere.
	return whole, h.file.Truncate(f.logSize)
}

// endAt ends a segment where no batch follows. Zeros up to the end of the file
// are where Kafka's preallocate was to be written over, so the segment is whole;
// the cut need not be synced, as the log says the same before and after it.
func (r *recovery) endAt(f vfs.File, pos, size int64, why error) (verdict, error) {
	empty, err := r.emptyFrom(f, pos, size)
	if err != nil {
		return whole, err
	}
	if empty {
		return whole, f.Truncate(pos)
	}
	r.log.logger.Warn("cutting the log", "file", f.Name(), "position", pos, "bytes", size-pos, "end", r.end, "err", why)
	return cut, r.cutFile(f, pos)
}

// emptyFrom says whether a file holds nothing but zeros from a position on.
func (r *recovery) emptyFrom(f vfs.File, pos, size int64) (bool, error) {
	for pos < size {
		n := min(recoveryRead, size-pos)
		if err := r.window.fill(f, pos, n, size); err != nil {
			return false, err
		}
		for _, b := range r.window.at(pos)[:n] {
			if b != 0 {
				return false, nil
			}
		}
		pos += n
	}
	return true, nil
}

// cutFile cuts a file for good, before anything is written behind the cut.
func (r *recovery) cutFile(f vfs.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// keepPrefix keeps the index entries of batches below the recovery point, if
// the index is in order and leads to a batch, and gives the position from
// which to check. Zero means that nothing was kept.
func (r *recovery) keepPrefix(s *segment, f *segmentFiles, file vfs.File) Position {
	if r.st.recoveryPoint <= s.base || !f.indexesUsable() || s.index.check(f.logSize) != nil || s.times.check() != nil {
		return 0
	}
	n, pos, last := 0, Position(0), record.Offset(0)
	err := s.index.table.each(0, func(i int, e []byte) bool {
		o := s.base + record.Offset(offsetEntryKey(e))
		if o >= r.st.recoveryPoint {
			return false
		}
		n, pos, last = i, offsetEntryPosition(e), o // n excludes this one: note may add it again
		return true
	})
	if err != nil || pos == 0 {
		return 0
	}
	b, err := r.readBatch(file, int64(pos), f.logSize)
	if err != nil || b.LastOffset() != last || !b.VerifyCRC() {
		return 0
	}
	base := b.BaseOffset()
	m, err := s.times.entriesBelow(base)
	if err != nil {
		return 0
	}
	index, err1 := s.index.table.copyOf(n)
	times, err2 := s.times.table.copyOf(m)
	if err1 != nil || err2 != nil || s.txns.load() != nil || r.catchUp(s, base) != nil {
		return 0
	}
	s.resetIndexes()
	s.index.table, s.times.table = index, times
	if m > 0 {
		ts, o, err := s.times.lastEntry()
		if err != nil {
			return 0
		}
		s.times.last = ts
		s.maxTimestampOffset.Store(int64(o))
		s.maxTimestamp.Store(int64(ts))
	}
	s.txns.truncate(max(base, r.from))
	s.bytesSinceIndex = int64(r.log.Config().IndexIntervalBytes) + 1
	r.end = base
	return pos
}

// catchUp brings the producer state up to an offset in a segment, by the
// headers of its batches below the recovery point.
func (r *recovery) catchUp(s *segment, to record.Offset) error {
	if r.from >= to {
		return nil
	}
	list := append(r.list[:len(r.list):len(r.list)], s)
	r.log.segs.Store(&list)
	if err := r.log.replayProducers(r.from, to); err != nil {
		return err
	}
	r.from = to
	return nil
}

// startOver checks a segment from its first byte: nothing that hangs on it is
// kept.
func (r *recovery) startOver(s *segment) error {
	s.resetIndexes()
	s.txns.truncate(0)
	if r.from <= s.base {
		return nil
	}
	// The snapshot in use lies inside the segment, so the transactions that
	// ended before it would be missing from the transaction index.
	r.from = s.base
	return r.log.loadProducers(r.files, s.base, s.base)
}

// recoveryRead is how much is read at a time.
const recoveryRead = 1 << 20

// window is the part of a file that readBatch holds.
type window struct {
	file vfs.File
	pos  int64
	have []byte
	buf  []byte
}

// readBatch gives the batch at a position of a file of this size, until the
// next call. What is no batch is a CorruptionError.
func (r *recovery) readBatch(f vfs.File, pos, size int64) (record.Batch, error) {
	if err := r.window.fill(f, pos, min(record.HeaderSize, size-pos), size); err != nil {
		return nil, err
	}
	h, err := record.ParseHeader(r.window.at(pos))
	if err == nil && int64(h.SizeBytes) > size-pos {
		err = record.ErrShort
	}
	if err != nil {
		return nil, &CorruptionError{File: f.Name(), Position: Position(pos), Err: err}
	}
	if err := r.window.fill(f, pos, int64(h.SizeBytes), size); err != nil {
		return nil, err
	}
	return record.Batch(r.window.at(pos)[:h.SizeBytes]), nil
}

func (w *window) at(pos int64) []byte { return w.have[pos-w.pos:] }

// fill makes sure of n bytes from pos on.
func (w *window) fill(f vfs.File, pos, n, size int64) error {
	if w.file == f && pos >= w.pos && pos+n <= w.pos+int64(len(w.have)) {
		return nil
	}
	want := min(max(n, recoveryRead), size-pos)
	if int64(cap(w.buf)) < want {
		w.buf = make([]byte, want)
	}
	got, err := f.ReadAt(w.buf[:want], pos)
	if err != nil && !(err == io.EOF && int64(got) == want) {
		if err == io.EOF {
			return corrupt(f.Name(), pos, "ends after %d of %d bytes", got, want)
		}
		return err
	}
	w.file, w.pos, w.have = f, pos, w.buf[:got]
	return nil
}

// verify says whether a batch continues the log.
func (r *recovery) verify(s *segment, b record.Batch, pos Position) (record.Header, error) {
	h, err := record.ParseHeader(b)
	switch {
	case err != nil:
	case h.BaseOffset < r.end:
		err = fmt.Errorf("batch at offset %d where %d or more is due", h.BaseOffset, r.end)
	case overflows(s, h.LastOffset()):
		err = fmt.Errorf("batch ends at offset %d, too far from the segment's base %d", h.LastOffset(), s.base)
	case !b.VerifyCRC():
		err = fmt.Errorf("batch at offset %d has a bad CRC", h.BaseOffset)
	}
	if err != nil {
		return h, &CorruptionError{File: s.file.name(), Position: pos, Err: err}
	}
	return h, nil
}

// applyProducer takes a checked batch into the producer state and an aborted
// transaction that it ends into the transaction index.
func (r *recovery) applyProducer(s *segment, b record.Batch, h *record.Header) {
	if h.ProducerID <= record.NoProducerID || h.BaseOffset < r.from {
		return
	}
	m, isMarker, _ := b.EndTxnMarker() // one that cannot be read ends nothing
	p := r.log.producers
	if done, ended := p.apply(h, m, isMarker); ended && done.aborted {
		s.txns.append(AbortedTxn{done.producer, done.first, done.last, p.txns.stableAfter(done)})
	}
}

// sealChecked completes a segment that another one follows.
func (r *recovery) sealChecked(s *segment) error {
	s.finishTimes()
	return r.log.seal(s)
}

// dropAll removes segments behind a cut.
func (r *recovery) dropAll(segments []*segmentFiles) error {
	l := r.log
	for _, f := range segments {
		l.logger.Warn("dropping a segment behind the cut", "dir", l.dir, "base", f.base, "bytes", f.logSize)
		if err := l.removeSegmentFiles(openSegment(l, f)); err != nil {
			return err
		}
		r.files.dropSnapshot(f.base)
	}
	return l.fs.SyncDir(l.dir)
}

// takePrepared gives the prepared file its name if it holds the batches that
// the log goes on with; nil if it does not.
func (r *recovery) takePrepared() (*segmentFiles, error) {
	l := r.log
	if r.files.prepared < 0 {
		return nil, nil
	}
	name := join(l.dir, preparedName)
	continues, err := r.continues(name)
	if err != nil || !continues {
		return nil, err
	}
	final := join(l.dir, segmentName(r.end, logSuffix))
	if err := l.fs.Rename(name, final); err != nil {
		return nil, err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return nil, err
	}
	l.logger.Info("completed the roll that an unclean stop had cut off", "file", final)
	f := &segmentFiles{base: r.end, logSize: r.files.prepared, modTimeMs: int64(l.clock.Now()),
		indexSize: -1, timeIndexSize: -1, txnIndexSize: -1}
	r.files.prepared = -1
	return f, nil
}

// continues says whether a prepared file begins with the batch that the log
// goes on with.
func (r *recovery) continues(name string) (ok bool, err error) {
	if r.files.prepared == 0 {
		return false, nil
	}
	f, err := r.log.fs.OpenRead(name)
	if err != nil {
		return false, err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	b, err := r.readBatch(f, 0, r.files.prepared)
	var damage *CorruptionError
	if errors.As(err, &damage) {
		return false, nil
	}
	if err != nil || !b.VerifyCRC() {
		return false, err
	}
	if len(r.list) == 0 && b.BaseOffset() <= r.st.logStart {
		r.end = b.BaseOffset() // all that came before was deleted
	}
	return b.BaseOffset() == r.end, nil
}

// finish publishes what was found.
func (r *recovery) finish() error {
	l := r.log
	active := r.list[len(r.list)-1]
	active.flushed.Store(false)
	active.alloc.sealed = false
	l.segs.Store(&r.list)
	l.dirty = true
	if l.Err() != nil {
		// What was acknowledged is still there to be mended: to say that the log
		// ends here would reset its consumers.
		r.end = max(r.end, r.st.recoveryPoint, r.st.highWatermark)
	}
	l.end.Store(int64(r.end))
	if r.end < r.st.recoveryPoint {
		l.logger.Warn("the log ends below its recovery point", "dir", l.dir, "end", r.end, "recoveryPoint", r.st.recoveryPoint)
	}
	l.recoveryPoint.Store(int64(min(r.st.recoveryPoint, r.end)))
	l.advanceRecoveryPoint()
	r.window = window{}
	for _, s := range r.list {
		s.file.drop() // thousands of logs may be recovered: whoever needs it opens it
	}
	if r.from > r.end {
		// The snapshot knows of batches that are gone; sent again they must not
		// pass for repeats.
		return l.loadProducers(r.files, r.end, r.end)
	}
	return nil
}
