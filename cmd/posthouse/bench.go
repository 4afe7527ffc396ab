package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/posthouse/posthouse/bench"
	"github.com/posthouse/posthouse/cmd/broker"
	"github.com/posthouse/posthouse/cmd/posthouse/cli"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/results"
)

type benchFlags struct {
	matrix     string
	workloads  []string
	contenders []string
	rounds     int
	measured   time.Duration
	jvmWarmup  time.Duration
	warmup     time.Duration
	workDir    string
	outDir     string
	require    bool
	noPrepare  bool
	engine     string
	loops      int
	baseline   []string
	check      bool
	record     bool
	ratios     string
	list       bool
	asJSON     bool
}

// benchDefaults are what each matrix means where flags leave it open.
var benchDefaults = map[string]struct {
	contenders []string // %s is the best engine of this binary
	rounds     int
	measured   time.Duration // of a run; 0 leaves it to the workload
}{
	"short": {[]string{"%s", "kafka", "limit"}, 3, 0},
	"full":  {[]string{"%s", "epoll", "kafka", "limit", "null"}, 5, 0},
	"check": {[]string{"%s", "limit"}, 3, 2 * time.Second},
}

func newBench() *cobra.Command {
	var flags benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure Posthouse against Apache Kafka and against what the machine can do",
		Long: "Measure Posthouse against Apache Kafka and against what the machine can do.\n\n" +
			"Each contender is started here, on loopback, with fresh data, and they take turns:\n" +
			"while one is measured the others are stopped. Before each run the machine is brought\n" +
			"to one state (nothing dirty, no free memory, the same congestion control), which\n" +
			"takes root; without it runs are marked. \"limit\" is a small C program that does only\n" +
			"the least that a broker must; it is built here if a C compiler is.\n\n" +
			"Contenders: " + bench.ContenderHelp + ".\n\n" +
			"The results go to one file, which `posthouse report` shows. Ctrl-C ends early and\n" +
			"keeps what was measured.",
		Example: "  posthouse bench\n" +
			"  posthouse bench --matrix full --rounds 9 --out results\n" +
			"  posthouse bench --workloads 'produce-*' --contenders io_uring,io_uring=./old-posthouse,limit\n" +
			"  posthouse bench --baseline results/2026-11-30.json.gz\n" +
			"  posthouse bench --check",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBench(cmd.Context(), &flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&flags.matrix, "matrix", "short", "which workloads: short, full or check")
	f.StringSliceVarP(&flags.workloads, "workloads", "w", nil, "only these, by `name` or pattern (see --list)")
	f.StringSliceVarP(&flags.contenders, "contenders", "c", nil, "who is measured (default by matrix)")
	f.IntVarP(&flags.rounds, "rounds", "n", 0, "turns of each contender (default by matrix)")
	f.DurationVar(&flags.measured, "measured", 0, "measured part of each run, instead of the workload's")
	f.DurationVar(&flags.jvmWarmup, "jvm-warmup", 15*time.Second, "unmeasured load for Kafka before its first turn of each workload")
	f.DurationVar(&flags.warmup, "warmup", time.Second, "the same for all others")
	f.StringVar(&flags.workDir, "dir", os.TempDir(), "where the contenders keep their data")
	f.StringVarP(&flags.outDir, "out", "o", "results", "directory for the results")
	f.BoolVar(&flags.require, "require-prepared", false, "refuse to measure where the machine cannot be prepared")
	f.BoolVar(&flags.noPrepare, "no-prepare", false, "leave the machine as it is; runs are marked")
	f.StringVar(&flags.engine, "client-engine", "auto", "of the load generator's loops: auto, io_uring or epoll")
	f.IntVar(&flags.loops, "client-loops", 0, "event loops of the load generator; 0 is one per four cores")
	f.StringArrayVar(&flags.baseline, "baseline", nil, "compare with these earlier results, a file or directory; may be repeated")
	f.BoolVar(&flags.check, "check", false, "two minutes: fail when a ratio to the limit is clearly worse than recorded")
	f.BoolVar(&flags.record, "record", false, "record the ratios to the limit for --check")
	f.StringVar(&flags.ratios, "ratios", "bench/ratios.json", "the record that --check reads and --record writes")
	f.BoolVar(&flags.list, "list", false, "list the workloads and end")
	f.BoolVar(&flags.asJSON, "json", false, "print the comparisons as JSON instead of text")
	return cmd
}

