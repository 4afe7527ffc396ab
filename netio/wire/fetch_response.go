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

	partitions []FetchPartitionResponse // what Topics[i].Partitions are slices of
	aborted    []AbortedTransaction     // what their Aborted are slices of, after Decode
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

// Reset empties r for the next answer or a wait in a pool: it drops the references
// to names, messages and frames, and arrays of unusual size.
func (r *FetchResponse) Reset() {
	*r = FetchResponse{
		Topics: recycle(r.Topics), NodeEndpoints: recycle(r.NodeEndpoints), partitions: recycle(r.partitions),
		aborted: recycle(r.aborted),
	}
}

// AddTopic appends a topic without name, id and partitions; the pointer is good
// until the next AddTopic.
func (r *FetchResponse) AddTopic() *FetchTopicResponse {
	r.Topics = append(r.Topics, FetchTopicResponse{})
	return &r.Topics[len(r.Topics)-1]
}

// AddPartition appends a partition to the last topic: no error, empty records (not
// null), null aborted transactions, all offsets, leaders and replicas -1. The
// pointer is good until the next AddPartition.
func (r *FetchResponse) AddPartition(index int32) *FetchPartitionResponse {
	t := &r.Topics[len(r.Topics)-1]
	start := len(r.partitions) - len(t.Partitions)
	r.partitions = append(r.partitions, FetchPartitionResponse{
		Index: index, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1,
		DivergingEpoch: noDivergence, CurrentLeader: noLeader, SnapshotID: noSnapshot, PreferredReadReplica: -1,
	})
	t.Partitions = r.partitions[start:len(r.partitions):len(r.partitions)]
	return &r.partitions[len(r.partitions)-1]
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
