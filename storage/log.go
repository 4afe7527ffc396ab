package storage

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// Log is one partition's log: a list of segments, of which the last is active.
//
// # Who may do what
//
// One caller at a time appends, rolls or truncates: mu. It is held across the
// pwritev of an append; workers that hold it across other calls (Roll,
// TruncateSuffix, an append to a cold log) are run by whoever keeps appends
// away meanwhile, all others take it for memory accesses only. Readers take no
// lock: they load the list of segments, which is never changed in place, and
// what size and end have published.
// Workers' jobs on the directory hold files shared; whatever takes files away
// holds it exclusively, which waits for running jobs only: those still queued
// find the log gone, or their segment no longer in the list.
//
// Lock order: mu, then files, then what is inside segments, indexes, producer
// state and epochs; the latter are held for memory accesses or are workers'
// own.
//
// # What is published when
//
// An append writes bytes, then index entries and tail boundaries, then the
// segment's size, then end. A reader goes the other way round, so what it finds
// below end is complete.
type Log struct {
	tp     record.TopicPartition
	id     record.TopicID
	dir    string
	fs     vfs.FS
	exec   Executor
	clock  Clock
	logger *slog.Logger
	config atomic.Pointer[LogConfig]

	mu        sync.Mutex
	producers *producerState // guarded by mu, but for its txns
	warm      atomic.Bool    // the active segment is ready for appends; changed under mu
	dirty     bool           // changed since the start, so a clean stop has work to do; guarded by mu
	closed    bool           // no more appends: closing or being deleted; guarded by mu
	call      appendCall     // scratch of the running append; guarded by mu

	files sync.RWMutex
	gone  bool // closed or deleted; guarded by files

	segs          atomic.Pointer[[]*segment] // oldest first, never empty
	start         atomic.Int64               // inclusive
	end           atomic.Int64               // exclusive
	recoveryPoint atomic.Int64               // everything below is durable
	highWatermark atomic.Int64               // as told by OnHighWatermark
	failure       atomic.Pointer[error]      // why the log takes no appends
	checkpointHW  record.Offset              // high watermark found by load, never changed after

	epochs *epochCache

	// The next segment; see prepare.go.
	prepared  atomic.Pointer[preparedFile]
	preparing atomic.Bool // a worker is making one
	renaming  atomic.Bool // the active segment's file still has the provisional name

	ahead    reservation
	behind   writeback
	flushing sync.Mutex // serialises Flush; worker context

	snapshotting sync.Mutex // serialises the writing of snapshots; worker context
	naming       sync.Mutex // serialises nameSegment; worker context, but for a roll that cannot wait

	manager *Manager
	home    *logDir
}

func newLog(m *Manager, d *logDir, tp record.TopicPartition, id record.TopicID, dir string, cfg LogConfig) *Log {
	l := &Log{
		tp: tp, id: id, dir: dir, fs: m.cfg.FS, exec: m.cfg.Executor, clock: m.cfg.Clock,
		logger:    m.cfg.Logger.With("partition", tp.String()),
		producers: newProducerState(m.cfg.MaxProducersPerLog),
		epochs:    newEpochCache(m.cfg.FS, dir),
		manager:   m,
		home:      d,
	}
	cfg = cfg.withDefaults()
	l.config.Store(&cfg)
	l.ahead.init(l)
	l.behind.init(l)
	empty := []*segment{}
	l.segs.Store(&empty)
	return l
}

// TopicPartition names the log.
func (l *Log) TopicPartition() record.TopicPartition { return l.tp }

// TopicID is the id of the topic that the log belongs to.
func (l *Log) TopicID() record.TopicID { return l.id }

// Dir is the partition's directory.
func (l *Log) Dir() string { return l.dir }

// StartOffset is the first offset that may be read, inclusive.
func (l *Log) StartOffset() record.Offset { return record.Offset(l.start.Load()) }

// EndOffset is the LEO: the offset of the next record.
func (l *Log) EndOffset() record.Offset { return record.Offset(l.end.Load()) }

// RecoveryPoint is the offset below which everything is durable.
func (l *Log) RecoveryPoint() record.Offset { return record.Offset(l.recoveryPoint.Load()) }

// Config is the configuration in force.
func (l *Log) Config() *LogConfig { return l.config.Load() }

// SetConfig replaces the configuration from the next append on.
func (l *Log) SetConfig(c LogConfig) {
	c = c.withDefaults()
	l.config.Store(&c)
}

