package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/posthouse/posthouse/results"
)

// Standing says how a ratio lies to its goal.
type Standing string

// Standings.
const (
	Reached Standing = "reached"
	// InDoubt misses the goal by less than the noise.
	InDoubt Standing = "in doubt"
	Missed  Standing = "missed"
)

// Judged is a goal with the ratio that was measured.
type Judged struct {
	Goal
	results.Comparison
	Standing Standing
}

func (j Judged) String() string {
	name := j.Comparison.Metric
	if j.Comparison.Line != "" {
		name = j.Comparison.Line + " " + name
	}
	return fmt.Sprintf("%-22s %-40s %-22s %5.2f × (%.2f–%.2f), goal %s: %s", j.Workload,
		j.Subject.Contender+" / "+j.Comparison.Against.Contender, name, j.Ratio, j.Low, j.High, j.Goal, j.Standing)
}

// Judge holds runs against the goals of the matrix. Goals whose contenders did
// not run are left out.
func Judge(runs []*results.Run) []Judged {
	goals := make(map[string][]Goal)
	for _, w := range Matrix() {
		goals[w.Name] = w.Goals
	}
	var all []Judged
	for _, group := range results.GroupRuns(runs) {
		for _, subject := range group.Cells {
			if subject.Contender.Role != results.RoleSubject {
				continue
			}
			for _, goal := range goals[group.Workload.Name] {
				all = append(all, judge(group, subject, goal)...)
			}
		}
	}
	return all
}

func judge(group *results.Group, subject *results.Cell, goal Goal) []Judged {
	metric, known := results.MetricByKey(goal.Metric)
	if !known {
		panic("BUG: goal of an unknown metric " + goal.Metric)
	}
	var all []Judged
	for _, against := range group.Cells {
		if against.Contender.Role != goal.Against {
			continue
		}
		comparison, ok := results.Compare(subject, against, metric, goal.Line)
		if !ok {
			continue
		}
		j := Judged{Goal: goal, Comparison: comparison, Standing: Missed}
		switch {
		case goal.Holds(comparison.Ratio):
			j.Standing = Reached
		case goal.Holds(comparison.Low) || goal.Holds(comparison.High):
			j.Standing = InDoubt
		}
		all = append(all, j)
	}
	return all
}

// Recorded are ratios to the limit as they were once measured: what the ratio
// check holds new ones against.
type Recorded struct {
	SchemaVersion int             `json:"schemaVersion"`
	RecordedAt    time.Time       `json:"recordedAt"`
	Version       string          `json:"version"` // of Posthouse
	CPUModel      string          `json:"cpuModel"`
	CPUs          int             `json:"cpus"`
	Ratios        []RecordedRatio `json:"ratios"`
}

// RecordedRatio is a ratio of a subject to the limit, with its interval then.
type RecordedRatio struct {
	Workload string  `json:"workload"`
	Subject  string  `json:"subject"`
	Against  string  `json:"against"`
	Metric   string  `json:"metric"`
	Line     string  `json:"line,omitempty"`
	Ratio    float64 `json:"ratio"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Rounds   int     `json:"rounds"`
}

const recordedVersion = 1

// toLimit are the judged ratios to the limit.
func toLimit(runs []*results.Run) []Judged {
	return slices.DeleteFunc(Judge(runs), func(j Judged) bool { return j.Goal.Against != results.RoleLimit })
}

// Record makes the record of a session.
func Record(runs []*results.Run, version string) (*Recorded, error) {
	r := &Recorded{SchemaVersion: recordedVersion, RecordedAt: time.Now().UTC().Truncate(time.Second), Version: version}
	for _, j := range toLimit(runs) {
		r.Ratios = append(r.Ratios, RecordedRatio{
			Workload: j.Workload, Subject: j.Subject.Contender, Against: j.Comparison.Against.Contender,
			Metric: j.Comparison.Metric, Line: j.Comparison.Line, Ratio: j.Ratio, Low: j.Low, High: j.High, Rounds: j.Runs,
		})
	}
	if len(r.Ratios) == 0 {
		return nil, errors.New("no ratio of Posthouse to the limit was measured: nothing to record")
	}
	if e := runs[0].Environment; e != nil {
		r.CPUModel, r.CPUs = e.CPUModel, e.CPUs
	}
	return r, nil
}

// Write writes the record, whole or not at all.
func (r *Recorded) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return results.WriteFile(path, append(text, '\n'))
}

// ReadRecorded reads a record.
func ReadRecorded(path string) (*Recorded, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Recorded)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.SchemaVersion != recordedVersion || len(r.Ratios) == 0 {
		return nil, fmt.Errorf("%s: no recorded ratios of version %d", path, recordedVersion)
	}
	return r, nil
}

// checkTolerance is how much worse than the worst end of the recorded interval
// all of a new one may be: machines differ, and shared ones more so.
const checkTolerance = 0.15

// Checked is a recorded ratio with what was measured now.
type Checked struct {
	RecordedRatio
	Now results.Estimate
	// Failed says that all of the interval is worse than the record's worst end
	// by more than the tolerance.
	Failed bool
}

func (c Checked) String() string {
	verdict := "ok"
	if c.Failed {
		verdict = "WORSE"
	}
	return fmt.Sprintf("%-18s %-20s %-16s %5.2f × %s (%.2f–%.2f), recorded %.2f (%.2f–%.2f): %s",
		c.Workload, c.Subject, c.Metric, c.Now.Ratio, c.Against, c.Now.Low, c.Now.High, c.Ratio, c.Low, c.High, verdict)
}

// Check holds runs against a record. A recorded ratio of a contender that ran
// must have been measured; contenders that did not run are left out.
func (r *Recorded) Check(runs []*results.Run) ([]Checked, error) {
	now := toLimit(runs)
	ran := make(map[string]bool)
	for _, c := range results.Contenders(runs) {
		ran[c.Name] = true
	}
	var all []Checked
	for _, was := range r.Ratios {
		if !ran[was.Subject] || !ran[was.Against] {
			continue
		}
		i := slices.IndexFunc(now, func(j Judged) bool {
			return j.Workload == was.Workload && j.Subject.Contender == was.Subject && j.Comparison.Against.Contender == was.Against &&
				j.Comparison.Metric == was.Metric && j.Comparison.Line == was.Line
		})
		if i < 0 {
			return all, fmt.Errorf("%s of %s in %s was not measured", was.Metric, was.Subject, was.Workload)
		}
		c := Checked{RecordedRatio: was, Now: now[i].Estimate}
		if now[i].Least > 0 { // more is better
			c.Failed = c.Now.High < min(was.Low, was.Ratio)*(1-checkTolerance)
		} else {
			c.Failed = c.Now.Low > max(was.High, was.Ratio)*(1+checkTolerance)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("none of the recorded ratios was measured")
	}
	return all, nil
}

// Of is the record of some workloads only.
func (r *Recorded) Of(workloads []string) *Recorded {
	part := *r
	part.Ratios = slices.DeleteFunc(slices.Clone(r.Ratios), func(ratio RecordedRatio) bool { return !slices.Contains(workloads, ratio.Workload) })
	return &part
}

// Failing are the workloads of which a ratio failed, in order.
func Failing(checked []Checked) []string {
	var names []string
	for _, c := range checked {
		if c.Failed && !slices.Contains(names, c.Workload) {
			names = append(names, c.Workload)
		}
	}
	return names
}
