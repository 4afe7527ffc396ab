package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/posthouse/posthouse/cmd/broker"
	"github.com/posthouse/posthouse/cmd/posthouse/cli"
	"github.com/posthouse/posthouse/loadgen"
	"github.com/posthouse/posthouse/results"
)

// loadFlags are what the load commands have besides the workload's.
type loadFlags struct {
	workload   workloadFlags
	bootstrap  []string
	engine     string
	loops      int
	clientID   string
	congestion string
	jsonFile   string
	hlogFile   string
	bound      string
	quiet      bool
	print      bool
}

func newLoad() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Make load for any Kafka-compatible broker, and measure it",
		Long: "Make load for any Kafka-compatible broker, and measure it.\n\n" +
			"With a rate, records are sent on a schedule and latencies count from the intended\n" +
			"time, so that a broker that stalls shows in the percentiles. Without one, each\n" +
			"connection sends as fast as answers come, and latencies count from the sending.\n" +
			"Ctrl-C ends a run early and still gives what was measured.",
	}
	for _, mode := range []struct {
		mode                 loadgen.Mode
		short, long, example string
	}{
		{loadgen.ModeProduce, "Produce records and measure the acknowledgements", "",
			"  posthouse load produce --bootstrap 127.0.0.1:9092 --rate 100000 --duration 60s\n" +
				"  posthouse load produce --batch-bytes 64KiB --connections 4 --json saturation.json\n" +
				"  posthouse load produce --find-max-rate p99=10ms --duration 10s --warmup 2s"},
		{loadgen.ModeConsume, "Read records as fast as they come", "",
			"  posthouse load consume --topic posthouse-load --consumers 1 --rewind --fetch-partition-bytes 1MiB"},
		{loadgen.ModeE2E, "Measure from the intended sending to the arrival at a consumer", "",
			"  posthouse load e2e --rate 20000 --record-size 1KiB --linger 1ms --duration 60s"},
		{loadgen.ModeVerify, "Check order, gaps, duplicates and checksums, across restarts of the broker",
			"Check order, gaps, duplicates and checksums. Lost connections are made again, so the\n" +
				"broker may be restarted or killed meanwhile; what was acknowledged and is not there\n" +
				"is reported as lost. The exit code is not 0 when anything is wrong.",
			"  posthouse load verify --rate 5000 --duration 60s\n" +
				"  posthouse load verify --acks 1 --idempotent=false --reconnect 2m"},
	} {
		cmd.AddCommand(newLoadMode(mode.mode, mode.short, mode.long, mode.example))
	}
	cmd.AddCommand(newLoadGroups())
	return cli.Group(cmd)
}

