package group

import (
	"slices"
	"time"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Live migration (KIP-848). A classic group whose members speak the consumer's
// embedded protocol becomes a consumer group when the first member of the consumer
// protocol joins; its classic members go on with JoinGroup, SyncGroup and
// Heartbeat (consumerclassic.go). When the last member of the consumer protocol
// leaves it becomes a classic group again. group.consumer.migration.policy says
// which of the two may happen; groups without members are converted always.

// The values of group.consumer.migration.policy.
const (
	migrateBoth = "bidirectional"
	migrateUp   = "upgrade"
	migrateDown = "downgrade"
)

// upgrade makes a consumer group of a classic one that has members: its last
// assignment is the target and what everybody has, its generation all epochs. What
// waits is told to join again (GroupMetadataManager.convertToConsumerGroup).
func (st *consumerStep) upgrade(p *classicGroup) *refusal {
	settings := st.g.shard.settings()
	policy := settings.ConsumerMigration
	no := func(reason string) *refusal {
		return refuse(kerr.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group because %s.", st.g.id, reason)
	}
	switch {
	case policy != migrateBoth && policy != migrateUp:
		return no("online upgrade is disabled")
	case p.protocolKind != consumerProtocolType:
		return no("the group does not use the consumer embedded protocol")
	case len(p.members) > settings.ConsumerMaxSize:
		return no("the group size exceeds the consumer group maximum size")
	}
	c := newConsumerGroup(st.g)
	c.epoch, c.targetEpoch = p.generation, p.generation
	name := p.protocolName
	if !p.hasProtocol {
		name = p.selectProtocol()
	}
	for _, m := range p.order {
		next, custom, ok := upgradedMember(p, m, name, st.im)
		switch {
		case custom:
			return no("an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before re-attempting the upgrade")
		case !ok:
			return no("the embedded consumer protocol is malformed")
		}
		c.targets[m.id] = next.assigned.assignment()
		c.update(next)
	}
	c.metadataHash = topicsHash(st.im, c.subscribedAfter())
	p.fail(kerr.RebalanceInProgress)
	st.c, st.classic = c, p
	st.records = c.all(p.tombstones(nil))
	return nil
}

// upgradedMember is what becomes of a classic member. custom says that its
// assignor keeps data of its own in assignments, which would be lost.
func upgradedMember(p *classicGroup, m *classicMember, protocol string, im *meta.Image) (next memberState, custom, ok bool) {
	subscription, ok := readConsumerSubscription(m.metadata(protocol))
	if !ok {
		return next, false, false
	}
	var assigned assignor.Assignment
	if len(m.assignment) > 0 {
		var a kmsg.ConsumerMemberAssignment
		if a.ReadFrom(m.assignment) != nil {
			return next, false, false
		}
		if len(a.UserData) > 0 {
			return next, true, false
		}
		for _, t := range a.Topics {
			if topic := im.Topics[t.Topic]; topic != nil {
				// The leader has written it: there may be anything in it.
				partitions := slices.DeleteFunc(slices.Clone(t.Partitions), func(p int32) bool {
					return p < 0 || int(p) >= len(topic.Partitions)
				})
				assigned = append(assigned, assignor.TopicPartitions{Topic: topic.ID, Partitions: partitions})
			}
		}
	}
	next = newMemberState(m.id)
	next.instance, next.rack = m.instance, subscription.Rack
	next.clientID, next.host = m.clientID, m.host
	next.topics = subscriptionOf(subscription.Topics)
	next.rebalanceTimeoutMs = int32(m.rebalanceTimeout.Milliseconds())
	next.classic = &classicSide{sessionTimeoutMs: int32(m.sessionTimeout.Milliseconds()), protocols: m.protocols}
	next.epoch, next.previousEpoch = p.generation, p.generation
	next.assigned = ownedAt(mergedAssignment(assigned), p.generation)
	return next, false, true
}

// upgraded begins the sessions of the classic members of a group that has just
// been converted.
func (c *consumerGroup) upgraded() {
	for _, m := range c.sorted() {
		if m.classic != nil {
			c.group.shard.arm(&m.session, m.classic.sessionTimeout())
		}
	}
	c.group.shard.coordinator.config.Logger.Info("a classic group is a consumer group now", "group", c.group.id)
}

func (s *classicSide) sessionTimeout() time.Duration {
	return time.Duration(s.sessionTimeoutMs) * time.Millisecond
}

// readConsumerSubscription reads what a consumer says in JoinGroup, whatever its
// version: fields that it does not know of are passed over.
func readConsumerSubscription(p []byte) (kmsg.ConsumerMemberMetadata, bool) {
	s := kmsg.NewConsumerMemberMetadata()
	if len(p) < 2 {
		return s, false
	}
	return s, s.ReadFrom(slices.Clone(p)) == nil
}

// downgradesWithout says that the group becomes a classic one when these members
// are gone: the last of the consumer protocol leaves, and others stay.
func (c *consumerGroup) downgradesWithout(leaving []*consumerMember) bool {
	consumers := 0
	for _, m := range leaving {
		if m.classic == nil {
			consumers++
		}
	}
	stay := len(c.members) - len(leaving)
	return consumers > 0 && consumers == len(c.members)-c.classicCount && stay > 0 && c.mayDowngrade(stay)
}

// mayDowngrade says whether the settings let a group of this size be classic.
func (c *consumerGroup) mayDowngrade(size int) bool {
	settings := c.group.shard.settings()
	policy := settings.ConsumerMigration
	return size <= settings.MaxSize && (policy == migrateBoth || policy == migrateDown)
}

// downgrade makes a classic group of a consumer group of which only classic
// members are left: without those that leave, and with joining in place of the
// static member of the consumer protocol that replaced is. Its epoch is the
// generation. rebalance has them join again. records come before; then is called as by shard.write
// (GroupMetadataManager.convertToClassicGroup).
func (c *consumerGroup) downgrade(leaving []*consumerMember, joining *joiningMember, rebalance bool, records []kv, then func(error)) {
	g := c.group
	p := newClassicGroup(g)
	p.generation, p.state = c.epoch, classicStable
	for _, m := range c.sorted() {
		if !slices.Contains(leaving, m) && (joining == nil || m != joining.replaced) {
			p.add(downgradedMember(&m.memberState), nil)
		}
	}
	if joining != nil {
		p.add(downgradedMember(&joining.state), nil)
	}
	p.protocolName, p.hasProtocol = p.selectProtocol(), true
	im := c.image()
	for _, m := range p.order {
		// What members consume until they have joined again. (Kafka has the target
		// assignment here; but if a consumer member joins before they are told of
		// it, the group believes that others have what they still consume.)
		var state *memberState
		if joining != nil && m.id == joining.state.id {
			state = &joining.state
		} else {
			state = &c.members[m.id].memberState
		}
		m.assignment = consumerAssignment(im, state.assigned.merge(state.revoking).assignment(), m.metadata(p.protocolName))
	}
	records = c.tombstones(records)
	if joining != nil {
		records = c.removal(records, joining.state.id)
	}
	records = append(records, p.record((*classicMember).current))
	g.removing = true
	g.shard.write(g, records, true, func(err error) {
		g.removing = false
		if err == nil {
			g.protocol.(*classicGroup).downgraded(p.order, rebalance)
		}
		then(err)
	})
}

// joiningMember is a classic member that takes the place of a static member.
type joiningMember struct {
	state    memberState
	replaced *consumerMember
}

// downgradedMember is what becomes of a member.
func downgradedMember(m *memberState) *classicMember {
	return &classicMember{
		id: m.id, instance: m.instance, clientID: m.clientID, host: m.host, protocolType: consumerProtocolType,
		rebalanceTimeout: time.Duration(m.rebalanceTimeoutMs) * time.Millisecond,
		sessionTimeout:   m.classic.sessionTimeout(), protocols: m.classic.protocols,
	}
}

// downgraded completes a group that was read from the record of its conversion:
// members know more protocols than the record has.
func (c *classicGroup) downgraded(members []*classicMember, rebalance bool) {
	for _, from := range members {
		if m := c.members[from.id]; m != nil {
			c.count(m, -1)
			m.protocols = from.protocols
			c.count(m, 1)
		}
	}
	c.loaded()
	if rebalance {
		c.rebalance()
	}
	c.group.shard.coordinator.config.Logger.Info("a consumer group is a classic group now", "group", c.group.id)
}

// consumerAssignment is an assignment as classic consumers read it, in the
// version of their subscription.
func consumerAssignment(im *meta.Image, a assignor.Assignment, subscription []byte) []byte {
	s, _ := readConsumerSubscription(subscription)
	out := kmsg.ConsumerMemberAssignment{Version: s.Version}
	for _, t := range a {
		if topic := im.TopicsByID[t.Topic]; topic != nil {
			out.Topics = append(out.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic.Name, Partitions: t.Partitions})
		}
	}
	return out.AppendTo(nil)
}
