package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/posthouse/posthouse/results"
)

// reportFormat is a value of --format, and the ending of -o that means it.
type reportFormat struct {
	name, ending string
	write        func(*results.Report, io.Writer) error
}

var reportFormats = []reportFormat{
	{"html", ".html", (*results.Report).HTML},
	{"markdown", ".md", (*results.Report).Markdown},
	{"csv", ".csv", (*results.Report).CSV},
	{"json", ".json", (*results.Report).JSON},
	{"hlog", ".hlog", (*results.Report).HLog},
	{"percentiles", "", nil}, // a directory of files
}

type reportFlags struct {
	format, out, title string
	baseline           []string
}

func newReport() *cobra.Command {
	var flags reportFlags
	cmd := &cobra.Command{
		Use:   "report FILE|DIR...",
		Short: "Show results of posthouse load and bench as one page, or as text for other programs",
		Long: "Report reads what `posthouse load --json` and `posthouse bench` wrote: files, or\n" +
			"directories with all results below them. It writes\n\n" +
			"  html         one page with charts, that needs no network (default, to report.html)\n" +
			"  markdown     the same tables for a README or a merge request\n" +
			"  csv          one row for each run and line, unrounded\n" +
			"  json         every comparison with its ratio, interval and verdict\n" +
			"  hlog         HdrHistogram's interval log\n" +
			"  percentiles  HdrHistogram's percentile text, a directory of .hgrm files\n\n" +
			"All but html and percentiles go to standard output unless -o names a file.",
		Example: "  posthouse report results/\n" +
			"  posthouse report run1.json run2.json --format markdown\n" +
			"  posthouse report new/ --baseline old/ -o compared.html",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return writeReport(cmd.OutOrStdout(), flags, args) },
	}
	cmd.Flags().StringVar(&flags.format, "format", "", "html, markdown, csv, json, hlog or percentiles; by default what the ending of -o says, else html")
	cmd.Flags().StringVarP(&flags.out, "output", "o", "", "file to write, - for standard output; with percentiles a directory")
	cmd.Flags().StringVar(&flags.title, "title", "", "heading of the report")
	cmd.Flags().StringArrayVar(&flags.baseline, "baseline", nil, "compare with these earlier results, a file or directory; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"html", "markdown", "csv", "json", "hlog", "percentiles"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// settle picks format and output from each other.
func (f *reportFlags) settle() error {
	if f.format == "" {
		f.format = "html"
		ending := filepath.Ext(f.out)
		for _, known := range reportFormats {
			if ending != "" && known.ending == ending {
				f.format = known.name
			}
		}
	}
	if f.format == "md" {
		f.format = "markdown"
	}
	var names []string
	for _, known := range reportFormats {
		names = append(names, known.name)
	}
	if !slices.Contains(names, f.format) {
		return fmt.Errorf("--format %s: not one of %s", f.format, strings.Join(names, ", "))
	}
	if f.out == "" {
		switch f.format {
		case "html":
			f.out = "report.html"
		case "percentiles":
			f.out = "percentiles"
		default:
			f.out = "-"
		}
	}
	if f.format == "percentiles" && f.out == "-" {
		return fmt.Errorf("--format percentiles writes several files: name a directory with -o")
	}
	return nil
}

func writeReport(stdout io.Writer, flags reportFlags, paths []string) error {
	if err := flags.settle(); err != nil {
		return err
	}
	runs, err := results.ReadAll(paths...)
	if err != nil {
		return err
	}
	var baseline []*results.Run
	if len(flags.baseline) > 0 {
		if baseline, err = results.ReadAll(flags.baseline...); err != nil {
			return fmt.Errorf("baseline: %w", err)
		}
	}
	report := results.NewReport(runs, baseline)
	if flags.title != "" {
		report.Title = flags.title
	}
	if len(baseline) > 0 && len(report.Baseline) == 0 {
		return fmt.Errorf("baseline: nothing in common with %s: no workload of the same name by a contender of the same name",
			strings.Join(paths, ", "))
	}
	if flags.format == "percentiles" {
		names, err := report.Percentiles(flags.out)
		for _, name := range names {
			fmt.Fprintln(stdout, "wrote", name)
		}
		return err
	}
	i := slices.IndexFunc(reportFormats, func(known reportFormat) bool { return known.name == flags.format })
	// Whole or not at all: a report that fails half-way leaves the old one.
	var text bytes.Buffer
	if err := reportFormats[i].write(report, &text); err != nil {
		return err
	}
	if flags.out == "-" {
		_, err := stdout.Write(text.Bytes())
		return err
	}
	if err := results.WriteFile(flags.out, text.Bytes()); err != nil {
		return err
	}
	what := "runs"
	if len(runs) == 1 {
		what = "run"
	}
	_, err = fmt.Fprintf(stdout, "wrote %s: %d %s\n", flags.out, len(runs), what)
	return err
}
