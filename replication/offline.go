package replication

import (
	"errors"
	"fmt"
	"slices"

	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
)

// The time until a replica that is offline is tried again: at first, and at
// most. A disk that is full or slow to come back costs one attempt in a while.
const (
	retryMs    int64 = 5_000
	retryMsMax int64 = 5 * 60_000
)

// retry is when a replica is tried again.
type retry struct {
	atMs   int64
	waitMs int64 // before the attempt at atMs
	cause  string
}

// create makes a partition's directory, or opens the one that is there, and
// puts the partition into service. If that fails the partition is offline
// (KAFKA_STORAGE_ERROR), and Tick tries again: a full disk gets room. Damage
// does not go away by itself, so that it is left to a start with eyes on it.
func (m *Manager) create(p *Partition) {
	log, err := m.cfg.Storage.Create(p.tp, p.id, p.Config().Log)
	if err == nil && log.LatestEpoch() > p.LeaderEpoch() {
		err = &epochError{tp: p.tp, log: log.LatestEpoch(), cluster: p.LeaderEpoch()}
	}
	m.mu.Lock()
	before := m.offline[p]
	delete(m.offline, p)
	if err != nil && passing(err) {
		m.offline[p] = m.nextRetry(before, err)
	}
	m.mu.Unlock()
	switch {
	case err == nil:
		p.open(log)
		if before != nil {
			m.cfg.Logger.Info("partition is online again", "partition", p.tp.String())
		}
	case before == nil || before.cause != root(err):
		p.fail(err)
		m.cfg.Logger.Error("partition is offline", "partition", p.tp.String(), "err", err)
	}
}

// passing says that an error may be gone by the next attempt.
func passing(err error) bool {
	var corrupt *storage.CorruptionError
	var epoch *epochError
	return !errors.As(err, &corrupt) && !errors.As(err, &epoch)
}

// root is the text of the innermost error: those around it name a directory
// that is another one at each attempt.
func root(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

func (m *Manager) nextRetry(before *retry, err error) *retry {
	r := &retry{waitMs: retryMs, cause: root(err)}
	if before != nil {
		r.waitMs = min(2*before.waitMs, retryMsMax)
	}
	r.atMs = int64(m.cfg.Clock.Now()) + r.waitMs
	return r
}

// retryOffline makes a job of the replicas that are due, and forgets those that
// are not of this node any more.
func (m *Manager) retryOffline() {
	now := int64(m.cfg.Clock.Now())
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []*Partition
	for p, r := range m.offline {
		switch {
		case m.Get(p.tp) != p:
			delete(m.offline, p)
		case r.atMs <= now:
			r.atMs = now + r.waitMs // not twice while the job waits
			due = append(due, p)
		}
	}
	if len(due) == 0 || m.stopped {
		return
	}
	slices.SortFunc(due, comparePartitions)
	m.jobs = append(m.jobs, &job{creates: due})
	m.kick()
}

// epochError is a log that knows of a later leadership than the cluster does:
// appending to it would make epochs go backwards.
type epochError struct {
	tp           record.TopicPartition
	log, cluster record.LeaderEpoch
}

func (e *epochError) Error() string {
	return fmt.Sprintf("replication: log of %s has leader epoch %d, the cluster's is %d", e.tp, e.log, e.cluster)
}
