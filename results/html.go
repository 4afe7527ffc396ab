package results

import (
	"bufio"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
)

// The page and all that it needs, see assets/uplot/README.md.
var (
	//go:embed assets/report.html.tmpl
	pageTemplate string
	//go:embed assets/report.css
	pageCSS string
	//go:embed assets/report.js
	pageJS string
	//go:embed assets/uplot/uPlot.iife.min.js
	uplotJS string
	//go:embed assets/uplot/uPlot.min.css
	uplotCSS string
	//go:embed assets/uplot/LICENSE
	uplotLicence string
)

var pageOf = template.Must(template.New("report").Parse(pageTemplate))

// page is what the template shows; all text is ready, nothing is computed
// there.
type page struct {
	Title, When, Counts, Machine string
	Palette, UPlotCSS, CSS       template.CSS
	UPlotJS, JS                  template.JS
	UPlotLicence                 string

	Contenders     []contenderView
	Warnings       []warningView
	WarningCount   int
	HasRatios      bool
	Summary        []summaryRow
	SummaryColumns int
	Baseline       []baselineRow // headlines
	BaselineOthers []baselineRow // what else differs
	BaselineWhen   string
	BaselineQuiet  string
	Groups         []groupView
	Charts         []chart
	Machines       [][]Field

	Resamples, MinSure, MinRuns int
	Footer                      string
}

type contenderView struct {
	Contender
	Slot     string // name of its colour
	Class    string // dash or dot, so that colour is not all
	RoleText string
	Command  string
}

type summaryRow struct {
	Part                 string // heading above this row, if it begins a part
	Anchor, Name, Figure string // no name in a workload's further rows
	Cells                []valueCell
}

// valueCell is a figure of one contender; Missing says why Text is empty.
type valueCell struct {
	Text, Range, Missing string
	Marked               bool
	Ratios               []ratioView
}

// ratioView has no verdict where the other is the limit: that something does
// more than the least is no news.
type ratioView struct {
	Text, Against string
	verdictView
}

type verdictView struct {
	Verdict      Verdict
	Glyph, Class string
}

type baselineRow struct {
	Part                     string // the workload, if it begins here
	Contender, Figure, Ratio string
	Before, Now              valueCell
	verdictView
}

type groupView struct {
	Anchor, Name, Title, Pace, Rounds string
	Notes                             []noteView
	Tiles                             []tile
	Bars                              []barSet
	Charts                            []chart
	Columns                           []column
	Table                             []tableRow
	Parameters, Commands              []Field
}

type noteView struct {
	Code  string
	Texts []string
}

// warningView is a kind of warning; More are shown on demand.
type warningView struct {
	Code, Meaning string
	Items, More   []warningItemView
}

type warningItemView struct{ Where, Text string }

type tile struct{ Label, Text, Range string }

type column struct {
	contenderView
	Marked bool
}

type tableRow struct {
	Label string
	Cells []valueCell
}

// HTML writes the report as one page that needs no network.
func (r *Report) HTML(w io.Writer) error {
	b := pageBuilder{report: r, views: make(map[string]contenderView)}
	p, err := b.build()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	if err := pageOf.Execute(out, p); err != nil {
		return err
	}
	return out.Flush()
}

type pageBuilder struct {
	report *Report
	views  map[string]contenderView // by name
}

func (b *pageBuilder) build() (*page, error) {
	r := b.report
	from, to := r.Span()
	p := &page{
		Title: r.Title, When: from.UTC().Format("2 January 2006, 15:04") + to.UTC().Format(" to 15:04 MST"),
		Counts:  sentence(plural(len(r.Runs), "run") + " of " + plural(len(r.Groups), "workload")),
		Palette: template.CSS(paletteCSS()), UPlotCSS: template.CSS(uplotCSS), CSS: template.CSS(pageCSS),
		UPlotJS: template.JS(uplotJS), JS: template.JS(pageJS), UPlotLicence: uplotLicence,
		Contenders: b.contenders(), Warnings: b.warnings(), WarningCount: len(r.Warnings),
		Resamples: resamples, MinSure: minSure, MinRuns: minRuns,
	}
	p.SummaryColumns = 1 + len(p.Contenders)
	for _, e := range r.Machines {
		p.Machines = append(p.Machines, e.Fields())
	}
	if len(r.Machines) > 0 {
		e := r.Machines[0]
		p.Machine = fmt.Sprintf("%d × %s, %s, Linux %s, %s", e.CPUs, e.CPUModel, bytesText(e.MemoryBytes), e.Kernel, e.Filesystem.Type)
		p.Footer = "Measured by posthouse " + e.PosthouseVersion + ", " + e.GoVersion + "."
	}
	part := ""
	for i, g := range r.Groups {
		rows := b.summaryRows(g, anchor(i, g))
		if g.Workload.Group != part {
			rows[0].Part, part = sentence(g.Workload.Group), g.Workload.Group
		}
		p.HasRatios = p.HasRatios || slices.ContainsFunc(rows[0].Cells, func(c valueCell) bool { return len(c.Ratios) > 0 })
		p.Summary = append(p.Summary, rows...)
		view, err := b.group(g, anchor(i, g))
		if err != nil {
			return nil, err
		}
		p.Groups = append(p.Groups, view)
		p.Charts = append(p.Charts, view.Charts...)
	}
	b.baseline(p)
	return p, nil
}

