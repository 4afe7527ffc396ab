package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzCheck holds Check against a slow reference decoder: they accept the same
// bytes, and what is accepted iterates and builds again to the same records.
func FuzzCheck(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		f.Add([]byte(good(codec)), uint16(codec)<<8)
	}
	f.Add([]byte(withRecords(1, 12, 0, 0, 0, 1, 1, 0)), uint16(fuzzCompacted))
	f.Add([]byte(filled(600, 10, true)), uint16(fuzzRecent))
	f.Add(join(good(None), good(None)), uint16(fuzzAsIs))
	f.Fuzz(func(t *testing.T, data []byte, flags uint16) {
		p := fuzzPolicy(flags)
		data = bytes.Clone(data)
		if flags&fuzzAsIs == 0 && len(data) >= HeaderSize {
			// Most mutations would end at the length or the CRC.
			data[posMagic] = Magic
			put64(posBaseOffset, 0)(data)
			finish(data, Batch(data).Attributes())
		}
		p.NeedsWorker(data)
		want := reference(&p, bytes.Clone(data))
		b, err := p.Check(bytes.Clone(data))
		if (err == nil) != want {
			t.Fatalf("Check says %v, the reference accepts: %v", err, want)
		}
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || b != nil {
				t.Fatalf("error %#v with batch %v", err, b)
			}
			return
		}
		if !b.VerifyCRC() || b.SizeBytes() != len(b) {
			t.Fatalf("accepted with a wrong CRC or length: %v", b)
		}
		if b.Attributes().Codec() == None || p.looksInside(data, Batch(data).Attributes().Codec()) {
			rebuild(t, b)
		}
	})
}

// Flags of FuzzCheck; the upper byte picks the compression type.
const (
	fuzzAsIs = 1 << iota
	fuzzCompacted
	fuzzInside
	fuzzAppendTime
	fuzzRecent
	fuzzBroker
)

func fuzzPolicy(flags uint16) Policy {
	p := testPolicy()
	p.Compacted = flags&fuzzCompacted != 0
	p.ValidateCompressed = flags&fuzzInside != 0
	p.FromClient = flags&fuzzBroker == 0
	if flags&fuzzAppendTime != 0 {
		p.TimestampType = LogAppendTime
	}
	if flags&fuzzRecent != 0 {
		p.TimestampBeforeMaxMs = 1000
	}
	p.CompressionType = CompressionType((flags >> 8) % uint16(len(compressionTypeNames)))
	return p
}

// rebuild builds the records of an accepted batch again and compares.
func rebuild(t *testing.T, b Batch) {
	t.Helper()
	again := NewBuilder()
	err := b.Each(func(r Record) bool {
		var headers []RecordHeader
		for k, v := range r.Headers.All() {
			headers = append(headers, RecordHeader{Key: string(k), Value: bytes.Clone(v)})
		}
		again.AddDelta(r.OffsetDelta, r.Timestamp, r.Key, r.Value, headers...)
		return true
	})
	if err != nil {
		t.Fatalf("accepted, but does not iterate: %v", err)
	}
	if b.Count() == 0 {
		return
	}
	built := again.At(b.BaseOffset(), 0).Build(None)
	if got, want := recordsOf(t, built), recordsOf(t, b); got != want {
		t.Fatalf("built again:\n%s\n%s", got, want)
	}
}

// reference says what a broker should accept, in the plainest way: kmsg's
// decoder for the header and for each record, encoding/binary for the framing.
func reference(p *Policy, data []byte) bool {
	var h kmsg.RecordBatch
	if len(data) < HeaderSize || h.ReadFrom(data) != nil || h.Magic != Magic || h.Length < minLength {
		return false
	}
	size := LogOverhead + int(h.Length)
	if rest := data[size:]; len(rest) >= LogOverhead {
		n := int32(binary.BigEndian.Uint32(rest[8:]))
		if n < minRecordSize || len(rest) > 16 && (rest[16] > Magic || len(rest) >= LogOverhead+int(n)) {
			return false
		}
	}
	codec := Codec(h.Attributes & 7)
	if !codec.Known() || size > int(p.MaxMessageBytes) || uint32(h.CRC) != Checksum(data[posAttributes:size]) {
		return false
	}
	if p.FromClient {
		transactional, control, appendTime := h.Attributes&0x10 != 0, h.Attributes&0x20 != 0, h.Attributes&0x08 != 0
		if h.FirstOffset != 0 || h.NumRecords < 1 || h.LastOffsetDelta != h.NumRecords-1 || control || appendTime ||
			h.ProducerID >= 0 && h.FirstSequence < 0 || transactional && h.ProducerID < 0 {
			return false
		}
	} else if h.NumRecords < 0 || h.LastOffsetDelta < 0 {
		return false
	}
	target := p.CompressionType.target(codec)
	inside := target != codec || codec != None && (p.Compacted || p.ValidateCompressed || int(h.NumRecords) > size-HeaderSize ||
		p.TimestampType == CreateTime && h.MaxTimestamp < h.FirstTimestamp)
	if codec != None && !inside {
		return referenceTime(p, h.FirstTimestamp) && referenceTime(p, h.MaxTimestamp)
	}
	raw, err := decompress(nil, h.Records, codec)
	if err != nil || !referenceRecords(p, &h, raw) {
		return false
	}
	if target != codec && h.Attributes&0x20 == 0 {
		packed, err := compress(nil, raw, target, 0)
		return err == nil && HeaderSize+len(packed) <= int(p.MaxMessageBytes)
	}
	return true
}

