package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// heartbeatMemberIDs is the version of ConsumerGroupHeartbeat from which clients
// make their member ids themselves.
const heartbeatMemberIDs = 1

// refusal is an error and what a client is told about it; nil is none.
type refusal struct {
	code   *kerr.Error
	reason string
}

func refuse(code *kerr.Error, format string, args ...any) *refusal {
	return &refusal{code: code, reason: fmt.Sprintf(format, args...)}
}

// ConsumerGroupHeartbeat serves v0–v1: a member joins (epoch 0), stays, says what
// it is subscribed to and what it owns, hears what it is to own, and leaves
// (epochs −1 and −2). done is called when what has changed is written.
func (c *Coordinator) ConsumerGroupHeartbeat(q *kmsg.ConsumerGroupHeartbeatRequest, from Client, done func(*kmsg.ConsumerGroupHeartbeatResponse)) {
	settings := c.config.Settings()
	if !c.consumerEnabled() {
		done(heartbeatError(&refusal{code: kerr.UnsupportedVersion, reason: kerr.UnsupportedVersion.Description}))
		return
	}
	if err := checkHeartbeat(q, settings); err != nil {
		done(heartbeatError(err))
		return
	}
	s, err := c.enter(q.Group)
	if err != nil {
		done(heartbeatError(&refusal{code: err, reason: err.Description}))
		return
	}
	s.consumerHeartbeat(q, from, func(resp *kmsg.ConsumerGroupHeartbeatResponse) { s.answer(func() { done(resp) }) })
	s.leave()
}

// checkHeartbeat checks what can be told from the request alone
// (GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid).
func checkHeartbeat(q *kmsg.ConsumerGroupHeartbeatRequest, settings *Settings) *refusal {
	invalid := func(reason string) *refusal { return &refusal{code: kerr.InvalidRequest, reason: reason} }
	switch {
	case q.MemberID == "" && (q.Version >= heartbeatMemberIDs || q.MemberEpoch > 0 || q.MemberEpoch == epochLeave):
		return invalid("MemberId can't be empty.")
	case q.Group == "":
		return invalid("GroupId can't be empty.")
	case q.InstanceID != nil && *q.InstanceID == "":
		return invalid("InstanceId can't be empty.")
	case q.RackID != nil && *q.RackID == "":
		return invalid("RackId can't be empty.")
	case q.MemberEpoch == epochJoin && q.RebalanceTimeoutMillis == -1:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case q.MemberEpoch == epochJoin && (q.Topics == nil || len(q.Topics) > 0):
		return invalid("TopicPartitions must be empty when (re-)joining.")
	case q.MemberEpoch == epochJoin && q.SubscribedTopicNames == nil && q.SubscribedTopicRegex == nil:
		return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	case q.MemberEpoch == epochLeaveStatic && q.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	case q.MemberEpoch < epochLeaveStatic:
		return invalid("MemberEpoch is invalid.")
	case len(q.MemberID) > stringMax || q.SubscribedTopicRegex != nil && len(*q.SubscribedTopicRegex) > stringMax:
		return invalid("A string is too long.")
	case q.ServerAssignor != nil && !slices.Contains(settings.ConsumerAssignors, *q.ServerAssignor):
		return refuse(kerr.UnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: %s.",
			*q.ServerAssignor, strings.Join(settings.ConsumerAssignors, ", "))
	}
	return nil
}

func heartbeatError(err *refusal) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.ErrorCode, resp.ErrorMessage = err.code.Code, &err.reason
	return resp
}

// consumerHeartbeat answers at once where nothing changes, as most heartbeats
// are, and else when it is the group's turn.
func (s *shard) consumerHeartbeat(q *kmsg.ConsumerGroupHeartbeatRequest, from Client, done func(*kmsg.ConsumerGroupHeartbeatResponse)) {
	g := s.group(q.Group)
	switch {
	case g != nil:
		if c, ok := g.protocol.(*consumerGroup); ok {
			if m := c.unchanged(q, from); m != nil {
				done(c.beat(m))
				return
			}
		}
	case q.MemberEpoch == epochLeave || q.MemberEpoch == epochLeaveStatic:
		done(heartbeatError(refuse(kerr.GroupIDNotFound, "Group %s not found.", q.Group)))
		return
	case q.MemberEpoch != epochJoin:
		done(heartbeatError(refuse(kerr.GroupIDNotFound, "Consumer group %s not found.", q.Group)))
		return
	default:
		g = s.create(q.Group)
	}
	g.whenIdle(func() {
		if g.resigned {
			done(heartbeatError(&refusal{code: kerr.NotCoordinator, reason: kerr.NotCoordinator.Description}))
			return
		}
		if err := g.consumerHeartbeat(q, from, done); err != nil {
			done(heartbeatError(err))
			s.drop(g)
		}
	})
}

// unchanged returns the member of a heartbeat that changes nothing; nil if the
// group must be looked at more closely.
func (c *consumerGroup) unchanged(q *kmsg.ConsumerGroupHeartbeatRequest, from Client) *consumerMember {
	m := c.members[q.MemberID]
	if m == nil || m.classic != nil || q.MemberEpoch <= 0 || q.MemberEpoch != m.epoch ||
		!m.reconciled(c.targetEpoch) || c.targetEpoch < c.epoch || c.image().Revision != c.seen || c.regexesDue() {
		return nil
	}
	if q.SubscribedTopicNames != nil || q.SubscribedTopicRegex != nil || q.ServerAssignor != nil ||
		q.InstanceID != nil && !samePointer(q.InstanceID, m.instance) || q.RackID != nil && !samePointer(q.RackID, m.rack) ||
		q.RebalanceTimeoutMillis != -1 && q.RebalanceTimeoutMillis != m.rebalanceTimeoutMs ||
		m.clientID != from.ClientID || m.host != from.Host {
		return nil
	}
	return m
}

