package record

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
)

// MaxDecompressed bounds the records of one batch once decompressed, in bytes:
// the default of socket.request.max.bytes, so nothing that a client could have
// sent uncompressed is refused, and a bomb is.
const MaxDecompressed = 104857600

// maxWindow is the largest zstd window accepted, that of zstd's highest
// ordinary level (22).
const maxWindow = 128 << 20

// keepBuffer is the largest decompression buffer that goes back to the pool.
const keepBuffer = 4 << 20

var errTooBig = fmt.Errorf("more than %d bytes", MaxDecompressed)

// Readers and writers carry tables of some 100 KiB, so they are kept.
var (
	bufferPool     = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}
	gzipReaderPool = sync.Pool{New: func() any { return new(gzip.Reader) }}
	lz4ReaderPool  = sync.Pool{New: func() any {
		r := lz4.NewReader(nil)
		// A batch is small: decompressing in goroutines costs more than it gains.
		if err := r.Apply(lz4.ConcurrencyOption(1)); err != nil {
			panic("BUG: lz4 reader refuses an option: " + err.Error())
		}
		return r
	}}
	zstdReader = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(MaxDecompressed), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			panic("BUG: zstd decoder refuses an option: " + err.Error())
		}
		return d
	})
)

// getBuffer takes a pooled buffer for decompressed records.
func getBuffer() *[]byte { return bufferPool.Get().(*[]byte) }

// putBuffer gives it back, unless a huge batch has grown it.
func putBuffer(b *[]byte) {
	if cap(*b) > keepBuffer {
		return
	}
	poison((*b)[:cap(*b)])
	bufferPool.Put(b)
}

// decompress appends the decompressed src to dst, which must be empty; with
// codec None it returns src itself. Worker context.
func decompress(dst, src []byte, codec Codec) ([]byte, error) {
	switch codec {
	case None:
		return src, nil
	case Gzip:
		r := gzipReaderPool.Get().(*gzip.Reader)
		defer gzipReaderPool.Put(r)
		if err := r.Reset(bytes.NewReader(src)); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return readBounded(dst, r, codec)
	case Snappy:
		return decompressSnappy(dst, src)
	case LZ4:
		r := lz4ReaderPool.Get().(*lz4.Reader)
		defer lz4ReaderPool.Put(r)
		r.Reset(bytes.NewReader(src))
		out, err := readBounded(dst, r, codec)
		r.Reset(nil)
		return out, err
	case Zstd:
		out, err := zstdReader().DecodeAll(src, dst)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return nil, errTooBig
		}
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("unknown %v", codec)
}

// readBounded appends all of r to dst, up to MaxDecompressed.
func readBounded(dst []byte, r io.Reader, codec Codec) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst) > MaxDecompressed {
			return nil, errTooBig
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", codec, err)
		}
	}
}

// Defaults of Kafka's compression levels (KIP-390).
const (
	defaultGzipLevel = -1
	defaultLZ4Level  = 9
	defaultZstdLevel = 3
	maxLZ4Level      = 9 // of the library; Kafka's go to 17
)

// lz4Levels maps 0..9 to the library's constants.
var lz4Levels = [maxLZ4Level + 1]lz4.CompressionLevel{lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4,
	lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9}

// compress appends the compressed src to dst. Level 0 is the codec's default;
// levels beyond what a library offers are its nearest. Worker context.
func compress(dst, src []byte, codec Codec, level int) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Snappy:
		return compressSnappy(dst, src), nil
	case Gzip:
		if level == 0 {
			level = defaultGzipLevel
		}
		out := bytes.NewBuffer(dst)
		w, err := gzip.NewWriterLevel(out, min(max(level, flate.HuffmanOnly), flate.BestCompression))
		if err != nil {
			return nil, Errorf(kerr.InvalidConfig, "gzip level %d: %v", level, err)
		}
		return writeAll(out, w, src)
	case LZ4:
		if level == 0 {
			level = defaultLZ4Level
		}
		out := bytes.NewBuffer(dst)
		w := lz4.NewWriter(out)
		// Kafka's reader takes independent blocks, its writer makes 64 KiB ones.
		err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ConcurrencyOption(1),
			lz4.CompressionLevelOption(lz4Levels[min(max(level, 0), maxLZ4Level)]))
		if err != nil {
			return nil, Errorf(kerr.InvalidConfig, "lz4 level %d: %v", level, err)
		}
		return writeAll(out, w, src)
	case Zstd:
		if level == 0 {
			level = defaultZstdLevel
		}
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)))
		if err != nil {
			return nil, Errorf(kerr.InvalidConfig, "zstd level %d: %v", level, err)
		}
		dst = w.EncodeAll(src, dst)
		return dst, w.Close()
	}
	return nil, Errorf(kerr.UnsupportedCompressionType, "unknown %v", codec)
}

func writeAll(out *bytes.Buffer, w io.WriteCloser, src []byte) ([]byte, error) {
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

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
