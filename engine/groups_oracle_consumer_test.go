package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Stories of the consumer protocol (KIP-848) and of groups that change protocols,
// told by TestGroupAnswersAreKafkas.

// uuidOf is the member id that a member makes itself: always the same.
func (s *groupStory) uuidOf(who string) string {
	if s.ids[who] == "" {
		s.ids[who] = fmt.Sprintf("%s-00000000-0000-0000-0000-%012x", who, len(s.ids)+1)
	}
	return s.ids[who]
}

// beat is a heartbeat that says nothing, but to join with epoch 0.
func (s *groupStory) beat(who string, epoch int32, change ...func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, s.topic, s.uuidOf(who), epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis = 10_000
		req.SubscribedTopicNames = []string{s.topic}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	for _, c := range change {
		c(req)
	}
	return req
}

// beats asks with a heartbeat and returns the answer.
func (s *groupStory) beats(who string, epoch int32, change ...func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
	resp, _ := s.ask(who, s.beat(who, epoch, change...)).(*kmsg.ConsumerGroupHeartbeatResponse)
	if resp == nil {
		s.Fatal("no answer to a heartbeat")
	}
	return resp
}

// until has a member say the same again until its answer is as wanted, which is
// noted alone: assignments are made once a second.
func (s *groupStory) until(who string, req kmsg.Request, wanted func(kmsg.Response) bool) kmsg.Response {
	for deadline := time.Now().Add(clientTimeout); ; time.Sleep(50 * time.Millisecond) {
		resp := s.ask(who, req)
		if wanted(resp) {
			return resp
		}
		if time.Now().After(deadline) {
			s.Errorf("%s: what is waited for does not come:\n%s", who, s.out.String())
			return resp
		}
		s.dropLast()
	}
}

// reaches waits for a member epoch.
func reaches(epoch int32) func(kmsg.Response) bool {
	return func(r kmsg.Response) bool {
		resp, ok := r.(*kmsg.ConsumerGroupHeartbeatResponse)
		return ok && (resp.MemberEpoch >= epoch || resp.ErrorCode != 0)
	}
}

// has says that a member owns what an answer assigned to it.
func has(a *kmsg.ConsumerGroupHeartbeatResponseAssignment) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if a == nil {
			return
		}
		for _, t := range a.Topics {
			r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.TopicID, Partitions: t.Partitions})
		}
	}
}

func instance(name string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &name }
}

func topics(names ...string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = append([]string{}, names...) }
}

func regex(x string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &x }
}

func serverAssignor(name string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = &name }
}

func rack(name string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = &name }
}

// described notes ConsumerGroupDescribe of groups.
func (s *groupStory) described(version int16, groups ...string) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Version, req.Groups, req.IncludeAuthorizedOperations = version, groups, true
	s.ask("", req)
}

// everywhere notes the group as each of the admin's requests has it.
func (s *groupStory) everywhere() {
	s.described(1, s.topic)
	s.ask("", s.describe(6, s.topic))
	s.ask("", s.describe(5, s.topic))
	s.list(5, nil, nil)
}

// subscribedTo is a JoinGroup protocol of a consumer of the story's topic.
func (s *groupStory) classicJoin(who string, owned ...int32) *kmsg.JoinGroupRequest {
	req := s.join(9, who)
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics = 1, []string{s.topic}
	if len(owned) > 0 {
		meta.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: s.topic, Partitions: owned}}
	}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: meta.AppendTo(nil)}}
	return req
}

// joinsClassic has a member join by JoinGroup, in both steps.
func (s *groupStory) joinsClassic(who string) *kmsg.JoinGroupResponse {
	resp := s.ask(who, s.classicJoin(who)).(*kmsg.JoinGroupResponse)
	if resp.ErrorCode == kerr.MemberIDRequired.Code {
		s.name(who, resp.MemberID)
		resp = s.ask(who, s.classicJoin(who)).(*kmsg.JoinGroupResponse)
	}
	s.name(who, resp.MemberID)
	return resp
}

