// Package assignor computes the target assignments of groups of the consumer
// protocol (KIP-848): which member is to own which partition. The functions are
// pure: the same members with the same subscriptions and the same assignment so
// far give the same result.
//
// Their model is org.apache.kafka.coordinator.group.assignor. They promise what
// it promises: every partition of a subscribed topic goes to one of the topic's
// subscribers, and to one only.
package assignor

import (
	"slices"

	"github.com/posthouse/posthouse/storage/record"
)

// Assignment is the partitions of one member: topics ascending by id, each at
// most once and with at least one partition, partitions ascending. It is never
// changed once it is made.
type Assignment []TopicPartitions

// TopicPartitions is some partitions of a topic.
type TopicPartitions struct {
	Topic      record.TopicID
	Partitions []int32
}

// Member is what an assignor knows of a member.
type Member struct {
	ID         string
	InstanceID string // of a static member; empty: none
	// Topics are the subscribed topics that exist, ascending by id.
	Topics []record.TopicID
	// Assigned is the target assignment so far.
	Assigned Assignment
}

// Spec is what is to be assigned.
type Spec struct {
	// Members are in ascending order of their ids.
	Members []Member
	// Partitions is the number of partitions of a topic that somebody subscribes to.
	Partitions func(record.TopicID) int
}

// Func is an assignor: it returns the new assignments in the order of
// spec.Members.
type Func func(spec Spec) []Assignment

// The names of the assignors, as group.consumer.assignors and
// ConsumerGroupHeartbeat have them.
const (
	NameUniform = "uniform"
	NameRange   = "range"
)

// ByName returns an assignor, nil if there is none of this name.
func ByName(name string) Func {
	switch name {
	case NameUniform:
		return Uniform
	case NameRange:
		return Range
	}
	return nil
}

// CompareTopics orders topic ids bytewise.
func CompareTopics(a, b record.TopicID) int { return slices.Compare(a[:], b[:]) }

// Equal says whether two assignments are the same.
func Equal(a, b Assignment) bool {
	return slices.EqualFunc(a, b, func(x, y TopicPartitions) bool {
		return x.Topic == y.Topic && slices.Equal(x.Partitions, y.Partitions)
	})
}

// Partitions is the partitions of one topic.
func (a Assignment) Partitions(topic record.TopicID) []int32 {
	i, ok := slices.BinarySearchFunc(a, topic, func(t TopicPartitions, id record.TopicID) int {
		return CompareTopics(t.Topic, id)
	})
	if !ok {
		return nil
	}
	return a[i].Partitions
}

// nobody owns a partition that is not assigned.
const nobody int32 = -1

// table is an assignment under construction: the owner of each partition. Topics
// and members are numbers here, in ascending order of their ids.
type table struct {
	spec   Spec
	topics []record.TopicID
	index  map[record.TopicID]int
	// owners is the index of the owning member, by topic and partition.
	owners [][]int32
	// subscribers are the subscribed members by topic, ascending. Where all
	// members have the same topics they share one slice.
	subscribers [][]int32
	// homogeneous says that all members subscribe to the same topics.
	homogeneous bool
	// partitions is how many there are in all.
	partitions int
}

func newTable(spec Spec) *table {
	t := &table{spec: spec, homogeneous: true}
	first := spec.Members[0].Topics
	for i := range spec.Members {
		if !slices.Equal(spec.Members[i].Topics, first) {
			t.homogeneous = false
			break
		}
	}
	t.topics = first
	if !t.homogeneous {
		t.topics = union(spec.Members)
	}
	t.index = make(map[record.TopicID]int, len(t.topics))
	t.owners = make([][]int32, len(t.topics))
	for i, id := range t.topics {
		t.index[id] = i
		t.owners[i] = slices.Repeat([]int32{nobody}, spec.Partitions(id))
		t.partitions += len(t.owners[i])
	}
	t.subscribe()
	return t
}

// union is the topics of all members, ascending.
func union(members []Member) []record.TopicID {
	seen := make(map[record.TopicID]bool)
	var all []record.TopicID
	for i := range members {
		for _, id := range members[i].Topics {
			if !seen[id] {
				seen[id] = true
				all = append(all, id)
			}
		}
	}
	slices.SortFunc(all, CompareTopics)
	return all
}

// subscribe fills in who subscribes to what.
func (t *table) subscribe() {
	t.subscribers = make([][]int32, len(t.topics))
	if t.homogeneous {
		all := make([]int32, len(t.spec.Members))
		for m := range all {
			all[m] = int32(m)
		}
		for i := range t.subscribers {
			t.subscribers[i] = all
		}
		return
	}
	for m := range t.spec.Members {
		for _, id := range t.spec.Members[m].Topics {
			i := t.index[id]
			t.subscribers[i] = append(t.subscribers[i], int32(m))
		}
	}
}

// keep gives the members what they have been assigned and still subscribe to,
// and returns how many partitions that is, by member.
func (t *table) keep() []int {
	loads := make([]int, len(t.spec.Members))
	for m := range t.spec.Members {
		member := &t.spec.Members[m]
		for _, a := range member.Assigned {
			if _, subscribed := slices.BinarySearchFunc(member.Topics, a.Topic, CompareTopics); !subscribed {
				continue
			}
			owners := t.owners[t.index[a.Topic]]
			for _, p := range a.Partitions {
				if p >= 0 && int(p) < len(owners) && owners[p] == nobody {
					owners[p] = int32(m)
					loads[m]++
				}
			}
		}
	}
	return loads
}

// assignments is what each member owns.
func (t *table) assignments() []Assignment {
	out := make([]Assignment, len(t.spec.Members))
	for i, owners := range t.owners {
		for p, m := range owners {
			if m == nobody {
				continue
			}
			a := out[m]
			if len(a) == 0 || a[len(a)-1].Topic != t.topics[i] {
				a = append(a, TopicPartitions{Topic: t.topics[i]})
			}
			last := &a[len(a)-1]
			last.Partitions = append(last.Partitions, int32(p))
			out[m] = a
		}
	}
	return out
}
