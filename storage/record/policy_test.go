package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func testPolicy() Policy {
	p := DefaultPolicy()
	p.Now = testNow
	return p
}

// good is a plain batch of three records, one with headers.
func good(codec Codec) Batch {
	return NewBuilder().
		Add(testNow, []byte("k0"), []byte("v0")).
		Add(testNow+5, []byte("k1"), nil, RecordHeader{"h", []byte("x")}, RecordHeader{"null", nil}).
		Add(testNow+3, []byte{}, bytes.Repeat([]byte("v"), 300)).
		Build(codec)
}

// patched is b with some header bytes changed and a CRC that agrees.
func patched(b Batch, patch func(Batch)) Batch {
	b = bytes.Clone(b)
	patch(b)
	b.updateCRC()
	return b
}

func put16(pos int, v int16) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint16(b[pos:], uint16(v)) }
}

func put32(pos int, v int32) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint32(b[pos:], uint32(v)) }
}

func put64(pos int, v int64) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint64(b[pos:], uint64(v)) }
}

// withRecords is a batch of count records whose bytes are raw.
func withRecords(count int32, raw ...byte) Batch {
	b := make(Batch, HeaderSize, HeaderSize+len(raw))
	copy(b, NewBuilder().Build(None))
	b = append(b, raw...)
	put32(posCount, count)(b)
	put32(posLastOffsetDelta, count-1)(b)
	put64(posBaseTimestamp, int64(testNow))(b)
	put64(posMaxTimestamp, int64(testNow))(b)
	finish(b, 0)
	return b
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestCheckRefuses has the codes that Apache Kafka 4.4.0 answers to the same
// bytes, but for what the doc of Check says.
func TestCheckRefuses(t *testing.T) {
	g := good(None)
	control := NewEndTxnMarker(testNow, 7, 1, EndTxnMarker{Type: ControlCommit})
	tests := []struct {
		name    string
		records []byte
		policy  func(*Policy)
		want    *kerr.Error
	}{
		{name: "null", want: kerr.InvalidRecord},
		{name: "no batch", records: []byte{0, 1, 2}, want: kerr.InvalidRecord},
		{name: "cut before magic", records: g[:MagicSize-1], want: kerr.InvalidRecord},
		{name: "cut in the header", records: g[:HeaderSize-1], want: kerr.InvalidRecord},
		{name: "cut in the records", records: g[:len(g)-1], want: kerr.InvalidRecord},
		{name: "length negative", records: patched(g, put32(posLength, -1)), want: kerr.CorruptMessage},
		{name: "length below any format", records: patched(g, put32(posLength, 13)), want: kerr.CorruptMessage},
		{name: "length below the header", records: patched(g, put32(posLength, minLength-1)), want: kerr.CorruptMessage},
		{name: "length huge", records: patched(g, put32(posLength, math.MaxInt32)), want: kerr.InvalidRecord},
		{name: "magic 0", records: patched(g, func(b Batch) { b[posMagic] = 0 }), want: kerr.InvalidRecord},
		{name: "magic 1", records: patched(g, func(b Batch) { b[posMagic] = 1 }), want: kerr.InvalidRecord},
		{name: "magic 3", records: patched(g, func(b Batch) { b[posMagic] = 3 }), want: kerr.CorruptMessage},
		{name: "magic −1", records: patched(g, func(b Batch) { b[posMagic] = 0xff }), want: kerr.CorruptMessage},
		{name: "two batches", records: join(g, g), want: kerr.InvalidRecord},
		{name: "second batch of bad length", records: join(g, make([]byte, 20)), want: kerr.CorruptMessage},
		{name: "CRC", records: join(g[:posCRC], []byte{1, 2, 3, 4}, g[posAttributes:]), want: kerr.CorruptMessage},
		{name: "flipped bit", records: join(g[:len(g)-1], []byte{g[len(g)-1] ^ 1}), want: kerr.CorruptMessage},
		{name: "too large", records: g, policy: func(p *Policy) { p.MaxMessageBytes = int32(len(g)) - 1 }, want: kerr.MessageTooLarge},
		{name: "base offset", records: patched(g, put64(posBaseOffset, 1)), want: kerr.InvalidRecord},
		{name: "codec 5", records: patched(g, put16(posAttributes, 5)), want: kerr.UnsupportedCompressionType},
		{name: "zstd too early", records: good(Zstd), policy: func(p *Policy) { p.RefuseZstd = true }, want: kerr.UnsupportedCompressionType},
		{name: "last offset delta negative", records: patched(g, put32(posLastOffsetDelta, -1)), want: kerr.InvalidRecord},
		{name: "count negative", records: patched(g, put32(posCount, -1)), want: kerr.InvalidRecord},
		{name: "count zero", records: withRecords(0), want: kerr.InvalidRecord},
		{name: "count and range differ", records: patched(g, put32(posLastOffsetDelta, 7)), want: kerr.InvalidRecord},
		{name: "count beyond the records", records: patched(g, func(b Batch) { put32(posCount, 4)(b); put32(posLastOffsetDelta, 3)(b) }), want: kerr.InvalidRecord},
		{name: "count below the records", records: patched(g, func(b Batch) { put32(posCount, 2)(b); put32(posLastOffsetDelta, 1)(b) }), want: kerr.InvalidRecord},
		{name: "count and range wrap", records: patched(g, func(b Batch) { put32(posCount, math.MinInt32)(b); put32(posLastOffsetDelta, math.MaxInt32)(b) }), want: kerr.InvalidRecord},
		{name: "compressed count beyond belief", records: patched(good(Zstd), func(b Batch) { put32(posCount, math.MaxInt32)(b); put32(posLastOffsetDelta, math.MaxInt32-1)(b) }), want: kerr.InvalidRecord},
		{name: "compressed count too much for its bytes", records: patched(good(LZ4), func(b Batch) {
			put32(posCount, int32(len(b)))(b)
			put32(posLastOffsetDelta, int32(len(b))-1)(b)
		}), want: kerr.InvalidRecord},
		{name: "control", records: patched(control, func(Batch) {}), want: kerr.InvalidRecord},
		{name: "no sequence", records: NewBuilder().Producer(7, 0, NoSequence).Add(testNow, nil, nil).Build(None), want: kerr.InvalidRecord},
		{name: "transactional without producer", records: NewBuilder().Transactional().Add(testNow, nil, nil).Build(None), want: kerr.InvalidRecord},
		{name: "claims LogAppendTime", records: NewBuilder().AppendedAt(testNow).Add(testNow, nil, nil).Build(None), want: kerr.InvalidTimestamp},
		{name: "null key", records: NewBuilder().Add(testNow, nil, nil).Build(None), policy: compacted, want: kerr.InvalidRecord},
		{name: "null key compressed", records: NewBuilder().Add(testNow, nil, nil).Build(LZ4), policy: compacted, want: kerr.InvalidRecord},
		{name: "offsets from one", records: NewBuilder().AddDelta(1, testNow, nil, nil).AddDelta(1, testNow, nil, nil).Build(None), want: kerr.InvalidRecord},
		{name: "offset gap", records: patched(NewBuilder().AddDelta(0, testNow, nil, nil).AddDelta(2, testNow, nil, nil).Build(None), put32(posLastOffsetDelta, 1)), want: kerr.InvalidRecord},
		{name: "too late", records: NewBuilder().Add(testNow+3600001, nil, nil).Build(None), want: kerr.InvalidTimestamp},
		{name: "too late compressed", records: NewBuilder().Add(testNow+3600001, nil, nil).Build(Gzip), want: kerr.InvalidTimestamp},
		{name: "too early", records: NewBuilder().Add(testNow-1001, nil, nil).Build(None), policy: within(1000), want: kerr.InvalidTimestamp},
		{name: "one of many too early", records: NewBuilder().Add(NoTimestamp, nil, nil).Add(testNow, nil, nil).Add(5, nil, nil).Build(None), policy: within(1000), want: kerr.InvalidTimestamp},
		{name: "timestamps overflow", records: patched(NewBuilder().Add(testNow, nil, nil).Add(testNow+2, nil, nil).Build(None), put64(posBaseTimestamp, math.MaxInt64-1)), want: kerr.InvalidTimestamp},
		{name: "not gzip", records: patched(g, put16(posAttributes, int16(Gzip))), policy: always, want: kerr.InvalidRecord},
		{name: "not snappy", records: patched(g, put16(posAttributes, int16(Snappy))), policy: always, want: kerr.InvalidRecord},
		{name: "not lz4", records: patched(g, put16(posAttributes, int16(LZ4))), policy: always, want: kerr.InvalidRecord},
		{name: "not zstd", records: patched(g, put16(posAttributes, int16(Zstd))), policy: always, want: kerr.InvalidRecord},
		{name: "recompressed too large", records: good(Zstd), policy: func(p *Policy) {
			p.CompressionType, p.MaxMessageBytes = CompressionUncompressed, int32(len(good(Zstd)))
		}, want: kerr.MessageTooLarge},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := testPolicy()
			if test.policy != nil {
				test.policy(&p)
			}
			b, err := p.Check(test.records)
			var e *Error
			if b != nil || !errors.As(err, &e) || !errors.Is(err, test.want) {
				t.Fatalf("batch %v, error %v; want %v", b, err, test.want)
			}
			if e.Message == "" || !strings.HasPrefix(e.Error(), test.want.Message) {
				t.Fatalf("message %q", e.Error())
			}
		})
	}
}

