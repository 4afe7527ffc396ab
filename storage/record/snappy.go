package record

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/snappy"
)

// Java's snappy streams (xerial's SnappyOutputStream) are blocks behind a
// header: magic, version and lowest compatible version, then for each block its
// length, big-endian, and the block. C clients send one bare block.
const (
	xerialMagic      = "\x82SNAPPY\x00"
	xerialHeaderSize = len(xerialMagic) + 8
	xerialBlockSize  = 32 << 10
)

var xerialHeader = append([]byte(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)

func decompressSnappy(dst, src []byte) ([]byte, error) {
	if !bytes.HasPrefix(src, []byte(xerialMagic)) {
		return snappyBlock(dst, src)
	}
	var err error
	for len(src) > 0 {
		// Streams one behind another each bring a header.
		if bytes.HasPrefix(src, []byte(xerialMagic)) {
			if len(src) < xerialHeaderSize {
				return nil, fmt.Errorf("snappy: stream header cut short")
			}
			src = src[xerialHeaderSize:]
			continue
		}
		if len(src) < 4 {
			return nil, fmt.Errorf("snappy: block length cut short")
		}
		n := int(int32(uint32(src[0])<<24 | uint32(src[1])<<16 | uint32(src[2])<<8 | uint32(src[3])))
		if n < 0 || n > len(src)-4 {
			return nil, fmt.Errorf("snappy: block of %d bytes in %d", n, len(src)-4)
		}
		if dst, err = snappyBlock(dst, src[4:4+n]); err != nil {
			return nil, err
		}
		src = src[4+n:]
	}
	return dst, nil
}

// snappyBlock appends one decompressed block.
func snappyBlock(dst, src []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return nil, fmt.Errorf("snappy: %w", err)
	}
	if n > MaxDecompressed-len(dst) {
		return nil, errTooBig
	}
	dst = growBy(dst, n)
	out, err := snappy.Decode(dst[len(dst):len(dst)+n], src)
	if err != nil {
		return nil, fmt.Errorf("snappy: %w", err)
	}
	return dst[:len(dst)+len(out)], nil
}

func compressSnappy(dst, src []byte) []byte {
	dst = append(dst, xerialHeader...)
	for len(src) > 0 {
		block := src[:min(len(src), xerialBlockSize)]
		src = src[len(block):]
		dst = growBy(dst, 4+snappy.MaxEncodedLen(len(block)))
		out := snappy.Encode(dst[len(dst)+4:cap(dst)], block)
		n := len(out)
		dst = append(dst, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
		dst = dst[:len(dst)+n]
	}
	return dst
}

// growBy makes room for n bytes behind p.
func growBy(p []byte, n int) []byte {
	if cap(p)-len(p) >= n {
		return p
	}
	return append(p, make([]byte, n)...)[:len(p)]
}
