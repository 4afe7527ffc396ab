package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMixedRandom runs members of both protocols in one group, which is converted
// back and forth as they come and go, while appends fail or take long and the
// coordinator restarts. No partition is ever consumed by two members that the
// group knows; when all is quiet, each is by one.
func TestMixedRandom(t *testing.T) {
	runs := 40
	if testing.Short() {
		runs = 10
	}
	for range runs {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &mixedRun{randomRun: &randomRun{Rand: rand.New(rand.NewPCG(seed, 4)), lab: newLab(t, map[string]int{"t": 5, "u": 3, "v": 1})}}
				if r.IntN(2) == 0 {
					r.settings.ConsumerAssignmentInterval = time.Second
				}
				r.settings.InitialRebalanceDelay = time.Duration(r.IntN(2)) * time.Second
				r.lab.settle()
				for range 400 {
					r.step()
					r.check()
				}
				r.settle()
				r.c.Close()
			})
		})
	}
}

// mixedRun is the members of a randomRun, and some of the classic protocol.
type mixedRun struct {
	*randomRun
	classics []*classicClient
	upgrades int
}

// classicClient is a client of the classic protocol whose assignor is eager: it
// gives up everything before it joins.
type classicClient struct {
	topics     []string
	id         string // empty: not known
	generation int32  // -1: to join
	joined     *kmsg.JoinGroupResponse
	consumes   map[partition]bool
	due        time.Time
	waiting    bool
}

func (m *classicClient) rejoin() { m.generation, m.joined = -1, nil }

// failed is what a client does with an error.
func (m *classicClient) failed(err error) {
	m.rejoin()
	if err == kerr.UnknownMemberID || err == kerr.FencedInstanceID {
		m.id = ""
	}
}

// step is one thing that happens to classic members, and one of the others'.
// Consumer members leave often enough that none is left now and then.
func (r *mixedRun) step() {
	switch n := r.IntN(100); {
	case n < 8 && len(r.classics) < 5:
		m := &classicClient{topics: []string{"t", "u"}[:1+r.IntN(2)], consumes: map[partition]bool{}, generation: -1}
		r.classics = append(r.classics, m)
	case n < 10 && len(r.classics) > 0:
		r.leaveClassic()
	case n < 12 && len(r.classics) > 0:
		i := r.IntN(len(r.classics))
		r.classics = slices.Delete(r.classics, i, i+1)
	case n < 18:
		r.leave()
	}
	r.goOn()
	r.randomRun.step()
}

// goOn has each classic member do what is next.
func (r *mixedRun) goOn() {
	for _, m := range r.classics {
		switch {
		case m.waiting:
		case m.joined != nil:
			r.syncs(m)
		case m.generation < 0:
			r.joins(m)
		case !time.Now().Before(m.due):
			r.beats(m)
		}
	}
	r.lab.settle()
}

func (r *mixedRun) leaveClassic() {
	i := r.IntN(len(r.classics))
	m := r.classics[i]
	r.classics = slices.Delete(r.classics, i, i+1)
	q := kmsg.NewPtrLeaveGroupRequest()
	q.Version, q.Group = 5, "g"
	q.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.id}}
	r.c.LeaveGroup(q, labClient, func(*kmsg.LeaveGroupResponse) {})
}

func (r *mixedRun) joins(m *classicClient) {
	clear(m.consumes)
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.MemberID, q.ProtocolType = 9, "g", m.id, consumerProtocolType
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 10_000, 20_000
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics = 1, m.topics
	q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: meta.AppendTo(nil)}}
	m.waiting = true
	r.c.JoinGroup(q, labClient, func(resp *kmsg.JoinGroupResponse) {
		m.waiting = false
		switch err := kerr.ErrorForCode(resp.ErrorCode); err {
		case nil:
			m.id, m.generation, m.joined = resp.MemberID, resp.Generation, resp
		case kerr.MemberIDRequired:
			m.id = resp.MemberID
		default:
			m.failed(err)
		}
	})
}

func (r *mixedRun) syncs(m *classicClient) {
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version, q.Group, q.MemberID, q.Generation = 5, "g", m.id, m.generation
	kind, name := consumerProtocolType, "range"
	q.ProtocolType, q.Protocol = &kind, &name
	if m.joined.LeaderID == m.id {
		q.GroupAssignment = r.assign(m.joined.Members)
	}
	m.joined, m.waiting = nil, true
	r.c.SyncGroup(q, labClient, func(resp *kmsg.SyncGroupResponse) {
		m.waiting = false
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			m.failed(err)
			return
		}
		m.due = time.Now().Add(3 * time.Second)
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(resp.MemberAssignment); err != nil {
			r.t.Errorf("an assignment that cannot be read: %v", err)
		}
		for _, t := range a.Topics {
			for _, p := range t.Partitions {
				m.consumes[partition{r.im.Topics[t.Topic].ID, p}] = true
			}
		}
	})
}