func compacted(p *Policy) { p.Compacted = true }

func always(p *Policy) { p.ValidateCompressed = true }

func within(ms int64) func(*Policy) {
	return func(p *Policy) { p.TimestampBeforeMaxMs = ms }
}

// TestCheckFraming refuses records that are not framed as records, one byte of
// framing wrong at a time.
func TestCheckFraming(t *testing.T) {
	tests := map[string]Batch{
		"empty":                  withRecords(1),
		"length cut":             withRecords(1, 0x80),
		"length negative":        withRecords(1, 0x01, 0, 0, 0, 1, 1, 0),
		"length beyond the end":  withRecords(1, 14, 0, 0, 0, 1, 1, 0),
		"length short":           withRecords(1, 10, 0, 0, 0, 1, 1, 0),
		"length zero":            withRecords(1, 0),
		"length overflows":       withRecords(1, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 1, 1, 0),
		"length of six bytes":    withRecords(1, 0x8c, 0x80, 0x80, 0x80, 0x80, 0x00, 0, 0, 0, 1, 1, 0),
		"timestamp overflows":    withRecords(1, 30, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 1, 1, 0),
		"key beyond the record":  withRecords(1, 12, 0, 0, 0, 8, 1, 0),
		"value beyond":           withRecords(1, 12, 0, 0, 0, 1, 8, 0),
		"headers negative":       withRecords(1, 12, 0, 0, 0, 1, 1, 1),
		"headers more than fit":  withRecords(1, 12, 0, 0, 0, 1, 1, 8),
		"header key null":        withRecords(1, 16, 0, 0, 0, 1, 1, 2, 1, 1),
		"header value beyond":    withRecords(1, 16, 0, 0, 0, 1, 1, 2, 0, 8),
		"bytes behind headers":   withRecords(1, 14, 0, 0, 0, 1, 1, 0, 0),
		"bytes behind the batch": withRecords(1, 12, 0, 0, 0, 1, 1, 0, 0),
	}
	for name, b := range tests {
		t.Run(name, func(t *testing.T) {
			p := testPolicy()
			if _, err := p.Check(b); !errors.Is(err, kerr.InvalidRecord) {
				t.Fatalf("error %v", err)
			}
			if err := b.Each(func(Record) bool { return true }); err == nil {
				t.Fatal("Each took it")
			}
		})
	}
	p := testPolicy()
	if _, err := p.Check(withRecords(1, 12, 0, 0, 0, 1, 1, 0)); err != nil {
		t.Fatalf("the record that the cases vary is refused: %v", err)
	}
}