func runBench(ctx context.Context, flags *benchFlags, stdout, stderr io.Writer) error {
	if flags.list {
		return listWorkloads(stdout)
	}
	screen := newBenchScreen(stderr)
	opts, recorded, err := flags.options(ctx, screen)
	if err != nil {
		return err
	}
	var baseline []*results.Run
	if len(flags.baseline) > 0 {
		// A baseline that cannot be read costs no measurement.
		if baseline, err = results.ReadAll(flags.baseline...); err != nil {
			return err
		}
	}
	tuneRuntime(max(1, flags.loops))
	ctx, release := cli.UntilInterrupt(ctx)
	defer release()
	result, runErr := bench.Run(ctx, *opts)
	screen.end()
	if ctx.Err() != nil {
		runErr = errors.New("interrupted")
	}
	if result == nil {
		return runErr
	}
	if err := errors.Join(runErr, flags.conclude(stdout, stderr, result, baseline)); err != nil || recorded == nil {
		return err
	}
	return flags.checkRatios(ctx, opts, result, recorded, screen)
}

// checkRatios is an error where a ratio falls clearly behind what was recorded,
// twice: on a shared machine any one measurement may meet a busy neighbour.
func (f *benchFlags) checkRatios(ctx context.Context, opts *bench.Options, result *bench.Result, recorded *bench.Recorded, screen *benchScreen) error {
	for again := false; ; again = true {
		checked, err := recorded.Check(result.Runs)
		for _, c := range checked {
			screen.log("%v", c)
		}
		failing := bench.Failing(checked)
		if err != nil || len(failing) == 0 {
			return err
		}
		if again {
			return worse(checked)
		}
		screen.log("measured once more: %s", strings.Join(failing, ", "))
		recorded = recorded.Of(failing)
		if opts.Workloads, err = bench.Select("", failing); err != nil {
			return err
		}
		if opts.Contenders, err = f.newContenders(ctx, "check", screen); err != nil {
			return err
		}
		if result, err = bench.Run(ctx, *opts); err != nil {
			return err
		}
	}
}

func worse(checked []bench.Checked) error {
	var failed []string
	for _, c := range checked {
		if c.Failed {
			failed = append(failed, fmt.Sprintf("%s of %s in %s is %.2f × %s, recorded %.2f", c.Metric, c.Subject, c.Workload, c.Now.Ratio, c.Against, c.Ratio))
		}
	}
	return fmt.Errorf("clearly worse than recorded: %s", strings.Join(failed, "; "))
}

// options turns flags into a session.
func (f *benchFlags) options(ctx context.Context, screen *benchScreen) (*bench.Options, *bench.Recorded, error) {
	matrix := f.matrix
	if f.check {
		matrix = "check"
	}
	if f.require && f.noPrepare {
		return nil, nil, errors.New("--require-prepared and --no-prepare contradict each other")
	}
	if f.measured < 0 || f.rounds < 0 || f.loops < 0 || f.warmup < 0 || f.jvmWarmup < 0 {
		return nil, nil, errors.New("--measured, --warmup, --jvm-warmup, --rounds and --client-loops: want no negative values")
	}
	workloads, err := bench.Select(matrix, f.workloads)
	if err != nil {
		return nil, nil, err
	}
	defaults, known := benchDefaults[matrix]
	if !known {
		return nil, nil, fmt.Errorf("--matrix %s: want short, full or check", matrix)
	}
	var recorded *bench.Recorded
	if f.check && !f.record {
		if recorded, err = bench.ReadRecorded(f.ratios); err != nil {
			return nil, nil, fmt.Errorf("--check: %w (--record makes one)", err)
		}
	}
	contenders, err := f.newContenders(ctx, matrix, screen)
	if err != nil {
		return nil, nil, err
	}
	opts := &bench.Options{
		Contenders: contenders, Workloads: workloads, Rounds: f.rounds, Measured: f.measured,
		JVMWarmup: f.jvmWarmup, Warmup: f.warmup,
		WorkDir: f.workDir, OutDir: f.outDir, Require: f.require, Unprepared: f.noPrepare,
		ClientEngine: f.engine, ClientLoops: f.loops,
		Command: os.Args, Version: broker.Version, Log: screen.log, Progress: screen.progress,
	}
	if opts.Rounds == 0 {
		opts.Rounds = defaults.rounds
	}
	if opts.Measured == 0 {
		opts.Measured = defaults.measured
	}
	return opts, recorded, nil
}