// assign is what a leader makes of the members: in turn, partition by partition.
func (r *mixedRun) assign(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	assigned := make([]map[string][]int32, len(members))
	by := make(map[string][]int)
	for i := range members {
		assigned[i] = make(map[string][]int32)
		s, ok := readConsumerSubscription(members[i].ProtocolMetadata)
		if !ok {
			r.t.Error("a subscription that cannot be read")
		}
		for _, name := range s.Topics {
			by[name] = append(by[name], i)
		}
	}
	for name, subscribers := range by {
		for p := range r.im.Topics[name].Partitions {
			i := subscribers[p%len(subscribers)]
			assigned[i][name] = append(assigned[i][name], int32(p))
		}
	}
	var all []kmsg.SyncGroupRequestGroupAssignment
	for i := range members {
		a := kmsg.ConsumerMemberAssignment{Version: 1}
		for _, name := range []string{"t", "u"} {
			if ps := assigned[i][name]; len(ps) > 0 {
				a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: name, Partitions: ps})
			}
		}
		all = append(all, kmsg.SyncGroupRequestGroupAssignment{MemberID: members[i].MemberID, MemberAssignment: a.AppendTo(nil)})
	}
	return all
}

func (r *mixedRun) beats(m *classicClient) {
	q := kmsg.NewPtrHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.Generation = 4, "g", m.id, m.generation
	m.due = time.Now().Add(3 * time.Second)
	if err := kerr.ErrorForCode(r.c.Heartbeat(q, labClient).ErrorCode); err != nil {
		m.failed(err)
	}
}

// check is randomRun's for the members of both protocols that the group knows.
func (r *mixedRun) check() {
	r.t.Helper()
	r.randomRun.check()
	s := (*r.c.shards.Load())[0]
	g := s.groups["g"]
	if g == nil {
		return
	}
	by := make(map[partition]string)
	consumes := func(id string, parts map[partition]bool) {
		for p := range parts {
			if by[p] != "" {
				r.t.Fatalf("partition %v is consumed by %s and %s\n%s", p, by[p], id, r.describe("g"))
			}
			by[p] = id
		}
	}
	switch c := g.protocol.(type) {
	case *consumerGroup:
		for _, m := range r.members {
			if c.members[m.id] != nil {
				consumes(m.id, m.consumes)
			}
		}
		for _, m := range r.classics {
			if c.members[m.id] != nil {
				consumes(m.id, m.consumes)
			}
		}
		if c.classicCount > 0 && c.classicCount < len(c.members) {
			r.upgrades++
		}
	case *classicGroup:
		for _, m := range r.classics {
			if c.members[m.id] != nil && m.generation == c.generation {
				consumes(m.id, m.consumes)
			}
		}
	}
}

// settle lets all go on without disturbance until nothing changes any more.
func (r *mixedRun) settle() {
	r.log.fail = nil
	r.log.release()
	r.calm = true
	r.join("last")
	r.members[len(r.members)-1].topics = []string{"t", "u", "v"}
	for range 80 {
		for _, m := range r.members {
			m.giveUp()
			r.beat(m)
		}
		r.goOn()
		r.sleep(2 * time.Second)
		r.goOn()
		r.check()
	}
	c := r.group()
	if got := c.stateName(); got != consumerStable {
		r.t.Fatalf("the group does not become stable\n%s", r.describe("g"))
	}
	if r.upgrades == 0 {
		r.t.Error("members of the two protocols never were in one group")
	}
	consumed := make(map[partition]bool)
	for _, m := range r.members {
		for p := range m.consumes {
			consumed[p] = true
		}
	}
	for _, m := range r.classics {
		for p := range m.consumes {
			consumed[p] = true
		}
	}
	for _, name := range []string{"t", "u", "v"} {
		t := r.im.Topics[name]
		for p := range t.Partitions {
			if !consumed[partition{record.TopicID(t.ID), int32(p)}] {
				r.t.Errorf("partition %d of %s is consumed by nobody\n%s", p, name, r.describe("g"))
			}
		}
	}
}
