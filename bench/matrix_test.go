package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/results"
)

// TestMatrix checks every row: the load is valid, the goals are of metrics that
// there are, names are unique.
func TestMatrix(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range Matrix() {
		if w.Name == "" || seen[w.Name] || w.Title == "" || w.Group == "" {
			t.Errorf("%q is there twice, or lacks title or group", w.Name)
		}
		seen[w.Name] = true
		if w.Special == "" {
			load := w.onTopic(w.Load, "some-topic")
			if err := load.Validate(); err != nil {
				t.Errorf("%s: %v", w.Name, err)
			}
			if measured := w.shortened(1e9); measured.Duration-measured.Warmup != 1e9 {
				t.Errorf("%s: shortened to %v with %v of warm-up", w.Name, measured.Duration, measured.Warmup)
			}
		}
		if w.Headline != "" {
			if _, ok := results.MetricByKey(w.Headline); !ok {
				t.Errorf("%s: headline %q", w.Name, w.Headline)
			}
		}
		for _, g := range w.Goals {
			metric, ok := results.MetricByKey(g.Metric)
			if !ok || metric.PerRun != (g.Line == "") || (g.Least > 0) == (g.Most > 0) || (g.Least > 0) != metric.HigherIsBetter {
				t.Errorf("%s: goal %+v", w.Name, g)
			}
		}
	}
}

func TestSelect(t *testing.T) {
	for _, c := range []struct {
		matrix   string
		patterns []string
		want     []string // some of them
		not      []string
		wantErr  string
	}{
		{matrix: "short", want: []string{"produce-16k-8c", "rate-100k", "read-1m-8c"}, not: []string{"soak-50k", "start-up"}},
		{matrix: "check", want: []string{"produce-16k-8c"}, not: []string{"rate-100k"}},
		{matrix: "full", want: []string{"start-up", "catch-up-cold"}, not: []string{"soak-50k"}},
		{matrix: "other", wantErr: "want short, full or check"},
		{patterns: []string{"soak-50k"}, want: []string{"soak-50k"}, not: []string{"rate-20k"}},
		{patterns: []string{"read-*", "rate-20k"}, want: []string{"read-1m-1c", "read-64k-8c", "rate-20k"}, not: []string{"rate-100k"}},
		{patterns: []string{"read-*", "nothing"}, wantErr: `no workload "nothing"; there are produce-1rec-64c`},
		{patterns: []string{"[", "read-*"}, wantErr: `no workload "["`},
	} {
		got, err := Select(c.matrix, c.patterns)
		if c.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("%s %v: error %v", c.matrix, c.patterns, err)
			}
			continue
		}
		for _, name := range c.want {
			if !slices.Contains(names(got), name) {
				t.Errorf("%s %v: lacks %s", c.matrix, c.patterns, name)
			}
		}
		for _, name := range c.not {
			if slices.Contains(names(got), name) {
				t.Errorf("%s %v: has %s", c.matrix, c.patterns, name)
			}
		}
	}
}

func TestParseContenders(t *testing.T) {
	all, err := ParseContenders([]string{"io_uring", "epoll=/tmp/old", "kafka", "limit", "limit-sync", "null", "external:localhost:9092"}, "/bin/posthouse")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range all {
		got = append(got, string(c.Info.Role)+" "+c.Info.Name)
	}
	want := []string{"subject posthouse io_uring", "subject posthouse epoll old", "peer kafka 4.4.0", "limit limit", "limit limit-sync",
		"null null", "external external:localhost:9092"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if all[0].binary != "/bin/posthouse" || all[1].binary != "/tmp/old" {
		t.Errorf("binaries %q and %q", all[0].binary, all[1].binary)
	}
	for _, specs := range [][]string{nil, {"redis"}, {"limit", "limit"}, {"external:nowhere"}, {"kafka=/bin/sh"}, {""}} {
		if _, err := ParseContenders(specs, "x"); err == nil {
			t.Errorf("%q pass", specs)
		}
	}
}
