package group

import (
	"fmt"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The member types of ConsumerGroupDescribe v1.
const (
	memberTypeClassic  int8 = 0
	memberTypeConsumer int8 = 1
)

// ConsumerGroupDescribe serves v0–v1, groups of the consumer protocol alone. It
// never waits.
func (c *Coordinator) ConsumerGroupDescribe(q *kmsg.ConsumerGroupDescribeRequest, _ Client) *kmsg.ConsumerGroupDescribeResponse {
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	resp.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(q.Groups))
	for i, id := range q.Groups {
		out := &resp.Groups[i]
		*out = kmsg.NewConsumerGroupDescribeResponseGroup()
		out.Group = id
		if err := c.consumerDescribe(q, out); err != nil {
			if out.ErrorCode = err.code.Code; err.reason != "" {
				out.ErrorMessage = &err.reason
			}
		}
	}
	return resp
}

func (c *Coordinator) consumerDescribe(q *kmsg.ConsumerGroupDescribeRequest, out *kmsg.ConsumerGroupDescribeResponseGroup) *refusal {
	switch {
	case !c.consumerEnabled():
		return &refusal{code: kerr.UnsupportedVersion, reason: kerr.UnsupportedVersion.Description}
	case out.Group == "":
		return &refusal{code: kerr.InvalidGroupID}
	}
	s, err := c.enter(out.Group)
	if err != nil {
		return &refusal{code: err, reason: err.Description}
	}
	defer s.leave()
	g := s.group(out.Group)
	if g == nil || g.protocol == nil && g.offsets.empty() {
		return &refusal{code: kerr.GroupIDNotFound, reason: fmt.Sprintf("Group %s not found.", out.Group)}
	}
	group, ok := g.protocol.(*consumerGroup)
	if !ok {
		return &refusal{code: kerr.GroupIDNotFound, reason: fmt.Sprintf("Group %s is not a consumer group.", out.Group)}
	}
	group.describeTo(out)
	if q.IncludeAuthorizedOperations {
		out.AuthorizedOperations = groupOperations
	}
	return nil
}

// describeTo fills in the answer.
func (c *consumerGroup) describeTo(out *kmsg.ConsumerGroupDescribeResponseGroup) {
	im := c.image()
	out.State, out.Epoch, out.AssignmentEpoch, out.AssignorName = c.stateName(), c.epoch, c.targetEpoch, c.assignorAfter()
	out.Members = make([]kmsg.ConsumerGroupDescribeResponseGroupMember, len(c.members))
	for i, m := range c.sorted() {
		d := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		d.MemberID, d.InstanceID, d.RackID, d.MemberEpoch = m.id, m.instance, m.rack, m.epoch
		d.ClientID, d.ClientHost = m.clientID, m.host
		d.SubscribedTopics, d.SubscribedTopicRegex = m.topics, &m.regex
		// What it is to give up it still has.
		d.Assignment = describeAssignment(im, m.assigned.merge(m.revoking).assignment())
		d.TargetAssignment = describeAssignment(im, c.targets[m.id])
		d.MemberType = memberTypeConsumer
		if m.classic != nil {
			d.MemberType = memberTypeClassic
		}
		out.Members[i] = d
	}
}

// describeAssignment names the topics, leaving out those that do not exist.
func describeAssignment(im *meta.Image, a assignor.Assignment) kmsg.Assignment {
	var out kmsg.Assignment
	for i := range a {
		t := im.TopicsByID[a[i].Topic]
		if t == nil {
			continue
		}
		tp := kmsg.NewAssignmentTopicPartition()
		tp.TopicID, tp.Topic, tp.Partitions = a[i].Topic, t.Name, a[i].Partitions
		out.TopicPartitions = append(out.TopicPartitions, tp)
	}
	return out
}
