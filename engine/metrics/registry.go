// Package metrics says what operators are told about a node, and counts on the
// hot path what is told about requests.
//
// names.go is the list of all metrics: name, meaning, unit, what to alert on.
// docs/metrics.md is made from it. Names are those that users of Kafka with the
// JMX exporter know, in lower case, wherever Kafka has the metric; what Kafka
// does not have begins with posthouse_.
//
// Nothing is counted here on its own. [Histogram] and [Requests] are fields of
// whoever owns them, an event loop above all, and are plain memory; everything
// else is read from the node's parts when somebody asks. A [Source] writes what
// it has read to a [Writer], and [Gatherer] turns sources into what client_golang
// serves.
package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is how a metric moves.
type Kind uint8

// The kinds.
const (
	Counter       Kind = iota // only rises, from zero at the start of the process
	Gauge                     // goes up and down
	HistogramKind             // counts durations
)

func (k Kind) String() string { return [...]string{"counter", "gauge", "histogram"}[k] }

// Metric is one row of the list.
type Metric struct {
	Name   string
	Kind   Kind
	Help   string
	Unit   string   // of the value, for people
	Alert  string   // when to look; empty where there is no rule of thumb
	Labels []string // in the order in which Writer takes their values
	desc   *prometheus.Desc
}

// all is the list, in the order of names.go.
var all []*Metric

// All lists every metric of this package, by groups as in names.go.
func All() []*Metric { return all }

func define(kind Kind, name, unit, help, alert string, labels ...string) *Metric {
	m := &Metric{Name: name, Kind: kind, Help: help, Unit: unit, Alert: alert, Labels: labels,
		desc: prometheus.NewDesc(name, help, labels, nil)}
	all = append(all, m)
	return m
}

// Source writes the current values of some metrics. It is called for each
// scrape, on a goroutine that may wait a moment but not for ever.
type Source func(*Writer)

// Writer takes what a scrape finds.
type Writer struct{ out chan<- prometheus.Metric }

// Set writes the value of a counter or gauge; labels in the order of
// Metric.Labels.
func (w *Writer) Set(m *Metric, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	switch m.Kind {
	case Counter:
		kind = prometheus.CounterValue
	case HistogramKind:
		panic("BUG: " + m.Name + " is a histogram")
	}
	w.out <- prometheus.MustNewConstMetric(m.desc, kind, value, valid(labels)...)
}

// SetBool writes 1 or 0.
func (w *Writer) SetBool(m *Metric, value bool, labels ...string) {
	n := 0.0
	if value {
		n = 1
	}
	w.Set(m, n, labels...)
}

// Histogram writes a histogram in the unit of the metric: milliseconds where
// its name says so, else seconds.
func (w *Writer) Histogram(m *Metric, h *Histogram, labels ...string) {
	unit := time.Second
	if m.Unit == milliseconds {
		unit = time.Millisecond
	}
	w.out <- prometheus.MustNewConstHistogram(m.desc, h.Count(), float64(h.sum)/float64(unit), h.cumulative(unit), valid(labels)...)
}

// valid makes labels of what clients named: a group's id may hold any bytes.
func valid(labels []string) []string {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return labels
}

// collector hands sources to client_golang.
type collector []Source

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range all {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	w := &Writer{out: out}
	for _, source := range c {
		source(w)
	}
}

// Gatherer serves what the sources write. It checks that every metric is in the
// list and no series comes twice.
func Gatherer(sources ...Source) prometheus.Gatherer {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector(sources))
	return registry
}
