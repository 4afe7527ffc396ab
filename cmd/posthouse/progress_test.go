package main

import (
	"bytes"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress reports the steps of quick and of slow work.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		name   string
		always bool
		step   time.Duration
		steps  int
		lines  int
	}{
		{"quick", false, time.Millisecond, 10, 0},
		{"quick, told all the same", true, time.Millisecond, 10, 1},
		{"a line a second, and one at the end", false, 400 * time.Millisecond, 10, 4},
		{"slow steps", false, 3 * time.Second, 4, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			p := &progress{logger: slog.New(slog.NewTextHandler(&log, nil)), what: "working", begun: time.Now(), always: c.always}
			for i := range c.steps {
				time.Sleep(c.step)
				p.report(i+1, c.steps)
			}
			if n := strings.Count(log.String(), "\n"); n != c.lines {
				t.Errorf("%s: %d lines, want %d:\n%s", c.name, n, c.lines, &log)
			}
			if c.lines > 0 && !strings.Contains(log.String(), "percent=100") {
				t.Errorf("%s: no line at the end:\n%s", c.name, &log)
			}
		})
	}
}

// TestTuneRuntime gives each loop a processor, and leaves what the environment
// says alone.
func TestTuneRuntime(t *testing.T) {
	procs, percent, limit := runtime.GOMAXPROCS(0), debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() {
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	for _, name := range []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT"} {
		t.Setenv(name, "set")
	}
	tuneRuntime(2)
	if runtime.GOMAXPROCS(0) != procs || debug.SetMemoryLimit(-1) != limit || debug.SetGCPercent(100) != 100 {
		t.Error("the environment does not win")
	}
	for _, name := range []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT"} {
		os.Unsetenv(name)
	}
	tuneRuntime(2)
	if got := runtime.GOMAXPROCS(0); got != procs+2 {
		t.Errorf("GOMAXPROCS is %d, want %d cores and 2 loops", got, procs)
	}
	if got := debug.SetMemoryLimit(-1); got != heapLimitBytes {
		t.Errorf("the heap's limit is %d", got)
	}
}

// TestProcessStart compares the kernel's account of our start with the clock.
func TestProcessStart(t *testing.T) {
	if age := time.Since(processStart()); age < 0 || age > time.Hour {
		t.Errorf("this process is %v old", age)
	}
}
