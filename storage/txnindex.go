package storage

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"sync"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// AbortedTxn is an aborted transaction: an entry of a transaction index, and
// what a Fetch under read_committed tells of it.
type AbortedTxn struct {
	ProducerID       record.ProducerID
	FirstOffset      record.Offset
	LastOffset       record.Offset // of the abort marker
	LastStableOffset record.Offset // when the marker was written
}

// txnIndex is a segment's .txnindex: the transactions whose abort markers lie
// in the segment, in the order of the markers. 34 bytes an entry: version
// (int16, 0), producer id, first offset, last offset, last stable offset
// (int64 each). Few segments have any, so those that do keep them in memory;
// the file exists only if there are entries.
type txnIndex struct {
	fs   vfs.FS
	path string

	mu      sync.Mutex // held for memory accesses only
	entries []AbortedTxn
	dirty   bool
	writing sync.Mutex // serialises workers that write the file
}

const (
	txnEntryBytes   = 34
	txnEntryVersion = 0
)

func newTxnIndex(fsys vfs.FS, path string) *txnIndex { return &txnIndex{fs: fsys, path: path} }

// load reads the file.
func (x *txnIndex) load() error {
	data, err := x.fs.ReadFile(x.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := parseTxnIndex(x.path, data)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.entries, x.dirty = entries, false
	x.mu.Unlock()
	return nil
}

func parseTxnIndex(name string, data []byte) ([]AbortedTxn, error) {
	var out []AbortedTxn
	last := record.Offset(-1)
	for pos := 0; pos < len(data); pos += txnEntryBytes {
		e := data[pos:]
		if len(e) < txnEntryBytes {
			return nil, corrupt(name, int64(pos), "%d bytes after the last entry", len(e))
		}
		if v := binary.BigEndian.Uint16(e); v != txnEntryVersion {
			return nil, corrupt(name, int64(pos), "version %d, known is %d", v, txnEntryVersion)
		}
		t := AbortedTxn{
			ProducerID:       record.ProducerID(binary.BigEndian.Uint64(e[2:])),
			FirstOffset:      record.Offset(binary.BigEndian.Uint64(e[10:])),
			LastOffset:       record.Offset(binary.BigEndian.Uint64(e[18:])),
			LastStableOffset: record.Offset(binary.BigEndian.Uint64(e[26:])),
		}
		if t.LastOffset <= last || t.FirstOffset > t.LastOffset {
			return nil, corrupt(name, int64(pos), "transaction [%d, %d] after offset %d", t.FirstOffset, t.LastOffset, last)
		}
		last = t.LastOffset
		out = append(out, t)
	}
	return out, nil
}

func formatTxnIndex(entries []AbortedTxn) []byte {
	out := make([]byte, 0, len(entries)*txnEntryBytes)
	for _, t := range entries {
		out = binary.BigEndian.AppendUint16(out, txnEntryVersion)
		out = binary.BigEndian.AppendUint64(out, uint64(t.ProducerID))
		out = binary.BigEndian.AppendUint64(out, uint64(t.FirstOffset))
		out = binary.BigEndian.AppendUint64(out, uint64(t.LastOffset))
		out = binary.BigEndian.AppendUint64(out, uint64(t.LastStableOffset))
	}
	return out
}

func (x *txnIndex) append(t AbortedTxn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries = append(x.entries, t)
	x.dirty = true
}

// truncate forgets the transactions whose markers are at or past an offset.
func (x *txnIndex) truncate(to record.Offset) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for n := len(x.entries); n > 0 && x.entries[n-1].LastOffset >= to; n-- {
		x.entries = x.entries[:n-1]
		x.dirty = true
	}
}

// collect appends to dst the transactions that overlap [from, to). done says
// that no later segment can have more, as one of these was stable past to.
func (x *txnIndex) collect(dst []AbortedTxn, from, to record.Offset) (_ []AbortedTxn, done bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range x.entries {
		if t.LastOffset >= from && t.FirstOffset < to {
			dst = append(dst, t)
		}
		if t.LastStableOffset >= to {
			return dst, true
		}
	}
	return dst, false
}

// write brings the file up to the entries, durably. Worker context.
func (x *txnIndex) write() error {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	dirty, data := x.dirty, formatTxnIndex(x.entries)
	x.dirty = false
	x.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := x.fs.WriteFileAtomic(x.path, data); err != nil {
		x.mu.Lock()
		x.dirty = true
		x.mu.Unlock()
		return err
	}
	return nil
}
