package loadgen

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestIntervals compares the set with a table of booleans.
func TestIntervals(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 300 {
		var s intervals
		var table [80]bool
		for range 60 {
			from := rng.IntN(len(table))
			to := min(len(table), from+rng.IntN(6))
			if rng.IntN(3) == 0 {
				if got, want := s.remove(uint64(from)), table[from]; got != want {
					t.Fatalf("remove %d says %v, want %v: %v", from, got, want, s.runs)
				}
				table[from] = false
				continue
			}
			s.add(uint64(from), uint64(to))
			for i := from; i < to; i++ {
				table[i] = true
			}
		}
		var size uint64
		for i, in := range table {
			if in {
				size++
			}
			contains := slices.ContainsFunc(s.runs, func(r numbers) bool { return r.from <= uint64(i) && uint64(i) < r.to })
			if contains != in {
				t.Fatalf("%d: in the set %v, want %v: %v", i, contains, in, s.runs)
			}
		}
		if s.size() != size {
			t.Fatalf("size %d, want %d", s.size(), size)
		}
		for i := 1; i < len(s.runs); i++ {
			if s.runs[i-1].to >= s.runs[i].from {
				t.Fatalf("runs touch: %v", s.runs)
			}
		}
	}
}

func TestIntervalsCommon(t *testing.T) {
	a := intervals{runs: []numbers{{0, 10}, {20, 30}, {40, 50}}}
	b := intervals{runs: []numbers{{5, 25}, {29, 41}, {60, 70}}}
	var got []numbers
	a.common(&b, func(n numbers) { got = append(got, n) })
	if want := []numbers{{5, 10}, {20, 25}, {29, 30}, {40, 41}}; !slices.Equal(got, want) {
		t.Fatalf("common: %v, want %v", got, want)
	}
}

// TestReceivedFindsEachFault feeds one stream with every kind of fault.
func TestReceivedFindsEachFault(t *testing.T) {
	for _, c := range []struct {
		name                           string
		numbers                        []uint64
		missing, duplicates, reordered int64
	}{
		{"all well", []uint64{0, 1, 2, 3}, 0, 0, 0},
		{"gap", []uint64{0, 1, 4}, 2, 0, 0},
		{"gap at the begin", []uint64{2}, 2, 0, 0},
		{"twice at once", []uint64{0, 1, 1, 2}, 0, 1, 0},
		{"a run again", []uint64{0, 1, 2, 0, 1, 2, 3}, 0, 3, 0},
		{"late", []uint64{0, 2, 1, 3}, 0, 0, 1},
		{"late and twice", []uint64{0, 2, 1, 1, 3}, 0, 1, 1},
		{"late inside a gap", []uint64{0, 9, 5}, 7, 0, 1},
	} {
		var r received
		for _, k := range c.numbers {
			r.take(k)
		}
		if int64(r.missing.size()) != c.missing || r.duplicates != c.duplicates || r.reordered != c.reordered {
			t.Errorf("%s: %d missing, %d duplicates, %d reordered; want %d, %d, %d",
				c.name, r.missing.size(), r.duplicates, r.reordered, c.missing, c.duplicates, c.reordered)
		}
	}
}

// TestReport compares sent, acknowledged and read.
func TestReport(t *testing.T) {
	w := DefaultWorkload(ModeVerify)
	r := newRun(Options{Workload: w})
	defer r.close()
	p := &producer{run: r, parts: []*part{{topic: "t", index: 1, nextNumber: 100}}}
	p.parts[0].acked.add(0, 50)
	p.parts[0].acked.add(60, 90)
	got := &received{}
	for k := range uint64(80) {
		if k != 7 && (k < 52 || k >= 55) {
			got.take(k)
		}
	}
	r.producers, r.streams = []*producer{p}, 1
	r.consumers = []*consumer{{streams: []*received{got}}}
	v := r.report(true)
	// 7 and 80 to 89 were acknowledged and are gone; 52 to 54 and 90 to 99 were not.
	if v.Sent != 100 || v.Acked != 80 || v.Received != 76 || v.Lost != 11 || v.Unknown != 13 || v.OK || len(v.Problems) != 2 {
		t.Fatalf("%+v", v)
	}
}
