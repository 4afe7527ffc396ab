package metrics

import (
	"math/bits"
	"sync"
	"time"
)

// bounds are the upper ends, inclusive, of the buckets of a Histogram. About
// three to a decade: enough for alerts, and few enough that every API may have
// four histograms on every loop. For fine percentiles there is posthouse load.
var bounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second,
}

// firstBucket is, by the number of bits of a duration in nanoseconds, the first
// bucket that it may fall into.
var firstBucket = func() (first [65]uint8) {
	for n := range first {
		least := time.Duration(0)
		if n > 0 {
			least = 1 << min(n-1, 62)
		}
		for int(first[n]) < len(bounds) && bounds[first[n]] < least {
			first[n]++
		}
	}
	return first
}()

// Histogram counts durations in fixed buckets. It belongs to one goroutine: no
// field is atomic. The zero Histogram is empty.
type Histogram struct {
	counts [len(bounds) + 1]uint64
	sum    time.Duration
}

// Observe counts one duration; a negative one counts as zero.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := int(firstBucket[bits.Len64(uint64(d))])
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += d
}

// Add puts what another has counted on top.
func (h *Histogram) Add(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.sum += o.sum
}

// Count is how many durations were observed.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Sum is all that was observed together.
func (h *Histogram) Sum() time.Duration { return h.sum }

// cumulative is the count at or below each bound, by the bound in the unit
// given.
func (h *Histogram) cumulative(unit time.Duration) map[float64]uint64 {
	out := make(map[float64]uint64, len(bounds))
	n := uint64(0)
	for i, bound := range bounds {
		n += h.counts[i]
		out[float64(bound)/float64(unit)] = n
	}
	return out
}

// SharedHistogram is a Histogram for any goroutine, where things are rare.
type SharedHistogram struct {
	mu sync.Mutex
	h  Histogram // guarded by mu
}

// Observe counts one duration.
func (s *SharedHistogram) Observe(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.Observe(d)
}

// Snapshot is what was counted so far.
func (s *SharedHistogram) Snapshot() Histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.h
}
