// Package hdr holds latencies in HdrHistogram's form: whole microseconds, three
// significant digits, from 1 µs to one hour. It fixes what the rest of the
// program would otherwise choose again in each place (unit, range, digits), so
// that any two histograms of ours can be merged, and reads and writes
// HdrHistogram's own formats: the V2 compressed base64 encoding, the interval
// log (.hlog) and the percentile text.
//
// Nothing here is safe for concurrent use: each event loop records into a
// [Recorder] of its own, and the histograms are merged afterwards.
package hdr

import (
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// LowestUs and HighestUs bound what is told apart, in microseconds; values
	// beyond are counted as the nearest bound.
	LowestUs  = 1
	HighestUs = int64(time.Hour / time.Microsecond)
	// Digits is the number of significant decimal digits kept.
	Digits = 3
)

// Percentiles are the ones that every table shows, in percent.
var Percentiles = []float64{50, 75, 90, 99, 99.9, 99.99, 100}

// Percentile is one point of a distribution.
type Percentile struct {
	P  float64 `json:"p"`  // percent, 0..100
	Us int64   `json:"us"` // microseconds
}

// Histogram counts latencies. Make it with New or Decode. As JSON it is one
// string, HdrHistogram's V2 compressed base64 encoding.
type Histogram struct {
	h *hdrhistogram.Histogram
}

// New returns an empty histogram.
func New() *Histogram {
	return &Histogram{h: hdrhistogram.New(LowestUs, HighestUs, Digits)}
}

// Record counts one latency, in microseconds.
func (h *Histogram) Record(us int64) { h.RecordN(us, 1) }

// RecordN counts a latency n times.
func (h *Histogram) RecordN(us, n int64) {
	if err := h.h.RecordValues(min(max(us, LowestUs), HighestUs), n); err != nil {
		panic("BUG: hdr: " + err.Error())
	}
}

// RecordDuration counts one latency.
func (h *Histogram) RecordDuration(d time.Duration) { h.Record(d.Microseconds()) }

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	if dropped := h.h.Merge(other.h); dropped > 0 {
		panic(fmt.Sprintf("BUG: hdr: %d values lost in a merge", dropped))
	}
}

// Reset forgets all counts.
func (h *Histogram) Reset() { h.h.Reset() }

// Clone returns an independent copy.
func (h *Histogram) Clone() *Histogram { return &Histogram{h: h.h.Clone()} }

// Equal reports whether both have the same counts.
func (h *Histogram) Equal(other *Histogram) bool { return h.h.Equals(other.h) }

// Count is how many latencies were recorded.
func (h *Histogram) Count() int64 { return h.h.TotalCount() }

// Min, Max and Mean are in microseconds; zero when empty.
func (h *Histogram) Min() int64 { return h.h.Min() }

// Max is the largest latency, in microseconds.
func (h *Histogram) Max() int64 { return h.h.Max() }

// Mean is the arithmetic mean, in microseconds.
func (h *Histogram) Mean() float64 { return h.h.Mean() }

// StdDev is the standard deviation, in microseconds.
func (h *Histogram) StdDev() float64 { return h.h.StdDev() }

// At is the latency, in microseconds, that p percent of the recorded ones do
// not exceed.
func (h *Histogram) At(p float64) int64 { return h.h.ValueAtPercentile(p) }

// Table is the latency at each of the given percentiles, or at Percentiles
// where none are given; nil when nothing was recorded.
func (h *Histogram) Table(percentiles ...float64) []Percentile {
	if h.Count() == 0 {
		return nil
	}
	if len(percentiles) == 0 {
		percentiles = Percentiles
	}
	table := make([]Percentile, len(percentiles))
	for i, us := range h.h.ValueAtPercentilesSlice(percentiles) {
		table[i] = Percentile{P: percentiles[i], Us: us}
	}
	return table
}

// Curve is the whole distribution as HdrHistogram plots it: ticks points for
// each halving of the distance to 100 %.
func (h *Histogram) Curve(ticks int) []Percentile {
	if h.Count() == 0 {
		return nil
	}
	brackets := h.h.CumulativeDistributionWithTicks(int32(ticks))
	curve := make([]Percentile, len(brackets))
	for i, b := range brackets {
		curve[i] = Percentile{P: b.Quantile, Us: b.ValueAt}
	}
	return curve
}

// WritePercentiles writes the distribution as HdrHistogram's percentile text,
// in microseconds, for its existing plotters.
func (h *Histogram) WritePercentiles(w io.Writer) error {
	_, err := h.h.PercentilesPrint(w, 5, 1)
	return err
}

// Encode is HdrHistogram's V2 compressed form in base64.
func (h *Histogram) Encode() string {
	text, err := h.MarshalText()
	if err != nil {
		panic("BUG: hdr: " + err.Error())
	}
	return string(text)
}

// Decode reads what Encode, or HdrHistogram in another language, wrote. A
// histogram of another geometry is brought into ours; the error then says how
// many values lie outside our range.
func Decode(text string) (*Histogram, error) {
	read, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	h := New()
	if dropped := h.h.Merge(read); dropped > 0 {
		return nil, fmt.Errorf("histogram: %d values outside %d..%d µs", dropped, LowestUs, HighestUs)
	}
	return h, nil
}

// MarshalText implements encoding.TextMarshaler.
func (h *Histogram) MarshalText() ([]byte, error) { return h.h.EncodeV2() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Histogram) UnmarshalText(text []byte) error {
	read, err := Decode(string(text))
	if err == nil {
		*h = *read
	}
	return err
}
