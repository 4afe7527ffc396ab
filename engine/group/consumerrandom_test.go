package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestConsumerRandom runs members that join, leave, crash, lose answers, are slow
// to give up partitions and change what they are subscribed to, while appends
// fail or take long and the coordinator restarts. No partition is ever consumed
// by two members that the group knows; when all is quiet, each is by one.
func TestConsumerRandom(t *testing.T) {
	runs := 40
	if testing.Short() {
		runs = 10
	}
	for range runs {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &randomRun{Rand: rand.New(rand.NewPCG(seed, 3)), lab: newLab(t, map[string]int{"t": 5, "u": 3, "v": 1})}
				if r.IntN(2) == 0 {
					r.settings.ConsumerAssignmentInterval = time.Second
				}
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

type partition struct {
	topic record.TopicID
	p     int32
}

// randomRun is some members of one group.
type randomRun struct {
	*rand.Rand
	*lab
	members []*randomMember
	next    int
	calm    bool // no answer is lost any more
}

// randomMember is a client of the consumer protocol.
type randomMember struct {
	id, instance string
	topics       []string
	regex        string
	epoch        int32
	full         bool // the next heartbeat tells all
	consumes     map[partition]bool
	assigned     map[partition]bool // as told last
	due          time.Time          // of the next heartbeat
	waiting      bool               // an answer is yet to come
}

// step is one thing that happens, and the time until the next one.
func (r *randomRun) step() {
	switch n := r.IntN(100); {
	case n < 8 && len(r.members) < 8:
		r.join(fmt.Sprintf("i%d", r.next))
	case n < 10:
		r.leave()
	case n < 12:
		r.crash()
	case n < 13:
		r.restart()
	case n < 15:
		r.log.hold = true
	case n < 20:
		r.log.fail = nil
		r.log.release()
	case n < 21:
		r.log.fail = kerr.NotEnoughReplicas
	case n < 22:
		name := []string{"t", "u", "v"}[r.IntN(3)]
		r.setTopic(name, len(r.im.Topics[name].Partitions)+1)
	case n < 26 && len(r.members) > 0:
		m := r.members[r.IntN(len(r.members))]
		r.subscribe(m)
		m.full = true
	case n < 50 && len(r.members) > 0:
		r.members[r.IntN(len(r.members))].giveUp()
	}
	for _, m := range r.members {
		if !m.waiting && (!time.Now().Before(m.due) || len(m.assigned) != len(m.consumes)) && r.IntN(4) > 0 {
			r.beat(m)
		}
	}
	r.sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
}

func (r *randomRun) subscribe(m *randomMember) {
	m.topics, m.regex = []string{}, ""
	for _, name := range []string{"t", "u", "v"} {
		if r.IntN(2) == 0 {
			m.topics = append(m.topics, name)
		}
	}
	if r.IntN(4) == 0 {
		m.regex = []string{"t|u", ".", "nothing"}[r.IntN(3)]
	}
}

func (r *randomRun) join(instance string) {
	m := &randomMember{id: fmt.Sprintf("m%d", r.next), full: true}
	if r.IntN(2) == 0 {
		m.instance = instance
	}
	r.next++
	m.stop()
	r.subscribe(m)
	r.members = append(r.members, m)
}

// stop is a client that consumes nothing any more.
func (m *randomMember) stop() { m.consumes, m.assigned = map[partition]bool{}, map[partition]bool{} }

// giveUp ends the consumption of what is not assigned.
func (m *randomMember) giveUp() {
	for p := range m.consumes {
		if !m.assigned[p] {
			delete(m.consumes, p)
		}
	}
}

// remove takes a member out of the list.
func (r *randomRun) remove() *randomMember {
	if len(r.members) == 0 {
		return nil
	}
	i := r.IntN(len(r.members))
	m := r.members[i]
	r.members = slices.Delete(r.members, i, i+1)
	return m
}

// crash: the group knows the member for a session more, but it consumes nothing.
func (r *randomRun) crash() {
	if m := r.remove(); m != nil {
		m.stop()
	}
}

// leave: a static member may be back at once, under another id.
func (r *randomRun) leave() {
	m := r.remove()
	if m == nil {
		return
	}
	m.stop()
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Group, q.MemberID, q.MemberEpoch = "g", m.id, epochLeave
	if m.instance != "" {
		q.InstanceID, q.MemberEpoch = &m.instance, epochLeaveStatic
		r.join(m.instance)
		r.members[len(r.members)-1].instance = m.instance
	}
	r.lab.beat(q)
}

func (r *randomRun) beat(m *randomMember) {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.MemberEpoch = 1, "g", m.id, m.epoch
	if m.instance != "" {
		q.InstanceID = &m.instance
	}
	if m.epoch == 0 {
		m.stop()
		m.full = true
	}
	if m.full || len(m.assigned) != len(m.consumes) || r.calm || r.IntN(3) == 0 {
		q.Topics = r.claim(m.owned())
	}
	if m.full {
		q.RebalanceTimeoutMillis, q.SubscribedTopicNames, q.SubscribedTopicRegex = 20000, m.topics, &m.regex
	}
	m.waiting, m.due = true, time.Now().Add(5*time.Second)
	lost := !r.calm && r.IntN(20) == 0
	r.c.ConsumerGroupHeartbeat(q, labClient, func(resp *kmsg.ConsumerGroupHeartbeatResponse) {
		m.waiting = false
		if m.full = lost; !lost {
			m.told(resp)
		}
	})
	r.lab.settle()
}

func (m *randomMember) owned() assignor.Assignment {
	byTopic := make(map[record.TopicID][]int32)
	for p := range m.consumes {
		byTopic[p.topic] = append(byTopic[p.topic], p.p)
	}
	var a assignor.Assignment
	for topic, ps := range byTopic {
		a = append(a, assignor.TopicPartitions{Topic: topic, Partitions: ps})
	}
	return sortedAssignment(a)
}

// told takes an answer: new partitions are consumed at once, others later given up.
func (m *randomMember) told(resp *kmsg.ConsumerGroupHeartbeatResponse) {
	switch kerr.ErrorForCode(resp.ErrorCode) {
	case nil:
	case kerr.FencedMemberEpoch, kerr.UnknownMemberID, kerr.FencedInstanceID, kerr.GroupIDNotFound:
		m.stop()
		m.epoch, m.full = 0, true
		return
	default:
		m.full = true
		return
	}
	m.epoch = resp.MemberEpoch
	if resp.Assignment == nil {
		return
	}
	m.assigned = map[partition]bool{}
	for _, t := range resp.Assignment.Topics {
		for _, p := range t.Partitions {
			m.assigned[partition{t.TopicID, p}] = true
			m.consumes[partition{t.TopicID, p}] = true
		}
	}
}

// group is what the coordinator has, nil if nothing.
func (r *randomRun) group() *consumerGroup {
	s := (*r.c.shards.Load())[0]
	if g := s.groups["g"]; g != nil {
		c, _ := g.protocol.(*consumerGroup)
		return c
	}
	return nil
}

// check: of the members that the group knows no two consume the same, and what
// the coordinator believes to be owned is owned once.
func (r *randomRun) check() {
	r.t.Helper()
	c := r.group()
	if c == nil {
		return
	}
	by := make(map[partition]string)
	for _, m := range r.members {
		if c.members[m.id] == nil {
			continue // fenced, and does not know yet
		}
		for p := range m.consumes {
			if by[p] != "" {
				r.t.Fatalf("partition %v is consumed by %s and %s\n%s", p, by[p], m.id, r.describe("g"))
			}
			by[p] = m.id
		}
	}
	held := make(map[partition]string)
	for _, m := range c.sorted() {
		for _, o := range []owned{m.assigned, m.revoking} {
			for _, t := range o {
				for _, p := range t.partitions {
					if held[partition{t.topic, p}] != "" || c.owners[t.topic][p] != m {
						r.t.Fatalf("partition %d of %v is held twice, or its owner is not known\n%s", p, t.topic, r.describe("g"))
					}
					held[partition{t.topic, p}] = m.id
				}
			}
		}
	}
}

// settle lets all go on without disturbance until nothing changes any more.
func (r *randomRun) settle() {
	r.log.fail = nil
	r.log.release()
	r.calm = true
	r.join("last")
	for range 60 {
		for _, m := range r.members {
			m.giveUp()
			r.beat(m)
		}
		r.sleep(2 * time.Second)
		r.check()
	}
	c := r.group()
	if got := c.stateName(); got != consumerStable {
		r.t.Fatalf("the group does not become stable\n%s", r.describe("g"))
	}
	want := 0
	for _, name := range c.subscribedAfter() {
		if t := r.im.Topics[name]; t != nil {
			want += len(t.Partitions)
		}
	}
	consumed := 0
	for _, m := range r.members {
		consumed += len(m.consumes)
	}
	if consumed != want {
		r.t.Fatalf("%d partitions are consumed, want %d\n%s", consumed, want, r.describe("g"))
	}
	before := r.describe("g")
	r.restart()
	r.lab.settle()
	if after := r.describe("g"); after != before {
		r.t.Fatalf("the log says something else:\n%s\nbefore:\n%s", after, before)
	}
}