func (b *pageBuilder) warnings() []warningView {
	const most = 5
	var views []warningView
	for _, g := range b.report.Warnings {
		v := warningView{Code: g.Code, Meaning: g.Meaning}
		for i, item := range g.Items {
			view := warningItemView{b.report.where(&item), item.Text}
			if i < most {
				v.Items = append(v.Items, view)
			} else {
				v.More = append(v.More, view)
			}
		}
		views = append(views, v)
	}
	return views
}

func plural(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// sentence begins with a capital.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func anchor(i int, g *Group) string { return fmt.Sprintf("w%d-%s", i+1, slug(g.Workload.Name)) }

var roleTexts = map[Role]string{
	RoleSubject: "measured", RolePeer: "peer", RoleLimit: "what the machine can do",
	RoleNull: "the client's own floor", RoleExternal: "already running",
}

// contenders gives each its colour: the same on all of the page.
func (b *pageBuilder) contenders() []contenderView {
	var views []contenderView
	taken := make(map[Role]int)
	for _, c := range Contenders(b.report.Runs) {
		of := slots[c.Role]
		v := contenderView{
			Contender: c, Slot: of[min(taken[c.Role], len(of)-1)],
			RoleText: roleTexts[c.Role], Command: strings.Join(c.Command, " "),
		}
		taken[c.Role]++
		switch c.Role {
		case RoleLimit:
			v.Class = "dash"
		case RoleNull:
			v.Class = "dot"
		}
		b.views[c.Name] = v
		views = append(views, v)
	}
	return views
}

// summaryRows are the workload's headline and, where it is known, what the
// server spent on it.
func (b *pageBuilder) summaryRows(g *Group, anchor string) []summaryRow {
	figures := []Figure{g.Headline()}
	if i := slices.IndexFunc(g.Figures(), func(f Figure) bool { return f.Key == costKey(g) }); i >= 0 && figures[0].Key != costKey(g) {
		figures = append(figures, g.Figures()[i])
	}
	var rows []summaryRow
	for i, f := range figures {
		row := summaryRow{Figure: f.Label()}
		if i == 0 {
			row.Anchor, row.Name = anchor, g.Workload.Name
		}
		for _, c := range Contenders(b.report.Runs) {
			row.Cells = append(row.Cells, b.valueCell(g, g.Cell(c.Name), f))
		}
		rows = append(rows, row)
	}
	return rows
}

// valueCell is the median of a figure and, for those that are compared, its
// ratios.
func (b *pageBuilder) valueCell(g *Group, c *Cell, f Figure) valueCell {
	if c == nil {
		return valueCell{Missing: "not run"}
	}
	sample := c.Sample(f.Metric, f.Line)
	v := valueCell{Marked: b.report.Marked(g.Workload.Name, c.Contender.Name)}
	if len(sample) == 0 {
		v.Missing = "no figure"
		if len(c.Usable()) == 0 {
			v.Missing = "failed"
		}
		return v
	}
	figure := sampleCell(sample)
	v.Text, v.Range = figure.Text, figure.Range
	if f.Diagnostic {
		return v
	}
	for _, against := range g.Cells {
		if !compared(c, against) {
			continue
		}
		if comparison, ok := Compare(c, against, f.Metric, f.Line); ok {
			ratio := ratioView{Text: comparison.estimateText(), Against: against.Contender.Name}
			if against.Contender.Role != RoleLimit {
				ratio.verdictView = viewOf(comparison.Verdict)
			}
			v.Ratios = append(v.Ratios, ratio)
		}
	}
	return v
}

// sampleCell is a median and, of several, the range.
func sampleCell(s Sample) valueCell {
	v := valueCell{Text: number(s.Median())}
	if len(s) > 1 {
		v.Range = "(" + rangeText(s) + ")"
	}
	return v
}

func viewOf(v Verdict) verdictView {
	switch v {
	case Better:
		return verdictView{v, "▲", "better"}
	case LikelyBetter:
		return verdictView{v, "△", "better"}
	case LikelyWorse:
		return verdictView{v, "▽", "worse"}
	case Worse:
		return verdictView{v, "▼", "worse"}
	case NoDifference:
		return verdictView{v, "≈", ""}
	default:
		return verdictView{v, "·", ""}
	}
}

func (b *pageBuilder) baseline(p *page) {
	if len(b.report.Baseline) == 0 {
		return
	}
	first := b.report.BaselineRuns[0]
	p.BaselineWhen = sentence(plural(len(b.report.BaselineRuns), "run")) + " of " + first.StartedAt.UTC().Format("2 January 2006") + "."
	headlines, others, quiet := b.report.baselineParts()
	p.Baseline, p.BaselineOthers = baselineRows(headlines), baselineRows(others)
	if quiet > 0 {
		p.BaselineQuiet = sentence(plural(quiet, "other figure")) + " without a clear difference."
	}
}

func baselineRows(comparisons []*Comparison) []baselineRow {
	var rows []baselineRow
	workload := ""
	for _, c := range comparisons {
		row := baselineRow{
			Contender: c.Subject.Contender, Figure: c.label(), Ratio: c.estimateText(),
			Before: sampleCell(c.Against.Values), Now: sampleCell(c.Subject.Values), verdictView: viewOf(c.Verdict),
		}
		if c.Workload != workload {
			row.Part, workload = c.Workload, c.Workload
		}
		rows = append(rows, row)
	}
	return rows
}

// number4 keeps four significant digits of what a chart draws.
func number4(v float64) float64 {
	if v == 0 || !finite(v) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
