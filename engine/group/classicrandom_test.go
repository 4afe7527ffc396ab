package group

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var classicSeed = flag.Uint64("classicseed", 0, "run TestClassicRandom with this seed alone")

// TestClassicRandom lets members of a classic group come, go, crash and commit
// while appends are held up, fail, and the node is killed and comes back. No
// committed offset goes back, no partition is owned twice in one generation, and
// at the end the group is whole.
func TestClassicRandom(t *testing.T) {
	seeds := []uint64{*classicSeed}
	if *classicSeed == 0 {
		seeds = seeds[:0]
		for range 30 {
			seeds = append(seeds, rand.Uint64())
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &classicRun{
					lab: newLab(t, map[string]int{"t": classicRunPartitions}), rand: rand.New(rand.NewPCG(seed, 0)),
					owners: make(map[string]string),
				}
				r.settings.InitialRebalanceDelay = time.Second
				r.settle()
				for range 400 {
					r.step()
				}
				r.end()
				r.c.Close()
				r.settle()
				if t.Failed() {
					t.Logf("seed %d:\n%s", seed, strings.Join(r.events, "\n"))
				}
			})
		})
	}
}

const classicRunPartitions = 5

// classicRun is one run.
type classicRun struct {
	*lab
	rand    *rand.Rand
	members []*classicActor
	named   int
	events  []string
	// owners is who owns a partition in a generation.
	owners map[string]string
	// highest is the last generation that anybody joined in this life of the
	// node, assigned the last one in which anybody was given partitions.
	highest, assigned int32

	next  int64                       // the next offset that is committed, of any partition
	acked [classicRunPartitions]int64 // committed for certain
	sent  [classicRunPartitions][]int64
}

// actorState is what a member waits for.
type actorState int8

const (
	actorOut     actorState = iota // has to join
	actorJoining                   // its JoinGroup waits
	actorSyncs                     // has to sync
	actorSyncing                   // its SyncGroup waits
	actorStable
	actorGone // crashed, or left
)

// classicActor is a member as its client plays it.
type classicActor struct {
	name       string
	instance   *string
	id         string
	generation int32
	state      actorState
	epoch      int // of its requests: answers to older ones are not looked at
	leads      bool
	others     []string // member ids to assign to
	owns       []int32
}

func (r *classicRun) note(format string, args ...any) {
	r.events = append(r.events, fmt.Sprintf("%6.1fs ", time.Duration(r.c.now()).Seconds())+fmt.Sprintf(format, args...))
}

// step does one thing, and lets members go on with what they are at.
func (r *classicRun) step() {
	switch n := r.rand.IntN(100); {
	case n < 6 && len(r.alive()) < 6:
		r.arrive()
	case n < 9:
		if a := r.any(); a != nil {
			r.note("%s crashes", a.name)
			a.state = actorGone
			a.epoch++
		}
	case n < 12:
		if a := r.any(); a != nil && a.instance == nil {
			r.leave(a)
		}
	case n < 15:
		r.log.hold = true
	case n < 22:
		r.log.release()
	case n < 24:
		r.log.fail = kerr.NotEnoughReplicas
	case n < 30:
		r.log.fail = nil
	case n < 32:
		r.note("the node is killed")
		r.restart()
		// A generation that was joined and never assigned is not in the log: the
		// one before is in force again, as in Kafka.
		r.highest = r.assigned
	case n < 70:
		if a := r.any(); a != nil {
			r.commit(a)
		}
	default:
		r.look()
	}
	for _, a := range r.alive() {
		if r.rand.IntN(4) > 0 {
			r.act(a)
		}
	}
	r.sleep(time.Duration(r.rand.IntN(1500)) * time.Millisecond)
}

func (r *classicRun) alive() []*classicActor {
	return slices.DeleteFunc(slices.Clone(r.members), func(a *classicActor) bool { return a.state == actorGone })
}

