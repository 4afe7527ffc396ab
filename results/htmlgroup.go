package results

import (
	"slices"
	"strings"
)

func (b *pageBuilder) group(g *Group, anchor string) (groupView, error) {
	w := &g.Workload
	v := groupView{
		Anchor: anchor, Name: w.Name, Title: strings.TrimSuffix(w.Title, "."),
		Pace: w.pace(), Rounds: g.rounds(), Notes: b.notes(g), Parameters: w.parameters(),
	}
	figures := g.Figures()
	if len(g.Cells) == 1 {
		v.Tiles = tiles(g.Cells[0], figures)
	} else {
		v.Bars = b.bars(g, figures)
		for _, c := range g.Cells {
			v.Columns = append(v.Columns, column{b.views[c.Contender.Name], b.report.Marked(w.Name, c.Contender.Name)})
		}
		for _, f := range figures {
			row := tableRow{Label: f.Label()}
			for _, c := range g.Cells {
				row.Cells = append(row.Cells, b.valueCell(g, c, f))
			}
			v.Table = append(v.Table, row)
		}
	}
	var err error
	v.Charts, err = b.charts(g, anchor)
	v.Commands = commands(g)
	return v, err
}

// notes are the warnings of this workload, where its figures are.
func (b *pageBuilder) notes(g *Group) []noteView {
	var notes []noteView
	for _, group := range b.report.Warnings {
		note := noteView{Code: group.Code}
		for _, item := range group.Items {
			var names []string
			for _, p := range item.Places {
				if p.Workload == g.Workload.Name {
					names = append(names, p.contender())
				}
			}
			if len(names) > 0 {
				note.Texts = append(note.Texts, strings.Join(names, ", ")+": "+item.Text)
			}
		}
		if len(note.Texts) > 0 {
			notes = append(notes, note)
		}
	}
	return notes
}

func tiles(c *Cell, figures []Figure) []tile {
	var all []tile
	for _, f := range figures {
		if s := c.Sample(f.Metric, f.Line); len(s) > 0 {
			figure := sampleCell(s)
			all = append(all, tile{f.Label(), figure.Text, figure.Range})
		}
	}
	return all
}

// commands are what was typed, each once, with the contenders that it was for.
func commands(g *Group) []Field {
	var fields []Field
	for _, c := range g.Cells {
		for _, r := range c.Runs {
			text := strings.Join(r.Command, " ")
			i := slices.IndexFunc(fields, func(f Field) bool { return f.Value == text })
			switch {
			case text == "":
			case i < 0:
				fields = append(fields, Field{Name: c.Contender.Name, Value: text})
			case !slices.Contains(strings.Split(fields[i].Name, ", "), c.Contender.Name):
				fields[i].Name += ", " + c.Contender.Name
			}
		}
	}
	return fields
}

type barSet struct {
	Label, Better string
	Rows          []barRow
}

// barRow's lengths are percent of the track.
type barRow struct {
	Slot, Class, Name, Text, OfLimit string
	Marked, HasRange                 bool
	Width, Low, Span, LimitAt        float64
}

// bars draws the workload's headline and what goes with it: cost and tail for
// a closed loop, the distribution and cost for an open one.
func (b *pageBuilder) bars(g *Group, figures []Figure) []barSet {
	headline := g.Headline()
	cost := costKey(g)
	keys := []string{headline.Key, cost, "p99", "peak-rss"}
	if headline.Unit == "ms" {
		keys = []string{"p50", "p99", "p99.9", cost}
		if !slices.Contains(keys, headline.Key) {
			keys[0] = headline.Key
		}
	}
	var sets []barSet
	for k, key := range keys {
		i := slices.IndexFunc(figures, func(f Figure) bool { return f.Key == key && (f.PerRun || f.Line == headline.Line) })
		if i >= 0 && slices.Index(keys, key) == k {
			sets = append(sets, b.barSet(g, figures[i]))
		}
	}
	return sets
}

// costKey is the metric that tells what a workload costs: per GiB of what is
// read in bulk, per record of all else.
func costKey(g *Group) string {
	for _, c := range g.Cells {
		for _, r := range c.Usable() {
			if l := pick(r, ""); l != nil && l.Records > 0 && g.Workload.Mode == ModeConsume && l.Bytes/l.Records >= 512 {
				return "cpu-per-gib"
			}
		}
	}
	return "cpu-per-record"
}

func (b *pageBuilder) barSet(g *Group, f Figure) barSet {
	set := barSet{Label: f.Label(), Better: "less is better"}
	if f.HigherIsBetter {
		set.Better = "more is better"
	}
	top, limitAt := 0.0, 0.0
	limit := g.limit()
	// A server that only answers is a floor for latencies and costs; as a rate
	// it would dwarf all that do the work.
	shown := slices.DeleteFunc(slices.Clone(g.Cells), func(c *Cell) bool { return f.HigherIsBetter && c.Contender.Role == RoleNull })
	for _, c := range shown {
		for _, v := range c.Sample(f.Metric, f.Line) {
			top = max(top, v)
		}
	}
	if top == 0 {
		return set
	}
	percent := func(v float64) float64 { return number4(100 * v / top) }
	if limit != nil {
		if s := limit.Sample(f.Metric, f.Line); len(s) > 0 {
			limitAt = percent(s.Median())
		}
	}
	for _, c := range shown {
		sample := c.Sample(f.Metric, f.Line)
		view := b.views[c.Contender.Name]
		row := barRow{
			Slot: view.Slot, Class: view.Class, Name: c.Contender.Name, Text: "–", LimitAt: limitAt,
			Marked: b.report.Marked(g.Workload.Name, c.Contender.Name),
		}
		if len(sample) > 0 {
			low, high := sample.Range()
			row.Text, row.Width = number(sample.Median()), percent(sample.Median())
			row.HasRange, row.Low, row.Span = len(sample) > 1, percent(low), percent(high-low)
		}
		if limit != nil && c != limit {
			if of, ok := Compare(c, limit, f.Metric, f.Line); ok {
				row.OfLimit = ratioText(of.Ratio) + " × " + limit.Contender.Name
			}
		}
		set.Rows = append(set.Rows, row)
	}
	return set
}

// courseNote says which of several rounds a course over time is of.
func courseNote(g *Group) string {
	if g.repeated() {
		return "the typical round of each"
	}
	return ""
}

func allRoundsNote(g *Group) string {
	if g.repeated() {
		return "all rounds together"
	}
	return ""
}

// repeated says that someone ran it more than once.
func (g *Group) repeated() bool {
	return slices.ContainsFunc(g.Cells, func(c *Cell) bool { return len(c.Usable()) > 1 })
}

// lineNote names the line in a title where the workload has several.
func lineNote(line string, several bool) string {
	if !several {
		return ""
	}
	return ", " + line
}