func TestCheckRecordErrors(t *testing.T) {
	b := NewBuilder().Add(testNow, nil, nil).Add(testNow, []byte("k"), nil).
		Add(testNow-2000, []byte("k"), nil).Add(testNow-2000, nil, nil).Build(None)
	p := testPolicy()
	p.Compacted = true
	_, err := p.Check(b)
	var e *Error
	if !errors.As(err, &e) || e.Kerr != kerr.InvalidRecord || len(e.RecordErrors) != 2 ||
		e.RecordErrors[0].BatchIndex != 0 || e.RecordErrors[1].BatchIndex != 3 {
		t.Fatalf("%+v", err)
	}
	p.TimestampBeforeMaxMs = 1000
	_, err = p.Check(b)
	if !errors.As(err, &e) || e.Kerr != kerr.InvalidTimestamp || len(e.RecordErrors) != 3 {
		t.Fatalf("a timestamp among the faults: %+v", err)
	}
	many := NewBuilder()
	for range maxRecordErrors + 1 {
		many.Add(testNow, nil, nil)
	}
	_, err = p.Check(many.Build(None))
	if !errors.As(err, &e) || len(e.RecordErrors) != maxRecordErrors || !strings.Contains(e.Message, "due to 1001 record errors") {
		t.Fatalf("%d errors, message %q", len(e.RecordErrors), e.Message[:100])
	}
}

