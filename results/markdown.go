package results

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
)

// Markdown writes the report as GitHub's markdown.
func (r *Report) Markdown(w io.Writer) error {
	out := bufio.NewWriter(w)
	from, _ := r.Span()
	fmt.Fprintf(out, "# %s\n\n%s, %s of %s.\n", r.Title, from.UTC().Format(time.RFC3339),
		plural(len(r.Runs), "run"), plural(len(r.Groups), "workload"))
	r.markdownWarnings(out)
	for _, g := range r.Groups {
		r.markdownGroup(out, g)
	}
	r.markdownBaseline(out)
	r.markdownEnvironment(out)
	return out.Flush()
}

func (r *Report) markdownWarnings(out io.Writer) {
	if len(r.Warnings) == 0 {
		return
	}
	fmt.Fprintf(out, "\n## Warnings\n\n")
	for _, g := range r.Warnings {
		fmt.Fprintln(out, strings.TrimSpace("- **"+cell(g.Code)+"** "+cell(g.Meaning)))
		for _, item := range g.Items {
			text := item.Text
			if where := r.where(&item); where != "" {
				text = where + ": " + text
			}
			fmt.Fprintf(out, "  - %s\n", cell(text))
		}
	}
}

func (r *Report) markdownGroup(out io.Writer, g *Group) {
	w := &g.Workload
	fmt.Fprintf(out, "\n## %s\n\n", cell(w.Name))
	if w.Title != "" {
		fmt.Fprintf(out, "%s. ", cell(strings.TrimSuffix(w.Title, ".")))
	}
	fmt.Fprintf(out, "%s; %s. Medians, in brackets the range; ⚠ has a warning.\n\n", w.pace(), g.rounds())
	fmt.Fprint(out, "| |")
	for _, c := range g.Cells {
		mark := ""
		if r.Marked(w.Name, c.Contender.Name) {
			mark = " ⚠"
		}
		fmt.Fprintf(out, " %s%s |", cell(c.Contender.Name), mark)
	}
	fmt.Fprint(out, "\n|---|", strings.Repeat("---:|", len(g.Cells)), "\n")
	figures := g.Figures()
	for _, f := range figures {
		fmt.Fprintf(out, "| %s |", cell(f.Label()))
		for _, c := range g.Cells {
			fmt.Fprintf(out, " %s |", medianText(c.Sample(f.Metric, f.Line)))
		}
		fmt.Fprintln(out)
	}
	markdownRatios(out, g, figures)
}

// markdownRatios has a column for each pair of contenders.
func markdownRatios(out io.Writer, g *Group, figures []Figure) {
	var pairs [][2]*Cell
	for _, subject := range g.Cells {
		for _, against := range g.Cells {
			if compared(subject, against) {
				pairs = append(pairs, [2]*Cell{subject, against})
			}
		}
	}
	if len(pairs) == 0 {
		return
	}
	fmt.Fprint(out, "\nRatios: median [95 % interval], verdict.\n\n| |")
	for _, p := range pairs {
		fmt.Fprintf(out, " %s / %s |", cell(p[0].Contender.Name), cell(p[1].Contender.Name))
	}
	fmt.Fprint(out, "\n|---|", strings.Repeat("---|", len(pairs)), "\n")
	for _, f := range figures {
		if f.Diagnostic {
			continue
		}
		fmt.Fprintf(out, "| %s |", cell(f.Label()))
		for _, p := range pairs {
			c, ok := Compare(p[0], p[1], f.Metric, f.Line)
			switch {
			case !ok:
				fmt.Fprint(out, " – |")
			case p[1].Contender.Role == RoleLimit:
				fmt.Fprintf(out, " %s |", c.estimateText())
			default:
				fmt.Fprintf(out, " %s %s |", c.estimateText(), c.Verdict)
			}
		}
		fmt.Fprintln(out)
	}
}

func (r *Report) markdownBaseline(out io.Writer) {
	headlines, others, quiet := r.baselineParts()
	if len(r.Baseline) == 0 {
		return
	}
	fmt.Fprint(out, "\n## Against the baseline\n\n| workload | contender | figure | baseline | now | ratio, 95 % interval | verdict |\n|---|---|---|---:|---:|---:|---|\n")
	for _, c := range append(headlines, others...) {
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s |\n", cell(c.Workload), cell(c.Subject.Contender), cell(c.label()),
			medianText(c.Against.Values), medianText(c.Subject.Values), c.estimateText(), c.Verdict)
	}
	if quiet > 0 {
		fmt.Fprintf(out, "\n%s without a clear difference.\n", sentence(plural(quiet, "other figure")))
	}
}

// label names what is compared.
func (c *Comparison) label() string {
	m, _ := MetricByKey(c.Metric)
	m.Unit = c.Unit
	return Figure{m, c.Line}.Label()
}

func (r *Report) markdownEnvironment(out io.Writer) {
	for i, e := range r.Machines {
		heading := "Environment"
		if len(r.Machines) > 1 {
			heading = fmt.Sprintf("Environment %d", i+1)
		}
		fmt.Fprintf(out, "\n## %s\n\n| | |\n|---|---|\n", heading)
		for _, f := range e.Fields() {
			fmt.Fprintf(out, "| %s | %s |\n", cell(f.Name), cell(f.Value))
		}
	}
	fmt.Fprint(out, "\n## Contenders\n\n| name | role | version | checks | acknowledges after | command |\n|---|---|---|---|---|---|\n")
	for _, c := range Contenders(r.Runs) {
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s |\n", cell(c.Name), c.Role, cell(c.Version),
			cell(c.Validation), cell(c.Durability), code(strings.Join(c.Command, " ")))
	}
}

// cell keeps a text within a table's cell and as it is.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "<", "&lt;", "`", "'").Replace(s)
}

// code is a text in code type, nothing for nothing.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}
