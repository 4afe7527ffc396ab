package loadgen

import "encoding/binary"

const (
	// produceTimeoutMs is the broker's time limit for acks all.
	produceTimeoutMs = 30_000
	// The versions we speak: topics by name.
	produceVersionMin, produceVersionMax = 3, 12
	produceFlexible                      = 9
	fetchVersionMin, fetchVersionMax     = 4, 12
	fetchFlexible                        = 12
)

// appendHead writes a Produce request with one batch of recordsBytes for one
// partition, up to where the batch begins; its length prefix is still to be
// filled in.
func (e *encoder) appendHead(dst []byte, b *batch, p *producer, recordsBytes int) []byte {
	client, topic := e.run.opts.ClientID, b.part.topic
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, 0) // Produce
	dst = binary.BigEndian.AppendUint16(dst, uint16(e.version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(b.correlation))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(client)))
	dst = append(dst, client...)
	acks := uint16(e.run.workload.Acks)
	if e.version >= produceFlexible {
		dst = append(dst, 0, 0) // header's tags, no transactional id
		dst = binary.BigEndian.AppendUint16(dst, acks)
		dst = binary.BigEndian.AppendUint32(dst, produceTimeoutMs)
		dst = append(dst, 2) // one topic
		dst = binary.AppendUvarint(dst, uint64(len(topic))+1)
		dst = append(dst, topic...)
		dst = append(dst, 2) // one partition
		dst = binary.BigEndian.AppendUint32(dst, uint32(b.part.index))
		return binary.AppendUvarint(dst, uint64(recordsBytes)+1)
	}
	dst = append(dst, 0xff, 0xff) // no transactional id
	dst = binary.BigEndian.AppendUint16(dst, acks)
	dst = binary.BigEndian.AppendUint32(dst, produceTimeoutMs)
	dst = binary.BigEndian.AppendUint32(dst, 1)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(topic)))
	dst = append(dst, topic...)
	dst = binary.BigEndian.AppendUint32(dst, 1)
	dst = binary.BigEndian.AppendUint32(dst, uint32(b.part.index))
	return binary.BigEndian.AppendUint32(dst, uint32(recordsBytes))
}

// produceTail ends a flexible request: no tags of partition, topic and body.
var produceTail = []byte{0, 0, 0}

func (e *encoder) tail() []byte { return produceTail[:e.tailBytes()] }

func (e *encoder) tailBytes() int {
	if e.version >= produceFlexible {
		return len(produceTail)
	}
	return 0
}

// putFrameLength writes the length prefix of a whole frame.
func putFrameLength(frame []byte) { binary.BigEndian.PutUint32(frame, uint32(len(frame)-4)) }
