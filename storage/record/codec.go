package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
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
		in := bytes.NewReader(src)
		defer in.Reset(nil) // the pooled reader keeps it, and must not keep the frame
		if err := r.Reset(in); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return readBounded(dst, r, codec)
	case Snappy:
		return decompressSnappy(dst, src)
	case LZ4:
		r := lz4ReaderPool.Get().(*lz4.Reader)
		defer lz4ReaderPool.Put(r)
		defer r.Reset(nil)
		r.Reset(bytes.NewReader(src))
		return readBounded(dst, r, codec)
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