func init() { groupQuestions = slices.Concat(groupQuestions, consumerQuestions, migrationQuestions) }

var consumerQuestions = slices.Concat(
	versions("consumer: what is wrong", 0, 1, func(s *groupStory, v int16) {
		type change = func(*kmsg.ConsumerGroupHeartbeatRequest)
		for _, c := range []change{
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "", 1 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "", -1 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "", -2 },
			instance(""), rack(""),
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = 0 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -5 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: [16]byte{1}, Partitions: []int32{0}}}
			},
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -1 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 3 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch, r.InstanceID = -2, kmsg.StringPtr("i") },
			serverAssignor("best"), serverAssignor(""), serverAssignor("Range"),
		} {
			s.ask("a", s.beat("a", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Version = v }, c))
		}
		if v > 0 {
			s.ask("a", s.beat("a", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }))
		}
		// The same to a group that is there.
		s.beats("a", 0)
		for _, c := range []change{
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 3 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "nobody", 1 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "nobody", -1 },
			func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				r.MemberID, r.MemberEpoch, r.InstanceID = "nobody", 1, kmsg.StringPtr("i")
			},
			func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				r.MemberID, r.MemberEpoch, r.InstanceID = "nobody", -2, kmsg.StringPtr("i")
			},
		} {
			s.ask("a", s.beat("a", 4, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Version = v }, c))
		}
		s.everywhere()
	}),
	[]groupQuestion{
		{"consumer: a life", func(s *groupStory) {
			s.described(0, s.topic, "unknown", "")
			r := s.beats("a", 0)
			s.everywhere()
			s.beats("a", r.MemberEpoch, has(r.Assignment))
			s.beats("a", r.MemberEpoch)
			s.beats("a", r.MemberEpoch, rack("r"))
			s.beats("a", r.MemberEpoch, topics(s.topic), has(r.Assignment), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = 10_000 })
			s.ask("a", s.commit(9, "a", r.MemberEpoch, nil))
			s.ask("a", s.commit(10, "a", r.MemberEpoch, nil))
			s.ask("a", s.commit(8, "a", r.MemberEpoch, nil))
			s.ask("a", s.commit(9, "a", r.MemberEpoch-1, nil))
			s.ask("a", s.commit(9, "a", r.MemberEpoch+1, nil))
			s.ask("a", s.commit(9, "a", -1, nil))
			s.ask("a", s.commit(9, "nobody", r.MemberEpoch, nil))
			s.ask("a", s.commit(9, "nobody", -1, nil))
			s.ask("a", s.heartbeat(4, "a", r.MemberEpoch))
			s.ask("a", s.sync(5, "a", r.MemberEpoch))
			s.ask("a", s.deleteGroups(2, s.topic))
			s.ask("a", s.deleteOffsets(s.topic, 0, 1))
			for _, epoch := range []int32{r.MemberEpoch, r.MemberEpoch + 1, -1} {
				f := s.fetchOffsets(9, s.topic, 0, 1)
				f.Groups[0].MemberID, f.Groups[0].MemberEpoch = kmsg.StringPtr(s.ids["a"]), epoch
				s.ask("a", f)
			}
			s.beats("a", -1)
			s.everywhere()
			s.list(5, []string{"empty"}, []string{"Consumer"})
			s.list(5, []string{"Empty"}, []string{"classic"})
			s.beats("a", -1)
			s.beats("a", 1)
			s.ask("a", s.deleteGroups(2, s.topic))
			s.everywhere()
		}},
		{"consumer: two members", func(s *groupStory) {
			a := s.beats("a", 0)
			s.beats("b", 0)
			s.until("a", s.beat("a", a.MemberEpoch, has(a.Assignment)), func(r kmsg.Response) bool { return r.(*kmsg.ConsumerGroupHeartbeatResponse).Assignment != nil })
			s.everywhere()
			next := s.until("a", s.beat("a", a.MemberEpoch, has(nil)), reaches(a.MemberEpoch+1)).(*kmsg.ConsumerGroupHeartbeatResponse)
			s.beats("a", a.MemberEpoch, has(a.Assignment)) // too old, with too much
			s.beats("a", a.MemberEpoch, has(nil))
			s.ask("a", s.commit(9, "a", a.MemberEpoch, nil))
			s.until("b", s.beat("b", a.MemberEpoch), func(r kmsg.Response) bool { return r.(*kmsg.ConsumerGroupHeartbeatResponse).Assignment != nil })
			s.ask("b", s.commit(9, "b", a.MemberEpoch, nil))
			s.ask("b", s.commit(9, "b", next.MemberEpoch, nil))
			s.everywhere()
			leave := s.leave(5, "b")
			s.ask("x", leave)
			s.until("a", s.beat("a", next.MemberEpoch), reaches(next.MemberEpoch+1))
			s.everywhere()
		}},
		{"consumer: subscriptions", func(s *groupStory) {
			s.beats("a", 0, topics("none-"+s.topic))
			s.described(1, s.topic)
			s.beats("a", 2, topics(s.topic))
			s.until("a", s.beat("a", 2, topics(s.topic)), reaches(3))
			s.beats("a", 3, topics(s.topic, s.topic))
			s.described(1, s.topic)
			s.beats("a", 3, topics())
			s.until("a", s.beat("a", 3), reaches(4))
			s.described(1, s.topic)
			s.beats("a", 4, serverAssignor("range"))
			s.until("a", s.beat("a", 4), reaches(5))
			s.described(1, s.topic)
			s.beats("a", 5, serverAssignor("uniform"))
			s.until("a", s.beat("a", 5), reaches(6))
			s.described(1, s.topic)
		}},
		{"consumer: expressions", func(s *groupStory) {
			for _, x := range []string{"(", "[a", "a**", "(?=x)", `\8`, "x{2,1}", "(?P<n"} {
				s.beats("a", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }, regex(x))
			}
			s.described(1, s.topic)
			s.beats("a", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }, regex(s.topic+".*"))
			got := func(r kmsg.Response) bool {
				a := r.(*kmsg.ConsumerGroupHeartbeatResponse).Assignment
				return a != nil && len(a.Topics) > 0
			}
			full := func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				r.RebalanceTimeoutMillis, r.Topics = 10_000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
				r.SubscribedTopicRegex = kmsg.StringPtr(s.topic + ".*")
			}
			req := s.beat("a", 2, full)
			s.until("a", req, func(r kmsg.Response) bool {
				req.MemberEpoch = r.(*kmsg.ConsumerGroupHeartbeatResponse).MemberEpoch
				return got(r)
			})
			s.everywhere()
			s.beats("a", req.MemberEpoch, regex(""))
			s.described(1, s.topic)
		}},
		{"consumer: static members", func(s *groupStory) {
			s.beats("a", 0, instance("i"))
			s.beats("b", 0, instance("i")) // not released
			// That a itself joins again is accepted here, where Kafka refuses it: the
			// answer to its first heartbeat may have been lost.
			s.beats("a", 2) // without its instance
			s.beats("b", 2, instance("i"))
			s.beats("b", -2, instance("i"))
			s.beats("a", -2, instance("j"))
			s.beats("a", -2, instance("i"))
			s.everywhere()
			s.beats("a", 2, instance("i"))
			s.beats("b", 0, instance("i"), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{s.topic} })
			s.everywhere()
			s.beats("a", 2, instance("i"))
			s.beats("b", 2, instance("i"))
			s.beats("b", -1, instance("i"))
			s.everywhere()
		}},
	},
)

