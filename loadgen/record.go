package loadgen

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/posthouse/posthouse/storage/record"
)

// varintSize is the bytes of a zigzag varint.
func varintSize(v int64) int {
	return (bits.Len64(uint64(v<<1^v>>63)|1) + 6) / 7
}

// recordSize is the bytes of a record at place i of its batch; a key of -1
// bytes is null.
func recordSize(i, keyBytes, valueBytes int) int {
	n := 1 + 1 + varintSize(int64(i)) + varintSize(int64(keyBytes)) + max(keyBytes, 0) + varintSize(int64(valueBytes)) + valueBytes + 1
	return n + varintSize(int64(n))
}

// appendRecord writes a record of the batch's own timestamp without headers,
// up to and including the value's length; the value and a zero byte follow.
func appendRecordHead(dst []byte, i int, key []byte, valueBytes int) []byte {
	keyBytes := int64(-1)
	if key != nil {
		keyBytes = int64(len(key))
	}
	length := 1 + 1 + varintSize(int64(i)) + varintSize(keyBytes) + len(key) + varintSize(int64(valueBytes)) + valueBytes + 1
	dst = binary.AppendVarint(dst, int64(length))
	dst = append(dst, 0, 0) // attributes, timestamp delta
	dst = binary.AppendVarint(dst, int64(i))
	dst = binary.AppendVarint(dst, keyBytes)
	dst = append(dst, key...)
	return binary.AppendVarint(dst, int64(valueBytes))
}

// values is a pool of bytes that record values are cut from.
type values struct{ pool []byte }

const valuePoolBytes = 4 << 20

// newValues fills the pool so that the given share of it compresses away.
func newValues(rng *rand.Rand, largest int, compressibility float64) *values {
	const block = 64
	v := &values{pool: make([]byte, valuePoolBytes+largest)}
	random := int(block * (1 - compressibility))
	var bytes [block]byte
	for at := 0; at < len(v.pool); at += block {
		for i := 0; i < block; i += 8 {
			binary.LittleEndian.PutUint64(bytes[i:], rng.Uint64())
		}
		copy(v.pool[at:], bytes[:random])
	}
	return v
}

// at is a value of n bytes. Those of neighbouring numbers lie far apart, so that
// a batch compresses no better than its values do.
func (v *values) at(number uint64, n int) []byte {
	start := number * 2_654_435_761 % valuePoolBytes
	return v.pool[start : start+uint64(n)]
}

// draw is a size from the distribution.
func (s *Sizes) draw(rng *rand.Rand) int {
	switch s.kind {
	case "uniform":
		return s.low + rng.IntN(s.high-s.low+1)
	case "normal":
		low, high := s.bounds()
		return min(max(int(rng.NormFloat64()*s.sd+s.mean), low), high)
	case "mix":
		var sum float64
		for _, w := range s.mix {
			sum += w.weight
		}
		at := rng.Float64() * sum
		for _, w := range s.mix {
			if at -= w.weight; at < 0 {
				return w.size
			}
		}
		return s.mix[len(s.mix)-1].size
	}
	return s.low
}

// stamp is what e2e and verify write at the start of a value.
//
//	0 run 8 · 8 intended 8 · 16 stream 4 · 20 number 8 · 28 checksum 4
type stamp struct {
	run      uint64
	intended int64  // ns since the run began
	stream   uint32 // producer and partition
	number   uint64 // of the record in its stream, from zero
}

// put writes s over the first stampBytes of value, with a checksum of all the
// rest where checked.
func (s *stamp) put(value []byte, checked bool) {
	binary.LittleEndian.PutUint64(value, s.run)
	binary.LittleEndian.PutUint64(value[8:], uint64(s.intended))
	binary.LittleEndian.PutUint32(value[16:], s.stream)
	binary.LittleEndian.PutUint64(value[20:], s.number)
	var sum uint32
	if checked {
		sum = valueChecksum(value)
	}
	binary.LittleEndian.PutUint32(value[28:], sum)
}

func valueChecksum(value []byte) uint32 {
	const at = stampBytes - 4
	return record.Checksum(value[:at]) ^ bits.RotateLeft32(record.Checksum(value[stampBytes:]), 7)
}

// readStamp reads the stamp of a value of this run.
func readStamp(value []byte, run uint64) (s stamp, ours bool) {
	if len(value) < stampBytes || binary.LittleEndian.Uint64(value) != run {
		return s, false
	}
	return stamp{
		run:      run,
		intended: int64(binary.LittleEndian.Uint64(value[8:])),
		stream:   binary.LittleEndian.Uint32(value[16:]),
		number:   binary.LittleEndian.Uint64(value[20:]),
	}, true
}

// intact says whether a stamped value is as it was written.
func intact(value []byte) bool {
	return binary.LittleEndian.Uint32(value[28:]) == valueChecksum(value)
}

// eachValue calls fn with offset and value of every record of a batch, in
// order. Uncompressed batches are walked in place: record.Batch.Each would
// allocate for each batch.
func eachValue(b record.Batch, fn func(offset record.Offset, value []byte)) error {
	base := b.BaseOffset()
	if b.Attributes().Codec() != record.None {
		return b.Each(func(r record.Record) bool {
			fn(base+record.Offset(r.OffsetDelta), r.Value)
			return true
		})
	}
	p := b.Records()
	for i := range b.Count() {
		length, n := binary.Varint(p)
		if n <= 0 || length < 0 || length > int64(len(p)-n) {
			return fmt.Errorf("record %d of batch at offset %d: bad length", i, base)
		}
		body := p[n : n+int(length)]
		p = p[n+int(length):]
		delta, value, ok := cutValue(body)
		if !ok {
			return fmt.Errorf("record %d of batch at offset %d: bad framing", i, base)
		}
		fn(base+record.Offset(delta), value)
	}
	return nil
}

// cutValue reads offset delta and value of a record without its length.
func cutValue(p []byte) (delta int64, value []byte, ok bool) {
	if len(p) < 1 {
		return 0, nil, false
	}
	p = p[1:]
	var fields [3]int64 // timestamp delta, offset delta, key length
	for i := range fields {
		v, n := binary.Varint(p)
		if n <= 0 {
			return 0, nil, false
		}
		fields[i] = v
		p = p[n:]
	}
	if key := fields[2]; key > 0 {
		if key > int64(len(p)) {
			return 0, nil, false
		}
		p = p[key:]
	}
	size, n := binary.Varint(p)
	if n <= 0 || size > int64(len(p)-n) {
		return 0, nil, false
	}
	return fields[1], p[n : n+int(max(size, 0))], true
}

// cutKeyValue reads key and value of a record of ours, without its length.
func cutKeyValue(p []byte) (key, value []byte) {
	p = p[2:] // attributes, timestamp delta of zero
	_, n := binary.Varint(p)
	p = p[n:]
	size, n := binary.Varint(p)
	p = p[n:]
	if size >= 0 {
		key, p = p[:size], p[size:]
	}
	size, n = binary.Varint(p)
	return key, p[n : n+int(size)]
}
