package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/loadgen"
	"github.com/posthouse/posthouse/results/hdr"
)

// parseLoad gives the workload that a command line means.
func parseLoad(mode loadgen.Mode, args ...string) (loadgen.Workload, error) {
	cmd := newLoadMode(mode, "", "", "")
	flags := workloadFlags{mode: mode}
	cmd.ResetFlags()
	flags.register(cmd.Flags())
	if err := cmd.ParseFlags(args); err != nil {
		return loadgen.Workload{}, err
	}
	return flags.workload()
}

func TestLoadFlags(t *testing.T) {
	w, err := parseLoad(loadgen.ModeProduce, "--steps", "100@2s,200", "--rate", "50", "--poisson", "--acks", "all", "--idempotent",
		"--record-size", "uniform:10-20", "--keys", "zipf:500:1.2", "--key-bytes", "9", "--batch-bytes", "1MiB", "--linger", "3ms",
		"--topic-config", "retention.ms=1000,segment.bytes=1048576", "--fetch-wait", "10ms", "--seed", "9")
	if err != nil {
		t.Fatal(err)
	}
	// In the order of the table: steps win over the rate, and are random with it.
	if s := w.Schedule; s.Kind != loadgen.Steps || !s.Poisson || len(s.Steps) != 2 || s.Steps[0].For != loadgen.Duration(2*time.Second) {
		t.Errorf("schedule %+v", s)
	}
	if w.Acks != loadgen.AcksAll || !w.Idempotent || w.Record.String() != "uniform:10-20" || w.Keys.Count != 500 || w.Keys.Skew != 1.2 ||
		w.Keys.Bytes != 9 || w.BatchBytes != 1<<20 || w.TopicConfigs["segment.bytes"] != "1048576" || w.Seed != 9 {
		t.Errorf("%+v", w)
	}
	for _, mode := range []loadgen.Mode{loadgen.ModeProduce, loadgen.ModeConsume, loadgen.ModeE2E, loadgen.ModeVerify} {
		w, err := parseLoad(mode)
		if want := loadgen.DefaultWorkload(mode); err != nil || w.Schedule.Kind != want.Schedule.Kind || w.Consumers != want.Consumers {
			t.Errorf("%s without flags: %v, %+v", mode, err, w)
		}
	}
}

func TestLoadFlagsOverFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(path, []byte("partitions: 3\nschedule: {rate: 77}\nlinger: 5ms\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := parseLoad(loadgen.ModeE2E, "-w", path, "--linger", "1ms")
	if err != nil || w.Partitions != 3 || w.Schedule.Rate != 77 || w.Linger != loadgen.Duration(time.Millisecond) {
		t.Fatalf("%v: %+v", err, w)
	}
}

// TestPrintedWorkload reads what it printed.
func TestPrintedWorkload(t *testing.T) {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"load", "e2e", "--print-workload", "--steps", "100@2s,200", "--record-size", "mix:40@1,90@2", "--fetch-wait", "7ms"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := parseLoad(loadgen.ModeE2E, "-w", path)
	if err != nil || len(w.Schedule.Steps) != 2 || w.Record.String() != "mix:40@1,90@2" || w.Fetch.Wait != loadgen.Duration(7*time.Millisecond) {
		t.Fatalf("%v: %+v of\n%s", err, w, out.String())
	}
}

func TestLoadFlagsRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--acks", "2"}, "want 0, 1 or all"},
		{[]string{"--rate", "fast"}, `"fast" is no number`},
		{[]string{"--poisson"}, "needs a --rate"},
		{[]string{"--steps", "5@soon"}, "soon"},
		{[]string{"--record-size", "big"}, "big"},
		{[]string{"--topic-config", "x"}, "want key=value"},
		{[]string{"--idempotent"}, "needs acks all"},
		{[]string{"-w", "/nowhere/w.yaml"}, "/nowhere/w.yaml"},
	} {
		_, err := parseLoad(loadgen.ModeProduce, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want an error with %q", c.args, err, c.want)
		}
	}
}

// TestLoadOfNobody has one line for a target that is not there, and does not
// measure first where the result could not be written.
func TestLoadOfNobody(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close()
	for want, args := range map[string][]string{
		"cannot reach the target":   {"load", "produce", "-b", address},
		"no such file or directory": {"load", "produce", "-b", address, "--json", "/nowhere/at/all.json"},
		"--find-max-rate":           {"load", "produce", "-b", address, "--find-max-rate", "p99"},
	} {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(args)
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%v: %v, want an error with %q; output %q", args, err, want, out.String())
		}
	}
}

func TestLoadScreen(t *testing.T) {
	var out bytes.Buffer
	s := newLoadScreen(&out)
	s.tick(loadgen.Tick{
		Elapsed: 3 * time.Second, Warmup: true, Errors: 2, Behind: 70 * time.Millisecond, BrokenConnections: 1,
		Lines: []loadgen.TickLine{{Name: "ack", Records: 1234567, Bytes: 3 << 20, P50: 950, P99: 12_345}},
	})
	want := "   3s  ack 1,234,567/s 3.0 MiB/s p50 950µs p99 12.3ms  errors 2  behind 70ms  1 connections away  (warm-up)\n"
	if out.String() != want {
		t.Errorf("tick %q, want %q", out.String(), want)
	}
	out.Reset()
	h := hdr.New()
	h.RecordN(1500, 10)
	s.outcome(&loadgen.Outcome{
		Workload: loadgen.Workload{Name: "w"}, Measured: time.Second,
		Lines:    []loadgen.Line{{Name: "ack", Records: 10, RecordsPerSec: 10, Histogram: h}},
		Verify:   &loadgen.VerifyReport{Lost: 3, Problems: []string{"three are gone"}},
		Warnings: []loadgen.Warning{{Code: "behind-schedule", Text: "late"}},
	})
	for _, want := range []string{"p99 1.5ms", "lost 3", "three are gone", "! behind-schedule: late"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestLoadShortRun checks that a run shorter than the default warm-up needs no
// --warmup, while one that was asked for stands.
func TestLoadShortRun(t *testing.T) {
	w, err := parseLoad(loadgen.ModeProduce, "--duration", "2s")
	if err != nil || w.Warmup != loadgen.Duration(500*time.Millisecond) {
		t.Errorf("warm-up %v of %v: %v", w.Warmup, w.Duration, err)
	}
	if w, err = parseLoad(loadgen.ModeProduce, "--duration", "20s"); err != nil || w.Warmup != loadgen.DefaultWorkload(loadgen.ModeProduce).Warmup {
		t.Errorf("warm-up %v of %v: %v", w.Warmup, w.Duration, err)
	}
	if _, err = parseLoad(loadgen.ModeProduce, "--duration", "2s", "--warmup", "5s"); err == nil || !strings.Contains(err.Error(), "warmup: 5s of a run of 2s leaves nothing to measure") {
		t.Errorf("a warm-up that was asked for: %v", err)
	}
}
