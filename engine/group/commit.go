package group

import (
	"strings"
	"unicode/utf8"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions of OffsetCommit and OffsetFetch in which a thing begins.
const (
	offsetsMemberEpoch = 9  // members of the consumer protocol (KIP-848)
	offsetsTopicIDs    = 10 // topics by id
)

// OffsetCommit serves v2–v10. done is called when the offsets are written, or
// refused: each partition with its own error.
func (c *Coordinator) OffsetCommit(q *kmsg.OffsetCommitRequest, from Client, done func(*kmsg.OffsetCommitResponse)) {
	op := newCommitOp(c, q)
	if op.records == 0 {
		done(op.resp) // nothing that exists
		return
	}
	s, err := c.enter(q.Group)
	if err != nil {
		done(op.fail(err))
		return
	}
	s.offsetCommit(op, func(resp *kmsg.OffsetCommitResponse) { s.answer(func() { done(resp) }) })
	s.leave()
}

// commitOp is an OffsetCommit and its answer, partition by partition.
type commitOp struct {
	q       *kmsg.OffsetCommitRequest
	resp    *kmsg.OffsetCommitResponse
	names   []string // of the request's topics; empty: not to be committed
	records int      // partitions to be committed
}

// newCommitOp prepares the answer: partitions that do not exist, or whose note is
// too long, have their error already.
func newCommitOp(c *Coordinator, q *kmsg.OffsetCommitRequest) *commitOp {
	op := &commitOp{q: q, resp: kmsg.NewPtrOffsetCommitResponse(), names: make([]string, len(q.Topics))}
	im := c.config.Image()
	limit := min(c.config.Settings().OffsetMetadataMaxBytes, stringMax)
	op.resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(q.Topics))
	for i := range q.Topics {
		t := &q.Topics[i]
		out := &op.resp.Topics[i]
		out.Topic, out.TopicID = t.Topic, t.TopicID
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		topic, err := topicOf(im, q.Version, t.Topic, t.TopicID)
		if topic != nil {
			op.names[i] = topic.Name
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			o := &out.Partitions[j]
			o.Partition = p.Partition
			switch {
			case err != nil:
				o.ErrorCode = err.Code
			case p.Partition < 0 || int(p.Partition) >= len(topic.Partitions):
				o.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case p.Metadata != nil && javaLength(*p.Metadata) > limit:
				o.ErrorCode = kerr.OffsetMetadataTooLarge.Code
			default:
				op.records++
			}
		}
	}
	return op
}

// topicOf finds the topic that a request names, by name or id.
func topicOf(im *meta.Image, version int16, name string, id [16]byte) (*meta.Topic, *kerr.Error) {
	if version >= offsetsTopicIDs {
		if t := im.TopicsByID[id]; t != nil {
			return t, nil
		}
		return nil, kerr.UnknownTopicID
	}
	if t := im.Topics[name]; t != nil {
		return t, nil
	}
	return nil, kerr.UnknownTopicOrPartition
}

// javaLength is String.length: in UTF-16 units.
func javaLength(s string) int {
	n := utf8.RuneCountInString(s)
	for _, r := range s {
		if r >= 0x10000 {
			n++
		}
	}
	return n
}

// fail gives the error to every partition that has none.
func (op *commitOp) fail(err *kerr.Error) *kmsg.OffsetCommitResponse {
	for i := range op.resp.Topics {
		for j := range op.resp.Topics[i].Partitions {
			if p := &op.resp.Topics[i].Partitions[j]; p.ErrorCode == 0 {
				p.ErrorCode = err.Code
			}
		}
	}
	return op.resp
}

// offsetCommit checks who commits, and writes
// (OffsetMetadataManager.commitOffset).
func (s *shard) offsetCommit(op *commitOp, done func(*kmsg.OffsetCommitResponse)) {
	q := op.q
	g := s.group(q.Group)
	switch {
	case g != nil && g.removing:
		g.whenIdle(func() {
			if g.resigned {
				done(op.fail(kerr.NotCoordinator))
				return
			}
			s.offsetCommit(op, done)
		})
		return
	case g != nil && g.protocol != nil:
		if err := g.protocol.checkCommit(q); err != nil {
			done(op.fail(err))
			return
		}
		if c, ok := g.protocol.(*consumerGroup); ok {
			c.refuseStale(op)
		}
	case q.Generation >= 0 && g == nil:
		err := kerr.IllegalGeneration
		if q.Version >= offsetsMemberEpoch {
			err = kerr.GroupIDNotFound
		}
		done(op.fail(err))
		return
	case q.Generation >= 0:
		done(op.fail(kerr.UnknownMemberID)) // offsets, and nobody who could be in a generation
		return
	case g == nil:
		g = s.create(strings.Clone(q.Group))
	}
	s.write(g, op.build(s.coordinator.nowMs()), true, func(err error) {
		counters := &s.coordinator.counters
		if err != nil {
			counters.commitErrors.Add(1)
			done(op.fail(commitError(err)))
			s.drop(g)
			return
		}
		counters.commits.Add(uint64(op.records))
		done(op.resp)
	})
}

// build makes the records of all partitions without an error.
func (op *commitOp) build(nowMs int64) []kv {
	q := op.q
	records := make([]kv, 0, op.records)
	for i := range q.Topics {
		t := &q.Topics[i]
		for j := range t.Partitions {
			if op.resp.Topics[i].Partitions[j].ErrorCode != 0 {
				continue
			}
			p := &t.Partitions[j]
			o := offset{offset: p.Offset, leaderEpoch: record.LeaderEpoch(p.LeaderEpoch), commitMs: nowMs, expireMs: -1, topicID: t.TopicID}
			if q.Version < 6 {
				o.leaderEpoch = record.NoLeaderEpoch
			}
			if p.Metadata != nil {
				o.metadata = *p.Metadata
			}
			if q.Version >= 2 && q.Version <= 4 && q.RetentionTimeMillis >= 0 {
				o.expireMs = nowMs + q.RetentionTimeMillis
			}
			records = append(records, offsetRecord(q.Group, op.names[i], p.Partition, &o))
		}
	}
	return records
}
