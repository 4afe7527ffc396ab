package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthouse/posthouse/cmd/broker"
	"github.com/posthouse/posthouse/cmd/posthouse/cli"
	"github.com/posthouse/posthouse/loadgen"
	"github.com/posthouse/posthouse/results"
)

// newLoadGroups is `posthouse load groups`.
func newLoadGroups() *cobra.Command {
	opts := loadgen.GroupOptions{Workload: loadgen.DefaultGroupWorkload()}
	var jsonFile string
	var heartbeat, session, rebalance, duration, warmup time.Duration
	cmd := &cobra.Command{
		Use: "groups", Short: "Let many consumer groups join, heartbeat and commit",
		Long: "Let many consumer groups join, heartbeat and commit, without reading anything. Each\n" +
			"member has a connection of its own. When all groups are stable the measured part\n" +
			"begins: heartbeats count from the time they were due, rebalances from the moment a\n" +
			"member leaves until every member has its assignment again. At the end all leave.",
		Example: "  posthouse load groups --groups 1000 --members 10\n" +
			"  posthouse load groups --groups 100 --members 1 --commit-closed --json commits.json\n" +
			"  posthouse load groups --groups 1 --members 1000 --restarts --duration 60s",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := &opts.Workload
			w.Heartbeat, w.Session, w.Rebalance = loadgen.Duration(heartbeat), loadgen.Duration(session), loadgen.Duration(rebalance)
			w.Duration, w.Warmup = loadgen.Duration(duration), loadgen.Duration(warmup)
			return loadGroups(cmd.Context(), opts, jsonFile, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	w := &opts.Workload
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVarP(&opts.Bootstrap, "bootstrap", "b", []string{"127.0.0.1:9092"}, "addresses of the target, `host:port,…`")
	f.IntVar(&w.Groups, "groups", w.Groups, "how many groups")
	f.IntVar(&w.Members, "members", w.Members, "members of each")
	f.StringVar(&w.Topic, "topic", w.Topic, "what they subscribe to; made with a partition for each member of a group if it is not there")
	f.DurationVar(&heartbeat, "heartbeat", time.Duration(w.Heartbeat), "time between two heartbeats of a member")
	f.DurationVar(&session, "session-timeout", time.Duration(w.Session), "without a heartbeat for so long a member is out")
	f.DurationVar(&rebalance, "rebalance-timeout", time.Duration(w.Rebalance), "how long members have to join a rebalance")
	f.Float64Var(&w.CommitRate, "commit-rate", 0, "commits per second of all members together, one partition each")
	f.BoolVar(&w.CommitClosed, "commit-closed", false, "every member commits again as soon as it is answered")
	f.BoolVar(&w.Restarts, "restarts", false, "the first member of each group leaves and joins again whenever the group is stable")
	f.DurationVarP(&duration, "duration", "d", time.Duration(w.Duration), "measured part, once all groups are stable")
	f.DurationVar(&warmup, "warmup", time.Duration(w.Warmup), "left out before it")
	f.StringVar(&opts.Engine, "engine", "auto", "of the client's own loops: auto, io_uring or epoll")
	f.IntVar(&opts.Loops, "loops", 0, "event loops of the client; 0 is one per four cores")
	f.StringVar(&opts.ClientID, "client-id", "", "client id of all requests")
	f.StringVar(&jsonFile, "json", "", "write the result to this `file`; - is the standard output")
	return cmd
}

// loadGroups runs one group load and shows it.
func loadGroups(ctx context.Context, opts loadgen.GroupOptions, jsonFile string, stdout, stderr io.Writer) error {
	text := stdout
	if jsonFile == "-" {
		text = stderr
	}
	opts.Stable = func(formed time.Duration, _ time.Time) {
		fmt.Fprintf(text, "%d groups of %d members are stable after %v\n", opts.Workload.Groups, opts.Workload.Members, formed.Round(time.Millisecond))
	}
	tuneRuntime(max(1, opts.Loops))
	ctx, release := cli.UntilInterrupt(ctx)
	defer release()
	outcome, runErr := loadgen.RunGroups(ctx, opts)
	if outcome == nil {
		return runErr
	}
	for i := range outcome.Lines {
		l := &outcome.Lines[i]
		fmt.Fprintf(text, "%-10s %9d  %10.1f/s  p50 %s  p99 %s  max %s  errors %d\n",
			l.Name, l.Requests, l.PerSecond, micros(l.Histogram.At(50)), micros(l.Histogram.At(99)), micros(l.Histogram.Max()), l.Errors)
	}
	if jsonFile == "" {
		return runErr
	}
	run := outcome.Result(os.Args)
	run.Environment = results.CaptureEnvironment(".", broker.Version)
	if jsonFile == "-" {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", " ")
		return errors.Join(runErr, encoder.Encode(run))
	}
	return errors.Join(runErr, run.Write(jsonFile))
}
