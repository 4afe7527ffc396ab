package bench

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/posthouse/posthouse/loadgen"
	"github.com/posthouse/posthouse/results"
)

// Workload is one row of the matrix: what is done to each contender.
type Workload struct {
	Name  string
	Title string // a line of prose
	Group string // the part of a report it belongs to
	// Headline is the metric that it is about, by its key; empty lets the
	// report choose.
	Headline string
	// Mode is the report's word for it where loadgen's own does not say enough.
	Mode string

	// Load is what loadgen does. The topic is the session's to name.
	Load loadgen.Workload
	// Preload fills the topic, once for each contender and topic name; the
	// load then finds it there.
	Preload *Preload
	// DropCache has the kernel forget the contender's files before each run.
	DropCache bool
	// Special replaces Load by something that loadgen does not do.
	Special Special
	// Groups is what GroupLoad does.
	Groups *loadgen.GroupWorkload

	// Short puts it in the short matrix, Check in the ratio check. Extra ones
	// run only when they are named.
	Short, Check, Extra bool

	// Goals are what the broker is to reach.
	Goals []Goal
}

// Preload is what reads find.
type Preload struct {
	Topic string // shared by workloads that read the same
	Bytes int64  // of values, over all partitions
}

// Special is work that is no load.
type Special string

// The specials.
const (
	// IdleConnections opens connections and leaves them alone.
	IdleConnections Special = "idle"
	// StartUp starts the contender anew, again and again.
	StartUp Special = "start"
)

// Goal bounds a ratio of a subject to another contender.
type Goal struct {
	Against results.Role
	Metric  string  // key
	Line    string  // "" where the metric is the run's
	Least   float64 // 0: no lower bound
	Most    float64 // 0: no upper bound
}

func (g Goal) String() string {
	if g.Least > 0 {
		return fmt.Sprintf("≥ %.2f", g.Least)
	}
	return fmt.Sprintf("≤ %.2f", g.Most)
}

// Holds says whether a ratio reaches the goal.
func (g Goal) Holds(ratio float64) bool {
	return (g.Least == 0 || ratio >= g.Least) && (g.Most == 0 || ratio <= g.Most)
}

const (
	recordBytes = 1 << 10
	// roundBytesMax bounds what a closed loop writes, so that writeback does
	// not begin to throttle the faster contender.
	roundBytesMax = 5 << 29
	readBytes     = 512 << 20 // of the topic for hot reads: it stays cached
	coldBytes     = 3 << 30   // of the topic for cold reads
	idleCount     = 10_000
)

// Matrix is all that there is, in the order in which it runs.
func Matrix() []Workload {
	return slices.Concat(saturation(), fixedRates(), manyConnections(), reads(), groupWorkloads(), others())
}

// closed is a produce load that goes as fast as answers come.
func closed(connections, batchRecords, valueBytes int) loadgen.Workload {
	w := loadgen.DefaultWorkload(loadgen.ModeProduce)
	w.Connections, w.BatchRecords, w.Record = connections, batchRecords, loadgen.Fixed(valueBytes)
	w.BatchBytes = loadgen.Bytes(max(16<<10, batchRecords*(valueBytes+100)))
	w.Duration, w.Warmup = loadgen.Duration(4*time.Second), loadgen.Duration(500*time.Millisecond)
	w.Records = roundBytesMax / int64(valueBytes)
	return w
}

// batch is closed with batches of that many bytes, full of records of 1 KiB.
func batch(connections int, bytes loadgen.Bytes) loadgen.Workload {
	w := closed(connections, 0, recordBytes)
	w.BatchBytes = bytes
	return w
}

func saturation() []Workload {
	const group = "saturation"
	acks := func(w loadgen.Workload, acks loadgen.Acks) loadgen.Workload {
		w.Acks = acks
		return w
	}
	return []Workload{
		{Name: "produce-1rec-64c", Title: "Batches of one 100 B record, 64 connections, 5 in flight, acks=1", Group: group,
			Load: closed(64, 1, 100), Short: true, Check: true, Goals: produceGoals(0.75, 1.5)},
		{Name: "produce-16k-8c", Title: "16 KiB batches of 1 KiB records, 8 connections, 5 in flight, acks=1", Group: group,
			Load: batch(8, 16<<10), Short: true, Check: true, Goals: produceGoals(0.80, 1.35)},
		{Name: "produce-64k-4c", Title: "64 KiB batches of 1 KiB records, 4 connections, 5 in flight, acks=1", Group: group,
			Load: batch(4, 64<<10), Goals: produceGoals(0.85, 1.25)},
		{Name: "produce-1m-4c", Title: "1 MiB batches of 1 KiB records, 4 connections, 5 in flight, acks=1", Group: group,
			Load: batch(4, 1<<20), Goals: produceGoals(0.85, 1.25)},
		{Name: "produce-16k-8c-acks0", Title: "16 KiB batches of 1 KiB records, 8 connections, acks=0", Group: group,
			Load: acks(batch(8, 16<<10), 0)},
		{Name: "produce-16k-8c-acksall", Title: "16 KiB batches of 1 KiB records, 8 connections, 5 in flight, acks=all", Group: group,
			Load: acks(batch(8, 16<<10), loadgen.AcksAll), Goals: kafkaGoals("cpu-per-record", 0.35, loadgen.LineAck)},
	}
}

