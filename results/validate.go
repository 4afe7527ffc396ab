package results

import (
	"errors"
	"fmt"
	"math"

	"github.com/posthouse/posthouse/results/hdr"
)

// Validate says what does not hold of a run, all of it, each with its place.
func (r *Run) Validate() error {
	v := validation{run: r.ID}
	v.check(r.SchemaVersion >= 1 && r.SchemaVersion <= SchemaVersion, "schemaVersion %d", r.SchemaVersion)
	v.check(r.ID != "", "id is empty")
	v.check(r.Kind == KindLoad || r.Kind == KindBench, "kind %q", r.Kind)
	v.check(!r.StartedAt.IsZero(), "startedAt is missing")
	v.check(r.DurationMs >= 0 && r.WarmupMs >= 0, "negative duration")
	v.check(r.Round >= 0, "round %d", r.Round)
	v.check(r.Contender.Name != "", "contender.name is empty")
	v.check(r.Workload.Name != "" && r.Workload.Mode != "", "workload has no name or no mode")
	switch r.Contender.Role {
	case RoleSubject, RolePeer, RoleLimit, RoleNull, RoleExternal:
	default:
		v.check(false, "contender.role %q", r.Contender.Role)
	}
	if r.Workload.Headline != "" {
		_, known := MetricByKey(r.Workload.Headline)
		v.check(known, "workload.headline %q is no metric", r.Workload.Headline)
	}
	names := make(map[string]bool)
	for i := range r.Lines {
		l := &r.Lines[i]
		v.check(l.Name != "" && !names[l.Name], "lines[%d]: name %q is empty or there twice", i, l.Name)
		names[l.Name] = true
		v.line(l)
	}
	if u := r.Usage; u != nil {
		v.numbers("usage", u.ServerCPUSeconds, u.ClientCPUSeconds, u.MachineCPUSeconds, u.StealSeconds,
			float64(u.PeakRSSBytes), float64(u.WrittenBytes), float64(u.ContextSwitches), u.CPUMicrosPerRecord, u.CPUSecondsPerGiB)
	}
	for i, s := range r.Series {
		v.check(s.Name != "" && s.Unit != "", "series[%d] has no name or no unit", i)
		for j, p := range s.Points {
			v.check(j == 0 || p[0] > s.Points[j-1][0], "series %s %s: point %d is not after the one before", s.Line, s.Name, j)
			v.check(finite(p[0]) && finite(p[1]), "series %s %s: point %d", s.Line, s.Name, j)
		}
	}
	for i, w := range r.Warnings {
		v.check(w.Code != "" && w.Text != "", "warnings[%d] has no code or no text", i)
	}
	return errors.Join(v.problems...)
}

// maxProblems keeps the complaint about a wholly broken run readable.
const maxProblems = 8

type validation struct {
	run      string
	problems []error
}

func (v *validation) check(ok bool, format string, args ...any) {
	if !ok && len(v.problems) < maxProblems {
		v.problems = append(v.problems, fmt.Errorf("run %q: %s", v.run, fmt.Sprintf(format, args...)))
	}
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func (v *validation) numbers(what string, values ...float64) {
	for _, f := range values {
		v.check(finite(f) && f >= 0, "%s: a figure is %v", what, f)
	}
}

func (v *validation) line(l *Line) {
	v.numbers("line "+l.Name, float64(l.Records), float64(l.Bytes), float64(l.Requests), float64(l.Unfinished),
		float64(l.Errors), l.RecordsPerSec, l.MiBPerSec)
	for i, p := range l.Percentiles {
		v.check(p.P >= 0 && p.P <= 100 && p.Us >= 0, "line %s: percentile %v = %d µs", l.Name, p.P, p.Us)
		v.check(i == 0 || p.P > l.Percentiles[i-1].P && p.Us >= l.Percentiles[i-1].Us,
			"line %s: percentile %v = %d µs does not follow the one before", l.Name, p.P, p.Us)
	}
	_, err := l.Latencies()
	v.check(err == nil, "%v", err)
	for i, interval := range l.Intervals {
		_, err := hdr.Decode(interval.Histogram)
		v.check(err == nil, "line %s, interval %d: %v", l.Name, i, err)
		v.check(interval.DurationMs > 0 && (i == 0 || interval.StartMs > l.Intervals[i-1].StartMs),
			"line %s, interval %d does not follow the one before", l.Name, i)
	}
}
