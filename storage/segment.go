package storage

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// segment is one file of batches and its indexes. The last segment of a log is
// active: one goroutine, which holds the log's mu, appends to it. Readers see
// what size covers; bytes below it never change while the segment is in the
// log's list (a truncation puts another segment object in its place).
type segment struct {
	base  record.Offset
	file  *lazyFile
	index *offsetIndex
	times *timeIndex
	txns  *txnIndex

	size atomic.Int64 // published bytes
	// ring remembers the tail of the active segment; nil before its first use
	// after a start and once it is sealed.
	ring atomic.Pointer[tailRing]

	// maxTimestamp and its batch's last offset. Unknown (math.MinInt64) in a
	// segment that came from disk until ensureMaxTimestamp; from then on the
	// appender's to raise.
	maxTimestamp       atomic.Int64
	maxTimestampOffset atomic.Int64
	lookingUp          sync.Mutex // held around the look-up of maxTimestamp

	flushed     atomic.Bool            // sealed and durable with its indexes
	damaged     atomic.Bool            // what size covers is good, what follows is not and was not cut
	provisional atomic.Bool            // the file still bears the name of a prepared one
	snapshot    atomic.Pointer[[]byte] // the producer state at base, until it is in its file

	// The appender's, guarded by the log's mu.
	firstTimestamp  record.Timestamp // first batch's greatest, the clock of segment.ms; NoTimestamp if unknown
	firstKnown      bool             // firstTimestamp was looked up or set
	created         record.Timestamp
	jitterMs        int64
	bytesSinceIndex int64

	alloc segmentSpace
}

// segmentSpace is what is made ready ahead of the appends.
type segmentSpace struct {
	mu     sync.Mutex   // held by workers around fallocate and the trimming truncate
	sealed bool         // trimmed: no more reserving; guarded by mu
	end    atomic.Int64 // reserved up to here
	dirty  atomic.Int64 // writeback was started up to here
	step   int64        // appends up to here add no zeros; appender only
}

// newSegment is a segment with empty indexes in memory. Its file is at path.
func newSegment(l *Log, base record.Offset, path string) *segment {
	dir := l.dir
	s := &segment{
		base:           base,
		file:           newLazyFile(l.fs, l.exec, path),
		index:          newOffsetIndex(l.fs, join(dir, segmentName(base, indexSuffix)), base),
		times:          newTimeIndex(l.fs, join(dir, segmentName(base, timeIndexSuffix)), base),
		txns:           newTxnIndex(l.fs, join(dir, segmentName(base, txnIndexSuffix))),
		firstTimestamp: record.NoTimestamp,
		created:        l.clock.Now(),
		jitterMs:       l.jitter(),
	}
	s.maxTimestamp.Store(int64(record.NoTimestamp))
	s.maxTimestampOffset.Store(int64(base))
	return s
}

// openSegment is a segment whose index files are taken at their sizes.
func openSegment(l *Log, f *segmentFiles) *segment {
	s := newSegment(l, f.base, join(l.dir, segmentName(f.base, logSuffix)))
	s.index = openOffsetIndex(l.fs, s.index.table.path, f.base, f.indexSize)
	s.times = openTimeIndex(l.fs, s.times.table.path, f.base, f.timeIndexSize)
	s.size.Store(f.logSize)
	s.maxTimestamp.Store(math.MinInt64)
	if f.logSize > 0 {
		s.created = record.Timestamp(f.modTimeMs)
	}
	return s
}

// ensureMaxTimestamp looks the greatest timestamp up in the time index. Worker
// context, or the first append after a start.
func (s *segment) ensureMaxTimestamp() error {
	if s.maxTimestamp.Load() != math.MinInt64 {
		return nil
	}
	// A second one that looks it up must not set back what an append after the
	// first has raised.
	s.lookingUp.Lock()
	defer s.lookingUp.Unlock()
	if s.maxTimestamp.Load() != math.MinInt64 {
		return nil
	}
	ts, o, err := s.times.lastEntry()
	if err != nil {
		return err
	}
	s.maxTimestampOffset.Store(int64(o))
	s.maxTimestamp.Store(int64(ts))
	return nil
}

