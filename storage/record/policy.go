package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// CompressionType is the topic's compression.type: keep what the producer sent,
// or rewrite to one codec.
type CompressionType int8

// The values of compression.type. The zero value keeps the producer's bytes.
const (
	CompressionProducer CompressionType = iota
	CompressionUncompressed
	CompressionGzip
	CompressionSnappy
	CompressionLZ4
	CompressionZstd
)

var compressionTypeNames = [...]string{"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"}

// ParseCompressionType reads the config value.
func ParseCompressionType(s string) (CompressionType, error) {
	for i, name := range compressionTypeNames {
		if s == name {
			return CompressionType(i), nil
		}
	}
	return 0, fmt.Errorf("compression type %q is none of %v", s, compressionTypeNames)
}

func (t CompressionType) String() string {
	if t >= 0 && int(t) < len(compressionTypeNames) {
		return compressionTypeNames[t]
	}
	return fmt.Sprintf("CompressionType(%d)", int8(t))
}

// target is the codec that a batch of codec source is stored in.
func (t CompressionType) target(source Codec) Codec {
	if t == CompressionProducer {
		return source
	}
	return Codec(t - CompressionUncompressed)
}

// Policy is what a topic asks of a producer's batch. It is a value to copy and
// to complete with Now per request or turn.
type Policy struct {
	// MaxMessageBytes is max.message.bytes: the largest batch as it is stored,
	// header included.
	MaxMessageBytes int32
	// Compacted topics refuse records without a key.
	Compacted bool
	// TimestampType is message.timestamp.type. With LogAppendTime, Check stamps
	// the batch with Now.
	TimestampType TimestampType
	// TimestampBeforeMaxMs and TimestampAfterMaxMs bound a CreateTime timestamp
	// to [Now−before, Now+after] (KIP-937).
	TimestampBeforeMaxMs, TimestampAfterMaxMs int64
	// CompressionType is compression.type; CompressionLevel is the level for its
	// codec (KIP-390), 0 the codec's default.
	CompressionType  CompressionType
	CompressionLevel int
	// ValidateCompressed makes Check look into compressed batches always, as
	// Kafka does, and not only where something depends on what is inside.
	ValidateCompressed bool
	// FromClient is set for batches of producers, and clear for those that the
	// broker's own coordinators write: only these may write control batches.
	FromClient bool
	// RefuseZstd is set for Produce below version 7, which predates zstd
	// (KIP-110).
	RefuseZstd bool
	// Now is the broker's clock.
	Now Timestamp
}

// DefaultPolicy is a client's batch under Kafka's default topic configs. Now is
// left to the caller.
func DefaultPolicy() Policy {
	return Policy{
		MaxMessageBytes:      1048588,
		TimestampBeforeMaxMs: math.MaxInt64,
		TimestampAfterMaxMs:  3600000,
		FromClient:           true,
	}
}

// Check validates the records field of one partition of a Produce request as
// Kafka does (ProduceRequest.validateRecords, UnifiedLog's analyzeAndValidate,
// LogValidator.java): there is exactly one batch, of magic 2, not larger than
// allowed, with base offset 0, a true CRC32C, a count that agrees with its
// offset range, no control flag from a client, and records whose framing fills
// the batch exactly, with offsets 0..n, with keys on a compacted topic, and
// timestamps within bounds. The batch is returned as a slice of records; bytes
// behind it that do not make a second batch are left off, as in Kafka.
//
// As Kafka's, Check corrects what it can: MaxTimestamp in the header becomes
// the largest one inside, and on a LogAppendTime topic the batch gets the
// attribute bit and Now; either puts a new CRC. Where compression.type asks
// for another codec, the batch is a new one in memory of its own.
//
// Inside a compressed batch it looks only if NeedsWorker says so; otherwise it
// takes the header's word for count and timestamps.
//
// It is stricter than Kafka in four things that no client does and that would
// harm its consumers: record offsets must be 0..n also when uncompressed, and
// are never renumbered; varints must not overflow their type; a batch that
// claims LogAppendTime is always INVALID_TIMESTAMP; and a transactional batch
// has a producer id. Where Kafka fails with UNKNOWN_SERVER_ERROR (an unknown
// codec, records that do not decompress), the code here says what is wrong.
//
// The error is an *Error with Kafka's code. Nothing is allocated when the batch
// is good and is not decompressed or recompressed.
func (p *Policy) Check(records []byte) (Batch, error) {
	b, err := p.cut(records)
	if err != nil {
		return nil, err
	}
	if err := p.checkHeader(b); err != nil {
		return nil, err
	}
	codec := b.Attributes().Codec()
	switch {
	case p.looksInside(b, codec):
		return p.checkInside(b, codec)
	case codec != None:
		if err := p.checkHeaderTimestamps(b); err != nil {
			return nil, err
		}
		p.stamp(b, b.MaxTimestamp())
		return b, nil
	}
	maxTimestamp, err := p.checkRecords(b, b.Records())
	if err != nil {
		return nil, err
	}
	p.stamp(b, maxTimestamp)
	return b, nil
}

