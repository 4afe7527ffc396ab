package group

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leaveByHeartbeat serves heartbeats with epoch −1 and −2
// (GroupMetadataManager.consumerGroupLeave).
func (c *consumerGroup) leaveByHeartbeat(q *kmsg.ConsumerGroupHeartbeatRequest, done func(*kmsg.ConsumerGroupHeartbeatResponse)) *refusal {
	g := c.group
	var m *consumerMember
	if q.InstanceID == nil {
		if m = c.members[q.MemberID]; m == nil {
			return refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", q.MemberID, g.id)
		}
	} else {
		switch m = c.instances[*q.InstanceID]; {
		case m == nil:
			return refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", *q.InstanceID)
		case m.id != q.MemberID:
			return refuse(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", q.MemberID, *q.InstanceID, m.id)
		}
	}
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch = &q.MemberID, q.MemberEpoch
	answer := func(err error) {
		if err != nil {
			code := appendError(err)
			resp = heartbeatError(&refusal{code: code, reason: code.Description})
		}
		done(resp)
	}
	if q.MemberEpoch == epochLeaveStatic {
		g.shard.write(g, []kv{c.currentRecord(m.away())}, true, answer)
		return nil
	}
	c.removeMembers([]*consumerMember{m}, answer)
	return nil
}

// away is the state of a static member that has left to come back: it keeps its
// partitions, and whoever comes back may commit for them from epoch 0 on.
func (m *consumerMember) away() *memberState {
	next := m.memberState
	next.epoch, next.revoking = epochLeaveStatic, nil
	next.assigned = ownedAt(next.assigned.assignment(), 0)
	return &next
}

// fence removes a member that has let a deadline pass, once it is the group's
// turn: unless a request has moved the deadline meanwhile.
func (c *consumerGroup) fence(m *consumerMember, t *timer, reason string) {
	g := c.group
	g.whenIdle(func() {
		if g.resigned || m.gone || t.armed() {
			return
		}
		g.shard.coordinator.config.Logger.Info("a member is fenced from its group", "group", g.id, "member", m.id, "reason", reason)
		c.removeMembers([]*consumerMember{m}, func(err error) {
			if err != nil && !m.gone {
				// It is still there: try again a session later.
				_, session, _ := c.config()
				g.shard.arm(&m.session, session)
			}
		})
	})
}

// removeMembers removes members; then is called as by shard.write. If those that
// stay all use the classic protocol, the group becomes a classic one.
func (c *consumerGroup) removeMembers(leaving []*consumerMember, then func(error)) {
	if len(leaving) == 0 {
		then(nil)
		return
	}
	if c.downgradesWithout(leaving) {
		c.downgrade(leaving, nil, true, nil, then)
		return
	}
	g := c.group
	var records []kv
	changes := make([]change, 0, len(leaving))
	regexes := make(map[string]int)
	for _, m := range leaving {
		records = c.removal(records, m.id)
		changes = append(changes, change{from: &m.memberState})
		if m.regex != "" {
			regexes[m.regex]++
		}
	}
	for _, regex := range slices.Sorted(maps.Keys(regexes)) {
		if regexes[regex] == c.regexCounts[regex] {
			records = append(records, kv{key: consumerKey(keyConsumerRegularExpression, g.id, regex)})
		}
	}
	im := c.image()
	records = append(records, c.epochRecord(c.epoch+1, topicsHash(im, c.subscribedAfter(changes...))))
	if len(leaving) == len(c.members) {
		// Nothing is left to be assigned, and whoever comes next need not wait.
		records = append(records, kv{key: consumerKey(keyConsumerTargetMetadata, g.id), value: targetEpochValue(c.epoch+1, 0)})
	}
	g.shard.write(g, records, true, then)
}
