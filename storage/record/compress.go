package record

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Defaults and bounds of Kafka's compression levels (KIP-390); levels beyond
// what a library offers are its nearest.
const (
	defaultGzipLevel = gzip.DefaultCompression
	defaultLZ4Level  = 9
	defaultZstdLevel = 3
	minGzipLevel     = gzip.HuffmanOnly
	maxLZ4Level      = 9 // of the library; Kafka's go to 17
)

// lz4Levels maps 0..9 to the library's constants.
var lz4Levels = [maxLZ4Level + 1]lz4.CompressionLevel{lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4,
	lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9}

// Writers carry megabytes of tables, so they are kept, by level.
var (
	gzipWriters  [gzip.BestCompression - minGzipLevel + 1]sync.Pool
	lz4Writers   = sync.Pool{New: func() any { return lz4.NewWriter(nil) }}
	zstdEncoders [zstd.SpeedBestCompression + 1]struct {
		once    sync.Once
		encoder *zstd.Encoder
	}
)

// compress appends the compressed src to dst. Level 0 is the codec's default.
// Worker context.
func compress(dst, src []byte, codec Codec, level int) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return compressGzip(dst, src, level)
	case Snappy:
		return compressSnappy(dst, src), nil
	case LZ4:
		return compressLZ4(dst, src, level)
	case Zstd:
		return zstdEncoder(level).EncodeAll(src, dst), nil
	}
	return nil, Errorf(kerr.UnsupportedCompressionType, "unknown %v", codec)
}

func compressGzip(dst, src []byte, level int) ([]byte, error) {
	if level == 0 {
		level = defaultGzipLevel
	}
	level = min(max(level, minGzipLevel), gzip.BestCompression)
	pool := &gzipWriters[level-minGzipLevel]
	out := bytes.NewBuffer(dst)
	w, ok := pool.Get().(*gzip.Writer)
	if !ok {
		var err error
		if w, err = gzip.NewWriterLevel(out, level); err != nil {
			return nil, err
		}
	}
	defer pool.Put(w)
	defer w.Reset(nil)
	w.Reset(out)
	return writeAll(out, w, src)
}

func compressLZ4(dst, src []byte, level int) ([]byte, error) {
	if level == 0 {
		level = defaultLZ4Level
	}
	out := bytes.NewBuffer(dst)
	w := lz4Writers.Get().(*lz4.Writer)
	defer lz4Writers.Put(w)
	defer w.Reset(nil)
	w.Reset(out)
	// Kafka's reader takes independent blocks, its writer makes 64 KiB ones.
	err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ConcurrencyOption(1),
		lz4.CompressionLevelOption(lz4Levels[min(max(level, 0), maxLZ4Level)]))
	if err != nil {
		return nil, err
	}
	return writeAll(out, w, src)
}

// zstdEncoder is the encoder nearest to a level of zstd's; its EncodeAll may be
// called by many at once.
func zstdEncoder(level int) *zstd.Encoder {
	if level == 0 {
		level = defaultZstdLevel
	}
	speed := zstd.EncoderLevelFromZstd(level)
	e := &zstdEncoders[speed]
	e.once.Do(func() {
		var err error
		e.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic("BUG: zstd encoder refuses an option: " + err.Error())
		}
	})
	return e.encoder
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
