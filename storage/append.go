package storage

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/posthouse/posthouse/storage/record"
)

// Append is one producer batch on its way into the log. The first three fields
// go in, the rest comes out.
type Append struct {
	Batch      record.Batch     // validated by record.Policy; offsets and epoch are stamped into it
	FromClient bool             // sequences are checked; false for coordinators' batches and markers
	AppendTime record.Timestamp // now, for topics with LogAppendTime

	Err       error
	Duplicate bool // a repeat: the offsets are the original's and nothing was written
	// BaseOffset and LastOffset are where the batch is, both inclusive.
	BaseOffset, LastOffset record.Offset
	// LogAppendTime is NoTimestamp under CreateTime; of a repeat it is the
	// original's greatest timestamp, as in Kafka's UnifiedLog.append.
	LogAppendTime  record.Timestamp
	LogStartOffset record.Offset
}

// appendCall is the scratch of one call of an append: what has been stamped
// but not written yet. All slices are reused.
type appendCall struct {
	buffers [][]byte
	headers []record.Header
	group   []*Append // those whose fate is that of the write; repeats of unwritten batches too
	bounds  []boundary
	aborted []AbortedTxn
	next    record.Offset // the next batch's
	bytes   int64
}

// reset empties the scratch without keeping the callers' memory alive.
func (c *appendCall) reset(next record.Offset) {
	clear(c.buffers)
	clear(c.group)
	c.buffers, c.headers, c.group = c.buffers[:0], c.headers[:0], c.group[:0]
	c.bounds, c.aborted = c.bounds[:0], c.aborted[:0]
	c.next, c.bytes = next, 0
}

// AppendAsLeader appends batches in order: it checks sequences (KIP-98,
// KIP-360), stamps offsets and the epoch, writes everything that passed with
// one pwritev for each segment, and then publishes the new end. Each Append
// carries its own outcome. A write that fails or comes short is cut back to the
// published end, fails what it was to carry and all that follows in the call
// with KAFKA_STORAGE_ERROR, and leaves no trace in the producer state. One
// caller at a time.
func (l *Log) AppendAsLeader(epoch record.LeaderEpoch, appends []*Append) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil {
		for _, a := range appends {
			a.Err = err
		}
		return
	}
	c := &l.call
	c.reset(l.EndOffset())
	if epoch > l.epochs.latest() && l.epochs.assign(epoch, c.next) {
		l.exec.Submit(l.writeEpochs)
	}
	l.producers.begin()
	cfg := l.Config()
	for i, a := range appends {
		*a = Append{Batch: a.Batch, FromClient: a.FromClient, AppendTime: a.AppendTime,
			BaseOffset: -1, LastOffset: -1, LogAppendTime: record.NoTimestamp, LogStartOffset: l.StartOffset()}
		if err := l.stage(cfg, epoch, a); err != nil {
			failFrom(appends[i:], err)
			break
		}
	}
	// What is staged fails or succeeds by its own outcome in the Appends.
	_ = l.flushCall(cfg)
}

// failFrom gives all of them an error.
func failFrom(appends []*Append, err error) {
	for _, a := range appends {
		a.Err = err
	}
}

// ready says whether the log takes appends, and readies it after a start.
func (l *Log) ready() error {
	if l.Err() != nil {
		return storageError()
	}
	if l.closed {
		return record.Errorf(kerr.UnknownTopicOrPartition, "%v: %v", l.tp, errClosed)
	}
	if !l.warm.Load() {
		if err := l.active().warm(l.EndOffset()); err != nil {
			l.logger.Error("opening the active segment failed", "dir", l.dir, "err", err)
			return storageError()
		}
		l.fillWindows()
		l.warm.Store(true)
	}
	l.dirty = true
	return nil
}

// Cold says that the next append would have to open files and read, as after a
// start or a long idle time: it is then one for a worker. Lock-free.
func (l *Log) Cold() bool {
	return !l.warm.Load() || l.active().file.open.Load() == nil
}

