package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

type shardState int8

const (
	shardLoading shardState = iota
	shardActive
	shardClosed
)

// shard is the groups of one partition of the offsets topic, for one leadership
// of it. A later leadership has another shard.
//
// Lock order: mu is the only lock, and nothing is called under it that takes
// another or may sleep. A step locks (Coordinator.enter), does its work and ends
// with leave, which carries what was written to the log and answers who is to be
// answered, both without the lock.
type shard struct {
	coordinator *Coordinator
	partition   int32
	epoch       record.LeaderEpoch

	mu       sync.Mutex
	state    shardState
	groups   map[string]*group
	pending  []*write // not yet at the log, in order
	flushing bool     // somebody is carrying them there
	inflight []*write // at the log, not yet done, in order
	answers  []func() // to be called when the lock is released
	timers   timerHeap
	alarm    Timer // nil: none is set
	alarmAt  instant
	expiry   timer
	overdue  timer // of the oldest write at the log

	cancelLoad context.CancelFunc
	loadCtx    context.Context
}

// write is the records of one step: one batch holds all of them.
type write struct {
	group   *group
	records []kv
	replay  bool
	then    func(error) // nil: none, or called already
	since   instant     // when it was given to the log
}

func newShard(c *Coordinator, partition int32, epoch record.LeaderEpoch) *shard {
	s := &shard{coordinator: c, partition: partition, epoch: epoch, groups: make(map[string]*group)}
	s.loadCtx, s.cancelLoad = context.WithCancel(context.Background())
	s.overdue.fire = s.writesOverdue
	return s
}

// settings are the broker's.
func (s *shard) settings() *Settings { return s.coordinator.config.Settings() }

// write appends records as one batch, behind all earlier writes of the shard.
// Once the high watermark covers them, they are replayed into the state if
// replay is set, and then(nil) runs, under the lock. If the append fails
// then(err) does, and nothing was applied. then may be nil. No records are a
// write that is done at once.
//
// A write that is not covered within offsets.commit.timeout.ms has then called
// with REQUEST_TIMED_OUT. It may be covered later, and is applied then.
func (s *shard) write(g *group, records []kv, replay bool, then func(error)) {
	if len(records) == 0 {
		if then != nil {
			then(nil)
		}
		return
	}
	g.writes++
	s.pending = append(s.pending, &write{group: g, records: records, replay: replay, then: then})
}

// answer calls fn once the lock is released.
func (s *shard) answer(fn func()) { s.answers = append(s.answers, fn) }

// leave ends a step: it releases the lock, having carried what is pending to the
// log unless somebody else is at it, and answers.
func (s *shard) leave() {
	for len(s.pending) > 0 && !s.flushing && s.state == shardActive {
		s.flushing = true
		writes := s.take()
		s.inflight = append(s.inflight, writes...)
		for now, i := s.coordinator.now(), 0; i < len(writes); i++ {
			writes[i].since = now
		}
		s.mu.Unlock()
		batch := buildBatch(record.Timestamp(s.coordinator.nowMs()), writes, s.settings().Codec)
		s.coordinator.config.Log.Append(s.partition, s.epoch, batch, func(err error) { s.appended(writes, err) })
		s.mu.Lock()
		s.flushing = false
	}
	if s.state == shardActive {
		if len(s.inflight) > 0 && !s.overdue.armed() {
			s.arm(&s.overdue, s.settings().CommitTimeout)
		}
		s.wind()
	}
	answers := s.answers
	s.answers = nil
	s.mu.Unlock()
	for _, fn := range answers {
		fn()
	}
}

// take cuts the writes of the next batch off pending: as many as fit.
func (s *shard) take() []*write {
	limit := s.settings().BatchBytesMax
	size := record.HeaderSize
	n := 0
	for n < len(s.pending) {
		size += s.pending[n].sizeBytes()
		if n > 0 && size > limit {
			break
		}
		n++
	}
	writes := s.pending[:n:n]
	if s.pending = s.pending[n:]; len(s.pending) == 0 {
		s.pending = nil
	}
	return writes
}

// writesOverdue tells the steps of writes that have waited for too long.
func (s *shard) writesOverdue() {
	timeout := s.settings().CommitTimeout
	now := s.coordinator.now()
	for _, w := range s.inflight {
		left := time.Duration(w.since-now) + timeout
		if left > 0 {
			s.arm(&s.overdue, left)
			return
		}
		if then := w.then; then != nil {
			w.then = nil
			then(kerr.RequestTimedOut)
		}
	}
}

