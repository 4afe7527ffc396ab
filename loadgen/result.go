package loadgen

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/posthouse/posthouse/results"
)

// Result is the outcome in the schema of recorded runs: one run of kind load
// against whoever answers at the address. The caller adds what it knows better:
// environment, contender, the server's usage.
func (o *Outcome) Result(command []string) *results.Run {
	r := &results.Run{
		SchemaVersion: results.SchemaVersion,
		ID:            o.StartedAt.UTC().Format("20060102T150405.000Z") + "-" + strings.ReplaceAll(o.Workload.Name, " ", "-"),
		Kind:          results.KindLoad,
		StartedAt:     o.StartedAt,
		DurationMs:    o.Measured.Milliseconds(),
		WarmupMs:      time.Duration(o.Workload.Warmup).Milliseconds(),
		Command:       command,
		Contender: results.Contender{
			Name: strings.Join(o.Bootstrap, ","), Role: results.RoleExternal, Address: strings.Join(o.Bootstrap, ","),
		},
		Workload: results.Workload{
			Name: o.Workload.Name, Mode: string(o.Workload.Mode),
			OfferedRecordsPerSec: o.Workload.Schedule.highest(), Parameters: mustJSON(&o.Workload),
		},
		Client: &results.Client{
			Engine: o.Client.Engine, Loops: o.Client.Loops, LoopShare: o.Client.LoopShare, LoopWait: o.Client.LoopWait,
			SendLatenessP99Us: o.Client.SendLatenessP99Us, SendLatenessMaxUs: o.Client.SendLatenessMaxUs,
		},
		Failure: o.Failure,
	}
	for i := range o.Lines {
		r.Lines = append(r.Lines, o.resultLine(&o.Lines[i]))
	}
	for i := range o.Lines {
		r.Series = append(r.Series, o.series(o.Lines[i].Name)...)
	}
	for _, w := range o.Warnings {
		r.Warn(w.Code, "%s", w.Text)
	}
	if o.Verify != nil {
		r.Verify = mustJSON(o.Verify)
	}
	return r
}

func mustJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: loadgen: " + err.Error())
	}
	return text
}

// highest is the largest rate of the schedule, 0 for a closed loop.
func (s *Schedule) highest() float64 {
	rate := s.Rate
	for _, step := range s.Steps {
		rate = max(rate, step.Rate)
	}
	return rate
}

func (o *Outcome) resultLine(l *Line) results.Line {
	line := results.Line{
		Name: l.Name, Records: l.Records, Bytes: l.Bytes, Requests: l.Requests, Unfinished: l.Unfinished,
		Errors: l.Errors, ErrorsByCode: l.ErrorsByCode, RecordsPerSec: l.RecordsPerSec, MiBPerSec: l.MiBPerSec,
	}
	line.SetHistogram(l.Histogram)
	o.measuredTicks(l.Name, func(from, to time.Duration, t *TickLine) {
		if t.Histogram.Count() > 0 && to.Milliseconds() > from.Milliseconds() {
			line.Intervals = append(line.Intervals, results.Interval{
				StartMs: from.Milliseconds(), DurationMs: to.Milliseconds() - from.Milliseconds(), Histogram: t.Histogram.Encode(),
			})
		}
	})
	return line
}

// tickSlack is how far a tick may reach over the ends of the measured part.
const tickSlack = 20 * time.Millisecond

// measuredTicks calls f for the ticks of the measured part, with their times
// since it began.
func (o *Outcome) measuredTicks(line string, f func(from, to time.Duration, t *TickLine)) {
	warmup := time.Duration(o.Workload.Warmup)
	var from time.Duration
	for i := range o.Ticks {
		t := &o.Ticks[i]
		to := t.Elapsed
		// One that begins a moment before the warm-up ends is of the measured part.
		if begin := max(from-warmup, 0); from > warmup-tickSlack && begin < o.Measured-tickSlack && to > from {
			for j := range t.Lines {
				if t.Lines[j].Name == line {
					f(begin, to-warmup, &t.Lines[j])
				}
			}
		}
		from = to
	}
}

// series are a line's figures by second.
func (o *Outcome) series(line string) []results.Series {
	all := []results.Series{
		{Name: results.SeriesRate, Line: line, Unit: "records/s"},
		{Name: results.SeriesMiB, Line: line, Unit: "MiB/s"},
		{Name: results.SeriesP50, Line: line, Unit: "us"},
		{Name: results.SeriesP99, Line: line, Unit: "us"},
		{Name: results.SeriesMax, Line: line, Unit: "us"},
	}
	o.measuredTicks(line, func(from, to time.Duration, t *TickLine) {
		seconds := (to - from).Seconds()
		values := []float64{
			float64(t.Records) / seconds, float64(t.Bytes) / seconds / (1 << 20),
			float64(t.P50), float64(t.P99), float64(t.Max),
		}
		for i, v := range values {
			// A second without answers has a rate and no latencies.
			if i < 2 || t.Histogram.Count() > 0 {
				all[i].Points = append(all[i].Points, results.Point{to.Seconds(), v})
			}
		}
	})
	return all
}
