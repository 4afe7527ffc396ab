package group

import (
	"fmt"
	"strconv"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The commands of scenarios that classic members and offsets are for.

func (s *scenario) join(m *scenarioMember, keys map[string]string) string {
	sub := kmsg.NewConsumerMemberMetadata()
	sub.Version, sub.Topics, sub.Generation = 1, list(keys, "topics"), m.epoch
	if keys["own"] == "same" {
		for _, t := range m.assigned {
			sub.OwnedPartitions = append(sub.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{
				Topic: s.im.TopicsByID[t.Topic].Name, Partitions: t.Partitions,
			})
		}
	}
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.ProtocolType = int16(number(keys, "v", 7)), "g", "consumer"
	q.InstanceID = optional(keys, "instance")
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 30000, number(keys, "timeout", 60000)
	if m.protocol != "" { // it has joined before
		q.MemberID = m.id
	}
	names := list(keys, "protocols")
	if names == nil {
		names = []string{"range"}
	}
	for _, name := range names {
		q.Protocols = append(q.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: sub.AppendTo(nil)})
	}
	var got *kmsg.JoinGroupResponse
	answered := false
	s.c.JoinGroup(q, labClient, func(r *kmsg.JoinGroupResponse) {
		got, answered = r, true
		s.joined(m, r)
	})
	s.settle()
	if !answered {
		return "no answer yet"
	}
	if codeName(got.ErrorCode) == "MEMBER_ID_REQUIRED" {
		m.protocol = "?"
		return s.join(m, keys)
	}
	if got.ErrorCode != 0 {
		return codeName(got.ErrorCode)
	}
	leads := ""
	if got.LeaderID == got.MemberID {
		leads = fmt.Sprintf(" leads %d", len(got.Members))
	}
	return fmt.Sprintf("generation %d %s%s", got.Generation, valueOf(got.Protocol), leads)
}

// joined notes what a JoinGroup, maybe one that waited, was answered.
func (s *scenario) joined(m *scenarioMember, r *kmsg.JoinGroupResponse) {
	if r.MemberID != "" {
		m.id = r.MemberID
	}
	if r.ErrorCode == 0 {
		m.epoch, m.protocol = r.Generation, valueOf(r.Protocol)
	}
}

func (s *scenario) classic(command string, m *scenarioMember, keys map[string]string) string {
	switch command {
	case "heartbeat":
		q := kmsg.NewPtrHeartbeatRequest()
		q.Version, q.Group, q.MemberID, q.Generation, q.InstanceID = 4, "g", m.id, m.epoch, optional(keys, "instance")
		return codeName(s.c.Heartbeat(q, labClient).ErrorCode)
	case "leave":
		q := kmsg.NewPtrLeaveGroupRequest()
		q.Version, q.Group = 5, "g"
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID, member.InstanceID = m.id, optional(keys, "instance")
		q.Members = append(q.Members, member)
		out := "no answer yet"
		s.c.LeaveGroup(q, labClient, func(r *kmsg.LeaveGroupResponse) {
			out = codeName(r.ErrorCode)
			if r.ErrorCode == 0 {
				out = codeName(r.Members[0].ErrorCode)
			}
		})
		s.settle()
		return out
	}
	q := kmsg.NewPtrSyncGroupRequest()
	kind := consumerProtocolType
	q.Version, q.Group, q.MemberID, q.Generation, q.InstanceID = 5, "g", m.id, m.epoch, optional(keys, "instance")
	q.ProtocolType, q.Protocol = &kind, &m.protocol
	if to, ok := keys["give"]; ok { // the leader gives itself partitions 0… of this topic
		topic := s.im.Topics[to]
		a := assignor.Assignment{{Topic: topic.ID}}
		for p := range topic.Partitions {
			a[0].Partitions = append(a[0].Partitions, int32(p))
		}
		q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
			MemberID: m.id, MemberAssignment: consumerAssignment(s.im, a, []byte{0, 0, 0, 0, 0, 0, 255, 255, 255, 255}),
		})
	}
	var got *kmsg.SyncGroupResponse
	s.c.SyncGroup(q, labClient, func(r *kmsg.SyncGroupResponse) { got = r })
	s.settle()
	switch {
	case got == nil:
		return "no answer yet"
	case got.ErrorCode != 0:
		return codeName(got.ErrorCode)
	}
	m.assigned = nil
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(got.MemberAssignment); err != nil && len(got.MemberAssignment) > 0 {
		s.t.Fatal(err)
	}
	for _, t := range a.Topics {
		m.assigned = append(m.assigned, assignor.TopicPartitions{Topic: s.im.Topics[t.Topic].ID, Partitions: t.Partitions})
	}
	m.assigned = sortedAssignment(m.assigned)
	return "gets " + s.named(m.assigned)
}

func (s *scenario) commit(m *scenarioMember, topic, partition string, keys map[string]string) string {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.MemberID, q.Generation = int16(number(keys, "v", 9)), "g", m.id, number(keys, "epoch", m.epoch)
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	n, _ := strconv.Atoi(partition)
	p.Partition, p.Offset = int32(n), 7
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	out := "no answer yet"
	s.c.OffsetCommit(q, labClient, func(r *kmsg.OffsetCommitResponse) { out = codeName(r.Topics[0].Partitions[0].ErrorCode) })
	s.settle()
	return out
}

func (s *scenario) fetch(m *scenarioMember, keys map[string]string) string {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version = 9
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberID, g.MemberEpoch = "g", &m.id, number(keys, "epoch", m.epoch)
	q.Groups = append(q.Groups, g)
	r := s.c.OffsetFetch(q, labClient).Groups[0]
	if r.ErrorCode != 0 {
		return codeName(r.ErrorCode)
	}
	out := ""
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			out += fmt.Sprintf("%s-%d@%d ", t.Topic, p.Partition, p.Offset)
		}
	}
	return out
}
