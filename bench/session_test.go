package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthouse/posthouse/loadgen"
	"github.com/posthouse/posthouse/results"
)

// testOptions are a session of short runs on the machine as it is.
func testOptions(t *testing.T, contenders []string, workloads []Workload) Options {
	t.Helper()
	if _, err := LimitBinary(t.Context()); errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	all, err := ParseContenders(contenders, "")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	log := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		t.Logf(format, args...)
	}
	return Options{
		Contenders: all, Workloads: workloads, Rounds: 2, Measured: 300 * time.Millisecond, Warmup: 100 * time.Millisecond,
		WorkDir: t.TempDir(), OutDir: filepath.Join(t.TempDir(), "out"), Unprepared: true, Command: []string{"test"}, Version: "test",
		Log: log, Progress: func(string) {},
	}
}

// small workloads of each kind.
func smallWorkloads() []Workload {
	produce := batch(2, 4<<10)
	produce.Warmup, produce.Records = loadgen.Duration(100*time.Millisecond), 0
	produce.Schedule = loadgen.Schedule{Kind: loadgen.Constant, Rate: 5000}
	read := hot(2, 64<<10)
	read.Warmup = loadgen.Duration(100 * time.Millisecond)
	e2e := paced(2000, 1)
	e2e.Warmup = loadgen.Duration(100 * time.Millisecond)
	return []Workload{
		{Name: "produce", Title: "p", Group: "g", Load: produce},
		{Name: "read", Title: "r", Group: "g", Load: read, Preload: &Preload{Topic: "hot", Bytes: 1 << 20}},
		{Name: "cold", Title: "c", Group: "g", Load: read, Preload: &Preload{Topic: "hot", Bytes: 1 << 20}, DropCache: true},
		{Name: "e2e", Title: "e", Group: "g", Load: e2e},
		{Name: "start", Title: "s", Group: "g", Special: StartUp},
	}
}

func TestSession(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	opts := testOptions(t, []string{"limit", "null", "limit-sync"}, smallWorkloads())
	result, err := Run(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := results.ReadAll(result.File)
	if err != nil {
		t.Fatal(err)
	}
	// Five workloads, three contenders, two rounds, but the null server has
	// nothing to read.
	if want := (5*3 - 2) * 2; len(runs) != want {
		t.Errorf("%d runs, want %d", len(runs), want)
	}
	ids := map[string]bool{}
	for _, run := range runs {
		ids[run.ID] = true
		if run.Session != result.ID || run.Round < 1 || run.Failure != "" || run.Usage == nil || run.Usage.PeakRSSBytes == 0 || len(run.Lines) == 0 {
			t.Errorf("%s: %+v", run.ID, run)
			continue
		}
		if run.Lines[0].Records == 0 || run.Environment == nil || len(run.Contender.Command) == 0 {
			t.Errorf("%s: %d records, environment %v, command %v", run.ID, run.Lines[0].Records, run.Environment, run.Contender.Command)
		}
		warned := map[string]bool{}
		for _, w := range run.Warnings {
			warned[w.Code] = true
		}
		if !warned[results.WarnMachineNotPrepared] || !warned[results.WarnFewRounds] {
			t.Errorf("%s: warnings %v", run.ID, run.Warnings)
		}
		if (run.Contender.Name != "null") != warned[results.WarnDurabilityDiffers] {
			t.Errorf("%s: warnings %v", run.ID, run.Warnings)
		}
		if run.Workload.Name == "e2e" && run.Line(loadgen.LineE2E).Records == 0 {
			t.Errorf("%s: nothing was received", run.ID)
		}
	}
	if len(ids) != len(runs) {
		t.Errorf("%d ids of %d runs", len(ids), len(runs))
	}
	left, err := os.ReadDir(opts.WorkDir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSessionOfABrokerThatDies ends with an error that names it, and keeps what
// was measured before.
func TestSessionOfABrokerThatDies(t *testing.T) {
	opts := testOptions(t, []string{"limit"}, smallWorkloads()[:1])
	opts.Rounds = 3
	opts.Log = func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		t.Log(line)
		if strings.Contains(line, "[2/3]") {
			opts.Contenders[0].process.Kill()
		}
	}
	result, err := Run(t.Context(), opts)
	if err == nil || !strings.Contains(err.Error(), "limit ended") || !strings.Contains(err.Error(), "round 3") {
		t.Errorf("error %v", err)
	}
	if result == nil || len(result.Runs) != 2 {
		t.Fatalf("%+v, want the two runs before", result)
	}
	if runs, err := results.ReadAll(result.File); err != nil || len(runs) != 2 {
		t.Errorf("%d runs in %s: %v", len(runs), result.File, err)
	}
}

func TestSessionInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opts := testOptions(t, []string{"limit"}, smallWorkloads()[:1])
	opts.Log = func(format string, args ...any) {
		if strings.Contains(fmt.Sprintf(format, args...), "[1/2]") {
			cancel()
		}
	}
	result, err := Run(ctx, opts)
	if !errors.Is(err, context.Canceled) || result == nil || len(result.Runs) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestSessionRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"no rounds", func(o *Options) { o.Rounds = 0 }, "0 rounds"},
		{"no workload", func(o *Options) { o.Workloads = nil }, "no workload"},
		{"no directory", func(o *Options) { o.OutDir = "" }, "no directory for results"},
		{"results in a file", func(o *Options) {
			o.OutDir = filepath.Join(o.WorkDir, "file")
			if err := os.WriteFile(o.OutDir, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "not a directory"},
	} {
		opts := testOptions(t, []string{"limit"}, smallWorkloads()[:1])
		c.change(&opts)
		if result, err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), c.want) || result != nil {
			t.Errorf("%s: %v, %v", c.name, result, err)
		}
	}
	opts := testOptions(t, []string{"external:127.0.0.1:1"}, smallWorkloads()[:1])
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, opts); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("unreachable: %v", err)
	}
}

// TestSessionExternal measures an address that somebody else runs: no CPU of
// the server, no specials.
func TestSessionExternal(t *testing.T) {
	addr, _ := startLimit(t)
	opts := testOptions(t, []string{"external:" + addr, "limit"}, smallWorkloads()[:1])
	opts.Workloads = append(opts.Workloads, smallWorkloads()[4])
	result, err := Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range result.Runs {
		external := run.Contender.Role == results.RoleExternal
		if run.Workload.Name == "start" && external {
			t.Error("a server of others was started")
		}
		if external != (run.Usage.ServerCPUSeconds == 0 && run.Usage.PeakRSSBytes == 0) {
			t.Errorf("%s: %+v", run.ID, run.Usage)
		}
	}
	if len(result.Runs) != 6 {
		t.Errorf("%d runs", len(result.Runs))
	}
}

// TestIdle leaves a few connections alone.
func TestIdle(t *testing.T) {
	addr, _ := startLimit(t)
	conns, latencies, err := openConnections(t.Context(), addr, 50)
	if err != nil || len(conns) != 50 || latencies.Count() != 50 {
		t.Fatalf("%d connections, %v", len(conns), err)
	}
	for _, conn := range conns {
		if err := stillOpen(conn); err != nil {
			t.Error(err)
		}
		conn.Close()
	}
	if _, _, err := openConnections(t.Context(), "127.0.0.1:1", 50); err == nil {
		t.Error("no error from a closed port")
	}
}
