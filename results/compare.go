package results

import (
	"fmt"
	"slices"
)

// Comparison is one metric of one contender against another's, or against its
// own of another time.
type Comparison struct {
	Workload string `json:"workload"`
	Line     string `json:"line"`
	Metric   string `json:"metric"` // key
	Unit     string `json:"unit"`
	Subject  Side   `json:"subject"`
	Against  Side   `json:"against"`
	// Paired says that the values are of runs that were taken next to each
	// other, in the same order on both sides.
	Paired bool `json:"paired"`
	// RelativeTo names the contender that both sides' values were divided by,
	// round for round, before they were compared; empty compares figures.
	RelativeTo string `json:"relativeTo,omitempty"`
	Estimate
}

// Side is one side of a comparison.
type Side struct {
	Contender string   `json:"contender"`
	Runs      []string `json:"runs"` // IDs
	Values    Sample   `json:"values"`
	Median    float64  `json:"median"`
}

func (s *Side) add(r *Run, v float64) {
	s.Runs, s.Values = append(s.Runs, r.ID), append(s.Values, v)
}

// pairKey is shared by runs of one workload that were taken next to each other.
type pairKey struct {
	session string
	round   int
}

// Compare compares two contenders of one workload: by pairs where at least one
// session ran both, else by medians. False where one of them lacks the figure.
func Compare(subject, against *Cell, m Metric, line string) (Comparison, bool) {
	c := Comparison{
		Workload: subject.Runs[0].Workload.Name, Line: line, Metric: m.Key, Unit: m.Unit,
		Subject: Side{Contender: subject.Contender.Name}, Against: Side{Contender: against.Contender.Name},
	}
	eachPair(subject, against, func(a, b *Run) {
		va, okA := m.Value(a, line)
		vb, okB := m.Value(b, line)
		if okA && okB && va > 0 && vb > 0 {
			c.Subject.add(a, va)
			c.Against.add(b, vb)
		}
	})
	if c.Paired = len(c.Subject.Runs) > 0; !c.Paired {
		c.Subject.fill(subject, m, line)
		c.Against.fill(against, m, line)
	}
	return c, c.settle(m)
}

// eachPair calls fn for the usable runs that were taken next to each other, in
// order of time. A contender that ran twice in a round is paired by its last.
func eachPair(subject, against *Cell, fn func(a, b *Run)) {
	others := make(map[pairKey]*Run)
	for _, r := range against.Usable() {
		if r.Session != "" {
			others[pairKey{r.Session, r.Round}] = r
		}
	}
	for _, r := range subject.Usable() {
		if other := others[pairKey{r.Session, r.Round}]; other != nil {
			fn(r, other)
		}
	}
}

func (s *Side) fill(c *Cell, m Metric, line string) {
	for _, r := range c.Usable() {
		if v, ok := m.Value(r, line); ok && v > 0 {
			s.add(r, v)
		}
	}
}

// settle works out the estimate; false where a side has no value.
func (c *Comparison) settle(m Metric) bool {
	if len(c.Subject.Values) == 0 || len(c.Against.Values) == 0 {
		return false
	}
	c.Subject.Median, c.Against.Median = c.Subject.Values.Median(), c.Against.Values.Median()
	if c.Paired {
		c.Estimate = PairedRatio(c.Subject.Values, c.Against.Values, m.HigherIsBetter)
	} else {
		c.Estimate = UnpairedRatio(c.Subject.Values, c.Against.Values, m.HigherIsBetter)
	}
	return true
}

// CompareAll compares each subject and external contender of each workload with
// each peer and with the limit, by every metric and line.
func CompareAll(runs []*Run) []Comparison {
	var all []Comparison
	for _, g := range GroupRuns(runs) {
		for _, f := range g.Figures() {
			if !f.Diagnostic {
				all = append(all, g.Compare(f.Metric, f.Line)...)
			}
		}
	}
	return all
}

// Compare compares each subject and external contender with each peer and the
// limit, by one metric.
func (g *Group) Compare(m Metric, line string) []Comparison {
	var all []Comparison
	for _, subject := range g.Cells {
		for _, against := range g.Cells {
			if !compared(subject, against) {
				continue
			}
			if c, ok := Compare(subject, against, m, line); ok {
				all = append(all, c)
			}
		}
	}
	return all
}

// compared says whether a report judges one contender by another.
func compared(subject, against *Cell) bool {
	role, other := subject.Contender.Role, against.Contender.Role
	return (role == RoleSubject || role == RoleExternal) && (other == RolePeer || other == RoleLimit)
}

// CompareBaseline compares each contender with itself in a baseline, for each
// workload, line and metric that both have. Where both have a limit, a second
// comparison divides both sides by it round for round first: that one stands
// even when the machine changed in between.
func CompareBaseline(current, baseline []*Run) []Comparison {
	before := make(map[string]*Group)
	for _, g := range GroupRuns(baseline) {
		before[g.Workload.Name] = g
	}
	var all []Comparison
	for _, now := range GroupRuns(current) {
		then := before[now.Workload.Name]
		if then == nil {
			continue
		}
		for _, f := range now.Figures() {
			for _, cell := range now.Cells {
				if old := then.Cell(cell.Contender.Name); old != nil && !f.Diagnostic {
					all = append(all, compareOverTime(now, then, cell, old, f)...)
				}
			}
		}
	}
	return all
}

func compareOverTime(now, then *Group, cell, old *Cell, f Figure) []Comparison {
	var all []Comparison
	m, line := f.Metric, f.Line
	c := Comparison{
		Workload: now.Workload.Name, Line: line, Metric: m.Key, Unit: m.Unit,
		Subject: Side{Contender: cell.Contender.Name}, Against: Side{Contender: old.Contender.Name},
	}
	c.Subject.fill(cell, m, line)
	c.Against.fill(old, m, line)
	if c.settle(m) {
		all = append(all, c)
	}
	limitNow, limitThen := now.limit(), then.limit()
	if limitNow == nil || limitThen == nil || cell == limitNow {
		return all
	}
	c.RelativeTo, c.Unit = limitNow.Contender.Name, "× "+limitNow.Contender.Name
	c.Subject = relative(cell, limitNow, m, line)
	c.Against = relative(old, limitThen, m, line)
	if c.settle(m) {
		all = append(all, c)
	}
	return all
}

func (g *Group) limit() *Cell {
	i := slices.IndexFunc(g.Cells, func(c *Cell) bool { return c.Contender.Role == RoleLimit })
	if i < 0 {
		return nil
	}
	return g.Cells[i]
}

func relative(cell, limit *Cell, m Metric, line string) Side {
	s := Side{Contender: cell.Contender.Name}
	eachPair(cell, limit, func(a, b *Run) {
		va, okA := m.Value(a, line)
		vb, okB := m.Value(b, line)
		if okA && okB && va > 0 && vb > 0 {
			s.add(a, va/vb)
		}
	})
	return s
}

// EnvironmentDifferences lists in what two machines differ that moves figures.
func EnvironmentDifferences(a, b *Environment) []string {
	if a == nil || b == nil {
		return nil
	}
	var differences []string
	fieldsA, fieldsB := a.Fields(), b.Fields()
	for i, f := range fieldsA {
		if !f.Varies && f.Value != fieldsB[i].Value {
			differences = append(differences, fmt.Sprintf("%s: %s, was %s", f.Name, f.Value, fieldsB[i].Value))
		}
	}
	return differences
}
