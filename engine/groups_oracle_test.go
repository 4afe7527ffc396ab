package engine

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestGroupAnswersAreKafkas is TestAnswersAreKafkas for groups: each question is a
// small story, told to both, whose answers are compared whole.
func TestGroupAnswersAreKafkas(t *testing.T) {
	addr := os.Getenv(oracle)
	if addr == "" {
		t.Skipf("%s does not name an Apache Kafka 4.4 to compare with", oracle)
	}
	ours := startBroker(t, brokerOptions{properties: map[string]string{"group.initial.rebalance.delay.ms": "0"}})
	seed := rand.Uint32()
	for i, q := range groupQuestions {
		t.Run(q.name, func(t *testing.T) {
			topic := fmt.Sprintf("oracle-%08x-%d", seed, i)
			answers := make([]string, 2)
			for j, broker := range []string{addr, ours.addr} {
				s := &groupStory{TB: t, addr: broker, topic: topic, conns: map[string]*client{}, ids: map[string]string{}}
				s.conn("").makeTopic(topic)
				s.findCoordinator()
				q.tell(s)
				for _, c := range s.conns {
					c.net.Close()
				}
				answers[j] = s.out.String()
			}
			if answers[0] != answers[1] {
				t.Errorf("seed %08x\nKafka:\n%sours:\n%s", seed, answers[0], answers[1])
			}
		})
	}
}

// groupStory is a run of one story with one broker.
type groupStory struct {
	testing.TB
	addr, topic string
	conns       map[string]*client
	ids         map[string]string // member ids, by the name that they were given
	out         strings.Builder
}

// conn is the connection of a member.
func (s *groupStory) conn(name string) *client {
	if s.conns[name] == nil {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			s.Fatal(err)
		}
		s.conns[name] = &client{TB: s.TB, net: c}
	}
	return s.conns[name]
}

func (s *groupStory) findCoordinator() {
	for deadline := time.Now().Add(clientTimeout); ; time.Sleep(20 * time.Millisecond) {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKey = 2, s.topic
		list := kmsg.NewPtrListGroupsRequest()
		list.Version = 3
		describe := kmsg.NewPtrDescribeGroupsRequest()
		describe.Version, describe.Groups = 3, []string{s.topic}
		c := s.conn("")
		if c.ask(find).(*kmsg.FindCoordinatorResponse).ErrorCode == 0 &&
			c.ask(list).(*kmsg.ListGroupsResponse).ErrorCode == 0 &&
			c.ask(describe).(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.Fatal("no coordinator")
		}
	}
}

// memberID is what a broker puts behind a client's name.
var memberID = regexp.MustCompile(`(test|[a-z]+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\btest-[A-Za-z0-9_-]{22}\b`)

// bareMemberID is a member id that a broker made of nothing else, for a member of
// a consumer group.
var bareMemberID = regexp.MustCompile(bareMemberIDField + `[A-Za-z0-9_-]{22}"`)

const bareMemberIDField = `"MemberID":"`

// note writes down what a broker said, without what may differ.
func (s *groupStory) note(who string, resp kmsg.Response, otherwise string) {
	if resp == nil {
		fmt.Fprintf(&s.out, "%s: %s\n", who, otherwise)
		return
	}
	raw, err := json.Marshal(resp)
	if err != nil {
		s.Fatal(err)
	}
	text := strings.ReplaceAll(string(raw), s.topic, "T")
	text = memberID.ReplaceAllStringFunc(text, s.nameOf)
	text = bareMemberID.ReplaceAllStringFunc(text, func(field string) string {
		return bareMemberIDField + s.nameOf(strings.Trim(strings.TrimPrefix(field, bareMemberIDField), `"`)) + `"`
	})
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		s.Fatal(err)
	}
	if raw, err = json.Marshal(sortLists(value)); err != nil {
		s.Fatal(err)
	}
	text = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(raw))
	fmt.Fprintf(&s.out, "%s: %T %s\n", who, resp, text)
}

// nameOf is what stands for a member id: the member's name, or a new one.
func (s *groupStory) nameOf(id string) string {
	for name, known := range s.ids {
		if known == id {
			return "<" + name + ">"
		}
	}
	name := fmt.Sprint("new", len(s.ids))
	s.ids[name] = id
	return "<" + name + ">"
}