func (r *classicRun) any() *classicActor {
	if alive := r.alive(); len(alive) > 0 {
		return alive[r.rand.IntN(len(alive))]
	}
	return nil
}

// arrive starts a member; some are static, and come back under their name.
func (r *classicRun) arrive() {
	r.named++
	a := &classicActor{name: "m" + strconv.Itoa(r.named)}
	if r.rand.IntN(3) == 0 {
		instance := "i" + strconv.Itoa(r.rand.IntN(3))
		for _, other := range r.alive() {
			if other.instance != nil && *other.instance == instance {
				return
			}
		}
		a.instance = &instance
		a.name += "(" + instance + ")"
	}
	r.note("%s arrives", a.name)
	r.members = append(r.members, a)
}

// act lets a member do what its client would do next.
func (r *classicRun) act(a *classicActor) {
	switch a.state {
	case actorOut:
		r.joinAs(a)
	case actorSyncs:
		r.syncAs(a)
	case actorStable:
		q := kmsg.NewPtrHeartbeatRequest()
		q.Version, q.Group, q.MemberID, q.Generation, q.InstanceID = 4, "g", a.id, a.generation, a.instance
		r.refused(a, r.c.Heartbeat(q, labClient).ErrorCode)
	}
}

// refused lets a member do what an error asks for.
func (r *classicRun) refused(a *classicActor, code int16) {
	switch code {
	case 0:
		return
	case kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code:
		a.id = ""
	case kerr.IllegalGeneration.Code, kerr.RebalanceInProgress.Code:
	default: // not here, not now: the same again
		if a.state == actorStable {
			return
		}
	}
	a.owns, a.state = nil, actorOut
	a.epoch++
}

func (r *classicRun) joinAs(a *classicActor) {
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.ProtocolType, q.MemberID, q.InstanceID = 9, "g", "consumer", a.id, a.instance
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 10_000, 15_000
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{"t"}
	q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: meta.AppendTo(nil)}}
	a.state = actorJoining
	a.epoch++
	epoch := a.epoch
	r.c.JoinGroup(q, labClient, func(resp *kmsg.JoinGroupResponse) {
		if a.epoch != epoch {
			return
		}
		if resp.ErrorCode == kerr.MemberIDRequired.Code {
			a.id, a.state = resp.MemberID, actorOut
			return
		}
		if resp.ErrorCode != 0 {
			r.refused(a, resp.ErrorCode)
			return
		}
		a.id, a.generation, a.state = resp.MemberID, resp.Generation, actorSyncs
		a.leads, a.others = resp.LeaderID == resp.MemberID && !resp.SkipAssignment, nil
		for _, m := range resp.Members {
			a.others = append(a.others, m.MemberID)
		}
		r.highest = resp.Generation // a group that could not be written begins anew
		r.note("%s joins generation %d, leads %v of %d", a.name, a.generation, a.leads, len(a.others))
	})
}

func (r *classicRun) syncAs(a *classicActor) {
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version, q.Group, q.MemberID, q.Generation, q.InstanceID = 4, "g", a.id, a.generation, a.instance
	if a.leads {
		for i, id := range a.others {
			var share []byte
			for p := i; p < classicRunPartitions; p += len(a.others) {
				share = append(share, byte(p))
			}
			q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: share})
		}
	}
	a.state = actorSyncing
	a.epoch++
	epoch := a.epoch
	r.c.SyncGroup(q, labClient, func(resp *kmsg.SyncGroupResponse) {
		if a.epoch != epoch {
			return
		}
		if resp.ErrorCode != 0 {
			r.refused(a, resp.ErrorCode)
			return
		}
		a.state, a.owns = actorStable, nil
		r.assigned = max(r.assigned, a.generation)
		who := a.id
		if a.instance != nil {
			who = *a.instance // its next life has its partitions
		}
		for _, p := range resp.MemberAssignment {
			a.owns = append(a.owns, int32(p))
			key := fmt.Sprintf("%d/%d", a.generation, p)
			if owner, ok := r.owners[key]; ok && owner != who {
				r.t.Errorf("partition %d of generation %d is owned by %s and %s", p, a.generation, owner, who)
			}
			r.owners[key] = who
		}
		r.note("%s owns %v in generation %d", a.name, a.owns, a.generation)
	})
}

