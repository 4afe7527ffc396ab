package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	// HeaderSize is the bytes of a magic-2 batch before its records.
	HeaderSize = 61
	// LogOverhead is baseOffset and batchLength, which batchLength leaves out.
	LogOverhead = 12
	// MagicSize is how many bytes reach up to and including the magic byte,
	// which stands in the same place in every version of the format.
	MagicSize = 17
	// Magic is the only version of the format that is stored.
	Magic = 2
)

// Positions in the header; package doc draws them.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57
)

// minLength is the smallest batchLength a whole magic-2 header needs.
const minLength = HeaderSize - LogOverhead

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC32C (Castagnoli) of p, by the CPU's instruction where it
// has one.
func Checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// Codec is the compression of a batch's records.
type Codec int8

// Codecs by their number in the attributes.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// Known reports whether the codec is one of Kafka's.
func (c Codec) Known() bool { return c >= None && c <= Zstd }

func (c Codec) String() string {
	if c.Known() {
		return codecNames[c]
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

// Attributes are the flags of a batch. Bits from 7 on are unused and kept.
type Attributes int16

const (
	codecMask        Attributes = 0x07
	logAppendTimeBit Attributes = 0x08
	transactionalBit Attributes = 0x10
	controlBit       Attributes = 0x20
	deleteHorizonBit Attributes = 0x40
)

// Codec is bits 0 to 2; it may be an unknown one.
func (a Attributes) Codec() Codec { return Codec(a & codecMask) }

// LogAppendTime tells whose clock made the timestamps: with it every record
// has the batch's MaxTimestamp.
func (a Attributes) LogAppendTime() bool { return a&logAppendTimeBit != 0 }

// Transactional batches are held back from read_committed consumers until
// their marker.
func (a Attributes) Transactional() bool { return a&transactionalBit != 0 }

// Control batches hold markers and not users' records.
func (a Attributes) Control() bool { return a&controlBit != 0 }

// HasDeleteHorizon says that BaseTimestamp is a compaction horizon (KIP-534).
func (a Attributes) HasDeleteHorizon() bool { return a&deleteHorizonBit != 0 }

// Batch is a view of one whole magic-2 batch: len(b) == SizeBytes() ≥
// HeaderSize. Its methods do not check that; Policy.Check, ParseHeader and
// Split do. No method copies the bytes.
type Batch []byte

// BaseOffset is the offset of the first record the producer put in.
func (b Batch) BaseOffset() Offset { return Offset(binary.BigEndian.Uint64(b[posBaseOffset:])) }

// LastOffset is the offset of the last record, inclusive; it survives
// compaction.
func (b Batch) LastOffset() Offset { return b.BaseOffset() + Offset(b.LastOffsetDelta()) }

// NextOffset is the first offset after the batch.
func (b Batch) NextOffset() Offset { return b.LastOffset() + 1 }

// LastOffsetDelta is LastOffset − BaseOffset.
func (b Batch) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:]))
}

// SizeBytes is the size of the batch as its length field gives it, header
// included.
func (b Batch) SizeBytes() int {
	return LogOverhead + int(int32(binary.BigEndian.Uint32(b[posLength:])))
}

// LeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) LeaderEpoch() LeaderEpoch {
	return LeaderEpoch(binary.BigEndian.Uint32(b[posLeaderEpoch:]))
}

// Magic is the version of the format.
func (b Batch) Magic() int8 { return int8(b[posMagic]) }

// CRC is the stored checksum of the bytes from the attributes on.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// Attributes are the batch's flags.
func (b Batch) Attributes() Attributes {
	return Attributes(binary.BigEndian.Uint16(b[posAttributes:]))
}

// BaseTimestamp is what the records' timestamp deltas count from.
func (b Batch) BaseTimestamp() Timestamp {
	return Timestamp(binary.BigEndian.Uint64(b[posBaseTimestamp:]))
}

// MaxTimestamp is the largest timestamp of the records, or the append time.
func (b Batch) MaxTimestamp() Timestamp {
	return Timestamp(binary.BigEndian.Uint64(b[posMaxTimestamp:]))
}

// ProducerID is below 0 where the producer is not idempotent.
func (b Batch) ProducerID() ProducerID {
	return ProducerID(binary.BigEndian.Uint64(b[posProducerID:]))
}

// ProducerEpoch goes with ProducerID.
func (b Batch) ProducerEpoch() ProducerEpoch {
	return ProducerEpoch(binary.BigEndian.Uint16(b[posProducerEpoch:]))
}

// BaseSequence is the sequence of the first record, or NoSequence.
func (b Batch) BaseSequence() Sequence {
	return Sequence(binary.BigEndian.Uint32(b[posBaseSequence:]))
}

// LastSequence is the sequence of the last record, wrapped, or NoSequence.
func (b Batch) LastSequence() Sequence {
	s := b.BaseSequence()
	if s == NoSequence {
		return NoSequence
	}
	return s.Add(b.LastOffsetDelta())
}

// Count is how many records the batch holds; after compaction fewer than
// LastOffsetDelta+1, and perhaps none.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[posCount:])) }

// Records are the bytes after the header, compressed if the codec says so.
func (b Batch) Records() []byte { return b[HeaderSize:] }

// SetBaseOffset stamps the offset; it lies outside the CRC.
func (b Batch) SetBaseOffset(o Offset) { binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(o)) }

// SetLeaderEpoch stamps the epoch; it lies outside the CRC.
func (b Batch) SetLeaderEpoch(e LeaderEpoch) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(e))
}

// SetMaxTimestamp sets timestamp type and largest timestamp, and a new CRC if
// that changed anything (DefaultRecordBatch.setMaxTimestamp).
func (b Batch) SetMaxTimestamp(t TimestampType, max Timestamp) {
	a := b.Attributes()
	if t == LogAppendTime {
		a |= logAppendTimeBit
	} else {
		a &^= logAppendTimeBit
	}
	if a == b.Attributes() && max == b.MaxTimestamp() {
		return
	}
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(a))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(max))
	b.updateCRC()
}

// SetLogAppendTime stamps every record with the broker's clock: the attribute
// bit, the largest timestamp and a new CRC.
func (b Batch) SetLogAppendTime(now Timestamp) { b.SetMaxTimestamp(LogAppendTime, now) }

func (b Batch) updateCRC() {
	binary.BigEndian.PutUint32(b[posCRC:], Checksum(b[posAttributes:]))
}

// VerifyCRC reports whether the stored checksum is that of the bytes.
func (b Batch) VerifyCRC() bool { return Checksum(b[posAttributes:]) == b.CRC() }

// String names the batch in logs and test failures.
func (b Batch) String() string {
	if len(b) < HeaderSize {
		return fmt.Sprintf("batch cut to %d bytes", len(b))
	}
	return fmt.Sprintf("batch [%d,%d] epoch %d, %d records, %d bytes, %v, producer %d/%d sequence %d",
		b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), b.Count(), b.SizeBytes(), b.Attributes().Codec(),
		b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
}
