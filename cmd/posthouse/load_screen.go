package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/posthouse/posthouse/loadgen"
)

// loadScreen shows a run: one line that is written over on a terminal, plain
// lines elsewhere.
type loadScreen struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	shown    bool // a line that is to be written over stands there
	prefix   string
}

func newLoadScreen(w io.Writer) *loadScreen {
	s := &loadScreen{w: w}
	if f, ok := w.(*os.File); ok {
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		s.terminal = err == nil
	}
	return s
}

// tick shows one second.
func (s *loadScreen) tick(t loadgen.Tick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := []string{fmt.Sprintf("%s%4.0fs", s.prefix, t.Elapsed.Seconds())}
	for _, l := range t.Lines {
		parts = append(parts, fmt.Sprintf("%s %s/s %.1f MiB/s p50 %s p99 %s",
			l.Name, grouped(l.Records), float64(l.Bytes)/(1<<20), micros(l.P50), micros(l.P99)))
	}
	if t.Errors > 0 {
		parts = append(parts, fmt.Sprintf("errors %d", t.Errors))
	}
	if t.Behind > 10*time.Millisecond {
		parts = append(parts, fmt.Sprintf("behind %v", t.Behind.Round(time.Millisecond)))
	}
	if t.BrokenConnections > 0 {
		parts = append(parts, fmt.Sprintf("%d connections away", t.BrokenConnections))
	}
	if t.Warmup {
		parts = append(parts, "(warm-up)")
	}
	line := strings.Join(parts, "  ")
	if s.terminal {
		fmt.Fprintf(s.w, "\r\x1b[K%s", line)
		s.shown = true
		return
	}
	fmt.Fprintln(s.w, line)
}

// trial announces the next trial of a search.
func (s *loadScreen) trial(rate float64, last *loadgen.Outcome, held bool) {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if last != nil {
		verdict := "does not hold"
		if held {
			verdict = "holds"
		}
		fmt.Fprintf(s.w, "%.0f records/s %s\n", last.Workload.Schedule.Rate, verdict)
	}
	if rate > 0 {
		s.prefix = fmt.Sprintf("%.0f/s ", rate)
	}
}

// end leaves the line that was written over.
func (s *loadScreen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown {
		fmt.Fprintln(s.w)
		s.shown = false
	}
}

// outcome shows the figures of a run.
func (s *loadScreen) outcome(o *loadgen.Outcome) {
	fmt.Fprintf(s.w, "\n%s: %v measured\n", o.Workload.Name, o.Measured.Round(time.Millisecond))
	for i := range o.Lines {
		l := &o.Lines[i]
		fmt.Fprintf(s.w, "  %-9s %s records  %s/s  %.1f MiB/s", l.Name, grouped(l.Records), grouped(int64(l.RecordsPerSec)), l.MiBPerSec)
		if l.Errors > 0 {
			fmt.Fprintf(s.w, "  %d errors", l.Errors)
		}
		fmt.Fprintln(s.w)
		if table := l.Histogram.Table(); table != nil {
			fmt.Fprint(s.w, "           ")
			for _, p := range table {
				name := fmt.Sprintf("p%g", p.P)
				if p.P == 100 {
					name = "max"
				}
				fmt.Fprintf(s.w, " %s %s", name, micros(p.Us))
			}
			fmt.Fprintln(s.w)
		}
	}
	c := &o.Client
	fmt.Fprintf(s.w, "  client    %s, busiest loop %.0f %% of a core, %.1f CPU s\n", c.Engine, 100*c.LoopShare, c.CPUSeconds)
	if v := o.Verify; v != nil {
		fmt.Fprintf(s.w, "  verify    sent %d  acked %d  received %d  lost %d  unknown %d  duplicates %d  out of order %d  corrupt %d  reconnects %d\n",
			v.Sent, v.Acked, v.Received, v.Lost, v.Unknown, v.Duplicates, v.Reordered, v.Corrupt, v.Reconnects)
		for _, p := range v.Problems {
			fmt.Fprintf(s.w, "            %s\n", p)
		}
	}
	for _, w := range o.Warnings {
		fmt.Fprintf(s.w, "  ! %s: %s\n", w.Code, w.Text)
	}
}

// micros shows microseconds with three digits.
func micros(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%dµs", us)
	case us < 1_000_000:
		return fmt.Sprintf("%.3gms", float64(us)/1e3)
	}
	return fmt.Sprintf("%.3gs", float64(us)/1e6)
}

// grouped shows a number with its thousands apart.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
