package record

import (
	"errors"
	"fmt"
)

// ErrShort says that there are not enough bytes for what was asked; more of
// the file may make it whole.
var ErrShort = errors.New("record: batch cut short")

// ErrEnd says that the bytes are zeros: the preallocated rest of a segment.
var ErrEnd = errors.New("record: zeros where a batch would begin")

// Header is the fixed part of a batch, for scans of a file that do not hold
// whole batches in memory.
type Header struct {
	BaseOffset      Offset
	SizeBytes       int // whole batch, header included
	LeaderEpoch     LeaderEpoch
	CRC             uint32
	Attributes      Attributes
	LastOffsetDelta int32
	BaseTimestamp   Timestamp
	MaxTimestamp    Timestamp
	ProducerID      ProducerID
	ProducerEpoch   ProducerEpoch
	BaseSequence    Sequence
	Count           int32
}

// LastOffset is the offset of the last record, inclusive.
func (h *Header) LastOffset() Offset { return h.BaseOffset + Offset(h.LastOffsetDelta) }

// NextOffset is the first offset after the batch.
func (h *Header) NextOffset() Offset { return h.LastOffset() + 1 }

// LastSequence is the sequence of the last record, wrapped, or NoSequence.
func (h *Header) LastSequence() Sequence {
	if h.BaseSequence == NoSequence {
		return NoSequence
	}
	return h.BaseSequence.Add(h.LastOffsetDelta)
}

// ParseHeader reads the header at the start of p, which need not hold the
// records. Fewer than HeaderSize bytes give ErrShort, a header of zeros
// ErrEnd; a header that cannot begin a magic-2 batch gives an error that says
// why. The CRC is not verified here.
func ParseHeader(p []byte) (Header, error) {
	if len(p) < HeaderSize {
		return Header{}, ErrShort
	}
	b := Batch(p)
	size := b.SizeBytes()
	if size < HeaderSize {
		if isZero(p[:HeaderSize]) {
			return Header{}, ErrEnd
		}
		return Header{}, fmt.Errorf("record: batch length %d is below the header's %d", size-LogOverhead, minLength)
	}
	if m := b.Magic(); m != Magic {
		return Header{}, fmt.Errorf("record: magic %d, only %d is stored", m, Magic)
	}
	h := Header{
		BaseOffset:      b.BaseOffset(),
		SizeBytes:       size,
		LeaderEpoch:     b.LeaderEpoch(),
		CRC:             b.CRC(),
		Attributes:      b.Attributes(),
		LastOffsetDelta: b.LastOffsetDelta(),
		BaseTimestamp:   b.BaseTimestamp(),
		MaxTimestamp:    b.MaxTimestamp(),
		ProducerID:      b.ProducerID(),
		ProducerEpoch:   b.ProducerEpoch(),
		BaseSequence:    b.BaseSequence(),
		Count:           b.Count(),
	}
	if h.BaseOffset < 0 || h.LastOffsetDelta < 0 || h.NextOffset() < 0 || h.Count < 0 {
		return Header{}, fmt.Errorf("record: base offset %d, last offset delta %d, count %d cannot be",
			h.BaseOffset, h.LastOffsetDelta, h.Count)
	}
	return h, nil
}

// Split cuts the first whole batch off p: the batch and what follows it.
// Errors are ParseHeader's; ErrShort also if p ends inside the batch.
func Split(p []byte) (Batch, []byte, error) {
	h, err := ParseHeader(p)
	if err != nil {
		return nil, p, err
	}
	if h.SizeBytes > len(p) {
		return nil, p, ErrShort
	}
	return Batch(p[:h.SizeBytes:h.SizeBytes]), p[h.SizeBytes:], nil
}

func isZero(p []byte) bool {
	for _, c := range p {
		if c != 0 {
			return false
		}
	}
	return true
}
