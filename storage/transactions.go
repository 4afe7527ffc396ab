package storage

import (
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/storage/record"
)

// openTxn is a transaction that has begun in this log.
type openTxn struct {
	producer record.ProducerID
	first    record.Offset
	last     record.Offset // of its marker, −1 while it is open
}

// transactions are those that hold the last stable offset back: open ones, and
// ended ones whose marker is not yet below the high watermark. Both are in the
// order of their first offsets.
type transactions struct {
	mu           sync.Mutex // held for memory accesses only
	open         []openTxn
	unreplicated []openTxn

	firstUnstable atomic.Int64 // offset + 1, 0 for none
	waiting       atomic.Int32 // len(unreplicated)

	changed           bool // since begin
	savedOpen, savedU []openTxn
}

// publish makes firstUnstable say what the lists say. Caller holds mu.
func (t *transactions) publish() {
	first := int64(0)
	if len(t.open) > 0 {
		first = int64(t.open[0].first) + 1
	}
	if len(t.unreplicated) > 0 {
		if u := int64(t.unreplicated[0].first) + 1; first == 0 || u < first {
			first = u
		}
	}
	t.firstUnstable.Store(first)
	t.waiting.Store(int32(len(t.unreplicated)))
}

func (t *transactions) save(recording bool) {
	if recording && !t.changed {
		t.changed = true
		t.savedOpen = append(t.savedOpen[:0], t.open...)
		t.savedU = append(t.savedU[:0], t.unreplicated...)
	}
}

// start notes a transaction that begins past all others.
func (t *transactions) start(id record.ProducerID, first record.Offset, recording bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.save(recording)
	t.open = append(t.open, openTxn{id, first, -1})
	t.publish()
}

// insert notes an open transaction from a snapshot, in order.
func (t *transactions) insert(id record.ProducerID, first record.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = insertTxn(t.open, openTxn{id, first, -1})
	t.publish()
}

func insertTxn(list []openTxn, x openTxn) []openTxn {
	i := len(list)
	for i > 0 && list[i-1].first > x.first {
		i--
	}
	list = append(list, openTxn{})
	copy(list[i+1:], list[i:])
	list[i] = x
	return list
}

// end moves a transaction to those that wait for the high watermark.
func (t *transactions) end(c completed, recording bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.save(recording)
	for i, o := range t.open {
		if o.first == c.first {
			t.open = append(t.open[:i], t.open[i+1:]...)
			break
		}
	}
	t.unreplicated = insertTxn(t.unreplicated, openTxn{c.producer, c.first, c.last})
	t.publish()
}

// stableAfter is the last stable offset for the index entry of a transaction
// that has just ended: the first offset of an open one, or past the marker.
func (t *transactions) stableAfter(c completed) record.Offset {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) > 0 {
		return t.open[0].first
	}
	return c.last + 1
}

// replicated lets go of the ended transactions whose markers are below hw.
func (t *transactions) replicated(hw record.Offset) {
	if t.waiting.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.unreplicated[:0]
	for _, u := range t.unreplicated {
		if u.last >= hw {
			kept = append(kept, u)
		}
	}
	t.unreplicated = kept
	t.publish()
}

func (t *transactions) begin() { t.changed = false }

func (t *transactions) rollback() {
	if !t.changed {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = append(t.open[:0], t.savedOpen...)
	t.unreplicated = append(t.unreplicated[:0], t.savedU...)
	t.changed = false
	t.publish()
}

func (t *transactions) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open, t.unreplicated, t.changed = nil, nil, false
	t.publish()
}
