package group

import (
	"maps"
	"slices"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetFetch serves v1–v10: one group before v8, many from then on; topics by
// id from v10. A group that does not exist has no offsets, which is no error. It
// never waits.
func (c *Coordinator) OffsetFetch(q *kmsg.OffsetFetchRequest, _ Client) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if q.Version < 8 {
		c.fetchOne(q, resp)
		return resp
	}
	resp.Groups = make([]kmsg.OffsetFetchResponseGroup, len(q.Groups))
	for i := range q.Groups {
		c.fetchGroup(q.Version, &q.Groups[i], &resp.Groups[i])
	}
	return resp
}

// fetchOne serves v1–v7 by what serves v9. Before v2 there is no error of the
// group, only of partitions.
func (c *Coordinator) fetchOne(q *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse) {
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group, asked.MemberEpoch = q.Group, -1
	if q.Topics != nil || q.Version < 2 {
		asked.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(q.Topics))
		for i := range q.Topics {
			asked.Topics[i].Topic, asked.Topics[i].Partitions = q.Topics[i].Topic, q.Topics[i].Partitions
		}
	}
	var out kmsg.OffsetFetchResponseGroup
	c.fetchGroup(q.Version, &asked, &out)
	resp.ErrorCode = out.ErrorCode
	if out.ErrorCode != 0 {
		out.Topics = failedTopics(asked.Topics, out.ErrorCode, q.Version)
	}
	resp.Topics = make([]kmsg.OffsetFetchResponseTopic, len(out.Topics))
	for i := range out.Topics {
		t := &out.Topics[i]
		resp.Topics[i].Topic = t.Topic
		resp.Topics[i].Partitions = make([]kmsg.OffsetFetchResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			resp.Topics[i].Partitions[j] = kmsg.OffsetFetchResponseTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
			}
		}
	}
}

// failedTopics is what an old client is told where the whole group has an error:
// from v2 there are no topics beside it (OffsetFetchResponse.groupError).
func failedTopics(topics []kmsg.OffsetFetchRequestGroupTopic, code, version int16) []kmsg.OffsetFetchResponseGroupTopic {
	if version >= 2 {
		return nil
	}
	out := make([]kmsg.OffsetFetchResponseGroupTopic, len(topics))
	for i := range topics {
		out[i].Topic = topics[i].Topic
		out[i].Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(topics[i].Partitions))
		for j, p := range topics[i].Partitions {
			out[i].Partitions[j] = noOffset(p)
			out[i].Partitions[j].ErrorCode = code
		}
	}
	return out
}

// noOffset is the answer for a partition without a committed offset.
func noOffset(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	out := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	out.Partition, out.Offset, out.LeaderEpoch, out.Metadata = partition, -1, -1, new(string)
	return out
}

// fetchGroup serves one group.
func (c *Coordinator) fetchGroup(version int16, q *kmsg.OffsetFetchRequestGroup, out *kmsg.OffsetFetchResponseGroup) {
	out.Group = q.Group
	s, err := c.enter(q.Group)
	if err != nil {
		out.ErrorCode = err.Code
		return
	}
	defer s.leave()
	g := s.group(q.Group)
	if g != nil && g.protocol != nil && version >= offsetsMemberEpoch {
		if err := g.protocol.checkFetch(q.MemberID, q.MemberEpoch); err != nil {
			out.ErrorCode = err.Code
			return
		}
	}
	if g == nil {
		if version >= offsetsMemberEpoch && q.MemberID != nil && q.MemberEpoch >= 0 {
			out.ErrorCode = kerr.GroupIDNotFound.Code
			return
		}
		g = &group{}
	}
	im := c.config.Image()
	if q.Topics == nil {
		out.Topics = g.fetchAll(im, version)
		return
	}
	out.Topics = make([]kmsg.OffsetFetchResponseGroupTopic, len(q.Topics))
	for i := range q.Topics {
		g.fetchTopic(im, version, &q.Topics[i], &out.Topics[i])
	}
}

// fetchTopic answers the partitions of one topic that were asked for.
func (g *group) fetchTopic(im *meta.Image, version int16, q *kmsg.OffsetFetchRequestGroupTopic, out *kmsg.OffsetFetchResponseGroupTopic) {
	out.Topic, out.TopicID = q.Topic, q.TopicID
	out.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(q.Partitions))
	name, id := q.Topic, record.TopicID{}
	unknown := false
	if version >= offsetsTopicIDs {
		id = q.TopicID
		t := im.TopicsByID[id]
		if unknown = t == nil; !unknown {
			name = t.Name
		}
	}
	for i, p := range q.Partitions {
		out.Partitions[i] = noOffset(p)
		if unknown {
			out.Partitions[i].ErrorCode = kerr.UnknownTopicID.Code
		} else if o, ok := g.offsets.get(name, p); ok && o.of(id) {
			o.fill(&out.Partitions[i])
		}
	}
}

// fetchAll answers all that the group has committed. By id, what was committed
// for a topic that is gone is not told.
func (g *group) fetchAll(im *meta.Image, version int16) []kmsg.OffsetFetchResponseGroupTopic {
	out := make([]kmsg.OffsetFetchResponseGroupTopic, 0, len(g.offsets.topics))
	for _, name := range slices.Sorted(maps.Keys(g.offsets.topics)) {
		topic := kmsg.OffsetFetchResponseGroupTopic{Topic: name}
		id := record.TopicID{}
		if version >= offsetsTopicIDs {
			t := im.Topics[name]
			if t == nil {
				continue
			}
			id = t.ID
			topic.TopicID = id
		}
		for _, p := range g.offsets.partitions(name) {
			if o, _ := g.offsets.get(name, p); o.of(id) {
				part := noOffset(p)
				o.fill(&part)
				topic.Partitions = append(topic.Partitions, part)
			}
		}
		out = append(out, topic)
	}
	return out
}

// of says that the offset was not committed for another topic of the same name
// that is gone; zero stands for any.
func (o *offset) of(id record.TopicID) bool {
	return id.IsZero() || o.topicID.IsZero() || o.topicID == id
}

// fill puts the offset into an answer.
func (o *offset) fill(out *kmsg.OffsetFetchResponseGroupTopicPartition) {
	out.Offset, out.LeaderEpoch, out.Metadata = o.offset, int32(o.leaderEpoch), &o.metadata
}
