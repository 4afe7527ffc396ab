package replication

import (
	"slices"
	"sync/atomic"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
)

// createChunk is how many directories one piece of work on the executor makes.
const createChunk = 32

// job is what one image asks of the disk, in this order.
type job struct {
	removes []*Partition
	changes []change
	creates []*Partition
}

// change is a partition and the state it is to take on.
type change struct {
	p    *Partition
	part *meta.Partition
	cfg  *TopicConfig
}

func (j *job) empty() bool { return len(j.removes) == 0 && len(j.changes) == 0 && len(j.creates) == 0 }

// Apply takes a new image on; it fits controller.Subscribe. An image that is
// not newer than the one at hand is passed over. It does not wait for disks.
func (m *Manager) Apply(_, next *meta.Image) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped || next.Revision < m.image.Revision {
		return
	}
	if !m.started {
		m.image = next // Start will begin from it
		return
	}
	j := m.advance(next)
	if !j.empty() {
		m.jobs = append(m.jobs, j)
		m.kick()
	}
}

// advance moves the index from m.image to next and returns what is left to do
// on disk. m.mu is held.
func (m *Manager) advance(next *meta.Image) *job {
	j := &job{}
	broker := m.cfg.Broker(next)
	old := m.index.Load()
	fresh := newIndex(len(next.Names))
	for _, name := range next.Names {
		t := next.Topics[name]
		have := old.byName[name]
		if have != nil && have.ID == t.ID && m.image.Topics[name] == t && broker == m.broker {
			fresh.put(have)
			continue
		}
		fresh.put(m.advanceTopic(j, have, t, broker))
	}
	for name, have := range old.byName {
		if t := next.Topics[name]; t == nil || t.ID != have.ID {
			for _, p := range have.Partitions {
				if p != nil {
					j.removes = append(j.removes, p)
				}
			}
		}
	}
	// The map's order must not decide the order of the work.
	slices.SortFunc(j.removes, comparePartitions)
	m.image, m.broker = next, broker
	m.index.Store(fresh)
	return j
}

func (m *Manager) advanceTopic(j *job, have *LocalTopic, t *meta.Topic, broker *config.Broker) *LocalTopic {
	if have != nil && have.ID != t.ID {
		have = nil
	}
	lt := &LocalTopic{Name: t.Name, ID: t.ID, Partitions: make([]*Partition, len(t.Partitions)), Config: m.topicConfig(have, t, broker)}
	for i := range t.Partitions {
		part := &t.Partitions[i]
		p := have.Partition(int32(i))
		local := slices.Contains(part.Replicas, m.cfg.NodeID)
		switch {
		case p == nil && local:
			p = newPartition(topicPartition(t.Name, i), t.ID, m.cfg.NodeID, &m.wakers, m.cfg.Executor)
			p.prepare(part, lt.Config)
			j.creates = append(j.creates, p)
		case p != nil && !local:
			j.removes = append(j.removes, p)
			p = nil
		case p != nil:
			j.changes = append(j.changes, change{p, part, lt.Config})
		}
		lt.Partitions[i] = p
	}
	return lt
}

// topicConfig derives a topic's config. The controller lets no bad one into
// the store; if one is there all the same (written by a newer version), the
// topic keeps what it had, or the defaults, and the log says so.
func (m *Manager) topicConfig(have *LocalTopic, t *meta.Topic, broker *config.Broker) *TopicConfig {
	cfg, err := ParseTopicConfig(t.Configs, broker)
	if err == nil {
		return cfg
	}
	m.cfg.Logger.Error("topic has configs that this broker cannot use", "topic", t.Name, "err", err)
	if have != nil {
		return have.Config
	}
	return NewTopicConfig(&broker.TopicDefaults)
}

// kick starts the next job unless one is at work. m.mu is held.
func (m *Manager) kick() {
	if m.running || len(m.jobs) == 0 {
		return
	}
	j := m.jobs[0]
	m.jobs = m.jobs[1:]
	m.running = true
	// Not under the lock: an executor may run the job in place.
	m.mu.Unlock()
	m.cfg.Executor.Submit(func() { m.run(j) })
	m.mu.Lock()
}

// run works a job off. Directories are made in parallel; the last piece ends
// the job.
func (m *Manager) run(j *job) {
	for _, p := range j.removes {
		p.remove()
		m.mu.Lock()
		m.gone.Add(p.Traffic())
		m.mu.Unlock()
		if err := m.cfg.Storage.Delete(p.tp); err != nil {
			m.cfg.Logger.Error("partition directory not deleted", "partition", p.tp.String(), "err", err)
		}
	}
	for _, c := range j.changes {
		c.p.change(c.part, c.cfg)
	}
	if len(j.creates) == 0 {
		m.ended()
		return
	}
	var left atomic.Int64
	left.Store(int64(len(j.creates)))
	for chunk := range slices.Chunk(j.creates, createChunk) {
		m.cfg.Executor.Submit(func() {
			for _, p := range chunk {
				m.create(p)
			}
			if left.Add(-int64(len(chunk))) == 0 {
				m.ended()
			} else {
				m.notify()
			}
		})
	}
}

func (m *Manager) ended() {
	m.mu.Lock()
	m.running = false
	if !m.stopped {
		m.kick()
	}
	m.mu.Unlock()
	m.notify()
}
