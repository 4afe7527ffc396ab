package replication

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
)

// sweepIntervalMs is how often, while logs load, those that are done are put
// into service.
const sweepIntervalMs = 50

// Start reconciles the directories with the image and opens the logs. What the
// image does not know is left aside as a stray, by storage; what the image
// remembers as deleted is deleted; what is missing is made. Partitions answer
// as soon as their own log is open: Start may run beside the network.
//
// Partitions in directories that were not stopped cleanly get a new leader
// epoch first, so that a client that saw records which are gone now notices
// (KIP-320). progress, which may be nil, hears of loaded logs.
func (m *Manager) Start(ctx context.Context, image *meta.Image, progress func(done, total int)) error {
	m.mu.Lock()
	stopped := m.stopped
	m.starting = !stopped
	m.mu.Unlock()
	if stopped {
		return ErrStopped
	}
	defer func() {
		m.mu.Lock()
		m.starting = false
		m.mu.Unlock()
		m.notify()
	}()
	return m.load(ctx, image, progress)
}

// load is Start proper.
func (m *Manager) load(ctx context.Context, image *meta.Image, progress func(done, total int)) error {
	found, err := m.cfg.Storage.Scan()
	if err != nil {
		return fmt.Errorf("replication: scanning log directories: %w", err)
	}
	recovered := m.unclean(image, found)
	if len(recovered) > 0 {
		if image, err = m.cfg.Epochs.BumpLeaderEpochs(ctx, recovered); err != nil {
			return fmt.Errorf("replication: new leader epochs after an unclean stop: %w", err)
		}
	}
	m.mu.Lock()
	if m.image.Revision > image.Revision {
		image = m.image // applied before Start
	}
	m.image, m.recovered = meta.EmptyImage(), recovered
	opening := m.advance(image).creates
	m.mu.Unlock()
	if m.cfg.Listed != nil {
		m.cfg.Listed(image)
	}

	l := &loader{m: m, image: image, waiting: opening, progress: progress, behind: map[record.TopicPartition]record.LeaderEpoch{}}
	if err := m.cfg.Storage.Load(ctx, l.want, l.loaded); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("replication: loading logs: %w", err)
		}
		// One bad log keeps no other from serving: making its partition ready
		// will fail again, and take it alone offline.
		l.unread = true
		m.cfg.Logger.Error("some logs could not be loaded", "err", err)
	}
	return l.finish(ctx)
}

// unclean lists the partitions of the image whose directories need recovery.
func (m *Manager) unclean(image *meta.Image, found []storage.FoundLog) []record.TopicPartition {
	var out []record.TopicPartition
	for _, f := range found {
		if t := image.Topics[f.TP.Topic]; t == nil || t.ID != f.TopicID || image.Partition(f.TP) == nil {
			continue
		}
		if m.cfg.Storage.Unclean(filepath.Dir(f.Dir)) {
			out = append(out, f.TP)
		}
	}
	slices.SortFunc(out, compareTPs)
	return out
}

// loader is one Start at work.
type loader struct {
	m        *Manager
	image    *meta.Image
	progress func(done, total int)

	mu        sync.Mutex
	waiting   []*Partition // whose log is not open
	condemned []record.TopicPartition
	// behind are logs that know of an epoch above the image's: written under
	// another store, or before this one lost its file.
	behind      map[record.TopicPartition]record.LeaderEpoch
	nextSweepMs int64
	unread      bool // some log could not be loaded
}

// want says whether a found directory belongs to a partition of this node.
func (l *loader) want(f storage.FoundLog) (storage.LogConfig, bool) {
	if p := l.m.Get(f.TP); p != nil && p.id == f.TopicID {
		return p.Config().Log, true
	}
	if _, deleted := l.image.Deleted[f.TopicID]; deleted && !f.TopicID.IsZero() {
		// Its topic was deleted and the node stopped before the directory went:
		// open it only to delete it.
		l.mu.Lock()
		l.condemned = append(l.condemned, f.TP)
		l.mu.Unlock()
		return storage.LogConfig{}, true
	}
	return storage.LogConfig{}, false
}

