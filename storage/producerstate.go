package storage

import (
	"math"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/posthouse/posthouse/storage/record"
)

// producerBatches is how many of a producer's latest batches are remembered,
// Kafka's NUM_BATCHES_TO_RETAIN: a client has at most five in flight.
const producerBatches = 5

// batchMeta is what is remembered of a batch.
type batchMeta struct {
	lastOffset record.Offset
	timestamp  record.Timestamp // the batch's greatest
	lastSeq    record.Sequence
	delta      int32 // last offset − first offset
}

func batchMetaOf(h *record.Header) batchMeta {
	return batchMeta{lastOffset: h.LastOffset(), timestamp: h.MaxTimestamp, lastSeq: h.LastSequence(), delta: h.LastOffsetDelta}
}

func (b batchMeta) firstOffset() record.Offset { return b.lastOffset - record.Offset(b.delta) }

func (b batchMeta) firstSeq() record.Sequence {
	if b.lastSeq < record.Sequence(b.delta) { // wrapped inside the batch
		return record.Sequence(math.MaxInt32 - (int64(b.delta) - int64(b.lastSeq)) + 1)
	}
	return b.lastSeq - record.Sequence(b.delta)
}

// producerEntry is the state of one producer id in one partition, Kafka's
// ProducerStateEntry. It has no pointers, so the collector skips all of them.
type producerEntry struct {
	id               record.ProducerID
	lastTimestamp    record.Timestamp
	txnFirstOffset   record.Offset // of the open transaction, −1 for none
	coordinatorEpoch int32         // −1 until a marker came
	older, newer     int32         // neighbours in order of use, −1 at the ends
	epoch            record.ProducerEpoch
	n                int8 // batches in use, oldest first
	batches          [producerBatches]batchMeta
}

func (e *producerEntry) last() *batchMeta { return &e.batches[e.n-1] }

func (e *producerEntry) lastSeq() record.Sequence {
	if e.n == 0 {
		return record.NoSequence
	}
	return e.last().lastSeq
}

// setEpoch forgets the batches of an older epoch.
func (e *producerEntry) setEpoch(epoch record.ProducerEpoch) {
	if e.epoch != epoch {
		e.epoch, e.n = epoch, 0
	}
}

func (e *producerEntry) addBatch(epoch record.ProducerEpoch, m batchMeta) {
	e.setEpoch(epoch)
	if e.n == producerBatches {
		copy(e.batches[:], e.batches[1:])
		e.n--
	}
	e.batches[e.n] = m
	e.n++
	e.lastTimestamp = m.timestamp
}

// duplicateOf finds the batch with exactly this sequence range.
func (e *producerEntry) duplicateOf(epoch record.ProducerEpoch, first, last record.Sequence) *batchMeta {
	if e.epoch != epoch {
		return nil
	}
	for i := range e.batches[:e.n] {
		if b := &e.batches[i]; b.lastSeq == last && b.firstSeq() == first {
			return b
		}
	}
	return nil
}

// producerState is what one log knows of its idempotent and transactional
// producers: Kafka's ProducerStateManager and ProducerAppendInfo. The log's
// appender owns it (l.mu), except for txns, which have a lock of their own.
//
// Changes are made in place, batch by batch, so that two batches of one
// producer in one call are judged one after the other; begin starts a list of
// what they replaced, commit forgets the list and rollback puts it back when
// the write failed.
type producerState struct {
	index   map[record.ProducerID]int32 // into entries
	entries []producerEntry
	free    []int32
	oldest  int32 // ends of the list in order of use, −1 if empty
	newest  int32
	limit   int          // producers remembered at most
	count   atomic.Int64 // len(index), for whoever does not hold the lock

	txns transactions

	// partial says that entries came from a snapshot, with their last batch
	// alone; see Log.fillWindows.
	partial bool

	undo      []undoEntry
	recording bool
}

// undoEntry is an entry as it was before the call that may be rolled back.
type undoEntry struct {
	entry   producerEntry
	created bool // it was not there
}

const defaultProducerLimit = 100_000

func newProducerState(limit int) *producerState {
	if limit <= 0 {
		limit = defaultProducerLimit
	}
	return &producerState{oldest: -1, newest: -1, limit: limit}
}

