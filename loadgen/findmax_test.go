package loadgen

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthouse/posthouse/results/hdr"
)

func TestBound(t *testing.T) {
	b, err := ParseBound("p99.9=2500us")
	if err != nil || b.Percentile != 99.9 || b.Max != 2500*time.Microsecond {
		t.Fatalf("%+v, %v", b, err)
	}
	for _, bad := range []string{"", "99=1ms", "p99", "p0=1ms", "p101=1ms", "p99=fast", "p99=-1s"} {
		if _, err := ParseBound(bad); err == nil {
			t.Errorf("%q is a bound", bad)
		}
	}
}

// limited is a run against a broker whose latency leaps at a rate.
func limited(limit float64, line string) func(context.Context, Options) (*Outcome, error) {
	return func(_ context.Context, opts Options) (*Outcome, error) {
		rate := opts.Workload.Schedule.Rate
		h := hdr.New()
		h.RecordN(500, 99)
		if rate > limit {
			h.RecordN(80_000, 10)
		}
		o := &Outcome{Workload: opts.Workload, Lines: []Line{{Name: line, Records: h.Count(), Histogram: h}}}
		if rate > 3*limit {
			o.warn(WarnUnfinished, "some")
			return o, errors.New("no record went through")
		}
		return o, nil
	}
}

func TestFindMaxRate(t *testing.T) {
	bound := Bound{Percentile: 99, Max: 10 * time.Millisecond}
	for _, mode := range []Mode{ModeProduce, ModeE2E} {
		for _, limit := range []float64{37, 9_999, 10_000, 123_456, 5e6} {
			line := LineAck
			if mode == ModeE2E {
				line = LineE2E
			}
			w := DefaultWorkload(mode)
			heard := 0
			s, err := findMaxRate(t.Context(), Options{Workload: w}, bound, func(float64, *Outcome, bool) { heard++ }, limited(limit, line))
			if err != nil {
				t.Fatal(err)
			}
			if s.Rate > limit || s.Rate < limit*0.96 || s.Best.Workload.Schedule.Rate != s.Rate || len(s.Trials) > 25 || heard != len(s.Trials)+1 {
				t.Errorf("%s, limit %v: found %v, %d trials, %d heard", mode, limit, s.Rate, len(s.Trials), heard)
			}
		}
	}
	if s, err := findMaxRate(t.Context(), Options{Workload: DefaultWorkload(ModeProduce)}, bound, nil, limited(0.1, LineAck)); err == nil || s.Best == nil || s.Rate != 0 {
		t.Errorf("a bound that never holds: %v, %+v", err, s)
	}
	broken := func(context.Context, Options) (*Outcome, error) { return nil, errors.New("cannot reach the target") }
	if s, err := findMaxRate(t.Context(), Options{Workload: DefaultWorkload(ModeProduce)}, bound, nil, broken); err == nil || s != nil {
		t.Errorf("no target: %v, %+v", err, s)
	}
}

// TestSearchOfARealServer takes the same way over the network, with a bound
// that the first rate holds and a later one breaks. Where the machine is too
// busy for even that, trials go downwards, and there are still several.
func TestSearchOfARealServer(t *testing.T) {
	var answered atomic.Int64
	address := startFake(t, netioEngine, &fakeBroker{produce: func() int16 {
		if answered.Add(1) > 300 {
			time.Sleep(20 * time.Millisecond)
		}
		return 0
	}})
	w := short(ModeProduce, func(w *Workload) {
		w.Schedule = Schedule{Kind: Constant, Rate: 100}
		w.Partitions, w.BatchRecords = 1, 1
		w.Duration, w.Warmup, w.Drain = Duration(500*time.Millisecond), Duration(100*time.Millisecond), Duration(5*time.Second)
	})
	s, err := FindMaxRate(within(t, 2*time.Minute), Options{Bootstrap: []string{address}, Workload: w}, Bound{50, 10 * time.Millisecond}, nil)
	if s == nil || len(s.Trials) < 2 || s.Best == nil {
		t.Fatalf("%v: %+v", err, s)
	}
}
