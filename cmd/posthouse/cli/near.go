package cli

import (
	"slices"
	"strings"
)

// Nearest is the name most like a mistyped one, "" where none is like it.
func Nearest(name string, names []string) string {
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, n := range slices.Sorted(slices.Values(names)) {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	return best
}

// distance counts the bytes to add, drop, change or swap with their neighbour
// to make b of a (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
