package record

import (
	"encoding/binary"
	"math"
)

// RecordHeader is one header to build; a nil value is null.
type RecordHeader struct {
	Key   string
	Value []byte
}

// Builder makes batches for tests, tools and the broker's own records. It is
// not for the produce path, which never builds one.
type Builder struct {
	raw                []byte
	base               Timestamp
	max                Timestamp
	count              int32
	nextDelta          int32
	offset             Offset
	epoch              LeaderEpoch
	producer           ProducerID
	producerEpoch      ProducerEpoch
	sequence           Sequence
	flags              Attributes
	level              int
	lastDelta          int32 // −1 where it follows from the records
	timestampOfAppends Timestamp
}

// NewBuilder begins a batch as a producer without idempotence sends it: base
// offset 0, no leader epoch.
func NewBuilder() *Builder {
	return &Builder{
		base: NoTimestamp, max: NoTimestamp, epoch: NoLeaderEpoch,
		producer: NoProducerID, producerEpoch: NoProducerEpoch, sequence: NoSequence, lastDelta: -1,
	}
}

// At sets the base offset and the leader epoch, as a log has them.
func (b *Builder) At(offset Offset, epoch LeaderEpoch) *Builder {
	b.offset, b.epoch = offset, epoch
	return b
}

// Producer sets the idempotent producer and the sequence of the first record.
func (b *Builder) Producer(id ProducerID, epoch ProducerEpoch, base Sequence) *Builder {
	b.producer, b.producerEpoch, b.sequence = id, epoch, base
	return b
}

// Transactional marks the batch as part of a transaction.
func (b *Builder) Transactional() *Builder {
	b.flags |= transactionalBit
	return b
}

// Control marks the batch as one of markers.
func (b *Builder) Control() *Builder {
	b.flags |= controlBit
	return b
}

// AppendedAt gives all records the broker's time.
func (b *Builder) AppendedAt(now Timestamp) *Builder {
	b.flags |= logAppendTimeBit
	b.timestampOfAppends = now
	return b
}

// Level sets the compression level; 0 is the codec's default.
func (b *Builder) Level(level int) *Builder {
	b.level = level
	return b
}

// LastOffsetDelta sets where the batch's offset range ends, behind the last
// record, as compaction leaves it.
func (b *Builder) LastOffsetDelta(delta int32) *Builder {
	b.lastDelta = delta
	return b
}

// Add appends a record with the next offset delta. A nil key or value is null.
func (b *Builder) Add(t Timestamp, key, value []byte, headers ...RecordHeader) *Builder {
	return b.AddDelta(b.nextDelta, t, key, value, headers...)
}

// AddDelta appends a record with an offset delta of choice.
func (b *Builder) AddDelta(delta int32, t Timestamp, key, value []byte, headers ...RecordHeader) *Builder {
	if b.count == 0 {
		b.base = t
	}
	var body []byte
	body = append(body, 0)
	body = binary.AppendVarint(body, int64(t-b.base))
	body = binary.AppendVarint(body, int64(delta))
	body = appendField(body, key)
	body = appendField(body, value)
	body = binary.AppendVarint(body, int64(len(headers)))
	for _, h := range headers {
		body = binary.AppendVarint(body, int64(len(h.Key)))
		body = append(body, h.Key...)
		body = appendField(body, h.Value)
	}
	b.raw = binary.AppendVarint(b.raw, int64(len(body)))
	b.raw = append(b.raw, body...)
	b.max = max(b.max, t)
	b.count++
	b.nextDelta = delta + 1
	return b
}

func appendField(dst, p []byte) []byte {
	if p == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(p)))
	return append(dst, p...)
}

// Len is the size of the batch so far, were it not compressed.
func (b *Builder) Len() int { return HeaderSize + len(b.raw) }

// Build makes the batch. The builder may be added to and built again.
func (b *Builder) Build(codec Codec) Batch {
	out := make([]byte, HeaderSize, HeaderSize+len(b.raw))
	out, err := compress(out, b.raw, codec, b.level)
	if err != nil || len(out) > math.MaxInt32 {
		panic("BUG: record: batch cannot be built: " + codec.String())
	}
	batch := Batch(out)
	batch[posMagic] = Magic
	batch.SetBaseOffset(b.offset)
	batch.SetLeaderEpoch(b.epoch)
	last := b.lastDelta
	if last < 0 {
		last = max(b.nextDelta-1, 0)
	}
	highest := b.max
	if b.flags.LogAppendTime() {
		highest = b.timestampOfAppends
	}
	binary.BigEndian.PutUint32(batch[posLastOffsetDelta:], uint32(last))
	binary.BigEndian.PutUint64(batch[posBaseTimestamp:], uint64(b.base))
	binary.BigEndian.PutUint64(batch[posMaxTimestamp:], uint64(highest))
	binary.BigEndian.PutUint64(batch[posProducerID:], uint64(b.producer))
	binary.BigEndian.PutUint16(batch[posProducerEpoch:], uint16(b.producerEpoch))
	binary.BigEndian.PutUint32(batch[posBaseSequence:], uint32(b.sequence))
	binary.BigEndian.PutUint32(batch[posCount:], uint32(b.count))
	finish(batch, b.flags|Attributes(codec))
	return batch
}