var migrationQuestions = []groupQuestion{
	{"migration: to an empty group", func(s *groupStory) {
		// Offsets alone, then the consumer protocol, then classic, and back.
		s.ask("", s.commit(7, "nobody", -1, nil))
		s.beats("a", 0)
		s.beats("a", -1)
		s.everywhere()
		r := s.joinsClassic("c")
		s.ask("c", s.sync(5, "c", r.Generation, "c"))
		s.everywhere()
		s.beats("d", 1)
		s.beats("d", -1)
		s.ask("c", s.leave(5, "c"))
		s.everywhere()
		s.beats("b", 0)
		s.everywhere()
		s.ask("", s.fetchOffsets(7, s.topic, 1))
	}},
	{"migration: a consumer joins a classic group, and leaves", func(s *groupStory) {
		r := s.joinsClassic("c")
		sync := s.sync(5, "c", r.Generation)
		a := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: s.topic, Partitions: []int32{0, 1}}}}
		sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: s.ids["c"], MemberAssignment: a.AppendTo(nil)}}
		s.ask("c", sync)
		first := s.beats("a", 0)
		s.everywhere()
		s.ask("c", s.heartbeat(4, "c", r.Generation))
		s.ask("c", s.heartbeat(4, "c", r.Generation+5))
		join := s.ask("c", s.classicJoin("c")).(*kmsg.JoinGroupResponse)
		s.ask("c", s.sync(5, "c", join.Generation))
		s.ask("c", s.sync(5, "c", join.Generation+1))
		s.ask("c", s.commit(9, "c", join.Generation, nil))
		s.ask("c", s.commit(5, "c", join.Generation, nil))
		s.ask("c", s.commit(5, "c", join.Generation+1, nil))
		s.ask("c", s.heartbeat(4, "c", join.Generation))
		s.until("a", s.beat("a", first.MemberEpoch), func(r kmsg.Response) bool {
			a := r.(*kmsg.ConsumerGroupHeartbeatResponse).Assignment
			return a != nil && len(a.Topics) > 0
		})
		s.everywhere()
		s.beats("c", join.Generation)
		other := s.join(9, "e")
		other.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "other", Metadata: []byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}}}
		s.ask("e", other)
		s.beats("a", -1)
		s.everywhere()
		s.ask("c", s.heartbeat(4, "c", join.Generation))
		back := s.joinsClassic("c")
		s.ask("c", s.sync(5, "c", back.Generation, "c"))
		s.ask("c", s.leave(5, "c"))
		s.everywhere()
	}},
	{"migration: refused", func(s *groupStory) {
		req := s.join(5, "c", "x:y")
		req.ProtocolType = "connect"
		r := s.ask("c", req).(*kmsg.JoinGroupResponse)
		s.name("c", r.MemberID)
		req.MemberID = r.MemberID
		s.ask("c", req)
		s.beats("a", 0)
		s.ask("c", s.leave(5, "c"))
		s.everywhere()
	}},
	{"migration: data of an assignor's own", func(s *groupStory) {
		r := s.joinsClassic("c")
		sync := s.sync(5, "c", r.Generation)
		a := kmsg.ConsumerMemberAssignment{UserData: []byte("mine")}
		sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: s.ids["c"], MemberAssignment: a.AppendTo(nil)}}
		s.ask("c", sync)
		s.beats("a", 0)
		s.everywhere()
	}},
	{"migration: a classic member joins a consumer group", func(s *groupStory) {
		s.beats("a", 0)
		r := s.joinsClassic("c")
		s.ask("c", s.sync(5, "c", r.Generation))
		s.ask("c", s.heartbeat(4, "c", r.Generation))
		s.described(1, s.topic)
		s.ask("c", s.leave(5, "c"))
		s.described(1, s.topic)
		stranger := s.classicJoin("c")
		stranger.MemberID = strings.Repeat("s", 8)
		s.ask("c", stranger)
		kind := s.classicJoin("c")
		kind.ProtocolType = "connect"
		s.ask("c", kind)
		kind = s.classicJoin("c")
		kind.Protocols[0].Metadata = []byte{1}
		s.ask("c", kind)
	}},
}
