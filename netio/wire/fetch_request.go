package wire

import "math"

// NoHighWatermark is the value of FetchPartition.HighWatermark when the asking
// replica does not state its high watermark (KIP-1166).
const NoHighWatermark int64 = math.MaxInt64

// FetchRequest is a Fetch request, v4–v18 (FetchRequest.json). The zero value is
// ready for Decode, which may be called again and again.
type FetchRequest struct {
	ReplicaID    int32 // -1 consumer; from v15 inside the tagged ReplicaState (KIP-903)
	ReplicaEpoch int64 // v15+; else -1
	MaxWaitMs    int32
	MinBytes     int32
	MaxBytes     int32
	Isolation    int8  // 0 read_uncommitted, 1 read_committed
	SessionID    int32 // v7+ (KIP-227); else 0
	SessionEpoch int32 // v7+; else -1
	Topics       []FetchTopic
	Forgotten    []ForgottenTopic // v7+
	RackID       []byte           // v11+ (KIP-392)
	ClusterID    []byte           // v12+, tagged; nil = null

	partitions []FetchPartition // what Topics[i].Partitions are slices of, after Decode
	indexes    []int32          // the same for Forgotten[i].Partitions
}

// FetchTopic is one topic of a Fetch request: by name up to v12, by id from v13
// (KIP-516).
type FetchTopic struct {
	Name       []byte  // v4–v12, else nil
	ID         TopicID // v13+, else zero
	Partitions []FetchPartition
}

// FetchPartition is what is asked of one partition. Their order in the request is
// the order in which they are served (KIP-74).
type FetchPartition struct {
	Index              int32
	CurrentLeaderEpoch int32 // v9+; -1 unknown (KIP-320)
	FetchOffset        int64
	LastFetchedEpoch   int32   // v12+; -1 none (KIP-595)
	LogStartOffset     int64   // v5+; the follower's, -1 from a consumer
	MaxBytes           int32   // bytes
	DirectoryID        TopicID // v17+, tagged (KIP-853)
	HighWatermark      int64   // v18+, tagged (KIP-1166); NoHighWatermark if not stated
}

// ForgottenTopic names partitions that leave a fetch session (KIP-227).
type ForgottenTopic struct {
	Name       []byte  // v7–v12, else nil
	ID         TopicID // v13+, else zero
	Partitions []int32
}

// Reset drops the references of the last Decode to its frame, and arrays of unusual
// size, so that r may wait in a pool, and sets the defaults of a consumer's sessionless request.
// Decode needs no Reset before it.
func (r *FetchRequest) Reset() {
	*r = FetchRequest{
		ReplicaID: -1, ReplicaEpoch: -1, SessionEpoch: -1, MaxBytes: math.MaxInt32,
		Topics: recycle(r.Topics), Forgotten: recycle(r.Forgotten),
		partitions: recycle(r.partitions), indexes: recycle(r.indexes),
	}
}

// Decode reads the body of a Fetch request; what it fills in are slices of body.
// On error (a *DecodeError) r holds what came before the fault and must not be used.
func (r *FetchRequest) Decode(version int16, body []byte) error {
	in := reader{buf: body}
	if version < FetchMinVersion || version > FetchMaxVersion {
		in.fail(faultVersion, "RequestApiVersion", 0, 0)
		return in.fault("FetchRequest", version)
	}
	flexible := version >= FetchFlexibleVersion
	r.ReplicaID, r.ReplicaEpoch = -1, -1
	r.SessionID, r.SessionEpoch = 0, -1
	r.RackID, r.ClusterID = nil, nil
	r.partitions, r.indexes = r.partitions[:0], r.indexes[:0]

	if version <= 14 {
		r.ReplicaID = in.int32("ReplicaId")
	}
	r.MaxWaitMs = in.int32("MaxWaitMs")
	r.MinBytes = in.int32("MinBytes")
	r.MaxBytes = in.int32("MaxBytes")
	r.Isolation = in.int8("IsolationLevel")
	if version >= 7 {
		r.SessionID = in.int32("SessionId")
		r.SessionEpoch = in.int32("SessionEpoch")
	}
	r.Topics = resize(r.Topics, in.count("Topics", flexible, leastFetchTopic(version)))
	for i := range r.Topics {
		if r.decodeTopic(&in, version, &r.Topics[i]); !in.ok() {
			break
		}
	}
	r.decodeForgotten(&in, version)
	if version >= 11 {
		r.RackID = in.string("RackId", flexible)
	}
	if flexible {
		r.decodeTags(&in, version)
	}
	if !in.ok() {
		return in.fault("FetchRequest", version)
	}
	return nil
}

