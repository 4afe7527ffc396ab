package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// add makes m a member; done, if not nil, is its JoinGroup that waits.
func (c *classicGroup) add(m *classicMember, done func(*kmsg.JoinGroupResponse)) {
	if m.instance != nil {
		if c.instances == nil {
			c.instances = make(map[string]*classicMember)
		}
		c.instances[*m.instance] = m
	}
	if len(c.members) == 0 {
		c.protocolKind = m.protocolType
	}
	if c.leader == "" {
		c.leader = m.id
	}
	c.members[m.id] = m
	c.order = append(c.order, m)
	c.count(m, 1)
	c.rebalanceMax = max(c.rebalanceMax, m.rebalanceTimeout)
	m.session.fire = func() { c.sessionTimedOut(m) }
	if done != nil {
		m.awaitsJoin = done
		c.awaitingJoin++
	}
}

// count adds n to the votes of the protocols that the member knows.
func (c *classicGroup) count(m *classicMember, n int) {
	for i := range m.protocols {
		name := m.protocols[i].Name
		if c.supported[name] += n; c.supported[name] == 0 {
			delete(c.supported, name)
		}
	}
}

// remove takes a member out, whose JoinGroup and SyncGroup have been answered.
func (c *classicGroup) remove(m *classicMember) {
	c.removeAll(func(other *classicMember) bool { return other == m })
}

// removeAll takes all members out that match.
func (c *classicGroup) removeAll(match func(*classicMember) bool) {
	leaderLeft := false
	c.order = slices.DeleteFunc(c.order, func(m *classicMember) bool {
		if !match(m) {
			return false
		}
		c.group.shard.disarm(&m.session)
		delete(c.members, m.id)
		if m.instance != nil && c.instances[*m.instance] == m {
			delete(c.instances, *m.instance)
		}
		c.count(m, -1)
		if m.awaitsJoin != nil {
			c.awaitingJoin--
		}
		if m.pendingSync {
			m.pendingSync = false
			c.pendingSync--
		}
		leaderLeft = leaderLeft || m.id == c.leader
		c.rebalanceDirt = true
		return true
	})
	if leaderLeft {
		c.leader = ""
		if len(c.order) > 0 {
			c.leader = c.order[0].id
		}
	}
}

// update gives a member what a new JoinGroup of it says; done is that request.
func (c *classicGroup) update(m *classicMember, q *kmsg.JoinGroupRequest, done func(*kmsg.JoinGroupResponse)) {
	c.count(m, -1)
	m.protocols = q.Protocols
	c.count(m, 1)
	m.rebalanceTimeout, m.sessionTimeout = rebalanceTimeout(q), sessionTimeout(q)
	c.rebalanceDirt = true
	if m.awaitsJoin == nil {
		c.awaitingJoin++
	} else {
		// The client has given up on its earlier request (KAFKA: the future is
		// replaced); it is still to be answered, on whatever connection.
		c.answerJoin(m, joinError(m.id, kerr.RebalanceInProgress))
		c.awaitingJoin++
	}
	m.awaitsJoin = done
}

// replaceStatic gives the place of a static member to a new id, and returns the
// member. What the old id waits for is answered FENCED_INSTANCE_ID.
func (c *classicGroup) replaceStatic(m *classicMember, id string) {
	c.answerJoin(m, joinError(m.id, kerr.FencedInstanceID))
	c.answerSync(m, syncError(kerr.FencedInstanceID))
	c.rename(m, id)
}

// rename changes a member's id.
func (c *classicGroup) rename(m *classicMember, id string) {
	delete(c.members, m.id)
	if c.leader == m.id {
		c.leader = id
	}
	m.id = id
	c.members[id] = m
}

// longestRebalance is the longest rebalance timeout of a member.
func (c *classicGroup) longestRebalance() time.Duration {
	if c.rebalanceDirt {
		c.rebalanceDirt = false
		c.rebalanceMax = 0
		for _, m := range c.order {
			c.rebalanceMax = max(c.rebalanceMax, m.rebalanceTimeout)
		}
	}
	return c.rebalanceMax
}

// allJoined says that nobody is waited for.
func (c *classicGroup) allJoined() bool {
	return len(c.members) == c.awaitingJoin && len(c.pendingJoin) == 0
}

// supports says whether a member of this kind that knows these protocols can be
// one: in an empty group if there are any, else if there is one that all know.
func (c *classicGroup) supports(kind string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if c.state == classicEmpty {
		return kind != "" && len(protocols) > 0
	}
	if c.protocolKind != kind {
		return false
	}
	return slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return c.supported[p.Name] == len(c.members)
	})
}

// selectProtocol is the protocol that most members prefer among those that all
// know; among equals the one that the members who came first vote for.
func (c *classicGroup) selectProtocol() string {
	votes := make(map[string]int, len(c.supported))
	best := ""
	for _, m := range c.order {
		for i := range m.protocols {
			if name := m.protocols[i].Name; c.supported[name] == len(c.members) {
				votes[name]++
				break
			}
		}
	}
	for _, m := range c.order { // not over the map: equal votes need an order
		for i := range m.protocols {
			if name := m.protocols[i].Name; votes[name] > votes[best] {
				best = name
			}
		}
	}
	return best
}

// check says whether the member id is a member, and the instance id its own.
func (c *classicGroup) check(id string, instance *string) (*classicMember, *kerr.Error) {
	if instance != nil {
		owner := c.instances[*instance]
		if owner == nil {
			return nil, kerr.UnknownMemberID
		}
		if owner.id != id {
			return nil, kerr.FencedInstanceID
		}
	}
	m := c.members[id]
	if m == nil {
		return nil, kerr.UnknownMemberID
	}
	return m, nil
}

// same says that the member joins with what it has said before.
func (m *classicMember) same(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && string(a.Metadata) == string(b.Metadata)
	})
}

// touch begins the member's session anew.
func (c *classicGroup) touch(m *classicMember) { c.group.shard.arm(&m.session, m.sessionTimeout) }

// readTopics reads what the members are subscribed to, if they are consumers
// (ClassicGroup.computeSubscribedTopics).
func (c *classicGroup) readTopics() {
	c.topics, c.topicsKnown = nil, false
	if c.protocolKind != consumerProtocolType {
		return
	}
	if len(c.members) > 0 && !c.hasProtocol {
		return
	}
	topics := make(map[string]struct{})
	for _, m := range c.order {
		if !readSubscription(m.metadata(c.protocolName), topics) {
			return
		}
	}
	c.topics, c.topicsKnown = topics, true
}
