package record

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
)

// recordsOf is the records of a batch as text.
func recordsOf(t *testing.T, b Batch) string {
	t.Helper()
	var s strings.Builder
	err := b.Each(func(r Record) bool {
		fmt.Fprintf(&s, "%d@%d %s=%s", r.Offset, r.Timestamp, quote(r.Key), quote(r.Value))
		for k, v := range r.Headers.All() {
			fmt.Fprintf(&s, " %s:%s", k, quote(v))
		}
		s.WriteByte('\n')
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.String()
}

func quote(p []byte) string {
	if p == nil {
		return "null"
	}
	return fmt.Sprintf("%q", p)
}

func TestBatchView(t *testing.T) {
	b := NewBuilder().At(100, 9).Producer(1<<40, 12, math.MaxInt32).Transactional().
		Add(testNow, nil, nil).Add(testNow+7, nil, nil).Build(LZ4)
	a := b.Attributes()
	if b.BaseOffset() != 100 || b.LastOffset() != 101 || b.NextOffset() != 102 || b.LastOffsetDelta() != 1 ||
		b.LeaderEpoch() != 9 || b.Magic() != Magic || b.SizeBytes() != len(b) || b.Count() != 2 ||
		b.BaseTimestamp() != testNow || b.MaxTimestamp() != testNow+7 ||
		b.ProducerID() != 1<<40 || b.ProducerEpoch() != 12 || b.BaseSequence() != math.MaxInt32 || b.LastSequence() != 0 ||
		a.Codec() != LZ4 || !a.Transactional() || a.Control() || a.LogAppendTime() || a.HasDeleteHorizon() || !b.VerifyCRC() {
		t.Fatalf("%v", b)
	}
	h, err := ParseHeader(b[:HeaderSize])
	if err != nil || h.BaseOffset != 100 || h.NextOffset() != 102 || h.SizeBytes != len(b) || h.LastSequence() != 0 || h.CRC != b.CRC() {
		t.Fatalf("%+v, %v", h, err)
	}
	crc := b.CRC()
	b.SetBaseOffset(1 << 50)
	b.SetLeaderEpoch(77)
	if b.BaseOffset() != 1<<50 || b.LeaderEpoch() != 77 || b.CRC() != crc || !b.VerifyCRC() {
		t.Fatalf("stamping: %v", b)
	}
	plain := NewBuilder().Add(testNow, nil, nil).Build(None)
	if plain.ProducerID() != NoProducerID || plain.LastSequence() != NoSequence || plain.LeaderEpoch() != NoLeaderEpoch {
		t.Fatalf("%v", plain)
	}
}

func TestSplit(t *testing.T) {
	a, b := good(None), good(Zstd)
	file := join(a, b, make([]byte, 100))
	first, rest, err := Split(file)
	if err != nil || !bytes.Equal(first, a) {
		t.Fatal(err)
	}
	second, rest, err := Split(rest)
	if err != nil || !bytes.Equal(second, b) {
		t.Fatal(err)
	}
	if _, _, err := Split(rest); err != ErrEnd {
		t.Fatalf("zeros: %v", err)
	}
	for _, n := range []int{0, HeaderSize - 1, HeaderSize, len(a) - 1} {
		if _, _, err := Split(a[:n]); err != ErrShort {
			t.Fatalf("cut to %d: %v", n, err)
		}
	}
	for name, patch := range map[string]func(Batch){
		"length": put32(posLength, 3), "magic": func(b Batch) { b[posMagic] = 1 },
		"offset": put64(posBaseOffset, -1), "overflow": put64(posBaseOffset, math.MaxInt64),
		"delta": put32(posLastOffsetDelta, -1), "count": put32(posCount, -1),
	} {
		if _, _, err := Split(patched(a, patch)); err == nil || err == ErrShort || err == ErrEnd {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEachCodec(t *testing.T) {
	want := recordsOf(t, good(None))
	for codec := Gzip; codec <= Zstd; codec++ {
		if got := recordsOf(t, good(codec)); got != want {
			t.Errorf("%v:\n%s\n%s", codec, got, want)
		}
	}
	// C clients send a bare snappy block.
	plain := good(None)
	bare := append(bytes.Clone(plain[:HeaderSize]), snappy.Encode(nil, plain.Records())...)
	finish(bare, Attributes(Snappy))
	if got := recordsOf(t, bare); got != want {
		t.Errorf("bare snappy:\n%s", got)
	}
	seen := 0
	if err := plain.Each(func(Record) bool { seen++; return false }); err != nil || seen != 1 {
		t.Errorf("went on for %d records, %v", seen, err)
	}
}

func TestEachLarge(t *testing.T) {
	rows := bytes.Repeat([]byte("0123456789abcdef"), 20000)
	for codec := None; codec <= Zstd; codec++ {
		for level := -1; level < 30; level += 7 {
			b := NewBuilder().Level(level).Add(testNow, nil, rows).Build(codec)
			err := b.Each(func(r Record) bool {
				if !bytes.Equal(r.Value, rows) {
					t.Errorf("%v level %d: value differs", codec, level)
				}
				return true
			})
			if err != nil {
				t.Errorf("%v level %d: %v", codec, level, err)
			}
		}
	}
}

// TestBomb decompresses a few KiB that claim, or are, more than the bound.
func TestBomb(t *testing.T) {
	if testing.Short() {
		// Half the size bombs none of the codecs, but walks the same loops.
		bomb(t, MaxDecompressed/16, false)
		return
	}
	bomb(t, MaxDecompressed+1, true)
}

func bomb(t *testing.T, size int, refused bool) {
	zeros := make([]byte, size)
	for codec := Gzip; codec <= Zstd; codec++ {
		packed, err := compress(nil, zeros, codec, 1)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := decompress(nil, packed, codec); (err == errTooBig) != refused || !refused && len(out) != size {
			t.Errorf("%v: %d bytes from %d, %v", codec, len(out), len(packed), err)
		}
	}
	if _, err := decompress(nil, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, Snappy); err != errTooBig {
		t.Errorf("snappy's claim alone: %v", err)
	}
}

func TestEndTxnMarker(t *testing.T) {
	for _, want := range []EndTxnMarker{{ControlAbort, 0}, {ControlCommit, 1<<31 - 1}} {
		b := NewEndTxnMarker(testNow, 5, 2, want)
		got, ok, err := b.EndTxnMarker()
		if got != want || !ok || err != nil || !b.Attributes().Control() || !b.Attributes().Transactional() || b.ProducerID() != 5 {
			t.Fatalf("%+v, %v, %v", got, ok, err)
		}
		if n := testing.AllocsPerRun(10, func() { _, _, _ = b.EndTxnMarker() }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	control := func(key, value []byte) Batch { return NewBuilder().Control().Add(testNow, key, value).Build(None) }
	tests := []struct {
		name   string
		batch  Batch
		broken bool
	}{
		{"data", good(None), false},
		{"empty", NewBuilder().Control().Build(None), false},
		{"leader change", control([]byte{0, 0, 0, 2}, nil), false},
		{"newer type", control([]byte{0, 9, 0, 99}, nil), false},
		{"short key", control([]byte{0, 0, 0}, nil), true},
		{"null key", control(nil, nil), true},
		{"negative version", control([]byte{0xff, 0, 0, 1}, nil), true},
		{"short value", control([]byte{0, 0, 0, 1}, []byte{0, 0, 0}), true},
		{"negative value version", control([]byte{0, 0, 0, 1}, []byte{0xff, 0, 0, 0, 0, 0}), true},
		{"compressed", NewBuilder().Control().Add(testNow, nil, nil).Build(Gzip), true},
		{"not framed", patched(control(nil, nil), func(b Batch) { b[HeaderSize] = 0xff }), true},
	}
	for _, test := range tests {
		if _, ok, err := test.batch.EndTxnMarker(); ok || (err != nil) != test.broken {
			t.Errorf("%s: %v, %v", test.name, ok, err)
		}
	}
}

func TestSequence(t *testing.T) {
	for _, test := range []struct {
		s    Sequence
		n    int32
		want Sequence
	}{{0, 0, 0}, {5, 7, 12}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 2, 5, 2}, {0, math.MaxInt32, math.MaxInt32}, {1, math.MaxInt32, 0}} {
		if got := test.s.Add(test.n); got != test.want {
			t.Errorf("%d + %d = %d, want %d", test.s, test.n, got, test.want)
		}
	}
}

func TestTopicID(t *testing.T) {
	for range 1000 {
		id := NewTopicID()
		s := id.String()
		back, err := ParseTopicID(s)
		if err != nil || back != id || len(s) != 22 || s[0] == '-' || id.IsZero() {
			t.Fatalf("%q, %v", s, err)
		}
	}
	if id, err := ParseTopicID("AAAAAAAAAAAAAAAAAAAAAA"); err != nil || !id.IsZero() {
		t.Fatalf("%v, %v", id, err)
	}
	for _, s := range []string{"", "AAAA", "AAAAAAAAAAAAAAAAAAAAA+", strings.Repeat("A", 30)} {
		if _, err := ParseTopicID(s); err == nil {
			t.Errorf("%q is no id", s)
		}
	}
}

func TestParseDir(t *testing.T) {
	for _, tp := range []TopicPartition{{"a", 0}, {"a-b-1", 12}, {"__consumer_offsets", 49}, {"-", 3}} {
		if got, err := ParseDir(tp.String()); err != nil || got != tp {
			t.Errorf("%v: %v, %v", tp, got, err)
		}
	}
	for _, name := range []string{"", "a", "-1", "a-", "a-x", "a-01", "a--delete", "a-0.5e1f-delete", "a-0.5e1f-stray", "a-99999999999"} {
		if tp, err := ParseDir(name); err == nil {
			t.Errorf("%q is %v", name, tp)
		}
	}
}

func TestCompressionType(t *testing.T) {
	for c := CompressionProducer; c <= CompressionZstd; c++ {
		if got, err := ParseCompressionType(c.String()); err != nil || got != c {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	if _, err := ParseCompressionType("none"); err == nil {
		t.Error("none is no compression.type")
	}
}

// TestJavaCodecs reads batches that Apache Kafka 4.4.0 compressed itself
// (compression.type on topics that got javaBatch uncompressed).
func TestJavaCodecs(t *testing.T) {
	want := recordsOf(t, javaBatch())
	p := testPolicy()
	p.ValidateCompressed = true
	for codec := Gzip; codec <= Zstd; codec++ {
		data, err := os.ReadFile("testdata/java/" + codec.String() + ".batch")
		if err != nil {
			t.Fatal(err)
		}
		b, rest, err := Split(data)
		if err != nil || len(rest) != 0 || b.Attributes().Codec() != codec || !b.VerifyCRC() {
			t.Fatalf("%v: %v, %d bytes behind, %v", codec, b, len(rest), err)
		}
		if got := recordsOf(t, b); got != want {
			t.Errorf("%v:\n%s", codec, got)
		}
		if _, err := p.Check(data); err != nil {
			t.Errorf("%v: %v", codec, err)
		}
	}
}

func javaBatch() Batch {
	b := NewBuilder()
	for i := range 3 {
		b.Add(testNow+Timestamp(i), []byte{'k', byte('0' + i)}, bytes.Repeat([]byte("Apache Kafka "), 1000*(i+1)),
			RecordHeader{"h", []byte("x")}, RecordHeader{"null", nil})
	}
	return b.Build(None)
}
