package group

import (
	"slices"
	"time"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Members of a consumer group that use the classic protocol: the coordinator
// assigns to them too. A JoinGroup is their heartbeat that reconciles, its
// generation their epoch; SyncGroup gives them what they have; a Heartbeat tells
// them to join again when there is something to give up or to get.

// join implements protocol (classicGroupJoinToConsumerGroup).
func (c *consumerGroup) join(q *kmsg.JoinGroupRequest, from Client, done func(*kmsg.JoinGroupResponse)) {
	g := c.group
	protocols := ownProtocols(q.Protocols) // the request's frame may go while it waits
	g.whenIdle(func() {
		switch {
		case g.resigned:
			done(joinError(q.MemberID, kerr.NotCoordinator))
		case g.protocol != protocol(c):
			// It was converted, or removed, meanwhile.
			again := *q
			again.Protocols = protocols
			g.shard.joinGroup(&again, from, done)
		default:
			if id, err := c.joinClassic(q, protocols, from, done); err != nil {
				done(joinError(id, err))
			}
		}
	})
}

// joinClassic serves a JoinGroup; with an error comes the member id to answer
// with: none, as Kafka, unless that is what the error is about.
func (c *consumerGroup) joinClassic(q *kmsg.JoinGroupRequest, protocols []joinProtocol, from Client, done func(*kmsg.JoinGroupResponse)) (string, *kerr.Error) {
	g := c.group
	settings := g.shard.settings()
	if p := settings.ConsumerMigration; p != migrateBoth && p != migrateUp && p != migrateDown {
		return "", kerr.InconsistentGroupProtocol
	}
	id := q.MemberID
	if id == "" {
		id = record.NewTopicID().String() // as members of the consumer protocol get them
	}
	st := &consumerStep{g: g, c: c, im: c.image()}
	if err := st.checkSize(id, q.InstanceID); err != nil {
		return "", err.code
	}
	if !c.supports(q.ProtocolType, protocols) {
		return "", kerr.InconsistentGroupProtocol
	}
	if q.MemberID == "" && q.InstanceID == nil && q.Version >= joinMemberIDRequired {
		return id, kerr.MemberIDRequired
	}
	// A dynamic member is made under the id that it was told; a static one only
	// when it has none.
	if err := st.find(id, q.InstanceID, q.InstanceID == nil || q.MemberID == "", true); err != nil {
		return "", err.code
	}
	subscription, ok := readConsumerSubscription(protocols[0].Metadata)
	if !ok {
		return "", kerr.InconsistentGroupProtocol
	}
	replaced := st.replaced()
	next := st.member
	next.describeJoin(q, protocols, &subscription, from)
	if err := st.subscribe(next); err != nil {
		return "", err.code
	}
	st.owns = c.claimOf(&subscription, st)
	if replaced != nil && replaced.classic == nil && c.classicCount == len(c.members)-1 && c.mayDowngrade(len(c.members)) {
		c.joinDowngraded(st, replaced, done)
		return "", nil
	}
	st.run()
	c.answerJoin(st, q, done)
	return "", nil
}

// replaced is the static member whose place the step's takes.
func (st *consumerStep) replaced() *consumerMember {
	if st.handle != nil && st.handle.instance != nil {
		return st.handle
	}
	return nil
}

// describeJoin gives the member what a JoinGroup says of it.
func (m *memberState) describeJoin(q *kmsg.JoinGroupRequest, protocols []joinProtocol, s *kmsg.ConsumerMemberMetadata, from Client) {
	if q.InstanceID != nil {
		m.instance = q.InstanceID
	}
	if s.Rack != nil && *s.Rack != "" {
		m.rack = s.Rack
	}
	m.rebalanceTimeoutMs = int32(rebalanceTimeout(q).Milliseconds())
	m.topics, m.regex = subscriptionOf(s.Topics), ""
	m.clientID, m.host = from.ClientID, from.Host
	m.classic = &classicSide{sessionTimeoutMs: q.SessionTimeoutMillis, protocols: protocols}
}

// claimOf is what a classic member says that it owns. One that does not say so
// (its assignor is an eager one) has given up everything before it joins.
func (c *consumerGroup) claimOf(s *kmsg.ConsumerMemberMetadata, st *consumerStep) claim {
	owns := claim{}
	for _, t := range s.OwnedPartitions {
		if topic := st.im.Topics[t.Topic]; topic != nil {
			owns = append(owns, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic.ID, Partitions: t.Partitions})
		}
	}
	return owns
}

// supports says whether a classic member with these protocols can be one: the
// classic members must have one in common.
func (c *consumerGroup) supports(kind string, protocols []joinProtocol) bool {
	return kind == consumerProtocolType && slices.ContainsFunc(protocols, func(p joinProtocol) bool {
		return c.classicNames[p.Name] == c.classicCount
	})
}

// answerJoin writes what the step has changed, and answers the JoinGroup.
func (c *consumerGroup) answerJoin(st *consumerStep, q *kmsg.JoinGroupRequest, done func(*kmsg.JoinGroupResponse)) {
	st.write(func(c *consumerGroup, err error) {
		if err != nil {
			done(joinError(q.MemberID, appendError(err)))
			return
		}
		m := c.members[st.next.id]
		if m == nil {
			done(joinError(q.MemberID, kerr.UnknownMemberID))
			return
		}
		s := c.group.shard
		s.disarm(&m.rejoin)
		s.arm(&m.session, m.classic.sessionTimeout())
		s.arm(&m.syncing, time.Duration(m.rebalanceTimeoutMs)*time.Millisecond)
		c.refreshRegexes()
		done(joinedConsumer(&m.memberState))
	})
}

