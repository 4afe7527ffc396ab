package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// ErrStopped answers calls on a manager that is shutting down.
var ErrStopped = errors.New("replication: manager is stopped")

// Epochs is what the manager asks of the controller while it starts, so that
// clients see that logs are not as they were. The first two return the image
// that holds the new epochs.
type Epochs interface {
	// BumpLeaderEpochs gives each partition its next leader epoch.
	BumpLeaderEpochs(ctx context.Context, tps []record.TopicPartition) (*meta.Image, error)
	// RaiseLeaderEpochs gives each partition at least the epoch named.
	RaiseLeaderEpochs(ctx context.Context, floors map[record.TopicPartition]record.LeaderEpoch) (*meta.Image, error)
	// ReserveProducerIDs keeps ids up to highest from being given out, and ends
	// an adoption.
	ReserveProducerIDs(ctx context.Context, highest record.ProducerID) error
}

// ManagerConfig is what a Manager works with. All fields but
// CheckpointIntervalMs are required.
type ManagerConfig struct {
	Storage  *storage.Manager
	NodeID   int32
	Executor storage.Executor
	Clock    storage.Clock
	Logger   *slog.Logger
	// Broker gives the broker's configs under an image: its static ones with
	// the image's dynamic ones on top. It must return the same pointer while
	// nothing changes.
	Broker func(*meta.Image) *config.Broker
	Epochs Epochs
	// Listed, if not nil, is called by Start when the index holds the partitions
	// of an image, whose logs have yet to be opened.
	Listed func(*meta.Image)
	// CheckpointIntervalMs is the time between two checkpoints, default 5,000
	// (replica.high.watermark.checkpoint.interval.ms).
	CheckpointIntervalMs int64
}

// Manager keeps this node's partitions in step with the cluster's image
// (Kafka's ReplicaManager).
//
// The index changes at once when an image is applied; the work that follows
// (directories made and removed, leaderships and configs installed) is one job
// for each image, run in order on the executor. Until its directory exists a
// new partition is in the index but answers NOT_LEADER_OR_FOLLOWER, which
// clients retry. Every job may be cut short by a crash: the next Start compares
// directories with the image and does what is missing.
type Manager struct {
	cfg    ManagerConfig
	index  atomic.Pointer[index]
	wakers wakers

	mu        sync.Mutex // guards what follows; never held across I/O
	image     *meta.Image
	broker    *config.Broker // under image
	starting  bool           // Start is at work
	started   bool
	stopped   bool
	jobs      []*job
	running   bool
	upkeeping bool          // a Tick's work is at the executor; one at a time
	changed   chan struct{} // closed and replaced when replicas became ready or failed, or jobs ended
	recovered []record.TopicPartition
	offline   map[*Partition]*retry // replicas to be tried again
	gone      Traffic               // of replicas that were removed

	checkpointed  atomic.Uint64 // fingerprint of what the checkpoints hold
	checkpointErr string        // why the last one failed; upkeep's own
	nextTickMs    atomic.Int64
}

// NewManager makes a manager with an empty index.
func NewManager(cfg ManagerConfig) *Manager {
	if cfg.CheckpointIntervalMs <= 0 {
		cfg.CheckpointIntervalMs = 5000
	}
	m := &Manager{cfg: cfg, image: meta.EmptyImage(), changed: make(chan struct{}), offline: map[*Partition]*retry{}}
	m.index.Store(newIndex(0))
	return m
}

// notify wakes those who wait for replicas.
func (m *Manager) notify() {
	m.mu.Lock()
	close(m.changed)
	m.changed = make(chan struct{})
	m.mu.Unlock()
}

