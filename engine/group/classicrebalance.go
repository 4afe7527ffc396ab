package group

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kerr"
)

// rebalance begins a rebalance, or if one is under way completes it when nobody
// is waited for (maybePrepareRebalanceOrCompleteJoin).
func (c *classicGroup) rebalance() {
	switch c.state {
	case classicEmpty, classicCompleting, classicStable:
		c.prepare()
	case classicPreparing:
		c.completeIfJoined()
	}
}

// prepare asks all members to join again. An empty group waits
// group.initial.rebalance.delay.ms for more members, again after each that comes,
// up to the rebalance timeout (KIP-134).
func (c *classicGroup) prepare() {
	s := c.group.shard
	if c.state == classicCompleting {
		c.resetAssignments(kerr.RebalanceInProgress)
	}
	c.clearPendingSync()
	if c.state == classicEmpty {
		delay := s.settings().InitialRebalanceDelay
		c.initialDelay, c.initialLeft = delay, max(0, c.longestRebalance()-delay)
		c.newMember = false
		c.transition(classicPreparing)
		s.arm(&c.joinTimer, delay)
		return
	}
	c.transition(classicPreparing)
	if c.allJoined() {
		c.complete()
		return
	}
	s.arm(&c.joinTimer, c.longestRebalance())
}

// joinTimedOut is the end of the initial delay, or of the wait for members.
func (c *classicGroup) joinTimedOut() {
	if c.previous == classicEmpty && c.newMember && c.initialLeft > 0 {
		s := c.group.shard
		c.newMember = false
		delay := min(s.settings().InitialRebalanceDelay, c.initialLeft)
		c.initialLeft = max(0, c.initialLeft-c.initialDelay)
		c.initialDelay = delay
		s.arm(&c.joinTimer, delay)
		return
	}
	c.complete()
}

// completeIfJoined completes a rebalance, other than an initial one, for which
// nobody is waited for any more (maybeCompleteJoinPhase).
func (c *classicGroup) completeIfJoined() {
	if c.state == classicPreparing && c.previous != classicEmpty && c.allJoined() {
		c.complete()
	}
}

// complete begins the next generation with the members that have joined; dynamic
// ones that have not are out, static ones stay until their session ends
// (completeClassicGroupJoin).
func (c *classicGroup) complete() {
	s := c.group.shard
	s.disarm(&c.joinTimer)
	c.removeAll(func(m *classicMember) bool { return m.awaitsJoin == nil && m.instance == nil })
	if len(c.members) > 0 && !c.electJoined() {
		// None of them is here: wait for their sessions to end.
		s.arm(&c.joinTimer, c.longestRebalance())
		return
	}
	c.generation++
	if len(c.members) == 0 {
		c.becomeEmpty()
		return
	}
	c.protocolName, c.hasProtocol = c.selectProtocol(), true
	c.readTopics()
	c.transition(classicCompleting)
	c.clearPendingSync()
	for _, m := range c.order {
		c.answerJoin(m, c.joined(m, false))
		c.touch(m)
		m.isNew = false
		m.pendingSync = true
	}
	c.pendingSync = len(c.order)
	s.arm(&c.syncTimer, c.longestRebalance())
}

// becomeEmpty writes the generation without members. If that fails the last one
// comes back after a failover, and its members time out.
func (c *classicGroup) becomeEmpty() {
	c.protocolName, c.hasProtocol = "", false
	c.leader = ""
	c.readTopics()
	c.transition(classicEmpty)
	c.clearPendingSync()
	c.group.shard.write(c.group, []kv{c.record(nil)}, false, nil)
}

// electJoined makes sure that the leader has joined; false if nobody has.
func (c *classicGroup) electJoined() bool {
	if m := c.members[c.leader]; m != nil && m.awaitsJoin != nil {
		return true
	}
	for _, m := range c.order {
		if m.awaitsJoin != nil {
			c.leader = m.id
			return true
		}
	}
	return false
}

