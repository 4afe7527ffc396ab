package wire

// ProduceResponse is a Produce response, v3–v13 (ProduceResponse.json). Build it
// with Reset, AddTopic and AddPartition, which use the arrays of the last one
// again.
type ProduceResponse struct {
	Topics        []ProduceTopicResponse
	ThrottleMs    int32
	NodeEndpoints []NodeEndpoint // v10+, tagged (KIP-951)

	partitions []ProducePartitionResponse // what Topics[i].Partitions are slices of
}

// ProduceTopicResponse is the answer for one topic.
type ProduceTopicResponse struct {
	Name       []byte  // v3–v12
	ID         TopicID // v13
	Partitions []ProducePartitionResponse
}

// ProducePartitionResponse is the answer for one partition.
type ProducePartitionResponse struct {
	Index           int32
	ErrorCode       int16
	BaseOffset      int64            // -1 on error
	LogAppendTimeMs int64            // -1 unless the topic stamps LogAppendTime
	LogStartOffset  int64            // v5+; -1 unknown
	RecordErrors    []RecordError    // v8+ (KIP-467)
	ErrorMessage    string           // v8+; "" = null
	CurrentLeader   LeaderIDAndEpoch // v10+, tagged (KIP-951); both -1 = none
}

// RecordError names one record that made the broker refuse its batch (KIP-467).
type RecordError struct {
	BatchIndex int32
	Message    string // "" = null
}

// Reset empties r for the next answer or a wait in a pool: it drops the references
// to names, messages and frames, and arrays of unusual size.
func (r *ProduceResponse) Reset() {
	*r = ProduceResponse{
		Topics: recycle(r.Topics), NodeEndpoints: recycle(r.NodeEndpoints), partitions: recycle(r.partitions),
	}
}

// AddTopic appends a topic without name, id and partitions; the pointer is good
// until the next AddTopic.
func (r *ProduceResponse) AddTopic() *ProduceTopicResponse {
	r.Topics = append(r.Topics, ProduceTopicResponse{})
	return &r.Topics[len(r.Topics)-1]
}

// AddPartition appends a partition to the last topic, without error, its offsets,
// time and leader -1; the pointer is good until the next AddPartition.
func (r *ProduceResponse) AddPartition(index int32) *ProducePartitionResponse {
	t := &r.Topics[len(r.Topics)-1]
	start := len(r.partitions) - len(t.Partitions)
	r.partitions = append(r.partitions, ProducePartitionResponse{
		Index: index, BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1, CurrentLeader: noLeader,
	})
	t.Partitions = r.partitions[start:len(r.partitions):len(r.partitions)]
	return &r.partitions[len(r.partitions)-1]
}

// Append appends the response's body in version. Fields that the version lacks are
// left out.
func (r *ProduceResponse) Append(dst []byte, version int16) []byte {
	checkProduce(version)
	flexible := version >= ProduceFlexibleVersion
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
	dst = appendInt32(dst, r.ThrottleMs)
	switch {
	case version >= 10:
		return appendResponseTags(dst, r.NodeEndpoints)
	default:
		return appendNoTags(dst, flexible)
	}
}

func (p *ProducePartitionResponse) append(dst []byte, version int16) []byte {
	flexible := version >= ProduceFlexibleVersion
	dst = appendInt32(dst, p.Index)
	dst = appendInt16(dst, p.ErrorCode)
	dst = appendInt64(dst, p.BaseOffset)
	dst = appendInt64(dst, p.LogAppendTimeMs)
	if version >= 5 {
		dst = appendInt64(dst, p.LogStartOffset)
	}
	if version >= 8 {
		dst = appendLength(dst, len(p.RecordErrors), flexible)
		for i := range p.RecordErrors {
			dst = appendInt32(dst, p.RecordErrors[i].BatchIndex)
			dst = appendMessage(dst, p.RecordErrors[i].Message, flexible)
			dst = appendNoTags(dst, flexible)
		}
		dst = appendMessage(dst, p.ErrorMessage, flexible)
	}
	if version >= 10 && p.CurrentLeader != noLeader {
		return appendLeader(append(dst, 1), 0, p.CurrentLeader)
	}
	return appendNoTags(dst, flexible)
}

