package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SyncGroup serves v0–v5: the leader brings the assignments, and each member gets
// its own. done is called when they are written.
func (c *Coordinator) SyncGroup(q *kmsg.SyncGroupRequest, from Client, done func(*kmsg.SyncGroupResponse)) {
	switch {
	case q.Version >= 5 && (q.ProtocolType == nil || q.Protocol == nil):
		done(syncError(kerr.InconsistentGroupProtocol))
		return
	case q.Group == "":
		done(syncError(kerr.InvalidGroupID))
		return
	}
	s, err := c.enter(q.Group)
	if err != nil {
		if err == kerr.CoordinatorLoadInProgress {
			// The group is loading, so the generation is over: join again.
			err = kerr.RebalanceInProgress
		}
		done(syncError(err))
		return
	}
	g := s.group(q.Group)
	if g == nil || g.protocol == nil || g.protocol.empty() {
		s.leave()
		done(syncError(kerr.UnknownMemberID))
		return
	}
	g.protocol.sync(q, from, func(resp *kmsg.SyncGroupResponse) { s.answer(func() { done(resp) }) })
	s.leave()
}

// sync implements protocol (classicGroupSyncToClassicGroup).
func (c *classicGroup) sync(q *kmsg.SyncGroupRequest, _ Client, done func(*kmsg.SyncGroupResponse)) {
	m, err := c.check(q.MemberID, q.InstanceID)
	switch {
	case err != nil:
	case q.Generation != c.generation:
		err = kerr.IllegalGeneration
	case q.ProtocolType != nil && *q.ProtocolType != c.protocolKind, q.Protocol != nil && *q.Protocol != c.protocolName:
		err = kerr.InconsistentGroupProtocol
	case c.state == classicPreparing:
		err = kerr.RebalanceInProgress
	}
	if err != nil {
		done(syncError(err))
		return
	}
	c.synced(m)
	if c.state == classicStable {
		done(c.assigned(m))
		return
	}
	c.answerSync(m, syncError(kerr.RebalanceInProgress)) // its client has given up on that one
	m.awaitsSync = done
	if m.id == c.leader {
		c.assign(q)
	}
}

// synced notes that the member has sent SyncGroup.
func (c *classicGroup) synced(m *classicMember) {
	if m.pendingSync {
		m.pendingSync = false
		if c.pendingSync--; c.pendingSync == 0 {
			c.group.shard.disarm(&c.syncTimer)
		}
	}
}

// assign writes what the leader has assigned, and then hands it out.
func (c *classicGroup) assign(q *kmsg.SyncGroupRequest) {
	assignments := make(map[string][]byte, len(q.GroupAssignment))
	for i := range q.GroupAssignment {
		a := &q.GroupAssignment[i]
		assignments[a.MemberID] = slices.Clone(a.MemberAssignment)
	}
	generation := c.generation
	r := c.record(func(m *classicMember) []byte { return assignments[m.id] })
	c.group.shard.write(c.group, []kv{r}, false, func(err error) {
		if c.state != classicCompleting || c.generation != generation {
			return // somebody has joined or left meanwhile
		}
		if err != nil {
			c.resetAssignments(appendError(err))
			c.rebalance()
			return
		}
		for _, m := range c.order {
			m.assignment = assignments[m.id]
			if c.answerSync(m, c.assigned(m)) {
				c.touch(m)
			}
		}
		c.transition(classicStable)
		c.group.shard.coordinator.counters.rebalances.Add(1)
	})
}

// assigned is a member's assignment in the current generation.
func (c *classicGroup) assigned(m *classicMember) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ProtocolType, resp.Protocol = c.protocol()
	resp.MemberAssignment = notNil(m.assignment)
	return resp
}

// answerSync answers the SyncGroup that the member waits for, if any.
func (c *classicGroup) answerSync(m *classicMember, resp *kmsg.SyncGroupResponse) bool {
	if m.awaitsSync == nil {
		return false
	}
	done := m.awaitsSync
	m.awaitsSync = nil
	done(resp)
	return true
}

func syncError(err *kerr.Error) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode, resp.MemberAssignment = err.Code, []byte{}
	return resp
}

// Heartbeat serves v0–v4; it never waits.
func (c *Coordinator) Heartbeat(q *kmsg.HeartbeatRequest, _ Client) *kmsg.HeartbeatResponse {
	resp := kmsg.NewPtrHeartbeatResponse()
	if err := c.heartbeat(q); err != nil {
		resp.ErrorCode = err.Code
	}
	return resp
}

