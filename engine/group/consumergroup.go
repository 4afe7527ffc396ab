package group

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The states of a consumer group (ConsumerGroup.ConsumerGroupState). A group
// that is gone is called Dead by the admin clients.
const (
	consumerEmpty       = "Empty"
	consumerAssigning   = "Assigning"   // the target assignment is older than the group
	consumerReconciling = "Reconciling" // members are on their way to it
	consumerStable      = "Stable"
)

// consumerGroup is the members of a group of the consumer protocol (KIP-848;
// ConsumerGroup, GroupMetadataManager). The coordinator assigns, in three steps
// that each have an epoch: a change of members, subscriptions or topics makes the
// group's epoch one higher; a target assignment is computed for it; and each
// member, at its own heartbeats, is moved to the target, whose epoch then is its
// own. Nobody waits for anybody, but for partitions that another member still
// has.
//
// All of it is what the log says, changed by replay alone (consumerreplay.go),
// except for the fields that say otherwise.
type consumerGroup struct {
	group        *group
	epoch        int32
	metadataHash int64 // of the subscribed topics, when the epoch began
	targetEpoch  int32
	targetMs     int64 // when the target was computed; 0: does not hold up the next
	members      map[string]*consumerMember
	instances    map[string]*consumerMember // static members
	targets      map[string]assignor.Assignment
	regexes      map[string]*resolvedRegex

	// What follows from the members.
	owners       map[record.TopicID][]*consumerMember // by partition; nil: free
	topicCounts  map[string]int                       // members by subscribed name
	regexCounts  map[string]int
	assignors    map[string]int // members by preferred assignor
	classicCount int            // members that use the classic protocol
	classicNames map[string]int // classic members by assignor they know

	// Not in the log.
	seen      meta.Revision // of the image whose topics hash to metadataHash
	resolving bool          // expressions are being matched
	names     []string      // the topics that they were matched against last
}

// consumerMember is a member and its deadlines.
type consumerMember struct {
	memberState
	gone bool // removed: a step that waited for its turn finds that out

	session   timer // no heartbeat came
	rebalance timer // a consumer member does not give up what it is to
	rejoin    timer // a classic member does not join again
	syncing   timer // a classic member has joined and does not sync
	revoked   int32 // epoch of the member when rebalance was armed
}

func newConsumerGroup(g *group) *consumerGroup {
	return &consumerGroup{
		// Kafka's groups begin at epoch 1: the first member's is 2.
		group: g, epoch: 1, members: make(map[string]*consumerMember), instances: make(map[string]*consumerMember),
		targets: make(map[string]assignor.Assignment), regexes: make(map[string]*resolvedRegex),
		owners: make(map[record.TopicID][]*consumerMember), topicCounts: make(map[string]int),
		regexCounts: make(map[string]int), assignors: make(map[string]int), classicNames: make(map[string]int),
	}
}

func (c *consumerGroup) kind() string         { return "consumer" }
func (c *consumerGroup) protocolType() string { return consumerProtocolType }
func (c *consumerGroup) empty() bool          { return len(c.members) == 0 }
func (c *consumerGroup) size() int            { return len(c.members) }

func (c *consumerGroup) stateName() string {
	if len(c.members) == 0 {
		return consumerEmpty
	}
	if c.epoch > c.targetEpoch {
		return consumerAssigning
	}
	for _, m := range c.members {
		if !m.reconciled(c.targetEpoch) {
			return consumerReconciling
		}
	}
	return consumerStable
}

// sorted is the members in order of their ids.
func (c *consumerGroup) sorted() []*consumerMember {
	all := make([]*consumerMember, 0, len(c.members))
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		all = append(all, c.members[id])
	}
	return all
}

// update gives a member another state; the member is new if there is none.
func (c *consumerGroup) update(next memberState) {
	m := c.members[next.id]
	if m == nil {
		m = &consumerMember{}
		c.members[next.id] = m
		c.watch(m)
	} else {
		c.uncount(m)
	}
	m.memberState = next
	c.count(m, 1)
	if m.instance != nil {
		c.instances[*m.instance] = m
	}
	for _, parts := range []owned{m.assigned, m.revoking} {
		for i := range parts {
			c.own(m, &parts[i])
		}
	}
}

// remove takes a member out.
func (c *consumerGroup) remove(m *consumerMember) {
	c.uncount(m)
	delete(c.members, m.id)
	m.gone = true
	c.disarm(m)
}

