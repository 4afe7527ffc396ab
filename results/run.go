package results

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/posthouse/posthouse/results/hdr"
)

// SchemaVersion is what this program writes. It reads this version and all
// earlier ones.
const SchemaVersion = 1

// Kind is what made a run.
type Kind string

// Kinds of run.
const (
	KindLoad  Kind = "load"  // `posthouse load`: one client against a broker that was there
	KindBench Kind = "bench" // `posthouse bench`: one turn of one contender
)

// Role is what a contender is compared as.
type Role string

// Roles of contenders.
const (
	RoleSubject  Role = "subject"  // what the report is about: Posthouse
	RolePeer     Role = "peer"     // another broker
	RoleLimit    Role = "limit"    // the least program that does the work: what the machine can do
	RoleNull     Role = "null"     // a server that only answers: the client's own floor
	RoleExternal Role = "external" // an address that was already running
)

// Run is one measured run: one workload against one contender, once. Times are
// of the measured part: the warm-up is in none of the figures.
type Run struct {
	SchemaVersion int    `json:"schemaVersion"`
	ID            string `json:"id"` // unique among the runs one ever compares
	Kind          Kind   `json:"kind"`
	// Session is shared by runs that one `posthouse bench` took by turns. Runs
	// of one session, workload and Round ran next to each other: they are the
	// pairs that ratios are taken of. Empty for a single run.
	Session string `json:"session,omitempty"`
	Round   int    `json:"round,omitempty"` // from 1; 0 outside a session

	StartedAt  time.Time `json:"startedAt"`
	DurationMs int64     `json:"durationMs"`         // the measured part
	WarmupMs   int64     `json:"warmupMs,omitempty"` // left out before it

	// Environment may be nil inside a Set, which then holds it for all.
	Environment *Environment `json:"environment,omitempty"`
	Command     []string     `json:"command"` // what was typed
	Contender   Contender    `json:"contender"`
	Workload    Workload     `json:"workload"`

	Lines    []Line    `json:"lines"`
	Usage    *Usage    `json:"usage,omitempty"` // nil where the server's process is not ours to read
	Client   *Client   `json:"client,omitempty"`
	Series   []Series  `json:"series,omitempty"`
	Warnings []Warning `json:"warnings,omitempty"`
	// Failure is why the run ended early; the figures are what was measured
	// until then.
	Failure string `json:"failure,omitempty"`
	// Verify is loadgen's report of a content check, as it gave it.
	Verify json.RawMessage `json:"verify,omitempty"`
}

// Contender is what was measured.
type Contender struct {
	Name    string   `json:"name"` // "posthouse io_uring", "kafka 4.4.0", "limit": the same in every run of it
	Role    Role     `json:"role"`
	Version string   `json:"version,omitempty"`
	Address string   `json:"address,omitempty"`
	Command []string `json:"command,omitempty"` // how it was started, whole
	// Config is what was set beside its defaults, one "key=value" each.
	Config []string `json:"config,omitempty"`
	// Validation says what it checks of a producer's batch ("crc, framing"), so
	// that a report shows who does less.
	Validation string `json:"validation,omitempty"`
	// Durability says when it acknowledges ("page cache", "fdatasync").
	Durability string `json:"durability,omitempty"`
}

// Modes of a workload.
const (
	ModeProduce  = "produce"
	ModeConsume  = "consume"
	ModeE2E      = "e2e"
	ModeVerify   = "verify"
	ModePingPong = "pingpong"
)

