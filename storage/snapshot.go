package storage

import (
	"encoding/binary"

	"github.com/posthouse/posthouse/storage/record"
)

// A .snapshot is the state of all producers at the offset in its name, Kafka's
// ProducerSnapshot version 1, big endian:
//
//	version int16 = 1 · crc uint32 (Castagnoli, of what follows) · count int32
//	per producer: id int64 · epoch int16 · last sequence int32 · last offset int64 ·
//	offset delta int32 · timestamp int64 · coordinator epoch int32 · first offset of the open transaction int64
//
// Of a producer's remembered batches only the last is kept; Log.fillWindows
// finds the others at the end of the log again.
const (
	snapshotVersion     = 1
	snapshotHeaderBytes = 2 + 4
	snapshotEntryBytes  = 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8
)

// appendSnapshot appends the state as a snapshot, oldest producer first.
func (s *producerState) appendSnapshot(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, snapshotVersion)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.len()))
	for i := s.oldest; i >= 0; i = s.entries[i].newer {
		e := &s.entries[i]
		last := batchMeta{lastOffset: -1, lastSeq: record.NoSequence}
		if e.n > 0 {
			last = *e.last()
		}
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.id))
		dst = binary.BigEndian.AppendUint16(dst, uint16(e.epoch))
		dst = binary.BigEndian.AppendUint32(dst, uint32(last.lastSeq))
		dst = binary.BigEndian.AppendUint64(dst, uint64(last.lastOffset))
		dst = binary.BigEndian.AppendUint32(dst, uint32(last.delta))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.lastTimestamp))
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.coordinatorEpoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.txnFirstOffset))
	}
	snapshot := dst[start:]
	binary.BigEndian.PutUint32(snapshot[2:], record.Checksum(snapshot[snapshotHeaderBytes:]))
	return dst
}

// loadSnapshot replaces the state by a snapshot's.
func (s *producerState) loadSnapshot(name string, data []byte) error {
	entries, err := parseSnapshot(name, data)
	if err != nil {
		return err
	}
	s.reset()
	for _, e := range entries {
		if s.find(e.id) != nil {
			return corrupt(name, 0, "producer %d occurs twice", e.id)
		}
		s.insert(e)
		if e.txnFirstOffset >= 0 {
			s.txns.insert(e.id, e.txnFirstOffset)
		}
	}
	s.partial = len(entries) > 0
	return nil
}

func parseSnapshot(name string, data []byte) ([]producerEntry, error) {
	if len(data) < snapshotHeaderBytes+4 {
		return nil, corrupt(name, 0, "%d bytes are no snapshot", len(data))
	}
	if v := binary.BigEndian.Uint16(data); v != snapshotVersion {
		return nil, corrupt(name, 0, "version %d, known is %d", v, snapshotVersion)
	}
	body := data[snapshotHeaderBytes:]
	if want, got := binary.BigEndian.Uint32(data[2:]), record.Checksum(body); want != got {
		return nil, corrupt(name, 2, "checksum %08x, content has %08x", want, got)
	}
	n := int64(int32(binary.BigEndian.Uint32(body)))
	body = body[4:]
	if n < 0 || n*snapshotEntryBytes != int64(len(body)) {
		return nil, corrupt(name, snapshotHeaderBytes, "%d producers in %d bytes", n, len(body))
	}
	out := make([]producerEntry, 0, n)
	for ; len(body) > 0; body = body[snapshotEntryBytes:] {
		e := producerEntry{
			id:               record.ProducerID(binary.BigEndian.Uint64(body)),
			epoch:            record.ProducerEpoch(binary.BigEndian.Uint16(body[8:])),
			lastTimestamp:    record.Timestamp(binary.BigEndian.Uint64(body[26:])),
			coordinatorEpoch: int32(binary.BigEndian.Uint32(body[34:])),
			txnFirstOffset:   record.Offset(binary.BigEndian.Uint64(body[38:])),
		}
		last := batchMeta{
			lastSeq:    record.Sequence(binary.BigEndian.Uint32(body[10:])),
			lastOffset: record.Offset(binary.BigEndian.Uint64(body[14:])),
			delta:      int32(binary.BigEndian.Uint32(body[22:])),
			timestamp:  e.lastTimestamp,
		}
		if e.txnFirstOffset < 0 {
			e.txnFirstOffset = -1
		}
		if last.lastOffset >= 0 {
			if last.delta < 0 {
				return nil, corrupt(name, 0, "producer %d has an offset delta of %d", e.id, last.delta)
			}
			e.batches[0], e.n = last, 1
		}
		out = append(out, e)
	}
	return out, nil
}
