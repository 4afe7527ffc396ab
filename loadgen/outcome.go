package loadgen

import (
	"time"

	"github.com/posthouse/posthouse/results/hdr"
)

// Options is what a run is started with.
type Options struct {
	// Bootstrap are addresses, "host:port"; the first that answers is used.
	Bootstrap []string
	Workload  Workload
	// Engine of the client's own loops: auto (default), io_uring or epoll.
	Engine string
	// Loops is how many event loops the client has; 0 picks.
	Loops int
	// ClientID is sent with every request; default "posthouse-load".
	ClientID string
	// LoopbackCongestion is TCP_CONGESTION of connections to loopback; empty
	// leaves the host's.
	LoopbackCongestion string
	// Progress is called once a second, on a goroutine of the run's own; may be
	// nil.
	Progress func(Tick)
	// Started is called when setting up is over and the schedule begins; may be
	// nil. Records intended before the end of the warm-up are not counted.
	Started func(start, measured time.Time)
	// Measured is called when the measured part is over, before the drain; may
	// be nil.
	Measured func(end time.Time)
}

// Tick is what happened in one second.
type Tick struct {
	// Elapsed is the time since the schedule began.
	Elapsed time.Duration
	Warmup  bool
	Lines   []TickLine
	Errors  int64
	// Behind is how far the oldest record that is due and not sent has waited.
	Behind time.Duration
	// BrokenConnections is how many connections wait to be made again.
	BrokenConnections int
}

// TickLine is one line's part of a Tick.
type TickLine struct {
	Name           string
	Records, Bytes int64
	P50, P99, Max  int64 // µs
	Histogram      *hdr.Histogram
}

// Names of lines.
const (
	// LineAck is intended send → acknowledgement.
	LineAck = "ack"
	// LineE2E is intended send → received by a consumer.
	LineE2E = "e2e"
	// LineFetch is request → response of consumers. Waiting for records counts.
	LineFetch = "fetch"
	// LineCatchUp is what the readers from offset 0 got.
	LineCatchUp = "catch-up"
)

// Line is one measured quantity, in the measured part of the run alone.
type Line struct {
	Name string `json:"name"`
	// Records, Bytes and Requests were completed; Bytes counts batches as they
	// are on the wire.
	Records  int64 `json:"records"`
	Bytes    int64 `json:"bytes"`
	Requests int64 `json:"requests"`
	// Unfinished records were due and had no answer when the run was over; the
	// histogram has them with the time they had waited by then.
	Unfinished    int64            `json:"unfinished,omitempty"`
	Errors        int64            `json:"errors"`
	ErrorsByCode  map[string]int64 `json:"errorsByCode,omitempty"`
	RecordsPerSec float64          `json:"recordsPerSec"`
	MiBPerSec     float64          `json:"mibPerSec"`
	Histogram     *hdr.Histogram   `json:"histogram"`
}

// Warning is a reason to read the figures with care.
type Warning struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Codes of warnings.
const (
	WarnBehindSchedule = "behind-schedule"
	WarnClientLimited  = "client-limited"
	WarnRateNotReached = "rate-not-reached"
	WarnErrors         = "errors"
	WarnUnfinished     = "unfinished"
	WarnInterrupted    = "interrupted"
	WarnFailed         = "failed"
	WarnVerifyFailed   = "verify-failed"
)

// ClientUsage is what the load generator itself used in the measured part.
type ClientUsage struct {
	Engine string `json:"engine"`
	Loops  int    `json:"loops"`
	// CPUSeconds is the whole process, user and system.
	CPUSeconds float64 `json:"cpuSeconds"`
	// LoopShare is the CPU time of the busiest loop over wall-clock time;
	// LoopWait is the time it was runnable and had no core.
	LoopShare float64 `json:"loopShare"`
	LoopWait  float64 `json:"loopWait"`
	// SendLatenessP99Us and SendLatenessMaxUs are how late batches left that
	// nothing but the client held back, in µs.
	SendLatenessP99Us int64 `json:"sendLatenessP99Us"`
	SendLatenessMaxUs int64 `json:"sendLatenessMaxUs"`
}

// Outcome is what a run measured; it is there after a failure too.
type Outcome struct {
	Workload  Workload      `json:"workload"`
	Bootstrap []string      `json:"bootstrap"`
	StartedAt time.Time     `json:"startedAt"`
	Measured  time.Duration `json:"measuredNs"`
	Lines     []Line        `json:"lines"`
	Ticks     []Tick        `json:"ticks"`
	Warnings  []Warning     `json:"warnings,omitempty"`
	Client    ClientUsage   `json:"client"`
	Verify    *VerifyReport `json:"verify,omitempty"`
	// Interrupted says that the context ended the run early.
	Interrupted bool `json:"interrupted,omitempty"`
	// Failure is why the run ended early, if it did.
	Failure string `json:"failure,omitempty"`
}

// Line returns the line of that name, or nil.
func (o *Outcome) Line(name string) *Line {
	for i := range o.Lines {
		if o.Lines[i].Name == name {
			return &o.Lines[i]
		}
	}
	return nil
}

// VerifyReport is what ModeVerify found. All counts are of records.
type VerifyReport struct {
	Sent     int64 `json:"sent"`
	Acked    int64 `json:"acked"`
	Received int64 `json:"received"`
	// Lost were acknowledged and never read.
	Lost int64 `json:"lost"`
	// Unknown were sent and neither acknowledged nor read: not a loss.
	Unknown    int64 `json:"unknown"`
	Duplicates int64 `json:"duplicates"`
	// Reordered came after a later record of the same producer and partition,
	// for the first time.
	Reordered int64 `json:"reordered"`
	// Corrupt had a batch or a value with a wrong checksum.
	Corrupt int64 `json:"corrupt"`
	// Foreign were not written by this run.
	Foreign    int64 `json:"foreign"`
	Reconnects int64 `json:"reconnects"`
	// Problems names the first few, for people.
	Problems []string `json:"problems,omitempty"`
	OK       bool     `json:"ok"`
}
