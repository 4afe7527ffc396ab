package loadgen

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/posthouse/posthouse/results/hdr"
)

// WriteJSON writes the outcome, indented.
func (o *Outcome) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(o)
}

// WriteLog writes the latencies of every second as an HdrHistogram log, one
// tag for each line.
func (o *Outcome) WriteLog(w io.Writer) error {
	log, err := hdr.NewLogWriter(w, o.StartedAt, fmt.Sprintf("posthouse load, workload %s", o.Workload.Name))
	if err != nil {
		return err
	}
	var from time.Duration
	for i := range o.Ticks {
		t := &o.Ticks[i]
		for _, l := range t.Lines {
			err := log.Write(hdr.Interval{
				Tag: l.Name, Start: o.StartedAt.Add(from), End: o.StartedAt.Add(t.Elapsed), Histogram: l.Histogram,
			})
			if err != nil {
				return err
			}
		}
		from = t.Elapsed
	}
	return nil
}
