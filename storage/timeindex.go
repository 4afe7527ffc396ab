package storage

import (
	"encoding/binary"
	"math"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// timeIndex is a segment's .timeindex: entries of 12 bytes, a timestamp
// (int64, ms) and an offset relative to the segment's base (int32). An entry
// says: no record before the batch that ends at this offset, and none in it,
// has a greater timestamp. Timestamps increase strictly.
type timeIndex struct {
	base  record.Offset
	table *entryTable
	// last is the greatest timestamp in the index. Appender only; unknown
	// (math.MinInt64) until loadLast for an index that came from a file.
	last record.Timestamp
}

const timeEntryBytes = 12

func newTimeIndex(fsys vfs.FS, path string, base record.Offset) *timeIndex {
	return &timeIndex{base: base, last: record.NoTimestamp, table: &entryTable{size: timeEntryBytes, fs: fsys, path: path}}
}

// openTimeIndex is the index of a sealed segment, in a file of this size.
func openTimeIndex(fsys vfs.FS, path string, base record.Offset, fileSize int64) *timeIndex {
	x := newTimeIndex(fsys, path, base)
	x.table.inFile, x.table.durable = true, true
	x.table.n.Store(int32(fileSize / timeEntryBytes))
	x.last = math.MinInt64
	return x
}

func timeEntryKey(e []byte) int64 { return int64(binary.BigEndian.Uint64(e)) }

func (x *timeIndex) entryOffset(e []byte) record.Offset {
	return x.base + record.Offset(int32(binary.BigEndian.Uint32(e[8:])))
}

// maybeAppend adds an entry if its timestamp is greater than the last.
// Appender only.
func (x *timeIndex) maybeAppend(ts record.Timestamp, last record.Offset) {
	if ts <= x.last || last < x.base || last-x.base > math.MaxInt32 {
		return
	}
	e := x.table.next()
	binary.BigEndian.PutUint64(e, uint64(ts))
	binary.BigEndian.PutUint32(e[8:], uint32(last-x.base))
	x.table.publish()
	x.last = ts
}

// lookup gives an offset that the first record with a timestamp of at least ts
// does not precede.
func (x *timeIndex) lookup(ts record.Timestamp) (record.Offset, error) {
	o := x.base
	_, err := x.table.search(false, int64(ts), timeEntryKey, func(e []byte) { o = x.entryOffset(e) })
	return o, err
}

// lastEntry is the greatest timestamp and its offset, or (-1, base) of an
// empty index. Worker context.
func (x *timeIndex) lastEntry() (record.Timestamp, record.Offset, error) {
	ts, o := record.NoTimestamp, x.base
	_, err := x.table.search(false, math.MaxInt64, timeEntryKey, func(e []byte) {
		ts, o = record.Timestamp(timeEntryKey(e)), x.entryOffset(e)
	})
	return ts, o, err
}

// check verifies the order of all entries. Worker context.
func (x *timeIndex) check() error {
	prev := int64(math.MinInt64)
	var bad error
	err := x.table.each(0, func(i int, e []byte) bool {
		if ts, o := timeEntryKey(e), x.entryOffset(e); ts <= prev || o < x.base {
			bad = corrupt(x.table.path, int64(i)*timeEntryBytes, "entry (%d, %d) after timestamp %d", ts, o, prev)
			return false
		} else {
			prev = ts
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return err
}

// entriesBelow is how many entries name offsets below o.
func (x *timeIndex) entriesBelow(o record.Offset) (int, error) {
	n := 0
	err := x.table.each(0, func(i int, e []byte) bool {
		if x.entryOffset(e) >= o {
			return false
		}
		n = i + 1
		return true
	})
	return n, err
}
