package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/results"
	"github.com/posthouse/posthouse/results/hdr"
)

// madeUp writes a run that was never measured.
func madeUp(t *testing.T, dir, contender string) string {
	t.Helper()
	h := hdr.New()
	for us := range int64(1000) {
		h.Record(100 + us)
	}
	run := &results.Run{
		ID: "made-up-" + contender, Kind: results.KindLoad, StartedAt: time.Unix(1_000_000_000, 0), DurationMs: 1000,
		Contender: results.Contender{Name: contender, Role: results.RoleExternal},
		Workload:  results.Workload{Name: "w", Mode: results.ModeProduce},
		Lines:     []results.Line{{Name: "ack", Records: 1000, Bytes: 1000, RecordsPerSec: 1000, MiBPerSec: .001}},
	}
	run.Lines[0].SetHistogram(h)
	path := filepath.Join(dir, contender+".json")
	if err := run.Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func runReport(args ...string) (string, error) {
	cmd := newRoot()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"report"}, args...))
	err := cmd.Execute()
	return out.String(), err
}

func TestReportCommand(t *testing.T) {
	dir := t.TempDir()
	run := madeUp(t, dir, "alpha")
	for _, test := range []struct {
		args []string
		file string // where it goes; empty: standard output
		want string
	}{
		{[]string{dir, "-o", filepath.Join(dir, "o.html")}, "o.html", "<!DOCTYPE html>"},
		{[]string{run, "-o", filepath.Join(dir, "o.md"), "--title", "A title"}, "o.md", "# A title\n"},
		{[]string{run, "--format", "markdown"}, "", "# Load test report"},
		{[]string{run, "--format", "csv"}, "", "made-up-alpha,"},
		{[]string{run, "--format", "json"}, "", `"comparisons"`},
		{[]string{run, "--format", "hlog"}, "", "[Histogram log format version"},
		{[]string{run, "--format", "html", "-o", "-"}, "", "<!DOCTYPE html>"},
		{[]string{run, "--format", "percentiles", "-o", filepath.Join(dir, "p")}, "p/w.alpha.ack.hgrm", "Percentile"},
		{[]string{run, "--format", "markdown", "--baseline", run}, "", "## Against the baseline"},
	} {
		out, err := runReport(test.args...)
		if err != nil {
			t.Errorf("%v: %v", test.args, err)
			continue
		}
		if test.file != "" {
			if !strings.Contains(out, "wrote ") {
				t.Errorf("%v: says %q", test.args, out)
			}
			text, err := os.ReadFile(filepath.Join(dir, test.file))
			if err != nil {
				t.Error(err)
			}
			out = string(text)
		}
		if !strings.Contains(out, test.want) {
			t.Errorf("%v: no %q in\n%.300s", test.args, test.want, out)
		}
	}
}

func TestReportRefuses(t *testing.T) {
	dir := t.TempDir()
	run, other := madeUp(t, dir, "alpha"), madeUp(t, t.TempDir(), "beta")
	damaged := filepath.Join(t.TempDir(), "damaged.json")
	newer := filepath.Join(t.TempDir(), "newer.json")
	for path, text := range map[string]string{damaged: "{\n\"schemaVersion\": ?}", newer: `{"schemaVersion":99,"runs":[]}`} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "at least 1 arg"},
		{[]string{filepath.Join(dir, "nothing")}, "no such file"},
		{[]string{t.TempDir()}, "no results in"},
		{[]string{damaged}, "damaged.json:2:18 (byte 19)"},
		{[]string{newer}, "newer schema: version 99"},
		{[]string{run, "--format", "pdf"}, "--format pdf: not one of html, markdown"},
		{[]string{run, "--format", "percentiles", "-o", "-"}, "name a directory"},
		{[]string{run, "--baseline", other}, "nothing in common"},
		{[]string{run, "--baseline", damaged}, "baseline: "},
		{[]string{run, "-o", filepath.Join(dir, "no", "such", "dir.html")}, "no such file"},
	} {
		out, err := runReport(test.args...)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q\n%.200s", test.args, err, test.want, out)
		}
	}
}
