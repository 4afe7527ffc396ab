package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/posthouse/posthouse/loadgen"
	"github.com/posthouse/posthouse/results"
)

// GroupLoad joins groups, heartbeats and commits (Workload.Groups).
const GroupLoad Special = "groups"

// groupWorkloads are what a coordinator does: keep many members alive, take
// commits, and bring a large group together again.
func groupWorkloads() []Workload {
	const group = "consumer groups"
	beats := loadgen.DefaultGroupWorkload()
	beats.Groups, beats.Members = 1000, 10
	beats.Warmup, beats.Duration = loadgen.Duration(10*time.Second), loadgen.Duration(15*time.Second)
	commits := loadgen.DefaultGroupWorkload()
	commits.Groups, commits.Members, commits.CommitClosed = 100, 1, true
	commits.Warmup, commits.Duration = loadgen.Duration(5*time.Second), loadgen.Duration(8*time.Second)
	large := loadgen.DefaultGroupWorkload()
	large.Groups, large.Members, large.Restarts = 1, 1000, true
	large.Warmup, large.Duration = 0, loadgen.Duration(25*time.Second)
	return []Workload{
		{Name: "groups-heartbeat", Title: "1,000 classic groups of 10 members, a connection each, heartbeats every 3 s", Group: group, Mode: loadgen.ModeGroups,
			Headline: "cpu-per-record", Special: GroupLoad, Groups: &beats, Goals: kafkaGoals("cpu-per-record", 0.5, loadgen.LineHeartbeat)},
		{Name: "groups-commit", Title: "100 groups of one member that commits one offset after the other", Group: group, Mode: loadgen.ModeGroups,
			Headline: "throughput", Special: GroupLoad, Groups: &commits,
			Goals: []Goal{{Against: results.RolePeer, Metric: "throughput", Line: loadgen.LineCommit, Least: 1}, {Against: results.RolePeer, Metric: "cpu-per-record", Most: 0.5}}},
		{Name: "groups-rebalance", Title: "One group of 1,000 members, one of which leaves and joins again, heartbeats every 3 s", Group: group, Mode: loadgen.ModeGroups,
			Headline: "max", Special: GroupLoad, Groups: &large,
			Goals: []Goal{{Against: results.RolePeer, Metric: "max", Line: loadgen.LineRebalance, Most: 1}}},
	}
}

// groupLoad makes the groups of a workload and meters the contender while all of
// them are stable. A JVM gets its warm-up as a load of its own before.
func (s *session) groupLoad(ctx context.Context, w *Workload, c *Contender) (*results.Run, error) {
	load := *w.Groups
	load.Name = w.Name
	if s.Measured > 0 {
		load.Duration = loadgen.Duration(s.Measured)
	}
	opts := loadgen.GroupOptions{
		Bootstrap: []string{c.Address}, Engine: s.ClientEngine, Loops: s.ClientLoops, ClientID: "posthouse-bench",
	}
	if c.kind == kindKafka && !c.warmed[w.Name] && s.JVMWarmup > 0 {
		c.warmed[w.Name] = true
		s.Progress(fmt.Sprintf("%s: warming up %s", w.Name, c.Info.Name))
		opts.Workload = load
		opts.Workload.Warmup, opts.Workload.Duration = 0, loadgen.Duration(s.JVMWarmup)
		if _, err := loadgen.RunGroups(ctx, opts); err != nil {
			return nil, fmt.Errorf("warm-up: %w", err)
		}
	}
	var m *meter
	opts.Workload = load
	opts.Stable = func(formed time.Duration, measured time.Time) {
		s.Progress(fmt.Sprintf("%s, %s: stable after %v", w.Name, c.Info.Name, formed.Round(time.Millisecond)))
		m = startMeter(c.PID(), measured)
	}
	opts.Measured = func(time.Time) { m.end() }
	outcome, err := loadgen.RunGroups(ctx, opts)
	if m == nil || outcome == nil {
		return nil, err
	}
	used, series, meterErr := m.result()
	run := outcome.Result(s.Command)
	if err == nil {
		err = meterErr
	}
	if err != nil {
		run.Failure = strings.ReplaceAll(err.Error(), "\n", "; ")
		run.Warn(results.WarnFailed, "%s", run.Failure)
	}
	if len(run.Lines) > 0 {
		used.Derive(run.Lines[0].Records, 0)
	}
	run.Usage = &used
	run.Series = append(run.Series, series...)
	return run, err
}
