package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is what all formats show of a set of runs.
type Report struct {
	Title    string
	Runs     []*Run
	Groups   []*Group
	Warnings []WarningGroup
	// Baseline is empty where none was given.
	Baseline     []Comparison
	BaselineRuns []*Run
	// Machines has one environment for each machine that differs.
	Machines []*Environment
}

// NewReport puts runs together; baseline may be nil.
func NewReport(runs, baseline []*Run) *Report {
	r := &Report{Title: "Benchmark report", Runs: runs, Groups: GroupRuns(runs), BaselineRuns: baseline}
	if !slices.ContainsFunc(runs, func(r *Run) bool { return r.Kind != KindLoad }) {
		r.Title = "Load test report"
	}
	for _, run := range runs {
		known := func(e *Environment) bool { return len(EnvironmentDifferences(e, run.Environment)) == 0 }
		if run.Environment != nil && !slices.ContainsFunc(r.Machines, known) {
			r.Machines = append(r.Machines, run.Environment)
		}
	}
	if len(baseline) > 0 {
		r.Baseline = CompareBaseline(runs, baseline)
	}
	r.Warnings = r.collectWarnings()
	return r
}

// Span is when the first run began and when the last one ended.
func (r *Report) Span() (from, to time.Time) {
	from = r.Runs[0].StartedAt
	for _, run := range r.Runs {
		if end := run.StartedAt.Add(time.Duration(run.DurationMs) * time.Millisecond); end.After(to) {
			to = end
		}
	}
	return from, to
}

// WarningGroup is one kind of warning with all runs that have it.
type WarningGroup struct {
	Code    string
	Meaning string
	Items   []WarningItem
}

// WarningItem is one text with all whom it concerns; no Places is the whole
// report.
type WarningItem struct {
	Text   string
	Places []Place
}

// Place is one contender's runs of one workload.
type Place struct {
	Workload, Contender string
	Runs, Of            int
}

// warningMeanings says what each code amounts to, gravest first.
var warningMeanings = []struct{ code, meaning string }{
	{WarnFailed, "The run ended early by trouble; its figures count in no median."},
	{WarnVerifyFailed, "The content check found lost, repeated or corrupt records."},
	{WarnInterrupted, "The run was ended early by hand."},
	{WarnClientLimited, "The load generator was the limit, not the server: the server may be faster than this."},
	{WarnBehindSchedule, "Records left later than intended. Latencies count from the intended time, so they include it."},
	{WarnRateNotReached, "The offered rate was not reached: latencies are of an overloaded server."},
	{WarnMachineNotPrepared, "The machine was not as a fair comparison needs it."},
	{WarnValidationDiffers, "Contenders do not check the same: one that checks less does less work."},
	{WarnDurabilityDiffers, "Contenders do not acknowledge at the same point."},
	{WarnErrors, "The server answered with errors."},
	{WarnUnfinished, "Records had no answer at the end; they count with the time they had waited."},
	{WarnSteal, "The hypervisor took CPU time away while it ran."},
	{warnEnvironmentDiffers, "The runs are of machines that differ."},
	{warnBaselineDiffers, "The baseline was taken on a machine that differs: trust the ratios against the limit alone."},
	{WarnFewRounds, "Fewer than three rounds say nothing about noise: differences may be chance."},
}

// Codes that only reports give.
const (
	warnEnvironmentDiffers = "environment-differs"
	warnBaselineDiffers    = "baseline-environment-differs"
)

func (r *Report) collectWarnings() []WarningGroup {
	groups := make(map[string]*WarningGroup)
	item := func(code, text string) *WarningItem {
		g := groups[code]
		if g == nil {
			g = &WarningGroup{Code: code}
			groups[code] = g
		}
		i := slices.IndexFunc(g.Items, func(w WarningItem) bool { return w.Text == text })
		if i < 0 {
			i = len(g.Items)
			g.Items = append(g.Items, WarningItem{Text: text})
		}
		return &g.Items[i]
	}
	for _, g := range r.Groups {
		for _, c := range g.Cells {
			for _, run := range c.Runs {
				for _, w := range run.allWarnings() {
					item(w.Code, w.Text).at(g.Workload.Name, c.Contender.Name, len(c.Runs))
				}
			}
		}
	}
	r.derivedWarnings(func(code, text string) { item(code, text) })
	ordered := make([]WarningGroup, 0, len(groups))
	for _, m := range warningMeanings {
		if g := groups[m.code]; g != nil {
			g.Meaning = m.meaning
			ordered = append(ordered, *g)
			delete(groups, m.code)
		}
	}
	// Codes of a later minor version: shown as they are, by name.
	unknown := make([]WarningGroup, 0, len(groups))
	for _, g := range groups {
		unknown = append(unknown, *g)
	}
	slices.SortFunc(unknown, func(a, b WarningGroup) int { return cmp.Compare(a.Code, b.Code) })
	return append(ordered, unknown...)
}

