package group

import (
	"slices"
	"strings"
	"time"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
)

// consumerStep is what one heartbeat, or JoinGroup of a classic member, makes of
// a consumer group. It changes nothing by itself: it looks at the group as it is
// and collects records. While it is made no write of the group is under way.
//
//	begin      the group, made or converted if it is joined
//	find       the member, which a static one that is back takes over
//	subscribe  what the member says of itself; the group's epoch, if that or the
//	           topics have changed
//	run        the target assignment, if the group's epoch is beyond it; the
//	           member on its way to it
//	write
type consumerStep struct {
	g *group
	// c is the group as it is. If it is joined for the first time, or is being
	// converted, c is only what its records will make of it.
	c       *consumerGroup
	im      *meta.Image
	records []kv
	classic *classicGroup // that is being converted

	member memberState     // before; of a new member, or under its new id
	handle *consumerMember // what the member was until now; nil: it is new
	next   memberState     // after
	owns   claim

	epoch      int32 // of the group, after
	subChanged bool
	moved      bool // the member's epoch or partitions have changed
}

// begin finds the group, or if it is joined makes it: of nothing, of an empty
// classic group, or of one whose members speak the consumer's embedded protocol.
func (st *consumerStep) begin(g *group, join bool) *refusal {
	st.g, st.im = g, g.shard.coordinator.config.Image()
	switch p := g.protocol.(type) {
	case *consumerGroup:
		st.c = p
		return nil
	case *classicGroup:
		if !join {
			return refuse(kerr.GroupIDNotFound, "Group %s is not a consumer group.", g.id)
		}
		if p.empty() {
			st.c, st.records = newConsumerGroup(g), p.tombstones(nil)
			return nil
		}
		return st.upgrade(p)
	}
	if !join {
		return refuse(kerr.GroupIDNotFound, "Consumer group %s not found.", g.id)
	}
	st.c = newConsumerGroup(g)
	return nil
}