// WarmUp does what Cold says is to be done, without an append. Worker context,
// as the one caller that may append: others would wait for it.
func (l *Log) WarmUp() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil {
		return err
	}
	h, err := l.active().file.acquire(false)
	if err != nil {
		l.logger.Error("opening the active segment failed", "dir", l.dir, "err", err)
		return storageError()
	}
	h.release()
	return nil
}

// storageError is the answer to a client for trouble with files. What exactly
// it was is in our own log; clients print the message, and the names of our
// files are none of their business.
func storageError() error {
	return record.Errorf(kerr.KafkaStorageError, "The log of this partition cannot be written at present.")
}

// stage judges and stamps one batch and puts it behind those that wait to be
// written, rolling first if it must. An error is a failed write of what waited.
func (l *Log) stage(cfg *LogConfig, epoch record.LeaderEpoch, a *Append) error {
	b, c := a.Batch, &l.call
	if int64(len(b)) > int64(cfg.SegmentBytes) {
		a.Err = record.Errorf(kerr.RecordListTooLarge, "batch of %d bytes is larger than segment.bytes %d", len(b), cfg.SegmentBytes)
		return nil
	}
	if b.ProducerID() > record.NoProducerID {
		dup, err := l.producers.check(b, a.FromClient)
		if err != nil {
			a.Err = err
			return nil
		}
		if dup != nil {
			a.Duplicate, a.BaseOffset, a.LastOffset, a.LogAppendTime = true, dup.firstOffset(), dup.lastOffset, dup.timestamp
			if a.LastOffset >= l.EndOffset() {
				c.group = append(c.group, a)
			}
			return nil
		}
	}
	if cfg.TimestampType == record.LogAppendTime && !b.Attributes().Control() {
		b.SetLogAppendTime(a.AppendTime)
		a.LogAppendTime = a.AppendTime
	}
	if err := l.rollIfDue(cfg, c.next+record.Offset(b.LastOffsetDelta()), b.MaxTimestamp(), len(b)); err != nil {
		return err
	}
	b.SetBaseOffset(c.next)
	b.SetLeaderEpoch(epoch)
	h, err := record.ParseHeader(b)
	if err != nil {
		panic(fmt.Sprintf("BUG: %v: a validated batch has a bad header: %v", l.tp, err))
	}
	a.BaseOffset, a.LastOffset = h.BaseOffset, h.LastOffset()
	c.group = append(c.group, a)
	l.put(b, &h)
	return nil
}

// put adds a stamped batch to the write and to the producer state.
func (l *Log) put(b record.Batch, h *record.Header) {
	c := &l.call
	if h.ProducerID > record.NoProducerID {
		// A marker that cannot be read ends nothing; check has refused it from
		// whoever can still be told.
		m, isMarker, _ := b.EndTxnMarker()
		if done, ended := l.producers.apply(h, m, isMarker); ended && done.aborted {
			c.aborted = append(c.aborted, AbortedTxn{done.producer, done.first, done.last, l.producers.txns.stableAfter(done)})
		}
	}
	c.buffers = append(c.buffers, b)
	c.headers = append(c.headers, *h)
	c.bytes += int64(len(b))
	c.next = h.NextOffset()
	c.bounds = append(c.bounds, boundary{c.next, Position(l.active().size.Load() + c.bytes)})
}

// flushCall writes what waits to the active segment and publishes it.
func (l *Log) flushCall(cfg *LogConfig) error {
	c := &l.call
	if len(c.buffers) == 0 {
		l.producers.commit()
		c.reset(c.next)
		return nil
	}
	s := l.active()
	if l.write(s) != nil {
		l.manager.counts.appendFailures.Add(1)
		err := storageError()
		l.producers.rollback()
		failFrom(c.group, err)
		for _, a := range c.group {
			a.Duplicate, a.BaseOffset, a.LastOffset = false, -1, -1
		}
		c.reset(l.EndOffset())
		return err
	}
	pos := Position(s.size.Load())
	for i := range c.headers {
		h := &c.headers[i]
		s.note(pos, h.LastOffset(), h.MaxTimestamp, h.SizeBytes, cfg.IndexIntervalBytes)
		pos += Position(h.SizeBytes)
	}
	for _, t := range c.aborted {
		s.txns.append(t)
	}
	s.ring.Load().push(c.bounds)
	s.size.Store(int64(pos))
	l.end.Store(int64(c.next))
	l.producers.commit()
	c.reset(c.next)
	l.ahead.extend(s)
	l.behind.advance(s)
	l.producers.begin()
	return nil
}