func (r *FetchRequest) decodeTopic(in *reader, version int16, t *FetchTopic) {
	flexible := version >= FetchFlexibleVersion
	*t = FetchTopic{}
	if version >= 13 {
		t.ID = in.uuid("Topics.TopicId")
	} else {
		t.Name = in.string("Topics.Topic", flexible)
	}
	n := in.count("Topics.Partitions", flexible, leastFetchPartition(version))
	r.partitions, t.Partitions = extend(r.partitions, n)
	for i := range t.Partitions {
		if decodeFetchPartition(in, version, &t.Partitions[i]); !in.ok() {
			return
		}
	}
	if flexible {
		in.skipTags("Topics tags")
	}
}

func decodeFetchPartition(in *reader, version int16, p *FetchPartition) {
	*p = FetchPartition{CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, LogStartOffset: -1, HighWatermark: NoHighWatermark}
	p.Index = in.int32("Topics.Partitions.Partition")
	if version >= 9 {
		p.CurrentLeaderEpoch = in.int32("Topics.Partitions.CurrentLeaderEpoch")
	}
	p.FetchOffset = in.int64("Topics.Partitions.FetchOffset")
	if version >= 12 {
		p.LastFetchedEpoch = in.int32("Topics.Partitions.LastFetchedEpoch")
	}
	if version >= 5 {
		p.LogStartOffset = in.int64("Topics.Partitions.LogStartOffset")
	}
	p.MaxBytes = in.int32("Topics.Partitions.PartitionMaxBytes")
	if version < FetchFlexibleVersion {
		return
	}
	const tags = "Topics.Partitions tags"
	for n := in.tags(tags); n > 0 && in.ok(); n-- {
		at := in.pos
		tag, end := in.tag(tags)
		start := in.pos
		switch tag {
		case 0:
			in.requireVersion(version >= 17, tags, at, tag)
			p.DirectoryID = in.uuid("Topics.Partitions.ReplicaDirectoryId")
			in.endTag("Topics.Partitions.ReplicaDirectoryId", start, end)
		case 1:
			in.requireVersion(version >= 18, tags, at, tag)
			p.HighWatermark = in.int64("Topics.Partitions.HighWatermark")
			in.endTag("Topics.Partitions.HighWatermark", start, end)
		default:
			in.skipTo(end)
		}
	}
}

func (r *FetchRequest) decodeForgotten(in *reader, version int16) {
	flexible := version >= FetchFlexibleVersion
	n := 0
	if version >= 7 {
		n = in.count("ForgottenTopicsData", flexible, leastFetchTopic(version))
	}
	r.Forgotten = resize(r.Forgotten, n)
	for i := range r.Forgotten {
		t := &r.Forgotten[i]
		*t = ForgottenTopic{}
		if version >= 13 {
			t.ID = in.uuid("ForgottenTopicsData.TopicId")
		} else {
			t.Name = in.string("ForgottenTopicsData.Topic", flexible)
		}
		r.indexes, t.Partitions = extend(r.indexes, in.count("ForgottenTopicsData.Partitions", flexible, 4))
		for j := range t.Partitions {
			t.Partitions[j] = in.int32("ForgottenTopicsData.Partitions")
		}
		if flexible {
			in.skipTags("ForgottenTopicsData tags")
		}
		if !in.ok() {
			return
		}
	}
}

func (r *FetchRequest) decodeTags(in *reader, version int16) {
	const tags = "FetchRequest tags"
	for n := in.tags(tags); n > 0 && in.ok(); n-- {
		at := in.pos
		tag, end := in.tag(tags)
		start := in.pos
		switch tag {
		case 0:
			r.ClusterID = in.nullableString("ClusterId", true)
			in.endTag("ClusterId", start, end)
		case 1:
			in.requireVersion(version >= 15, tags, at, tag)
			r.ReplicaID = in.int32("ReplicaState.ReplicaId")
			r.ReplicaEpoch = in.int64("ReplicaState.ReplicaEpoch")
			in.skipTags("ReplicaState tags")
			in.endTag("ReplicaState", start, end)
		default:
			in.skipTo(end)
		}
	}
}

