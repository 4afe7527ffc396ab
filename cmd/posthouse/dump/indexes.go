package dump

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
)

const (
	offsetEntryBytes = 8
	timeEntryBytes   = 12
)

// indexEntry is one of an offset or a time index; what does not apply is zero.
type indexEntry struct {
	at        int64 // byte in the file
	offset    record.Offset
	position  int64
	timestamp record.Timestamp
}

// readIndex cuts a file into entries of a size. Zeros to the end are reserved
// and no entries: a broker that runs, or was killed, leaves them.
func readIndex(r *report, path string, data []byte, size int, parse func(e []byte) indexEntry) []indexEntry {
	used := len(data)
	for used > 0 && data[used-1] == 0 {
		used--
	}
	used = (used + size - 1) / size * size
	if rest := len(data) % size; rest != 0 && used > len(data)-rest {
		r.problem(path, int64(len(data)-rest), "%d bytes after the last whole entry", rest)
		used = len(data) - rest
	}
	var entries []indexEntry
	for at := 0; at+size <= min(used, len(data)); at += size {
		e := parse(data[at : at+size])
		e.at = int64(at)
		entries = append(entries, e)
	}
	return entries
}

func offsetEntries(r *report, path string, data []byte, base record.Offset) []indexEntry {
	return readIndex(r, path, data, offsetEntryBytes, func(e []byte) indexEntry {
		return indexEntry{offset: base + record.Offset(int32(binary.BigEndian.Uint32(e))), position: int64(int32(binary.BigEndian.Uint32(e[4:])))}
	})
}

func timeEntries(r *report, path string, data []byte, base record.Offset) []indexEntry {
	return readIndex(r, path, data, timeEntryBytes, func(e []byte) indexEntry {
		return indexEntry{timestamp: record.Timestamp(binary.BigEndian.Uint64(e)), offset: base + record.Offset(int32(binary.BigEndian.Uint32(e[8:])))}
	})
}

// rising checks that entries are in order.
func rising(r *report, path string, entries []indexEntry, isTime bool) {
	for i := 1; i < len(entries); i++ {
		a, b := entries[i-1], entries[i]
		if isTime {
			if b.timestamp <= a.timestamp || b.offset < a.offset {
				r.problem(path, b.at, "entry (time %d, offset %d) after (%d, %d)", b.timestamp, b.offset, a.timestamp, a.offset)
			}
		} else if b.offset <= a.offset || b.position <= a.position {
			r.problem(path, b.at, "entry (offset %d, position %d) after (%d, %d)", b.offset, b.position, a.offset, a.position)
		}
	}
}

// indexes are those of one segment, held against its batches as they go by.
type indexes struct {
	r                             *report
	offsetPath, timePath, txnPath string
	offsets, times                []indexEntry
	txns                          []storage.AbortedTxn
	aborts                        map[record.Offset]record.ProducerID
	newest                        record.Timestamp // of the batches that went by
}

// openIndexes reads the indexes beside a segment; those that are missing are
// left out, a broker makes them again.
func openIndexes(r *report, segment string, base record.Offset) *indexes {
	stem := strings.TrimSuffix(segment, ".log")
	x := &indexes{r: r, offsetPath: stem + ".index", timePath: stem + ".timeindex", txnPath: stem + ".txnindex",
		aborts: map[record.Offset]record.ProducerID{}, newest: record.NoTimestamp}
	if base < 0 {
		return x
	}
	if data, ok := x.read(x.offsetPath); ok {
		x.offsets = offsetEntries(r, x.offsetPath, data, base)
		rising(r, x.offsetPath, x.offsets, false)
	}
	if data, ok := x.read(x.timePath); ok {
		x.times = timeEntries(r, x.timePath, data, base)
		rising(r, x.timePath, x.times, true)
	}
	if data, ok := x.read(x.txnPath); ok {
		var err error
		if x.txns, err = storage.InspectTxnIndex(x.txnPath, data); err != nil {
			r.failure(x.txnPath, err)
		}
	}
	return x
}

func (x *indexes) read(path string) ([]byte, bool) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	x.r.files++
	x.r.bytes += int64(len(data))
	if err != nil {
		x.r.failure(path, err)
		return nil, false
	}
	return data, true
}

// batch holds the entries up to the end of a batch against it.
func (x *indexes) batch(b record.Batch, position int64) {
	for len(x.offsets) > 0 && x.offsets[0].position <= position {
		e := x.offsets[0]
		x.offsets = x.offsets[1:]
		if e.position < position {
			x.r.problem(x.offsetPath, e.at, "no batch begins at byte %d of the segment", e.position)
		} else if e.offset != b.LastOffset() {
			x.r.problem(x.offsetPath, e.at, "the batch at byte %d ends at offset %d, the entry says %d", e.position, b.LastOffset(), e.offset)
		}
	}
	for len(x.times) > 0 && x.times[0].offset <= b.LastOffset() {
		e := x.times[0]
		x.times = x.times[1:]
		switch {
		case e.offset < b.BaseOffset():
			x.r.problem(x.timePath, e.at, "no batch holds offset %d", e.offset)
		case e.timestamp < x.newest:
			x.r.problem(x.timePath, e.at, "a batch before offset %d has the timestamp %d, the entry says that none is greater than %d", e.offset, x.newest, e.timestamp)
		case e.timestamp != b.MaxTimestamp():
			x.r.problem(x.timePath, e.at, "the batch of offset %d has the timestamp %d, the entry says %d", e.offset, b.MaxTimestamp(), e.timestamp)
		}
	}
	x.newest = max(x.newest, b.MaxTimestamp())
	if m, ok, err := b.EndTxnMarker(); err == nil && ok && m.Type == record.ControlAbort {
		x.aborts[b.LastOffset()] = b.ProducerID()
	}
}

// finish complains of entries that no batch belongs to.
func (x *indexes) finish(size int64) {
	for _, e := range x.offsets {
		x.r.problem(x.offsetPath, e.at, "entry of byte %d of a segment of %d bytes", e.position, size)
	}
	for _, e := range x.times {
		x.r.problem(x.timePath, e.at, "entry of offset %d, which is past the end of the segment", e.offset)
	}
	for i, t := range x.txns {
		if id, ok := x.aborts[t.LastOffset]; !ok || id != t.ProducerID {
			x.r.problem(x.txnPath, int64(i)*txnEntryBytes, "producer %d has no abort marker at offset %d", t.ProducerID, t.LastOffset)
		}
	}
}

const txnEntryBytes = 34