// uncount undoes what follows from a member.
func (c *consumerGroup) uncount(m *consumerMember) {
	c.count(m, -1)
	if m.instance != nil && c.instances[*m.instance] == m {
		delete(c.instances, *m.instance)
	}
	for _, parts := range []owned{m.assigned, m.revoking} {
		for i := range parts {
			owners := c.owners[parts[i].topic]
			for _, p := range parts[i].partitions {
				if int(p) < len(owners) && owners[p] == m {
					owners[p] = nil
				}
			}
		}
	}
}

func (c *consumerGroup) count(m *consumerMember, n int) {
	for _, name := range m.topics {
		add(c.topicCounts, name, n)
	}
	if m.regex != "" {
		add(c.regexCounts, m.regex, n)
	}
	if m.assignor != nil {
		add(c.assignors, *m.assignor, n)
	}
	if m.classic != nil {
		c.classicCount += n
		for i := range m.classic.protocols {
			add(c.classicNames, m.classic.protocols[i].Name, n)
		}
	}
}

func add(counts map[string]int, name string, n int) {
	if counts[name] += n; counts[name] <= 0 {
		delete(counts, name)
	}
}

// own notes who has the partitions.
func (c *consumerGroup) own(m *consumerMember, t *ownedTopic) {
	owners := c.owners[t.topic]
	if need := int(t.partitions[len(t.partitions)-1]) + 1; need > len(owners) {
		owners = append(owners, make([]*consumerMember, need-len(owners))...)
		c.owners[t.topic] = owners
	}
	for _, p := range t.partitions {
		owners[p] = m
	}
}

// taken says that a member other than m has the partition.
func (c *consumerGroup) taken(m *consumerMember, topic record.TopicID, partition int32) bool {
	owners := c.owners[topic]
	return int(partition) < len(owners) && owners[partition] != nil && owners[partition] != m
}

// change is what a step makes of one member: from is nil for a new one, to for
// one that leaves.
type change struct{ from, to *memberState }

// subscribedAfter is the names of all topics that members are subscribed to after
// some changes, ascending, whether they exist or not.
func (c *consumerGroup) subscribedAfter(changes ...change) []string {
	topics, regexes := maps.Clone(c.topicCounts), maps.Clone(c.regexCounts)
	count := func(m *memberState, n int) {
		if m == nil {
			return
		}
		for _, name := range m.topics {
			add(topics, name, n)
		}
		if m.regex != "" {
			add(regexes, m.regex, n)
		}
	}
	for _, ch := range changes {
		count(ch.to, 1) // before from, so that no count is cut off at zero
		count(ch.from, -1)
	}
	return namesOf(topics, regexes, c.regexes)
}

// subscribedTo is the names of all topics that members are subscribed to if their
// expressions match what resolved says.
func (c *consumerGroup) subscribedTo(resolved map[string]*resolvedRegex) []string {
	return namesOf(c.topicCounts, c.regexCounts, resolved)
}