// NeedsWorker reports whether Check would decompress or compress, which takes
// too long for a loop. It may be asked of any bytes.
func (p *Policy) NeedsWorker(records []byte) bool {
	if len(records) < HeaderSize {
		return false
	}
	b := Batch(records)
	codec := b.Attributes().Codec()
	return b.Magic() == Magic && codec.Known() && p.looksInside(b, codec)
}

// looksInside reports whether the answer, or the stored form, depends on more
// than the header and uncompressed records.
func (p *Policy) looksInside(b Batch, codec Codec) bool {
	if p.CompressionType.target(codec) != codec {
		return true
	}
	if codec == None {
		return false
	}
	if p.Compacted || p.ValidateCompressed {
		return true
	}
	// Nor are headers believed that no working client writes: a count of more
	// records than there are compressed bytes would carry the log's offsets away
	// (a batch of 80 bytes over 2^31 of them, and each such batch into a segment
	// of its own), and a largest timestamp below the first the time index.
	return int(b.Count()) > b.SizeBytes()-HeaderSize ||
		p.TimestampType == CreateTime && b.MaxTimestamp() < b.BaseTimestamp()
}

// cut finds the one batch in the records field of a partition.
func (p *Policy) cut(records []byte) (Batch, error) {
	size, err := nextSize(records)
	if err != nil {
		return nil, err
	}
	if size == 0 || size > len(records) {
		return nil, Errorf(kerr.InvalidRecord, "a partition of a produce request must have one whole record batch; its %d bytes have none", len(records))
	}
	if m := int8(records[posMagic]); m != Magic {
		return nil, Errorf(kerr.InvalidRecord, "produce requests are only allowed to contain record batches with magic version 2, not %d", m)
	}
	if size < HeaderSize {
		return nil, Errorf(kerr.CorruptMessage, "record batch is corrupt (the size %d is smaller than the minimum allowed overhead %d)", size, HeaderSize)
	}
	if rest := records[size:]; len(rest) > 0 {
		next, err := nextSize(rest)
		if err != nil {
			return nil, err
		}
		if next != 0 && next <= len(rest) {
			return nil, Errorf(kerr.InvalidRecord, "produce requests are only allowed to contain exactly one record batch per partition")
		}
	}
	return Batch(records[:size:size]), nil
}

// minRecordSize is the overhead of a magic-0 message, the least that any batch
// length may be (LegacyRecord.RECORD_OVERHEAD_V0).
const minRecordSize = 14

// nextSize is the size of the batch that begins at p, 0 if p is too short to
// tell (ByteBufferLogInputStream.nextBatchSize).
func nextSize(p []byte) (int, error) {
	if len(p) < LogOverhead {
		return 0, nil
	}
	length := int32(binary.BigEndian.Uint32(p[posLength:]))
	if length < minRecordSize {
		return 0, Errorf(kerr.CorruptMessage, "record size %d is less than the minimum record overhead (%d)", length, minRecordSize)
	}
	if len(p) < MagicSize {
		return 0, nil
	}
	if m := int8(p[posMagic]); m < 0 || m > Magic {
		return 0, Errorf(kerr.CorruptMessage, "invalid magic found in record: %d", m)
	}
	return LogOverhead + int(length), nil
}

