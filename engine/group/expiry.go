package group

import (
	"time"

	"github.com/posthouse/posthouse/replication/meta"
)

// Offsets that nobody uses go after offsets.retention.minutes (KIP-211): those
// of a group without members counted from when it became empty, those of a topic
// that no member is subscribed to, and those of consumers without a group, from
// when they were committed (ClassicGroup.offsetExpirationCondition). A group
// without members and offsets goes with them, as does all that was committed for
// a topic that is deleted.

// expire looks for what is due; it is a timer of the shard.
func (s *shard) expire() {
	settings := s.settings()
	now := s.coordinator.nowMs()
	for _, g := range s.sorted() {
		if g.writes == 0 && len(g.waiting) == 0 {
			g.expire(now, settings.OffsetsRetention)
		}
	}
	s.arm(&s.expiry, settings.ExpiryInterval)
}

// expire writes the tombstones of a group's unused offsets, and its own if
// nothing is left (OffsetMetadataManager.cleanupExpiredOffsets).
func (g *group) expire(nowMs int64, retention time.Duration) {
	from, ok := int64(-1), true
	if g.protocol != nil {
		from, ok = g.protocol.expiresFrom()
	}
	all := true
	var records []kv
	g.offsets.each(func(topic string, partition int32, o *offset) {
		if !ok || g.protocol != nil && g.protocol.subscribed(topic) || !o.expired(nowMs, from, retention) {
			all = false
			return
		}
		records = append(records, offsetTombstone(g.id, topic, partition))
	})
	g.shard.coordinator.counters.expired.Add(uint64(len(records)))
	switch {
	case all && g.protocol != nil && g.protocol.empty():
		g.remove(g.protocol.tombstones(records), func(error) {})
	case len(records) > 0:
		g.shard.write(g, records, true, g.dropped)
	default:
		g.shard.drop(g)
	}
}

// dropped forgets the group after a write that has removed what it had.
func (g *group) dropped(error) { g.shard.drop(g) }

// expired says whether an offset is past its time: its own, where the client gave
// it one, else retention after fromMs, or after its commit if that is -1.
func (o *offset) expired(nowMs, fromMs int64, retention time.Duration) bool {
	if o.expireMs >= 0 {
		return nowMs >= o.expireMs
	}
	if fromMs < 0 {
		fromMs = o.commitMs
	}
	return nowMs-fromMs >= retention.Milliseconds()
}

// ImageChanged looks whether topics were deleted, and removes what was committed
// for them (OffsetMetadataManager.onPartitionsDeleted). Calls come one at a time,
// in order of the images.
func (c *Coordinator) ImageChanged(im *meta.Image) {
	old := c.image
	c.image = im
	var deleted []string
	for _, name := range old.Names {
		if t := im.Topics[name]; t == nil || t.ID != old.Topics[name].ID {
			deleted = append(deleted, name)
		}
	}
	if len(deleted) == 0 {
		return
	}
	for _, s := range c.all() {
		s.mu.Lock()
		if s.state == shardActive {
			for _, g := range s.sorted() {
				g.forget(deleted)
			}
		}
		s.leave()
	}
}

// forget removes what was committed for topics, once earlier commits are done.
func (g *group) forget(topics []string) {
	g.whenIdle(func() {
		if g.resigned {
			return
		}
		var records []kv
		for _, topic := range topics {
			for _, p := range g.offsets.partitions(topic) {
				records = append(records, offsetTombstone(g.id, topic, p))
			}
		}
		if len(records) > 0 {
			g.shard.write(g, records, true, g.dropped)
		}
	})
}
