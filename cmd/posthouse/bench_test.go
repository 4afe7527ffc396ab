package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/results"
)

// TestBenchRuns measures this very program against the limit, in runs of a
// fraction of a second.
func TestBenchRuns(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler for the limit")
	}
	dir := t.TempDir()
	ratios := filepath.Join(dir, "ratios.json")
	bench := func(contenders string, args ...string) (stdout, stderr string, code int) {
		t.Helper()
		args = append([]string{"bench", "--no-prepare", "--contenders", contenders, "--workloads", "ping-pong,produce-1rec-64c", "--rounds", "1",
			"--measured", "300ms", "--warmup", "100ms", "--dir", dir, "--out", filepath.Join(dir, "out"), "--ratios", ratios}, args...)
		p := command(t, "posthouse", dir, nil, args...).launch(t)
		code = p.exitCode(t, 3*time.Minute)
		return p.out(), p.err(), code
	}
	stdout, stderr, code := bench("epoll,limit", "--record")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{"ping-pong", "posthouse epoll / limit", "Goals", "machine-not-prepared", "few-rounds"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if !strings.Contains(stderr, "4 runs are in ") {
		t.Errorf("stderr %q", stderr)
	}
	runs, err := results.ReadAll(filepath.Join(dir, "out"))
	if err != nil || len(runs) != 4 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	// The same again: a ratio check without the contenders that were recorded
	// says so, one with them passes or names what is worse.
	if _, stderr, code := bench("epoll", "--check"); code == 0 || !strings.Contains(stderr, "none of the recorded ratios") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	stdout, stderr, code = bench("epoll,limit", "--check", "--json", "--baseline", filepath.Join(dir, "out"))
	var printed struct{ Comparisons, Baseline []results.Comparison }
	if err := json.Unmarshal([]byte(stdout), &printed); err != nil || len(printed.Comparisons) == 0 || len(printed.Baseline) == 0 {
		t.Errorf("stdout %q: %v", stdout, err)
	}
	if !strings.Contains(stderr, "recorded") || code != 0 && !strings.Contains(stderr, "clearly worse than recorded: ") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestBenchMistakes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--matrix", "tiny"}, `matrix "tiny": want short, full or check`},
		{[]string{"--workloads", "nothing"}, `no workload "nothing"; there are`},
		{[]string{"--contenders", "redis"}, `contender "redis": want one of io_uring`},
		{[]string{"--check", "--ratios", filepath.Join(dir, "none")}, "--record makes one"},
		{[]string{"--no-prepare", "--require-prepared"}, "contradict"},
		{[]string{"--rounds", "-1"}, "no negative values"},
		{[]string{"--baseline", filepath.Join(dir, "none"), "--contenders", "limit"}, "no such file"},
		{[]string{"--contenders", "io_uring=/nowhere", "--no-prepare", "-w", "ping-pong", "-o", dir}, "start posthouse io_uring nowhere"},
	} {
		stdout, stderr, code := run(t, append([]string{"bench"}, c.args...)...)
		if code == 0 || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}
	stdout, _, code := run(t, "bench", "--list")
	if code != 0 || !strings.Contains(stdout, "soak-50k") || !strings.Contains(stdout, "by name only") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}