// newContenders are those that flags name or the matrix has, not started.
func (f *benchFlags) newContenders(ctx context.Context, matrix string, screen *benchScreen) ([]*bench.Contender, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	specs := f.contenders
	if len(specs) == 0 {
		if matrix == "check" {
			// Without the limit there is nothing to check.
			if _, err := bench.LimitBinary(ctx); err != nil {
				return nil, fmt.Errorf("--check holds Posthouse against the limit, a C program: %w", err)
			}
		}
		specs = usable(ctx, benchDefaults[matrix].contenders, screen)
	}
	return bench.ParseContenders(specs, self)
}

// usable are the default contenders that can run here; the others are said to
// be missing.
func usable(ctx context.Context, specs []string, screen *benchScreen) []string {
	engine := "epoll"
	if slices.Contains(netio.Engines(), "io_uring") {
		engine = "io_uring"
	}
	var able []string
	for _, spec := range specs {
		spec = strings.ReplaceAll(spec, "%s", engine)
		var err error
		switch spec {
		case "limit", "null":
			_, err = bench.LimitBinary(ctx)
		case "kafka":
			if _, err = bench.Java(); err == nil {
				screen.log("looking for Kafka %s (fetched by Maven the first time)", bench.KafkaVersion)
				_, err = bench.KafkaJars(ctx)
			}
		}
		if err != nil {
			screen.log("%s is left out: %s", spec, oneLine(err))
		} else if !slices.Contains(able, spec) {
			able = append(able, spec)
		}
	}
	return able
}

func listWorkloads(w io.Writer) error {
	for _, load := range bench.Matrix() {
		var in []string
		for _, m := range []struct {
			name string
			in   bool
		}{{"short", load.Short}, {"full", !load.Extra}, {"check", load.Check}} {
			if m.in {
				in = append(in, m.name)
			}
		}
		if load.Extra {
			in = append(in, "by name only")
		}
		if _, err := fmt.Fprintf(w, "%-22s %-18s %s\n", load.Name, strings.Join(in, ", "), load.Title); err != nil {
			return err
		}
	}
	return nil
}

// conclude shows what the runs came to, and records their ratios on request.
func (f *benchFlags) conclude(stdout, stderr io.Writer, result *bench.Result, baseline []*results.Run) error {
	report := results.NewReport(result.Runs, baseline)
	if f.asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", " ")
		if err := encoder.Encode(struct {
			ID          string               `json:"id"`
			File        string               `json:"file"`
			Comparisons []results.Comparison `json:"comparisons"`
			Baseline    []results.Comparison `json:"baseline,omitempty"`
		}{result.ID, result.File, results.CompareAll(result.Runs), report.Baseline}); err != nil {
			return err
		}
	} else {
		if err := report.Markdown(stdout); err != nil {
			return err
		}
		if judged := bench.Judge(result.Runs); len(judged) > 0 {
			fmt.Fprintf(stdout, "\n## Goals\n\n")
			for _, j := range judged {
				fmt.Fprintf(stdout, "    %s\n", j)
			}
		}
	}
	fmt.Fprintf(stderr, "\n%d runs are in %s; `posthouse report %s` shows them\n", len(result.Runs), result.File, result.File)
	if f.record {
		record, err := bench.Record(result.Runs, broker.Version)
		if err != nil {
			return err
		}
		return record.Write(f.ratios)
	}
	return nil
}

// benchScreen shows lines, and on a terminal one that is written over.
type benchScreen struct {
	w        io.Writer
	terminal bool

	mu    sync.Mutex
	shown bool // a line that the next one replaces
}

func newBenchScreen(w io.Writer) *benchScreen {
	s := &benchScreen{w: w}
	if f, ok := w.(*os.File); ok {
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		s.terminal = err == nil
	}
	return s
}

func (s *benchScreen) log(format string, args ...any) {
	s.end()
	fmt.Fprintf(s.w, format+"\n", args...)
}

func (s *benchScreen) progress(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		fmt.Fprintf(s.w, "\r\x1b[K%s", line)
		s.shown = true
	}
}

// end takes the line away that would be written over.
func (s *benchScreen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.shown = false
	}
}
