package group

import (
	"cmp"
	"slices"
	"sort"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Member epochs with a meaning of their own.
const (
	epochJoin        = 0
	epochLeave       = -1
	epochLeaveStatic = -2 // a static member that will be back
)

// consumerMemberState is how far a member is on its way to the target assignment
// (MemberState); records have the number.
type consumerMemberState int8

const (
	memberStable     consumerMemberState = 0 // has what it is to have, at its epoch
	memberUnrevoked  consumerMemberState = 1 // is to give partitions up, and has not said that it did
	memberUnreleased consumerMemberState = 2 // waits for partitions that others have yet to give up
)

type topicID = record.TopicID

// joinProtocol is an assignor that a classic member knows, and what it says for it.
type joinProtocol = kmsg.JoinGroupRequestProtocol

// classicSide is what is known of a member that uses the classic protocol.
type classicSide struct {
	sessionTimeoutMs int32
	protocols        []joinProtocol // in order of preference, at least one
}

// memberState is a member as the log has it. It is a value: slices and what
// pointers point to are never changed, so a copy can be changed freely.
type memberState struct {
	id                 string
	instance, rack     *string
	clientID, host     string
	topics             []string // subscribed by name: sorted, each once
	regex              string   // empty: none
	rebalanceTimeoutMs int32
	assignor           *string      // that the member prefers
	classic            *classicSide // nil: the member uses the consumer protocol

	epoch, previousEpoch int32
	state                consumerMemberState
	assigned             owned // what the member may consume
	revoking             owned // what it is to give up, and may still consume
}

func newMemberState(id string) memberState {
	return memberState{id: id, previousEpoch: -1, rebalanceTimeoutMs: -1}
}

// sameSide says whether two states say the same of the member itself (kind 5).
func (m *memberState) sameSide(o *memberState) bool {
	return samePointer(m.instance, o.instance) && samePointer(m.rack, o.rack) &&
		m.clientID == o.clientID && m.host == o.host && slices.Equal(m.topics, o.topics) && m.regex == o.regex &&
		m.rebalanceTimeoutMs == o.rebalanceTimeoutMs && samePointer(m.assignor, o.assignor) && m.classic.same(o.classic)
}

func (c *classicSide) same(o *classicSide) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.sessionTimeoutMs == o.sessionTimeoutMs && slices.EqualFunc(c.protocols, o.protocols, func(a, b joinProtocol) bool {
		return a.Name == b.Name && string(a.Metadata) == string(b.Metadata)
	})
}

// sameAssignment says whether two states agree on epoch and partitions (kind 8).
func (m *memberState) sameAssignment(o *memberState) bool {
	return m.epoch == o.epoch && m.previousEpoch == o.previousEpoch && m.state == o.state &&
		m.assigned.equal(o.assigned) && m.revoking.equal(o.revoking)
}

// reconciled says that the member has arrived at a target assignment.
func (m *memberState) reconciled(targetEpoch int32) bool {
	return m.state == memberStable && m.epoch == targetEpoch
}

// move makes the member's epoch the given one.
func (m *memberState) move(epoch int32) { m.previousEpoch, m.epoch = m.epoch, epoch }

