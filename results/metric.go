package results

// Metric is a figure read off a run.
type Metric struct {
	Key  string // "throughput", "p99", …
	Name string // for people, without the unit
	Unit string
	// HigherIsBetter says which way a difference is good.
	HigherIsBetter bool
	// Value is the figure, false where the run has none. line is the name of
	// the line meant; "" is the run's first.
	Value func(r *Run, line string) (float64, bool)
}

// Metrics are all metrics, in the order in which reports show them.
func Metrics() []Metric { return metrics }

// MetricByKey finds one.
func MetricByKey(key string) (Metric, bool) {
	for _, m := range metrics {
		if m.Key == key {
			return m, true
		}
	}
	return Metric{}, false
}

var metrics = []Metric{
	{"throughput", "Throughput", "records/s", true, lineFigure(func(l *Line) float64 { return l.RecordsPerSec })},
	{"bandwidth", "Bandwidth", "MiB/s", true, lineFigure(func(l *Line) float64 { return l.MiBPerSec })},
	{"p50", "Latency p50", "ms", false, percentile(50)},
	{"p99", "Latency p99", "ms", false, percentile(99)},
	{"p99.9", "Latency p99.9", "ms", false, percentile(99.9)},
	{"p99.99", "Latency p99.99", "ms", false, percentile(99.99)},
	{"max", "Latency max", "ms", false, percentile(100)},
	{"cpu-per-record", "Server CPU per record", "µs", false, usageFigure(func(u *Usage) float64 { return u.CPUMicrosPerRecord })},
	{"cpu-per-gib", "Server CPU per GiB", "s", false, usageFigure(func(u *Usage) float64 { return u.CPUSecondsPerGiB })},
	{"machine-cpu-per-record", "Machine less client CPU per record", "µs", false, machineCPU},
	{"peak-rss", "Peak memory", "MiB", false, usageFigure(func(u *Usage) float64 { return float64(u.PeakRSSBytes) / (1 << 20) })},
}

// pick finds the line meant.
func pick(r *Run, line string) *Line {
	if line != "" {
		return r.Line(line)
	}
	if len(r.Lines) == 0 {
		return nil
	}
	return &r.Lines[0]
}

func lineFigure(read func(*Line) float64) func(*Run, string) (float64, bool) {
	return func(r *Run, line string) (float64, bool) {
		l := pick(r, line)
		if l == nil {
			return 0, false
		}
		v := read(l)
		return v, v > 0
	}
}

func percentile(p float64) func(*Run, string) (float64, bool) {
	return func(r *Run, line string) (float64, bool) {
		l := pick(r, line)
		if l == nil {
			return 0, false
		}
		us, ok := l.Percentile(p)
		return float64(us) / 1000, ok
	}
}

func usageFigure(read func(*Usage) float64) func(*Run, string) (float64, bool) {
	return func(r *Run, _ string) (float64, bool) {
		if r.Usage == nil {
			return 0, false
		}
		v := read(r.Usage)
		return v, v > 0
	}
}

func machineCPU(r *Run, line string) (float64, bool) {
	l, u := pick(r, line), r.Usage
	if l == nil || u == nil || u.MachineCPUSeconds == 0 || l.Records == 0 {
		return 0, false
	}
	return max(u.MachineCPUSeconds-u.ClientCPUSeconds, 0) * 1e6 / float64(l.Records), true
}