// produceGoals are of a line against the limit, and against Kafka.
func produceGoals(throughput, cpu float64) []Goal {
	return append([]Goal{
		{Against: results.RoleLimit, Metric: "throughput", Line: loadgen.LineAck, Least: throughput},
		{Against: results.RoleLimit, Metric: "cpu-per-record", Most: cpu},
	}, kafkaGoals("cpu-per-record", 0.35, loadgen.LineAck)...)
}

// kafkaGoals: far less CPU, and latencies that are not worse.
func kafkaGoals(cpuMetric string, cpu float64, line string) []Goal {
	goals := []Goal{{Against: results.RolePeer, Metric: cpuMetric, Most: cpu}}
	for _, p := range []string{"p50", "p99", "p99.9"} {
		goals = append(goals, Goal{Against: results.RolePeer, Metric: p, Line: line, Most: 1})
	}
	return goals
}

// paced is an e2e load on a schedule.
func paced(rate float64, seconds int) loadgen.Workload {
	w := loadgen.DefaultWorkload(loadgen.ModeE2E)
	w.Schedule = loadgen.Schedule{Kind: loadgen.Constant, Rate: rate}
	w.Linger = loadgen.Duration(time.Millisecond)
	w.Duration, w.Warmup = loadgen.Duration(time.Duration(seconds)*time.Second), loadgen.Duration(2*time.Second)
	return w
}

func fixedRates() []Workload {
	const group = "fixed rate"
	goals := append([]Goal{
		{Against: results.RoleLimit, Metric: "p99", Line: loadgen.LineE2E, Most: 1.3},
		{Against: results.RoleLimit, Metric: "p99.9", Line: loadgen.LineE2E, Most: 2},
		{Against: results.RoleLimit, Metric: "cpu-per-record", Most: 1.5},
	}, kafkaGoals("cpu-per-record", 0.35, loadgen.LineE2E)...)
	title := func(rate string) string {
		return rate + " records/s of 1 KiB, 8 producers with 1 ms linger, 8 consumers, acks=1"
	}
	pingPong := closed(1, 1, 100)
	pingPong.InFlight, pingPong.Acks, pingPong.Partitions = 1, loadgen.AcksAll, 1
	return []Workload{
		{Name: "rate-20k", Title: title("20,000"), Group: group, Load: paced(20_000, 12), Goals: kafkaGoals("cpu-per-record", 0.35, loadgen.LineE2E)},
		{Name: "rate-100k", Title: title("100,000"), Group: group, Load: paced(100_000, 12), Short: true, Goals: goals},
		{Name: "rate-250k", Title: title("250,000"), Group: group, Load: paced(250_000, 12), Goals: goals},
		{Name: "ping-pong", Title: "One connection, one 100 B record at a time, acks=all", Group: group, Mode: results.ModePingPong,
			Headline: "p50", Load: pingPong, Short: true, Goals: kafkaGoals("cpu-per-record", 0.35, loadgen.LineAck)},
		{Name: "soak-50k", Title: "50,000 records/s of 1 KiB for ten minutes, e2e, acks=1", Group: group, Headline: "p99.9",
			Load: paced(50_000, 602), Extra: true, Goals: kafkaGoals("cpu-per-record", 0.35, loadgen.LineE2E)},
	}
}

func manyConnections() []Workload {
	const group = "connections"
	many := closed(1000, 1, 100)
	many.InFlight = 1
	wide := paced(20_000, 15)
	wide.Topics, wide.Partitions, wide.Linger = 1000, 10, loadgen.Duration(5*time.Millisecond)
	return []Workload{
		{Name: "connections-1000", Title: "1,000 connections, each one 100 B record at a time, acks=1", Group: group, Load: many,
			Goals: kafkaGoals("cpu-per-record", 0.35, loadgen.LineAck)},
		{Name: "idle-10000", Title: "10,000 connections that do nothing for 5 s", Group: group, Mode: string(IdleConnections),
			Headline: "peak-rss", Special: IdleConnections},
		{Name: "partitions-10000", Title: "1,000 topics of 10 partitions, 20,000 records/s of 1 KiB, 5 ms linger, e2e", Group: group, Load: wide},
	}
}

// hot reads everything again and again.
func hot(consumers int, fetch loadgen.Bytes) loadgen.Workload {
	w := loadgen.DefaultWorkload(loadgen.ModeConsume)
	w.Consumers, w.Rewind = consumers, true
	w.Fetch.MaxBytes, w.Fetch.PartitionBytes = fetch, fetch
	w.Duration, w.Warmup = loadgen.Duration(4*time.Second), loadgen.Duration(time.Second)
	return w
}

