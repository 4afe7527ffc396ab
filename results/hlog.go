package results

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posthouse/posthouse/results/hdr"
)

// ErrNoLatencies says that no run has a histogram to export.
var ErrNoLatencies = errors.New("no run has latencies")

// HLog writes HdrHistogram's interval log, for its own viewers: an interval for
// each that was kept, else one for the whole run, tagged
// workload/contender/line.
func (r *Report) HLog(w io.Writer) error {
	from, _ := r.Span()
	log, err := hdr.NewLogWriter(w, from, "posthouse "+strings.ToLower(r.Title))
	if err != nil {
		return err
	}
	written := 0
	for _, run := range r.Runs {
		for i := range run.Lines {
			l := &run.Lines[i]
			for _, interval := range l.intervals(run.DurationMs) {
				h, err := hdr.Decode(interval.Histogram)
				if err != nil {
					return fmt.Errorf("run %s, line %s: %w", run.ID, l.Name, err)
				}
				start := run.StartedAt.Add(time.Duration(interval.StartMs) * time.Millisecond)
				err = log.Write(hdr.Interval{
					Tag:   slug(run.Workload.Name) + "/" + slug(run.Contender.Name) + "/" + slug(l.Name),
					Start: start, End: start.Add(time.Duration(interval.DurationMs) * time.Millisecond), Histogram: h,
				})
				if err != nil {
					return err
				}
				written++
			}
		}
	}
	if written == 0 {
		return ErrNoLatencies
	}
	return nil
}

func (l *Line) intervals(durationMs int64) []Interval {
	switch {
	case len(l.Intervals) > 0:
		return l.Intervals
	case l.Histogram != "":
		return []Interval{{DurationMs: durationMs, Histogram: l.Histogram}}
	default:
		return nil
	}
}

// Percentiles writes HdrHistogram's percentile text, one file for each
// workload, contender and line, all rounds together, into a directory that it
// makes: <workload>.<contender>.<line>.hgrm, in µs. It returns the names.
func (r *Report) Percentiles(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var names []string
	for _, g := range r.Groups {
		for _, line := range g.Lines() {
			for _, c := range g.Cells {
				h, err := c.Latencies(line)
				if err != nil {
					return names, err
				}
				if h == nil {
					continue
				}
				var text strings.Builder
				if err := h.WritePercentiles(&text); err != nil {
					return names, err
				}
				name := filepath.Join(dir, slug(g.Workload.Name)+"."+slug(c.Contender.Name)+"."+slug(line)+".hgrm")
				if err := WriteFile(name, []byte(text.String())); err != nil {
					return names, err
				}
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil, ErrNoLatencies
	}
	return names, nil
}

// slug is a name without what file names, tags and anchors do not take.
func slug(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '+':
			return c
		default:
			return '-'
		}
	}, s)
}