// beat begins the member's session anew and answers without an assignment.
func (c *consumerGroup) beat(m *consumerMember) *kmsg.ConsumerGroupHeartbeatResponse {
	heartbeat, session, _ := c.config()
	c.group.shard.arm(&m.session, session)
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch = &m.id, m.epoch
	resp.HeartbeatIntervalMillis = int32(heartbeat.Milliseconds())
	return resp
}

// consumerHeartbeat serves a heartbeat when no write of the group is under way.
func (g *group) consumerHeartbeat(q *kmsg.ConsumerGroupHeartbeatRequest, from Client, done func(*kmsg.ConsumerGroupHeartbeatResponse)) *refusal {
	if q.MemberEpoch == epochLeave || q.MemberEpoch == epochLeaveStatic {
		c, ok := g.protocol.(*consumerGroup)
		if !ok {
			return refuse(kerr.GroupIDNotFound, "Group %s is not a consumer group.", g.id)
		}
		return c.leaveByHeartbeat(q, done)
	}
	st := &consumerStep{}
	if err := st.begin(g, q.MemberEpoch == epochJoin); err != nil {
		return err
	}
	id := q.MemberID
	if id == "" {
		id = record.NewTopicID().String() // a random UUID in Kafka's form
	}
	if err := st.checkSize(id, q.InstanceID); err != nil {
		return err
	}
	if err := st.find(id, q.InstanceID, q.MemberEpoch == epochJoin, false); err != nil {
		return err
	}
	if st.handle != nil {
		if err := checkEpoch(&st.member, q.MemberEpoch, claim(q.Topics)); err != nil {
			return err
		}
	}
	next := st.member
	next.describe(q, from)
	if err := st.subscribe(next); err != nil {
		return err
	}
	st.owns = claim(q.Topics)
	st.run()
	g.answerHeartbeat(st, q, done)
	return nil
}

// describe gives the member what a heartbeat says of it.
func (m *memberState) describe(q *kmsg.ConsumerGroupHeartbeatRequest, from Client) {
	if q.InstanceID != nil {
		m.instance = q.InstanceID
	}
	if q.RackID != nil {
		m.rack = q.RackID
	}
	if q.RebalanceTimeoutMillis != -1 {
		m.rebalanceTimeoutMs = q.RebalanceTimeoutMillis
	}
	if q.ServerAssignor != nil {
		m.assignor = q.ServerAssignor
	}
	if q.SubscribedTopicNames != nil {
		m.topics = subscriptionOf(q.SubscribedTopicNames)
	}
	if q.SubscribedTopicRegex != nil {
		m.regex = *q.SubscribedTopicRegex
	}
	m.clientID, m.host, m.classic = from.ClientID, from.Host, nil
}

// checkEpoch says whether the member may go on in the epoch that it believes to
// be in. The epoch before is accepted from a member that has no more than it is
// to have: the answer that moved it on may have been lost.
func checkEpoch(m *memberState, epoch int32, owns claim) *refusal {
	switch {
	case epoch == epochJoin:
		return nil
	case epoch > m.epoch:
		return refuse(kerr.FencedMemberEpoch, "The consumer group member has a greater member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.", epoch, m.epoch)
	case epoch < m.epoch && (epoch != m.previousEpoch || !owns.within(m.assigned)):
		return refuse(kerr.FencedMemberEpoch, "The consumer group member has a smaller member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.", epoch, m.epoch)
	}
	return nil
}

// answerHeartbeat writes what the step has changed, and answers.
func (g *group) answerHeartbeat(st *consumerStep, q *kmsg.ConsumerGroupHeartbeatRequest, done func(*kmsg.ConsumerGroupHeartbeatResponse)) {
	// A member that joins, or that tells all, is told all: it may have missed it.
	full := q.RebalanceTimeoutMillis != -1 && (q.SubscribedTopicNames != nil || q.SubscribedTopicRegex != nil) && q.Topics != nil
	tell := q.MemberEpoch == epochJoin || full || !st.next.assigned.equal(st.member.assigned)
	if st.handle != nil && st.handle.id == st.next.id {
		_, session, _ := st.c.config()
		g.shard.arm(&st.handle.session, session)
	}
	st.write(func(c *consumerGroup, err error) {
		if err != nil {
			code := appendError(err)
			done(heartbeatError(&refusal{code: code, reason: code.Description}))
			return
		}
		m := c.members[st.next.id]
		if m == nil {
			done(heartbeatError(refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", st.next.id, g.id)))
			return
		}
		if st.moved {
			c.watchRevocation(m)
		}
		g.shard.disarm(&m.rejoin) // of a member that used the classic protocol
		g.shard.disarm(&m.syncing)
		resp := c.beat(m)
		if tell {
			resp.Assignment = assignmentOf(m.assigned.assignment())
		}
		c.refreshRegexes()
		done(resp)
	})
}

func assignmentOf(a assignor.Assignment) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	out := &kmsg.ConsumerGroupHeartbeatResponseAssignment{Topics: make([]kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic, len(a))}
	for i := range a {
		out.Topics[i].TopicID, out.Topics[i].Partitions = a[i].Topic, a[i].Partitions
	}
	return out
}
