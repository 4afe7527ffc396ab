package wire

import "fmt"

// FetchResponse is a Fetch response, v4–v18 (FetchResponse.json). Build it with
// Reset, AddTopic and AddPartition, which use the arrays of the last one again.
type FetchResponse struct {
	ThrottleMs    int32
	ErrorCode     int16 // v7+
	SessionID     int32 // v7+ (KIP-227)
	Topics        []FetchTopicResponse
	NodeEndpoints []NodeEndpoint // v16+, tagged (KIP-951)

	aborted []AbortedTransaction // what Partitions[i].Aborted are slices of, after Decode
}

// FetchTopicResponse is the answer for one topic.
type FetchTopicResponse struct {
	Name       []byte  // v4–v12
	ID         TopicID // v13+
	Partitions []FetchPartitionResponse
}

// FetchPartitionResponse is the answer for one partition.
type FetchPartitionResponse struct {
	Index                int32
	ErrorCode            int16
	HighWatermark        int64
	LastStableOffset     int64
	LogStartOffset       int64                // v5+
	DivergingEpoch       EpochEndOffset       // v12+, tagged; both -1 = none
	CurrentLeader        LeaderIDAndEpoch     // v12+, tagged; both -1 = none
	SnapshotID           SnapshotID           // v12+, tagged; both -1 = none
	Aborted              []AbortedTransaction // nil = null
	PreferredReadReplica int32                // v11+; -1 none (KIP-392)

	// RecordsLength is the number of bytes of records; -1 is null.
	RecordsLength int32
	// Records is set by Decode (slice of the frame, nil = null), and what Append
	// writes where it is given no Splicer.
	Records []byte
	// User is the caller's: say, the index of the span that a Splicer sends. It is
	// not part of the message.
	User int32
}

// EpochEndOffset is a leader epoch and the offset at which it ends (KIP-595).
type EpochEndOffset struct {
	Epoch     int32
	EndOffset int64
}

// SnapshotID names a KRaft snapshot (KIP-630).
type SnapshotID struct {
	EndOffset int64
	Epoch     int32
}

// AbortedTransaction tells a read_committed consumer what to discard (KIP-98).
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64
}

var (
	noDivergence = EpochEndOffset{Epoch: -1, EndOffset: -1}
	noSnapshot   = SnapshotID{EndOffset: -1, Epoch: -1}
	// noneAborted is an empty list that is not null.
	noneAborted = []AbortedTransaction{}
)

// Splicer puts the records of partition p behind dst, which ends with their
// length, and returns dst; it is called once for each partition whose
// RecordsLength is above 0, in order. Append goes on behind whatever it returns:
// a Splicer that sends a file range notes the range and returns dst as it is.
type Splicer interface {
	Splice(dst []byte, p *FetchPartitionResponse) []byte
}

// Reset empties r for the next answer or a wait in a pool, and drops its
// references to names and frames.
func (r *FetchResponse) Reset() {
	topics := r.Topics[:cap(r.Topics)]
	if len(topics) > maxRetained {
		topics = nil
	}
	for i := range topics {
		topics[i] = FetchTopicResponse{Partitions: recycle(topics[i].Partitions)}
	}
	*r = FetchResponse{Topics: topics[:0], NodeEndpoints: recycle(r.NodeEndpoints), aborted: recycle(r.aborted)}
}

// AddTopic appends a topic without name, id and partitions; the pointer is good
// until the next AddTopic.
func (r *FetchResponse) AddTopic() *FetchTopicResponse {
	n := len(r.Topics)
	if n < cap(r.Topics) {
		r.Topics = r.Topics[:n+1]
	} else {
		r.Topics = append(r.Topics, FetchTopicResponse{})
	}
	t := &r.Topics[n]
	*t = FetchTopicResponse{Partitions: t.Partitions[:0]}
	return t
}

