package group

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupOperations is the bit field of what may be done with a group where nothing
// is forbidden: read, delete, describe, and its configs (AclEntry.supportedOperations).
const groupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// describeNotFound is the version of DescribeGroups that tells of a group that
// does not exist; before it is called Dead (KIP-1043).
const describeNotFound = 6

// DescribeGroups serves v0–v6, groups of the classic protocol alone. It never
// waits.
func (c *Coordinator) DescribeGroups(q *kmsg.DescribeGroupsRequest, _ Client) *kmsg.DescribeGroupsResponse {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(q.Groups))
	for i, id := range q.Groups {
		out := &resp.Groups[i]
		*out = kmsg.NewDescribeGroupsResponseGroup()
		out.Group = id
		c.describeGroup(q, out)
	}
	return resp
}

func (c *Coordinator) describeGroup(q *kmsg.DescribeGroupsRequest, out *kmsg.DescribeGroupsResponseGroup) {
	s, err := c.enter(out.Group)
	if err != nil {
		out.ErrorCode = err.Code
		return
	}
	defer s.leave()
	g := s.group(out.Group)
	var reason string
	switch {
	case g == nil:
		reason = fmt.Sprintf("Group %s not found.", out.Group)
	case g.protocol == nil:
		out.State = classicStateNames[classicEmpty]
	case g.protocol.describe(out) != nil:
		reason = fmt.Sprintf("Group %s is not a classic group.", out.Group)
	}
	if q.IncludeAuthorizedOperations && (reason == "" || q.Version < describeNotFound) {
		out.AuthorizedOperations = groupOperations
	}
	if reason != "" {
		out.State = classicStateNames[classicDead]
		if q.Version >= describeNotFound {
			out.ErrorCode, out.ErrorMessage = kerr.GroupIDNotFound.Code, &reason
		}
	}
}

// ListGroups serves v0–v5: all groups here, by state from v4 and by type from v5
// (KIP-518, KIP-848). Names in filters are in any case.
func (c *Coordinator) ListGroups(q *kmsg.ListGroupsRequest, _ Client) *kmsg.ListGroupsResponse {
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Groups = []kmsg.ListGroupsResponseGroup{}
	for _, s := range c.all() {
		s.mu.Lock()
		if s.state == shardLoading {
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		}
		if s.state == shardActive {
			for _, g := range s.sorted() {
				if out, ok := g.listed(q); ok {
					resp.Groups = append(resp.Groups, out)
				}
			}
		}
		s.leave()
	}
	if resp.ErrorCode != 0 {
		resp.Groups = []kmsg.ListGroupsResponseGroup{}
	}
	return resp
}

// listed is the group in a list, if the filters let it pass.
func (g *group) listed(q *kmsg.ListGroupsRequest) (kmsg.ListGroupsResponseGroup, bool) {
	out := kmsg.NewListGroupsResponseGroup()
	out.Group = g.id
	out.GroupState, out.GroupType = classicStateNames[classicEmpty], "classic"
	if g.protocol != nil {
		out.ProtocolType, out.GroupState, out.GroupType = g.protocol.protocolType(), g.protocol.stateName(), g.protocol.kind()
	}
	return out, passes(q.StatesFilter, out.GroupState) && passes(q.TypesFilter, out.GroupType)
}

// passes says whether a filter has the value; an empty filter has all.
func passes(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}

// DeleteGroups serves v0–v3: groups without members, with all their offsets. done
// is called when all are gone.
func (c *Coordinator) DeleteGroups(q *kmsg.DeleteGroupsRequest, _ Client, done func(*kmsg.DeleteGroupsResponse)) {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(q.Groups))
	var left atomic.Int64
	left.Store(int64(len(q.Groups)) + 1)
	ended := func() {
		if left.Add(-1) == 0 {
			done(resp)
		}
	}
	for i, id := range q.Groups {
		out := &resp.Groups[i]
		*out = kmsg.NewDeleteGroupsResponseGroup()
		out.Group = id
		c.deleteGroup(id, func(err *kerr.Error) {
			if err != nil {
				out.ErrorCode = err.Code
			}
			ended()
		})
	}
	ended()
}