// loaded hears of progress, maybe from several goroutines.
func (l *loader) loaded(done, total int) {
	if l.progress != nil {
		l.progress(done, total)
	}
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if now := int64(l.m.cfg.Clock.Now()); now >= l.nextSweepMs {
		l.nextSweepMs = now + sweepIntervalMs
		l.sweep()
	}
}

// sweep puts loaded logs into service. l.mu is held.
func (l *loader) sweep() {
	opened := false
	l.waiting = slices.DeleteFunc(l.waiting, func(p *Partition) bool {
		log := l.m.cfg.Storage.Get(p.tp)
		if log == nil || log.TopicID() != p.id {
			return false
		}
		if epoch := log.LatestEpoch(); epoch > p.LeaderEpoch() {
			l.behind[p.tp] = epoch + 1
			return false
		}
		p.open(log)
		opened = true
		return true
	})
	if opened {
		l.m.notify()
	}
}

// finish deletes what is condemned, raises epochs that are behind, makes what
// is missing, and takes on what was applied meanwhile.
func (l *loader) finish(ctx context.Context) error {
	m := l.m
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.condemned, compareTPs)
	for _, tp := range l.condemned {
		m.cfg.Logger.Info("deleting the directory of a topic that was deleted before the last stop", "partition", tp.String())
		if err := m.cfg.Storage.Delete(tp); err != nil {
			// It harms nobody, and the next start tries again.
			m.cfg.Logger.Error("partition directory not deleted", "partition", tp.String(), "err", err)
		}
	}
	l.sweep()
	if err := l.raise(ctx); err != nil {
		return err
	}
	if l.image.Adopting() {
		if err := m.cfg.Epochs.ReserveProducerIDs(ctx, l.highestProducerID()); err != nil {
			return fmt.Errorf("replication: reserving the producer ids of adopted logs: %w", err)
		}
	}
	m.mu.Lock()
	m.started = true
	if len(l.waiting) > 0 {
		m.jobs = append(m.jobs, &job{creates: l.waiting})
	}
	if next := m.image; next.Revision > l.image.Revision {
		m.image = l.image
		if j := m.advance(next); !j.empty() {
			m.jobs = append(m.jobs, j)
		}
	}
	if !m.stopped {
		m.kick()
	}
	m.mu.Unlock()
	m.notify()
	return nil
}

// raise asks for leader epochs above all that the logs know of.
func (l *loader) raise(ctx context.Context) error {
	if len(l.behind) == 0 {
		return nil
	}
	image, err := l.m.cfg.Epochs.RaiseLeaderEpochs(ctx, l.behind)
	if err != nil {
		return fmt.Errorf("replication: raising leader epochs: %w", err)
	}
	for _, p := range l.waiting {
		t := image.TopicsByID[p.id]
		if t == nil || l.behind[p.tp] == 0 || int(p.tp.Partition) >= len(t.Partitions) {
			continue
		}
		p.change(&t.Partitions[p.tp.Partition], p.Config())
	}
	l.sweep()
	for _, p := range l.waiting {
		if epoch, ok := l.behind[p.tp]; ok {
			p.fail(&epochError{tp: p.tp, log: epoch - 1, cluster: p.LeaderEpoch()})
		}
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(p *Partition) bool { return p.view.Load().state == failed })
	return nil
}

// unreadProducerIDs is far beyond what a cluster gives out in its life, and
// leaves room for many times as much.
const unreadProducerIDs record.ProducerID = 1 << 40

// highestProducerID is the highest that a log may know; the ids in one that
// could not be read are anybody's guess.
func (l *loader) highestProducerID() record.ProducerID {
	highest := record.NoProducerID
	if l.unread {
		highest = unreadProducerIDs
	}
	for _, log := range l.m.cfg.Storage.Logs() {
		for _, producer := range log.Producers() {
			highest = max(highest, producer.ProducerID)
		}
	}
	return highest
}

func topicPartition(topic string, partition int) record.TopicPartition {
	return record.TopicPartition{Topic: topic, Partition: int32(partition)}
}

func compareTPs(a, b record.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

func comparePartitions(a, b *Partition) int { return compareTPs(a.tp, b.tp) }