func (r *classicRun) leave(a *classicActor) {
	r.note("%s leaves", a.name)
	q := kmsg.NewPtrLeaveGroupRequest()
	q.Version, q.Group = 5, "g"
	q.Members = []kmsg.LeaveGroupRequestMember{{MemberID: a.id}}
	a.state = actorGone
	a.epoch++
	r.c.LeaveGroup(q, labClient, func(*kmsg.LeaveGroupResponse) {})
}

// commit commits a new offset of each partition that a member owns.
func (r *classicRun) commit(a *classicActor) {
	if a.state != actorStable || len(a.owns) == 0 {
		return
	}
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.MemberID, q.Generation, q.InstanceID = 7, "g", a.id, a.generation, a.instance
	topic := kmsg.OffsetCommitRequestTopic{Topic: "t"}
	r.next++
	offset := r.next
	for _, p := range a.owns {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = p, offset
		topic.Partitions = append(topic.Partitions, part)
		r.sent[p] = append(r.sent[p], offset)
	}
	q.Topics = []kmsg.OffsetCommitRequestTopic{topic}
	stale := a.generation < r.highest
	epoch := a.epoch
	r.c.OffsetCommit(q, labClient, func(resp *kmsg.OffsetCommitResponse) {
		for _, p := range resp.Topics[0].Partitions {
			switch {
			case p.ErrorCode == 0 && stale:
				r.t.Errorf("%s has committed in generation %d, after generation %d", a.name, q.Generation, r.highest)
			case p.ErrorCode == 0:
				r.acked[p.Partition] = max(r.acked[p.Partition], offset)
			case a.epoch == epoch:
				r.refused(a, p.ErrorCode)
			}
		}
		r.note("%s commits %d of %v: %s", a.name, offset, topic.Partitions[0].Partition, codeName(resp.Topics[0].Partitions[0].ErrorCode))
	})
}

// look reads what is committed.
func (r *classicRun) look() {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version, q.Group = 7, "g"
	resp := r.c.OffsetFetch(q, labClient)
	if resp.ErrorCode != 0 {
		return
	}
	var got [classicRunPartitions]int64
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			got[p.Partition] = p.Offset
		}
	}
	for p, offset := range got {
		if offset < r.acked[p] {
			r.t.Errorf("the offset of partition %d is %d, and %d was committed", p, offset, r.acked[p])
		}
		if offset > 0 && !slices.Contains(r.sent[p], offset) {
			r.t.Errorf("the offset of partition %d is %d, which nobody has committed", p, offset)
		}
	}
}

// end lets everything go well, until the group is whole.
func (r *classicRun) end() {
	r.log.fail = nil
	r.log.release()
	if len(r.alive()) == 0 {
		r.arrive()
	}
	for range 120 {
		for _, a := range r.alive() {
			r.act(a)
		}
		r.sleep(time.Second)
	}
	r.look()
	owned := make(map[int32]string)
	for _, a := range r.alive() {
		if a.state != actorStable || a.generation != r.highest {
			r.t.Errorf("at the end %s is in state %d of generation %d, the last is %d", a.name, a.state, a.generation, r.highest)
		}
		for _, p := range a.owns {
			if other := owned[p]; other != "" {
				r.t.Errorf("at the end partition %d is owned by %s and %s", p, other, a.name)
			}
			owned[p] = a.name
		}
	}
	if len(owned) != classicRunPartitions {
		r.t.Errorf("at the end partitions are owned by %v", owned)
	}
}
