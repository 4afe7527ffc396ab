package record

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// slowWalk is walk without its quick part.
func slowWalk(p []byte, count int32) (walked, bool) {
	var w walked
	pos := 0
	for i := range count {
		var r rawRecord
		end, ok := parseRecord(p, pos, &r)
		if !ok || r.offsetDelta != i {
			return walked{}, false
		}
		if i == 0 {
			w.minDelta, w.maxDelta = r.timestampDelta, r.timestampDelta
		}
		w.minDelta, w.maxDelta = min(w.minDelta, r.timestampDelta), max(w.maxDelta, r.timestampDelta)
		w.nullKey = w.nullKey || r.keyLen < 0
		pos = end
	}
	return w, pos == len(p)
}

// TestWalkAgrees compares the quick walk with the slow one on records of random
// shapes, whole and with a byte or two changed.
func TestWalkAgrees(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	rounds := 5000
	if testing.Short() {
		rounds = 1000
	}
	accepted := 0
	for range rounds {
		count := 1 + rng.IntN(5)
		first := rng.IntN(3) // sometimes a batch long enough for two-byte offsets
		if first == 0 {
			count += 62
		}
		b := randomBatch(rng, count)
		raw := b.Records()
		for range 20 {
			p := bytes.Clone(raw)
			for range rng.IntN(3) {
				p[rng.IntN(len(p))] = interesting[rng.IntN(len(interesting))]
			}
			if rng.IntN(10) == 0 {
				p = p[:rng.IntN(len(p)+1)]
			}
			got, ok := walk(p, int32(count))
			want, wantOK := slowWalk(p, int32(count))
			if ok != wantOK || ok && got != want {
				t.Fatalf("walk says %+v, %v; slowly %+v, %v; %d records in\n%x", got, ok, want, wantOK, count, p)
			}
			if ok {
				accepted++
			}
		}
	}
	if accepted < rounds {
		t.Fatalf("only %d of %d were accepted", accepted, rounds*20)
	}
}

// interesting bytes are those that framing is made of.
var interesting = []byte{0, 1, 2, 3, 0x7e, 0x7f, 0x80, 0x81, 0xfe, 0xff, 10, 20, 40}

func randomBatch(rng *rand.Rand, count int) Batch {
	sizes := []int{0, 1, 5, 30, 63, 64, 100, 8191, 8192}
	random := func() []byte {
		if rng.IntN(4) == 0 {
			return nil
		}
		return make([]byte, sizes[rng.IntN(len(sizes)-2*min(count/60, 1))])
	}
	deltas := []Timestamp{0, 1, -1, 63, 64, -64, -65, 8191, 8192, 1 << 20, 1 << 40, -1 << 50}
	b := NewBuilder()
	for range count {
		var headers []RecordHeader
		if rng.IntN(5) == 0 {
			headers = append(headers, RecordHeader{Key: "h", Value: random()})
		}
		b.Add(testNow+deltas[rng.IntN(len(deltas))], random(), random(), headers...)
	}
	return b.Build(None)
}

// TestWalkOffsets goes past each length of an offset's varint.
func TestWalkOffsets(t *testing.T) {
	raw := slices.Clone(NewBuilder().Add(0, nil, nil).Build(None).Records())
	one := func(i int) []byte {
		body := append([]byte{0, 0}, binary.AppendVarint(nil, int64(i))...)
		body = append(body, 1, 1, 0)
		return append(binary.AppendVarint(nil, int64(len(body))), body...)
	}
	for i := 1; i < 1<<20+3; i++ {
		raw = append(raw, one(i)...)
	}
	count := int32(1<<20 + 3)
	if w, ok := walk(raw, count); !ok || !w.nullKey || w.minDelta != 0 || w.maxDelta != 0 {
		t.Fatalf("%+v, %v", w, ok)
	}
	if _, ok := walk(raw, count-1); ok {
		t.Fatal("a record behind the last is not seen")
	}
	for _, i := range []int{1, 63, 64, 8191, 8192} {
		var bad []byte
		for j := range i {
			bad = append(bad, one(j)...)
		}
		for _, wrong := range []int{i - 1, i + 1, -i, 0} {
			if _, ok := walk(append(slices.Clone(bad), one(wrong)...), int32(i+1)); ok {
				t.Fatalf("offset delta %d in place of %d", wrong, i)
			}
		}
	}
}

// TestVarints compares the decoders with encoding/binary on every length.
func TestVarints(t *testing.T) {
	for shift := range 64 {
		for _, v := range []int64{1 << shift, -1 << shift, 1<<shift - 1, 1<<shift + 1} {
			p := binary.AppendVarint(nil, v)
			if got, n := varlong(p, 0); got != v || n != len(p) {
				t.Fatalf("varlong %d: %d, %d", v, got, n)
			}
			got, n := varint(p, 0)
			fits := v == int64(int32(v))
			if fits && (int64(got) != v || n != len(p)) || !fits && n != -1 {
				t.Fatalf("varint %d: %d, %d", v, got, n)
			}
			for cut := range p {
				if _, n := varlong(p[:cut], 0); n != -1 {
					t.Fatalf("varlong cut to %d: %d", cut, n)
				}
				if _, n := varint(p[:cut], 0); n != -1 {
					t.Fatalf("varint cut to %d: %d", cut, n)
				}
			}
		}
	}
}
