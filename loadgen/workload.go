package loadgen

import (
	"time"

	"github.com/posthouse/posthouse/storage/record"
)

// Mode is what a workload does.
type Mode string

// The modes.
const (
	// ModeProduce measures intended send → acknowledgement.
	ModeProduce Mode = "produce"
	// ModeConsume reads what is there, or what others write.
	ModeConsume Mode = "consume"
	// ModeE2E measures intended send → received by a consumer, and the
	// acknowledgement beside it.
	ModeE2E Mode = "e2e"
	// ModeVerify checks content: order, gaps, duplicates, checksums.
	ModeVerify Mode = "verify"
)

// Workload says what load to make. Make one with DefaultWorkload or
// ParseWorkload: zero values are not the defaults. Durations are written as
// "10s" in YAML, byte counts as "16KiB" or a number.
type Workload struct {
	// Name stands in reports; default the mode.
	Name string `yaml:"name,omitempty" json:"name"`
	Mode Mode   `yaml:"mode" json:"mode"`

	// Topic is the topic's name, or with Topics above one the prefix of
	// "name-0", "name-1", ….
	Topic      string `yaml:"topic" json:"topic"`
	Topics     int    `yaml:"topics" json:"topics"`
	Partitions int    `yaml:"partitions" json:"partitions"`
	// Replication is the replication factor of topics that are created; -1
	// leaves it to the broker.
	Replication int `yaml:"replication" json:"replication"`
	// TopicConfigs are configs of topics that are created.
	TopicConfigs map[string]string `yaml:"topic-configs,omitempty" json:"topicConfigs,omitempty"`
	// Create says what to do about the topics: "missing" creates those that do
	// not exist, "fresh" deletes and creates them, "never" wants them there.
	Create string `yaml:"create" json:"create"`
	// DeleteAfter deletes the topics at the end.
	DeleteAfter bool `yaml:"delete-after,omitempty" json:"deleteAfter,omitempty"`

	// Connections is how many connections produce.
	Connections int `yaml:"connections" json:"connections"`
	// Consumers is how many connections consume, from the end of the log on in
	// e2e and produce, from From in consume.
	Consumers int `yaml:"consumers" json:"consumers"`
	// CatchUp is how many further connections read everything from offset 0,
	// again and again.
	CatchUp int `yaml:"catch-up" json:"catchUp"`

	// Record is the size of record values in bytes.
	Record Sizes `yaml:"record" json:"record"`
	Keys   Keys  `yaml:"keys" json:"keys"`
	// Compression of batches: none, gzip, snappy, lz4 or zstd.
	Compression string `yaml:"compression" json:"compression"`
	// Compressibility is the share of a value that repeats itself, 0..1.
	Compressibility float64 `yaml:"compressibility" json:"compressibility"`

	// Acks is 0, 1 or all.
	Acks       Acks `yaml:"acks" json:"acks"`
	Idempotent bool `yaml:"idempotent" json:"idempotent"`
	// InFlight is the unanswered Produce requests of one connection.
	InFlight int `yaml:"in-flight" json:"inFlight"`
	// Linger is how long a record may wait for others to fill its batch.
	Linger Duration `yaml:"linger" json:"linger"`
	// BatchBytes bounds a batch's size; BatchRecords, if not 0, its records.
	BatchBytes   Bytes `yaml:"batch-bytes" json:"batchBytes"`
	BatchRecords int   `yaml:"batch-records" json:"batchRecords"`

	// Fetch is how consumers ask.
	Fetch Fetch `yaml:"fetch" json:"fetch"`
	// From is where ModeConsume begins: "earliest" or "latest".
	From string `yaml:"from" json:"from"`
	// Rewind has consumers of ModeConsume begin again at the start when they
	// have read everything.
	Rewind bool `yaml:"rewind" json:"rewind"`

	// Schedule is when records are to be sent.
	Schedule Schedule `yaml:"schedule" json:"schedule"`
	// Duration is the whole run, Warmup the part at its begin that is left out
	// of every figure.
	Duration Duration `yaml:"duration" json:"duration"`
	Warmup   Duration `yaml:"warmup" json:"warmup"`
	// Records ends the run after that many records, if not 0.
	Records int64 `yaml:"records,omitempty" json:"records,omitempty"`
	// Drain bounds the wait for answers at the end.
	Drain Duration `yaml:"drain" json:"drain"`
	// Reconnect is how long ModeVerify goes on without a broker.
	Reconnect Duration `yaml:"reconnect" json:"reconnect"`
	// Seed makes sizes, keys and arrivals repeatable.
	Seed uint64 `yaml:"seed" json:"seed"`
}