// write puts the waiting buffers at the end of a segment. After a failure the
// file is cut back to what is published; a file that cannot even be cut takes
// the log offline, since what lies past its end could come back to life.
func (l *Log) write(s *segment) error {
	h, err := s.file.acquire(false)
	if err != nil {
		l.logger.Error("append failed", "dir", l.dir, "segment", s.base, "err", err)
		return err
	}
	defer h.release()
	c := &l.call
	at := s.size.Load()
	if n := l.ahead.zeros(s, at, c.bytes); n > 0 {
		c.buffers = append(c.buffers, zeroStep[:n])
	}
	n, err := h.file.WritevAt(c.buffers, at)
	if int64(n) >= c.bytes {
		return nil // a full disk may have cut the zeros short
	}
	if err == nil {
		err = fmt.Errorf("%s: wrote %d of %d bytes at %d", h.file.Name(), n, c.bytes, at)
	}
	l.logger.Error("append failed", "file", h.file.Name(), "position", at, "bytes", c.bytes, "written", n, "err", err)
	s.alloc.end.Store(at) // the cut frees what was reserved too
	s.alloc.step = at
	if cutErr := h.file.Truncate(at); cutErr != nil && n > 0 {
		l.fail(fmt.Errorf("cutting back a failed append: %w", cutErr))
	}
	return err
}

// AppendAsFollower appends what a leader sent: whole batches with their
// offsets and epochs. It rebuilds the producer state on the way. The error
// names why nothing, or nothing from some batch on, was appended; what the end
// offset covers was. One caller at a time.
func (l *Log) AppendAsFollower(records []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil {
		return err
	}
	c := &l.call
	c.reset(l.EndOffset())
	l.producers.begin()
	cfg := l.Config()
	newEpoch := false
	for len(records) > 0 {
		b, rest, err := record.Split(records)
		if err == record.ErrShort || err == record.ErrEnd {
			break // a cut batch at the end is legal
		}
		if err == nil && !b.VerifyCRC() {
			err = record.Errorf(kerr.CorruptMessage, "batch at offset %d has a bad CRC", b.BaseOffset())
		}
		if err == nil && b.BaseOffset() < c.next {
			err = fmt.Errorf("%v: batch at offset %d is below the end %d", l.tp, b.BaseOffset(), c.next)
		}
		if err == nil {
			err = l.rollIfDue(cfg, b.LastOffset(), b.MaxTimestamp(), len(b))
		}
		if err != nil {
			if flushErr := l.flushCall(cfg); flushErr != nil {
				return flushErr
			}
			return err
		}
		h, err := record.ParseHeader(b)
		if err != nil {
			panic("BUG: a batch that was split off has a bad header: " + err.Error())
		}
		if l.epochs.assign(h.LeaderEpoch, h.BaseOffset) {
			newEpoch = true
		}
		l.put(b, &h)
		records = rest
	}
	err := l.flushCall(cfg)
	if newEpoch {
		if err != nil {
			l.epochs.truncateSuffix(l.EndOffset())
		}
		l.exec.Submit(l.writeEpochs)
	}
	return err
}

// writeEpochs is the job that makes epochs durable which an append brought.
// Recovery finds them in the batches as well, so a failure is not the end.
func (l *Log) writeEpochs() {
	if err := l.onFiles(l.epochs.write); err != nil && err != errClosed {
		l.logger.Warn("writing leader epochs failed", "dir", l.dir, "err", err)
	}
}

// overflows says that an offset is too far from a segment's base for its
// indexes.
func overflows(s *segment, last record.Offset) bool { return last-s.base > math.MaxInt32 }
