package replication

import (
	"github.com/posthouse/posthouse/storage/record"
)

// LocalTopic is a topic as this node's index knows it. Immutable.
type LocalTopic struct {
	Name string
	ID   record.TopicID
	// Partitions is indexed by partition; nil where this node has no replica.
	Partitions []*Partition
	Config     *TopicConfig
}

// index is what the hot path looks partitions up in. It is replaced whole.
type index struct {
	byName map[string]*LocalTopic
	byID   map[record.TopicID]*LocalTopic
}

func newIndex(size int) *index {
	return &index{byName: make(map[string]*LocalTopic, size), byID: make(map[record.TopicID]*LocalTopic, size)}
}

func (ix *index) put(t *LocalTopic) {
	ix.byName[t.Name], ix.byID[t.ID] = t, t
}

// Partition returns one partition, or nil.
func (t *LocalTopic) Partition(partition int32) *Partition {
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return nil
	}
	return t.Partitions[partition]
}

// Lookup finds a partition that has a replica here, or nil. It neither
// allocates nor locks.
func (m *Manager) Lookup(topic []byte, partition int32) *Partition {
	return m.index.Load().byName[string(topic)].Partition(partition)
}

// LookupID finds a partition by its topic's id, or nil.
func (m *Manager) LookupID(id record.TopicID, partition int32) *Partition {
	return m.index.Load().byID[id].Partition(partition)
}

// Topic finds a topic by name, or nil.
func (m *Manager) Topic(topic []byte) *LocalTopic { return m.index.Load().byName[string(topic)] }

// TopicByID finds a topic by id, or nil.
func (m *Manager) TopicByID(id record.TopicID) *LocalTopic { return m.index.Load().byID[id] }

// Get finds a partition by name, or nil.
func (m *Manager) Get(tp record.TopicPartition) *Partition {
	return m.index.Load().byName[tp.Topic].Partition(tp.Partition)
}
