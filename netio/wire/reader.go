package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DecodeError says where and why a message could not be read.
type DecodeError struct {
	Message  string // "ProduceRequest", "RequestHeader", …
	Version  int16
	Field    string // Kafka's name of the field, with the structs above it: "TopicData.Name"
	Position int    // index, in the bytes given to the decoder, of the length or value that is wrong
	Reason   string
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("%s v%d: field %s at byte %d: %s", e.Message, e.Version, e.Field, e.Position, e.Reason)
}

// errorKind is the reason of a fault, kept as a number until an error is made so
// that the reader stays small.
type errorKind uint8

const (
	faultNone errorKind = iota
	faultTruncated
	faultNull
	faultLength
	faultCount
	faultElements
	faultVarint
	faultTagVersion
	faultTagSize
	faultVersion
)

// reader cuts values out of a message without copying. The first fault sticks:
// from then on every read gives zero values and moves nothing, so that a decoder
// need look only once per element.
type reader struct {
	buf []byte
	pos int

	elements int // of all arrays so far, at most MaxElements

	kind   errorKind
	field  string // of the first fault
	at     int    // position of the first fault
	left   int    // bytes that were unread then
	detail int64  // the length, count or tag that was wrong
}

func (r *reader) ok() bool { return r.kind == faultNone }

// fail notes the first fault; position is where the wrong value starts.
func (r *reader) fail(kind errorKind, field string, position int, detail int64) {
	if r.kind == faultNone {
		r.kind, r.field, r.at, r.left, r.detail = kind, field, position, len(r.buf)-r.pos, detail
	}
}

// fault makes the error of the first fault.
func (r *reader) fault(message string, version int16) error {
	var reason string
	switch r.kind {
	case faultTruncated:
		reason = fmt.Sprintf("needs %d bytes, %d remain", r.detail, r.left)
	case faultNull:
		reason = "null, but the field is not nullable"
	case faultLength:
		reason = fmt.Sprintf("invalid length %d", r.detail)
	case faultCount:
		reason = fmt.Sprintf("count %d is more than the remaining %d bytes can hold", r.detail, r.left)
	case faultElements:
		reason = fmt.Sprintf("count %d makes more than %d elements in one message", r.detail, MaxElements)
	case faultVarint:
		reason = "varint does not fit in 32 bits"
	case faultTagVersion:
		reason = fmt.Sprintf("tag %d does not exist in this version", r.detail)
	case faultTagSize:
		reason = fmt.Sprintf("the tag's size of %d bytes is not that of its content", r.detail)
	case faultVersion:
		reason = "version not served"
	default:
		panic("BUG: wire: an error was asked of a reader without a fault")
	}
	return &DecodeError{Message: message, Version: version, Field: r.field, Position: r.at, Reason: reason}
}