// sortLists puts lists of objects in an order of their own: Kafka's is often that
// of a hash map. Versions and throttle times are left out, as is what says where.
func sortLists(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			switch k {
			case "Version", "UnknownTags", "ThrottleMillis", "Host", "Port", "NodeID":
				delete(v, k)
				continue
			case "TopicID":
				v[k] = fmt.Sprint(v[k]) != fmt.Sprint(make([]any, 16)) && !strings.Contains(fmt.Sprint(v[k]), "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0")
				continue
			}
			v[k] = sortLists(v[k])
		}
	case []any:
		for i := range v {
			v[i] = sortLists(v[i])
		}
		slices.SortFunc(v, func(a, b any) int {
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			return strings.Compare(string(x), string(y))
		})
	}
	return v
}

// ask sends a member's request and notes the answer.
func (s *groupStory) ask(who string, req kmsg.Request) kmsg.Response {
	resp, otherwise := s.conn(who).try(req)
	s.note(who, resp, otherwise)
	return resp
}

// send sends a request whose answer receive notes.
func (s *groupStory) send(who string, req kmsg.Request) func() kmsg.Response {
	c := s.conn(who)
	c.send(req)
	return func() kmsg.Response {
		resp := c.receive(req)
		s.note(who, resp, "")
		return resp
	}
}

// join is a JoinGroup of a member; protocols are name:metadata.
func (s *groupStory) join(version int16, who string, protocols ...string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType, req.MemberID = version, s.topic, "consumer", s.ids[who]
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	for _, p := range protocols {
		name, metadata, _ := strings.Cut(p, ":")
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: subscription(metadata)})
	}
	return req
}

// subscription is the metadata of a consumer: version 0, one topic, user data.
func subscription(data string) []byte {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics, meta.UserData = []string{"subscribed"}, []byte(data)
	return meta.AppendTo(nil)
}

// joined lets a member join, in both steps where there are two.
func (s *groupStory) joined(version int16, who string, protocols ...string) *kmsg.JoinGroupResponse {
	resp, _ := s.ask(who, s.join(version, who, protocols...)).(*kmsg.JoinGroupResponse)
	if resp != nil && resp.ErrorCode == kerr.MemberIDRequired.Code {
		s.name(who, resp.MemberID)
		resp, _ = s.ask(who, s.join(version, who, protocols...)).(*kmsg.JoinGroupResponse)
	}
	if resp == nil {
		s.Fatal("no answer to a join")
	}
	s.name(who, resp.MemberID)
	return resp
}

// name gives a member id its member's name.
func (s *groupStory) name(who, id string) {
	for name, known := range s.ids {
		if known == id {
			delete(s.ids, name)
		}
	}
	s.ids[who] = id
}

func (s *groupStory) sync(version int16, who string, generation int32, assign ...string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = version, s.topic, s.ids[who], generation
	if version >= 5 {
		req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	}
	for _, name := range assign {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: s.ids[name], MemberAssignment: []byte("for " + name)})
	}
	return req
}

func (s *groupStory) heartbeat(version int16, who string, generation int32) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = version, s.topic, s.ids[who], generation
	return req
}

func (s *groupStory) commit(version int16, who string, generation int32, change func(*kmsg.OffsetCommitRequest)) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.RetentionTimeMillis = version, s.topic, s.ids[who], generation, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = 1, 42, 3, kmsg.StringPtr("a note")
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: s.topic, TopicID: s.topicID(), Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	if change != nil {
		change(req)
	}
	return req
}

// topicID asks for the topic's id.
func (s *groupStory) topicID() [16]byte {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &s.topic
	req.Topics = []kmsg.MetadataRequestTopic{t}
	return s.conn("").ask(req).(*kmsg.MetadataResponse).Topics[0].TopicID
}

// fetchOffsets asks for partitions of the topic, or for everything if there are
// none.
func (s *groupStory) fetchOffsets(version int16, group string, partitions ...int32) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = version, group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = group, -1
	if len(partitions) > 0 {
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: s.topic, Partitions: partitions}}
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: s.topic, TopicID: s.topicID(), Partitions: partitions}}
	}
	req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	return req
}

func (s *groupStory) describe(version int16, groups ...string) *kmsg.DescribeGroupsRequest {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups, req.IncludeAuthorizedOperations = version, groups, true
	return req
}

