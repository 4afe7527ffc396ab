package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/cmd/posthouse/clitest"
	"github.com/posthouse/posthouse/loadgen"
	"github.com/posthouse/posthouse/results"
)

// TestLoadGroups runs the three kinds of group load: heartbeats with commits at a
// rate, restarts, and commits one after the other.
func TestLoadGroups(t *testing.T) {
	address, _ := clitest.Broker(t)
	for _, c := range []struct {
		name  string
		args  []string
		lines []string // the first one is what the run is about
	}{
		{"rate", []string{"--groups", "3", "--members", "2", "--heartbeat", "50ms", "--commit-rate", "100"}, []string{loadgen.LineCommit, loadgen.LineHeartbeat, loadgen.LineJoin}},
		{"restarts", []string{"--groups", "2", "--members", "5", "--heartbeat", "50ms", "--restarts"}, []string{loadgen.LineRebalance, loadgen.LineJoin}},
		{"closed", []string{"--groups", "4", "--members", "1", "--commit-closed", "--heartbeat", "50ms"}, []string{loadgen.LineCommit, loadgen.LineHeartbeat, loadgen.LineJoin}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"groups", "-b", address, "--duration", "1s", "--warmup", "100ms", "--json", "-"}, c.args...)
			r := clitest.Run(t, newLoad(), "", args...)
			if r.Error != nil {
				t.Fatalf("%v\n%s", r.Error, r.Err)
			}
			if !strings.Contains(r.Err, "are stable after") {
				t.Errorf("it says %q", r.Err)
			}
			var run results.Run
			if err := json.NewDecoder(bytes.NewReader([]byte(r.Out))).Decode(&run); err != nil {
				t.Fatal(err)
			}
			if run.Workload.Mode != loadgen.ModeGroups || len(run.Lines) == 0 || run.Lines[0].Name != c.lines[0] {
				t.Errorf("mode %q, lines %+v", run.Workload.Mode, run.Lines)
			}
			for _, name := range c.lines {
				l := run.Line(name)
				if l == nil || l.Records == 0 || l.Errors != 0 {
					t.Errorf("line %s: %+v", name, l)
				}
			}
		})
	}
}

func TestGroupWorkloadRefused(t *testing.T) {
	for _, change := range []func(*loadgen.GroupWorkload){
		func(w *loadgen.GroupWorkload) { w.Groups = 0 },
		func(w *loadgen.GroupWorkload) { w.Members = 0 },
		func(w *loadgen.GroupWorkload) { w.Heartbeat = 0 },
		func(w *loadgen.GroupWorkload) { w.Warmup = loadgen.Duration(-time.Second) },
		func(w *loadgen.GroupWorkload) { w.CommitClosed, w.CommitRate = true, 1 },
		func(w *loadgen.GroupWorkload) { w.Topic = "" },
	} {
		w := loadgen.DefaultGroupWorkload()
		if err := w.Validate(); err != nil {
			t.Fatal(err)
		}
		if change(&w); w.Validate() == nil {
			t.Errorf("%+v passes", w)
		}
	}
}
