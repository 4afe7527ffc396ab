// Package results is the form in which measurements are kept, compared and
// shown: the versioned JSON of a run, the environment it was taken in, the
// statistics that say whether two sets of runs differ, and the reports (one
// HTML page, markdown, CSV, HdrHistogram's own log).
//
//   - run.go: the schema; SCHEMA.md documents it with units.
//   - file.go: reading and writing, one run or many to a file; a damaged file
//     is named with line and column, a newer schema is refused.
//   - validate.go: what must hold of a run.
//   - environment.go: the machine, as /proc and /sys tell it.
//   - metric.go: what is read off a run, with its unit and which way is better.
//   - stats.go, compare.go: medians, ranges, bootstrap intervals, verdicts.
//   - group.go: runs put together by workload and contender.
//   - markdown.go, csv.go, hlog.go, html.go, assets/: the reports.
//
// It measures nothing and knows no broker: loadgen and bench fill a Run in.
package results