// list notes what ListGroups says of the story's group.
func (s *groupStory) list(version int16, states, types []string) {
	req := kmsg.NewPtrListGroupsRequest()
	req.Version, req.StatesFilter, req.TypesFilter = version, states, types
	resp, otherwise := s.conn("").try(req)
	if l, ok := resp.(*kmsg.ListGroupsResponse); ok {
		l.Groups = slices.DeleteFunc(l.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group != s.topic })
		l.Groups = append([]kmsg.ListGroupsResponseGroup(nil), l.Groups...) // null if none is left
	}
	s.note("list", resp, otherwise)
}

func (s *groupStory) leave(version int16, who string) *kmsg.LeaveGroupRequest {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = version, s.topic, s.ids[who]
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: s.ids[who]}}
	return req
}

func (s *groupStory) deleteGroups(version int16, groups ...string) *kmsg.DeleteGroupsRequest {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version, req.Groups = version, groups
	return req
}

func (s *groupStory) deleteOffsets(topic string, partitions ...int32) *kmsg.OffsetDeleteRequest {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = s.topic
	t := kmsg.OffsetDeleteRequestTopic{Topic: topic}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
	}
	req.Topics = []kmsg.OffsetDeleteRequestTopic{t}
	return req
}

// stable makes a group of members, and returns its generation.
func (s *groupStory) stable(version int16, members ...string) int32 {
	generation := s.joined(version, members[0], "range:"+members[0]).Generation
	for _, m := range members[1:] {
		// The second comes while the first is stable, and the first joins again.
		s.ask(members[0], s.sync(3, members[0], generation, members[0]))
		if version >= 4 {
			s.name(m, s.ask(m, s.join(version, m, "range:"+m)).(*kmsg.JoinGroupResponse).MemberID)
		}
		second := s.send(m, s.join(version, m, "range:"+m))
		for s.ask(members[0], s.heartbeat(3, members[0], generation)).(*kmsg.HeartbeatResponse).ErrorCode == 0 {
			time.Sleep(5 * time.Millisecond)
			s.dropLast()
		}
		first := s.send(members[0], s.join(version, members[0], "range:"+members[0]))
		generation = first().(*kmsg.JoinGroupResponse).Generation
		s.name(m, second().(*kmsg.JoinGroupResponse).MemberID)
	}
	followers := make([]func() kmsg.Response, 0, len(members))
	for _, m := range members[1:] {
		followers = append(followers, s.send(m, s.sync(3, m, generation)))
	}
	s.ask(members[0], s.sync(3, members[0], generation, members...))
	for _, f := range followers {
		f()
	}
	return generation
}

// dropLast takes the last note back.
func (s *groupStory) dropLast() {
	lines := strings.SplitAfter(s.out.String(), "\n")
	s.out.Reset()
	s.out.WriteString(strings.Join(lines[:len(lines)-2], ""))
}

// groupQuestion is a story.
type groupQuestion struct {
	name string
	tell func(*groupStory)
}

// versions tells a story once for each version.
func versions(name string, from, to int16, tell func(*groupStory, int16)) []groupQuestion {
	var all []groupQuestion
	for v := from; v <= to; v++ {
		all = append(all, groupQuestion{fmt.Sprintf("%s v%d", name, v), func(s *groupStory) { tell(s, v) }})
	}
	return all
}

