package wire

import "slices"

// ProduceRequest is a Produce request, v3–v13 (ProduceRequest.json). The zero
// value is ready for Decode, which may be called again and again.
type ProduceRequest struct {
	TransactionalID []byte // nil = null: not transactional
	Acks            int16  // -1 all, 0 none, 1 leader; other values are decoded as they are
	TimeoutMs       int32
	Topics          []ProduceTopic

	partitions []ProducePartition // what Topics[i].Partitions are slices of, after Decode
}

// ProduceTopic is one topic of a Produce request: by name up to v12, by id from
// v13 (KIP-516).
type ProduceTopic struct {
	Name       []byte  // v3–v12, else nil
	ID         TopicID // v13, else zero
	Partitions []ProducePartition
}

// ProducePartition is what one partition is sent.
type ProducePartition struct {
	Index   int32
	Records []byte // slice of the frame; nil = null
}

// Reset drops the references of the last Decode to its frame, and arrays of unusual
// size, so that r may wait in a pool. Decode needs no Reset before it.
func (r *ProduceRequest) Reset() {
	r.TransactionalID = nil
	r.Acks, r.TimeoutMs = 0, 0
	r.Topics = recycle(r.Topics)
	r.partitions = recycle(r.partitions)
}

// Decode reads the body of a Produce request; what it fills in are slices of body.
// On error (a *DecodeError) r holds what came before the fault and must not be used.
func (r *ProduceRequest) Decode(version int16, body []byte) error {
	in := reader{buf: body}
	if version < ProduceMinVersion || version > ProduceMaxVersion {
		in.fail(faultVersion, "RequestApiVersion", 0, 0)
		return in.fault("ProduceRequest", version)
	}
	flexible := version >= ProduceFlexibleVersion
	r.TransactionalID = in.nullableString("TransactionalId", flexible)
	r.Acks = in.int16("Acks")
	r.TimeoutMs = in.int32("TimeoutMs")
	r.partitions = r.partitions[:0]
	r.Topics = resize(r.Topics, in.count("TopicData", flexible, leastProduceTopic(version)))
	for i := range r.Topics {
		if r.decodeTopic(&in, version, &r.Topics[i]); !in.ok() {
			break
		}
	}
	if flexible {
		in.skipTags("ProduceRequest tags")
	}
	if !in.ok() {
		return in.fault("ProduceRequest", version)
	}
	return nil
}

func (r *ProduceRequest) decodeTopic(in *reader, version int16, t *ProduceTopic) {
	flexible := version >= ProduceFlexibleVersion
	*t = ProduceTopic{}
	if version >= 13 {
		t.ID = in.uuid("TopicData.TopicId")
	} else {
		t.Name = in.string("TopicData.Name", flexible)
	}
	least := 8 // index and length
	if flexible {
		least = 6
	}
	r.partitions, t.Partitions = extend(r.partitions, in.count("TopicData.PartitionData", flexible, least))
	for i := range t.Partitions {
		p := &t.Partitions[i]
		p.Index = in.int32("TopicData.PartitionData.Index")
		p.Records = in.nullableBytes("TopicData.PartitionData.Records", flexible)
		if flexible {
			in.skipTags("TopicData.PartitionData tags")
		}
		if !in.ok() {
			return
		}
	}
	if flexible {
		in.skipTags("TopicData tags")
	}
}

// leastProduceTopic is the size of the smallest topic, in a request or a response.
func leastProduceTopic(version int16) int {
	switch {
	case version >= 13:
		return 16 + 2
	case version >= ProduceFlexibleVersion:
		return 3
	default:
		return 6
	}
}

// Append appends the request's body in version.
func (r *ProduceRequest) Append(dst []byte, version int16) []byte {
	checkProduce(version)
	flexible := version >= ProduceFlexibleVersion
	dst = appendNullableString(dst, r.TransactionalID, flexible)
	dst = appendInt16(dst, r.Acks)
	dst = appendInt32(dst, r.TimeoutMs)
	dst = appendLength(dst, len(r.Topics), flexible)
	for i := range r.Topics {
		t := &r.Topics[i]
		dst = appendTopic(dst, t.Name, &t.ID, version >= 13, flexible)
		dst = appendLength(dst, len(t.Partitions), flexible)
		for j := range t.Partitions {
			dst = appendInt32(dst, t.Partitions[j].Index)
			dst = appendNullableBytes(dst, t.Partitions[j].Records, flexible)
			dst = appendNoTags(dst, flexible)
		}
		dst = appendNoTags(dst, flexible)
	}
	return appendNoTags(dst, flexible)
}

// resize makes s n elements long; they hold whatever they held before.
func resize[T any](s []T, n int) []T {
	return slices.Grow(s[:0], n)[:n]
}

// extend lengthens the arena by n elements, which it also returns by themselves;
// they hold whatever they held before. Slices returned earlier stay valid: when
// the arena moves they keep the old array.
func extend[T any](arena []T, n int) (grown, part []T) {
	start := len(arena)
	grown = slices.Grow(arena, n)[:start+n]
	return grown, grown[start : start+n : start+n]
}

// recycle clears s for a wait in a pool, or drops it if it is of unusual size. What
// lies beyond its length was cleared by an earlier recycle.
func recycle[T any](s []T) []T {
	if cap(s) > maxRetained {
		return nil
	}
	clear(s)
	return s[:0]
}
