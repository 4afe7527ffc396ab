package loadgen

import (
	"strings"
	"time"

	"github.com/posthouse/posthouse/results"
)

// ModeGroups is the mode of group loads in results.
const ModeGroups = "groups"

// Line is a line of the outcome by name, nil if nothing of it was measured.
func (o *GroupOutcome) Line(name string) *GroupLine {
	for i := range o.Lines {
		if o.Lines[i].Name == name {
			return &o.Lines[i]
		}
	}
	return nil
}

// Result is the outcome in the schema of recorded runs. Its records are requests,
// of a rebalance one for each. The line that the workload is about comes first;
// joins, which happen before, are last.
func (o *GroupOutcome) Result(command []string) *results.Run {
	r := &results.Run{
		SchemaVersion: results.SchemaVersion,
		ID:            o.StartedAt.UTC().Format("20060102T150405.000Z") + "-" + strings.ReplaceAll(o.Workload.Name, " ", "-"),
		Kind:          results.KindLoad,
		StartedAt:     o.StartedAt,
		DurationMs:    o.Measured.Milliseconds(),
		WarmupMs:      time.Duration(o.Workload.Warmup).Milliseconds(),
		Command:       command,
		Contender:     results.Contender{Name: strings.Join(o.Bootstrap, ","), Role: results.RoleExternal, Address: strings.Join(o.Bootstrap, ",")},
		Workload: results.Workload{
			Name: o.Workload.Name, Mode: ModeGroups, OfferedRecordsPerSec: o.Workload.offered(), Parameters: mustJSON(&o.Workload),
		},
		Client: &results.Client{Engine: o.Client.Engine, Loops: o.Client.Loops, LoopShare: o.Client.LoopShare},
	}
	order := []string{LineHeartbeat, LineCommit, LineRebalance, LineJoin}
	switch {
	case o.Workload.Restarts:
		order = []string{LineRebalance, LineHeartbeat, LineCommit, LineJoin}
	case o.Workload.CommitClosed || o.Workload.CommitRate > 0:
		order = []string{LineCommit, LineHeartbeat, LineRebalance, LineJoin}
	}
	for _, name := range order {
		l := o.Line(name)
		if l == nil {
			continue
		}
		line := results.Line{Name: l.Name, Records: l.Requests, Requests: l.Requests, Errors: l.Errors, RecordsPerSec: l.PerSecond}
		if len(l.ErrorsByCode) > 0 {
			line.ErrorsByCode = map[string]int64{}
			for code, n := range l.ErrorsByCode {
				line.ErrorsByCode[codeName(code)] += n
			}
		}
		line.SetHistogram(l.Histogram)
		r.Lines = append(r.Lines, line)
	}
	r.Series = append(r.Series, results.Series{Name: "formed", Unit: "s", Points: []results.Point{{0, o.Formed.Seconds()}}})
	return r
}

// offered is the rate that the workload asks for, 0 where answers set the pace.
func (w *GroupWorkload) offered() float64 {
	if w.CommitClosed || w.Restarts {
		return 0
	}
	return float64(w.Groups*w.Members)/time.Duration(w.Heartbeat).Seconds() + w.CommitRate
}