var groupQuestions = slices.Concat(
	versions("find coordinator", 0, 6, func(s *groupStory, v int16) {
		for kind := range int8(4) {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.Version, req.CoordinatorKey, req.CoordinatorKeys, req.CoordinatorType = v, s.topic, []string{s.topic, "other"}, kind
			if kind != 1 { // Kafka makes a topic for it
				s.ask("a", req)
			}
		}
	}),
	versions("join and sync", 0, 9, func(s *groupStory, v int16) {
		r := s.joined(v, "a", "range:x", "roundrobin:y")
		s.ask("a", s.sync(min(v, 5), "a", r.Generation, "a"))
		s.ask("a", s.heartbeat(min(v, 4), "a", r.Generation))
		s.ask("a", s.describe(6, s.topic))
		s.ask("a", s.leave(min(v, 5), "a"))
		s.ask("a", s.describe(6, s.topic))
	}),
	[]groupQuestion{
		{"join: what is wrong", func(s *groupStory) {
			for _, change := range []func(*kmsg.JoinGroupRequest){
				func(r *kmsg.JoinGroupRequest) { r.Group = "" },
				func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 10 },
				func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1 << 30 },
				func(r *kmsg.JoinGroupRequest) { r.MemberID = "stranger" },
				func(r *kmsg.JoinGroupRequest) { r.Protocols = nil },
				func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" },
				func(r *kmsg.JoinGroupRequest) { r.MemberID, r.InstanceID = "stranger", kmsg.StringPtr("i") },
			} {
				for _, v := range []int16{3, 5, 9} {
					req := s.join(v, "a", "range:x")
					change(req)
					s.ask("a", req)
				}
			}
		}},
		{"two members", func(s *groupStory) {
			generation := s.stable(5, "a", "b")
			s.ask("a", s.describe(5, s.topic))
			s.list(5, nil, nil)
			s.ask("b", s.heartbeat(3, "b", generation))
			s.ask("b", s.heartbeat(3, "b", generation-1))
			s.ask("b", s.heartbeat(3, "nobody", generation))
			s.ask("b", s.join(5, "b", "range:b"))           // nothing has changed
			s.ask("b", s.sync(3, "b", generation))          // once more
			s.ask("b", s.commit(7, "b", generation, nil))   // good
			s.ask("b", s.commit(7, "b", generation-1, nil)) // old
			s.ask("b", s.commit(7, "nobody", generation, nil))
			s.ask("b", s.commit(7, "nobody", -1, nil))
			s.ask("b", s.commit(9, "nobody", -1, nil))
			s.ask("b", s.leave(5, "nobody"))
			s.ask("b", s.deleteGroups(2, s.topic))
			s.ask("b", s.deleteOffsets(s.topic, 0, 1))
			s.ask("b", s.leave(1, "b"))
			s.ask("a", s.heartbeat(3, "a", generation))
			s.ask("a", s.commit(7, "a", generation, nil)) // while it rebalances
			s.ask("a", s.sync(3, "a", generation))
		}},
		{"two members, before member ids were asked for", func(s *groupStory) { s.stable(2, "a", "b") }},
		{"other protocols", func(s *groupStory) {
			s.stable(5, "a")
			s.ask("b", s.join(5, "b", "roundrobin:y"))
			req := s.join(5, "b", "range:y")
			req.ProtocolType = "connect"
			s.ask("b", req)
			s.ask("b", s.sync(5, "a", 1, "a"))
			bad := s.sync(5, "a", 1, "a")
			bad.Protocol = kmsg.StringPtr("roundrobin")
			s.ask("b", bad)
			bad = s.sync(5, "a", 1, "a")
			bad.ProtocolType = nil
			s.ask("b", bad)
			s.ask("b", s.sync(3, "a", 7, "a"))
			s.ask("b", s.sync(3, "nobody", 1, "a"))
		}},
		{"commit between join and sync", func(s *groupStory) {
			r := s.joined(5, "a", "range:x")
			s.ask("a", s.heartbeat(3, "a", r.Generation))
			s.ask("a", s.commit(7, "a", r.Generation, nil))
			s.ask("a", s.join(5, "a", "range:x"))
			s.ask("a", s.describe(5, s.topic))
		}},
	},
	versions("static member", 5, 9, func(s *groupStory, v int16) {
		static := func(who, instance string) *kmsg.JoinGroupRequest {
			req := s.join(v, who, "range:x")
			req.InstanceID = &instance
			return req
		}
		r := s.ask("a", static("a", "i")).(*kmsg.JoinGroupResponse)
		s.name("a", r.MemberID)
		sync := s.sync(3, "a", r.Generation, "a")
		sync.InstanceID = kmsg.StringPtr("i")
		s.ask("a", sync)
		// It comes back, and the old id is fenced.
		r = s.ask("b", static("nobody", "i")).(*kmsg.JoinGroupResponse)
		s.name("b", r.MemberID)
		beat := s.heartbeat(3, "a", r.Generation)
		beat.InstanceID = kmsg.StringPtr("i")
		s.ask("a", beat)
		beat.MemberID = s.ids["b"]
		s.ask("b", beat)
		beat.InstanceID = kmsg.StringPtr("j")
		s.ask("b", beat)
		s.ask("a", static("a", "i"))
		commit := s.commit(7, "a", r.Generation, nil)
		commit.InstanceID = kmsg.StringPtr("i")
		s.ask("a", commit)
		sync = s.sync(3, "a", r.Generation, "a")
		sync.InstanceID = kmsg.StringPtr("i")
		s.ask("a", sync)
		sync.MemberID = s.ids["b"]
		s.ask("b", sync)
		s.ask("b", s.describe(5, s.topic))
		leave := s.leave(5, "nobody")
		leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: "", InstanceID: kmsg.StringPtr("j")}, {MemberID: s.ids["a"], InstanceID: kmsg.StringPtr("i")}, {InstanceID: kmsg.StringPtr("i")}}
		s.ask("b", leave)
		s.ask("b", s.describe(5, s.topic))
	}),
	versions("commit without a group", 2, 10, func(s *groupStory, v int16) {
		s.ask("a", s.commit(v, "nobody", 5, nil))
		s.ask("a", s.commit(v, "nobody", -1, nil))
		s.ask("a", s.commit(v, "nobody", 5, nil))
		s.ask("a", s.commit(v, "nobody", -1, func(r *kmsg.OffsetCommitRequest) { r.Topics = nil }))
		s.ask("a", s.commit(v, "nobody", -1, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Metadata = nil }))
		s.ask("a", s.commit(v, "nobody", -1, func(r *kmsg.OffsetCommitRequest) {
			r.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: 0, Offset: 7, LeaderEpoch: -1})
		}))
		s.ask("a", s.commit(v, "nobody", -1, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Topic, r.Topics[0].TopicID = "none", [16]byte{5} }))
		s.ask("a", s.commit(v, "nobody", -1, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Partition = 77 }))
		s.ask("a", s.commit(v, "nobody", -1, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Offset = -5 }))
		s.ask("a", s.commit(v, "nobody", -1, func(r *kmsg.OffsetCommitRequest) { r.Group = "" }))
		for f := int16(1); f <= 10; f++ {
			s.ask("a", s.fetchOffsets(f, s.topic, 0, 1, 5))
			s.ask("a", s.fetchOffsets(f, "unknown", 0))
			s.ask("a", s.fetchOffsets(f, s.topic))
		}
		for d := int16(0); d <= 6; d++ {
			s.ask("a", s.describe(d, s.topic, "unknown", ""))
		}
		s.list(5, nil, nil)
		s.list(4, []string{"empty"}, nil)
		s.list(4, []string{"Stable"}, nil)
		s.list(5, nil, []string{"Classic"})
		s.list(5, nil, []string{"consumer"})
		s.list(5, nil, []string{"nonsense"})
		s.list(5, []string{"nonsense"}, nil)
		s.list(0, nil, nil)
	}),
	versions("delete", 0, 3, func(s *groupStory, v int16) {
		s.ask("a", s.commit(7, "nobody", -1, nil))
		s.ask("a", s.deleteOffsets(s.topic, 0, 1, 9))
		s.ask("a", s.deleteOffsets("none", 0))
		s.ask("a", s.fetchOffsets(7, s.topic, 1))
		s.ask("a", s.describe(6, s.topic))
		s.ask("a", s.commit(7, "nobody", -1, nil))
		s.ask("a", s.deleteGroups(v, s.topic, "unknown", ""))
		s.ask("a", s.fetchOffsets(7, s.topic, 1))
		s.ask("a", s.describe(6, s.topic))
		s.ask("a", s.deleteOffsets(s.topic, 1))
		s.ask("a", s.deleteGroups(v))
	}),
	versions("leave", 0, 5, func(s *groupStory, v int16) {
		s.ask("a", s.leave(v, "nobody"))
		s.stable(5, "a")
		s.ask("a", s.leave(v, "nobody"))
		s.ask("a", s.leave(v, "a"))
		s.ask("a", s.leave(v, "a"))
		req := s.leave(v, "a")
		req.Group = ""
		s.ask("a", req)
		s.ask("a", s.heartbeat(min(v, 4), "a", 1))
		s.ask("a", s.sync(min(v, 4), "a", 1))
		beat := s.heartbeat(min(v, 4), "a", 1)
		beat.Group = ""
		s.ask("a", beat)
		sync := s.sync(min(v, 4), "a", 1)
		sync.Group = ""
		s.ask("a", sync)
	}),
)

func TestMemberIDPattern(t *testing.T) {
	id := "test-" + hex.EncodeToString([]byte{1, 2, 3, 4}) + "-0102-0304-0506-010203040506"
	if got := memberID.ReplaceAllString(`"`+id+`"`, "m"); got != `"m"` {
		t.Errorf("%s is not taken for a member id", got)
	}
}
