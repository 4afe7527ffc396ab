package results

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Sample is one figure of several runs of the same work.
type Sample []float64

// Median is the middle value, of an even number the mean of the two; NaN of
// nothing.
func (s Sample) Median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return medianSorted(slices.Sorted(slices.Values(s)))
}

func medianSorted(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// Range is the smallest and the largest value; NaN of nothing.
func (s Sample) Range() (low, high float64) {
	if len(s) == 0 {
		return math.NaN(), math.NaN()
	}
	return slices.Min(s), slices.Max(s)
}

const (
	// Confidence is that of every interval here.
	Confidence = 0.95
	// resamples is enough for the ends of a 95 % interval to be stable to a
	// fraction of what the runs themselves scatter.
	resamples = 4000
	// seed makes every report of the same runs say the same.
	seed = 0x706f7374686f7573
)

// Verdict is what a comparison amounts to. Better and worse are of the metric,
// not of the number: fewer µs are better.
type Verdict string

// Verdicts, from best to worst.
const (
	Better       Verdict = "better"
	LikelyBetter Verdict = "likely better"
	NoDifference Verdict = "no clear difference"
	TooFew       Verdict = "too few runs"
	LikelyWorse  Verdict = "likely worse"
	Worse        Verdict = "worse"
)

const (
	// minRuns is the least for a verdict: fewer have no noise to speak of.
	minRuns = 3
	// minSure runs all on one side happen by chance in 1 of 2^(minSure-1)
	// cases, 3 %. With fewer, only a distance that dwarfs the noise is sure.
	minSure = 6
	// minEffect is the smallest difference worth a word, as a share.
	minEffect = 0.02
)

// Estimate is a ratio with what is known of it.
type Estimate struct {
	// Ratio is the median of the paired ratios, or the ratio of the medians of
	// runs that are no pairs.
	Ratio float64 `json:"ratio"`
	// Low and High are the bootstrap's 95 % interval.
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Runs    int     `json:"runs"` // pairs, or the smaller side
	Verdict Verdict `json:"verdict"`
}

// PairedRatio compares runs that were taken next to each other: a[i] with
// b[i], all positive. What slows the machine for a minute slows both of a
// pair, so the ratios scatter less than the figures.
func PairedRatio(a, b Sample, higherIsBetter bool) Estimate {
	n := min(len(a), len(b))
	if n == 0 {
		return noEstimate()
	}
	ratios := make(Sample, n)
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	e := Estimate{Ratio: ratios.Median(), Runs: n}
	drawn := newResampler(rand.New(rand.NewPCG(seed, uint64(n))), ratios)
	e.Low, e.High = interval(drawn.median)

	// The noise is the scatter of the ratios, the distance that from 1.
	low, high := ratios.Range()
	noise := math.Log(high / low)
	distance := max(math.Log(low), -math.Log(high))
	e.Verdict = verdict(e, distance, noise, higherIsBetter)
	return e
}

// UnpairedRatio compares runs of different times, as with a baseline.
func UnpairedRatio(a, b Sample, higherIsBetter bool) Estimate {
	n := min(len(a), len(b))
	if n == 0 {
		return noEstimate()
	}
	e := Estimate{Ratio: a.Median() / b.Median(), Runs: n}
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	drawnA, drawnB := newResampler(random, a), newResampler(random, b)
	e.Low, e.High = interval(func() float64 { return drawnA.median() / drawnB.median() })

	lowA, highA := a.Range()
	lowB, highB := b.Range()
	noise := max(math.Log(highA/lowA), math.Log(highB/lowB))
	distance := max(math.Log(lowA/highB), math.Log(lowB/highA))
	e.Verdict = verdict(e, distance, noise, higherIsBetter)
	return e
}

func noEstimate() Estimate {
	return Estimate{Verdict: TooFew}
}

// resampler draws as many as a sample has, with replacement.
type resampler struct {
	random *rand.Rand
	sorted []float64
	counts []int // how often each was drawn
}

func newResampler(random *rand.Rand, from Sample) *resampler {
	return &resampler{random, slices.Sorted(slices.Values(from)), make([]int, len(from))}
}

// median is that of one draw. It counts ranks instead of sorting what was
// drawn: a report of a whole matrix makes millions of draws.
func (r *resampler) median() float64 {
	n := len(r.sorted)
	clear(r.counts)
	for range n {
		r.counts[r.random.IntN(n)]++
	}
	return (r.at((n-1)/2) + r.at(n/2)) / 2
}

// at is the value of a rank, from 0, of what was drawn.
func (r *resampler) at(rank int) float64 {
	for i, count := range r.counts {
		if rank -= count; rank < 0 {
			return r.sorted[i]
		}
	}
	panic("BUG: fewer values drawn than there are")
}

func interval(draw func() float64) (low, high float64) {
	estimates := make([]float64, resamples)
	for i := range estimates {
		estimates[i] = draw()
	}
	slices.Sort(estimates)
	tail := int((1 - Confidence) / 2 * resamples)
	return estimates[tail], estimates[resamples-1-tail]
}

// verdict says how sure a difference is. The interval must leave out 1 and the
// difference be worth a word; with few runs, where even an interval of all
// runs leaves out 1 by chance (three of three: in 1 of 4 cases), it is likely
// at most, unless the two sides stand further apart than each scatters.
// distance and noise are logarithms; distance is negative where they overlap.
func verdict(e Estimate, distance, noise float64, higherIsBetter bool) Verdict {
	switch {
	case e.Runs < minRuns:
		return TooFew
	case e.Low <= 1 && e.High >= 1, math.Abs(math.Log(e.Ratio)) < minEffect:
		return NoDifference
	}
	better := (e.Ratio > 1) == higherIsBetter
	sure := e.Runs >= minSure || (distance > minEffect && distance >= noise)
	switch {
	case better && sure:
		return Better
	case better:
		return LikelyBetter
	case sure:
		return Worse
	default:
		return LikelyWorse
	}
}
