package bench

import (
	"fmt"
	"slices"
)

// Sample is what repeated rounds of one measurement gave.
type Sample []float64

// Median is the middle value, the lower of two; 0 of nothing.
func (s Sample) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[(len(sorted)-1)/2]
}

// String gives the median and the range.
func (s Sample) String() string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.Median()), number(slices.Min(s)), number(slices.Max(s)))
}

// number keeps three digits or all those before the point.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// Ratios divides the rounds pairwise: round i of both ran next to each other.
func Ratios(a, b Sample) Sample {
	ratios := make(Sample, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return ratios
}
