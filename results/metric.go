package results

// Metric is a figure read off a run.
type Metric struct {
	Key  string // "throughput", "p99", …
	Name string // for people, without the unit
	Unit string
	// HigherIsBetter says which way a difference is good.
	HigherIsBetter bool
	// PerRun metrics belong to the run as a whole, whatever the line.
	PerRun bool
	// Diagnostic metrics explain others; they are shown and not judged.
	Diagnostic bool
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
	{Key: "throughput", Name: "Throughput", Unit: "records/s", HigherIsBetter: true, Value: lineFigure(func(l *Line) float64 { return l.RecordsPerSec })},
	{Key: "bandwidth", Name: "Bandwidth", Unit: "MiB/s", HigherIsBetter: true, Value: lineFigure(func(l *Line) float64 { return l.MiBPerSec })},
	{Key: "p50", Name: "Latency p50", Unit: "ms", Value: percentile(50)},
	{Key: "p99", Name: "Latency p99", Unit: "ms", Value: percentile(99)},
	{Key: "p99.9", Name: "Latency p99.9", Unit: "ms", Value: percentile(99.9)},
	{Key: "p99.99", Name: "Latency p99.99", Unit: "ms", Value: percentile(99.99)},
	{Key: "max", Name: "Latency max", Unit: "ms", Value: percentile(100)},
	{Key: "cpu-per-record", Name: "Server CPU per record", Unit: "µs", PerRun: true,
		Value: usageFigure(func(u *Usage) float64 { return u.CPUMicrosPerRecord })},
	{Key: "cpu-per-gib", Name: "Server CPU per GiB", Unit: "s", PerRun: true,
		Value: usageFigure(func(u *Usage) float64 { return u.CPUSecondsPerGiB })},
	{Key: "machine-cpu-per-record", Name: "Machine less client CPU per record", Unit: "µs", PerRun: true,
		Value: perRecord(func(u *Usage) float64 {
			if u.MachineCPUSeconds == 0 {
				return 0
			}
			return 1e6 * max(u.MachineCPUSeconds-u.ClientCPUSeconds, 0)
		})},
	{Key: "peak-rss", Name: "Peak memory", Unit: "MiB", PerRun: true,
		Value: usageFigure(func(u *Usage) float64 { return float64(u.PeakRSSBytes) / (1 << 20) })},
	{Key: "client-cpu-per-record", Name: "Client CPU per record", Unit: "µs", PerRun: true, Diagnostic: true,
		Value: perRecord(func(u *Usage) float64 { return 1e6 * u.ClientCPUSeconds })},
	{Key: "client-loop", Name: "Client's busiest loop", Unit: "%", PerRun: true, Diagnostic: true, Value: clientLoop},
	{Key: "switches-per-record", Name: "Context switches per 1,000 records", PerRun: true, Diagnostic: true,
		Value: perRecord(func(u *Usage) float64 { return 1e3 * float64(u.ContextSwitches) })},
	{Key: "written", Name: "Written to storage", Unit: "MiB", PerRun: true, Diagnostic: true,
		Value: usageFigure(func(u *Usage) float64 { return float64(u.WrittenBytes) / (1 << 20) })},
	{Key: "steal", Name: "CPU taken by the hypervisor", Unit: "s", PerRun: true, Diagnostic: true,
		Value: usageFigure(func(u *Usage) float64 { return u.StealSeconds })},
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

// perRecord divides by the records of the run's first line.
func perRecord(read func(*Usage) float64) func(*Run, string) (float64, bool) {
	return func(r *Run, _ string) (float64, bool) {
		l := pick(r, "")
		if l == nil || r.Usage == nil || l.Records == 0 {
			return 0, false
		}
		v := read(r.Usage) / float64(l.Records)
		return v, v > 0
	}
}

func clientLoop(r *Run, _ string) (float64, bool) {
	if r.Client == nil {
		return 0, false
	}
	return 100 * r.Client.LoopShare, true
}
