package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }
func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

func appendUvarint(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// uvarintSize is the number of bytes that appendUvarint appends.
func uvarintSize(v uint32) int {
	n := 1
	for v >= 0x80 {
		n++
		v >>= 7
	}
	return n
}

// appendLength appends the length of bytes or the count of an array; -1 is null.
func appendLength(dst []byte, n int, compact bool) []byte {
	if n > math.MaxInt32-1 {
		panic(fmt.Sprintf("BUG: wire: length %d does not fit in an int32", n))
	}
	if compact {
		return appendUvarint(dst, uint32(n+1))
	}
	return appendInt32(dst, int32(n))
}

func appendStringLength(dst []byte, n int, compact bool) []byte {
	if n > math.MaxInt16 {
		panic(fmt.Sprintf("BUG: wire: a string of %d bytes is too long", n))
	}
	if compact {
		return appendUvarint(dst, uint32(n+1))
	}
	return appendInt16(dst, int16(n))
}

// bytesOrString lets names be slices of a frame and messages be strings.
type bytesOrString interface{ ~[]byte | ~string }

// appendString appends a string that is never null; nil bytes are the empty one.
func appendString[S bytesOrString](dst []byte, s S, compact bool) []byte {
	dst = appendStringLength(dst, len(s), compact)
	return append(dst, s...)
}

// appendNullableString appends a string; nil is null.
func appendNullableString(dst, s []byte, compact bool) []byte {
	if s == nil {
		return appendStringLength(dst, -1, compact)
	}
	return appendString(dst, s, compact)
}

// appendMessage appends a nullable string of which "" is null.
func appendMessage(dst []byte, s string, compact bool) []byte {
	if s == "" {
		return appendStringLength(dst, -1, compact)
	}
	return appendString(dst, s, compact)
}

// appendNullableBytes appends bytes or records; nil is null.
func appendNullableBytes(dst, b []byte, compact bool) []byte {
	if b == nil {
		return appendLength(dst, -1, compact)
	}
	dst = appendLength(dst, len(b), compact)
	return append(dst, b...)
}

// appendNoTags appends an empty section of tagged fields where there is one.
func appendNoTags(dst []byte, flexible bool) []byte {
	if flexible {
		return append(dst, 0)
	}
	return dst
}

// appendTag appends the number and the content's size of a tagged field.
func appendTag(dst []byte, tag, size uint32) []byte {
	return appendUvarint(appendUvarint(dst, tag), size)
}

// countTags is the number of tagged fields that are written.
func countTags(a, b, c bool) byte {
	var n byte
	if a {
		n++
	}
	if b {
		n++
	}
	if c {
		n++
	}
	return n
}

// appendTopic appends a topic's id or name, whichever the version has.
func appendTopic(dst, name []byte, id *TopicID, byID, flexible bool) []byte {
	if byID {
		return append(dst, id[:]...)
	}
	return appendString(dst, name, flexible)
}
