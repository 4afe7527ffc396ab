package loadgen

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"

	"github.com/posthouse/posthouse/storage/record"
)

// shape is the records of a batch, made once and sent again and again by all
// connections: any number of its first records is a batch too, since records
// are encoded one by one and their numbers count from zero.
type shape struct {
	body []byte
	// ends[n], crcs[n] and shifts[n] are size, CRC and CRC factor of the first n
	// records.
	ends   []int
	crcs   []uint32
	shifts []uint32
	// packed are the compressed forms, by number of records; made when first
	// asked for. Nil where batches are not compressed.
	packed map[int][]byte
}

// newShape makes records until the batch is full.
func newShape(l *limits, v *values, sizes *Sizes, rng *rand.Rand) *shape {
	s := &shape{ends: []int{0}, crcs: []uint32{0}, shifts: []uint32{crcShift(0)}}
	number := rng.Uint64() >> 8
	for n := 0; ; n++ {
		size := sizes.draw(rng)
		if n > 0 && !l.fits(n, len(s.body), recordSize(n, -1, size)) {
			return s
		}
		start := len(s.body)
		s.body = appendRecordHead(s.body, n, nil, size)
		s.body = append(s.body, v.at(number+uint64(n), size)...)
		s.body = append(s.body, 0)
		s.ends = append(s.ends, len(s.body))
		s.crcs = append(s.crcs, crc32.Update(s.crcs[n], castagnoli, s.body[start:]))
		s.shifts = append(s.shifts, crcShift(len(s.body)))
	}
}

// limits is when a batch is full.
type limits struct {
	bytes   int // whole batch, before compression
	records int
}

func newLimits(w *Workload) limits {
	l := limits{bytes: int(w.BatchBytes), records: w.BatchRecords}
	if l.records == 0 {
		l.records = 1 << 20
	}
	return l
}

// fits says whether a batch of n ≥ 1 records with bodyBytes takes one of size
// more. As with Kafka's batch.size, the header counts.
func (l *limits) fits(n, bodyBytes, size int) bool {
	return n < l.records && record.HeaderSize+bodyBytes+size <= l.bytes
}

// batch is one Produce request in the making, on its way, or waiting for its
// answer. Pooled by its producer.
type batch struct {
	part *part
	// intended are the records' times in ns since the run began; in a closed
	// loop there is only one, for all count of them.
	intended []int64
	count    int
	// keys are the numbers of the records' keys, where they have any, and sizes
	// their values' sizes where each batch is made anew.
	keys  []int64
	sizes []int
	bytes int // of the records so far, before compression
	// ready is when it could be sent for all that the schedule says.
	ready int64
	// number is that of the first record in its stream.
	number uint64
	// sequence is the first of the idempotent producer's, or -1.
	sequence int32
	shape    *shape

	// The frame: head | body | tail. body is the shape's or own.
	head, body, own []byte
	correlation     int32
	sent            int64 // when it was handed to the socket
}

func (b *batch) reset() {
	b.part, b.shape, b.body = nil, nil, nil
	b.intended, b.keys, b.sizes = b.intended[:0], b.keys[:0], b.sizes[:0]
	b.count, b.bytes, b.number, b.sequence = 0, 0, 0, -1
}

// wireBytes is the size of the frame.
func (b *batch) wireBytes() int { return len(b.head) + len(b.body) }

// encoder makes frames; one per loop.
type encoder struct {
	run     *run
	codec   record.Codec
	keys    *keyPicker // for the form of keys alone; nil without keys
	key     []byte
	version int16
}

