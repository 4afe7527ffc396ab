package results

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/posthouse/posthouse/results/hdr"
)

// sample describes runs that were never measured: the tests make them up, from
// a seed, and keep none.
type sample struct {
	seed      uint64
	names     [4]string // two subjects, a peer, the limit
	workloads []sampleWorkload
	rounds    int
	seconds   int
	slower    float64 // all times and costs of the subjects are so much longer; 0 is 1
}

type sampleWorkload struct {
	Workload
	batch  int64 // records a second of the limit, in a closed loop
	bytes  int64 // of a record
	p50    [4]float64
	spread [4]float64 // of ln(latency)
	cpu    [4]float64 // µs a record
	rate   [4]float64 // share of the limit's
}

func sampleWorkloads() []sampleWorkload {
	parameters := json.RawMessage(`{"connections":8,"record":{"bytes":1024},"acks":1,"inFlight":5,"batchBytes":16384}`)
	return []sampleWorkload{
		{
			Workload: Workload{Name: "produce-16k-8c", Mode: ModeProduce, Title: "16 KiB batches of 1 KiB records, 8 connections, acks=1", Group: "Saturation", Parameters: parameters},
			batch:    1_200_000, bytes: 1040, p50: [4]float64{3.1, 3.3, 8, 2.7}, spread: [4]float64{.35, .38, .6, .3}, cpu: [4]float64{.62, .66, 2.3, .5}, rate: [4]float64{.9, .86, .41, 1},
		}, {
			Workload: Workload{Name: "produce-1rec-64c", Mode: ModeProduce, Title: "One record of 100 B a batch, 64 connections, 5 in flight", Group: "Saturation", Parameters: parameters},
			batch:    310_000, bytes: 168, p50: [4]float64{1.3, 1.4, 6, 1.1}, spread: [4]float64{.4, .4, .7, .3}, cpu: [4]float64{4.4, 4.9, 17, 3.3}, rate: [4]float64{.79, .75, .2, 1},
		}, {
			Workload: Workload{Name: "e2e-100k", Mode: ModeE2E, Title: "100,000 records/s of 1 KiB, end to end", Group: "Fixed rate", OfferedRecordsPerSec: 100_000, Parameters: parameters},
			bytes:    1040, p50: [4]float64{.68, .71, 1.1, .66}, spread: [4]float64{.5, .55, .72, .45}, cpu: [4]float64{1.5, 1.6, 5.2, 1.2}, rate: [4]float64{1, 1, 1, 1},
		},
	}
}

var sampleRoles = [4]Role{RoleSubject, RoleSubject, RolePeer, RoleLimit}

func sampleEnvironment() *Environment {
	return &Environment{
		CapturedAt: time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC), OS: "made up", Kernel: "0.0-synthetic", Architecture: "amd64",
		CPUModel: "Synthetic CPU", CPUs: 2, Hypervisor: true, MemoryBytes: 24 << 30, MemoryFreeBytes: 380 << 20,
		Filesystem:        Filesystem{MountPoint: "/", Type: "ext4", Device: "/dev/none", Options: "rw,relatime", FreeBytes: 60 << 30, Scheduler: "none"},
		CongestionControl: "cubic", TransparentHugepages: "madvise",
		Writeback: map[string]int64{"dirty_ratio": 20, "dirty_background_ratio": 10}, GoVersion: "go0.0", PosthouseVersion: "synthetic",
	}
}

func (s sample) runs() []*Run {
	random := rand.New(rand.NewPCG(s.seed, 1))
	at := time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC)
	var runs []*Run
	for _, w := range s.workloads {
		for round := 1; round <= s.rounds; round++ {
			for c, name := range s.names {
				runs = append(runs, s.run(random, w, c, name, round, at))
				at = at.Add(time.Duration(s.seconds+10) * time.Second)
			}
		}
	}
	return runs
}

