package storage

import (
	"errors"
	"io"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// located is where a batch is in its segment.
type located struct {
	pos  Position
	size int64
	base record.Offset
}

// Read finds the batch that holds an offset and gives a span of at most
// maxBytes from there on, bounded by limit: no batch that reaches limit
// (exclusive: high watermark, last stable offset or end) or further is in it.
// With minOne the first batch is whole however large; without, a first batch
// that does not fit gives no span (KIP-74). The last batch may be cut.
//
// Behind damage that recovery found below the recovery point the answer is
// kerr.KafkaStorageError: skipping it would lose records without a word.
//
// An offset at or past limit gives a nil span and no error; one outside
// [start, end] kerr.OffsetOutOfRange. With nowait nothing sleeps: what is not
// in memory, a closed file included, is vfs.ErrWouldBlock, to be tried again on
// a worker without nowait.
func (l *Log) Read(offset, limit record.Offset, maxBytes int32, minOne, nowait bool) (*Span, error) {
	end := l.EndOffset()
	if offset < l.StartOffset() || offset > end {
		return nil, kerr.OffsetOutOfRange
	}
	limit = min(limit, end)
	if offset >= limit || maxBytes <= 0 && !minOne {
		return nil, nil
	}
	list := l.list()
	first := find(list, offset)
	if first < 0 {
		return nil, kerr.OffsetOutOfRange // the start has moved meanwhile
	}
	for i := first; i < len(list) && list[i].base < limit; i++ {
		span, found, err := l.readSegment(list, i, offset, limit, int64(maxBytes), minOne, nowait)
		if err != nil {
			return nil, l.readError(offset, err)
		}
		if found {
			return span, nil
		}
		if list[i].damaged.Load() {
			return nil, kerr.KafkaStorageError
		}
	}
	return nil, nil
}

// readError says what a failed read means: files vanish under a reader when
// their segment or log is deleted.
func (l *Log) readError(offset record.Offset, err error) error {
	switch {
	case err == vfs.ErrWouldBlock:
		return err
	case offset < l.StartOffset():
		return kerr.OffsetOutOfRange
	case errors.Is(err, errClosed):
		return kerr.UnknownTopicOrPartition
	}
	return err
}

// readSegment is Read in one segment. found is false if all its batches end
// before the offset, as compaction may leave it.
func (l *Log) readSegment(list []*segment, i int, offset, limit record.Offset, maxBytes int64, minOne, nowait bool) (*Span, bool, error) {
	s := list[i]
	size := s.size.Load() // after end, so it covers what end covers
	h, err := s.file.acquire(nowait)
	if err != nil {
		return nil, false, err
	}
	at, ok, err := s.locate(h, size, offset, nowait)
	if err != nil || !ok {
		h.release()
		return nil, false, err
	}
	room := maxBytes
	if room < at.size {
		if !minOne {
			h.release()
			return nil, true, nil
		}
		room = at.size
	}
	stop := size
	if i+1 == len(list) || limit < list[i+1].base {
		stop, err = s.stopAt(h, size, limit, int64(at.pos)+room, nowait)
		if err != nil {
			h.release()
			return nil, false, err
		}
	}
	n := min(room, stop-int64(at.pos))
	if n <= 0 {
		h.release()
		return nil, true, nil
	}
	return newSpan(h, int64(at.pos), n, at.base), true, nil
}

// locate finds the first batch that ends at or past an offset, in the first
// size bytes of the segment: by the tail ring, or by the index and a scan of
// headers from there.
func (s *segment) locate(h *handle, size int64, offset record.Offset, nowait bool) (located, bool, error) {
	if r := s.ring.Load(); r != nil {
		if at, next, ok := r.floor(offset); ok {
			return located{at.pos, int64(next.pos - at.pos), at.offset}, next.pos > at.pos, nil
		}
	}
	pos, err := s.index.lookup(offset, nowait)
	if err != nil {
		return located{}, false, err
	}
	outside := pos < 0 || pos > 0 && int64(pos) >= size
	var at located
	var ok bool
	if !outside {
		at, ok, err = scanTo(h.file, int64(pos), size, offset, nowait)
	}
	if outside || pos > 0 && (err != nil && err != vfs.ErrWouldBlock || ok && at.pos == pos && at.base > offset) {
		// The index points out of the file, beside a batch, or past the one that
		// is wanted. Without it the answer is still there, from the start on.
		if nowait {
			return located{}, false, vfs.ErrWouldBlock
		}
		at, ok, err = scanTo(h.file, 0, size, offset, nowait)
	}
	return at, ok, err
}

// stopAt is the position where the batch begins that holds limit or comes
// after it, or at least enough if that is further.
func (s *segment) stopAt(h *handle, size int64, limit record.Offset, enough int64, nowait bool) (int64, error) {
	if r := s.ring.Load(); r != nil {
		if at, _, ok := r.floor(limit); ok {
			return int64(at.pos), nil
		}
	}
	pos, err := s.index.lookup(limit, nowait)
	if err != nil {
		return 0, err
	}
	if int64(pos) >= enough && int64(pos) < size {
		return enough, nil
	}
	at, ok, err := s.locate(h, size, limit, nowait)
	if err != nil || !ok {
		return size, err
	}
	return int64(at.pos), nil
}

// scanBytes is what a scan of headers reads at a time: two index intervals.
const scanBytes = 8 << 10

// scanBuffer is the memory of a scan; the header is in it because what a
// function value is given the address of would else be allocated.
type scanBuffer struct {
	header record.Header
	bytes  [scanBytes]byte
}

var scanPool = sync.Pool{New: func() any { return new(scanBuffer) }}

// scanTo walks the headers of [pos, size) to the first batch that ends at or
// past an offset.
func scanTo(f vfs.File, pos, size int64, offset record.Offset, nowait bool) (located, bool, error) {
	var at located
	found := false
	err := scanHeaders(f, pos, size, nowait, func(p Position, h *record.Header) bool {
		if h.LastOffset() < offset {
			return true
		}
		at, found = located{p, int64(h.SizeBytes), h.BaseOffset}, true
		return false
	})
	return at, found, err
}

// scanHeaders calls fn on the header of each batch in [pos, size) until it
// returns false. A batch that is cut by size is not reported.
func scanHeaders(f vfs.File, pos, size int64, nowait bool, fn func(Position, *record.Header) bool) error {
	buf := scanPool.Get().(*scanBuffer)
	defer scanPool.Put(buf)
	var have []byte // bytes of the file from pos on
	for pos+record.HeaderSize <= size {
		if len(have) < record.HeaderSize {
			want := buf.bytes[:min(scanBytes, size-pos)]
			n, err := readSome(f, want, pos, nowait)
			if err != nil {
				return err
			}
			have = want[:n]
		}
		var err error
		if buf.header, err = record.ParseHeader(have); err != nil {
			return &CorruptionError{File: f.Name(), Position: Position(pos), Err: err}
		}
		h := &buf.header
		if pos+int64(h.SizeBytes) > size {
			return nil
		}
		if !fn(Position(pos), h) {
			return nil
		}
		pos += int64(h.SizeBytes)
		have = have[min(h.SizeBytes, len(have)):]
	}
	return nil
}

// readSome reads at least a header.
func readSome(f vfs.File, p []byte, pos int64, nowait bool) (int, error) {
	var n int
	var err error
	if nowait {
		n, err = f.ReadNowait(p, pos)
	} else {
		n, err = f.ReadAt(p, pos)
	}
	if n >= record.HeaderSize {
		return n, nil
	}
	if err == io.EOF || err == nil {
		err = corrupt(f.Name(), pos, "ends after %d of %d bytes", n, record.HeaderSize)
	}
	return n, err
}

// OffsetForTimestamp finds the first record, at or past the log's start, with
// a timestamp of at least ts: its offset, timestamp and leader epoch, or -1,
// -1, -1. It decompresses no more than the one batch. Worker context.
func (l *Log) OffsetForTimestamp(ts record.Timestamp) (record.Offset, record.Timestamp, record.LeaderEpoch, error) {
	list := l.list()
	start := l.StartOffset()
	for i := max(0, find(list, start)); i < len(list); i++ {
		s := list[i]
		size := s.size.Load()
		if err := s.ensureMaxTimestamp(); err != nil {
			return -1, record.NoTimestamp, record.NoLeaderEpoch, l.readError(start, err)
		}
		if s.maxTimestamp.Load() < int64(ts) {
			continue
		}
		o, t, e, err := s.offsetForTimestamp(size, ts, start)
		if err != nil {
			return -1, record.NoTimestamp, record.NoLeaderEpoch, l.readError(start, err)
		}
		if o >= 0 {
			return o, t, e, nil
		}
	}
	return -1, record.NoTimestamp, record.NoLeaderEpoch, nil
}

func (s *segment) offsetForTimestamp(size int64, ts record.Timestamp, start record.Offset) (record.Offset, record.Timestamp, record.LeaderEpoch, error) {
	offset, at, epoch := record.Offset(-1), record.NoTimestamp, record.NoLeaderEpoch
	from, err := s.times.lookup(ts)
	if err != nil {
		return offset, at, epoch, err
	}
	pos, err := s.index.lookup(max(from, start), false)
	if err != nil {
		return offset, at, epoch, err
	}
	h, err := s.file.acquire(false)
	if err != nil {
		return offset, at, epoch, err
	}
	defer h.release()
	var inner error
	err = scanHeaders(h.file, int64(pos), size, false, func(p Position, hd *record.Header) bool {
		if hd.MaxTimestamp < ts || hd.LastOffset() < start {
			return true
		}
		offset, at, inner = recordAt(h.file, p, hd, ts, start)
		epoch = hd.LeaderEpoch
		return inner == nil && offset < 0
	})
	if err == nil {
		err = inner
	}
	return offset, at, epoch, err
}

// recordAt finds the first record of a batch with a timestamp of at least ts
// and an offset of at least start; -1 if there is none.
func recordAt(f vfs.File, pos Position, h *record.Header, ts record.Timestamp, start record.Offset) (record.Offset, record.Timestamp, error) {
	b := make(record.Batch, h.SizeBytes)
	if _, err := f.ReadAt(b, int64(pos)); err != nil {
		return -1, record.NoTimestamp, err
	}
	offset, at := record.Offset(-1), record.NoTimestamp
	err := b.Each(func(r record.Record) bool {
		if r.Timestamp < ts || r.Offset < start {
			return true
		}
		offset, at = r.Offset, r.Timestamp
		return false
	})
	if err != nil {
		return -1, record.NoTimestamp, &CorruptionError{File: f.Name(), Position: pos, Err: err}
	}
	return offset, at, nil
}

// MaxTimestampOffset gives the greatest timestamp in the log, the offset of
// the first record that has it and its leader epoch (ListOffsets −3, KIP-734);
// -1, -1, -1 of an empty log. Worker context.
func (l *Log) MaxTimestampOffset() (record.Offset, record.Timestamp, record.LeaderEpoch, error) {
	best, ts := (*segment)(nil), int64(math.MinInt64)
	for _, s := range l.list() {
		if err := s.ensureMaxTimestamp(); err != nil {
			return -1, record.NoTimestamp, record.NoLeaderEpoch, err
		}
		if t := s.maxTimestamp.Load(); t > ts && s.size.Load() > 0 {
			best, ts = s, t
		}
	}
	if best == nil || ts < 0 {
		return -1, record.NoTimestamp, record.NoLeaderEpoch, nil
	}
	return best.offsetForTimestamp(best.size.Load(), record.Timestamp(ts), l.StartOffset())
}