// joinedConsumer is the answer to a classic member: nobody leads, there is
// nothing to assign.
func joinedConsumer(m *memberState) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	kind, name := consumerProtocolType, m.classic.protocols[0].Name
	resp.MemberID, resp.Generation, resp.ProtocolType, resp.Protocol = m.id, m.epoch, &kind, &name
	return resp
}

// joinDowngraded lets a classic static member take the place of the last member
// of the consumer protocol: the group becomes a classic one.
func (c *consumerGroup) joinDowngraded(st *consumerStep, replaced *consumerMember, done func(*kmsg.JoinGroupResponse)) {
	// The others join again unless all of them have arrived at the target.
	rebalance := c.targetEpoch < st.epoch
	for _, m := range c.members {
		rebalance = rebalance || m != replaced && !m.reconciled(c.targetEpoch)
	}
	if !rebalance {
		st.run()
	}
	joining := &joiningMember{state: st.next, replaced: replaced}
	c.downgrade(nil, joining, rebalance, nil, func(err error) {
		if err != nil {
			done(joinError("", appendError(err)))
			return
		}
		done(joinedConsumer(&st.next))
	})
}

// classicMemberOf finds the classic member of a request.
func (c *consumerGroup) classicMemberOf(id string, instance *string) (*consumerMember, *kerr.Error) {
	m := c.members[id]
	if instance != nil {
		if m = c.instances[*instance]; m != nil && m.id != id {
			return nil, kerr.FencedInstanceID
		}
	}
	if m == nil || m.classic == nil {
		return nil, kerr.UnknownMemberID
	}
	return m, nil
}

// sync implements protocol (classicGroupSyncToConsumerGroup).
func (c *consumerGroup) sync(q *kmsg.SyncGroupRequest, _ Client, done func(*kmsg.SyncGroupResponse)) {
	m, err := c.classicMemberOf(q.MemberID, q.InstanceID)
	switch {
	case err != nil:
	case q.Generation != m.epoch:
		err = kerr.IllegalGeneration
	case q.ProtocolType != nil && *q.ProtocolType != consumerProtocolType, q.Protocol != nil && *q.Protocol != m.classic.protocols[0].Name:
		err = kerr.InconsistentGroupProtocol
	case c.targetEpoch > m.epoch && m.state != memberUnrevoked:
		c.expectRejoin(m)
		err = kerr.RebalanceInProgress
	}
	if err != nil {
		done(syncError(err))
		return
	}
	s := c.group.shard
	s.disarm(&m.syncing)
	s.arm(&m.session, m.classic.sessionTimeout())
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ProtocolType, resp.Protocol = q.ProtocolType, q.Protocol
	resp.MemberAssignment = consumerAssignment(c.image(), m.assigned.assignment(), m.classic.protocols[0].Metadata)
	done(resp)
}

// expectRejoin gives a classic member that is told to join again its rebalance
// timeout to do so.
func (c *consumerGroup) expectRejoin(m *consumerMember) {
	if !m.rejoin.armed() {
		c.group.shard.arm(&m.rejoin, time.Duration(m.rebalanceTimeoutMs)*time.Millisecond)
	}
}

// heartbeat implements protocol (classicGroupHeartbeatToConsumerGroup).
func (c *consumerGroup) heartbeat(q *kmsg.HeartbeatRequest) *kerr.Error {
	m, err := c.classicMemberOf(q.MemberID, q.InstanceID)
	switch {
	case err != nil:
		return err
	case q.Generation != m.epoch:
		return kerr.IllegalGeneration
	}
	c.group.shard.arm(&m.session, m.classic.sessionTimeout())
	if m.epoch < c.targetEpoch || m.state == memberUnrevoked || m.state == memberUnreleased && !c.waits(m) {
		c.expectRejoin(m)
		return kerr.RebalanceInProgress
	}
	return nil
}

// waits says that a partition which the member is to get is another's still.
func (c *consumerGroup) waits(m *consumerMember) bool {
	for _, t := range c.targets[m.id] {
		have := m.assigned.of(t.Topic)
		for _, p := range t.Partitions {
			if _, ok := have.epoch(p); !ok && c.taken(m, t.Topic, p) {
				return true
			}
		}
	}
	return false
}

// leave implements protocol (classicGroupLeaveToConsumerGroup): an administrator
// may remove members of the consumer protocol in this way too.
func (c *consumerGroup) leave(q *kmsg.LeaveGroupRequest, from Client, done func(*kmsg.LeaveGroupResponse)) {
	g := c.group
	g.whenIdle(func() {
		switch {
		case g.resigned:
			done(leaveError(kerr.NotCoordinator))
			return
		case g.protocol == nil:
			done(strangers(q))
			return
		case g.protocol != protocol(c):
			g.protocol.leave(q, from, done)
			return
		}
		resp := kmsg.NewPtrLeaveGroupResponse()
		var leaving []*consumerMember
		for i := range q.Members {
			m, err := c.leaver(&q.Members[i])
			if err == nil && !slices.Contains(leaving, m) {
				leaving = append(leaving, m)
			}
			resp.Members = append(resp.Members, left(&q.Members[i], err))
		}
		c.removeMembers(leaving, func(err error) {
			if err != nil {
				resp = leaveError(appendError(err))
			}
			done(resp)
		})
	})
}

func (c *consumerGroup) leaver(q *kmsg.LeaveGroupRequestMember) (*consumerMember, *kerr.Error) {
	m := c.members[q.MemberID]
	if q.InstanceID != nil {
		m = c.instances[*q.InstanceID]
		if m != nil && q.MemberID != "" && m.id != q.MemberID {
			return nil, kerr.FencedInstanceID
		}
	}
	if m == nil {
		return nil, kerr.UnknownMemberID
	}
	return m, nil
}