// Decode reads the body of a Produce response; names are slices of body, messages
// and hosts are copies. On error (a *DecodeError) r must not be used.
func (r *ProduceResponse) Decode(version int16, body []byte) error {
	in := reader{buf: body}
	if version < ProduceMinVersion || version > ProduceMaxVersion {
		in.fail(faultVersion, "RequestApiVersion", 0, 0)
		return in.fault("ProduceResponse", version)
	}
	flexible := version >= ProduceFlexibleVersion
	r.Topics, r.partitions = r.Topics[:0], r.partitions[:0]
	r.NodeEndpoints = r.NodeEndpoints[:0]
	for n := in.count("Responses", flexible, leastProduceTopic(version)); n > 0 && in.ok(); n-- {
		r.decodeTopic(&in, version, r.AddTopic())
	}
	r.ThrottleMs = in.int32("ThrottleTimeMs")
	if flexible {
		r.NodeEndpoints = decodeResponseTags(&in, r.NodeEndpoints, version, 10)
	}
	if !in.ok() {
		return in.fault("ProduceResponse", version)
	}
	return nil
}

func (r *ProduceResponse) decodeTopic(in *reader, version int16, t *ProduceTopicResponse) {
	flexible := version >= ProduceFlexibleVersion
	if version >= 13 {
		t.ID = in.uuid("Responses.TopicId")
	} else {
		t.Name = in.string("Responses.Name", flexible)
	}
	n := in.count("Responses.PartitionResponses", flexible, leastProducePartitionResponse(version))
	for ; n > 0 && in.ok(); n-- {
		r.AddPartition(in.int32("Responses.PartitionResponses.Index")).decode(in, version)
	}
	if flexible {
		in.skipTags("Responses tags")
	}
}

// leastProducePartitionResponse is the size of the smallest partition in a response.
func leastProducePartitionResponse(version int16) int {
	switch {
	case version >= ProduceFlexibleVersion:
		return 33
	case version >= 8:
		return 36
	case version >= 5:
		return 30
	default:
		return 22
	}
}

// decode reads what follows the partition's index.
func (p *ProducePartitionResponse) decode(in *reader, version int16) {
	flexible := version >= ProduceFlexibleVersion
	p.ErrorCode = in.int16("Responses.PartitionResponses.ErrorCode")
	p.BaseOffset = in.int64("Responses.PartitionResponses.BaseOffset")
	p.LogAppendTimeMs = in.int64("Responses.PartitionResponses.LogAppendTimeMs")
	if version >= 5 {
		p.LogStartOffset = in.int64("Responses.PartitionResponses.LogStartOffset")
	}
	if version >= 8 {
		p.decodeErrors(in, flexible)
	}
	if !flexible {
		return
	}
	const tags = "Responses.PartitionResponses tags"
	for n := in.tags(tags); n > 0 && in.ok(); n-- {
		at := in.pos
		tag, end := in.tag(tags)
		if tag != 0 {
			in.skipTo(end)
			continue
		}
		in.requireVersion(version >= 10, tags, at, tag)
		p.CurrentLeader = decodeLeader(in, end)
	}
}

func (p *ProducePartitionResponse) decodeErrors(in *reader, flexible bool) {
	least := 6 // index and the message's length
	if n := in.count("Responses.PartitionResponses.RecordErrors", flexible, least); n > 0 {
		p.RecordErrors = make([]RecordError, n) // an error: worth an allocation
	}
	for i := range p.RecordErrors {
		e := &p.RecordErrors[i]
		e.BatchIndex = in.int32("Responses.PartitionResponses.RecordErrors.BatchIndex")
		e.Message = string(in.nullableString("Responses.PartitionResponses.RecordErrors.BatchIndexErrorMessage", flexible))
		if flexible {
			in.skipTags("Responses.PartitionResponses.RecordErrors tags")
		}
		if !in.ok() {
			return
		}
	}
	p.ErrorMessage = string(in.nullableString("Responses.PartitionResponses.ErrorMessage", flexible))
}