// clearPendingSync stops waiting for SyncGroup.
func (c *classicGroup) clearPendingSync() {
	c.group.shard.disarm(&c.syncTimer)
	if c.pendingSync > 0 {
		for _, m := range c.order {
			m.pendingSync = false
		}
		c.pendingSync = 0
	}
}

// resetAssignments takes all assignments back and tells those who wait for one.
func (c *classicGroup) resetAssignments(err *kerr.Error) {
	for _, m := range c.order {
		m.assignment = nil
		if c.answerSync(m, syncError(err)) {
			c.touch(m)
		}
	}
}

// sessionTimedOut removes a member that was not heard of, unless it waits for an
// answer itself (expireClassicGroupMemberHeartbeat).
func (c *classicGroup) sessionTimedOut(m *classicMember) {
	if c.members[m.id] != m || m.waits() {
		return
	}
	c.removeMember(m)
}

// waits says that the member waits for the group and need not be heard of: a new
// member's JoinGroup ends after newMemberJoinTimeout all the same
// (ClassicGroupMember.hasSatisfiedHeartbeat).
func (m *classicMember) waits() bool {
	return !m.isNew && (m.awaitsJoin != nil || m.awaitsSync != nil)
}

// removeMember takes a member out that has left or failed.
func (c *classicGroup) removeMember(m *classicMember) {
	c.answerJoin(m, joinError("", kerr.UnknownMemberID))
	c.answerSync(m, syncError(kerr.UnknownMemberID))
	c.remove(m)
	switch c.state {
	case classicStable, classicCompleting:
		c.rebalance()
	case classicPreparing:
		if c.allJoined() {
			c.complete()
		}
	}
}

// pendingTimedOut forgets a member that has not used its id.
func (c *classicGroup) pendingTimedOut(p *pendingMember) {
	c.removePending(p)
	if c.state == classicPreparing && c.allJoined() {
		c.complete()
	}
}

// syncTimedOut removes the members that have sent no SyncGroup in time.
func (c *classicGroup) syncTimedOut() {
	if c.pendingSync == 0 || c.state != classicCompleting && c.state != classicStable {
		return
	}
	c.removeAll(func(m *classicMember) bool { return m.pendingSync })
	c.prepare()
}

// fail answers all that waits with an error.
func (c *classicGroup) fail(err *kerr.Error) {
	for _, m := range c.order {
		c.answerJoin(m, joinError(m.id, err))
		c.answerSync(m, syncError(err))
	}
}

// resign implements protocol.
func (c *classicGroup) resign() {
	c.fail(kerr.NotCoordinator)
	s := c.group.shard
	s.disarm(&c.joinTimer)
	s.disarm(&c.syncTimer)
	for _, m := range c.order {
		s.disarm(&m.session)
	}
	for _, p := range c.pendingJoin {
		s.disarm(&p.session)
	}
	c.transition(classicDead)
}

// loaded implements protocol.
func (c *classicGroup) loaded() {
	for _, m := range c.order {
		c.touch(m)
	}
	if len(c.members) > c.group.shard.settings().MaxSize {
		c.prepare() // the limit was lowered: members commit, and some are turned away
	}
}

// readSubscription adds the topics of a consumer's metadata to dst. Only the part
// that all versions share is read: a version, then the topics
// (ConsumerProtocolSubscription).
func readSubscription(p []byte, dst map[string]struct{}) bool {
	if len(p) < 6 {
		return false
	}
	n := int32(binary.BigEndian.Uint32(p[2:]))
	p = p[6:]
	for range n {
		if len(p) < 2 {
			return false
		}
		size := int(int16(binary.BigEndian.Uint16(p)))
		if size < 0 || len(p) < 2+size {
			return false
		}
		dst[string(p[2:2+size])] = struct{}{}
		p = p[2+size:]
	}
	return true
}
