package bench

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/results"
)

// made are runs of produce-16k-8c with these rates and CPU costs, one a round.
func made(name string, role results.Role, rates, cpu []float64) []*results.Run {
	var runs []*results.Run
	for i := range rates {
		runs = append(runs, &results.Run{
			SchemaVersion: results.SchemaVersion, ID: fmt.Sprint(name, i), Kind: results.KindBench, Session: "s", Round: i + 1,
			StartedAt: time.Unix(int64(i), 0), DurationMs: 1000, Contender: results.Contender{Name: name, Role: role},
			Workload: results.Workload{Name: "produce-16k-8c", Mode: results.ModeProduce},
			Lines:    []results.Line{{Name: "ack", Records: 1, RecordsPerSec: rates[i]}},
			Usage:    &results.Usage{CPUMicrosPerRecord: cpu[i]},
		})
	}
	return runs
}

func TestJudge(t *testing.T) {
	runs := append(made("us", results.RoleSubject, []float64{90, 79, 81}, []float64{2, 2, 2}),
		made("limit", results.RoleLimit, []float64{100, 100, 101}, []float64{1, 1, 1})...)
	runs = append(runs, made("null", results.RoleNull, []float64{1, 1, 1}, []float64{1, 1, 1})...)
	standings := map[string]Standing{}
	for _, j := range Judge(runs) {
		standings[j.Comparison.Metric+" "+j.Comparison.Against.Contender] = j.Standing
		if text := j.String(); !strings.Contains(text, "produce-16k-8c") || !strings.Contains(text, string(j.Standing)) {
			t.Errorf("%q", text)
		}
	}
	want := map[string]Standing{"throughput limit": Reached, "cpu-per-record limit": Missed}
	if len(standings) != 2 || standings["throughput limit"] != want["throughput limit"] || standings["cpu-per-record limit"] != want["cpu-per-record limit"] {
		t.Errorf("%v, want %v", standings, want)
	}
	// Below the goal by less than the noise.
	runs = append(made("us", results.RoleSubject, []float64{85, 78, 79}, []float64{1, 1, 1}),
		made("limit", results.RoleLimit, []float64{100, 100, 100}, []float64{1, 1, 1})...)
	if j := Judge(runs); len(j) != 2 || j[0].Standing != InDoubt || j[1].Standing != Reached {
		t.Errorf("%+v", j)
	}
}

func TestRecordAndCheck(t *testing.T) {
	limit := made("limit", results.RoleLimit, []float64{100, 100, 100}, []float64{1, 1, 1})
	then := append(made("us", results.RoleSubject, []float64{90, 91, 92}, []float64{1.2, 1.2, 1.2}), limit...)
	record, err := Record(then, "v1")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ratios.json")
	if err := record.Write(file); err != nil {
		t.Fatal(err)
	}
	if record, err = ReadRecorded(file); err != nil || len(record.Ratios) != 2 {
		t.Fatal(record, err)
	}
	for _, c := range []struct {
		name       string
		rates, cpu []float64
		failed     string
	}{
		{"same", []float64{90, 91, 92}, []float64{1.2, 1.2, 1.2}, ""},
		{"better", []float64{99, 99, 99}, []float64{1, 1, 1}, ""},
		{"a little worse", []float64{80, 81, 82}, []float64{1.35, 1.35, 1.35}, ""},
		{"worse but noisy", []float64{60, 70, 90}, []float64{1.2, 1.2, 1.2}, ""},
		{"slower", []float64{60, 61, 62}, []float64{1.2, 1.2, 1.2}, "throughput"},
		{"dearer", []float64{90, 91, 92}, []float64{1.5, 1.5, 1.5}, "cpu-per-record"},
	} {
		checked, err := record.Check(append(made("us", results.RoleSubject, c.rates, c.cpu), limit...))
		if err != nil || len(checked) != 2 {
			t.Errorf("%s: %v, %v", c.name, checked, err)
		}
		failed := ""
		for _, one := range checked {
			if one.Failed {
				failed += one.Metric
			}
		}
		if failing := Failing(checked); (len(failing) == 1) != (failed != "") || len(failing) == 1 && len(record.Of(failing).Ratios) != 2 {
			t.Errorf("%s: failing %v", c.name, failing)
		}
		if failed != c.failed {
			t.Errorf("%s: %q failed, want %q: %v", c.name, failed, c.failed, checked)
		}
	}
	if ratios := record.Of([]string{"another"}).Ratios; len(ratios) != 0 || len(record.Ratios) != 2 {
		t.Errorf("of another workload: %v", ratios)
	}
	if _, err := record.Check(limit); err == nil {
		t.Error("a check without the subject passes")
	}
	if _, err := Record(limit, "v1"); err == nil {
		t.Error("a record without the subject is made")
	}
	other := made("us", results.RoleSubject, []float64{1, 1, 1}, []float64{0, 0, 0})
	if _, err := record.Check(append(other, limit...)); err == nil {
		t.Error("a recorded ratio that was not measured passes")
	}
}

func TestReadRecordedRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ratios.json")
	if _, err := ReadRecorded(file); err == nil {
		t.Error("a missing file passes")
	}
	for _, text := range []string{"", "{", "{}", `{"schemaVersion":2,"ratios":[{}]}`, `{"schemaVersion":1}`} {
		if err := results.WriteFile(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRecorded(file); err == nil {
			t.Errorf("%q passes", text)
		}
	}
}
