package record

import (
	"encoding/binary"
	"math"
)

// walked is what a walk learns of the records of a batch.
type walked struct {
	minDelta, maxDelta int64 // smallest and largest timestamp delta
	nullKey            bool  // some record has no key
}

// walk checks that p is exactly count ≥ 1 records with offset deltas 0..count−1
// and collects what the policies ask about. It only says yes or no: explain
// finds out what is wrong.
//
// This is the cost of a produced record, so the usual record is decoded here,
// from three 8-byte loads with one- to three-byte varints whose branches
// predict well in a batch of like records, and the offset is compared as it is
// encoded. A record that differs (longer varints, headers, the last bytes of p)
// is parsed by parseRecord; so the quick part may refuse anything, but must
// accept only what parseRecord does.
func walk(p []byte, count int32) (walked, bool) {
	lowest, highest := int64(math.MaxInt64), int64(math.MinInt64)
	nulls := uint64(0)
	pos := 0
	for i := range uint64(count) {
		var delta int64
		quick := false
		for pos <= len(p)-8 {
			x := binary.LittleEndian.Uint64(p[pos:])
			size, n := short(x)
			end := pos + n + int(size>>1)
			if size&1 != 0 || end > len(p) {
				break
			}
			x >>= (8*n + 8) & 63 // the length and the attributes
			stamp, m := short(x)
			x >>= 8 * m & 63
			want, mask, k := expected(i)
			// Bytes that a long length and a long timestamp pushed out of x read
			// as 0, which no expected offset of three bytes ends in.
			if m == 0 || x&mask != want {
				break
			}
			q := pos + n + 1 + m + k
			if q > len(p)-8 {
				break
			}
			key, nk := short(binary.LittleEndian.Uint64(p[q:]))
			q += nk + int(key>>1&(key&1-1))
			if q > len(p)-8 {
				break
			}
			value, nv := short(binary.LittleEndian.Uint64(p[q:]))
			q += nv + int(value>>1&(value&1-1))
			// No headers: a zero, and the record ends there.
			if q+1 != end || p[q] != 0 {
				break
			}
			nulls |= key & 1
			delta = int64(stamp>>1) ^ -int64(stamp&1)
			pos, quick = end, true
			break
		}
		if !quick {
			var r rawRecord
			end, ok := parseRecord(p, pos, &r)
			if !ok || r.offsetDelta != int32(i) {
				return walked{}, false
			}
			delta = r.timestampDelta
			if r.keyLen < 0 {
				nulls = 1
			}
			pos = end
		}
		lowest, highest = min(lowest, delta), max(highest, delta)
	}
	return walked{minDelta: lowest, maxDelta: highest, nullKey: nulls != 0}, pos == len(p)
}

// tooLong is what short says of a longer varint: a number that reaches beyond
// the end of any batch, whether it is a length or not.
const tooLong = 1 << 40

// short decodes an unsigned varint of one to three bytes from the low end of
// x; a longer one gives tooLong.
func short(x uint64) (v uint64, n int) {
	if x&0x80 == 0 {
		return x & 0x7f, 1
	}
	if x&0x8000 == 0 {
		return x&0x7f | x>>1&0x3f80, 2
	}
	if x&0x800000 == 0 {
		return x&0x7f | x>>1&0x3f80 | x>>2&0x1fc000, 3
	}
	return tooLong, 0
}

// expected is the zigzag varint of i as it reads in a little-endian word, the
// mask of its bytes and their number. From 2^20 on nothing matches.
func expected(i uint64) (want, mask uint64, n int) {
	z := i << 1
	if z < 1<<7 {
		return z, 0xff, 1
	}
	if z < 1<<14 {
		return z&0x7f | 0x80 | z>>7<<8, 0xffff, 2
	}
	if z < 1<<21 {
		return z&0x7f | 0x80 | z<<1&0x7f00 | 0x8000 | z>>14<<16, 0xffffff, 3
	}
	return 1, 0, 0
}

// rawRecord is one record as it is framed; slices are positions in the bytes
// that hold it.
type rawRecord struct {
	attributes     int8
	timestampDelta int64
	offsetDelta    int32
	keyPos         int
	keyLen         int32 // −1 or below is null
	valuePos       int
	valueLen       int32
	headerCount    int32
	headersPos     int
	headersEnd     int
}

// parseRecord reads the record at pos of p whatever its form, and returns where
// it ends (DefaultRecord.readFrom).
func parseRecord(p []byte, pos int, r *rawRecord) (end int, ok bool) {
	size, pos := varint(p, pos)
	if pos < 0 || size < 0 || int(size) > len(p)-pos {
		return 0, false
	}
	end = pos + int(size)
	p = p[:end]
	if pos == end {
		return 0, false
	}
	r.attributes = int8(p[pos])
	if r.timestampDelta, pos = varlong(p, pos+1); pos < 0 {
		return 0, false
	}
	if r.offsetDelta, pos = varint(p, pos); pos < 0 {
		return 0, false
	}
	if r.keyPos, r.keyLen, pos = field(p, pos); pos < 0 {
		return 0, false
	}
	if r.valuePos, r.valueLen, pos = field(p, pos); pos < 0 {
		return 0, false
	}
	if r.headerCount, pos = varint(p, pos); pos < 0 || r.headerCount < 0 || int(r.headerCount) > end-pos {
		return 0, false
	}
	r.headersPos = pos
	for range r.headerCount {
		var keyLen int32
		if _, keyLen, pos = field(p, pos); pos < 0 || keyLen < 0 {
			return 0, false
		}
		if _, _, pos = field(p, pos); pos < 0 {
			return 0, false
		}
	}
	r.headersEnd = pos
	return end, pos == end
}

// field reads a length and skips that many bytes: where they begin, how many,
// and where they end, −1 if p does not hold them. A negative length is null.
func field(p []byte, pos int) (start int, n int32, end int) {
	n, start = varint(p, pos)
	if start < 0 {
		return 0, 0, -1
	}
	if n < 0 {
		return start, -1, start
	}
	if int(n) > len(p)-start {
		return 0, 0, -1
	}
	return start, n, start + int(n)
}

// varint reads a zigzag int32 at pos and returns where it ends, −1 if p ends
// first or it does not fit.
func varint(p []byte, pos int) (int32, int) {
	u := uint32(0)
	for shift := 0; pos < len(p); shift += 7 {
		c := p[pos]
		pos++
		if shift == 28 && c > 0x0f {
			return 0, -1
		}
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), pos
		}
	}
	return 0, -1
}

// varlong reads a zigzag int64 at pos and returns where it ends, −1 if p ends
// first or it does not fit.
func varlong(p []byte, pos int) (int64, int) {
	u := uint64(0)
	for shift := 0; pos < len(p); shift += 7 {
		c := p[pos]
		pos++
		if shift == 63 && c > 0x01 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), pos
		}
	}
	return 0, -1
}