// Err is why the log takes no more appends, or nil.
func (l *Log) Err() error {
	if p := l.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// fail takes the log offline for appends; the first reason stays.
func (l *Log) fail(err error) {
	if l.failure.CompareAndSwap(nil, &err) {
		l.manager.counts.logFailures.Add(1)
		l.logger.Error("log is offline for appends", "dir", l.dir, "err", err)
	}
}

// list is the segments, oldest first. Not to be changed.
func (l *Log) list() []*segment { return *l.segs.Load() }

// active is the segment that takes appends.
func (l *Log) active() *segment {
	s := l.list()
	return s[len(s)-1]
}

// find is the index in a list of the segment that an offset falls into, or -1
// below the first.
func find(list []*segment, o record.Offset) int {
	lo, hi := 0, len(list)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if list[mid].base <= o {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// SameSegment says whether one segment holds all of [from, end): a read at from
// is then never cut by the end of a segment. Lock-free.
func (l *Log) SameSegment(from, end record.Offset) bool {
	list := l.list()
	return find(list, from) == find(list, max(from, end-1))
}

// nextBase is where the segment after list[i] begins, or the log's end.
func (l *Log) nextBase(list []*segment, i int) record.Offset {
	if i+1 < len(list) {
		return list[i+1].base
	}
	return l.EndOffset()
}

// jitter is a random part of segment.jitter.ms, as in LogConfig.randomSegmentJitter.
func (l *Log) jitter() int64 {
	c := l.Config()
	if n := min(c.SegmentJitterMs, c.SegmentMs); n > 0 {
		return rand.Int64N(n)
	}
	return 0
}

// SizeBytes is the size of all batches, without space reserved ahead.
func (l *Log) SizeBytes() int64 {
	n := int64(0)
	for _, s := range l.list() {
		n += s.size.Load()
	}
	return n
}

// SegmentInfo describes one segment for tools.
type SegmentInfo struct {
	BaseOffset   record.Offset
	NextOffset   record.Offset // base of the next segment, or the LEO
	SizeBytes    int64
	MaxTimestamp record.Timestamp // NoTimestamp if none or not looked up yet
	Active       bool
}

// Segments describes the segments, oldest first.
func (l *Log) Segments() []SegmentInfo {
	list := l.list()
	out := make([]SegmentInfo, len(list))
	for i, s := range list {
		out[i] = SegmentInfo{
			BaseOffset: s.base, NextOffset: l.nextBase(list, i), SizeBytes: s.size.Load(),
			MaxTimestamp: max(record.NoTimestamp, record.Timestamp(s.maxTimestamp.Load())), Active: i == len(list)-1,
		}
	}
	return out
}

// OnHighWatermark notes the high watermark, for the checkpoint and to let
// ended transactions go. It locks only while transactions wait for it.
func (l *Log) OnHighWatermark(hw record.Offset) {
	l.highWatermark.Store(int64(hw))
	l.producers.txns.replicated(hw)
}

// HighWatermark is what OnHighWatermark was told last; before that
// CheckpointedHighWatermark.
func (l *Log) HighWatermark() record.Offset { return record.Offset(l.highWatermark.Load()) }

// CheckpointedHighWatermark is what the replication checkpoint said when the
// log was loaded, held inside its [start, end].
func (l *Log) CheckpointedHighWatermark() record.Offset { return l.checkpointHW }

// FirstUnstableOffset is the first offset of the earliest transaction that is
// open, or was ended by a marker at or above the high watermark. The last
// stable offset is this, or the high watermark if that is lower or there is
// none. Lock-free.
func (l *Log) FirstUnstableOffset() (record.Offset, bool) {
	v := l.producers.txns.firstUnstable.Load()
	return record.Offset(v - 1), v != 0
}

// AbortedTxns appends to dst the aborted transactions that overlap [from, to),
// in the order of their markers. Transaction indexes are in memory, so nowait
// makes no difference: it never waits and never fails.
func (l *Log) AbortedTxns(dst []AbortedTxn, from, to record.Offset, _ bool) ([]AbortedTxn, error) {
	list := l.list()
	done := false
	for i := max(0, find(list, from)); i < len(list) && !done; i++ {
		dst, done = list[i].txns.collect(dst, from, to)
	}
	return dst, nil
}

// ProducerInfo is what DescribeProducers tells of one producer.
type ProducerInfo struct {
	ProducerID       record.ProducerID
	Epoch            record.ProducerEpoch
	LastSequence     record.Sequence
	LastTimestamp    record.Timestamp
	CoordinatorEpoch int32
	TxnFirstOffset   record.Offset // −1 for none
}

// Producers lists the producers that the log remembers, by id. Worker context.
func (l *Log) Producers() []ProducerInfo {
	l.mu.Lock()
	out := make([]ProducerInfo, 0, l.producers.len())
	for i := l.producers.oldest; i >= 0; i = l.producers.entries[i].newer {
		e := &l.producers.entries[i]
		out = append(out, ProducerInfo{e.id, e.epoch, e.lastSeq(), e.lastTimestamp, e.coordinatorEpoch, e.txnFirstOffset})
	}
	l.mu.Unlock()
	sort.Slice(out, func(i, j int) bool { return out[i].ProducerID < out[j].ProducerID })
	return out
}

// LatestEpoch is the newest leader epoch, or NoLeaderEpoch.
func (l *Log) LatestEpoch() record.LeaderEpoch { return l.epochs.latest() }

// EpochForOffset is the epoch whose leader wrote an offset, or NoLeaderEpoch.
func (l *Log) EpochForOffset(o record.Offset) record.LeaderEpoch { return l.epochs.at(o) }

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the greatest epoch at or
// below the asked one and the offset where it ends; (-1, -1) if unknown.
func (l *Log) EndOffsetForEpoch(e record.LeaderEpoch) (record.LeaderEpoch, record.Offset) {
	return l.epochs.endOffset(e, l.EndOffset())
}

// AssignEpoch notes that a leader epoch begins at an offset and makes that
// durable. Worker context.
func (l *Log) AssignEpoch(e record.LeaderEpoch, start record.Offset) error {
	l.epochs.assign(e, start)
	return l.onFiles(l.epochs.write)
}

// onFiles runs a worker's job on the log's directory, unless the log is gone.
func (l *Log) onFiles(job func() error) error {
	l.files.RLock()
	defer l.files.RUnlock()
	if l.gone {
		return errClosed
	}
	return job()
}

// onFilesAlone is onFiles while no other job runs: for what takes files away
// that other jobs may be writing.
func (l *Log) onFilesAlone(job func() error) error {
	l.files.Lock()
	defer l.files.Unlock()
	if l.gone {
		return errClosed
	}
	return job()
}

// checkOrder panics if the offsets are out of order.
func (l *Log) checkOrder() {
	if s, e := l.start.Load(), l.end.Load(); s > e {
		panic(fmt.Sprintf("BUG: %v: log start %d past its end %d", l.tp, s, e))
	}
}