// checkHeader checks all that can be told without the records, and the CRC.
func (p *Policy) checkHeader(b Batch) error {
	a := b.Attributes()
	codec := a.Codec()
	if !codec.Known() {
		return Errorf(kerr.UnsupportedCompressionType, "unknown compression type id: %d", codec)
	}
	if codec == Zstd && p.RefuseZstd {
		return Errorf(kerr.UnsupportedCompressionType, "produce requests below version 7 are not allowed to use ZStandard compression")
	}
	if p.FromClient && b.BaseOffset() != 0 {
		return Errorf(kerr.InvalidRecord, "the baseOffset of the record batch should be 0, but it is %d", b.BaseOffset())
	}
	if len(b) > int(p.MaxMessageBytes) {
		return tooLarge(len(b), p.MaxMessageBytes)
	}
	if !b.VerifyCRC() {
		return Errorf(kerr.CorruptMessage, "record is corrupt (stored crc = %d, computed crc = %d)", b.CRC(), Checksum(b[posAttributes:]))
	}
	count := b.Count()
	if !p.FromClient {
		// An empty batch keeps a producer's state after compaction.
		if count < 0 || b.LastOffsetDelta() < 0 {
			return Errorf(kerr.InvalidRecord, "invalid reported count %d or last offset delta %d", count, b.LastOffsetDelta())
		}
		return nil
	}
	return p.checkClientHeader(b, a, count)
}

func tooLarge(size int, limit int32) error {
	return Errorf(kerr.MessageTooLarge, "the record batch size is %d bytes which exceeds the maximum configured value of %d", size, limit)
}

// checkClientHeader is LogValidator.validateBatch for AppendOrigin.CLIENT.
func (p *Policy) checkClientHeader(b Batch, a Attributes, count int32) error {
	delta := b.LastOffsetDelta()
	hasProducer := b.ProducerID() > NoProducerID
	switch {
	case delta < 0:
		return Errorf(kerr.InvalidRecord, "batch has an invalid offset range: [0, %d]", delta)
	case count <= 0:
		return Errorf(kerr.InvalidRecord, "invalid reported count for record batch: %d", count)
	case int64(delta)+1 != int64(count):
		return Errorf(kerr.InvalidRecord, "inconsistent batch offset range [0, %d] and count of records %d", delta, count)
	case a.Control():
		return Errorf(kerr.InvalidRecord, "clients are not allowed to write control records")
	case hasProducer && b.BaseSequence() < 0:
		return Errorf(kerr.InvalidRecord, "invalid sequence number %d in record batch with producerId %d", b.BaseSequence(), b.ProducerID())
	case a.Transactional() && !hasProducer:
		return Errorf(kerr.InvalidRecord, "transactional record batch without a producerId")
	case a.LogAppendTime():
		return Errorf(kerr.InvalidTimestamp, "invalid timestamp type: producer should not set timestamp type to LogAppendTime")
	}
	return nil
}

// checkRecords walks the uncompressed records of b and returns their largest
// timestamp.
func (p *Policy) checkRecords(b Batch, raw []byte) (Timestamp, error) {
	count := b.Count()
	if count == 0 {
		if len(raw) != 0 {
			return 0, Errorf(kerr.InvalidRecord, "incorrect declared batch size, records still remaining in file")
		}
		return b.MaxTimestamp(), nil
	}
	w, ok := walk(raw, count)
	if !ok || p.Compacted && w.nullKey || !p.quickTimes(b.BaseTimestamp(), &w) {
		return p.explain(b, raw)
	}
	return max(b.BaseTimestamp()+Timestamp(w.maxDelta), NoTimestamp), nil
}

