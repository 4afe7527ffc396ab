package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// group is one group: its committed offsets, and its members in one of the two
// protocols. All of it belongs to the shard's lock.
type group struct {
	id    string
	shard *shard
	// protocol is nil for a group that has only offsets: of a consumer that
	// assigns partitions to itself, or of a group whose members' records are gone.
	protocol protocol
	offsets  offsets

	writes   int      // under way
	removing bool     // one of them removes the group: nothing is to be added
	waiting  []func() // for writes to be 0
	resigned bool     // the shard is closed: what waits is refused
}

// protocol is what the shell asks of a group's members: *classicGroup and
// *consumerGroup answer. It runs under the shard's lock.
type protocol interface {
	// kind is "classic" or "consumer".
	kind() string
	// stateName is the state as ListGroups names it.
	stateName() string
	// protocolType is "consumer", "connect" or what members say; empty if none.
	protocolType() string
	// empty says that there is no member, size how many there are.
	empty() bool
	size() int
	// join, sync, heartbeat and leave serve the classic APIs: classic groups, and
	// classic members of a consumer group (KIP-848's migration). done is called
	// once, through shard.answer where the step goes on after it.
	join(q *kmsg.JoinGroupRequest, from Client, done func(*kmsg.JoinGroupResponse))
	sync(q *kmsg.SyncGroupRequest, from Client, done func(*kmsg.SyncGroupResponse))
	heartbeat(q *kmsg.HeartbeatRequest) *kerr.Error
	// leave serves LeaveGroup for all members that it names; done is called once.
	leave(q *kmsg.LeaveGroupRequest, from Client, done func(*kmsg.LeaveGroupResponse))
	// checkCommit says whether an offset may be committed by this member in this
	// generation or member epoch; the request has its version.
	checkCommit(q *kmsg.OffsetCommitRequest) *kerr.Error
	// checkFetch does so for OffsetFetch v9, which names the member; nil is none.
	checkFetch(memberID *string, memberEpoch int32) *kerr.Error
	// checkDelete says whether the group may be deleted, checkOffsetDelete whether
	// some of its offsets may.
	checkDelete() *kerr.Error
	checkOffsetDelete() *kerr.Error
	// subscribed says whether offsets of the topic are in use by members.
	subscribed(topic string) bool
	// expiresFrom is from when on offsets of the group count as unused: ok is
	// false while none do. ms is -1 where it is each offset's own commit time.
	expiresFrom() (ms int64, ok bool)
	// describe fills in a DescribeGroups answer; a group of the other protocol is
	// GROUP_ID_NOT_FOUND to it.
	describe(out *kmsg.DescribeGroupsResponseGroup) *kerr.Error
	// tombstones appends the records that remove the members' state.
	tombstones(dst []kv) []kv
	// loaded begins the timers of a group that was replayed from the log.
	loaded()
	// resign ends the group here: all that waits is answered NOT_COORDINATOR, and
	// its timers are disarmed.
	resign()
}

// group returns a group, or nil.
func (s *shard) group(id string) *group { return s.groups[id] }

// create returns a group, made if it does not exist.
func (s *shard) create(id string) *group {
	g := s.groups[id]
	if g == nil {
		g = &group{id: id, shard: s}
		s.groups[id] = g
	}
	return g
}

// drop forgets a group of which nothing is left.
func (s *shard) drop(g *group) {
	if g.protocol == nil && g.offsets.empty() && g.writes == 0 && len(g.waiting) == 0 && s.groups[g.id] == g {
		delete(s.groups, g.id)
	}
}

// sorted is the groups in order of their ids.
func (s *shard) sorted() []*group {
	all := make([]*group, 0, len(s.groups))
	for _, g := range s.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *group) int { return strings.Compare(a.id, b.id) })
	return all
}

// whenIdle runs fn, under the lock, once no write of the group is under way: at
// once, or in order with others that wait. fn looks at resigned first, as the
// shard may have closed meanwhile.
func (g *group) whenIdle(fn func()) {
	if g.writes == 0 && len(g.waiting) == 0 {
		fn()
		return
	}
	g.waiting = append(g.waiting, fn)
}

// remove writes the tombstones of the group. What comes for it meanwhile waits
// for then, which is called as by shard.write.
func (g *group) remove(records []kv, then func(error)) {
	g.removing = true
	g.shard.write(g, records, true, func(err error) {
		g.removing = false
		then(err)
		g.shard.drop(g)
	})
}

// setProtocol gives the group other members, or none.
func (g *group) setProtocol(p protocol) {
	if g.protocol != nil {
		g.protocol.resign()
	}
	g.protocol = p
}
