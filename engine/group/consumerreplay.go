package group

import (
	"fmt"
	"maps"
	"slices"

	"github.com/posthouse/posthouse/engine/group/assignor"
)

// replayConsumer applies a record of a consumer group, or its tombstone
// (GroupMetadataManager.replay). Tombstones of what is not there are passed over:
// a compacted log has them.
func (s *shard) replayConsumer(key, value []byte) error {
	kind, id, name, err := readConsumerKey(key)
	if err != nil {
		return err
	}
	if value == nil {
		if g := s.groups[id]; g != nil {
			if c, ok := g.protocol.(*consumerGroup); ok {
				c.bury(kind, name)
			}
		}
		return nil
	}
	if kind == keyConsumerPartitionMetadata {
		return nil // of Kafka before 4.1; the topics are looked at anew
	}
	g := s.create(id)
	c, ok := g.protocol.(*consumerGroup)
	if !ok {
		c = newConsumerGroup(g)
	}
	if err := c.apply(kind, name, value); err != nil {
		s.drop(g)
		return fmt.Errorf("group %q, record of kind %d: %w", id, kind, err)
	}
	if !ok {
		g.setProtocol(c)
	}
	return nil
}

// apply applies a record that is not a tombstone, all of it or, with an error,
// nothing.
func (c *consumerGroup) apply(kind uint16, name string, value []byte) error {
	r, err := consumerReader(value)
	if err != nil {
		return err
	}
	var epoch int32
	var number int64
	var target assignor.Assignment
	var regex *resolvedRegex
	member := c.stateOf(name)
	switch kind {
	case keyConsumerMetadata:
		epoch, number = readGroupEpoch(r)
	case keyConsumerTargetMetadata:
		epoch, number = readTargetEpoch(r)
	case keyConsumerTargetMember:
		target = readTarget(r)
	case keyConsumerMember:
		readMember(r, &member)
	case keyConsumerCurrentAssignment:
		readCurrent(r, &member)
	case keyConsumerRegularExpression:
		regex = readRegex(r)
	}
	if err := r.Complete(); err != nil {
		return err
	}
	switch kind {
	case keyConsumerMetadata:
		c.epoch, c.metadataHash = epoch, number
	case keyConsumerTargetMetadata:
		c.targetEpoch, c.targetMs = epoch, number
	case keyConsumerTargetMember:
		c.targets[name] = target
	case keyConsumerMember, keyConsumerCurrentAssignment:
		c.update(member)
		c.begin(c.members[name])
	case keyConsumerRegularExpression:
		c.regexes[name] = regex
	}
	return nil
}

// begin begins the session of a member that has just been made. Its step does so
// too, but hears nothing of a write that came through after it had timed out.
func (c *consumerGroup) begin(m *consumerMember) {
	s := c.group.shard
	if s.state != shardActive || m.session.armed() {
		return // loaded begins all
	}
	_, session, _ := c.config()
	if m.classic != nil {
		session = m.classic.sessionTimeout()
	}
	s.arm(&m.session, session)
}

// stateOf is the state of a member, a new one's if there is none.
func (c *consumerGroup) stateOf(id string) memberState {
	if m := c.members[id]; m != nil {
		return m.memberState
	}
	return newMemberState(id)
}

// bury applies a tombstone.
func (c *consumerGroup) bury(kind uint16, name string) {
	switch kind {
	case keyConsumerMetadata:
		c.group.setProtocol(nil)
	case keyConsumerTargetMetadata:
		c.targetEpoch, c.targetMs = -1, 0
	case keyConsumerTargetMember:
		delete(c.targets, name)
	case keyConsumerMember:
		if m := c.members[name]; m != nil {
			c.remove(m)
		}
	case keyConsumerCurrentAssignment:
		if m := c.members[name]; m != nil {
			next := m.memberState
			next.epoch, next.previousEpoch, next.assigned, next.revoking = epochLeave, epochLeave, nil, nil
			c.update(next)
		}
	case keyConsumerRegularExpression:
		delete(c.regexes, name)
	}
}

// tombstones implements protocol: all records of the group
// (ConsumerGroup.createGroupTombstoneRecords).
func (c *consumerGroup) tombstones(dst []kv) []kv {
	ids := slices.Sorted(maps.Keys(c.members))
	return c.tombstonesOf(dst, ids)
}

func (c *consumerGroup) tombstonesOf(dst []kv, ids []string) []kv {
	id := c.group.id
	for _, kind := range []uint16{keyConsumerCurrentAssignment, keyConsumerTargetMember} {
		for _, m := range ids {
			dst = append(dst, kv{key: consumerKey(kind, id, m)})
		}
	}
	dst = append(dst, kv{key: consumerKey(keyConsumerTargetMetadata, id)})
	for _, m := range ids {
		dst = append(dst, kv{key: consumerKey(keyConsumerMember, id, m)})
	}
	for _, regex := range slices.Sorted(maps.Keys(c.regexes)) {
		dst = append(dst, kv{key: consumerKey(keyConsumerRegularExpression, id, regex)})
	}
	return append(dst, kv{key: consumerKey(keyConsumerPartitionMetadata, id)}, kv{key: consumerKey(keyConsumerMetadata, id)})
}

// removal appends the tombstones of one member.
func (c *consumerGroup) removal(dst []kv, member string) []kv {
	for _, kind := range []uint16{keyConsumerCurrentAssignment, keyConsumerTargetMember, keyConsumerMember} {
		dst = append(dst, kv{key: consumerKey(kind, c.group.id, member)})
	}
	return dst
}

// all appends the records that make the group what it is.
func (c *consumerGroup) all(dst []kv) []kv {
	id := c.group.id
	members := c.sorted()
	for _, m := range members {
		dst = append(dst, c.memberRecord(&m.memberState))
	}
	dst = append(dst, kv{key: consumerKey(keyConsumerMetadata, id), value: groupEpochValue(c.epoch, c.metadataHash)})
	for _, m := range members {
		dst = append(dst, kv{key: consumerKey(keyConsumerTargetMember, id, m.id), value: targetValue(c.targets[m.id])})
	}
	dst = append(dst, kv{key: consumerKey(keyConsumerTargetMetadata, id), value: targetEpochValue(c.targetEpoch, c.targetMs)})
	for _, m := range members {
		dst = append(dst, c.currentRecord(&m.memberState))
	}
	return dst
}

func (c *consumerGroup) memberRecord(m *memberState) kv {
	return kv{key: consumerKey(keyConsumerMember, c.group.id, m.id), value: memberValue(m)}
}

func (c *consumerGroup) currentRecord(m *memberState) kv {
	return kv{key: consumerKey(keyConsumerCurrentAssignment, c.group.id, m.id), value: currentValue(m)}
}