// checkSize refuses a new member of a group that is full.
func (st *consumerStep) checkSize(id string, instance *string) *refusal {
	limit := st.g.shard.settings().ConsumerMaxSize
	if instance != nil && st.c.instances[*instance] != nil || st.c.members[id] != nil || len(st.c.members) < limit {
		return nil
	}
	return refuse(kerr.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", limit)
}

// find finds the member, or if it joins makes it. A static member that joins
// takes the place of the one that left with its instance id (−2), or that is to
// change protocols.
func (st *consumerStep) find(id string, instance *string, join, classic bool) *refusal {
	c := st.c
	if instance == nil {
		st.handle = c.members[id]
		if st.handle == nil {
			if !join {
				return refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", id, st.g.id)
			}
			st.member = newMemberState(id)
			return nil
		}
		st.member = st.handle.memberState
		return nil
	}
	st.handle = c.instances[*instance]
	switch {
	case st.handle == nil && !join:
		return refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", *instance)
	case st.handle == nil:
		st.handle = c.members[id]
		st.member = newMemberState(id)
		if st.handle != nil {
			st.member = st.handle.memberState
		}
		return nil
	case !join && st.handle.id != id:
		return refuse(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", id, *instance, st.handle.id)
	case !join, st.handle.id == id:
		// It may be itself that joins again: the answer to its first heartbeat was
		// lost, or it was fenced. (Kafka locks it out until its session ends.)
		st.member = st.handle.memberState
		return nil
	case !classic && st.handle.classic == nil && st.handle.epoch != epochLeaveStatic:
		return refuse(kerr.UnreleasedInstanceID, "Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.", id, *instance, st.handle.id)
	}
	st.member = st.handle.memberState
	st.member.id, st.member.epoch, st.member.previousEpoch = id, 0, 0
	st.records = c.removal(st.records, st.handle.id)
	st.records = append(st.records, c.memberRecord(&st.member),
		kv{key: consumerKey(keyConsumerTargetMember, st.g.id, id), value: targetValue(c.targets[st.handle.id])},
		c.currentRecord(&st.member))
	return nil
}

// change is what the step makes of the member.
func (st *consumerStep) change() change { return change{from: &st.member, to: &st.next} }

// subscribe takes what the member now says of itself. The group's epoch moves on
// if it is subscribed to something else, if most members now prefer another
// assignor, or if the topics are others than when the epoch began.
func (st *consumerStep) subscribe(next memberState) *refusal {
	c := st.c
	st.next = next
	if st.handle == nil || !next.sameSide(&st.member) {
		st.records = append(st.records, c.memberRecord(&st.next))
	}
	bump := !slices.Equal(next.topics, st.member.topics)
	st.subChanged = bump
	if next.regex != st.member.regex {
		st.subChanged = true
		known, err := st.changeRegex()
		if err != nil {
			return err
		}
		bump = bump || known || next.classic != nil
	}
	if c.assignorAfter(st.change()) != c.assignorAfter() {
		bump = true
	}
	st.epoch = c.epoch
	if !bump && st.im.Revision == c.seen {
		return nil
	}
	hash := topicsHash(st.im, c.subscribedAfter(st.change()))
	if bump || hash != c.metadataHash {
		st.epoch++
		st.records = append(st.records, c.epochRecord(st.epoch, hash))
	}
	return nil
}

func (c *consumerGroup) epochRecord(epoch int32, hash int64) kv {
	return kv{key: consumerKey(keyConsumerMetadata, c.group.id), value: groupEpochValue(epoch, hash)}
}

// run computes the target assignment if it is due, and moves the member.
func (st *consumerStep) run() {
	targetEpoch, target := st.target()
	if !st.subChanged && st.next.reconciled(targetEpoch) {
		return
	}
	r := reconciliation{
		targetEpoch: targetEpoch, target: target, changed: st.subChanged, owns: st.owns,
		subscribed: st.c.subscribedTopics(st.im, &st.next),
		taken:      func(topic topicID, p int32) bool { return st.c.taken(st.handle, topic, p) },
	}
	before := st.next
	st.next = r.next(st.next)
	if st.moved = !st.next.sameAssignment(&before); st.moved {
		st.records = append(st.records, st.c.currentRecord(&st.next))
	}
}

// target is the target assignment's epoch, and the member's part. A new one is
// computed when the group's epoch is beyond it, but not more often than
// consumer.assignment.interval.ms: a group that many members join moves few times.
func (st *consumerStep) target() (int32, assignor.Assignment) {
	c := st.c
	var old assignor.Assignment
	if st.handle != nil {
		old = c.targets[st.handle.id]
	}
	now := st.g.shard.coordinator.nowMs()
	_, _, interval := c.config()
	if c.targetEpoch >= st.epoch || c.targetMs != 0 && now < c.targetMs+interval.Milliseconds() {
		return c.targetEpoch, old
	}
	spec := st.spec()
	name := c.assignorAfter(st.change())
	assign := assignor.ByName(name)
	if assign == nil {
		// The broker's list has changed since a member named it.
		assign = assignor.ByName(assignor.NameUniform)
	}
	var mine assignor.Assignment
	for i, a := range assign(spec) {
		m := &spec.Members[i]
		before, known := c.targets[m.ID]
		if m.ID == st.next.id {
			mine, before = a, old
			known = st.handle != nil
		}
		if !known || !assignor.Equal(a, before) {
			st.records = append(st.records, kv{key: consumerKey(keyConsumerTargetMember, st.g.id, m.ID), value: targetValue(a)})
		}
	}
	st.records = append(st.records, kv{key: consumerKey(keyConsumerTargetMetadata, st.g.id), value: targetEpochValue(st.epoch, now)})
	st.g.shard.coordinator.counters.rebalances.Add(1)
	return st.epoch, mine
}

// spec is what there is to assign.
func (st *consumerStep) spec() assignor.Spec {
	c := st.c
	spec := assignor.Spec{Partitions: func(id topicID) int { return len(st.im.TopicsByID[id].Partitions) }}
	var like *memberState // the member before: most have the same subscription
	add := func(m *memberState, assigned assignor.Assignment) {
		a := assignor.Member{ID: m.id, InstanceID: valueOf(m.instance), Assigned: assigned}
		if like != nil && like.regex == m.regex && slices.Equal(like.topics, m.topics) {
			a.Topics = spec.Members[len(spec.Members)-1].Topics
		} else {
			a.Topics = c.subscribedTopics(st.im, m)
		}
		spec.Members, like = append(spec.Members, a), m
	}
	members := make([]*memberState, 0, len(c.members)+1)
	for _, m := range c.sorted() {
		if m != st.handle {
			members = append(members, &m.memberState)
		}
	}
	i, _ := slices.BinarySearchFunc(members, st.next.id, func(m *memberState, id string) int { return strings.Compare(m.id, id) })
	members = slices.Insert(members, i, &st.next)
	for _, m := range members {
		assigned := c.targets[m.id]
		if m == &st.next && st.handle != nil {
			assigned = c.targets[st.handle.id]
		}
		add(m, assigned)
	}
	return spec
}

// write writes the records; then gets the group as it is after that.
func (st *consumerStep) write(then func(*consumerGroup, error)) {
	g, revision := st.g, st.im.Revision
	fresh := g.protocol != protocol(st.c)
	if fresh {
		g.removing = true // nobody else is to make the group meanwhile
	}
	g.shard.write(g, st.records, true, func(err error) {
		if fresh {
			g.removing = false
		}
		c, _ := g.protocol.(*consumerGroup)
		if err != nil {
			then(c, err)
			g.shard.drop(g)
			return
		}
		if st.classic != nil {
			c.upgraded()
		}
		c.seen = revision
		then(c, nil)
	})
}

// watch gives a member's deadlines what they do.
func (c *consumerGroup) watch(m *consumerMember) {
	m.session.fire = func() { c.fence(m, &m.session, "the member session expired") }
	m.rejoin.fire = func() { c.fence(m, &m.rejoin, "the classic member failed to join within the rebalance timeout") }
	m.syncing.fire = func() { c.fence(m, &m.syncing, "the member failed to sync within timeout") }
	m.rebalance.fire = func() {
		if m.epoch == m.revoked && m.state == memberUnrevoked {
			c.fence(m, &m.rebalance, "it failed to give up partitions within the rebalance timeout")
		}
	}
}

// watchRevocation gives a consumer member its rebalance timeout to give up what
// it is to give up.
func (c *consumerGroup) watchRevocation(m *consumerMember) {
	s := c.group.shard
	if m.classic != nil {
		return
	}
	if m.state != memberUnrevoked {
		s.disarm(&m.rebalance)
		return
	}
	m.revoked = m.epoch
	s.arm(&m.rebalance, time.Duration(m.rebalanceTimeoutMs)*time.Millisecond)
}

// disarm stops all deadlines of a member.
func (c *consumerGroup) disarm(m *consumerMember) {
	for _, t := range []*timer{&m.session, &m.rebalance, &m.rejoin, &m.syncing} {
		c.group.shard.disarm(t)
	}
}

// loaded implements protocol: sessions begin when the group is loaded.
func (c *consumerGroup) loaded() {
	_, session, _ := c.config()
	for _, m := range c.sorted() {
		c.group.shard.arm(&m.session, session)
		c.watchRevocation(m)
	}
}

// resign implements protocol. No request waits here: those that wait for their
// turn are in group.waiting.
func (c *consumerGroup) resign() {
	for _, m := range c.members {
		m.gone = true
		c.disarm(m)
	}
}
