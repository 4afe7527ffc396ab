package wire

import "math"

// Decode reads the body of a Fetch response; names and records are slices of
// body. On error (a *DecodeError) r must not be used.
func (r *FetchResponse) Decode(version int16, body []byte) error {
	in := reader{buf: body}
	if version < FetchMinVersion || version > FetchMaxVersion {
		in.fail(faultVersion, "RequestApiVersion", 0, 0)
		return in.fault("FetchResponse", version)
	}
	flexible := version >= FetchFlexibleVersion
	r.ErrorCode, r.SessionID = 0, 0
	r.Topics, r.partitions, r.aborted = r.Topics[:0], r.partitions[:0], r.aborted[:0]
	r.NodeEndpoints = r.NodeEndpoints[:0]
	r.ThrottleMs = in.int32("ThrottleTimeMs")
	if version >= 7 {
		r.ErrorCode = in.int16("ErrorCode")
		r.SessionID = in.int32("SessionId")
	}
	for n := in.count("Responses", flexible, leastFetchTopic(version)); n > 0 && in.ok(); n-- {
		r.decodeTopic(&in, version, r.AddTopic())
	}
	if flexible {
		r.NodeEndpoints = decodeResponseTags(&in, r.NodeEndpoints, version, 16)
	}
	if !in.ok() {
		return in.fault("FetchResponse", version)
	}
	return nil
}

func (r *FetchResponse) decodeTopic(in *reader, version int16, t *FetchTopicResponse) {
	flexible := version >= FetchFlexibleVersion
	if version >= 13 {
		t.ID = in.uuid("Responses.TopicId")
	} else {
		t.Name = in.string("Responses.Topic", flexible)
	}
	n := in.count("Responses.Partitions", flexible, leastFetchPartitionResponse(version))
	for ; n > 0 && in.ok(); n-- {
		r.decodePartition(in, version, r.AddPartition(in.int32("Responses.Partitions.PartitionIndex")))
	}
	if flexible {
		in.skipTags("Responses tags")
	}
}

// leastFetchPartitionResponse is the size of the smallest partition in a response.
func leastFetchPartitionResponse(version int16) int {
	switch {
	case version >= FetchFlexibleVersion:
		return 37
	case version >= 11:
		return 42
	case version >= 5:
		return 38
	default:
		return 30
	}
}

// decodePartition reads what follows the partition's index.
func (r *FetchResponse) decodePartition(in *reader, version int16, p *FetchPartitionResponse) {
	flexible := version >= FetchFlexibleVersion
	p.ErrorCode = in.int16("Responses.Partitions.ErrorCode")
	p.HighWatermark = in.int64("Responses.Partitions.HighWatermark")
	p.LastStableOffset = in.int64("Responses.Partitions.LastStableOffset")
	if version >= 5 {
		p.LogStartOffset = in.int64("Responses.Partitions.LogStartOffset")
	}
	p.Aborted = r.decodeAborted(in, flexible)
	if version >= 11 {
		p.PreferredReadReplica = in.int32("Responses.Partitions.PreferredReadReplica")
	}
	p.Records = in.nullableBytes("Responses.Partitions.Records", flexible)
	p.RecordsLength = -1
	if p.Records != nil {
		p.RecordsLength = int32(min(len(p.Records), math.MaxInt32))
	}
	if flexible {
		p.decodeTags(in)
	}
}

func (r *FetchResponse) decodeAborted(in *reader, flexible bool) (aborted []AbortedTransaction) {
	least := 16
	if flexible {
		least = 17
	}
	n := in.nullableCount("Responses.Partitions.AbortedTransactions", flexible, least)
	if n < 0 {
		return nil
	}
	if n == 0 {
		return noneAborted
	}
	r.aborted, aborted = extend(r.aborted, n)
	for i := range aborted {
		aborted[i].ProducerID = in.int64("Responses.Partitions.AbortedTransactions.ProducerId")
		aborted[i].FirstOffset = in.int64("Responses.Partitions.AbortedTransactions.FirstOffset")
		if flexible {
			in.skipTags("Responses.Partitions.AbortedTransactions tags")
		}
		if !in.ok() {
			break
		}
	}
	return aborted
}

func (p *FetchPartitionResponse) decodeTags(in *reader) {
	const tags = "Responses.Partitions tags"
	for n := in.tags(tags); n > 0 && in.ok(); n-- {
		tag, end := in.tag(tags)
		start := in.pos
		switch tag {
		case 0:
			p.DivergingEpoch.Epoch = in.int32("DivergingEpoch.Epoch")
			p.DivergingEpoch.EndOffset = in.int64("DivergingEpoch.EndOffset")
			in.skipTags("DivergingEpoch tags")
			in.endTag("DivergingEpoch", start, end)
		case 1:
			p.CurrentLeader = decodeLeader(in, end)
		case 2:
			p.SnapshotID.EndOffset = in.int64("SnapshotId.EndOffset")
			p.SnapshotID.Epoch = in.int32("SnapshotId.Epoch")
			in.skipTags("SnapshotId tags")
			in.endTag("SnapshotId", start, end)
		default:
			in.skipTo(end)
		}
	}
}