// AddPartition appends a partition without error, records (empty, not null) and
// aborted transactions (null), all offsets, leaders and replicas -1; the pointer
// is good until the next AddPartition of the topic.
func (t *FetchTopicResponse) AddPartition(index int32) *FetchPartitionResponse {
	t.Partitions = append(t.Partitions, FetchPartitionResponse{
		Index: index, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1,
		DivergingEpoch: noDivergence, CurrentLeader: noLeader, SnapshotID: noSnapshot, PreferredReadReplica: -1,
	})
	return &t.Partitions[len(t.Partitions)-1]
}

// Append appends the response's body in version; s puts the records in their
// places, or without one they are copied from Records. Fields that the version
// lacks are left out.
func (r *FetchResponse) Append(dst []byte, version int16, s Splicer) []byte {
	checkFetch(version)
	flexible := version >= FetchFlexibleVersion
	dst = appendInt32(dst, r.ThrottleMs)
	if version >= 7 {
		dst = appendInt16(dst, r.ErrorCode)
		dst = appendInt32(dst, r.SessionID)
	}
	dst = appendLength(dst, len(r.Topics), flexible)
	for i := range r.Topics {
		t := &r.Topics[i]
		dst = appendTopic(dst, t.Name, &t.ID, version >= 13, flexible)
		dst = appendLength(dst, len(t.Partitions), flexible)
		for j := range t.Partitions {
			dst = t.Partitions[j].append(dst, version, s)
		}
		dst = appendNoTags(dst, flexible)
	}
	if version >= 16 {
		return appendResponseTags(dst, r.NodeEndpoints)
	}
	return appendNoTags(dst, flexible)
}

func (p *FetchPartitionResponse) append(dst []byte, version int16, s Splicer) []byte {
	flexible := version >= FetchFlexibleVersion
	dst = appendInt32(dst, p.Index)
	dst = appendInt16(dst, p.ErrorCode)
	dst = appendInt64(dst, p.HighWatermark)
	dst = appendInt64(dst, p.LastStableOffset)
	if version >= 5 {
		dst = appendInt64(dst, p.LogStartOffset)
	}
	dst = p.appendAborted(dst, flexible)
	if version >= 11 {
		dst = appendInt32(dst, p.PreferredReadReplica)
	}
	dst = appendLength(dst, int(max(p.RecordsLength, -1)), flexible)
	switch {
	case p.RecordsLength <= 0:
	case s != nil:
		dst = s.Splice(dst, p)
	case len(p.Records) != int(p.RecordsLength):
		panic(fmt.Sprintf("BUG: wire: %d bytes of records where %d were promised", len(p.Records), p.RecordsLength))
	default:
		dst = append(dst, p.Records...)
	}
	if flexible {
		dst = p.appendTags(dst)
	}
	return dst
}

func (p *FetchPartitionResponse) appendAborted(dst []byte, flexible bool) []byte {
	if p.Aborted == nil {
		return appendLength(dst, -1, flexible)
	}
	dst = appendLength(dst, len(p.Aborted), flexible)
	for _, a := range p.Aborted {
		dst = appendInt64(dst, a.ProducerID)
		dst = appendInt64(dst, a.FirstOffset)
		dst = appendNoTags(dst, flexible)
	}
	return dst
}

func (p *FetchPartitionResponse) appendTags(dst []byte) []byte {
	diverging := p.DivergingEpoch != noDivergence
	leader := p.CurrentLeader != noLeader
	snapshot := p.SnapshotID != noSnapshot
	dst = append(dst, countTags(diverging, leader, snapshot))
	if diverging {
		dst = appendTag(dst, 0, 13)
		dst = appendInt32(dst, p.DivergingEpoch.Epoch)
		dst = appendInt64(dst, p.DivergingEpoch.EndOffset)
		dst = append(dst, 0)
	}
	if leader {
		dst = appendLeader(dst, 1, p.CurrentLeader)
	}
	if snapshot {
		dst = appendTag(dst, 2, 13)
		dst = appendInt64(dst, p.SnapshotID.EndOffset)
		dst = appendInt32(dst, p.SnapshotID.Epoch)
		dst = append(dst, 0)
	}
	return dst
}