func (c *Coordinator) heartbeat(q *kmsg.HeartbeatRequest) *kerr.Error {
	if q.Group == "" {
		return kerr.InvalidGroupID
	}
	s, err := c.enter(q.Group)
	if err != nil {
		if err == kerr.CoordinatorLoadInProgress {
			return nil // sessions begin when it is loaded
		}
		return err
	}
	defer s.leave()
	g := s.group(q.Group)
	if g == nil || g.protocol == nil {
		return kerr.UnknownMemberID
	}
	return g.protocol.heartbeat(q)
}

// heartbeat implements protocol (classicGroupHeartbeatToClassicGroup).
func (c *classicGroup) heartbeat(q *kmsg.HeartbeatRequest) *kerr.Error {
	m, err := c.check(q.MemberID, q.InstanceID)
	switch {
	case err != nil:
		return err
	case q.Generation != c.generation:
		return kerr.IllegalGeneration
	}
	c.touch(m)
	if c.state == classicPreparing {
		return kerr.RebalanceInProgress
	}
	return nil
}

// LeaveGroup serves v0–v5: one member before v3, then many, static ones by their
// instance id (KIP-345). done is called when they are out.
func (c *Coordinator) LeaveGroup(q *kmsg.LeaveGroupRequest, from Client, done func(*kmsg.LeaveGroupResponse)) {
	if q.Group == "" {
		done(leaveError(kerr.InvalidGroupID))
		return
	}
	if q.Version < 3 {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = q.MemberID
		q.Members = []kmsg.LeaveGroupRequestMember{one}
	}
	s, err := c.enter(q.Group)
	if err != nil {
		done(leaveError(err))
		return
	}
	answer := func(resp *kmsg.LeaveGroupResponse) {
		if q.Version < 3 && resp.ErrorCode == 0 && len(resp.Members) == 1 {
			resp.ErrorCode = resp.Members[0].ErrorCode
		}
		s.answer(func() { done(resp) })
	}
	if g := s.group(q.Group); g == nil || g.protocol == nil {
		answer(strangers(q))
	} else {
		g.protocol.leave(q, from, answer)
	}
	s.leave()
}

// strangers is the answer to members of a group that does not exist.
func strangers(q *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	resp := kmsg.NewPtrLeaveGroupResponse()
	for i := range q.Members {
		resp.Members = append(resp.Members, left(&q.Members[i], kerr.UnknownMemberID))
	}
	return resp
}

// left is one member's part of the answer.
func left(m *kmsg.LeaveGroupRequestMember, err *kerr.Error) kmsg.LeaveGroupResponseMember {
	out := kmsg.NewLeaveGroupResponseMember()
	out.MemberID, out.InstanceID = m.MemberID, m.InstanceID
	if err != nil {
		out.ErrorCode = err.Code
	}
	return out
}

func leaveError(err *kerr.Error) *kmsg.LeaveGroupResponse {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.ErrorCode = err.Code
	return resp
}

// leave implements protocol (classicGroupLeaveToClassicGroup).
func (c *classicGroup) leave(q *kmsg.LeaveGroupRequest, _ Client, done func(*kmsg.LeaveGroupResponse)) {
	resp := kmsg.NewPtrLeaveGroupResponse()
	gone := false
	for i := range q.Members {
		err := c.leaveOne(&q.Members[i])
		gone = gone || err == nil
		resp.Members = append(resp.Members, left(&q.Members[i], err))
	}
	if gone {
		switch c.state {
		case classicStable, classicCompleting:
			c.rebalance()
		case classicPreparing:
			c.completeIfJoined()
		}
	}
	done(resp)
}

// leaveOne takes one member out; a rebalance is left to the caller.
func (c *classicGroup) leaveOne(q *kmsg.LeaveGroupRequestMember) *kerr.Error {
	var m *classicMember
	if q.MemberID == "" { // an administrator removes a static member
		if q.InstanceID != nil {
			m = c.instances[*q.InstanceID]
		}
		if m == nil {
			return kerr.UnknownMemberID
		}
	} else if p := c.pendingJoin[q.MemberID]; p != nil {
		c.removePending(p)
		return nil
	} else {
		var err *kerr.Error
		if m, err = c.check(q.MemberID, q.InstanceID); err != nil {
			return err
		}
	}
	c.answerJoin(m, joinError("", kerr.UnknownMemberID))
	c.answerSync(m, syncError(kerr.UnknownMemberID))
	c.remove(m)
	return nil
}
