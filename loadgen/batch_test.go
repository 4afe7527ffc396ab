package loadgen

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/storage/record"
)

func TestCRCJoin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 7, 40, 61, 1000, 70_000, 1 << 20} {
		a, b := make([]byte, 40), make([]byte, n)
		for _, p := range [][]byte{a, b} {
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
		}
		want := crc32.Checksum(append(bytes.Clone(a), b...), castagnoli)
		got := crcJoin(crc32.Checksum(a, castagnoli), crc32.Checksum(b, castagnoli), crcShift(n))
		if got != want {
			t.Errorf("joined CRC of 40 and %d bytes is %08x, want %08x", n, got, want)
		}
	}
}

// frameOf encodes a batch of count records as a producer would.
func frameOf(t *testing.T, w *Workload, version int16, count int) []byte {
	t.Helper()
	r := newRun(Options{Workload: *w})
	defer r.close()
	rng := rand.New(rand.NewPCG(1, 2))
	_, largest := w.Record.bounds()
	r.values = newValues(rng, largest, w.Compressibility)
	codec, _ := w.codec()
	e := encoder{run: r, codec: codec, version: version, keys: newKeyPicker(&w.Keys, rng)}
	p := &producer{run: r, producerID: 77, producerEpoch: 3}
	b := &batch{part: &part{topic: "topic-x", index: 9, stream: 4}, correlation: 1234, sequence: 50, number: 1000}
	if r.shaped {
		b.shape = newShape(&r.limits, r.values, &w.Record, rng)
		if n := len(b.shape.ends) - 1; n < count {
			t.Fatalf("a full batch has %d records, want at least %d", n, count)
		}
	}
	for i := range count {
		b.intended = append(b.intended, int64(i)*1000)
		b.sizes = append(b.sizes, w.Record.draw(rng))
		b.keys = append(b.keys, int64(i))
	}
	b.count = count
	e.encode(b, p, 1_700_000_000_000)
	return append(append(bytes.Clone(b.head), b.body...), e.tail()...)
}

// TestFramesAreWhatABrokerTakes decodes what is sent with the broker's own
// codec and checks the batch as a broker checks it.
func TestFramesAreWhatABrokerTakes(t *testing.T) {
	versions := []int16{3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	if testing.Short() {
		versions = []int16{8, 9}
	}
	for _, version := range versions {
		for _, compression := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			for _, mode := range []Mode{ModeProduce, ModeVerify} {
				for _, keys := range []string{"none", "zipf"} {
					for _, count := range []int{1, 13} {
						name := fmt.Sprintf("v%d/%s/%s/%s/%d", version, compression, mode, keys, count)
						t.Run(name, func(t *testing.T) { testFrame(t, version, compression, mode, keys, count) })
					}
				}
			}
		}
	}
}

func testFrame(t *testing.T, version int16, compression string, mode Mode, keys string, count int) {
	w := DefaultWorkload(mode)
	w.Compression, w.Keys.Distribution, w.Acks = compression, keys, AcksAll
	w.Record, _ = ParseSizes("uniform:40-900")
	frame := frameOf(t, &w, version, count)
	header, err := wire.ParseRequestHeader(frame[4:], func(_, v int16) bool { return v >= produceFlexible })
	if err != nil {
		t.Fatal(err)
	}
	if header.Key != 0 || header.Version != version || header.CorrelationID != 1234 || string(header.ClientID) != defaultClientID {
		t.Fatalf("header %+v", header)
	}
	var req wire.ProduceRequest
	if err := req.Decode(version, header.Body); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(req.Append(nil, version), header.Body) {
		t.Fatal("the frame has bytes that its content does not")
	}
	part := req.Topics[0].Partitions[0]
	if string(req.Topics[0].Name) != "topic-x" || part.Index != 9 || req.Acks != -1 || req.TimeoutMs != produceTimeoutMs {
		t.Fatalf("request %+v", req)
	}
	policy := record.DefaultPolicy()
	policy.Now, policy.ValidateCompressed, policy.FromClient = 1_700_000_000_500, true, true
	b, err := policy.Check(part.Records)
	if err != nil {
		t.Fatalf("the broker refuses: %v", err)
	}
	if int(b.Count()) != count || b.ProducerID() != 77 || b.ProducerEpoch() != 3 || b.BaseSequence() != 50 ||
		b.MaxTimestamp() != 1_700_000_000_000 || b.Attributes().Codec().String() != compression {
		t.Fatalf("batch %v", b)
	}
	seen := 0
	err = eachValue(b, func(offset record.Offset, value []byte) {
		if int(offset) != seen {
			t.Fatalf("record %d has offset %d", seen, offset)
		}
		if mode == ModeVerify {
			s, ours := readStamp(value, readRun(value))
			if !ours || s.number != uint64(1000+seen) || s.stream != 4 || s.intended != int64(seen)*1000 || !intact(value) {
				t.Fatalf("stamp of record %d: %+v", seen, s)
			}
			value[40%len(value)] ^= 1
			if intact(value) {
				t.Fatal("a changed value counts as intact")
			}
		}
		seen++
	})
	if err != nil || seen != count {
		t.Fatalf("%d values, %v", seen, err)
	}
}