func referenceTime(p *Policy, t int64) bool {
	age := int64(p.Now) - t
	return p.TimestampType != CreateTime || t == -1 || age <= p.TimestampBeforeMaxMs && -age <= p.TimestampAfterMaxMs
}

// referenceRecords checks uncompressed records.
func referenceRecords(p *Policy, h *kmsg.RecordBatch, raw []byte) bool {
	for i := range h.NumRecords {
		length, n := binary.Varint(raw)
		if n <= 0 || n > 5 || length < 0 || length > int64(len(raw)-n) {
			return false
		}
		r, ok := referenceRecord(raw[n : n+int(length)])
		if !ok || r.OffsetDelta != i || !referenceTime(p, h.FirstTimestamp+r.TimestampDelta64) ||
			p.Compacted && h.Attributes&0x20 == 0 && r.Key == nil {
			return false
		}
		var k kmsg.Record
		if k.ReadFrom(raw[:n+int(length)]) != nil || !sameRecord(&k, r) {
			return false
		}
		raw = raw[n+int(length):]
	}
	return len(raw) == 0
}

// sameRecord compares kmsg's reading with ours, so that what is accepted is
// what consumers will read.
func sameRecord(a, b *kmsg.Record) bool {
	if a.TimestampDelta64 != b.TimestampDelta64 || a.OffsetDelta != b.OffsetDelta || !bytes.Equal(a.Key, b.Key) ||
		!bytes.Equal(a.Value, b.Value) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i := range a.Headers {
		if a.Headers[i].Key != b.Headers[i].Key || !bytes.Equal(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

// referenceRecord decodes the body of one record.
func referenceRecord(p []byte) (*kmsg.Record, bool) {
	ok := len(p) > 0
	number := func(bytesMax int, limit int64) int64 {
		v, n := binary.Varint(p)
		if n <= 0 || n > bytesMax || v > limit || v < -limit-1 {
			ok, p = false, nil
			return 0
		}
		p = p[n:]
		return v
	}
	field := func() []byte {
		n := number(5, math.MaxInt32)
		if n < 0 {
			return nil
		}
		if n > int64(len(p)) {
			ok, p = false, nil
			return nil
		}
		v := p[:n:n]
		p = p[n:]
		return v
	}
	if !ok {
		return nil, false
	}
	p = p[1:]
	r := &kmsg.Record{}
	r.TimestampDelta64 = number(10, math.MaxInt64)
	r.OffsetDelta = int32(number(5, math.MaxInt32))
	r.Key = field()
	r.Value = field()
	count := number(5, math.MaxInt32)
	if count < 0 || count > int64(len(p)) {
		return nil, false
	}
	for range count {
		key := field()
		if key == nil {
			return nil, false
		}
		r.Headers = append(r.Headers, kmsg.Header{Key: string(key), Value: field()})
	}
	return r, ok && len(p) == 0
}

// FuzzScan feeds the view of a file with anything: no panic, and progress.
func FuzzScan(f *testing.F) {
	f.Add(join(good(None), good(Snappy), make([]byte, 70)))
	f.Add([]byte(NewEndTxnMarker(testNow, 1, 1, EndTxnMarker{Type: ControlAbort})))
	f.Fuzz(func(t *testing.T, data []byte) {
		for rest := data; ; {
			b, next, err := Split(rest)
			if err != nil {
				return
			}
			if len(b)+len(next) != len(rest) || len(b) < HeaderSize {
				t.Fatalf("split %d into %d and %d", len(rest), len(b), len(next))
			}
			rest = next
			// Any outcome but a panic will do.
			_ = b.Each(func(r Record) bool {
				for range r.Headers.All() {
					continue
				}
				return true
			})
			_, _, _ = b.EndTxnMarker()
			_ = b.String()
		}
	})
}

// TestReference holds the reference itself to the tables' plainest cases.
func TestReference(t *testing.T) {
	p := testPolicy()
	if !reference(&p, good(None)) || reference(&p, good(None)[:70]) || reference(&p, nil) {
		t.Fatal("the reference is wrong")
	}
	if _, err := p.Check(good(None)[:70]); !errors.Is(err, kerr.InvalidRecord) {
		t.Fatal(err)
	}
}