func (s *producerState) len() int { return len(s.index) }

func (s *producerState) find(id record.ProducerID) *producerEntry {
	if i, ok := s.index[id]; ok {
		return &s.entries[i]
	}
	return nil
}

// check judges a batch before its offsets are known: Kafka's order of
// findDuplicateBatch, checkProducerEpoch, checkSequence and the rule about
// plain writes inside a transaction. A repeat gives the original's metadata.
func (s *producerState) check(b record.Batch, fromClient bool) (*batchMeta, error) {
	e := s.find(b.ProducerID())
	if e == nil {
		return nil, nil
	}
	epoch, attrs := b.ProducerEpoch(), b.Attributes()
	if fromClient {
		if d := e.duplicateOf(epoch, b.BaseSequence(), b.LastSequence()); d != nil {
			return d, nil
		}
	}
	if epoch < e.epoch {
		return nil, record.Errorf(kerr.InvalidProducerEpoch, "Epoch of producer %d is %d, which is smaller than the last seen epoch %d",
			e.id, epoch, e.epoch)
	}
	if attrs.Control() {
		return nil, s.checkMarker(e, b)
	}
	if fromClient {
		if err := e.checkSequence(epoch, b.BaseSequence()); err != nil {
			return nil, err
		}
	}
	if e.txnFirstOffset >= 0 && !attrs.Transactional() {
		return nil, record.Errorf(kerr.InvalidTxnState, "Expected transactional write from producer %d", e.id)
	}
	return nil, nil
}

func (s *producerState) checkMarker(e *producerEntry, b record.Batch) error {
	m, ok, err := b.EndTxnMarker()
	if err != nil {
		return record.Errorf(kerr.InvalidRecord, "%v", err)
	}
	if ok && e.coordinatorEpoch > m.CoordinatorEpoch {
		return record.Errorf(kerr.TransactionCoordinatorFenced, "Invalid coordinator epoch for producer %d: %d (zombie), %d (current)",
			e.id, m.CoordinatorEpoch, e.coordinatorEpoch)
	}
	return nil
}

// checkSequence is ProducerAppendInfo.checkSequence (KIP-98, KIP-360).
func (e *producerEntry) checkSequence(epoch record.ProducerEpoch, first record.Sequence) error {
	if e.epoch == record.NoProducerEpoch {
		return nil // only expired or deleted records are known: any sequence goes
	}
	if epoch != e.epoch {
		if first != 0 {
			return record.Errorf(kerr.OutOfOrderSequenceNumber, "Invalid sequence number for new epoch of producer %d: %d (request epoch), %d (seq. number), %d (current producer epoch)",
				e.id, epoch, first, e.epoch)
		}
		return nil
	}
	last := e.lastSeq()
	if int64(first) == int64(last)+1 || first == 0 && last == math.MaxInt32 {
		return nil
	}
	return record.Errorf(kerr.OutOfOrderSequenceNumber, "Out of order sequence number for producer %d: %d (incoming seq. number), %d (current end sequence number)",
		e.id, first, last)
}

// completed is a transaction that a marker ended.
type completed struct {
	producer record.ProducerID
	first    record.Offset
	last     record.Offset
	aborted  bool
}

// apply takes a stamped batch that has a producer id into the state. An ended
// transaction is returned for the transaction index.
func (s *producerState) apply(h *record.Header, m record.EndTxnMarker, isMarker bool) (completed, bool) {
	if h.Attributes.Control() && !isMarker {
		return completed{}, false // cleaned down to an empty batch
	}
	e := s.touch(h.ProducerID)
	if !isMarker {
		e.addBatch(h.ProducerEpoch, batchMetaOf(h))
		if e.txnFirstOffset < 0 && h.Attributes.Transactional() {
			e.txnFirstOffset = h.BaseOffset
			s.txns.start(h.ProducerID, h.BaseOffset, s.recording)
		}
		return completed{}, false
	}
	var done completed
	ended := e.txnFirstOffset >= 0
	if ended {
		done = completed{producer: h.ProducerID, first: e.txnFirstOffset, last: h.BaseOffset, aborted: m.Type == record.ControlAbort}
		s.txns.end(done, s.recording)
	}
	e.setEpoch(h.ProducerEpoch)
	e.coordinatorEpoch, e.lastTimestamp, e.txnFirstOffset = m.CoordinatorEpoch, h.MaxTimestamp, -1
	return done, ended
}