// allWarnings are a run's own, and its failure.
func (r *Run) allWarnings() []Warning {
	if r.Failure == "" || slices.ContainsFunc(r.Warnings, func(w Warning) bool { return w.Code == WarnFailed }) {
		return r.Warnings
	}
	return append(slices.Clone(r.Warnings), Warning{WarnFailed, r.Failure})
}

func (w *WarningItem) at(workload, contender string, of int) {
	i := slices.IndexFunc(w.Places, func(p Place) bool { return p.Workload == workload && p.Contender == contender })
	if i < 0 {
		i = len(w.Places)
		w.Places = append(w.Places, Place{Workload: workload, Contender: contender, Of: of})
	}
	w.Places[i].Runs++
}

// derivedWarnings are those that only all runs together show.
func (r *Report) derivedWarnings(warn func(code, text string)) {
	for _, e := range r.Machines[min(1, len(r.Machines)):] {
		warn(warnEnvironmentDiffers, strings.Join(EnvironmentDifferences(e, r.Machines[0]), "; "))
	}
	if len(r.BaselineRuns) > 0 && len(r.Machines) > 0 {
		if d := EnvironmentDifferences(r.Machines[0], r.BaselineRuns[0].Environment); len(d) > 0 {
			warn(warnBaselineDiffers, strings.Join(d, "; "))
		}
	}
	// Runs taken one by one are not compared by pairs anyway.
	bench, said := false, false
	for _, run := range r.Runs {
		bench = bench || run.Kind == KindBench
		said = said || slices.ContainsFunc(run.Warnings, func(w Warning) bool { return w.Code == WarnFewRounds })
	}
	var few []string
	for _, g := range r.Groups {
		if slices.ContainsFunc(g.Cells, func(c *Cell) bool { return len(c.Usable()) < minRuns }) {
			few = append(few, g.Workload.Name)
		}
	}
	if len(few) > 0 && bench && !said {
		warn(WarnFewRounds, strings.Join(few, ", "))
	}
}

// where says whom an item concerns: workloads, each with its contenders unless
// it is all of them, and in how many of their runs unless it is all.
func (r *Report) where(w *WarningItem) string {
	var parts []string
	whole := 0
	for _, g := range r.Groups {
		var names []string
		all := true
		for _, p := range w.Places {
			if p.Workload == g.Workload.Name {
				names = append(names, p.contender())
				all = all && p.Runs >= p.Of
			}
		}
		switch {
		case len(names) == 0:
		case all && len(names) == len(g.Cells) && len(names) > 1:
			parts = append(parts, g.Workload.Name)
			whole++
		default:
			parts = append(parts, g.Workload.Name+" ("+strings.Join(names, ", ")+")")
		}
	}
	if whole == len(r.Groups) && whole > 1 {
		return "all runs"
	}
	return strings.Join(parts, ", ")
}

func (p *Place) contender() string {
	if p.Runs < p.Of {
		return fmt.Sprintf("%s in %d of %d runs", p.Contender, p.Runs, p.Of)
	}
	return p.Contender
}

// Marked says whether a warning concerns a contender's runs of a workload.
func (r *Report) Marked(workload, contender string) bool {
	for _, g := range r.Warnings {
		for _, w := range g.Items {
			for _, p := range w.Places {
				if p.Workload == workload && p.Contender == contender {
					return true
				}
			}
		}
	}
	return false
}

