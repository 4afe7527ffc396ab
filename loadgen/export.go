package loadgen

import (
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/posthouse/posthouse/results/hdr"
)

// WriteLog writes the latencies of every second, the warm-up included, as an
// HdrHistogram log with one tag for each line.
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

// YAML is the workload as ReadWorkload takes it, all defaults spelled out.
func (w *Workload) YAML() ([]byte, error) { return yaml.Dump(w) }
