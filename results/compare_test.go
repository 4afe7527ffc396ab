package results

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func four() [4]string { return [4]string{"alpha", "alpha two", "beta", "limit"} }

func find(t *testing.T, all []Comparison, workload, metric, subject, against, relative string) Comparison {
	t.Helper()
	i := slices.IndexFunc(all, func(c Comparison) bool {
		return c.Workload == workload && c.Metric == metric && c.Subject.Contender == subject && c.Against.Contender == against && c.RelativeTo == relative
	})
	if i < 0 {
		t.Fatalf("no comparison of %s %s: %s with %s", workload, metric, subject, against)
	}
	return all[i]
}

func TestCompareByPairs(t *testing.T) {
	runs := sample{seed: 3, names: four(), workloads: sampleWorkloads(), rounds: 5, seconds: 3}.runs()
	// A round that failed has no pair.
	runs[0].Failure = "broken"
	all := CompareAll(runs)
	c := find(t, all, "produce-16k-8c", "throughput", "alpha", "beta", "")
	if !c.Paired || c.Runs != 4 || c.Verdict != Better || math.Abs(c.Ratio-.9/.41) > .3 {
		t.Errorf("throughput: %+v", c)
	}
	for i, id := range c.Subject.Runs {
		// IDs end in the round.
		if against := c.Against.Runs[i]; id[strings.LastIndex(id, "-"):] != against[strings.LastIndex(against, "-"):] {
			t.Errorf("paired %s with %s: not of one round", id, c.Against.Runs[i])
		}
	}
	if c := find(t, all, "e2e-100k", "cpu-per-record", "alpha two", "limit", ""); c.Verdict != Worse || c.Line != "" {
		t.Errorf("CPU: %+v", c)
	}
	if slices.ContainsFunc(all, func(c Comparison) bool { return c.Metric == "steal" || c.Subject.Contender == "beta" }) {
		t.Error("a diagnostic or a peer is judged")
	}
}

func TestCompareWithoutSessions(t *testing.T) {
	runs := sample{seed: 3, names: four(), workloads: sampleWorkloads()[:1], rounds: 3, seconds: 3}.runs()
	for _, r := range runs {
		r.Session, r.Round, r.Kind = "", 0, KindLoad
	}
	if c := find(t, CompareAll(runs), "produce-16k-8c", "p99", "alpha", "beta", ""); c.Paired || c.Runs != 3 || c.Verdict != Better {
		t.Errorf("%+v", c)
	}
}

// TestBaselineOnASlowerMachine has everything take twice as long, the limit
// too: the figures are worse, the ratios to the limit are not.
func TestBaselineOnASlowerMachine(t *testing.T) {
	before := sample{seed: 3, names: four(), workloads: sampleWorkloads()[:1], rounds: 5, seconds: 3}.runs()
	now := sample{seed: 4, names: four(), workloads: sampleWorkloads()[:1], rounds: 5, seconds: 3}.runs()
	for _, r := range now {
		for i := range r.Lines {
			r.Lines[i].RecordsPerSec /= 2
		}
	}
	all := CompareBaseline(now, before)
	if c := find(t, all, "produce-16k-8c", "throughput", "alpha", "alpha", ""); c.Verdict != Worse || c.Paired {
		t.Errorf("figures: %+v", c)
	}
	if c := find(t, all, "produce-16k-8c", "throughput", "alpha", "alpha", "limit"); c.Verdict != NoDifference {
		t.Errorf("ratios: %+v", c)
	}
	// A real loss shows in both.
	slow := sample{seed: 4, names: four(), workloads: sampleWorkloads()[:1], rounds: 5, seconds: 3, slower: 1.6}.runs()
	if c := find(t, CompareBaseline(slow, before), "produce-16k-8c", "throughput", "alpha", "alpha", "limit"); c.Verdict != Worse {
		t.Errorf("a loss: %+v", c)
	}
	if all := CompareBaseline(now, sample{seed: 3, names: four(), workloads: sampleWorkloads()[1:], rounds: 1, seconds: 1}.runs()); len(all) != 0 {
		t.Errorf("other workloads were compared: %v", all[0])
	}
}

func TestGrouping(t *testing.T) {
	runs := sample{seed: 3, names: four(), workloads: sampleWorkloads(), rounds: 2, seconds: 2}.runs()
	slices.Reverse(runs[:4]) // the limit ran first
	groups := GroupRuns(runs)
	if len(groups) != 3 {
		t.Fatalf("%d groups", len(groups))
	}
	for _, g := range groups {
		var roles []Role
		for _, c := range g.Cells {
			roles = append(roles, c.Contender.Role)
		}
		if !slices.Equal(roles, []Role{RoleSubject, RoleSubject, RolePeer, RoleLimit}) {
			t.Errorf("%s: %v", g.Workload.Name, roles)
		}
	}
	if f := groups[2].Headline(); f.Key != "p99" || f.Line != "e2e" {
		t.Errorf("headline of an open e2e loop: %s of %s", f.Key, f.Line)
	}
	if f := groups[0].Headline(); f.Key != "throughput" || f.Line != "ack" {
		t.Errorf("headline of a closed loop: %s of %s", f.Key, f.Line)
	}
	h, err := groups[0].Cells[0].Latencies("ack")
	if err != nil || h.Count() == 0 {
		t.Fatal(err)
	}
	var sum int64
	for _, r := range groups[0].Cells[0].Runs {
		one, _ := r.Line("ack").Latencies()
		sum += one.Count()
	}
	if h.Count() != sum {
		t.Errorf("all rounds together have %d latencies, one by one %d", h.Count(), sum)
	}
}
