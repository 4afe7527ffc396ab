package results

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMedianAndRange(t *testing.T) {
	for _, test := range []struct {
		sample            Sample
		median, low, high float64
	}{
		{Sample{3}, 3, 3, 3},
		{Sample{3, 1}, 2, 1, 3},
		{Sample{9, 1, 5}, 5, 1, 9},
		{Sample{4, 1, 2, 100}, 3, 1, 100},
	} {
		low, high := test.sample.Range()
		if m := test.sample.Median(); m != test.median || low != test.low || high != test.high {
			t.Errorf("%v: median %v, range %v–%v", test.sample, m, low, high)
		}
	}
	if !math.IsNaN(Sample{}.Median()) {
		t.Error("the median of nothing is a number")
	}
}

// TestBootstrapOfTheMedian compares with the exact distribution: of n values,
// n odd, a draw's median is at most the k-th smallest with the probability that
// at least (n+1)/2 of n draws are among the k smallest.
func TestBootstrapOfTheMedian(t *testing.T) {
	exact := func(n int, tail float64) (low, high int) {
		atMost := func(k int) float64 { // P(median ≤ k-th), k from 1
			p, sum := float64(k)/float64(n), 0.0
			for j := (n + 1) / 2; j <= n; j++ {
				c := 1.0
				for i := range j {
					c = c * float64(n-i) / float64(i+1)
				}
				sum += c * math.Pow(p, float64(j)) * math.Pow(1-p, float64(n-j))
			}
			return sum
		}
		for low = 1; atMost(low) <= tail; low++ {
		}
		for high = low; atMost(high) < 1-tail; high++ {
		}
		return low, high
	}
	for _, n := range []int{3, 5, 7, 9, 11} {
		// Ratios 1.01, 1.02, … in another order.
		a, b := make(Sample, n), make(Sample, n)
		for i := range n {
			a[(i*4+1)%n], b[i] = 1+float64(i+1)/100, 1
		}
		if n%2 == 0 || len(slices.Compact(slices.Sorted(slices.Values(a)))) != n {
			t.Fatalf("bad test data for %d", n)
		}
		low, high := exact(n, (1-Confidence)/2)
		e := PairedRatio(a, b, true)
		if wantLow, wantHigh := 1+float64(low)/100, 1+float64(high)/100; e.Low != wantLow || e.High != wantHigh {
			t.Errorf("n=%d: [%v, %v], exactly it is [%v, %v]", n, e.Low, e.High, wantLow, wantHigh)
		}
		if e.Ratio != a.Median() {
			t.Errorf("n=%d: ratio %v", n, e.Ratio)
		}
		if again := PairedRatio(a, b, true); again != e {
			t.Errorf("n=%d: %v, then %v of the same runs", n, e, again)
		}
	}
}

func TestVerdicts(t *testing.T) {
	ones := Sample{1, 1, 1, 1, 1, 1, 1, 1, 1}
	for _, test := range []struct {
		name    string
		ratios  Sample
		higher  bool
		verdict Verdict
	}{
		{"nothing", nil, true, TooFew},
		{"two", Sample{2, 2}, true, TooFew},
		{"same", Sample{1, 1, 1}, true, NoDifference},
		{"both sides", Sample{.9, 1.1, 1.2}, true, NoDifference},
		{"small but sure", Sample{1.01, 1.012, 1.011, 1.01, 1.01, 1.01, 1.01}, true, NoDifference},
		{"three, close to 1", Sample{1.05, 1.2, 1.3}, true, LikelyBetter},
		{"three, far from 1", Sample{2.0, 2.2, 2.1}, true, Better},
		{"three, far from 1, of a cost", Sample{2.0, 2.2, 2.1}, false, Worse},
		{"three, halved cost", Sample{.5, .45, .52}, false, Better},
		{"five, close to 1, of a cost", Sample{1.03, 1.2, 1.3, 1.1, 1.1}, false, LikelyWorse},
		{"nine, close to 1", Sample{1.03, 1.04, 1.2, 1.3, 1.1, 1.1, 1.08, 1.09, 1.1}, true, Better},
		{"nine, one against", Sample{.9, 1.04, 1.2, 1.3, 1.1, 1.1, 1.08, 1.09, 1.1}, true, Better},
		{"nine, three against", Sample{.9, .8, .95, 1.3, 1.1, 1.1, 1.08, 1.09, 1.1}, true, NoDifference},
	} {
		if e := PairedRatio(test.ratios, ones[:len(test.ratios)], test.higher); e.Verdict != test.verdict {
			t.Errorf("%s: %v %v", test.name, e.Verdict, e)
		}
	}
}

func TestPairsBeatDrift(t *testing.T) {
	// The machine slows to a half; a is always a tenth faster than b.
	var a, b Sample
	for i := range 7 {
		speed := 100 / (1 + float64(i)/6)
		a, b = append(a, 1.1*speed), append(b, speed)
	}
	if e := PairedRatio(a, b, true); e.Verdict != Better || math.Abs(e.Ratio-1.1) > 1e-9 {
		t.Errorf("paired: %+v", e)
	}
	if e := UnpairedRatio(a, b, true); e.Verdict != NoDifference {
		t.Errorf("unpaired: %+v", e)
	}
}

// TestFalseAlarms takes two contenders that are the same: the sure verdicts
// must be rare, whatever the number of rounds.
func TestFalseAlarms(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) Sample {
		s := make(Sample, n)
		for i := range s {
			s[i] = 100 * math.Exp(.08*random.NormFloat64())
		}
		return s
	}
	trials := 400
	if testing.Short() {
		trials = 120
	}
	for _, n := range []int{3, 5, 9} {
		sure := 0
		for range trials {
			a, b := draw(n), draw(n)
			for _, v := range []Verdict{PairedRatio(a, b, true).Verdict, UnpairedRatio(a, b, true).Verdict} {
				if v == Better || v == Worse {
					sure++
				}
			}
		}
		share := float64(sure) / float64(2*trials)
		t.Logf("%d rounds: %.1f %% sure verdicts of equals", n, 100*share)
		if share > .1 {
			t.Errorf("%d rounds: %.1f %% of equals are called different", n, 100*share)
		}
	}
}

func TestUnpaired(t *testing.T) {
	e := UnpairedRatio(Sample{20, 21, 22}, Sample{10, 10.5, 11, 10.2}, false)
	if math.Abs(e.Ratio-21/10.35) > 1e-9 || e.Verdict != Worse || e.Runs != 3 || e.Low > e.Ratio || e.High < e.Ratio {
		t.Errorf("%+v", e)
	}
	if e := UnpairedRatio(nil, Sample{1}, false); e.Verdict != TooFew || e.Runs != 0 {
		t.Errorf("%+v", e)
	}
}