// baselineParts are the comparisons of headlines, the others that differ, and
// how many do not.
func (r *Report) baselineParts() (headlines, others []*Comparison, quiet int) {
	about := make(map[string]Figure)
	for _, g := range r.Groups {
		about[g.Workload.Name] = g.Headline()
	}
	for i := range r.Baseline {
		c := &r.Baseline[i]
		h := about[c.Workload]
		switch {
		case h.Key == c.Metric && h.Line == c.Line:
			headlines = append(headlines, c)
		case c.Verdict == NoDifference || c.Verdict == TooFew:
			quiet++
		default:
			others = append(others, c)
		}
	}
	return headlines, others, quiet
}

// JSON writes all comparisons, for programs.
func (r *Report) JSON(w io.Writer) error {
	out := struct {
		Comparisons []Comparison `json:"comparisons"`
		Baseline    []Comparison `json:"baseline,omitempty"`
	}{CompareAll(r.Runs), r.Baseline}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	return encoder.Encode(out)
}

// number shows three significant digits: 0.0123, 1.23, 12.3, 123, 12.3 k,
// 1.23 M.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 999.5e6:
		return digits(v/1e9) + " G"
	case a >= 999.5e3:
		return digits(v/1e6) + " M"
	case a >= 9995:
		return digits(v/1e3) + " k"
	case a >= 999.5:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		return digits(v)
	}
}

// digits keeps three, and all before the point.
func digits(v float64) string {
	a := math.Abs(v)
	places := 2
	switch {
	case a == 0:
		return "0"
	case a >= 99.95:
		places = 0
	case a >= 9.995:
		places = 1
	case a < 0.9995:
		places = min(2-int(math.Floor(math.Log10(a))), 6)
	}
	return strconv.FormatFloat(v, 'f', places, 64)
}

// medianText is "1.23 M (1.20 M–1.25 M)", without the range for one run.
func medianText(s Sample) string {
	if len(s) == 0 {
		return "–"
	}
	if len(s) == 1 {
		return number(s[0])
	}
	return number(s.Median()) + " (" + rangeText(s) + ")"
}

func rangeText(s Sample) string {
	low, high := s.Range()
	return number(low) + "–" + number(high)
}

// estimateText is "0.83 [0.80, 0.86]", without the interval for one run.
func (e Estimate) estimateText() string {
	if e.Runs < 2 {
		return ratioText(e.Ratio)
	}
	return fmt.Sprintf("%s [%s, %s]", ratioText(e.Ratio), ratioText(e.Low), ratioText(e.High))
}

func ratioText(v float64) string {
	if v >= 9.995 {
		return number(v)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Label names a figure with its line and unit.
func (f Figure) Label() string {
	label := f.Name
	if f.Line != "" {
		label += ", " + f.Line
	}
	if f.Unit != "" {
		label += " (" + f.Unit + ")"
	}
	return label
}

// rounds says over how many runs the medians of a group go.
func (g *Group) rounds() string {
	low, high := math.MaxInt, 0
	for _, c := range g.Cells {
		n := len(c.Usable())
		low, high = min(low, n), max(high, n)
	}
	switch {
	case low == high && low == 1:
		return "one run"
	case low == high:
		return fmt.Sprintf("%d runs each", low)
	default:
		return fmt.Sprintf("%d to %d runs each", low, high)
	}
}

var modeTexts = map[string]string{ModeE2E: "end to end", ModePingPong: "ping-pong"}

// pace says what the work was and how fast it was given.
func (w *Workload) pace() string {
	mode := sentence(cmp.Or(modeTexts[w.Mode], w.Mode))
	if w.OfferedRecordsPerSec > 0 {
		return mode + ", open loop, " + number(w.OfferedRecordsPerSec) + " records/s offered"
	}
	return mode + ", closed loop, as fast as it goes"
}

// parameters are the settings as sorted key: value lines, nested names joined
// by dots.
func (w *Workload) parameters() []Field {
	var tree any
	decoder := json.NewDecoder(strings.NewReader(string(w.Parameters)))
	decoder.UseNumber()
	if decoder.Decode(&tree) != nil {
		return nil
	}
	var fields []Field
	flatten("", tree, &fields)
	slices.SortFunc(fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	return fields
}

func flatten(prefix string, v any, into *[]Field) {
	if object, ok := v.(map[string]any); ok {
		for key, value := range object {
			flatten(strings.TrimPrefix(prefix+"."+key, "."), value, into)
		}
		return
	}
	text, _ := json.Marshal(v) // what was just decoded
	*into = append(*into, Field{Name: prefix, Value: strings.Trim(string(text), `"`)})
}