// readRun is the run in a stamp, whatever it is.
func readRun(value []byte) (run uint64) {
	for i := range 8 {
		run |= uint64(value[i]) << (8 * i)
	}
	return run
}

// TestShapeFillsBatch holds a batch to its bounds as Kafka counts them.
func TestShapeFillsBatch(t *testing.T) {
	for _, c := range []struct {
		batch, size, records, want int
	}{
		{16 << 10, 1024, 0, 15}, {1 << 20, 1024, 0, 1014}, {1, 5000, 0, 1}, {16 << 10, 1024, 4, 4}, {64 << 10, 100, 0, 600},
	} {
		w := DefaultWorkload(ModeProduce)
		w.BatchBytes, w.BatchRecords, w.Record = Bytes(c.batch), c.records, Fixed(c.size)
		l := newLimits(&w)
		rng := rand.New(rand.NewPCG(1, 2))
		s := newShape(&l, newValues(rng, c.size, 0), &w.Record, rng)
		n := len(s.ends) - 1
		whole := record.HeaderSize + len(s.body)
		if n < c.want*95/100 || n > c.want*105/100 || n > 1 && whole > c.batch {
			t.Errorf("batch of %d with records of %d: %d records in %d bytes, want about %d", c.batch, c.size, n, whole, c.want)
		}
	}
}

func TestEachValueSurvivesDamage(t *testing.T) {
	w := DefaultWorkload(ModeE2E)
	w.Record = Fixed(64)
	frame := frameOf(t, &w, 9, 5)
	var req wire.ProduceRequest
	header, err := wire.ParseRequestHeader(frame[4:], func(int16, int16) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if err := req.Decode(9, header.Body); err != nil {
		t.Fatal(err)
	}
	b := record.Batch(req.Topics[0].Partitions[0].Records)
	rng := rand.New(rand.NewPCG(5, 5))
	for range 20_000 {
		damaged := record.Batch(bytes.Clone(b))
		for range 1 + rng.IntN(3) {
			damaged[record.HeaderSize+rng.IntN(len(b)-record.HeaderSize)] = byte(rng.Uint32())
		}
		_ = eachValue(damaged, func(record.Offset, []byte) {})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, mode := range []Mode{ModeProduce, ModeE2E} {
		b.Run(string(mode), func(b *testing.B) {
			w := DefaultWorkload(mode)
			r := newRun(Options{Workload: w})
			defer r.close()
			rng := rand.New(rand.NewPCG(1, 2))
			r.values = newValues(rng, 1024, 0)
			e := encoder{run: r, version: 9}
			batch := &batch{part: &part{topic: "topic-x"}, count: 15}
			if r.shaped {
				batch.shape = newShape(&r.limits, r.values, &w.Record, rng)
			}
			for range 15 {
				batch.sizes = append(batch.sizes, 1024)
				batch.intended = append(batch.intended, 1)
			}
			p := &producer{run: r}
			b.ReportAllocs()
			for range b.N {
				e.encode(batch, p, 1)
			}
		})
	}
}

// TestCompressibility holds batches to the share that is asked for.
func TestCompressibility(t *testing.T) {
	for _, c := range []float64{0, 0.3, 0.5, 0.9} {
		for _, codec := range []record.Codec{record.LZ4, record.Zstd} {
			w := DefaultWorkload(ModeProduce)
			w.BatchBytes = 128 << 10
			l := newLimits(&w)
			rng := rand.New(rand.NewPCG(1, 2))
			s := newShape(&l, newValues(rng, 1024, c), &w.Record, rng)
			n := len(s.ends) - 1
			share := 1 - float64(len(s.compressed(n, codec)))/float64(len(s.body))
			if share < c-0.12 || share > c+0.08 {
				t.Errorf("%v: %.2f of the batch compresses away, want about %v", codec, share, c)
			}
		}
	}
}
