package group

import (
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newMemberJoinTimeout bounds how long the JoinGroup of a new member may wait: it
// has no id to send heartbeats with, and a client that gives up and retries would
// fill a long rebalance with dead members
// (group.coordinator.new.member.join.timeout, KAFKA: 5 minutes).
const newMemberJoinTimeout = 5 * time.Minute

// Versions of JoinGroup in which a thing begins.
const (
	joinMemberIDRequired = 4 // KIP-394
	joinSkipAssignment   = 9 // KIP-814
)

// JoinGroup serves v0–v9. done is called when the member is in a new generation,
// has been refused, or is told its id (KIP-394).
func (c *Coordinator) JoinGroup(q *kmsg.JoinGroupRequest, from Client, done func(*kmsg.JoinGroupResponse)) {
	settings := c.config.Settings()
	timeout := sessionTimeout(q)
	switch {
	case q.Group == "":
		done(joinError(q.MemberID, kerr.InvalidGroupID))
		return
	case !fitRecord(q, from):
		done(joinError(q.MemberID, kerr.InvalidRequest))
		return
	case timeout < settings.MinSessionTimeout || timeout > settings.MaxSessionTimeout:
		done(joinError(q.MemberID, kerr.InvalidSessionTimeout))
		return
	}
	s, err := c.enter(q.Group)
	if err != nil {
		done(joinError(q.MemberID, err))
		return
	}
	q.Protocols = ownProtocols(q.Protocols) // which point into the frame
	s.joinGroup(q, from, func(resp *kmsg.JoinGroupResponse) { s.answer(func() { done(resp) }) })
	s.leave()
}

// fitRecord says whether a group's record can hold what the member says. Its id
// is the instance id or the client id, a dash and a UUID.
func fitRecord(q *kmsg.JoinGroupRequest, from Client) bool {
	const prefixMax = stringMax - 1 - uuidBytes
	return len(q.ProtocolType) <= stringMax && len(q.MemberID) <= stringMax && len(from.ClientID) <= prefixMax &&
		(q.InstanceID == nil || len(*q.InstanceID) <= prefixMax) &&
		!slices.ContainsFunc(q.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return len(p.Name) > stringMax })
}

// joinGroup finds or makes the group that a member joins. An empty group of the
// consumer protocol becomes a classic one.
func (s *shard) joinGroup(q *kmsg.JoinGroupRequest, from Client, done func(*kmsg.JoinGroupResponse)) {
	g := s.group(q.Group)
	if g != nil && g.removing {
		g.whenIdle(func() {
			if g.resigned {
				done(joinError(q.MemberID, kerr.NotCoordinator))
				return
			}
			s.joinGroup(q, from, done)
		})
		return
	}
	if g != nil && g.protocol != nil {
		if _, classic := g.protocol.(*classicGroup); classic || !g.protocol.empty() {
			g.protocol.join(q, from, done)
			return
		}
		g.whenIdle(func() {
			if g.resigned {
				done(joinError(q.MemberID, kerr.NotCoordinator))
				return
			}
			if c, ok := g.protocol.(*consumerGroup); !ok || !c.empty() {
				s.joinGroup(q, from, done) // it was removed, converted or joined meanwhile
				return
			}
			g.remove(g.protocol.tombstones(nil), func(err error) {
				if err != nil {
					done(joinError(q.MemberID, appendError(err)))
					return
				}
				s.joinGroup(q, from, done)
			})
		})
		return
	}
	if q.MemberID != "" {
		done(joinError(q.MemberID, kerr.UnknownMemberID))
		return
	}
	if g == nil {
		g = s.create(q.Group)
	}
	c := newClassicGroup(g)
	g.protocol = c
	// The group is in the log from now on, so that it is known after a failover.
	empty := c.record(nil)
	c.join(q, from, done)
	s.write(g, []kv{empty}, false, func(err error) {
		if err != nil && g.protocol == c {
			c.fail(appendError(err))
			g.setProtocol(nil)
			s.drop(g)
		}
	})
}

