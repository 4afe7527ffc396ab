package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthouse/posthouse/results/hdr"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// Making runs up takes longer than what is tested with them.
var (
	madeUpRuns = sync.OnceValue(func() []*Run {
		return sample{seed: 5, names: four(), workloads: sampleWorkloads()[1:], rounds: 3, seconds: 4}.runs()
	})
	madeUpBaseline = sync.OnceValue(func() []*Run {
		return sample{seed: 6, slower: 1.3, names: four(), workloads: sampleWorkloads()[1:], rounds: 3, seconds: 4}.runs()
	})
)

// copies may be changed, their lines too.
func copies(runs []*Run) []*Run {
	out := make([]*Run, len(runs))
	for i, r := range runs {
		c, e := *r, *r.Environment
		c.Lines, c.Environment = slices.Clone(r.Lines), &e
		out[i] = &c
	}
	return out
}

// sampleReport has each thing that a report can have: several rounds, warnings
// of each kind, a failed run, a baseline.
func sampleReport() *Report {
	runs, before := copies(madeUpRuns()), copies(madeUpBaseline())
	runs[0].Warn(WarnClientLimited, "busiest loop at 83 %% | of a core")
	runs[5].Warn("moon-phase", "a code of <later> versions")
	runs[len(runs)-2].Failure = "the broker at 127.0.0.1:9092 went away after 2 s"
	before[0].Environment.Kernel = "0.1-synthetic"
	report := NewReport(runs, before)
	report.Title = "Made-up report of the tests: nothing here was measured"
	return report
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("%s:%d: got\n%s\nwant\n%s\n(go test -rewrite writes it anew)", path, i+1, gotLines[i], wantLines[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", path, len(gotLines), len(wantLines))
}

func TestMarkdown(t *testing.T) {
	var out bytes.Buffer
	if err := sampleReport().Markdown(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "synthetic.md", out.Bytes())
	// Each row of a table has as many cells as its head.
	cells := 0
	for _, line := range strings.Split(out.String(), "\n") {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if cells != 0 && n != cells {
			t.Errorf("%d cells, above it %d: %s", n, cells, line)
		}
		cells = n
	}
}

func TestCSV(t *testing.T) {
	report := sampleReport()
	var out bytes.Buffer
	if err := report.CSV(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "synthetic.csv", out.Bytes())
	rows, err := csv.NewReader(bytes.NewReader(out.Bytes())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := slices.Index(rows[0], "p99_ms")
	v, err := strconv.ParseFloat(rows[1][column], 64)
	if want, _ := mustMetric(t, "p99").Value(report.Runs[0], "ack"); err != nil || v != want {
		t.Errorf("p99_ms of the first row is %v, want %v", rows[1][column], want)
	}
}

func mustMetric(t *testing.T, key string) Metric {
	t.Helper()
	m, ok := MetricByKey(key)
	if !ok {
		t.Fatalf("no metric %s", key)
	}
	return m
}

func TestHLog(t *testing.T) {
	report := sampleReport()
	report.Runs[1].Lines[0].Intervals = nil // then the whole run is one
	var out bytes.Buffer
	if err := report.HLog(&out); err != nil {
		t.Fatal(err)
	}
	intervals, err := hdr.ReadLog(&out)
	if err != nil {
		t.Fatal(err)
	}
	wanted := 0
	for _, run := range report.Runs {
		for i := range run.Lines {
			wanted += max(len(run.Lines[i].Intervals), 1)
		}
	}
	if len(intervals) != wanted {
		t.Errorf("%d intervals, want %d", len(intervals), wanted)
	}
	first := intervals[0]
	want, _ := hdr.Decode(report.Runs[0].Lines[0].Intervals[0].Histogram)
	if first.Tag != "produce-1rec-64c/alpha/ack" || !first.Histogram.Equal(want) || !first.Start.Equal(report.Runs[0].StartedAt) {
		t.Errorf("first interval: %s at %v", first.Tag, first.Start)
	}
	if d := intervals[1].Start.Sub(first.Start); d != 2*time.Second {
		t.Errorf("the second interval begins %v after the first", d)
	}
	empty := oneRun()
	for i := range empty.Lines {
		empty.Lines[i].SetHistogram(nil)
		empty.Lines[i].Intervals = nil
	}
	if err := NewReport([]*Run{empty}, nil).HLog(&out); !errors.Is(err, ErrNoLatencies) {
		t.Errorf("without latencies: %v", err)
	}
}

func TestPercentileText(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	names, err := sampleReport().Percentiles(dir)
	if err != nil || len(names) != 12 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "e2e-100k.alpha-two.e2e.hgrm"))
	if err != nil || !bytes.Contains(text, []byte("Percentile")) || !bytes.Contains(text, []byte("#[Max")) {
		t.Errorf("%v\n%s", err, text[:min(len(text), 300)])
	}
}

func TestJSONOfComparisons(t *testing.T) {
	var out bytes.Buffer
	if err := sampleReport().JSON(&out); err != nil {
		t.Fatal(err)
	}
	var back struct{ Comparisons, Baseline []Comparison }
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	c := find(t, back.Comparisons, "e2e-100k", "p99", "alpha", "beta", "")
	if c.Ratio == 0 || c.Low > c.Ratio || c.High < c.Ratio || c.Verdict == "" || len(back.Baseline) == 0 {
		t.Errorf("%+v", c)
	}
}

// TestPageIsSelfContained looks for anything that a page would fetch.
func TestPageIsSelfContained(t *testing.T) {
	report := sampleReport()
	report.Runs[1].Contender.Config = []string{"listeners=<script>alert(1)</script>"}
	report.Runs[0].Workload.Title = "</script><script>alert(2)</script>"
	report.Groups[0].Workload.Title = report.Runs[0].Workload.Title
	var out bytes.Buffer
	if err := report.HTML(&out); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, fetching := range []string{`\ssrc\s*=`, `url\(`, `@import`, `<link[^>]*href="[^d]`, `fetch\(`, `XMLHttpRequest`, `<iframe`, `import\(`} {
		if found := regexp.MustCompile(fetching).FindString(page); found != "" {
			t.Errorf("the page has %s", found)
		}
	}
	if strings.Contains(page, "<script>alert") {
		t.Error("text of a result became a script")
	}
	if !strings.Contains(page, "default-src 'none'") {
		t.Error("no content security policy")
	}
	if !strings.Contains(page, "Permission is hereby granted") {
		t.Error("the licence of uPlot is missing")
	}
	for _, said := range []string{"client-limited", "moon-phase", "went away after 2 s", "baseline-environment-differs", "produce-1rec-64c", "Synthetic CPU", "× limit"} {
		if !strings.Contains(page, said) {
			t.Errorf("the page says nothing of %s", said)
		}
	}
}

// TestContrast holds the colours to WCAG 2.2 AA.
func TestContrast(t *testing.T) {
	find := func(name string) [2]float64 {
		for _, c := range colours {
			if c.name == name {
				return [2]float64{luminance(t, c.light), luminance(t, c.dark)}
			}
		}
		t.Fatalf("no colour %s", name)
		return [2]float64{}
	}
	check := func(front string, least float64, backs ...string) {
		for _, back := range backs {
			f, b := find(front), find(back)
			for i, theme := range []string{"light", "dark"} {
				contrast := (max(f[i], b[i]) + .05) / (min(f[i], b[i]) + .05)
				if contrast < least {
					t.Errorf("%s: %s on %s has contrast %.2f, less than %v", theme, front, back, contrast, least)
				}
			}
		}
	}
	check("ink", 7, "page", "card", "sunk", "warn-page")
	for _, text := range []string{"soft", "link", "good", "bad"} {
		check(text, 4.5, "page", "card")
	}
	check("soft", 4.5, "sunk", "warn-page")
	check("warn-ink", 4.5, "page", "card", "warn-page")
	for _, of := range slots {
		for _, slot := range of {
			check(slot, 3, "page", "card", "sunk")
		}
	}
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	v, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 32)
	if err != nil || len(colour) != 7 {
		t.Fatalf("colour %s", colour)
	}
	linear := func(c uint64) float64 {
		s := float64(c&0xff) / 255
		if s <= .04045 {
			return s / 12.92
		}
		return math.Pow((s+.055)/1.055, 2.4)
	}
	return .2126*linear(v>>16) + .7152*linear(v>>8) + .0722*linear(v)
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.00012345: "0.000123", 0.0123: "0.0123", 0.9994: "0.999", 0.9996: "1.00", 1: "1.00", 9.994: "9.99", 9.996: "10.0",
		12.34: "12.3", 99.96: "100", 123.4: "123", 999.6: "1000", 9994: "9994", 9996: "10.0 k", 12345: "12.3 k", 999_600: "1.00 M",
		1_234_567: "1.23 M", 2.5e9: "2.50 G", -3.14159: "-3.14",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %s, want %s", v, got, want)
		}
	}
}