// appended hears what became of the oldest batch that is at the log.
func (s *shard) appended(writes []*write, err error) {
	s.mu.Lock()
	if s.state != shardActive {
		s.mu.Unlock()
		return // resign has told them
	}
	// One that is refused at once, as leadership has gone, overtakes those that
	// are at the log; it has changed nothing.
	at := slices.Index(s.inflight, writes[0])
	if at < 0 || at > 0 && err == nil {
		panic(fmt.Sprintf("BUG: group: appends to partition %d are done out of order", s.partition))
	}
	if s.inflight = slices.Delete(s.inflight, at, at+len(writes)); len(s.inflight) == 0 {
		s.inflight = nil
		s.disarm(&s.overdue)
	}
	for _, w := range writes {
		s.finish(w, err)
	}
	s.leave()
}

// finish applies a write and tells its step; then those who waited for the group
// to be idle go on.
func (s *shard) finish(w *write, err error) {
	g := w.group
	g.writes--
	if err == nil && w.replay {
		err = s.apply(w)
	}
	if w.then != nil {
		w.then(err)
	}
	for g.writes == 0 && len(g.waiting) > 0 {
		next := g.waiting[0]
		g.waiting = g.waiting[1:]
		next()
	}
}

// apply applies the records of a write that is committed. One that cannot be read
// back (a string of a request that does not fit into a record) is passed over as
// it will be when the partition is loaded, and the step hears of it.
func (s *shard) apply(w *write) error {
	var failed error
	for _, r := range w.records {
		if err := s.replay(r.key, r.value); err != nil {
			failed = fmt.Errorf("a record that was just written is not understood: %w", err)
			s.coordinator.config.Logger.Error("a group's record is passed over",
				"partition", s.partition, "group", w.group.id, "err", failed)
		}
	}
	return failed
}

// load replays the partition and begins to serve. Worker context.
func (s *shard) load() {
	// Nobody else looks at the groups of a shard that is loading.
	batches, skipped := 0, 0
	err := s.coordinator.config.Log.Scan(s.loadCtx, s.partition, s.epoch, func(b record.Batch) error {
		batches++
		n, err := s.loadBatch(b, skippedLogMax-skipped)
		skipped += n
		return err
	})
	if errors.Is(err, context.Canceled) {
		return
	}
	log := s.coordinator.config.Logger
	if err != nil {
		// Half a partition would hand out old offsets: rather none, until the
		// next leadership.
		log.Error("the groups of a partition cannot be loaded", "partition", s.partition, "epoch", s.epoch, "err", err)
		s.coordinator.loadFailed(s)
		return
	}
	s.mu.Lock()
	if s.state != shardLoading {
		s.mu.Unlock()
		return
	}
	s.state = shardActive
	if skipped > 0 {
		log.Error("records of groups were passed over: their groups may lack members, or go on from older offsets",
			"partition", s.partition, "epoch", s.epoch, "records", skipped)
	}
	if batches > 0 {
		log.Info("groups loaded", "partition", s.partition, "epoch", s.epoch, "batches", batches, "groups", len(s.groups))
	}
	for _, g := range s.sorted() {
		if g.protocol != nil {
			g.protocol.loaded()
		}
		s.drop(g) // if tombstones have left nothing
	}
	s.expiry.fire = s.expire
	s.arm(&s.expiry, s.settings().ExpiryInterval)
	s.leave()
}

// skippedLogMax bounds how many records that are passed over a load logs one by
// one.
const skippedLogMax = 20

// loadBatch replays one batch. Records of a kind that is not known here are
// passed over, as Kafka does, and so are those that cannot be read, which it
// counts and of which it logs the first few. Kafka does not load the partition
// then, and nothing short of writing to the log by hand makes it: one record
// would take a fiftieth of all groups away for good. The batch's checksum is
// right, so it is one record that somebody wrote wrong; without it a group goes
// on from an older offset or has a member join again.
func (s *shard) loadBatch(b record.Batch, logMax int) (skipped int, err error) {
	if b.Attributes().Control() {
		return 0, nil
	}
	err = b.Each(func(r record.Record) bool {
		if err := s.replay(r.Key, r.Value); err != nil && !errors.Is(err, errUnknownRecord) {
			if skipped++; skipped <= logMax {
				s.coordinator.config.Logger.Error("a group's record is passed over", "partition", s.partition, "offset", r.Offset, "err", err)
			}
		}
		return true
	})
	return skipped, err
}

// resign ends the shard: all that waits is answered NOT_COORDINATOR.
func (s *shard) resign() {
	s.cancelLoad()
	s.mu.Lock()
	if s.alarm != nil {
		s.alarm.Stop()
		s.alarm = nil
	}
	active := s.state == shardActive
	s.state = shardClosed
	if active {
		lost := append(s.inflight, s.pending...)
		s.inflight, s.pending = nil, nil
		for _, w := range lost {
			if w.then != nil {
				w.then(kerr.NotCoordinator)
			}
		}
		for _, g := range s.sorted() {
			waiting := g.waiting
			g.waiting = nil
			g.resigned = true
			for _, next := range waiting {
				next()
			}
			if g.protocol != nil {
				g.protocol.resign()
			}
		}
	}
	s.leave()
}
