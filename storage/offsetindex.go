package storage

import (
	"encoding/binary"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// offsetIndex is a segment's .index: entries of 8 bytes, the last offset of a
// batch relative to the segment's base (int32, big endian) and the position of
// that batch (int32). It is sparse: an entry each index.interval.bytes of log.
// As the key is the last offset, the batch that holds a wanted offset begins
// at the position of the greatest key at or below it, or later.
type offsetIndex struct {
	base  record.Offset
	table *entryTable
}

const offsetEntryBytes = 8

func newOffsetIndex(fsys vfs.FS, path string, base record.Offset) *offsetIndex {
	return &offsetIndex{base: base, table: &entryTable{size: offsetEntryBytes, fs: fsys, path: path}}
}

// openOffsetIndex is the index of a sealed segment, in a file of this size.
func openOffsetIndex(fsys vfs.FS, path string, base record.Offset, fileSize int64) *offsetIndex {
	x := newOffsetIndex(fsys, path, base)
	x.table.inFile, x.table.durable = true, true
	x.table.n.Store(int32(fileSize / offsetEntryBytes))
	return x
}

func offsetEntryKey(e []byte) int64 { return int64(int32(binary.BigEndian.Uint32(e))) }

func offsetEntryPosition(e []byte) Position { return Position(int32(binary.BigEndian.Uint32(e[4:]))) }

// append adds the entry of a batch. Appender only.
func (x *offsetIndex) append(last record.Offset, pos Position) {
	e := x.table.next()
	binary.BigEndian.PutUint32(e, uint32(last-x.base))
	binary.BigEndian.PutUint32(e[4:], uint32(pos))
	x.table.publish()
}

// lookup gives where to begin looking for the batch that holds an offset:
// zero, or the position of a batch that ends at or before it.
func (x *offsetIndex) lookup(o record.Offset, nowait bool) (Position, error) {
	var pos Position
	_, err := x.table.search(nowait, int64(o-x.base), offsetEntryKey, func(e []byte) { pos = offsetEntryPosition(e) })
	return pos, err
}

// positionAtMost is where the last batch with an entry begins at or before a
// position, zero if there is none. Worker context.
func (x *offsetIndex) positionAtMost(pos Position) (Position, error) {
	var at Position
	_, err := x.table.search(false, int64(pos), func(e []byte) int64 { return int64(offsetEntryPosition(e)) },
		func(e []byte) { at = offsetEntryPosition(e) })
	return at, err
}

// entriesBelow is how many entries are of batches that begin before a position.
func (x *offsetIndex) entriesBelow(pos Position) (int, error) {
	n := 0
	err := x.table.each(0, func(i int, e []byte) bool {
		if offsetEntryPosition(e) >= pos {
			return false
		}
		n = i + 1
		return true
	})
	return n, err
}

// check verifies the order of all entries and that they stay inside a log of
// this size. Worker context.
func (x *offsetIndex) check(logSize int64) error {
	prevKey, prevPos := int64(-1), Position(-1)
	var bad error
	err := x.table.each(0, func(i int, e []byte) bool {
		key, pos := offsetEntryKey(e), offsetEntryPosition(e)
		if key <= prevKey && i > 0 || key < 0 || pos <= prevPos || int64(pos) >= logSize {
			bad = corrupt(x.table.path, int64(i)*offsetEntryBytes, "entry (%d, %d) after (%d, %d) in a log of %d bytes",
				key, pos, prevKey, prevPos, logSize)
			return false
		}
		prevKey, prevPos = key, pos
		return true
	})
	if err == nil {
		err = bad
	}
	return err
}