// TestOddRuns are those that a report must show all the same.
func TestOddRuns(t *testing.T) {
	bare := &Run{SchemaVersion: 1, ID: "bare", Kind: KindLoad, StartedAt: time.Unix(1, 0), Contender: Contender{Name: "x", Role: RoleExternal},
		Workload: Workload{Name: "w", Mode: "odd"}}
	failed := oneRun()
	failed.Failure = "unreachable"
	failed.Lines, failed.Usage, failed.Series = nil, nil, nil
	many := sample{seed: 9, names: [4]string{"a", "b", "c", "d"}, workloads: sampleWorkloads()[:1], rounds: 1, seconds: 1}.runs()
	for i := range 5 { // more contenders than colours
		r := *many[0]
		r.ID, r.Contender.Name = strconv.Itoa(i), "subject "+strconv.Itoa(i)
		many = append(many, &r)
	}
	for name, runs := range map[string][]*Run{"bare": {bare}, "failed": {failed}, "both": {bare, failed}, "many": many} {
		for _, r := range runs {
			if err := r.Validate(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		report := NewReport(runs, runs)
		for _, write := range []func(*bytes.Buffer) error{
			func(b *bytes.Buffer) error { return report.HTML(b) },
			func(b *bytes.Buffer) error { return report.Markdown(b) },
			func(b *bytes.Buffer) error { return report.CSV(b) },
			func(b *bytes.Buffer) error { return report.JSON(b) },
		} {
			var out bytes.Buffer
			if err := write(&out); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if strings.Contains(out.String(), "NaN") && !strings.Contains(out.String(), "uPlot") {
				t.Errorf("%s: NaN in\n%s", name, out.String())
			}
		}
	}
}
