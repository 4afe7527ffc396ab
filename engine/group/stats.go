package group

import "sync/atomic"

// counters count what has happened here since the start.
type counters struct {
	rebalances, commits, commitErrors, expired atomic.Uint64
}

// Counters are what has happened here since the start.
type Counters struct {
	Rebalances   uint64 // generations that became stable
	Commits      uint64 // offsets committed
	CommitErrors uint64 // requests of OffsetCommit that could not be written
	Expired      uint64 // offsets that ran out of time
}

// Counters returns the current counts.
func (c *Coordinator) Counters() Counters {
	n := &c.counters
	return Counters{Rebalances: n.rebalances.Load(), Commits: n.commits.Load(), CommitErrors: n.commitErrors.Load(), Expired: n.expired.Load()}
}

// Stats is one group at one moment.
type Stats struct {
	Group    string
	Protocol string // "classic" or "consumer"
	State    string // as ListGroups names it
	Members  int
	Offsets  []CommittedOffset // by topic and partition
}

// CommittedOffset is the offset committed for one partition.
type CommittedOffset struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Stats tells of all groups, by shard and group id. Each group is looked at under
// a lock of its own turn, so that a long list holds nobody up.
func (c *Coordinator) Stats() []Stats {
	var out []Stats
	for _, s := range c.all() {
		s.mu.Lock()
		var groups []*group
		if s.state == shardActive {
			groups = s.sorted()
		}
		s.mu.Unlock()
		for _, g := range groups {
			s.mu.Lock()
			if s.group(g.id) == g {
				out = append(out, g.stats())
			}
			s.mu.Unlock()
		}
	}
	return out
}

func (g *group) stats() Stats {
	st := Stats{Group: g.id, Protocol: "classic", State: classicStateNames[classicEmpty]}
	if g.protocol != nil {
		st.Protocol, st.State, st.Members = g.protocol.kind(), g.protocol.stateName(), g.protocol.size()
	}
	g.offsets.each(func(topic string, partition int32, o *offset) {
		st.Offsets = append(st.Offsets, CommittedOffset{Topic: topic, Partition: partition, Offset: o.offset})
	})
	return st
}