// Fetch is how consumers ask.
type Fetch struct {
	// MaxBytes bounds a response, PartitionBytes one partition's part.
	MaxBytes       Bytes    `yaml:"max-bytes" json:"maxBytes"`
	PartitionBytes Bytes    `yaml:"partition-bytes" json:"partitionBytes"`
	MinBytes       Bytes    `yaml:"min-bytes" json:"minBytes"`
	Wait           Duration `yaml:"wait" json:"wait"`
	// CheckCRC has every batch's checksum verified; ModeVerify always does.
	CheckCRC bool `yaml:"check-crc" json:"checkCRC"`
}

// Keys says which keys records have.
type Keys struct {
	// Distribution is none, uniform or zipf. Records without a key fill one
	// batch after another, partition by partition; a key decides the partition.
	Distribution string `yaml:"distribution" json:"distribution"`
	// Count is the number of different keys.
	Count int64 `yaml:"count" json:"count"`
	// Bytes is the length of a key, at least 8.
	Bytes int `yaml:"bytes" json:"bytes"`
	// Skew is zipf's exponent, above 0.
	Skew float64 `yaml:"skew" json:"skew"`
}

// Schedule is when records are to be sent, over all connections together.
type Schedule struct {
	// Kind is closed, constant, poisson or steps.
	Kind string `yaml:"kind" json:"kind"`
	// Rate is records per second, for constant and poisson.
	Rate float64 `yaml:"rate,omitempty" json:"rate,omitempty"`
	// Steps follow each other; the last one lasts to the end.
	Steps []Step `yaml:"steps,omitempty" json:"steps,omitempty"`
	// Poisson has the arrivals of steps be random.
	Poisson bool `yaml:"poisson,omitempty" json:"poisson,omitempty"`
}

// Kinds of schedule.
const (
	Closed   = "closed"
	Constant = "constant"
	Poisson  = "poisson"
	Steps    = "steps"
)

// Step is a time of constant rate.
type Step struct {
	Rate float64  `yaml:"rate" json:"rate"` // records per second
	For  Duration `yaml:"for" json:"for"`
}

// Open reports whether records have intended times.
func (s *Schedule) Open() bool { return s.Kind != Closed }

// DefaultWorkload is what each mode does unless told otherwise: 1 KiB records
// over 8 connections to one topic of 8 partitions for 30 s; produce and
// consume as fast as it goes, e2e and verify at 10,000 records/s.
func DefaultWorkload(mode Mode) Workload {
	w := Workload{
		Mode: mode, Topic: "posthouse-load", Topics: 1, Partitions: 8, Replication: -1, Create: "missing",
		Connections: 8,
		Record:      Fixed(1024),
		Keys:        Keys{Distribution: "none", Count: 10_000, Bytes: 16, Skew: 1},
		Compression: record.None.String(),
		Acks:        1, InFlight: 5, BatchBytes: 16 << 10,
		Fetch:    Fetch{MaxBytes: 4 << 20, PartitionBytes: 1 << 20, MinBytes: 1, Wait: Duration(500 * time.Millisecond)},
		From:     "earliest",
		Schedule: Schedule{Kind: Closed},
		Duration: Duration(30 * time.Second), Warmup: Duration(5 * time.Second),
		Drain: Duration(5 * time.Second), Reconnect: Duration(30 * time.Second),
		Seed: 1,
	}
	switch mode {
	case ModeConsume:
		w.Connections, w.Consumers, w.Create = 0, 8, "never"
	case ModeE2E:
		w.Consumers = 8
		w.Schedule = Schedule{Kind: Constant, Rate: 10_000}
	case ModeVerify:
		w.Consumers, w.Acks, w.Idempotent, w.Warmup = 8, AcksAll, true, 0
		w.Schedule = Schedule{Kind: Constant, Rate: 10_000}
	}
	return w
}