func samePointer(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func valueOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ownedTopic is partitions of a topic, each with the epoch at which the member
// got it: it may commit offsets for it from then on (KIP-1251).
type ownedTopic struct {
	topic      record.TopicID
	partitions []int32 // ascending
	epochs     []int32 // as many
}

// owned is partitions of a member: topics ascending, none without partitions.
type owned []ownedTopic

func (o owned) equal(p owned) bool {
	return slices.EqualFunc(o, p, func(a, b ownedTopic) bool {
		return a.topic == b.topic && slices.Equal(a.partitions, b.partitions) && slices.Equal(a.epochs, b.epochs)
	})
}

// of is the partitions of one topic; zero if there are none.
func (o owned) of(topic record.TopicID) ownedTopic {
	i, ok := slices.BinarySearchFunc(o, topic, func(t ownedTopic, id record.TopicID) int {
		return assignor.CompareTopics(t.topic, id)
	})
	if !ok {
		return ownedTopic{topic: topic}
	}
	return o[i]
}

// epoch is the epoch at which a partition was assigned.
func (t ownedTopic) epoch(partition int32) (int32, bool) {
	i, ok := slices.BinarySearch(t.partitions, partition)
	if !ok {
		return 0, false
	}
	return t.epochs[i], true
}

func (t *ownedTopic) add(partition, epoch int32) {
	t.partitions = append(t.partitions, partition)
	t.epochs = append(t.epochs, epoch)
}

// add appends a topic, if it has partitions; topics come in order.
func (o *owned) add(t ownedTopic) {
	if len(t.partitions) > 0 {
		*o = append(*o, t)
	}
}

// assignment is the partitions without their epochs.
func (o owned) assignment() assignor.Assignment {
	a := make(assignor.Assignment, len(o))
	for i := range o {
		a[i] = assignor.TopicPartitions{Topic: o[i].topic, Partitions: o[i].partitions}
	}
	return a
}

// at gives all partitions of an assignment the same epoch.
func ownedAt(a assignor.Assignment, epoch int32) owned {
	o := make(owned, 0, len(a))
	for _, t := range a {
		o.add(ownedTopic{topic: t.Topic, partitions: t.Partitions, epochs: slices.Repeat([]int32{epoch}, len(t.Partitions))})
	}
	return o
}

// merge is all partitions of both.
func (o owned) merge(p owned) owned {
	out := make(owned, 0, len(o)+len(p))
	for len(o) > 0 || len(p) > 0 {
		switch {
		case len(p) == 0 || len(o) > 0 && assignor.CompareTopics(o[0].topic, p[0].topic) < 0:
			out, o = append(out, o[0]), o[1:]
		case len(o) == 0 || o[0].topic != p[0].topic:
			out, p = append(out, p[0]), p[1:]
		default:
			t := ownedTopic{topic: o[0].topic, partitions: slices.Clone(o[0].partitions), epochs: slices.Clone(o[0].epochs)}
			t.partitions = append(t.partitions, p[0].partitions...)
			t.epochs = append(t.epochs, p[0].epochs...)
			sort.Sort(byPartition(t))
			out, o, p = append(out, t), o[1:], p[1:]
		}
	}
	return out
}

// sortedOwned brings what a record says into order; it is its own to change.
func sortedOwned(o owned) owned {
	o = slices.DeleteFunc(o, func(t ownedTopic) bool { return len(t.partitions) == 0 })
	slices.SortFunc(o, func(a, b ownedTopic) int { return assignor.CompareTopics(a.topic, b.topic) })
	for i := range o {
		sort.Sort(byPartition(o[i]))
	}
	return o
}

// sortedAssignment does so for a target assignment.
func sortedAssignment(a assignor.Assignment) assignor.Assignment {
	a = slices.DeleteFunc(a, func(t assignor.TopicPartitions) bool { return len(t.Partitions) == 0 })
	slices.SortFunc(a, func(x, y assignor.TopicPartitions) int { return assignor.CompareTopics(x.Topic, y.Topic) })
	for i := range a {
		slices.Sort(a[i].Partitions)
	}
	return a
}

// mergedAssignment does so where topics and partitions may come more than once.
func mergedAssignment(a assignor.Assignment) assignor.Assignment {
	a = sortedAssignment(a)
	merged := a[:0]
	for _, t := range a {
		if n := len(merged); n > 0 && merged[n-1].Topic == t.Topic {
			merged[n-1].Partitions = append(merged[n-1].Partitions, t.Partitions...)
			slices.Sort(merged[n-1].Partitions)
			continue
		}
		merged = append(merged, t)
	}
	for i := range merged {
		merged[i].Partitions = slices.Compact(merged[i].Partitions)
	}
	return merged
}

type byPartition ownedTopic

func (t byPartition) Len() int           { return len(t.partitions) }
func (t byPartition) Less(i, j int) bool { return t.partitions[i] < t.partitions[j] }
func (t byPartition) Swap(i, j int) {
	t.partitions[i], t.partitions[j] = t.partitions[j], t.partitions[i]
	t.epochs[i], t.epochs[j] = t.epochs[j], t.epochs[i]
}

// claim is the partitions that a request says its member owns: nil if it does
// not say.
type claim []kmsg.ConsumerGroupHeartbeatRequestTopic

// within says that the member has said what it owns, and that all of it is in o.
func (c claim) within(o owned) bool {
	for i := range c {
		t := o.of(c[i].TopicID)
		for _, p := range c[i].Partitions {
			if _, ok := t.epoch(p); !ok {
				return false
			}
		}
	}
	return c != nil
}

// holds says that the member may still own some of o.
func (c claim) holds(o owned) bool {
	for i := range c {
		t := o.of(c[i].TopicID)
		for _, p := range c[i].Partitions {
			if _, ok := t.epoch(p); ok {
				return true
			}
		}
	}
	return c == nil
}

// subscriptionOf is names sorted, each once, and copied.
func subscriptionOf(names []string) []string {
	names = slices.Clone(names)
	slices.SortFunc(names, cmp.Compare)
	return slices.Compact(names)
}
