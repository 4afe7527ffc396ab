package group

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// classicState is the state of a classic group (ClassicGroupState).
type classicState int8

const (
	classicEmpty      classicState = iota // no members
	classicPreparing                      // waits for members to join
	classicCompleting                     // waits for the leader's assignment
	classicStable
	classicDead // deleted, or its shard is closed
)

var classicStateNames = [...]string{
	classicEmpty: "Empty", classicPreparing: "PreparingRebalance", classicCompleting: "CompletingRebalance",
	classicStable: "Stable", classicDead: "Dead",
}

// consumerProtocolType is the protocol type of consumers: the coordinator can
// read what their members are subscribed to.
const consumerProtocolType = "consumer"

// classicGroup is the members of a group of the classic protocol: they agree on
// an assignor, and one of them, the leader, assigns (ClassicGroup,
// GroupMetadataManager). What the log has of it is the last generation that
// became stable or empty; members that are joining are lost with the leadership
// and join again.
type classicGroup struct {
	group         *group
	state         classicState
	previous      classicState
	stateSinceMs  int64 // -1: not known
	protocolKind  string
	protocolName  string // of the generation; empty if there is none
	hasProtocol   bool   // protocolName is set
	generation    int32
	leader        string // member id; empty: none
	members       map[string]*classicMember
	order         []*classicMember // as they joined: answers do not depend on map order
	instances     map[string]*classicMember
	pendingJoin   map[string]*pendingMember // were told their id, and have yet to use it
	awaitingJoin  int                       // members whose JoinGroup waits
	pendingSync   int                       // members that have yet to send SyncGroup
	supported     map[string]int            // members that know a protocol, by its name
	topics        map[string]struct{}       // that members are subscribed to
	topicsKnown   bool
	newMember     bool          // one joined during the initial delay
	initialDelay  time.Duration // that runs, for an empty group
	initialLeft   time.Duration // that may follow it
	rebalanceMax  time.Duration // longest timeout of a member; valid unless stale
	rebalanceDirt bool

	joinTimer timer // a rebalance waits for members
	syncTimer timer // a generation waits for SyncGroup
}

// classicMember is one member. The answers that it waits for are functions.
type classicMember struct {
	id               string
	instance         *string
	clientID, host   string
	protocolType     string
	rebalanceTimeout time.Duration
	sessionTimeout   time.Duration
	protocols        []kmsg.JoinGroupRequestProtocol // in order of preference
	assignment       []byte

	awaitsJoin  func(*kmsg.JoinGroupResponse) // nil: no JoinGroup waits
	awaitsSync  func(*kmsg.SyncGroupResponse) // nil: no SyncGroup waits
	isNew       bool                          // has not completed a join yet
	pendingSync bool
	session     timer
}

// pendingMember has an id and is not a member yet (KIP-394).
type pendingMember struct {
	id      string
	session timer
}

func newClassicGroup(g *group) *classicGroup {
	c := &classicGroup{
		group: g, previous: classicDead, stateSinceMs: g.shard.coordinator.nowMs(),
		members: make(map[string]*classicMember), supported: make(map[string]int),
	}
	c.joinTimer.fire = c.joinTimedOut
	c.syncTimer.fire = c.syncTimedOut
	return c
}

func (c *classicGroup) kind() string         { return "classic" }
func (c *classicGroup) stateName() string    { return classicStateNames[c.state] }
func (c *classicGroup) protocolType() string { return c.protocolKind }
func (c *classicGroup) empty() bool          { return c.state == classicEmpty }
func (c *classicGroup) size() int            { return len(c.members) }

// transition moves to another state.
func (c *classicGroup) transition(to classicState) {
	c.previous, c.state = c.state, to
	c.stateSinceMs = c.group.shard.coordinator.nowMs()
}

// metadata is what the member said for a protocol.
func (m *classicMember) metadata(protocol string) []byte {
	for i := range m.protocols {
		if m.protocols[i].Name == protocol {
			return m.protocols[i].Metadata
		}
	}
	return nil
}

// record is the group as the log keeps it; assignment gives each member's.
func (c *classicGroup) record(assignment func(*classicMember) []byte) kv {
	v := kmsg.GroupMetadataValue{
		Version: groupMetadataVersion, ProtocolType: c.protocolKind, Generation: c.generation,
		CurrentStateTimestamp: c.stateSinceMs,
	}
	if c.hasProtocol {
		v.Protocol = &c.protocolName
	}
	if c.leader != "" {
		v.Leader = &c.leader
	}
	v.Members = make([]kmsg.GroupMetadataValueMember, len(c.order))
	for i, m := range c.order {
		v.Members[i] = kmsg.GroupMetadataValueMember{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.host,
			RebalanceTimeoutMillis: int32(m.rebalanceTimeout.Milliseconds()),
			SessionTimeoutMillis:   int32(m.sessionTimeout.Milliseconds()),
			Subscription:           notNil(m.metadata(c.protocolName)),
			Assignment:             notNil(assignment(m)),
		}
	}
	return kv{key: groupKey(c.group.id), value: v.AppendTo(nil)}
}

func notNil(p []byte) []byte {
	if p == nil {
		return []byte{}
	}
	return p
}

// replayClassic applies the record of a classic group, or its tombstone.
func (s *shard) replayClassic(key, value []byte) error {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return fmt.Errorf("group: key of a group: %w", err)
	}
	if value == nil {
		if g := s.groups[k.Group]; g != nil {
			if _, ok := g.protocol.(*classicGroup); ok {
				g.setProtocol(nil)
			}
		}
		return nil
	}
	var v kmsg.GroupMetadataValue
	v.Default()
	if err := v.ReadFrom(value); err != nil {
		return fmt.Errorf("group: value of group %q: %w", k.Group, err)
	}
	g := s.create(k.Group)
	c := newClassicGroup(g)
	c.restore(&v)
	g.setProtocol(c)
	if s.state == shardActive {
		c.loaded() // converted: its step may have timed out
	}
	return nil
}

// restore makes the group what its record says.
func (c *classicGroup) restore(v *kmsg.GroupMetadataValue) {
	c.protocolKind, c.generation, c.stateSinceMs = v.ProtocolType, v.Generation, v.CurrentStateTimestamp
	if v.Protocol != nil {
		c.protocolName, c.hasProtocol = *v.Protocol, true
	}
	for i := range v.Members {
		r := &v.Members[i]
		rebalance := r.RebalanceTimeoutMillis
		if v.Version < 1 || rebalance == -1 {
			rebalance = r.SessionTimeoutMillis
		}
		m := &classicMember{
			id: r.MemberID, instance: r.InstanceID, clientID: r.ClientID, host: r.ClientHost,
			protocolType:     v.ProtocolType,
			rebalanceTimeout: time.Duration(rebalance) * time.Millisecond,
			sessionTimeout:   time.Duration(r.SessionTimeoutMillis) * time.Millisecond,
			protocols:        []kmsg.JoinGroupRequestProtocol{{Name: c.protocolName, Metadata: slices.Clone(r.Subscription)}},
			assignment:       slices.Clone(r.Assignment),
		}
		c.add(m, nil)
	}
	c.leader = ""
	if v.Leader != nil {
		c.leader = *v.Leader
	}
	if len(c.members) > 0 {
		c.state = classicStable
	}
	c.readTopics()
}
