package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/posthouse/posthouse/loadgen"
	"github.com/posthouse/posthouse/results"
)

// Options is what a session is started with.
type Options struct {
	Contenders []*Contender
	Workloads  []Workload
	// Rounds is how often each contender runs each workload.
	Rounds int
	// Measured is the length of each run's measured part; 0 leaves it to the
	// workload.
	Measured time.Duration
	// JVMWarmup is how long Kafka runs a workload unmeasured before its first
	// round of it, Warmup the same of all others.
	JVMWarmup, Warmup time.Duration

	// WorkDir is where the contenders keep their data; a directory of the
	// session's own is made in it and removed.
	WorkDir string
	// OutDir is where results go, OutDir/<session>.json.gz at the end.
	OutDir string
	// Require refuses to measure on a machine that cannot be prepared, which
	// needs root; otherwise runs are marked.
	Require bool
	// Unprepared leaves the machine as it is, and marks the runs.
	Unprepared bool

	// ClientEngine is that of loadgen's loops, ClientLoops their number; 0 picks.
	ClientEngine string
	ClientLoops  int

	Command []string // what was typed
	Version string   // of this program
	// Log says what happens, a line each; Progress is overwritten.
	Log      func(format string, args ...any)
	Progress func(line string)
}

// Result is what a session came to.
type Result struct {
	ID   string
	Runs []*results.Run
	// File is where the runs are, all together.
	File string
}

// session runs the workloads.
type session struct {
	Options
	id      string
	work    string // directory of the contenders
	runDir  string // of results, until they are put together
	machine *Machine
	// unprepared says why the machine is not as it should be, if it is not.
	unprepared  []string
	environment *results.Environment
	runs        []*results.Run
	failures    []error
	done, total int
}

// minRounds is the least for an interval.
const minRounds = 3

