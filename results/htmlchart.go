package results

import (
	"math"
	"slices"
	"strings"
)

// chart is what report.js draws; the JSON names are its.
type chart struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"` // percentiles or time
	Group string `json:"group"`
	Unit  string `json:"unit"`
	Axis  string `json:"axis"`
	Title string `json:"-"`
	Note  string `json:"-"`
	Label string `json:"-"` // for those who do not see it
	// X are seconds, or log10(1/(1-p)) of percentiles.
	X      []float64     `json:"x"`
	Series []chartSeries `json:"series"`
}

type chartSeries struct {
	Label string     `json:"label"`
	Slot  string     `json:"slot"`
	Dash  []int      `json:"dash,omitempty"`
	Thin  bool       `json:"thin,omitempty"`
	Y     []*float64 `json:"y"` // null where there is no value
}

const (
	percentileChart = "percentiles"
	timeChart       = "time"
	// pointsPerNine is how finely a percentile curve is drawn between 90 and
	// 99 %, 99 and 99.9 %, and so on.
	pointsPerNine = 24
	// mostNines ends the curves at 99.9999 %.
	mostNines = 6
)

func (b *pageBuilder) charts(g *Group, anchor string) ([]chart, error) {
	var charts []chart
	lines := g.Lines()
	for _, line := range lines {
		c, err := b.percentileChart(g, line, len(lines) > 1)
		if err != nil {
			return nil, err
		}
		charts = append(charts, c)
	}
	headline := g.Headline()
	line := headline.Line
	if line == "" && len(lines) > 0 {
		line = lines[0]
	}
	charts = append(charts,
		b.timeChart(g, "Throughput over time"+lineNote(line, len(lines) > 1), line, []string{SeriesRate}, 1),
		b.timeChart(g, "Latency over time"+lineNote(line, len(lines) > 1), line, []string{SeriesP99, SeriesP50}, 1e-3),
		b.timeChart(g, "Server CPU over time", "", []string{SeriesCPU}, 1),
		b.timeChart(g, "Server memory over time", "", []string{SeriesRSS}, 1.0/(1<<20)),
	)
	charts = slices.DeleteFunc(charts, func(c chart) bool { return len(c.Series) == 0 || len(c.X) == 0 })
	for i := range charts {
		charts[i].ID, charts[i].Group = anchor+"-"+charts[i].Kind+string(rune('a'+i)), anchor
		charts[i].Label = charts[i].Title + " of " + names(charts[i].Series) + "; the table below has the figures"
	}
	return charts, nil
}

func names(series []chartSeries) string {
	var all []string
	for _, s := range series {
		if !s.Thin {
			all = append(all, s.Label)
		}
	}
	return strings.Join(all, ", ")
}

func (b *pageBuilder) series(c *Cell) chartSeries {
	view := b.views[c.Contender.Name]
	s := chartSeries{Label: view.Name, Slot: view.Slot}
	switch view.Class {
	case "dash":
		s.Dash = []int{8, 4}
	case "dot":
		s.Dash = []int{2, 4}
	}
	return s
}

// percentileChart draws the distributions of one line. Each curve ends where
// its own count does: of 1,000 records there is no 99.99 %.
func (b *pageBuilder) percentileChart(g *Group, line string, several bool) (chart, error) {
	c := chart{
		Kind: percentileChart, Unit: "ms", Axis: "Latency (ms)", Title: "Latency by percentile" + lineNote(line, several),
		Note: allRoundsNote(g),
	}
	deepest := 0
	type curve struct {
		cell   *Cell
		points []float64
	}
	var curves []curve
	for _, cell := range g.Cells {
		h, err := cell.Latencies(line)
		if err != nil {
			return c, err
		}
		if h == nil {
			continue
		}
		n := int(math.Floor(min(math.Log10(float64(h.Count())), mostNines) * pointsPerNine))
		percentiles := make([]float64, n+1)
		for i := range percentiles {
			percentiles[i] = 100 * (1 - math.Pow(10, -float64(i)/pointsPerNine))
		}
		points := make([]float64, n+1)
		for i, p := range h.Table(percentiles...) {
			points[i] = float64(p.Us) / 1000
		}
		curves = append(curves, curve{cell, points})
		deepest = max(deepest, n)
	}
	if len(curves) == 0 {
		return c, nil
	}
	for i := range deepest + 1 {
		c.X = append(c.X, math.Round(1e4*float64(i)/pointsPerNine)/1e4)
	}
	for _, curve := range curves {
		s := b.series(curve.cell)
		s.Y = make([]*float64, len(c.X))
		for i, y := range curve.points {
			y = number4(y)
			s.Y[i] = &y
		}
		c.Series = append(c.Series, s)
	}
	return c, nil
}

// timeChart draws a series of the typical round of each contender; the names
// after the first are drawn thin.
func (b *pageBuilder) timeChart(g *Group, title, line string, seriesNames []string, scale float64) chart {
	c := chart{Kind: timeChart, Title: title, Note: courseNote(g)}
	headline := g.Headline()
	type found struct {
		Series
		chartSeries
	}
	var all []found
	for _, cell := range g.Cells {
		run := cell.Typical(headline.Metric, headline.Line)
		if run == nil {
			continue
		}
		for i, name := range seriesNames {
			k := slices.IndexFunc(run.Series, func(s Series) bool { return s.Name == name && s.Line == line })
			if k < 0 || len(run.Series[k].Points) == 0 {
				continue
			}
			s := b.series(cell)
			if i > 0 {
				s.Label, s.Thin = s.Label+" "+name, true
			}
			all = append(all, found{run.Series[k], s})
		}
	}
	if len(seriesNames) > 1 {
		c.Title += ": " + seriesNames[0]
		if slices.ContainsFunc(all, func(f found) bool { return f.Thin }) {
			c.Title += ", thin " + seriesNames[1]
		}
	}
	seconds := make(map[float64]int)
	for _, f := range all {
		for _, p := range f.Points {
			seconds[p[0]] = 0
		}
	}
	for x := range seconds {
		c.X = append(c.X, x)
	}
	slices.Sort(c.X)
	for i, x := range c.X {
		seconds[x] = i
	}
	for _, f := range all {
		c.Unit, c.Axis = timeUnit(f.Name, f.Unit)
		s := f.chartSeries
		s.Y = make([]*float64, len(c.X))
		for _, p := range f.Points {
			// A second without a record has no latency.
			if y := number4(p[1] * scale); y > 0 || f.Unit != "us" {
				s.Y[seconds[p[0]]] = &y
			}
		}
		c.Series = append(c.Series, s)
	}
	return c
}

func timeUnit(name, unit string) (short, axis string) {
	switch name {
	case SeriesRate:
		return unit, "Throughput (" + unit + ")"
	case SeriesCPU:
		return unit, "CPU (" + unit + " busy)"
	case SeriesRSS:
		return "MiB", "Resident memory (MiB)"
	default:
		return "ms", "Latency (ms)"
	}
}