// deleteGroup removes one group (GroupCoordinatorShard.deleteGroups).
func (c *Coordinator) deleteGroup(id string, done func(*kerr.Error)) {
	s, err := c.enter(id)
	if err != nil {
		done(err)
		return
	}
	defer s.leave()
	answer := func(err *kerr.Error) { s.answer(func() { done(err) }) }
	g := s.group(id)
	if g == nil {
		answer(kerr.GroupIDNotFound)
		return
	}
	g.whenIdle(func() {
		switch {
		case g.resigned:
			answer(kerr.NotCoordinator)
			return
		case s.group(id) != g:
			answer(kerr.GroupIDNotFound) // another has removed it
			return
		case g.protocol != nil:
			if err := g.protocol.checkDelete(); err != nil {
				answer(err)
				return
			}
		}
		g.remove(g.allTombstones(), func(err error) {
			if err != nil {
				answer(appendError(err))
				return
			}
			answer(nil)
		})
	})
}

// allTombstones removes all that the log has of the group.
func (g *group) allTombstones() []kv {
	var records []kv
	g.offsets.each(func(topic string, partition int32, _ *offset) {
		records = append(records, offsetTombstone(g.id, topic, partition))
	})
	if g.protocol == nil {
		return append(records, groupTombstone(g.id))
	}
	return g.protocol.tombstones(records)
}

// OffsetDelete serves v0: offsets of topics that no member is subscribed to. done
// is called when they are gone.
func (c *Coordinator) OffsetDelete(q *kmsg.OffsetDeleteRequest, _ Client, done func(*kmsg.OffsetDeleteResponse)) {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	fail := func(err *kerr.Error) *kmsg.OffsetDeleteResponse {
		resp.ErrorCode, resp.Topics = err.Code, nil
		return resp
	}
	if q.Group == "" {
		done(fail(kerr.InvalidGroupID))
		return
	}
	s, err := c.enter(q.Group)
	if err != nil {
		done(fail(err))
		return
	}
	defer s.leave()
	answer := func(resp *kmsg.OffsetDeleteResponse) { s.answer(func() { done(resp) }) }
	g := s.group(q.Group)
	if g == nil {
		answer(fail(kerr.GroupIDNotFound))
		return
	}
	g.whenIdle(func() {
		switch {
		case g.resigned:
			answer(fail(kerr.NotCoordinator))
			return
		case g.protocol != nil:
			if err := g.protocol.checkOffsetDelete(); err != nil {
				answer(fail(err))
				return
			}
		}
		records := g.deleteOffsets(q, resp)
		s.write(g, records, true, func(err error) {
			if err != nil {
				answer(fail(appendError(err)))
				return
			}
			answer(resp)
		})
	})
}

// deleteOffsets fills in the answer and returns the tombstones of what is there.
func (g *group) deleteOffsets(q *kmsg.OffsetDeleteRequest, resp *kmsg.OffsetDeleteResponse) []kv {
	im := g.shard.coordinator.config.Image()
	var records []kv
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(q.Topics))
	for i := range q.Topics {
		t := &q.Topics[i]
		out := &resp.Topics[i]
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p := t.Partitions[j].Partition
			out.Partitions[j].Partition = p
			switch {
			case im.Partition(record.TopicPartition{Topic: t.Topic, Partition: p}) == nil:
				out.Partitions[j].ErrorCode = kerr.UnknownTopicOrPartition.Code
			case g.protocol != nil && g.protocol.subscribed(t.Topic):
				out.Partitions[j].ErrorCode = kerr.GroupSubscribedToTopic.Code
			default:
				if _, ok := g.offsets.get(t.Topic, p); ok {
					records = append(records, offsetTombstone(g.id, t.Topic, p))
				}
			}
		}
	}
	return records
}