func TestCheckAccepts(t *testing.T) {
	producer := func() *Builder { return NewBuilder().Producer(7, 3, 41) }
	marker := NewEndTxnMarker(testNow, 7, 1, EndTxnMarker{Type: ControlAbort, CoordinatorEpoch: 5})
	tests := []struct {
		name   string
		batch  Batch
		policy func(*Policy)
	}{
		{name: "plain", batch: good(None)},
		{name: "exactly as large as allowed", batch: good(None), policy: func(p *Policy) { p.MaxMessageBytes = int32(len(good(None))) }},
		{name: "idempotent", batch: producer().Add(testNow, nil, []byte("v")).Build(None)},
		{name: "transactional", batch: producer().Transactional().Add(testNow, nil, []byte("v")).Build(None)},
		{name: "gzip", batch: good(Gzip)}, {name: "snappy", batch: good(Snappy)}, {name: "lz4", batch: good(LZ4)}, {name: "zstd", batch: good(Zstd)},
		{name: "gzip inside", batch: good(Gzip), policy: always}, {name: "snappy inside", batch: good(Snappy), policy: always},
		{name: "lz4 inside", batch: good(LZ4), policy: always}, {name: "zstd inside", batch: good(Zstd), policy: compacted},
		{name: "keys", batch: good(None), policy: compacted},
		{name: "no timestamps", batch: NewBuilder().Add(NoTimestamp, nil, nil).Add(NoTimestamp, nil, nil).Build(None), policy: within(1000)},
		{name: "some timestamps", batch: NewBuilder().Add(NoTimestamp, nil, nil).Add(testNow, nil, nil).Build(None), policy: within(1000)},
		{name: "old", batch: NewBuilder().Add(1, nil, nil).Build(None)},
		{name: "marker of the broker", batch: marker, policy: func(p *Policy) { p.FromClient, p.Compacted = false, true }},
		{name: "unused attribute bits", batch: patched(good(None), put16(posAttributes, 0x4080))},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := testPolicy()
			if test.policy != nil {
				test.policy(&p)
			}
			before := bytes.Clone(test.batch)
			// A partial second batch is left off.
			b, err := p.Check(append(bytes.Clone(test.batch), test.batch[:20]...))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b, before) {
				t.Fatalf("changed:\n%x\n%x", b, before)
			}
		})
	}
}

