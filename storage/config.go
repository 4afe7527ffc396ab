package storage

import (
	"log/slog"
	"math"
	"time"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// Position is a byte position in a segment file.
type Position int64

// Executor runs the work that may sleep: file creation and deletion, syncs,
// maps and cold reads. Submit never blocks its caller. No job takes the lock
// of a log's appender, so an executor may also run a job at once, in place.
type Executor interface{ Submit(func()) }

// Clock tells the wall time in milliseconds.
type Clock interface{ Now() record.Timestamp }

// MaxSegmentBytes is the hard bound of a segment: positions in the offset
// index are signed 32-bit integers, as in Kafka.
const MaxSegmentBytes = math.MaxInt32

// LogConfig is what a topic's configuration means to its log. The zero value
// of a field is Kafka's default, see withDefaults. Immutable once handed over.
type LogConfig struct {
	SegmentBytes       int32 // segment.bytes: a segment is rolled before it grows past this
	SegmentMs          int64 // segment.ms: span of batch timestamps, or age of an undated segment
	SegmentJitterMs    int64 // segment.jitter.ms: a random part of this is taken off SegmentMs
	SegmentIndexBytes  int32 // segment.index.bytes: bound of each index file
	IndexIntervalBytes int32 // index.interval.bytes: log bytes between two index entries
	MaxMessageBytes    int32 // max.message.bytes, held by record.Policy; kept here for descriptions

	FlushMessages int64 // flush.messages, math.MaxInt64 is never
	FlushMs       int64 // flush.ms, math.MaxInt64 is never

	RetentionMs       int64 // retention.ms, -1 is for ever
	RetentionBytes    int64 // retention.bytes, -1 is without bound
	FileDeleteDelayMs int64 // file.delete.delay.ms: grace before files are unlinked

	Compact, Delete bool // cleanup.policy; neither keeps everything for ever
	TimestampType   record.TimestampType
	Preallocate     bool // preallocate; blocks are reserved ahead anyway, see prepare.go
}

// withDefaults fills the fields that are zero with Kafka's defaults.
func (c LogConfig) withDefaults() LogConfig {
	def := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	def32 := func(p *int32, v int32) {
		if *p <= 0 {
			*p = v
		}
	}
	def32(&c.SegmentBytes, 1<<30)
	def32(&c.SegmentIndexBytes, 10<<20)
	def32(&c.IndexIntervalBytes, 4096)
	def32(&c.MaxMessageBytes, 1048588)
	def(&c.SegmentMs, 7*24*3600*1000)
	def(&c.FlushMessages, math.MaxInt64)
	def(&c.FlushMs, math.MaxInt64)
	def(&c.RetentionMs, 7*24*3600*1000)
	def(&c.RetentionBytes, -1)
	def(&c.FileDeleteDelayMs, 60000)
	return c
}

// ManagerConfig is everything that a node's storage needs from outside.
type ManagerConfig struct {
	FS        vfs.FS
	Dirs      []string // log.dirs, at least one
	ClusterID string   // "" adopts what meta.properties says
	NodeID    int32    // a meta.properties of another node is refused
	Executor  Executor // nil runs every job in place: tests and tools only
	Clock     Clock    // nil is the system's
	Logger    *slog.Logger

	RecoveryThreads        int // num.recovery.threads.per.data.dir, default 2
	DefaultLogConfig       LogConfig
	ProducerIDExpirationMs int64 // producer.id.expiration.ms, default one day
	MaxProducersPerLog     int   // bound of idempotent producers remembered in one log, default 100,000
	// CheckpointFlushBytes makes Checkpoint sync a log whose unsynced bytes
	// exceed it, so that a recovery after an unclean stop has less to check.
	// Zero syncs at rolls and clean stops only, as Kafka does.
	CheckpointFlushBytes int64
	// DirtyPressing says that dirty pages should be written from now on, see
	// writeback; nil is always. Worker context.
	DirtyPressing func() bool
	// IdleCloseMs is the time without use after which Tick closes a log's
	// descriptors and drops its maps, default ten minutes.
	IdleCloseMs int64
	// OnFlush hears how long each flush of a log to disk took, on the worker
	// that did it; may be nil.
	OnFlush func(took time.Duration)
}
