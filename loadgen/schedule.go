package loadgen

import (
	"math"
	"math/rand/v2"
)

// never is later than any run.
const never = math.MaxInt64

// arrivals yields the intended send times of one connection's records, in
// nanoseconds since the run began, in order. Each connection has an equal share
// of the rate, and with a constant one the connections take turns.
type arrivals struct {
	// head is the next record's time, or never.
	head int64

	steps   []interval
	step    int
	count   int64 // records of this step so far
	phase   float64
	rng     *rand.Rand // nil where times are not random
	elapsed float64    // of the step, at the last random arrival
}

// interval is a time of constant rate, half-open.
type interval struct {
	start, end int64   // ns
	gap        float64 // ns between two records of one connection
}

// newArrivals is the schedule of connection index out of n. It must be open.
func newArrivals(s *Schedule, index, n int, seed uint64) *arrivals {
	a := &arrivals{phase: float64(index) / float64(n)}
	steps := s.Steps
	if s.Kind != Steps {
		steps = []Step{{Rate: s.Rate}}
	}
	var start int64
	for i, step := range steps {
		end := start + int64(step.For)
		if i == len(steps)-1 {
			end = never
		}
		a.steps = append(a.steps, interval{start: start, end: end, gap: 1e9 * float64(n) / step.Rate})
		start = end
	}
	if s.Kind == Poisson || s.Poisson {
		a.rng = rand.New(rand.NewPCG(seed, uint64(index)))
		a.elapsed = a.rng.ExpFloat64() * a.steps[0].gap
	}
	a.settle()
	return a
}

// advance moves to the next record.
func (a *arrivals) advance() {
	if a.rng != nil {
		a.elapsed += a.rng.ExpFloat64() * a.steps[a.step].gap
	} else {
		a.count++
	}
	a.settle()
}

// settle computes head, in the next step if this one is over.
func (a *arrivals) settle() {
	for {
		s := &a.steps[a.step]
		offset := a.elapsed
		if a.rng == nil {
			// From the count, not by adding up: no drift.
			offset = (float64(a.count) + a.phase) * s.gap
		}
		if offset < float64(never-s.start)/2 {
			a.head = s.start + int64(offset)
		} else {
			a.head = never
		}
		if a.head < s.end || a.step == len(a.steps)-1 {
			return
		}
		a.step++
		a.count = 0
		if a.rng != nil {
			// Without memory: the wait begins anew at the new rate.
			a.elapsed = a.rng.ExpFloat64() * a.steps[a.step].gap
		}
	}
}

// scheduledRecords is how many records the schedule has in [from, to), in ns
// since the run began: the expectation, where arrivals are random.
func (s *Schedule) scheduledRecords(from, to int64) float64 {
	if s.Kind != Steps {
		return s.Rate * float64(to-from) / 1e9
	}
	var start int64
	var sum float64
	for i, step := range s.Steps {
		end := start + int64(step.For)
		if i == len(s.Steps)-1 {
			end = never
		}
		if overlap := min(end, to) - max(start, from); overlap > 0 {
			sum += step.Rate * float64(overlap) / 1e9
		}
		start = end
	}
	return sum
}
