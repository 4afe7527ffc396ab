package group

import (
	"runtime"
	"strings"
	"testing"
)

// TestCheckRegexDoesNotCompile: what a heartbeat does with an expression costs as
// much as the expression is long, not as much as it stands for.
func TestCheckRegexDoesNotCompile(t *testing.T) {
	long := strings.Repeat("(a{900})", 900)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := checkRegex(long)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("an expression of %d bytes took %d bytes to check", len(long), got)
	}
	for _, bad := range []string{"(", "a)|(b", "a{1001}", "(((a{100}){100}){100})"} {
		if checkRegex(bad) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
