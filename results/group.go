package results

import (
	"cmp"
	"slices"

	"github.com/posthouse/posthouse/results/hdr"
)

// Group is one workload, with everyone who ran it.
type Group struct {
	Workload Workload
	Cells    []*Cell // subjects, external, peers, limit, null server
}

// Cell is one workload of one contender.
type Cell struct {
	Contender Contender
	// Runs are all, in order of time. Those with a Failure count in no figure.
	Runs []*Run
}

var roleOrder = map[Role]int{RoleSubject: 0, RoleExternal: 1, RolePeer: 2, RoleLimit: 3, RoleNull: 4}

// GroupRuns puts runs together by workload, in the order in which the parts of
// the report and the workloads in them first ran, and by contender.
func GroupRuns(runs []*Run) []*Group {
	var groups []*Group
	byName := make(map[string]*Group)
	for _, r := range runs {
		g := byName[r.Workload.Name]
		if g == nil {
			g = &Group{Workload: r.Workload}
			byName[r.Workload.Name] = g
			groups = append(groups, g)
		}
		cell := g.Cell(r.Contender.Name)
		if cell == nil {
			cell = &Cell{Contender: r.Contender}
			g.Cells = append(g.Cells, cell)
		}
		cell.Runs = append(cell.Runs, r)
	}
	// What belongs together stands together, wherever else it ran.
	parts := make(map[string]int)
	for i, g := range groups {
		if _, known := parts[g.Workload.Group]; !known {
			parts[g.Workload.Group] = i
		}
	}
	slices.SortStableFunc(groups, func(a, b *Group) int { return cmp.Compare(parts[a.Workload.Group], parts[b.Workload.Group]) })
	order := contenderOrder(runs)
	for _, g := range groups {
		slices.SortStableFunc(g.Cells, func(a, b *Cell) int {
			return cmp.Compare(order[a.Contender.Name], order[b.Contender.Name])
		})
	}
	return groups
}

// contenderOrder numbers contenders by role and then by name, so that one has
// the same place and colour everywhere.
func contenderOrder(runs []*Run) map[string]int {
	contenders := Contenders(runs)
	order := make(map[string]int, len(contenders))
	for i, c := range contenders {
		order[c.Name] = i
	}
	return order
}

// Contenders are those of the runs, each once: subjects, external, peers,
// limit, null server. Of equal role the one that ran first is first.
func Contenders(runs []*Run) []Contender {
	var contenders []Contender
	seen := make(map[string]bool)
	for _, r := range runs {
		if !seen[r.Contender.Name] {
			seen[r.Contender.Name] = true
			contenders = append(contenders, r.Contender)
		}
	}
	slices.SortStableFunc(contenders, func(a, b Contender) int {
		return cmp.Compare(roleOrder[a.Role], roleOrder[b.Role])
	})
	return contenders
}

// Cell is that of a contender, or nil.
func (g *Group) Cell(contender string) *Cell {
	for _, c := range g.Cells {
		if c.Contender.Name == contender {
			return c
		}
	}
	return nil
}

// Lines are the names of the lines that any run of it has, in their order.
func (g *Group) Lines() []string {
	var names []string
	for _, c := range g.Cells {
		for _, r := range c.Runs {
			for i := range r.Lines {
				if !slices.Contains(names, r.Lines[i].Name) {
					names = append(names, r.Lines[i].Name)
				}
			}
		}
	}
	return names
}

// Figure is a metric of a line; Line is empty where the metric is the run's.
type Figure struct {
	Metric
	Line string
}

// Figures are those that at least one usable run of the workload has: by line,
// then by metric, those of the run at the end.
func (g *Group) Figures() []Figure {
	var figures []Figure
	add := func(m Metric, line string) {
		if slices.ContainsFunc(g.Cells, func(c *Cell) bool { return len(c.Sample(m, line)) > 0 }) {
			figures = append(figures, Figure{m, line})
		}
	}
	for _, line := range g.Lines() {
		for _, m := range metrics {
			if !m.PerRun {
				add(m, line)
			}
		}
	}
	for _, m := range metrics {
		if m.PerRun {
			add(m, "")
		}
	}
	return figures
}

// Headline is the figure that the workload is about: of the line e2e in that
// mode, else of the first line.
func (g *Group) Headline() Figure {
	m := g.Workload.HeadlineMetric()
	lines := g.Lines()
	switch {
	case m.PerRun || len(lines) == 0:
		return Figure{Metric: m}
	case g.Workload.Mode == ModeE2E && slices.Contains(lines, ModeE2E):
		return Figure{m, ModeE2E}
	default:
		return Figure{m, lines[0]}
	}
}

// HeadlineMetric is the metric that the workload is about.
func (w *Workload) HeadlineMetric() Metric {
	key := w.Headline
	switch {
	case key != "":
	case w.OfferedRecordsPerSec > 0 || w.Mode == ModePingPong:
		key = "p99"
	default:
		key = "throughput"
	}
	m, _ := MetricByKey(key)
	return m
}

// Usable are the runs that came to their end.
func (c *Cell) Usable() []*Run {
	usable := make([]*Run, 0, len(c.Runs))
	for _, r := range c.Runs {
		if r.Failure == "" {
			usable = append(usable, r)
		}
	}
	return usable
}

// Sample is a metric of all usable runs that have it.
func (c *Cell) Sample(m Metric, line string) Sample {
	var s Sample
	for _, r := range c.Usable() {
		if v, ok := m.Value(r, line); ok {
			s = append(s, v)
		}
	}
	return s
}

// Latencies are those of all usable runs together, nil where none has any.
func (c *Cell) Latencies(line string) (*hdr.Histogram, error) {
	var all *hdr.Histogram
	for _, r := range c.Usable() {
		l := r.Line(line)
		if l == nil {
			continue
		}
		h, err := l.Latencies()
		if err != nil {
			return nil, err
		}
		switch {
		case h == nil:
		case all == nil:
			all = h
		default:
			all.Merge(h)
		}
	}
	return all, nil
}

// Typical is the usable run whose headline metric is nearest to the median:
// the one whose course over time a report draws. Nil where there is none.
func (c *Cell) Typical(m Metric, line string) *Run {
	median := c.Sample(m, line).Median()
	var typical *Run
	var best float64
	for _, r := range c.Usable() {
		v, ok := m.Value(r, line)
		distance := abs(v - median)
		if typical == nil || (ok && distance < best) {
			typical, best = r, distance
		}
	}
	return typical
}

func abs(f float64) float64 { return max(f, -f) }