func namesOf(topics, regexes map[string]int, resolved map[string]*resolvedRegex) []string {
	names := slices.Collect(maps.Keys(topics))
	for regex := range regexes {
		if x := resolved[regex]; x != nil {
			names = append(names, x.topics...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// topicsHash tells apart states of topics: which of them exist, as what, and with
// how many partitions. Zero means none. (Kafka's hash has other bits; a group
// that comes from Kafka has its epoch moved on once.)
func topicsHash(im *meta.Image, names []string) int64 {
	h := fnv.New64a()
	some := false
	for _, name := range names {
		t := im.Topics[name]
		if t == nil {
			continue
		}
		some = true
		h.Write(t.ID[:])
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(t.Partitions))))
	}
	if !some {
		return 0
	}
	return int64(h.Sum64())
}

// subscribedTopics is the ids of the topics that a member subscribes to and that
// exist, ascending.
func (c *consumerGroup) subscribedTopics(im *meta.Image, m *memberState) []record.TopicID {
	names := m.topics
	if x := c.regexes[m.regex]; x != nil {
		names = slices.Concat(names, x.topics)
	}
	ids := make([]record.TopicID, 0, len(names))
	for _, name := range names {
		if t := im.Topics[name]; t != nil {
			ids = append(ids, t.ID)
		}
	}
	slices.SortFunc(ids, assignor.CompareTopics)
	return slices.Compact(ids)
}

// assignorAfter is the name of the assignor that most members prefer, the
// broker's default if none prefers any; among equals the first by name.
func (c *consumerGroup) assignorAfter(changes ...change) string {
	counts := maps.Clone(c.assignors)
	for _, ch := range changes {
		if ch.from != nil && ch.from.assignor != nil {
			add(counts, *ch.from.assignor, -1)
		}
		if ch.to != nil && ch.to.assignor != nil {
			add(counts, *ch.to.assignor, 1)
		}
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if best == "" || counts[name] > counts[best] {
			best = name
		}
	}
	if best == "" {
		best = c.defaultAssignor()
	}
	return best
}

func (c *consumerGroup) defaultAssignor() string {
	if names := c.group.shard.settings().ConsumerAssignors; len(names) > 0 {
		return names[0]
	}
	return assignor.NameUniform
}

// image is the current state of the cluster.
func (c *consumerGroup) image() *meta.Image { return c.group.shard.coordinator.config.Image() }

// config is what holds for this group: its own settings, else the broker's.
func (c *consumerGroup) config() (heartbeat, session, assignment time.Duration) {
	own, broker := c.group.shard.coordinator.config.GroupConfig(c.group.id), c.group.shard.settings()
	heartbeat, session, assignment = broker.ConsumerHeartbeatInterval, broker.ConsumerSessionTimeout, broker.ConsumerAssignmentInterval
	if own.ConsumerHeartbeatInterval > 0 {
		heartbeat = own.ConsumerHeartbeatInterval
	}
	if own.ConsumerSessionTimeout > 0 {
		session = own.ConsumerSessionTimeout
	}
	if own.ConsumerAssignmentInterval != nil {
		assignment = *own.ConsumerAssignmentInterval
	}
	return heartbeat, session, assignment
}

// checkCommit implements protocol (ConsumerGroup.validateOffsetCommit). A member
// may commit with an epoch that is over, for what it had in it (refuseStale).
func (c *consumerGroup) checkCommit(q *kmsg.OffsetCommitRequest) *kerr.Error {
	if q.Generation < 0 && len(c.members) == 0 {
		return nil
	}
	m := c.members[q.MemberID]
	switch {
	case m == nil:
		return kerr.UnknownMemberID
	case m.classic == nil && q.Version < offsetsMemberEpoch:
		return kerr.UnsupportedVersion
	case q.Generation > m.epoch:
		return m.staleEpoch()
	}
	return nil
}

// refuseStale refuses those partitions of a commit that the member has got, or
// lost, since the epoch that it commits with (KIP-1251).
func (c *consumerGroup) refuseStale(op *commitOp) {
	m := c.members[op.q.MemberID]
	if m == nil || op.q.Generation == m.epoch {
		return
	}
	im := c.image()
	for i := range op.resp.Topics {
		for j := range op.resp.Topics[i].Partitions {
			p := &op.resp.Topics[i].Partitions[j]
			if p.ErrorCode == 0 && !m.mayCommit(im.Topics[op.names[i]], p.Partition, op.q.Generation) {
				p.ErrorCode = m.staleEpoch().Code
				op.records--
			}
		}
	}
}

// mayCommit says whether the member has had the partition since the epoch.
func (m *consumerMember) mayCommit(t *meta.Topic, partition, epoch int32) bool {
	if t == nil {
		return false
	}
	since, ok := m.assigned.of(t.ID).epoch(partition)
	if !ok {
		since, ok = m.revoking.of(t.ID).epoch(partition)
	}
	return ok && epoch >= since
}

// staleEpoch is the error for an epoch that is not the member's.
func (m *consumerMember) staleEpoch() *kerr.Error {
	if m.classic != nil {
		return kerr.IllegalGeneration
	}
	return kerr.StaleMemberEpoch
}

// checkFetch implements protocol (ConsumerGroup.validateOffsetFetch).
func (c *consumerGroup) checkFetch(memberID *string, memberEpoch int32) *kerr.Error {
	if memberID == nil && memberEpoch < 0 {
		return nil
	}
	m := c.members[valueOf(memberID)]
	switch {
	case m == nil:
		return kerr.UnknownMemberID
	case memberEpoch != m.epoch:
		return m.staleEpoch()
	}
	return nil
}

func (c *consumerGroup) checkDelete() *kerr.Error {
	if len(c.members) > 0 {
		return kerr.NonEmptyGroup
	}
	return nil
}

func (c *consumerGroup) checkOffsetDelete() *kerr.Error { return nil }

func (c *consumerGroup) subscribed(topic string) bool {
	if c.topicCounts[topic] > 0 {
		return true
	}
	for regex := range c.regexCounts {
		if x := c.regexes[regex]; x != nil && slices.Contains(x.topics, topic) {
			return true
		}
	}
	return false
}

func (c *consumerGroup) expiresFrom() (ms int64, ok bool) { return -1, true }

func (c *consumerGroup) describe(*kmsg.DescribeGroupsResponseGroup) *kerr.Error {
	return kerr.GroupIDNotFound
}
