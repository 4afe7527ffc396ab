package group

import (
	"fmt"
	"maps"
	"slices"
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
		g.setProtocol(c)
	}
	if err := c.apply(kind, name, value); err != nil {
		return fmt.Errorf("group %q, record of kind %d: %w", id, kind, err)
	}
	return nil
}

// apply applies a record that is not a tombstone.
func (c *consumerGroup) apply(kind uint16, name string, value []byte) error {
	r, err := consumerReader(value)
	if err != nil {
		return err
	}
	switch kind {
	case keyConsumerMetadata:
		c.epoch, c.metadataHash = readGroupEpoch(r)
	case keyConsumerTargetMetadata:
		c.targetEpoch, c.targetMs = readTargetEpoch(r)
	case keyConsumerTargetMember:
		c.targets[name] = readTarget(r)
	case keyConsumerMember:
		next := c.stateOf(name)
		readMember(r, &next)
		c.update(next)
	case keyConsumerCurrentAssignment:
		next := c.stateOf(name)
		readCurrent(r, &next)
		c.update(next)
	case keyConsumerRegularExpression:
		c.regexes[name] = readRegex(r)
	}
	if !r.Ok() {
		return r.Complete()
	}
	return nil
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