// touch gives a producer's entry, made if need be, noted for the rollback and
// moved to the newest end.
func (s *producerState) touch(id record.ProducerID) *producerEntry {
	i, ok := s.index[id]
	if !ok {
		i = s.insert(producerEntry{id: id, epoch: record.NoProducerEpoch, lastTimestamp: record.NoTimestamp, txnFirstOffset: -1, coordinatorEpoch: -1})
	}
	if s.recording {
		s.undo = append(s.undo, undoEntry{entry: s.entries[i], created: !ok})
	}
	if s.newest != i {
		s.unlink(i)
		s.link(i)
	}
	return &s.entries[i]
}

// insert adds an entry at the newest end, at the expense of the oldest one
// where the limit is met. A producer with an open transaction is kept: without
// it the last stable offset would be wrong.
func (s *producerState) insert(e producerEntry) int32 {
	if s.index == nil {
		s.index = map[record.ProducerID]int32{}
	}
	if len(s.index) >= s.limit {
		for i := s.oldest; i >= 0; i = s.entries[i].newer {
			if s.entries[i].txnFirstOffset < 0 {
				s.remove(i)
				break
			}
		}
	}
	var i int32
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
		s.entries[i] = e
	} else {
		i = int32(len(s.entries))
		s.entries = append(s.entries, e)
	}
	s.index[e.id] = i
	s.count.Store(int64(len(s.index)))
	s.link(i)
	return i
}

func (s *producerState) link(i int32) {
	e := &s.entries[i]
	e.older, e.newer = s.newest, -1
	if s.newest >= 0 {
		s.entries[s.newest].newer = i
	} else {
		s.oldest = i
	}
	s.newest = i
}

func (s *producerState) unlink(i int32) {
	e := &s.entries[i]
	if e.older >= 0 {
		s.entries[e.older].newer = e.newer
	} else {
		s.oldest = e.newer
	}
	if e.newer >= 0 {
		s.entries[e.newer].older = e.older
	} else {
		s.newest = e.older
	}
}

func (s *producerState) remove(i int32) {
	s.unlink(i)
	delete(s.index, s.entries[i].id)
	s.count.Store(int64(len(s.index)))
	s.free = append(s.free, i)
}

// begin starts a call that may be rolled back.
func (s *producerState) begin() {
	s.undo, s.recording = s.undo[:0], true
	s.txns.begin()
}

// commit makes what was applied since begin final.
func (s *producerState) commit() {
	s.undo, s.recording = s.undo[:0], false
}

// rollback restores the state at begin. A producer that was evicted for a new
// one meanwhile stays away: it had been idle longest.
func (s *producerState) rollback() {
	for k := len(s.undo) - 1; k >= 0; k-- {
		u := &s.undo[k]
		i, ok := s.index[u.entry.id]
		if !ok {
			continue
		}
		if u.created {
			s.remove(i)
			continue
		}
		older, newer := s.entries[i].older, s.entries[i].newer
		s.entries[i] = u.entry
		s.entries[i].older, s.entries[i].newer = older, newer
	}
	s.undo, s.recording = s.undo[:0], false
	s.txns.rollback()
}

// expire forgets producers that wrote nothing for so long, and gives their
// number. Those with an open transaction stay.
func (s *producerState) expire(now record.Timestamp, idleMs int64) int {
	n := 0
	for i := s.oldest; i >= 0; {
		next := s.entries[i].newer
		if s.entries[i].txnFirstOffset < 0 && int64(now-s.entries[i].lastTimestamp) >= idleMs {
			s.remove(i)
			n++
		}
		i = next
	}
	return n
}

// reset forgets everything.
func (s *producerState) reset() {
	s.index, s.entries, s.free, s.oldest, s.newest = nil, nil, nil, -1, -1
	s.count.Store(0)
	s.undo, s.recording, s.partial = s.undo[:0], false, false
	s.txns.reset()
}