// Workload is what was asked of the contender.
type Workload struct {
	Name string `json:"name"` // "produce-16k-8c": same name, same work
	Mode string `json:"mode"` // one of the Mode constants, or another word: shown as it is
	// Title and Group are for people: a line of prose, and the part of a
	// report it belongs to ("saturation", "fixed rate", "reads").
	Title string `json:"title,omitempty"`
	Group string `json:"group,omitempty"`
	// OfferedRecordsPerSec is the schedule's rate (its highest, where it has
	// steps); 0 is a closed loop, as fast as it goes.
	OfferedRecordsPerSec float64 `json:"offeredRecordsPerSec,omitempty"`
	// Headline is the metric that this workload is about, by its Key (see
	// Metrics); empty picks throughput for closed loops and p99 for open ones.
	Headline string `json:"headline,omitempty"`
	// Parameters are all of loadgen's settings, as they were.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// Line is one measured quantity of a run.
type Line struct {
	Name     string `json:"name"` // "ack", "e2e", "fetch", "catch-up"
	Records  int64  `json:"records"`
	Bytes    int64  `json:"bytes"` // batches as they are on the wire
	Requests int64  `json:"requests,omitempty"`
	// Unfinished records were due and had no answer at the end.
	Unfinished    int64            `json:"unfinished,omitempty"`
	Errors        int64            `json:"errors"`
	ErrorsByCode  map[string]int64 `json:"errorsByCode,omitempty"` // Kafka's names: "NOT_LEADER_OR_FOLLOWER"
	RecordsPerSec float64          `json:"recordsPerSec"`
	MiBPerSec     float64          `json:"mibPerSec"`
	// Percentiles are of Histogram, for readers without the library; µs.
	Percentiles []hdr.Percentile `json:"percentiles,omitempty"`
	// Histogram is the whole distribution in µs: HdrHistogram's V2 compressed
	// base64. SetHistogram fills both in.
	Histogram string `json:"histogram,omitempty"`
	// Intervals are the same by time, for .hlog; may be absent.
	Intervals []Interval `json:"intervals,omitempty"`
}

// Interval is a stretch of a run's measured part.
type Interval struct {
	StartMs    int64  `json:"startMs"` // since the measured part began
	DurationMs int64  `json:"durationMs"`
	Histogram  string `json:"histogram"`
}

// SetHistogram keeps a distribution and its percentiles.
func (l *Line) SetHistogram(h *hdr.Histogram) {
	if h == nil || h.Count() == 0 {
		l.Histogram, l.Percentiles = "", nil
		return
	}
	l.Histogram, l.Percentiles = h.Encode(), h.Table()
}

// Latencies decodes the distribution; nil where there is none.
func (l *Line) Latencies() (*hdr.Histogram, error) {
	if l.Histogram == "" {
		return nil, nil
	}
	h, err := hdr.Decode(l.Histogram)
	if err != nil {
		return nil, fmt.Errorf("line %s: %w", l.Name, err)
	}
	return h, nil
}

// Percentile is the latency at p percent in µs, false where it is not kept.
func (l *Line) Percentile(p float64) (int64, bool) {
	for _, q := range l.Percentiles {
		if q.P == p {
			return q.Us, true
		}
	}
	return 0, false
}

// Usage is what the measured part cost, the warm-up left out.
type Usage struct {
	// ServerCPUSeconds is the contender's processes, user and system.
	ServerCPUSeconds float64 `json:"serverCPUSeconds"`
	ClientCPUSeconds float64 `json:"clientCPUSeconds"`
	// MachineCPUSeconds is all busy time of all CPUs, the client's included,
	// steal not. Loopback bills receive work to the sender, and the kernel's
	// flush and journal threads bill nobody: MachineCPUSeconds −
	// ClientCPUSeconds is the fairer price of a server.
	MachineCPUSeconds float64 `json:"machineCPUSeconds,omitempty"`
	StealSeconds      float64 `json:"stealSeconds,omitempty"` // taken by the hypervisor, all CPUs together
	PeakRSSBytes      int64   `json:"peakRSSBytes,omitempty"`
	WrittenBytes      int64   `json:"writtenBytes,omitempty"`    // write_bytes of /proc/<pid>/io
	ContextSwitches   int64   `json:"contextSwitches,omitempty"` // of all its threads, voluntary or not
	// CPUMicrosPerRecord and CPUSecondsPerGiB are ServerCPUSeconds over the
	// work of the run's first line. Derive fills them in.
	CPUMicrosPerRecord float64 `json:"cpuMicrosPerRecord"`
	CPUSecondsPerGiB   float64 `json:"cpuSecondsPerGiB"`
}

// Derive fills in the figures per record and per GiB.
func (u *Usage) Derive(records, bytes int64) {
	u.CPUMicrosPerRecord, u.CPUSecondsPerGiB = 0, 0
	if records > 0 {
		u.CPUMicrosPerRecord = u.ServerCPUSeconds * 1e6 / float64(records)
	}
	if bytes > 0 {
		u.CPUSecondsPerGiB = u.ServerCPUSeconds * (1 << 30) / float64(bytes)
	}
}

// Client is what the load generator says of itself.
type Client struct {
	Engine string `json:"engine,omitempty"`
	Loops  int    `json:"loops,omitempty"`
	// LoopShare is the CPU time of its busiest loop over wall-clock time, 0..1;
	// LoopWait is the share of time that loop was runnable without a core.
	LoopShare float64 `json:"loopShare"`
	LoopWait  float64 `json:"loopWait"`
	// How late batches left that nothing but the client held back, µs.
	SendLatenessP99Us int64 `json:"sendLatenessP99Us"`
	SendLatenessMaxUs int64 `json:"sendLatenessMaxUs"`
}

// Names of series that reports know; others are kept and not drawn.
const (
	SeriesRate   = "rate"   // records/s
	SeriesMiB    = "mib"    // MiB/s
	SeriesP50    = "p50"    // us
	SeriesP99    = "p99"    // us
	SeriesMax    = "max"    // us
	SeriesCPU    = "cpu"    // cores, of the server
	SeriesRSS    = "rss"    // bytes, of the server
	SeriesErrors = "errors" // errors/s
)

// Series is a quantity by time.
type Series struct {
	Name string `json:"name"`
	Line string `json:"line,omitempty"` // the line it belongs to, "" for the server's
	Unit string `json:"unit"`           // "records/s", "MiB/s", "us", "cores", "bytes"
	// Points are [second since the measured part began, value], ascending.
	Points []Point `json:"points"`
}

// Point is [seconds, value].
type Point [2]float64

// Warning is a reason to read a run's figures with care. A run that has one is
// marked wherever it is shown.
type Warning struct {
	Code string `json:"code"` // a word for programs, kebab-case
	Text string `json:"text"` // a line for people, figures included
}

// Codes of warnings that this program writes.
const (
	WarnBehindSchedule     = "behind-schedule"      // records left later than intended
	WarnClientLimited      = "client-limited"       // the client's CPU was the limit
	WarnRateNotReached     = "rate-not-reached"     // achieved below asked
	WarnErrors             = "errors"               // the server answered with errors
	WarnUnfinished         = "unfinished"           // records without an answer at the end
	WarnInterrupted        = "interrupted"          // ended early by hand
	WarnFailed             = "failed"               // ended early by trouble
	WarnVerifyFailed       = "verify-failed"        // lost, duplicated or corrupt content
	WarnMachineNotPrepared = "machine-not-prepared" // free memory, congestion control, writeback
	WarnValidationDiffers  = "validation-differs"   // a contender checks less than others
	WarnDurabilityDiffers  = "durability-differs"   // a contender acknowledges earlier than others
	WarnSteal              = "steal"                // the hypervisor took CPU away
	WarnFewRounds          = "few-rounds"           // too few for an interval
)

// Warn adds a warning.
func (r *Run) Warn(code, format string, args ...any) {
	r.Warnings = append(r.Warnings, Warning{Code: code, Text: fmt.Sprintf(format, args...)})
}

// Line returns the line of that name, or nil.
func (r *Run) Line(name string) *Line {
	for i := range r.Lines {
		if r.Lines[i].Name == name {
			return &r.Lines[i]
		}
	}
	return nil
}

// Set is many runs in one file, with the environment that they share.
type Set struct {
	SchemaVersion int          `json:"schemaVersion"`
	Environment   *Environment `json:"environment,omitempty"` // of runs that have none
	Runs          []*Run       `json:"runs"`
}