// join serves JoinGroup (GroupMetadataManager.classicGroupJoinToClassicGroup).
func (c *classicGroup) join(q *kmsg.JoinGroupRequest, from Client, done func(*kmsg.JoinGroupResponse)) {
	m := c.members[q.MemberID]
	switch {
	case !c.accepts(m):
		if m != nil {
			c.remove(m)
		}
		if p := c.pendingJoin[q.MemberID]; p != nil {
			c.removePending(p)
		}
		done(joinError("", kerr.GroupMaxSizeReached))
	case !c.supports(q.ProtocolType, q.Protocols):
		done(joinError(q.MemberID, kerr.InconsistentGroupProtocol))
	case q.MemberID == "":
		c.joinNew(q, from, done)
	case c.pendingJoin[q.MemberID] != nil:
		if q.InstanceID != nil {
			done(joinError(q.MemberID, kerr.UnknownMemberID)) // no static member is ever pending
			return
		}
		c.removePending(c.pendingJoin[q.MemberID])
		c.admit(q, q.MemberID, from, done)
	default:
		c.rejoin(q, done)
	}
}

// accepts says whether group.max.size leaves room for a member; m is nil for a
// new one. While the group rebalances those who have joined again count, so that
// the last ones are turned away if the limit was lowered.
func (c *classicGroup) accepts(m *classicMember) bool {
	limit := c.group.shard.settings().MaxSize
	switch c.state {
	case classicPreparing:
		return m != nil && m.awaitsJoin != nil || c.awaitingJoin < limit
	case classicCompleting, classicStable:
		return m != nil || len(c.members) < limit
	}
	return true
}

// joinNew serves a member that has no id yet.
func (c *classicGroup) joinNew(q *kmsg.JoinGroupRequest, from Client, done func(*kmsg.JoinGroupResponse)) {
	if q.InstanceID != nil {
		id := *q.InstanceID + "-" + newUUID()
		if m := c.instances[*q.InstanceID]; m != nil {
			c.rejoinStatic(m, id, q, done)
			return
		}
		c.admit(q, id, from, done)
		return
	}
	id := from.ClientID + "-" + newUUID()
	if q.Version < joinMemberIDRequired {
		c.admit(q, id, from, done)
		return
	}
	if c.pendingJoin == nil {
		c.pendingJoin = make(map[string]*pendingMember)
	}
	p := &pendingMember{id: id}
	p.session.fire = func() { c.pendingTimedOut(p) }
	c.pendingJoin[id] = p
	c.group.shard.arm(&p.session, sessionTimeout(q))
	done(joinError(id, kerr.MemberIDRequired))
}

// removePending forgets a member that was told its id.
func (c *classicGroup) removePending(p *pendingMember) {
	c.group.shard.disarm(&p.session)
	delete(c.pendingJoin, p.id)
}

// admit makes a new member.
func (c *classicGroup) admit(q *kmsg.JoinGroupRequest, id string, from Client, done func(*kmsg.JoinGroupResponse)) {
	m := &classicMember{
		id: id, instance: q.InstanceID, clientID: from.ClientID, host: from.Host, protocolType: q.ProtocolType,
		rebalanceTimeout: rebalanceTimeout(q), sessionTimeout: sessionTimeout(q),
		protocols: q.Protocols, isNew: true,
	}
	if c.state == classicPreparing && c.previous == classicEmpty {
		c.newMember = true // the initial delay is extended
	}
	c.add(m, done)
	c.group.shard.arm(&m.session, newMemberJoinTimeout)
	c.rebalance()
}

// rejoin serves a member that has an id.
func (c *classicGroup) rejoin(q *kmsg.JoinGroupRequest, done func(*kmsg.JoinGroupResponse)) {
	m, err := c.check(q.MemberID, q.InstanceID)
	if err != nil {
		done(joinError(q.MemberID, err))
		return
	}
	switch {
	case c.state == classicPreparing:
		c.update(m, q, done)
		c.rebalance()
	case c.state == classicCompleting && m.same(q.Protocols):
		// It may not have received the answer: once more, for this generation.
		done(c.joined(m, false))
	case c.state == classicStable && m.id != c.leader && m.same(q.Protocols):
		done(c.joined(m, false))
	case c.state == classicCompleting || c.state == classicStable:
		// The leader comes back when what it assigns has changed, others when
		// their metadata has.
		c.update(m, q, done)
		c.rebalance()
	default:
		done(joinError(q.MemberID, kerr.UnknownMemberID))
	}
}