func (s sample) run(random *rand.Rand, w sampleWorkload, c int, name string, round int, at time.Time) *Run {
	factor := 1.0
	if s.slower > 0 && sampleRoles[c] == RoleSubject {
		factor = s.slower
	}
	noise := math.Exp(.04 * random.NormFloat64())
	rate := w.OfferedRecordsPerSec
	if rate == 0 {
		rate = float64(w.batch) * w.rate[c] * noise / factor
	}
	r := &Run{
		SchemaVersion: SchemaVersion, ID: fmt.Sprintf("synthetic-%d-%s-%d-%d", s.seed, w.Name, c, round), Kind: KindBench,
		Session: fmt.Sprintf("synthetic-%d", s.seed), Round: round, StartedAt: at, DurationMs: int64(s.seconds) * 1000, WarmupMs: 5000,
		Environment: sampleEnvironment(), Command: []string{"posthouse", "bench", "--workload", w.Name},
		Contender: Contender{Name: name, Role: sampleRoles[c], Version: "synthetic", Command: []string{name, "--listen", "127.0.0.1:9092"},
			Validation: "CRC, framing", Durability: "page cache"},
		Workload: w.Workload,
		Client:   &Client{Engine: "epoll", Loops: 1, LoopShare: .4 + .02*random.Float64()},
	}
	records := int64(rate * float64(s.seconds))
	lines := []string{"ack"}
	if w.Mode == ModeE2E {
		lines = []string{"ack", "e2e"}
	}
	for i, line := range lines {
		r.addLine(random, line, s.seconds, records, w.bytes, w.p50[c]*factor*noise*(1+.3*float64(i)), w.spread[c])
	}
	cpu := w.cpu[c] * factor * noise
	r.Usage = &Usage{
		ServerCPUSeconds: float64(records) * cpu / 1e6, ClientCPUSeconds: float64(records) * .3 / 1e6,
		MachineCPUSeconds: float64(records) * (cpu + .45) / 1e6, StealSeconds: .01 * float64(round),
		PeakRSSBytes: int64([4]float64{42, 40, 900, 6}[c]*noise) << 20, WrittenBytes: records * w.bytes, ContextSwitches: records / 9,
	}
	r.Usage.Derive(records, records*w.bytes)
	r.Series = append(r.Series, wave(random, "cpu", "", "cores", s.seconds, rate*cpu/1e6), wave(random, "rss", "", "bytes", s.seconds, float64(r.Usage.PeakRSSBytes)*.95))
	return r
}

// addLine makes up a log-normal distribution.
func (r *Run) addLine(random *rand.Rand, name string, seconds int, records, bytes int64, p50, spread float64) {
	const drawn = 4000
	h := hdr.New()
	l := Line{Name: name, Records: records, Bytes: records * bytes, Requests: records / 15,
		RecordsPerSec: float64(records) / float64(seconds), MiBPerSec: float64(records*bytes) / float64(seconds) / (1 << 20)}
	for i := range 2 {
		part := hdr.New()
		for range drawn / 2 {
			part.RecordN(int64(1000*p50*math.Exp(spread*random.NormFloat64())), max(records/drawn, 1))
		}
		h.Merge(part)
		if r.Round > 1 {
			continue // one round of each is enough for .hlog
		}
		l.Intervals = append(l.Intervals, Interval{StartMs: int64(i*seconds) * 500, DurationMs: int64(seconds) * 500, Histogram: part.Encode()})
	}
	l.SetHistogram(h)
	r.Lines = append(r.Lines, l)
	r.Series = append(r.Series, wave(random, "rate", name, "records/s", seconds, l.RecordsPerSec),
		wave(random, "p50", name, "us", seconds, 1000*p50), wave(random, "p99", name, "us", seconds, float64(h.At(99))))
}

func wave(random *rand.Rand, name, line, unit string, seconds int, around float64) Series {
	s := Series{Name: name, Line: line, Unit: unit}
	for i := range seconds {
		s.Points = append(s.Points, Point{float64(i), around * math.Exp(.06*random.NormFloat64())})
	}
	return s
}
