package results

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"
)

// CSV writes one row for each run and line, every metric in a column of its
// own with the unit in its name, unrounded.
func (r *Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"id", "session", "round", "started_at", "duration_ms", "workload", "mode", "offered_records_per_sec",
		"contender", "role", "version", "line", "records", "bytes", "errors", "unfinished"}
	for _, m := range metrics {
		head = append(head, csvName(m))
	}
	if err := out.Write(append(head, "warnings", "failure")); err != nil {
		return err
	}
	for _, run := range r.Runs {
		for i := range run.Lines {
			if err := out.Write(csvRow(run, &run.Lines[i])); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// csvName is a metric's key and unit as one word.
func csvName(m Metric) string {
	name := m.Key
	if m.Unit != "" {
		name += "_" + m.Unit
	}
	return strings.NewReplacer("/", "_per_", "-", "_", ".", "_", "µ", "u", "%", "percent").Replace(name)
}

func csvRow(run *Run, l *Line) []string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	integer := func(v int64) string { return strconv.FormatInt(v, 10) }
	row := []string{run.ID, run.Session, strconv.Itoa(run.Round), run.StartedAt.UTC().Format(time.RFC3339Nano), integer(run.DurationMs),
		run.Workload.Name, run.Workload.Mode, number(run.Workload.OfferedRecordsPerSec),
		run.Contender.Name, string(run.Contender.Role), run.Contender.Version,
		l.Name, integer(l.Records), integer(l.Bytes), integer(l.Errors), integer(l.Unfinished)}
	for _, m := range metrics {
		value := ""
		if v, ok := m.Value(run, l.Name); ok {
			value = number(v)
		}
		row = append(row, value)
	}
	var codes []string
	for _, w := range run.Warnings {
		codes = append(codes, w.Code)
	}
	return append(row, strings.Join(codes, " "), run.Failure)
}