// quickTimes reports that the smallest and the largest timestamp vouch for all
// between. They do not where a sum overflows, nor where some records have no
// timestamp and others do; then each must be looked at.
func (p *Policy) quickTimes(base Timestamp, w *walked) bool {
	lowest, highest := base+Timestamp(w.minDelta), base+Timestamp(w.maxDelta)
	if (lowest < base) != (w.minDelta < 0) || (highest < base) != (w.maxDelta < 0) {
		return false
	}
	if p.TimestampType != CreateTime || lowest == NoTimestamp && highest == NoTimestamp {
		return true
	}
	return p.inTime(lowest) && p.inTime(highest)
}

// inTime is LogValidator.recordHasInvalidTimestamp, with Java's wrapping sums.
func (p *Policy) inTime(t Timestamp) bool {
	diff := int64(p.Now - t)
	return diff <= p.TimestampBeforeMaxMs && -diff <= p.TimestampAfterMaxMs
}

// checkHeaderTimestamps holds the timestamps of a compressed batch's header to
// the bounds: those of its first record and of its latest.
func (p *Policy) checkHeaderTimestamps(b Batch) error {
	if p.TimestampType != CreateTime {
		return nil
	}
	for _, t := range [2]Timestamp{b.BaseTimestamp(), b.MaxTimestamp()} {
		if t != NoTimestamp && !p.inTime(t) {
			return Errorf(kerr.InvalidTimestamp, "timestamp %d of the record batch is out of range. The timestamp should be within [%d, %d]",
				t, int64(p.Now)-p.TimestampBeforeMaxMs, int64(p.Now)+p.TimestampAfterMaxMs)
		}
	}
	return nil
}

// stamp puts the timestamp type and the largest timestamp into the header.
func (p *Policy) stamp(b Batch, maxTimestamp Timestamp) {
	if p.TimestampType == LogAppendTime {
		maxTimestamp = p.Now
	}
	b.SetMaxTimestamp(p.TimestampType, maxTimestamp)
}

// checkInside decompresses, checks the records and puts them into the topic's
// codec where that is another. Worker context.
func (p *Policy) checkInside(b Batch, codec Codec) (Batch, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	raw, err := decompress((*buf)[:0], b.Records(), codec)
	if err == errTooBig {
		// The Java producer answers this code by splitting the batch.
		return nil, Errorf(kerr.MessageTooLarge, "the records decompress to %v", err)
	}
	if err != nil {
		return nil, Errorf(kerr.InvalidRecord, "the records do not decompress: %v", err)
	}
	if codec != None {
		*buf = raw // keep what grew
	}
	maxTimestamp, err := p.checkRecords(b, raw)
	if err != nil {
		return nil, err
	}
	// Kafka leaves control batches uncompressed.
	if target := p.CompressionType.target(codec); target != codec && !b.Attributes().Control() {
		b, err = recompress(b, raw, target, p.CompressionLevel)
		if err != nil {
			return nil, Errorf(kerr.UnknownServerError, "the records do not compress with %v: %v", target, err)
		}
		if len(b) > int(p.MaxMessageBytes) {
			return nil, tooLarge(len(b), p.MaxMessageBytes)
		}
	}
	p.stamp(b, maxTimestamp)
	return b, nil
}

// recompress is b with raw, its records uncompressed, in another codec. The
// framing inside is the same, so nothing but the attributes, the length and the
// CRC changes.
func recompress(b Batch, raw []byte, target Codec, level int) (Batch, error) {
	out := make([]byte, HeaderSize, HeaderSize+len(raw)/2)
	copy(out, b[:HeaderSize])
	out, err := compress(out, raw, target, level)
	if err != nil {
		return nil, err
	}
	nb := Batch(out)
	finish(nb, b.Attributes()&^codecMask|Attributes(target))
	return nb, nil
}

// finish writes length, attributes and CRC of a batch whose records are in
// place.
func finish(b Batch, a Attributes) {
	binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-LogOverhead))
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(a))
	b.updateCRC()
}
