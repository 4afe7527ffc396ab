package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// checkCommit implements protocol (ClassicGroup.validateOffsetCommit): a commit
// without a generation is for groups without members alone. A commit of a member
// keeps its session alive.
func (c *classicGroup) checkCommit(q *kmsg.OffsetCommitRequest) *kerr.Error {
	if q.Generation < 0 && c.state == classicEmpty {
		return nil
	}
	if q.Generation < 0 && q.MemberID == "" && q.InstanceID == nil {
		return kerr.UnknownMemberID
	}
	m, err := c.check(q.MemberID, q.InstanceID)
	switch {
	case err != nil:
		return err
	case q.Generation != c.generation:
		return kerr.IllegalGeneration
	case c.state == classicCompleting:
		// It knows the generation, so it has joined it, and has yet to sync.
		return kerr.RebalanceInProgress
	}
	if c.state == classicStable || c.state == classicPreparing {
		c.touch(m)
	}
	return nil
}

// checkFetch implements protocol: anybody may read a classic group's offsets.
func (c *classicGroup) checkFetch(*string, int32) *kerr.Error { return nil }

// checkDelete implements protocol.
func (c *classicGroup) checkDelete() *kerr.Error {
	if c.state != classicEmpty {
		return kerr.NonEmptyGroup
	}
	return nil
}

// checkOffsetDelete implements protocol: offsets of a group whose subscriptions
// cannot be read may be in use.
func (c *classicGroup) checkOffsetDelete() *kerr.Error {
	if c.state != classicEmpty && c.protocolKind != consumerProtocolType {
		return kerr.NonEmptyGroup
	}
	return nil
}

// subscribed implements protocol.
func (c *classicGroup) subscribed(topic string) bool {
	if !c.topicsKnown {
		return c.protocolKind == consumerProtocolType
	}
	_, ok := c.topics[topic]
	return ok
}

// expiresFrom implements protocol (ClassicGroup.offsetExpirationCondition).
func (c *classicGroup) expiresFrom() (int64, bool) {
	switch {
	case c.protocolKind == "":
		return -1, true
	case c.state == classicEmpty:
		return c.stateSinceMs, true
	case c.state == classicStable && c.protocolKind == consumerProtocolType && c.topicsKnown:
		return -1, true
	}
	return 0, false
}

// tombstones implements protocol.
func (c *classicGroup) tombstones(dst []kv) []kv { return append(dst, groupTombstone(c.group.id)) }

// describe implements protocol: what members said and were assigned is told of a
// stable group alone.
func (c *classicGroup) describe(out *kmsg.DescribeGroupsResponseGroup) *kerr.Error {
	out.State, out.ProtocolType = c.stateName(), c.protocolKind
	stable := c.state == classicStable
	if stable {
		out.Protocol = c.protocolName
	}
	out.Members = make([]kmsg.DescribeGroupsResponseGroupMember, len(c.order))
	for i, m := range c.order {
		d := kmsg.NewDescribeGroupsResponseGroupMember()
		d.MemberID, d.InstanceID, d.ClientID, d.ClientHost = m.id, m.instance, m.clientID, m.host
		d.ProtocolMetadata, d.MemberAssignment = []byte{}, []byte{}
		if stable {
			d.ProtocolMetadata, d.MemberAssignment = notNil(m.metadata(c.protocolName)), notNil(m.assignment)
		}
		out.Members[i] = d
	}
	return nil
}
