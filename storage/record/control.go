package record

import (
	"encoding/binary"
	"fmt"
)

// ControlType is what a control record says (ControlRecordType.java).
type ControlType int16

// Types of control record. Others come from newer versions and are skipped.
const (
	ControlAbort  ControlType = 0
	ControlCommit ControlType = 1
	// ControlLeaderChange and the ones above it belong to KRaft's own log.
	ControlLeaderChange ControlType = 2
)

// EndTxnMarker ends a producer's transaction in one partition (KIP-98).
type EndTxnMarker struct {
	Type             ControlType // ControlAbort or ControlCommit
	CoordinatorEpoch int32
}

// Sizes of a control record's key (version, type) and of an end marker's value
// (version, coordinator epoch).
const (
	controlKeySize = 4
	markerSize     = 6
)

// ParseControlKey reads the key of a control record. Newer versions only add
// fields.
func ParseControlKey(key []byte) (ControlType, error) {
	if len(key) < controlKeySize {
		return 0, fmt.Errorf("record: control record's key has %d bytes, at least %d are needed", len(key), controlKeySize)
	}
	if v := int16(binary.BigEndian.Uint16(key)); v < 0 {
		return 0, fmt.Errorf("record: control record of version %d", v)
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// EndTxnMarker reads the marker of a control batch, without allocating. ok is
// false, without an error, where the batch is no end-transaction marker: not a
// control batch, an empty one, or one of another type.
func (b Batch) EndTxnMarker() (m EndTxnMarker, ok bool, err error) {
	a := b.Attributes()
	if !a.Control() || b.Count() == 0 {
		return m, false, nil
	}
	if a.Codec() != None {
		return m, false, fmt.Errorf("record: %v is a compressed control batch", b)
	}
	var r rawRecord
	raw := b.Records()
	if _, ok := parseRecord(raw, 0, &r); !ok {
		return m, false, fmt.Errorf("record: %v: control record is not framed as a record", b)
	}
	m.Type, err = ParseControlKey(slice(raw, r.keyPos, r.keyLen))
	if err != nil || m.Type != ControlAbort && m.Type != ControlCommit {
		return m, false, err
	}
	value := slice(raw, r.valuePos, r.valueLen)
	if len(value) < markerSize {
		return m, false, fmt.Errorf("record: end-transaction marker has %d bytes, at least %d are needed", len(value), markerSize)
	}
	if v := int16(binary.BigEndian.Uint16(value)); v < 0 {
		return m, false, fmt.Errorf("record: end-transaction marker of version %d", v)
	}
	m.CoordinatorEpoch = int32(binary.BigEndian.Uint32(value[2:]))
	return m, true, nil
}

// NewEndTxnMarker builds the control batch that ends the transaction of a
// producer in one partition (MemoryRecords.withEndTransactionMarker).
func NewEndTxnMarker(t Timestamp, id ProducerID, epoch ProducerEpoch, m EndTxnMarker) Batch {
	var key [controlKeySize]byte
	var value [markerSize]byte
	binary.BigEndian.PutUint16(key[2:], uint16(m.Type))
	binary.BigEndian.PutUint32(value[2:], uint32(m.CoordinatorEpoch))
	return NewBuilder().Producer(id, epoch, NoSequence).Transactional().Control().
		Add(t, key[:], value[:]).Build(None)
}