// encode fills in head and body. What can stay as it was the last time stays:
// a batch of a shape costs its header alone.
func (e *encoder) encode(b *batch, p *producer, nowMs int64) {
	var bodyCRC, shift uint32
	switch {
	case b.shape != nil && e.codec == record.None:
		b.body = b.shape.body[:b.shape.ends[b.count]]
		bodyCRC, shift = b.shape.crcs[b.count], b.shape.shifts[b.count]
	case b.shape != nil:
		b.body = b.shape.compressed(b.count, e.codec)
		bodyCRC, shift = record.Checksum(b.body), crcShift(len(b.body))
	default:
		e.build(b)
		if e.codec != record.None {
			b.body = compress(b.body, b.count, e.codec)
		}
		bodyCRC, shift = record.Checksum(b.body), crcShift(len(b.body))
	}
	b.head = e.appendHead(b.head[:0], b, p, record.HeaderSize+len(b.body))
	e.appendBatchHeader(b, p, nowMs, bodyCRC, shift)
	binary.BigEndian.PutUint32(b.head, uint32(len(b.head)-4+len(b.body)+e.tailBytes()))
}

// appendBatchHeader writes the 61 bytes that stand before the records.
func (e *encoder) appendBatchHeader(b *batch, p *producer, nowMs int64, bodyCRC, shift uint32) {
	const checksummed = 21
	h := b.head
	start := len(h)
	h = binary.BigEndian.AppendUint64(h, 0) // base offset
	h = binary.BigEndian.AppendUint32(h, uint32(record.HeaderSize-record.LogOverhead+len(b.body)))
	h = binary.BigEndian.AppendUint32(h, ^uint32(0)) // leader epoch
	h = append(h, record.Magic, 0, 0, 0, 0)          // and the CRC
	h = binary.BigEndian.AppendUint16(h, uint16(e.codec))
	h = binary.BigEndian.AppendUint32(h, uint32(b.count-1))
	h = binary.BigEndian.AppendUint64(h, uint64(nowMs))
	h = binary.BigEndian.AppendUint64(h, uint64(nowMs))
	h = binary.BigEndian.AppendUint64(h, uint64(p.producerID))
	h = binary.BigEndian.AppendUint16(h, uint16(p.producerEpoch))
	h = binary.BigEndian.AppendUint32(h, uint32(b.sequence))
	h = binary.BigEndian.AppendUint32(h, uint32(b.count))
	crc := crcJoin(record.Checksum(h[start+checksummed:]), bodyCRC, shift)
	binary.BigEndian.PutUint32(h[start+checksummed-4:], crc)
	b.head = h
}

// build makes records that are no other batch's: marked, or with keys.
func (e *encoder) build(b *batch) {
	body := b.own[:0]
	stamped, checked := e.run.workload.stamped(), e.run.workload.Mode == ModeVerify
	for i, size := range b.sizes {
		var key []byte
		if e.keys != nil {
			e.key = e.keys.appendKey(e.key[:0], b.keys[i])
			key = e.key
		}
		number := b.number + uint64(i)
		body = appendRecordHead(body, i, key, size)
		at := len(body)
		body = append(body, e.run.values.at(number, size)...)
		if stamped {
			// In a closed loop all have the batch's time.
			s := stamp{run: e.run.id, intended: b.intended[min(i, len(b.intended)-1)], stream: b.part.stream, number: number}
			s.put(body[at:], checked)
		}
		body = append(body, 0)
	}
	b.own, b.body = body, body
}

// compressed is the first n records, compressed.
func (s *shape) compressed(n int, codec record.Codec) []byte {
	if p, ok := s.packed[n]; ok {
		return p
	}
	if s.packed == nil {
		s.packed = make(map[int][]byte)
	}
	p := compress(s.body[:s.ends[n]], n, codec)
	s.packed[n] = p
	return p
}

// compress packs the encoded records of a batch.
func compress(body []byte, count int, codec record.Codec) []byte {
	b := record.NewBuilder()
	for range count {
		length, n := binary.Varint(body)
		r := body[n : n+int(length)]
		body = body[n+int(length):]
		key, value := cutKeyValue(r)
		b.Add(0, key, value)
	}
	return b.Build(codec).Records()
}