func reads() []Workload {
	const group = "reads"
	preload := &Preload{Topic: "hot", Bytes: readBytes}
	goals := func(throughput float64) []Goal {
		return []Goal{
			{Against: results.RoleLimit, Metric: "bandwidth", Line: loadgen.LineFetch, Least: throughput},
			{Against: results.RoleLimit, Metric: "cpu-per-gib", Most: 1.25},
			{Against: results.RolePeer, Metric: "cpu-per-gib", Most: 0.7},
		}
	}
	tail := loadgen.DefaultWorkload(loadgen.ModeE2E)
	tail.Schedule = loadgen.Schedule{Kind: loadgen.Closed}
	tail.Duration, tail.Warmup, tail.Records = loadgen.Duration(4*time.Second), loadgen.Duration(500*time.Millisecond), roundBytesMax/recordBytes
	cold := paced(20_000, 10)
	cold.CatchUp, cold.Create = 1, "never"
	cold.Fetch.MaxBytes, cold.Fetch.PartitionBytes = 1<<20, 1<<20
	return []Workload{
		{Name: "read-1m-1c", Title: "1 reader of cached 16 KiB batches, 1 MiB a fetch", Group: group, Headline: "bandwidth",
			Load: hot(1, 1<<20), Preload: preload, Goals: goals(0.85)},
		{Name: "read-1m-8c", Title: "8 readers of cached 16 KiB batches, 1 MiB a fetch", Group: group, Headline: "bandwidth",
			Load: hot(8, 1<<20), Preload: preload, Short: true, Check: true, Goals: goals(0.95)},
		{Name: "read-64k-8c", Title: "8 readers of cached 16 KiB batches, 64 KiB a fetch", Group: group, Headline: "bandwidth",
			Load: hot(8, 64<<10), Preload: preload, Goals: goals(0.85)},
		{Name: "tail-16k-8c", Title: "16 KiB batches on 8 connections as fast as it goes, read at the tail by 8 consumers", Group: group,
			Headline: "throughput", Load: tail},
		{Name: "catch-up-cold", Title: "A reader of everything from a cold cache beside 20,000 records/s of 1 KiB", Group: group,
			Headline: "p99", Load: cold, Preload: &Preload{Topic: "cold", Bytes: coldBytes}, DropCache: true},
	}
}

func others() []Workload {
	return []Workload{
		{Name: "start-up", Title: "From the start of the process to the first answer to a client", Group: "start", Mode: string(StartUp),
			Headline: "p50", Special: StartUp},
	}
}

// Select picks workloads by a matrix's name (short, full, check) or by patterns
// as path.Match has them, which find the extra ones too.
func Select(matrix string, patterns []string) ([]Workload, error) {
	all := Matrix()
	if len(patterns) > 0 {
		var chosen []Workload
		for _, w := range all {
			if slices.ContainsFunc(patterns, func(p string) bool { ok, err := path.Match(p, w.Name); return ok && err == nil }) {
				chosen = append(chosen, w)
			}
		}
		for _, p := range patterns {
			if !slices.ContainsFunc(chosen, func(w Workload) bool { ok, err := path.Match(p, w.Name); return ok && err == nil }) {
				return nil, fmt.Errorf("no workload %q; there are %s", p, strings.Join(names(all), ", "))
			}
		}
		return chosen, nil
	}
	var in func(*Workload) bool
	switch matrix {
	case "short":
		in = func(w *Workload) bool { return w.Short }
	case "full":
		in = func(w *Workload) bool { return !w.Extra }
	case "check":
		in = func(w *Workload) bool { return w.Check }
	default:
		return nil, fmt.Errorf("matrix %q: want short, full or check", matrix)
	}
	return slices.DeleteFunc(all, func(w Workload) bool { return !in(&w) }), nil
}

func names(workloads []Workload) []string {
	list := make([]string, len(workloads))
	for i := range workloads {
		list[i] = workloads[i].Name
	}
	return list
}

// skips says why a contender cannot do a workload, or nothing.
func (w *Workload) skips(c *Contender) string {
	switch {
	case c.Info.Role == results.RoleNull && w.Preload != nil:
		return "it keeps nothing that could be read"
	case c.Info.Role == results.RoleNull && w.Load.Mode == loadgen.ModeE2E && !w.Load.Schedule.Open():
		return "it forgets what a reader at full speed has not read yet"
	case c.kind == kindExternal && (w.Special != "" || w.DropCache):
		return "its process is not ours"
	case c.kind == kindLimit && w.Special == GroupLoad:
		return "it knows no groups"
	}
	return ""
}

// shortened is the load with another length of its measured part; 0 keeps it.
func (w *Workload) shortened(measured time.Duration) loadgen.Workload {
	load := w.Load
	if measured > 0 {
		load.Duration = load.Warmup + loadgen.Duration(measured)
	}
	return load
}