// Run starts the contenders and has them do the workloads by turns: A B C, then
// C B A, so that what drifts meets all alike. The result holds what was
// measured, also beside an error; runs that failed are in it, marked, and are
// an error at the end.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	s := &session{Options: o, id: "bench-" + time.Now().UTC().Format("20060102T150405Z")}
	if err := s.open(); err != nil {
		return nil, err
	}
	defer func() {
		result, err = s.finish(err)
	}()
	if err := s.prepareOnce(); err != nil {
		return nil, err
	}
	for _, c := range s.Contenders {
		if err := s.start(ctx, c); err != nil {
			return nil, err
		}
	}
	s.environment = results.CaptureEnvironment(s.work, s.Version)
	s.checkEnvironment()
	for i := range s.Workloads {
		for _, c := range s.Contenders {
			if s.Workloads[i].skips(c) == "" {
				s.total += s.Rounds
			}
		}
	}
	for i := range s.Workloads {
		if err := s.workload(ctx, &s.Workloads[i]); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// open makes the directories. A place that takes no results shows now.
func (s *session) open() error {
	if s.Rounds < 1 {
		return fmt.Errorf("%d rounds: want at least 1", s.Rounds)
	}
	if len(s.Workloads) == 0 {
		return errors.New("no workload")
	}
	if s.runDir = filepath.Join(s.OutDir, s.id); s.OutDir == "" {
		return errors.New("no directory for results")
	}
	if err := os.MkdirAll(s.runDir, 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(s.WorkDir, 0o755); err != nil {
		return err
	}
	var err error
	s.work, err = os.MkdirTemp(s.WorkDir, "posthouse-bench-")
	return err
}

// prepareOnce does what lasts for the session.
func (s *session) prepareOnce() error {
	if s.Unprepared {
		s.unprepared = append(s.unprepared, "it was left as it is on request")
		return nil
	}
	var err error
	if s.machine, err = PrepareMachine(s.work); err == nil {
		return nil
	}
	if s.Require {
		return fmt.Errorf("the machine cannot be prepared (it takes root): %w", err)
	}
	s.machine = nil
	s.unprepared = append(s.unprepared, err.Error())
	s.Log("the machine cannot be prepared, all runs are marked: %v", err)
	return nil
}

// checkEnvironment adds what makes the place unfit.
func (s *session) checkEnvironment() {
	switch fs := s.environment.Filesystem; fs.Type {
	case "tmpfs", "ramfs":
		s.unprepared = append(s.unprepared, "the data lies in memory ("+fs.Type+" on "+fs.MountPoint+"): nothing is ever written back")
	}
	if c := s.environment.CongestionControl; s.machine == nil && c != "cubic" {
		s.unprepared = append(s.unprepared, "contenders that do not choose get congestion control "+c)
	}
}

func (s *session) start(ctx context.Context, c *Contender) error {
	s.Log("start %s", c.Info.Name)
	if c.kind == kindKafka {
		if _, err := KafkaJars(ctx); err != nil {
			return fmt.Errorf("fetch Kafka %s: %w", KafkaVersion, err)
		}
	}
	if err := c.Start(ctx, s.work); err != nil {
		return err
	}
	if c.kind == kindPosthouse && c.Info.Version == "" {
		c.Info.Version = s.Version
	}
	s.Log("%s serves on %s after %v", c.Info.Name, c.Address, c.Ready.Round(time.Millisecond))
	// Nobody else may use the CPU while the next one starts.
	return c.pause()
}

// workload has each contender do a workload, round by round.
func (s *session) workload(ctx context.Context, w *Workload) error {
	s.Log("%s: %s", w.Name, w.Title)
	var able []*Contender
	for _, c := range s.Contenders {
		if why := w.skips(c); why != "" {
			s.Log("  %s does not run it: %s", c.Info.Name, why)
			continue
		}
		able = append(able, c)
	}
	for _, c := range able {
		if err := s.onlyThis(c); err != nil {
			return err
		}
		if err := s.warmUp(ctx, w, c); err != nil {
			return fmt.Errorf("%s: %s: warm-up: %w", w.Name, c.Info.Name, err)
		}
	}
	for round := 1; round <= s.Rounds; round++ {
		turns := slices.Clone(able)
		if round%2 == 0 {
			slices.Reverse(turns)
		}
		for _, c := range turns {
			if err := s.turn(ctx, w, c, round); err != nil {
				return fmt.Errorf("%s: round %d: %s: %w", w.Name, round, c.Info.Name, err)
			}
		}
	}
	return nil
}

// onlyThis lets one contender run and stops the others.
func (s *session) onlyThis(running *Contender) error {
	for _, c := range s.Contenders {
		if c != running {
			if err := c.pause(); err != nil {
				return err
			}
		}
	}
	return running.resume()
}

// turn is one run of one contender. A run that fails is kept, marked; an error
// is what ends the session.
func (s *session) turn(ctx context.Context, w *Workload, c *Contender, round int) error {
	if err := errors.Join(ctx.Err(), s.onlyThis(c), c.alive()); err != nil {
		return err
	}
	s.done++
	s.Progress(fmt.Sprintf("[%d/%d] %s, round %d, %s: preparing the machine", s.done, s.total, w.Name, round, c.Info.Name))
	free, err := s.prepare(ctx, w, c)
	if err != nil {
		return err
	}
	var run *results.Run
	if w.Special != "" {
		run, err = s.special(ctx, w, c)
	} else {
		run, err = s.load(ctx, w, c)
	}
	if run != nil {
		s.describe(run, w, c, round)
		s.mark(run, c, free)
		if err := s.keep(run); err != nil {
			return err
		}
		s.Log("  [%d/%d] round %d %s", s.done, s.total, round, oneLineOf(run))
	}
	if err == nil {
		return nil
	}
	if ended := c.alive(); ended != nil || ctx.Err() != nil {
		return errors.Join(err, ended)
	}
	s.Log("  [%d/%d] round %d %s FAILED: %v", s.done, s.total, round, c.Info.Name, err)
	s.failures = append(s.failures, fmt.Errorf("%s, round %d, %s: %w", w.Name, round, c.Info.Name, err))
	return nil
}

// prepare brings the machine to the state that every run begins with. It
// returns the free memory in bytes, -1 where it was not touched.
func (s *session) prepare(ctx context.Context, w *Workload, c *Contender) (free int64, err error) {
	free = -1
	// On a busy machine others free what was used up a moment ago.
	for try := 0; s.machine != nil && try < 3 && (free < 0 || free > freeMemoryMax); try++ {
		if free, err = s.machine.UseUpFreeMemory(ctx); err != nil {
			return free, err
		}
	}
	if w.DropCache {
		if err := c.dropCache(); err != nil {
			return free, err
		}
	}
	if pid := c.PID(); pid != 0 {
		// Without it the peak is that since the start, which says less.
		_ = ResetPeakRSS(pid)
	}
	return free, nil
}

// describe says of a run what it is.
func (s *session) describe(run *results.Run, w *Workload, c *Contender, round int) {
	run.SchemaVersion = results.SchemaVersion
	run.Kind, run.Session, run.Round = results.KindBench, s.id, round
	run.ID = fmt.Sprintf("%s-%s-%s-r%d", s.id, w.Name, strings.NewReplacer(" ", "-", ":", "-", "/", "-").Replace(c.Info.Name), round)
	run.Command, run.Contender, run.Environment = s.Command, c.Info, s.environment
	run.Workload.Name, run.Workload.Title, run.Workload.Group, run.Workload.Headline = w.Name, w.Title, w.Group, w.Headline
	if w.Mode != "" {
		run.Workload.Mode = w.Mode
	}
}

const (
	// stealShareMax is the share of all CPUs' time from which on a run is marked.
	stealShareMax = 0.02
	// freeMemoryMax is what may be free on a prepared machine.
	freeMemoryMax = memFreeTarget + memFreeTarget/2
)

// mark warns of what makes a run's figures less than they seem.
func (s *session) mark(run *results.Run, c *Contender, free int64) {
	for _, why := range s.unprepared {
		run.Warn(results.WarnMachineNotPrepared, "%s", why)
	}
	if free > freeMemoryMax {
		run.Warn(results.WarnMachineNotPrepared, "%d MiB of memory were free and reading did not use them up: others free it, or a memory limit holds", free>>20)
	}
	if u := run.Usage; u != nil && run.DurationMs > 0 {
		all := float64(run.DurationMs) / 1000 * float64(max(s.environment.CPUs, 1))
		if share := u.StealSeconds / all; share > stealShareMax {
			run.Warn(results.WarnSteal, "the hypervisor took %.1f %% of the CPU time", 100*share)
		}
	}
	for _, other := range s.Contenders {
		a, b := &c.Info, &other.Info
		if a.Role == results.RoleNull || b.Role == results.RoleNull {
			continue // it is known to do nothing
		}
		if a.Durability != "" && b.Durability != "" && a.Durability != b.Durability {
			run.Warn(results.WarnDurabilityDiffers, "%s acknowledges after %s, %s after %s", a.Name, a.Durability, b.Name, b.Durability)
		}
		if run.Line(loadgen.LineAck) != nil && a.Validation == validatesCRC && b.Validation == validatesAll {
			run.Warn(results.WarnValidationDiffers, "%s checks %s, %s %s", a.Name, a.Validation, b.Name, b.Validation)
		}
	}
	if s.Rounds < minRounds {
		run.Warn(results.WarnFewRounds, "%d rounds", s.Rounds)
	}
}

// keep writes a run where an interrupted session leaves it.
func (s *session) keep(run *results.Run) error {
	s.runs = append(s.runs, run)
	return run.Write(filepath.Join(s.runDir, fmt.Sprintf("%04d.json.gz", len(s.runs))))
}

// finish ends the contenders, puts the machine back, and the runs together.
func (s *session) finish(err error) (*Result, error) {
	errs := []error{err}
	for _, c := range s.Contenders {
		if c.alive() == nil { // what has ended already was told when it did
			errs = append(errs, c.Stop())
		}
	}
	if s.machine != nil {
		errs = append(errs, s.machine.Close())
	}
	errs = append(errs, os.RemoveAll(s.work))
	if n := len(s.failures); n > 0 {
		errs = append(errs, fmt.Errorf("%d of %d runs failed, the first: %w", n, s.done, s.failures[0]))
	}
	result := &Result{ID: s.id, Runs: s.runs, File: s.runDir}
	if len(s.runs) == 0 {
		return nil, errors.Join(append(errs, os.RemoveAll(s.runDir))...)
	}
	file := filepath.Join(s.OutDir, s.id+".json.gz")
	if wrote := s.together(file); wrote != nil {
		return result, errors.Join(append(errs, wrote)...)
	}
	result.File = file
	return result, errors.Join(append(errs, os.RemoveAll(s.runDir))...)
}

// together writes all runs into one file, the environment once.
func (s *session) together(file string) error {
	set := &results.Set{Environment: s.environment}
	for _, run := range s.runs {
		bare := *run
		bare.Environment = nil
		set.Runs = append(set.Runs, &bare)
	}
	return set.Write(file)
}