// leastFetchTopic is the size of the smallest topic, in a request (a forgotten
// one included) or a response.
func leastFetchTopic(version int16) int {
	switch {
	case version >= 13:
		return 16 + 2
	case version >= FetchFlexibleVersion:
		return 3
	default:
		return 6
	}
}

// leastFetchPartition is the size of the smallest partition in a request.
func leastFetchPartition(version int16) int {
	switch {
	case version >= 12:
		return 33
	case version >= 9:
		return 28
	case version >= 5:
		return 24
	default:
		return 16
	}
}

// Append appends the request's body in version. Fields that the version lacks are
// left out.
func (r *FetchRequest) Append(dst []byte, version int16) []byte {
	checkFetch(version)
	flexible := version >= FetchFlexibleVersion
	if version <= 14 {
		dst = appendInt32(dst, r.ReplicaID)
	}
	dst = appendInt32(dst, r.MaxWaitMs)
	dst = appendInt32(dst, r.MinBytes)
	dst = appendInt32(dst, r.MaxBytes)
	dst = append(dst, byte(r.Isolation))
	if version >= 7 {
		dst = appendInt32(dst, r.SessionID)
		dst = appendInt32(dst, r.SessionEpoch)
	}
	dst = appendLength(dst, len(r.Topics), flexible)
	for i := range r.Topics {
		t := &r.Topics[i]
		dst = appendTopic(dst, t.Name, &t.ID, version >= 13, flexible)
		dst = appendLength(dst, len(t.Partitions), flexible)
		for j := range t.Partitions {
			dst = t.Partitions[j].append(dst, version)
		}
		dst = appendNoTags(dst, flexible)
	}
	if version >= 7 {
		dst = appendLength(dst, len(r.Forgotten), flexible)
		for i := range r.Forgotten {
			t := &r.Forgotten[i]
			dst = appendTopic(dst, t.Name, &t.ID, version >= 13, flexible)
			dst = appendLength(dst, len(t.Partitions), flexible)
			for _, p := range t.Partitions {
				dst = appendInt32(dst, p)
			}
			dst = appendNoTags(dst, flexible)
		}
	}
	if version >= 11 {
		dst = appendString(dst, r.RackID, flexible)
	}
	if flexible {
		dst = r.appendTags(dst, version)
	}
	return dst
}

func (p *FetchPartition) append(dst []byte, version int16) []byte {
	dst = appendInt32(dst, p.Index)
	if version >= 9 {
		dst = appendInt32(dst, p.CurrentLeaderEpoch)
	}
	dst = appendInt64(dst, p.FetchOffset)
	if version >= 12 {
		dst = appendInt32(dst, p.LastFetchedEpoch)
	}
	if version >= 5 {
		dst = appendInt64(dst, p.LogStartOffset)
	}
	dst = appendInt32(dst, p.MaxBytes)
	if version < FetchFlexibleVersion {
		return dst
	}
	directory := version >= 17 && p.DirectoryID != TopicID{}
	highWatermark := version >= 18 && p.HighWatermark != NoHighWatermark
	dst = append(dst, countTags(directory, highWatermark, false))
	if directory {
		dst = append(appendTag(dst, 0, 16), p.DirectoryID[:]...)
	}
	if highWatermark {
		dst = appendInt64(appendTag(dst, 1, 8), p.HighWatermark)
	}
	return dst
}

func (r *FetchRequest) appendTags(dst []byte, version int16) []byte {
	cluster := r.ClusterID != nil
	replica := version >= 15 && (r.ReplicaID != -1 || r.ReplicaEpoch != -1)
	dst = append(dst, countTags(cluster, replica, false))
	if cluster {
		size := uvarintSize(uint32(len(r.ClusterID)+1)) + len(r.ClusterID)
		dst = appendString(appendTag(dst, 0, uint32(size)), r.ClusterID, true)
	}
	if replica {
		dst = appendTag(dst, 1, 13)
		dst = appendInt32(dst, r.ReplicaID)
		dst = appendInt64(dst, r.ReplicaEpoch)
		dst = append(dst, 0)
	}
	return dst
}
