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
	Name string
	// Records, Bytes and Requests were completed; Bytes counts batches as they
	// are on the wire.
	Records  int64
	Bytes    int64
	Requests int64
	// Unfinished records were due and had no answer when the run was over; the
	// histogram has them with the time they had waited by then.
	Unfinished int64
	// Errors are of the measured part, ErrorsByCode of the whole run.
	Errors        int64
	ErrorsByCode  map[string]int64
	RecordsPerSec float64
	MiBPerSec     float64
	Histogram     *hdr.Histogram
}

// Warning is a reason to read the figures with care.
type Warning struct {
	Code string
	Text string
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
	Engine string
	Loops  int
	// CPUSeconds is the whole process, user and system.
	CPUSeconds float64
	// LoopShare is the CPU time of the busiest loop over wall-clock time;
	// LoopWait is the time it was runnable and had no core.
	LoopShare float64
	LoopWait  float64
	// SendLatenessP99Us and SendLatenessMaxUs are how late batches left that
	// nothing but the client held back, in µs.
	SendLatenessP99Us int64
	SendLatenessMaxUs int64
}

// Outcome is what a run measured; it is there after a failure too.
type Outcome struct {
	Workload  Workload
	Bootstrap []string
	StartedAt time.Time
	Measured  time.Duration
	Lines     []Line
	Ticks     []Tick
	Warnings  []Warning
	Client    ClientUsage
	Verify    *VerifyReport
	// Interrupted says that the context ended the run early.
	Interrupted bool
	// Failure is why the run ended early, if it did.
	Failure string
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
	Sent     int64
	Acked    int64
	Received int64
	// Lost were acknowledged and never read.
	Lost int64
	// Unknown were sent and neither acknowledged nor read: not a loss.
	Unknown    int64
	Duplicates int64
	// Reordered came after a later record of the same producer and partition,
	// for the first time.
	Reordered int64
	// Corrupt had a batch or a value with a wrong checksum.
	Corrupt int64
	// Foreign were not written by this run.
	Foreign    int64
	Reconnects int64
	// Problems names the first few, for people.
	Problems []string
	OK       bool
}