// note takes a batch into the greatest timestamp and, where one is due, the
// indexes, as Kafka's LogSegment.append does. Appender only.
func (s *segment) note(pos Position, last record.Offset, maxTs record.Timestamp, size int, interval int32) {
	if pos == 0 {
		s.firstTimestamp, s.firstKnown = maxTs, true
	}
	if int64(maxTs) > s.maxTimestamp.Load() {
		s.maxTimestampOffset.Store(int64(last))
		s.maxTimestamp.Store(int64(maxTs))
	}
	if s.bytesSinceIndex > int64(interval) {
		s.index.append(last, pos)
		s.times.maybeAppend(record.Timestamp(s.maxTimestamp.Load()), record.Offset(s.maxTimestampOffset.Load()))
		s.bytesSinceIndex = 0
	}
	s.bytesSinceIndex += int64(size)
}

// finishTimes adds the last entry of the time index: a segment that is sealed,
// closed or idle names its greatest timestamp there. Appender only.
func (s *segment) finishTimes() {
	if !s.times.table.inMemory() {
		return // it was there when the memory was given back
	}
	s.times.maybeAppend(record.Timestamp(s.maxTimestamp.Load()), record.Offset(s.maxTimestampOffset.Load()))
}

// warm readies the active segment for appends after a start or an idle time.
// The caller holds the log's mu.
func (s *segment) warm(end record.Offset) error {
	if err := s.ensureMaxTimestamp(); err != nil {
		return err
	}
	if err := s.index.table.unseal(); err != nil {
		return err
	}
	if err := s.times.table.unseal(); err != nil {
		return err
	}
	s.times.last = record.NoTimestamp
	if s.times.table.count() > 0 {
		ts, _, err := s.times.lastEntry()
		if err != nil {
			return err
		}
		s.times.last = ts
	}
	if err := s.loadFirstTimestamp(); err != nil {
		return err
	}
	if s.alloc.end.Load() < s.size.Load() {
		s.alloc.end.Store(s.size.Load())
		s.alloc.dirty.Store(s.size.Load())
	}
	r := new(tailRing)
	r.push([]boundary{{end, Position(s.size.Load())}})
	s.ring.Store(r)
	return nil
}

// loadFirstTimestamp reads the first batch's header once.
func (s *segment) loadFirstTimestamp() error {
	if s.firstKnown || s.size.Load() == 0 {
		return nil
	}
	h, err := s.file.acquire(false)
	if err != nil {
		return err
	}
	defer h.release()
	var buf [record.HeaderSize]byte
	if _, err := h.file.ReadAt(buf[:], 0); err != nil {
		return err
	}
	first, err := record.ParseHeader(buf[:])
	if err != nil {
		return &CorruptionError{File: s.file.name(), Err: err}
	}
	s.firstTimestamp, s.firstKnown = first.MaxTimestamp, true
	return nil
}

// trim cuts the file to its content, giving reserved space back. Worker
// context, on a segment that takes no more appends.
func (s *segment) trim(f vfs.File) error {
	s.alloc.mu.Lock()
	defer s.alloc.mu.Unlock()
	s.alloc.sealed = true
	size, err := f.Size()
	if err != nil {
		return err
	}
	if want := s.size.Load(); size != want || s.alloc.end.Load() > want {
		return f.Truncate(want)
	}
	return nil
}

// writeIndexes brings the index files up to date; with sync durable.
func (s *segment) writeIndexes(sync bool) error {
	if err := s.index.table.writeBehind(sync); err != nil {
		return err
	}
	if err := s.times.table.writeBehind(sync); err != nil {
		return err
	}
	return s.txns.write()
}

// sealIndexes writes the indexes and frees their memory.
func (s *segment) sealIndexes() error {
	if err := s.index.table.seal(); err != nil {
		return err
	}
	if err := s.times.table.seal(); err != nil {
		return err
	}
	return s.txns.write()
}

// retire makes the segment unable to open anything again and gives back what
// it holds. Spans keep their file.
func (s *segment) retire() {
	s.file.retire()
	s.index.table.release()
	s.times.table.release()
}

// handOver gives back the memory of indexes whose files are complete, or none
// of it. The caller holds the log's mu.
func (s *segment) handOver() bool {
	if !s.index.table.complete() || !s.times.table.complete() {
		return false
	}
	s.index.table.handOver()
	s.times.table.handOver()
	return true
}

// sweep closes what nobody used since the last sweep.
func (s *segment) sweep() {
	s.file.sweep()
	s.index.table.sweep()
	s.times.table.sweep()
}
