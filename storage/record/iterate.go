package record

import (
	"fmt"
	"iter"
)

// Record is one record of a batch, with offset and timestamp made absolute.
// Key, Value and Headers point into the batch, or into a buffer that lives as
// long as the callback.
type Record struct {
	Attributes     int8 // unused by Kafka
	TimestampDelta int64
	OffsetDelta    int32
	Offset         Offset
	Timestamp      Timestamp
	Key, Value     []byte // nil is null
	Headers        Headers
}

// Headers are the headers of a record as they are framed.
type Headers struct {
	count int32
	raw   []byte
}

// Len is the number of headers.
func (h Headers) Len() int { return int(h.count) }

// All yields the headers in order, key and value; a nil value is null.
func (h Headers) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		pos := 0
		for range h.count {
			var key, value []byte
			key, pos = fieldBytes(h.raw, pos)
			value, pos = fieldBytes(h.raw, pos)
			if !yield(key, value) {
				return
			}
		}
	}
}

// fieldBytes reads a field that parseRecord has passed before.
func fieldBytes(p []byte, pos int) ([]byte, int) {
	start, n, end := field(p, pos)
	if end < 0 {
		panic("BUG: record: headers changed after they were parsed")
	}
	return slice(p, start, n), end
}

// slice is the n bytes at start; a negative n is null.
func slice(p []byte, start int, n int32) []byte {
	if n < 0 {
		return nil
	}
	return p[start : start+int(n) : start+int(n)]
}

// Each calls fn for each record until it returns false. It decompresses where
// it must, at most to MaxDecompressed bytes, so it belongs to a worker. The
// batch's CRC is not verified. The error says what is wrong with the bytes.
func (b Batch) Each(fn func(Record) bool) error {
	codec := b.Attributes().Codec()
	if codec == None {
		return b.each(b.Records(), fn)
	}
	buf := getBuffer()
	defer putBuffer(buf)
	raw, err := decompress((*buf)[:0], b.Records(), codec)
	if err != nil {
		return fmt.Errorf("record: %v does not decompress: %w", b, err)
	}
	*buf = raw
	return b.each(raw, fn)
}

// each iterates the uncompressed records in raw.
func (b Batch) each(raw []byte, fn func(Record) bool) error {
	count := b.Count()
	if count < 0 {
		return fmt.Errorf("record: %v: count below 0", b)
	}
	base, baseTime := b.BaseOffset(), b.BaseTimestamp()
	appendTime, maxTime := b.Attributes().LogAppendTime(), b.MaxTimestamp()
	pos := 0
	var r rawRecord
	for i := range count {
		end, ok := parseRecord(raw, pos, &r)
		if !ok {
			return fmt.Errorf("record: %v: record %d at byte %d of %d is not framed as a record", b, i, pos, len(raw))
		}
		rec := Record{
			Attributes:     r.attributes,
			TimestampDelta: r.timestampDelta,
			OffsetDelta:    r.offsetDelta,
			Offset:         base + Offset(r.offsetDelta),
			Timestamp:      baseTime + Timestamp(r.timestampDelta),
			Key:            slice(raw, r.keyPos, r.keyLen),
			Value:          slice(raw, r.valuePos, r.valueLen),
			Headers:        Headers{count: r.headerCount, raw: raw[r.headersPos:r.headersEnd:r.headersEnd]},
		}
		if appendTime {
			rec.Timestamp = maxTime
		}
		if !fn(rec) {
			return nil
		}
		pos = end
	}
	if pos != len(raw) {
		return fmt.Errorf("record: %v: %d bytes behind its last record", b, len(raw)-pos)
	}
	return nil
}