func newLoadMode(mode loadgen.Mode, short, long, example string) *cobra.Command {
	flags := &loadFlags{workload: workloadFlags{mode: mode}}
	if long == "" {
		long = short + "."
	}
	cmd := &cobra.Command{
		Use: string(mode), Short: short, Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return load(cmd.Context(), flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVarP(&flags.bootstrap, "bootstrap", "b", []string{"127.0.0.1:9092"}, "addresses of the target, `host:port,…`")
	flags.workload.register(f)
	f.StringVar(&flags.engine, "engine", "auto", "of the client's own loops: auto, io_uring or epoll")
	f.IntVar(&flags.loops, "loops", 0, "event loops of the client; 0 is one per four cores")
	f.StringVar(&flags.clientID, "client-id", "", "client id of all requests")
	f.StringVar(&flags.congestion, "loopback-congestion", "cubic", "TCP congestion control towards loopback; empty leaves the host's")
	f.StringVar(&flags.jsonFile, "json", "", "write the result to this `file`; - is the standard output")
	f.StringVar(&flags.hlogFile, "hlog", "", "write the latencies of each second to this `file`, as an HdrHistogram log")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "no line a second")
	f.BoolVar(&flags.print, "print-workload", false, "write the workload as YAML, for --workload, and do nothing else")
	if mode == loadgen.ModeProduce || mode == loadgen.ModeE2E {
		f.StringVar(&flags.bound, "find-max-rate", "", "find the highest rate that holds a `bound` like p99=10ms; duration and warmup are those of one trial")
	}
	return cmd
}

// load runs one load command.
func load(ctx context.Context, flags *loadFlags, stdout, stderr io.Writer) error {
	w, err := flags.workload.workload()
	if err != nil {
		return err
	}
	if flags.print {
		text, err := w.YAML()
		if err == nil {
			_, err = stdout.Write(text)
		}
		return err
	}
	var bound loadgen.Bound
	if flags.bound != "" {
		if bound, err = loadgen.ParseBound(flags.bound); err != nil {
			return fmt.Errorf("--find-max-rate: %w", err)
		}
	}
	files, err := openResultFiles(flags, stdout)
	if err != nil {
		return err
	}
	opts := loadgen.Options{
		Bootstrap: flags.bootstrap, Workload: w, Engine: flags.engine, Loops: flags.loops,
		ClientID: flags.clientID, LoopbackCongestion: flags.congestion,
	}
	text := stdout
	if flags.jsonFile == "-" {
		text = stderr
	}
	screen := newLoadScreen(text)
	if !flags.quiet {
		opts.Progress = screen.tick
	}
	loops := max(1, flags.loops)
	tuneRuntime(loops)
	ctx, release := cli.UntilInterrupt(ctx)
	defer release()
	if flags.bound != "" {
		return searchRate(ctx, opts, bound, screen, files)
	}
	outcome, runErr := loadgen.Run(ctx, opts)
	screen.end()
	if outcome == nil {
		return runErr
	}
	screen.outcome(outcome)
	return errors.Join(runErr, files.write(outcome))
}

// searchRate runs trials and shows what they came to.
func searchRate(ctx context.Context, opts loadgen.Options, bound loadgen.Bound, screen *loadScreen, files *resultFiles) error {
	search, err := loadgen.FindMaxRate(ctx, opts, bound, screen.trial)
	screen.end()
	if search == nil || search.Best == nil {
		return err
	}
	screen.outcome(search.Best)
	fmt.Fprintf(screen.w, "highest rate with %v: %.0f records/s\n", bound, search.Rate)
	return errors.Join(err, files.write(search.Best))
}

// resultFiles are where the result goes. The paths are tried before the run, so
// that one that cannot be written costs no measurement.
type resultFiles struct {
	json   string
	stdout io.Writer
	hlog   *os.File
}

func openResultFiles(flags *loadFlags, stdout io.Writer) (*resultFiles, error) {
	r := &resultFiles{json: flags.jsonFile, stdout: stdout}
	if r.json != "" && r.json != "-" {
		// Written whole at the end; a directory that takes no file shows now.
		probe, err := os.CreateTemp(filepath.Dir(r.json), ".posthouse-load-*")
		if err != nil {
			return nil, fmt.Errorf("--json: %w", err)
		}
		_ = probe.Close()
		if err := os.Remove(probe.Name()); err != nil {
			return nil, err
		}
	}
	if flags.hlogFile != "" {
		var err error
		if r.hlog, err = os.Create(flags.hlogFile); err != nil {
			return nil, fmt.Errorf("--hlog: %w", err)
		}
	}
	return r, nil
}

// write writes what was asked for.
func (r *resultFiles) write(o *loadgen.Outcome) error {
	var errs []error
	if r.json != "" {
		run := o.Result(os.Args)
		run.Environment = results.CaptureEnvironment(".", broker.Version)
		if r.json == "-" {
			encoder := json.NewEncoder(r.stdout)
			encoder.SetIndent("", " ")
			errs = append(errs, encoder.Encode(run))
		} else {
			errs = append(errs, run.Write(r.json))
		}
	}
	if r.hlog != nil {
		errs = append(errs, o.WriteLog(r.hlog), r.hlog.Close())
	}
	return errors.Join(errs...)
}