// take cuts the next n bytes; nil after a fault.
func (r *reader) take(n int, field string) []byte {
	if r.kind != faultNone {
		return nil
	}
	if len(r.buf)-r.pos < n {
		r.fail(faultTruncated, field, r.pos, int64(n))
		return nil
	}
	b := r.buf[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return b
}

func (r *reader) int8(field string) int8 {
	if b := r.take(1, field); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int16(field string) int16 {
	if b := r.take(2, field); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32(field string) int32 {
	if b := r.take(4, field); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64(field string) int64 {
	if b := r.take(8, field); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uuid(field string) (id TopicID) {
	if b := r.take(16, field); b != nil {
		id = TopicID(b)
	}
	return id
}

// uvarint reads an unsigned varint of at most 32 bits. Padded encodings (0x80
// 0x00) are accepted, as Kafka does (ByteUtils.readUnsignedVarint).
func (r *reader) uvarint(field string) uint32 {
	if r.kind != faultNone {
		return 0
	}
	if r.pos < len(r.buf) && r.buf[r.pos] < 0x80 {
		r.pos++
		return uint32(r.buf[r.pos-1])
	}
	return r.uvarintSlow(field)
}

func (r *reader) uvarintSlow(field string) uint32 {
	var v uint64
	for i := 0; i < 5; i++ {
		if r.pos+i >= len(r.buf) {
			r.fail(faultTruncated, field, r.pos, int64(i+1))
			return 0
		}
		b := r.buf[r.pos+i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if v > math.MaxUint32 {
				break
			}
			r.pos += i + 1
			return uint32(v)
		}
	}
	r.fail(faultVarint, field, r.pos, 0)
	return 0
}

// length reads a 32-bit or, if compact, varint length or count; below 0 is null,
// to which a varint of 32 bits comes as well, as in Kafka's int.
func (r *reader) length(field string, compact bool) int {
	if compact {
		return int(int32(r.uvarint(field) - 1))
	}
	return int(r.int32(field))
}

// stringLength reads a 16-bit or, if compact, varint length; below 0 is null.
func (r *reader) stringLength(field string, compact bool) int {
	if !compact {
		return int(r.int16(field))
	}
	at := r.pos
	n := r.length(field, true)
	if n > math.MaxInt16 {
		r.fail(faultLength, field, at, int64(n))
		return 0
	}
	return n
}

// string reads a string that must not be null.
func (r *reader) string(field string, compact bool) []byte {
	at := r.pos
	n := r.stringLength(field, compact)
	if n < 0 {
		r.fail(faultNull, field, at, 0)
		return nil
	}
	return r.take(n, field)
}

// nullableString reads a string; nil is null, "" is empty and not nil.
func (r *reader) nullableString(field string, compact bool) []byte {
	n := r.stringLength(field, compact)
	if n < 0 {
		return nil
	}
	return r.take(n, field)
}

// nullableBytes reads bytes or records; nil is null, none is empty and not nil.
func (r *reader) nullableBytes(field string, compact bool) []byte {
	n := r.length(field, compact)
	if n < 0 {
		return nil
	}
	return r.take(n, field)
}

// count reads the count of an array that must not be null and whose elements
// take at least least bytes each.
func (r *reader) count(field string, compact bool, least int) int {
	at := r.pos
	n := r.nullableCount(field, compact, least)
	if n < 0 {
		r.fail(faultNull, field, at, 0)
		return 0
	}
	return n
}

// nullableCount is count for an array that may be null, which is -1.
func (r *reader) nullableCount(field string, compact bool, least int) int {
	at := r.pos
	n := r.length(field, compact)
	switch {
	case !r.ok():
		return 0
	case n < 0:
		return -1
	case n > (len(r.buf)-r.pos)/least:
		r.fail(faultCount, field, at, int64(n))
		return 0
	case n > MaxElements-r.elements:
		r.fail(faultElements, field, at, int64(n))
		return 0
	}
	r.elements += n
	return n
}

// tags reads the number of tagged fields that follow.
func (r *reader) tags(field string) int {
	// Each takes two bytes at least, but the number allocates nothing and the
	// first missing one stops the loop: no bound is needed beyond the buffer's.
	return int(r.uvarint(field))
}

// tag reads the number and size of one tagged field; end is the position behind it.
func (r *reader) tag(field string) (tag uint32, end int) {
	tag = r.uvarint(field)
	at := r.pos
	size := r.uvarint(field)
	if r.ok() && int64(size) > int64(len(r.buf)-r.pos) {
		r.fail(faultTruncated, field, at, int64(size))
	}
	return tag, r.pos + int(size)
}

// requireVersion notes a fault if the version does not have the tag, whose number
// stands at position at.
func (r *reader) requireVersion(has bool, field string, at int, tag uint32) {
	if !has {
		r.fail(faultTagVersion, field, at, int64(tag))
	}
}

// skipTo skips an unknown tagged field that ends at end.
func (r *reader) skipTo(end int) {
	if r.ok() {
		r.pos = end
	}
}

// endTag checks that a known tagged field whose content started at start ended at end.
func (r *reader) endTag(field string, start, end int) {
	if r.ok() && r.pos != end {
		r.fail(faultTagSize, field, start, int64(end-start))
	}
}

// skipTags skips a section of tagged fields of which none is known.
func (r *reader) skipTags(field string) {
	for n := r.tags(field); n > 0 && r.ok(); n-- {
		_, end := r.tag(field)
		r.skipTo(end)
	}
}