// await blocks until done says so, which is asked again after each notify.
func (m *Manager) await(ctx context.Context, done func() (bool, error)) error {
	for {
		m.mu.Lock()
		changed := m.changed
		m.mu.Unlock()
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WaitReady waits until no replica of the topic is being opened any more. A
// topic that is not here has none. It returns why a replica failed.
func (m *Manager) WaitReady(ctx context.Context, topic string) error {
	return m.await(ctx, func() (bool, error) {
		t := m.index.Load().byName[topic]
		if t == nil {
			return true, nil
		}
		for _, p := range t.Partitions {
			if p == nil {
				continue
			}
			switch v := p.view.Load(); v.state {
			case loading:
				return false, nil
			case failed:
				return true, v.err
			}
		}
		return true, nil
	})
}

// Settle waits until everything applied so far has taken effect.
func (m *Manager) Settle(ctx context.Context) error {
	return m.await(ctx, func() (bool, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.stopped || (m.started && !m.running && len(m.jobs) == 0), nil
	})
}

// DeleteRecords moves the start of a partition that this node leads; see
// Partition.DeleteRecords. UNKNOWN_TOPIC_OR_PARTITION when it has no replica
// here. Worker context.
func (m *Manager) DeleteRecords(_ context.Context, tp record.TopicPartition, offset record.Offset) (record.Offset, error) {
	p := m.Get(tp)
	if p == nil {
		return -1, kerr.UnknownTopicOrPartition
	}
	return p.DeleteRecords(offset)
}

// Producers lists the producers that a partition which this node leads
// remembers. Worker context.
func (m *Manager) Producers(tp record.TopicPartition) ([]meta.ProducerState, error) {
	p := m.Get(tp)
	if p == nil {
		return nil, kerr.UnknownTopicOrPartition
	}
	v := p.view.Load()
	if err := v.checkLeader(record.NoLeaderEpoch); err != nil {
		return nil, err
	}
	known := v.log.Producers()
	out := make([]meta.ProducerState, len(known))
	for i, q := range known {
		out[i] = meta.ProducerState{
			ID: q.ProducerID, Epoch: q.Epoch, LastSequence: q.LastSequence, LastTimestamp: q.LastTimestamp,
			CoordinatorEpoch: q.CoordinatorEpoch, TxnFirst: q.TxnFirstOffset,
		}
	}
	return out, nil
}

// Recovered lists the partitions whose logs went through recovery because the
// last stop was unclean, sorted.
func (m *Manager) Recovered() []record.TopicPartition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.recovered)
}

// Tick does what is due: the checkpoints, and storage's own upkeep. Call it
// about once a second; the work runs on the executor.
func (m *Manager) Tick() {
	now := int64(m.cfg.Clock.Now())
	next := m.nextTickMs.Load()
	if now < next || !m.nextTickMs.CompareAndSwap(next, now+m.cfg.CheckpointIntervalMs) {
		return
	}
	m.mu.Lock()
	due := m.started && !m.stopped && !m.upkeeping
	m.upkeeping = m.upkeeping || due
	m.mu.Unlock()
	if !due {
		return // not yet, not any more, or the last one is still at it
	}
	m.cfg.Executor.Submit(func() {
		m.upkeep()
		m.mu.Lock()
		m.upkeeping = false
		m.mu.Unlock()
		m.notify()
	})
}

// upkeep is one Tick's work. A node on which nothing moves writes nothing, so
// that an idle disk may sleep.
func (m *Manager) upkeep() {
	m.cfg.Storage.Tick()
	m.retryOffline()
	moved := m.fingerprint()
	if moved == m.checkpointed.Load() {
		return
	}
	if err := m.cfg.Storage.Checkpoint(); err != nil {
		// A full disk says so each time: once in the log is enough.
		if text := err.Error(); text != m.checkpointErr {
			m.checkpointErr = text
			m.cfg.Logger.Error("checkpoint failed, it is tried again", "err", err)
		}
		return
	}
	if m.checkpointErr != "" {
		m.checkpointErr = ""
		m.cfg.Logger.Info("checkpoint is written again")
	}
	// A flush inside the checkpoint moves recovery points: one more follows.
	m.checkpointed.Store(moved)
}

// fingerprint changes, all but surely, with every offset that the checkpoints
// hold.
func (m *Manager) fingerprint() uint64 {
	sum := uint64(1)
	for _, log := range m.cfg.Storage.Logs() {
		for _, o := range [...]record.Offset{log.StartOffset(), log.RecoveryPoint(), log.HighWatermark(), log.EndOffset()} {
			sum = sum*0x9e3779b97f4a7c15 + uint64(o) + 1
		}
	}
	return sum
}

// Close stops all partitions, waits for what is at work, a Start too (end its
// context first), flushes and closes the logs. The caller has stopped what
// appends and reads. A second call returns ErrStopped.
func (m *Manager) Close(ctx context.Context, progress func(done, total int)) error {
	m.mu.Lock()
	if m.stopped {
		m.mu.Unlock()
		return ErrStopped
	}
	m.stopped = true
	m.jobs = nil
	m.mu.Unlock()
	err := m.await(ctx, func() (bool, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !m.running && !m.starting && !m.upkeeping, nil
	})
	if err != nil {
		return fmt.Errorf("replication: waiting for directory changes: %w", err)
	}
	for _, t := range m.index.Load().byName {
		for _, p := range t.Partitions {
			if p != nil {
				p.stop()
			}
		}
	}
	return m.cfg.Storage.Close(progress)
}
