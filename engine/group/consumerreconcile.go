package group

import (
	"slices"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/posthouse/posthouse/storage/record"
)

// reconciliation moves one member towards its target assignment
// (CurrentAssignmentBuilder). A member gives up what it is not to have, and says
// so with its next heartbeat, before it enters the target's epoch; only then it
// gets what is new, as far as others have given that up in turn.
type reconciliation struct {
	targetEpoch int32
	target      assignor.Assignment
	// subscribed are the topics that the member subscribes to, ascending. Others
	// are taken from it at once, before a new target says so.
	subscribed []record.TopicID
	changed    bool // the subscription changed just now
	owns       claim
	// taken says that another member has a partition.
	taken func(topic record.TopicID, partition int32) bool
}

// next returns the member as it is after this step.
func (r *reconciliation) next(m memberState) memberState {
	switch m.state {
	case memberStable:
		if m.epoch == r.targetEpoch {
			if r.changed {
				return r.narrow(m)
			}
			return m
		}
	case memberUnrevoked:
		if r.owns.holds(m.revoking) {
			if r.changed {
				return r.narrow(m)
			}
			return m
		}
	case memberUnreleased:
	default:
		// Of a later version of the record: the member begins anew.
		m.state = memberStable
	}
	return r.advance(m)
}

func (r *reconciliation) subscribes(topic record.TopicID) bool {
	_, ok := slices.BinarySearchFunc(r.subscribed, topic, assignor.CompareTopics)
	return ok
}

// narrow takes partitions of topics that are not subscribed to any more, within
// the epoch.
func (r *reconciliation) narrow(m memberState) memberState {
	var kept, lost owned
	for _, t := range m.assigned {
		if r.subscribes(t.topic) {
			kept = append(kept, t)
		} else {
			lost = append(lost, t)
		}
	}
	if len(lost) == 0 {
		return m
	}
	revoking := m.revoking.merge(lost)
	m.move(m.epoch)
	m.assigned = kept
	if r.owns.holds(revoking) {
		m.state, m.revoking = memberUnrevoked, revoking
	}
	return m
}

// advance goes on to the target assignment as far as that is possible now.
func (r *reconciliation) advance(m memberState) memberState {
	var kept, lost, gained owned
	waits := false
	for _, topic := range r.topics(m.assigned) {
		var target []int32
		if r.subscribes(topic) {
			target = r.target.Partitions(topic)
		}
		have := m.assigned.of(topic)
		k, l, g := ownedTopic{topic: topic}, ownedTopic{topic: topic}, ownedTopic{topic: topic}
		for i, p := range have.partitions {
			if _, ok := slices.BinarySearch(target, p); ok {
				k.add(p, have.epochs[i])
			} else {
				l.add(p, have.epochs[i])
			}
		}
		for _, p := range target {
			if _, ok := have.epoch(p); ok {
				continue
			}
			if r.taken(topic, p) {
				waits = true
				continue
			}
			g.add(p, r.targetEpoch)
		}
		kept.add(k)
		lost.add(l)
		gained.add(g)
	}
	if len(lost) > 0 && r.owns.holds(lost) {
		m.move(m.epoch)
		m.state, m.assigned, m.revoking = memberUnrevoked, kept, lost
		return m
	}
	m.move(r.targetEpoch)
	m.state, m.assigned, m.revoking = memberStable, kept.merge(gained), nil
	if waits {
		m.state = memberUnreleased
	}
	return m
}

// topics are those of the target and of what the member has, ascending.
func (r *reconciliation) topics(have owned) []record.TopicID {
	all := make([]record.TopicID, 0, len(r.target)+len(have))
	for _, t := range r.target {
		all = append(all, t.Topic)
	}
	for _, t := range have {
		all = append(all, t.topic)
	}
	slices.SortFunc(all, assignor.CompareTopics)
	return slices.Compact(all)
}
