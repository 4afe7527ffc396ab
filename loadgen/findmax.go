package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// searchFactor is the growth of the rate until the bound breaks, and
	// searchPrecision where halving the interval ends.
	searchFactor    = 2
	searchPrecision = 0.03
	// trialsMax bounds the search.
	trialsMax = 40
	// firstRate is tried first where the workload has none.
	firstRate = 10_000
)

// Bound is a latency that a percentile must not exceed.
type Bound struct {
	Percentile float64
	Max        time.Duration
}

// ParseBound reads "p99=10ms".
func ParseBound(text string) (Bound, error) {
	name, limit, ok := strings.Cut(text, "=")
	p, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
	if !ok || err != nil || !strings.HasPrefix(name, "p") || !(p > 0 && p <= 100) {
		return Bound{}, fmt.Errorf("%q is no bound: want something like p99=10ms", text)
	}
	d, err := time.ParseDuration(limit)
	if err != nil || d <= 0 {
		return Bound{}, fmt.Errorf("%q is no bound: want something like p99=10ms", text)
	}
	return Bound{Percentile: p, Max: d}, nil
}

func (b Bound) String() string { return fmt.Sprintf("p%g ≤ %v", b.Percentile, b.Max) }

// holds says whether a run kept the bound at its rate: of the latency that the
// mode is about, without errors, and with the rate reached.
func (b Bound) holds(o *Outcome) bool {
	line := o.Line(LineAck)
	if o.Workload.Mode == ModeE2E {
		line = o.Line(LineE2E)
	}
	if line == nil || line.Records == 0 || line.Errors > 0 {
		return false
	}
	for _, w := range o.Warnings {
		if w.Code == WarnRateNotReached || w.Code == WarnUnfinished {
			return false
		}
	}
	return line.Histogram.At(b.Percentile) <= b.Max.Microseconds()
}

// Search is the result of FindMaxRate.
type Search struct {
	Bound Bound
	// Rate is the highest rate, in records per second, that held the bound, and
	// Best its run. Rate is zero, and Best the lowest rate's run, if none did.
	Rate float64
	Best *Outcome
	// Trials are all that was tried.
	Trials []Trial
}

// Trial is one rate that was tried.
type Trial struct {
	Rate  float64
	Holds bool
	Us    int64 // the percentile
}

// FindMaxRate looks for the highest rate that holds the bound: by doubling,
// then by halving the interval. The workload's rate is where it begins, its
// duration and warm-up are those of each trial. trial, which may be nil, hears
// the next rate (0 at the end) and how the last one went. Search is not nil
// once one trial is over.
func FindMaxRate(ctx context.Context, opts Options, bound Bound, trial func(next float64, last *Outcome, held bool)) (*Search, error) {
	return findMaxRate(ctx, opts, bound, trial, Run)
}

func findMaxRate(ctx context.Context, opts Options, bound Bound, trial func(next float64, last *Outcome, held bool),
	run func(context.Context, Options) (*Outcome, error)) (*Search, error) {
	if trial == nil {
		trial = func(float64, *Outcome, bool) {}
	}
	s := &Search{Bound: bound}
	if opts.Workload.Schedule.Kind == Steps {
		return nil, errors.New("a schedule of steps has no one rate to search for")
	}
	poisson := opts.Workload.Schedule.Kind == Poisson
	rate := opts.Workload.Schedule.Rate
	if rate <= 0 {
		rate = firstRate
	}
	var low, high float64
	var last *Outcome
	for held := false; rate > 0 && len(s.Trials) < trialsMax; {
		trial(rate, last, held)
		opts.Workload.Schedule = Schedule{Kind: Constant, Rate: rate}
		if poisson {
			opts.Workload.Schedule.Kind = Poisson
		}
		o, err := run(ctx, opts)
		if o == nil || o.Interrupted || err != nil && !o.exhausted() {
			if err == nil {
				err = ctx.Err()
			}
			return s.orNil(), err
		}
		held = bound.holds(o)
		last = o
		s.add(o, rate, held)
		// The topics are there now, and fresh ones would measure their creation.
		opts.Workload.Create = "missing"
		if held {
			low = rate
		} else {
			high = rate
		}
		rate = nextRate(low, high, rate)
		if rate == 0 {
			trial(0, last, held)
		}
	}
	if s.Rate == 0 {
		return s, fmt.Errorf("%v does not hold at the lowest rate tried, %.0f records/s", bound, s.Trials[len(s.Trials)-1].Rate)
	}
	return s, nil
}

// nextRate is what to try next, 0 when the search is over.
func nextRate(low, high, rate float64) float64 {
	switch {
	case high == 0:
		return rate * searchFactor
	case low == 0:
		if rate < 10 {
			return 0
		}
		return rate / searchFactor
	case high/low-1 <= searchPrecision:
		return 0
	}
	return (low + high) / 2
}

// exhausted says that the run failed for nothing but being too much.
func (o *Outcome) exhausted() bool {
	for _, w := range o.Warnings {
		if w.Code == WarnUnfinished {
			return true
		}
	}
	return false
}

func (s *Search) add(o *Outcome, rate float64, held bool) {
	line := o.Line(LineAck)
	if o.Workload.Mode == ModeE2E {
		line = o.Line(LineE2E)
	}
	t := Trial{Rate: rate, Holds: held}
	if line != nil {
		t.Us = line.Histogram.At(s.Bound.Percentile)
	}
	s.Trials = append(s.Trials, t)
	if held && rate > s.Rate {
		s.Rate, s.Best = rate, o
	} else if s.Rate == 0 {
		s.Best = o
	}
}

func (s *Search) orNil() *Search {
	if len(s.Trials) == 0 {
		return nil
	}
	return s
}