// TestCheckStamps sees the header corrected with a CRC that agrees.
func TestCheckStamps(t *testing.T) {
	p := testPolicy()
	b, err := p.Check(patched(good(None), put64(posMaxTimestamp, 12)))
	if err != nil || b.MaxTimestamp() != testNow+5 || !b.VerifyCRC() {
		t.Fatalf("%v, max timestamp %d, %v", b, b.MaxTimestamp(), err)
	}
	// Below the base timestamp: no client that works, so it is looked inside.
	lie := patched(good(Zstd), put64(posMaxTimestamp, 12))
	if !p.NeedsWorker(lie) {
		t.Fatal("a header that contradicts itself is believed")
	}
	if b, err = p.Check(lie); err != nil || b.MaxTimestamp() != testNow+5 || !b.VerifyCRC() {
		t.Fatalf("%v, max timestamp %d, %v", b, b.MaxTimestamp(), err)
	}
	p.TimestampType = LogAppendTime
	p.Now = testNow + 1e9
	for _, codec := range []Codec{None, Gzip} {
		b, err = p.Check(good(codec))
		if err != nil || !b.Attributes().LogAppendTime() || b.MaxTimestamp() != p.Now || !b.VerifyCRC() || b.Attributes().Codec() != codec {
			t.Fatalf("%v, max timestamp %d, %v", b, b.MaxTimestamp(), err)
		}
		if err := b.Each(func(r Record) bool { return r.Timestamp == p.Now }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckRecompresses(t *testing.T) {
	want := recordsOf(t, good(None))
	for source := None; source <= Zstd; source++ {
		for target := CompressionProducer; target <= CompressionZstd; target++ {
			p := testPolicy()
			p.CompressionType = target
			in := good(source)
			worker := p.NeedsWorker(in)
			b, err := p.Check(in)
			if err != nil {
				t.Fatalf("%v to %v: %v", source, target, err)
			}
			codec := b.Attributes().Codec()
			if codec != target.target(source) || worker != (codec != source) || !b.VerifyCRC() || len(b) != b.SizeBytes() {
				t.Fatalf("%v to %v: %v, worker %v", source, target, b, worker)
			}
			if got := recordsOf(t, b); got != want {
				t.Fatalf("%v to %v:\n%s\n%s", source, target, got, want)
			}
		}
	}
}

func TestNeedsWorker(t *testing.T) {
	p := testPolicy()
	for codec := None; codec <= Zstd; codec++ {
		b := good(codec)
		for name, change := range map[string]func(*Policy){"compacted": compacted, "always": always} {
			q := p
			change(&q)
			if p.NeedsWorker(b) || q.NeedsWorker(b) != (codec != None) {
				t.Errorf("%v, %s: %v, %v", codec, name, p.NeedsWorker(b), q.NeedsWorker(b))
			}
		}
	}
	p.ValidateCompressed = true
	for _, junk := range [][]byte{nil, good(Gzip)[:HeaderSize-1], patched(good(None), put16(posAttributes, 7))} {
		if p.NeedsWorker(junk) {
			t.Errorf("a worker for %x", junk)
		}
	}
}

// TestCheckAllocations holds the produce path to no allocation at all.
func TestCheckAllocations(t *testing.T) {
	p := testPolicy()
	appendTime := p
	appendTime.TimestampType = LogAppendTime
	shapes := benchShapes
	for codec := Gzip; codec <= Zstd; codec++ {
		shapes = append(shapes, benchShape{codec.String(), good(codec)})
	}
	for _, s := range shapes {
		for _, policy := range []*Policy{&p, &appendTime} {
			records := bytes.Clone(s.batch)
			n := testing.AllocsPerRun(20, func() {
				copy(records, s.batch)
				if policy.NeedsWorker(records) {
					t.Fatal("needs a worker")
				}
				if _, err := policy.Check(records); err != nil {
					t.Fatal(err)
				}
			})
			if n != 0 {
				t.Errorf("%s, %v: %v allocations", s.name, policy.TimestampType, n)
			}
		}
	}
}
