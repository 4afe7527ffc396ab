package group

import (
	"maps"
	"slices"

	"github.com/posthouse/posthouse/storage/record"
)

// offset is what was committed for one partition.
type offset struct {
	offset      int64
	leaderEpoch record.LeaderEpoch // record.NoLeaderEpoch: not given
	metadata    string
	commitMs    int64
	expireMs    int64          // -1: by the broker's retention
	topicID     record.TopicID // zero: the client named the topic by its name
}

// offsets are a group's committed offsets, by topic and partition.
type offsets struct{ topics map[string]map[int32]offset }

func (o *offsets) empty() bool { return len(o.topics) == 0 }

// get returns the offset of a partition.
func (o *offsets) get(topic string, partition int32) (offset, bool) {
	v, ok := o.topics[topic][partition]
	return v, ok
}

func (o *offsets) set(topic string, partition int32, v offset) {
	if o.topics == nil {
		o.topics = make(map[string]map[int32]offset, 1)
	}
	t := o.topics[topic]
	if t == nil {
		t = make(map[int32]offset, 1)
		o.topics[topic] = t
	}
	t[partition] = v
}

func (o *offsets) remove(topic string, partition int32) {
	t := o.topics[topic]
	delete(t, partition)
	if len(t) == 0 {
		delete(o.topics, topic)
	}
}

// each calls fn for every offset, in order of topic and partition.
func (o *offsets) each(fn func(topic string, partition int32, v *offset)) {
	for _, topic := range slices.Sorted(maps.Keys(o.topics)) {
		t := o.topics[topic]
		for _, p := range slices.Sorted(maps.Keys(t)) {
			v := t[p]
			fn(topic, p, &v)
		}
	}
}

// partitions are those of a topic with an offset, ascending.
func (o *offsets) partitions(topic string) []int32 {
	return slices.Sorted(maps.Keys(o.topics[topic]))
}