// rejoinStatic lets a static member come back under a new id (KIP-345). In a
// stable group whose protocol does not change for it, that is no rebalance: the
// id is written and the member told the current generation; from v9 the leader
// is told to keep the assignment (KIP-814).
func (c *classicGroup) rejoinStatic(m *classicMember, id string, q *kmsg.JoinGroupRequest, done func(*kmsg.JoinGroupResponse)) {
	before, oldID, leader := *m, m.id, c.leader
	c.replaceStatic(m, id)
	c.update(m, q, done)
	c.touch(m)
	switch {
	case c.state == classicPreparing:
		c.completeIfJoined()
		return
	case c.state != classicStable || c.selectProtocol() != c.protocolName:
		// In CompletingRebalance the leader may already be assigning to the old id.
		c.rebalance()
		return
	}
	c.group.shard.write(c.group, []kv{c.record((*classicMember).current)}, false, func(err error) {
		if c.members[id] != m || c.state == classicDead {
			return // it has left, or come back again, meanwhile
		}
		if err != nil {
			c.answerJoin(m, joinError("", appendError(err)))
			c.count(m, -1)
			m.protocols, m.rebalanceTimeout, m.sessionTimeout = before.protocols, before.rebalanceTimeout, before.sessionTimeout
			c.count(m, 1)
			c.rename(m, oldID)
			c.touch(m)
			return
		}
		if c.state != classicStable {
			return // a rebalance began: it will answer
		}
		resp := c.joined(m, q.Version >= joinSkipAssignment)
		if q.Version < joinSkipAssignment {
			// Were it told that it leads, it would assign anew.
			resp.LeaderID, resp.Members = leader, nil
		}
		c.answerJoin(m, resp)
	})
}

// current is the member's assignment.
func (m *classicMember) current() []byte { return m.assignment }

// joined is the answer to a member of the current generation. skip tells the
// leader to keep the assignment that there is.
func (c *classicGroup) joined(m *classicMember, skip bool) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Generation = c.generation
	resp.ProtocolType, resp.Protocol = c.protocol()
	resp.LeaderID, resp.MemberID = c.leader, m.id
	if m.id != c.leader {
		return resp
	}
	resp.SkipAssignment = skip
	resp.Members = make([]kmsg.JoinGroupResponseMember, len(c.order))
	for i, other := range c.order {
		resp.Members[i] = kmsg.JoinGroupResponseMember{
			MemberID: other.id, InstanceID: other.instance, ProtocolMetadata: notNil(other.metadata(c.protocolName)),
		}
	}
	return resp
}

// protocol is the type and the name of the protocol, for an answer: it is encoded
// when the group has gone on.
func (c *classicGroup) protocol() (kind, name *string) {
	copied := struct{ kind, name string }{c.protocolKind, c.protocolName}
	if !c.hasProtocol {
		return &copied.kind, nil
	}
	return &copied.kind, &copied.name
}

// answerJoin answers the JoinGroup that the member waits for, if any.
func (c *classicGroup) answerJoin(m *classicMember, resp *kmsg.JoinGroupResponse) {
	if m.awaitsJoin != nil {
		done := m.awaitsJoin
		m.awaitsJoin = nil
		c.awaitingJoin--
		done(resp)
	}
}

// joinError is the answer to a JoinGroup that fails.
func joinError(memberID string, err *kerr.Error) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.MemberID, resp.Generation = err.Code, memberID, -1
	return resp
}

func sessionTimeout(q *kmsg.JoinGroupRequest) time.Duration {
	return time.Duration(q.SessionTimeoutMillis) * time.Millisecond
}

// rebalanceTimeout is the session timeout before v1.
func rebalanceTimeout(q *kmsg.JoinGroupRequest) time.Duration {
	if q.Version < 1 || q.RebalanceTimeoutMillis == -1 {
		return sessionTimeout(q)
	}
	return time.Duration(q.RebalanceTimeoutMillis) * time.Millisecond
}

// ownProtocols copies what a request's frame holds.
func ownProtocols(protocols []kmsg.JoinGroupRequestProtocol) []kmsg.JoinGroupRequestProtocol {
	own := make([]kmsg.JoinGroupRequestProtocol, len(protocols))
	for i, p := range protocols {
		own[i] = kmsg.JoinGroupRequestProtocol{Name: p.Name, Metadata: slices.Clone(p.Metadata)}
	}
	return own
}

// uuidBytes is the length of a UUID in text.
const uuidBytes = 36

// newUUID is a random UUID in text, the tail of a member id.
func newUUID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
