package storage

import (
	"context"
	"io"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

var _ io.ReaderAt = (*Span)(nil)

// FoundLog describes a partition directory found on disk before it is opened.
type FoundLog struct {
	Dir     string // absolute or as given: <log dir>/<topic>-<partition>
	TP      record.TopicPartition
	TopicID record.TopicID // zero where partition.metadata is missing
}

// DirInfo describes one log directory.
type DirInfo struct {
	Path        string
	DirectoryID record.TopicID
	Total, Free int64
	Err         error // why the directory is offline
}

// SegmentInfo describes one segment for tools.
type SegmentInfo struct {
	BaseOffset   record.Offset
	NextOffset   record.Offset
	SizeBytes    int64
	MaxTimestamp record.Timestamp
	Active       bool
}

// AbortedTxn is one entry of a transaction index.
type AbortedTxn struct {
	ProducerID       record.ProducerID
	FirstOffset      record.Offset
	LastOffset       record.Offset // of the marker
	LastStableOffset record.Offset
}

type Manager struct{}

func OpenManager(ManagerConfig) (*Manager, error) { panic("x") }
func (m *Manager) Scan() ([]FoundLog, error)       { panic("x") }
func (m *Manager) Load(ctx context.Context, want func(FoundLog) (LogConfig, bool), progress func(done, total int)) error {
	panic("x")
}
func (m *Manager) Create(tp record.TopicPartition, id record.TopicID, cfg LogConfig) (*Log, error) {
	panic("x")
}
func (m *Manager) Get(tp record.TopicPartition) *Log { panic("x") }
func (m *Manager) Logs() []*Log                      { panic("x") }
func (m *Manager) Delete(tp record.TopicPartition) error { panic("x") }
func (m *Manager) Unclean(dir string) bool           { panic("x") }
func (m *Manager) Dirs() []DirInfo                   { panic("x") }
func (m *Manager) Checkpoint() error                 { panic("x") }

// Tick does the timed work: due deletions, expiry of idle producers, closing of idle files. Worker context, call every few seconds.
func (m *Manager) Tick()             { panic("x") }
func (m *Manager) ClusterID() string { panic("x") }
func (m *Manager) SetClusterID(string) error { panic("x") }
func (m *Manager) Close(progress func(done, total int)) error { panic("x") }

type Append struct {
	Batch      record.Batch
	FromClient bool
	AppendTime record.Timestamp // now, for LogAppendTime topics

	Err            error
	Duplicate      bool
	BaseOffset     record.Offset
	LastOffset     record.Offset
	LogAppendTime  record.Timestamp // -1 for CreateTime
	LogStartOffset record.Offset
}

type Log struct{}

func (l *Log) AppendAsLeader(epoch record.LeaderEpoch, appends []*Append) { panic("x") }
func (l *Log) AppendAsFollower(records []byte) error                      { panic("x") }
func (l *Log) StartOffset() record.Offset                                 { panic("x") }
func (l *Log) EndOffset() record.Offset                                   { panic("x") }

// FirstUnstableOffset is the first offset of the earliest transaction that is open, or decided above the high watermark given to OnHighWatermark.
func (l *Log) FirstUnstableOffset() (record.Offset, bool) { panic("x") }

// OnHighWatermark notes the high watermark: for the checkpoint, and to let decided transactions go. Lock-free unless transactions are waiting.
func (l *Log) OnHighWatermark(hw record.Offset) { panic("x") }

// CheckpointedHighWatermark is what replication-offset-checkpoint said at load.
func (l *Log) CheckpointedHighWatermark() record.Offset { panic("x") }

// AbortedTxns appends those that overlap [from, to) to dst.
func (l *Log) AbortedTxns(dst []AbortedTxn, from, to record.Offset, nowait bool) ([]AbortedTxn, error) {
	panic("x")
}
func (l *Log) Read(offset, limit record.Offset, maxBytes int32, minOne, nowait bool) (*Span, error) {
	panic("x")
}
func (l *Log) OffsetForTimestamp(ts record.Timestamp) (record.Offset, record.Timestamp, record.LeaderEpoch, error) {
	panic("x")
}
func (l *Log) MaxTimestampOffset() (record.Offset, record.Timestamp, record.LeaderEpoch, error) {
	panic("x")
}
func (l *Log) EpochForOffset(o record.Offset) record.LeaderEpoch { panic("x") }
func (l *Log) EndOffsetForEpoch(e record.LeaderEpoch) (record.LeaderEpoch, record.Offset) {
	panic("x")
}
func (l *Log) LatestEpoch() record.LeaderEpoch                        { panic("x") }
func (l *Log) AssignEpoch(e record.LeaderEpoch, start record.Offset) error { panic("x") }
func (l *Log) SetStartOffset(o record.Offset) error                   { panic("x") }
func (l *Log) TruncateSuffix(to record.Offset) error                  { panic("x") }
func (l *Log) Flush(upTo record.Offset) error                         { panic("x") }
func (l *Log) Roll() error                                            { panic("x") }
func (l *Log) SizeBytes() int64                                       { panic("x") }
func (l *Log) Dir() string                                            { panic("x") }
func (l *Log) TopicPartition() record.TopicPartition                  { panic("x") }
func (l *Log) TopicID() record.TopicID                                { panic("x") }
func (l *Log) SetConfig(LogConfig)                                    { panic("x") }
func (l *Log) Config() *LogConfig                                     { panic("x") }
func (l *Log) Segments() []SegmentInfo                                { panic("x") }
func (l *Log) RecoveryPoint() record.Offset                           { panic("x") }
func (l *Log) Err() error                                             { panic("x") }

type Span struct{}

func (s *Span) File() vfs.File                             { panic("x") }
func (s *Span) FD() int                                    { panic("x") }
func (s *Span) Position() int64                            { panic("x") }
func (s *Span) Length() int64                              { panic("x") }
func (s *Span) BaseOffset() record.Offset                  { panic("x") }
func (s *Span) ReadAt(p []byte, off int64) (int, error)    { panic("x") }
func (s *Span) Release()                                   { panic("x") }
