package group

import (
	"fmt"
	"slices"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kbin"
)

// The records of a consumer group (ConsumerGroup*.json): keys are not flexible,
// values are flexible and of version 0.
//
//	3  group                 epoch, hash of the topics subscribed to
//	4  group                 topics as Kafka before 4.1 kept them; only its tombstone is written
//	5  group, member         what the member says of itself
//	6  group                 epoch of the target assignment
//	7  group, member         target assignment
//	8  group, member         epoch, state and partitions of the member
//	16 group, expression     topics that the expression matches

const consumerValueVersion int16 = 0

// consumerKey is the key of a record of a group; name is a member id or an
// expression, where the kind has one.
func consumerKey(kind uint16, group string, name ...string) []byte {
	b := kbin.AppendUint16(make([]byte, 0, 64), kind)
	b = kbin.AppendString(b, group)
	for _, n := range name {
		b = kbin.AppendString(b, n)
	}
	return b
}

// readConsumerKey reads what consumerKey writes.
func readConsumerKey(key []byte) (kind uint16, group, name string, err error) {
	r := kbin.Reader{Src: key}
	kind, group = r.Uint16(), r.String()
	switch kind {
	case keyConsumerMember, keyConsumerTargetMember, keyConsumerCurrentAssignment, keyConsumerRegularExpression:
		name = r.String()
	}
	if err := r.Complete(); err != nil {
		return 0, "", "", fmt.Errorf("group: key of kind %d: %w", kind, err)
	}
	return kind, group, name, nil
}

// value begins a value.
func newConsumerValue() []byte { return kbin.AppendInt16(make([]byte, 0, 128), consumerValueVersion) }

// consumerReader reads a value, behind its version. A later version may have
// other fields, so it is refused.
func consumerReader(value []byte) (*kbin.Reader, error) {
	r := &kbin.Reader{Src: value}
	if v := r.Int16(); r.Ok() && v != consumerValueVersion {
		return nil, fmt.Errorf("group: value of version %d", v)
	}
	return r, nil
}

// tags reads tagged fields; known gets each one's reader.
func tags(r *kbin.Reader, known func(tag uint32, r *kbin.Reader)) {
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		tag, size := r.Uvarint(), r.Uvarint()
		field := kbin.Reader{Src: r.Span(int(size))}
		known(tag, &field)
		if !field.Ok() {
			breakValue(r)
		}
	}
}

func noTags(uint32, *kbin.Reader) {}

// appendTagged appends the one tagged field of a value.
func appendTagged(b []byte, tag uint32, field []byte) []byte {
	b = kbin.AppendUvarint(b, 1)
	b = kbin.AppendUvarint(b, tag)
	b = kbin.AppendUvarint(b, uint32(len(field)))
	return append(b, field...)
}

// groupEpochValue is the value of kind 3.
func groupEpochValue(epoch int32, hash int64) []byte {
	b := kbin.AppendInt32(newConsumerValue(), epoch)
	if hash == 0 {
		return kbin.AppendUvarint(b, 0)
	}
	return appendTagged(b, 0, kbin.AppendInt64(nil, hash))
}

func readGroupEpoch(r *kbin.Reader) (epoch int32, hash int64) {
	epoch = r.Int32()
	tags(r, func(tag uint32, r *kbin.Reader) {
		if tag == 0 {
			hash = r.Int64()
		}
	})
	return epoch, hash
}

// targetEpochValue is the value of kind 6; ms is when the assignment was made,
// zero if that is not to hold up the next one.
func targetEpochValue(epoch int32, ms int64) []byte {
	b := kbin.AppendInt32(newConsumerValue(), epoch)
	if ms == 0 {
		return kbin.AppendUvarint(b, 0)
	}
	return appendTagged(b, 0, kbin.AppendInt64(nil, ms))
}

// readTargetEpoch reads what targetEpochValue writes: the layouts are the same.
func readTargetEpoch(r *kbin.Reader) (epoch int32, ms int64) { return readGroupEpoch(r) }

// memberValue is the value of kind 5.
func memberValue(m *memberState) []byte {
	b := newConsumerValue()
	b = kbin.AppendCompactNullableString(b, m.instance)
	b = kbin.AppendCompactNullableString(b, m.rack)
	b = kbin.AppendCompactString(b, m.clientID)
	b = kbin.AppendCompactString(b, m.host)
	b = kbin.AppendCompactArrayLen(b, len(m.topics))
	for _, t := range m.topics {
		b = kbin.AppendCompactString(b, t)
	}
	b = kbin.AppendCompactString(b, m.regex)
	b = kbin.AppendInt32(b, m.rebalanceTimeoutMs)
	b = kbin.AppendCompactNullableString(b, m.assignor)
	if m.classic == nil {
		return kbin.AppendUvarint(b, 0)
	}
	// A struct that may be null has its presence before it.
	field := kbin.AppendInt32([]byte{1}, m.classic.sessionTimeoutMs)
	field = kbin.AppendCompactArrayLen(field, len(m.classic.protocols))
	for _, p := range m.classic.protocols {
		field = kbin.AppendCompactString(field, p.Name)
		field = kbin.AppendCompactBytes(field, p.Metadata)
		field = kbin.AppendUvarint(field, 0)
	}
	field = kbin.AppendUvarint(field, 0)
	return appendTagged(b, 0, field)
}

// readMember reads a value of kind 5 into m.
func readMember(r *kbin.Reader, m *memberState) {
	m.instance = r.CompactNullableString()
	m.rack = r.CompactNullableString()
	m.clientID = r.CompactString()
	m.host = r.CompactString()
	m.topics = nil
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		m.topics = append(m.topics, r.CompactString())
	}
	m.regex = ""
	if regex := r.CompactNullableString(); regex != nil {
		m.regex = *regex
	}
	m.rebalanceTimeoutMs = r.Int32()
	m.assignor = r.CompactNullableString()
	m.classic = nil
	tags(r, func(tag uint32, r *kbin.Reader) {
		if tag != 0 || r.Int8() != 1 {
			return
		}
		m.classic = &classicSide{sessionTimeoutMs: r.Int32()}
		for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
			p := joinProtocol{Name: r.CompactString()}
			p.Metadata = append([]byte{}, r.CompactBytes()...)
			tags(r, noTags)
			m.classic.protocols = append(m.classic.protocols, p)
		}
		tags(r, noTags)
		if len(m.classic.protocols) == 0 {
			breakValue(r) // nobody joins without one
		}
	})
}

// targetValue is the value of kind 7.
func targetValue(a assignor.Assignment) []byte {
	b := kbin.AppendCompactArrayLen(newConsumerValue(), len(a))
	for _, t := range a {
		b = appendPartitions(b, t.Topic, t.Partitions)
		b = kbin.AppendUvarint(b, 0)
	}
	return kbin.AppendUvarint(b, 0)
}

func appendPartitions(b []byte, topic record.TopicID, partitions []int32) []byte {
	b = kbin.AppendUuid(b, topic)
	b = kbin.AppendCompactArrayLen(b, len(partitions))
	for _, p := range partitions {
		b = kbin.AppendInt32(b, p)
	}
	return b
}

// partitionsMax bounds the partitions that a record may name: owners are kept by
// partition, so a record that is damaged must not choose how many there are.
const partitionsMax = 1 << 20

// readPartitions reads partitions of a topic, each once and in any order; the
// value is broken if they cannot be.
func readPartitions(r *kbin.Reader) []int32 {
	partitions := readInt32s(r)
	sorted := slices.Sorted(slices.Values(partitions))
	for i, p := range sorted {
		if p < 0 || p >= partitionsMax || i > 0 && p == sorted[i-1] {
			breakValue(r)
			return nil
		}
	}
	return partitions
}

func readInt32s(r *kbin.Reader) []int32 {
	var all []int32
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		all = append(all, r.Int32())
	}
	return all
}

// breakValue makes the reader one of a value that is too short.
func breakValue(r *kbin.Reader) { r.Span(len(r.Src) + 1) }

func readTarget(r *kbin.Reader) assignor.Assignment {
	var a assignor.Assignment
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		t := assignor.TopicPartitions{Topic: r.Uuid()}
		t.Partitions = readPartitions(r)
		tags(r, noTags)
		a = append(a, t)
	}
	tags(r, noTags)
	a = sortedAssignment(a)
	for i := range a {
		if i > 0 && a[i].Topic == a[i-1].Topic {
			breakValue(r)
		}
	}
	return a
}

// currentValue is the value of kind 8.
func currentValue(m *memberState) []byte {
	b := kbin.AppendInt32(newConsumerValue(), m.epoch)
	b = kbin.AppendInt32(b, m.previousEpoch)
	b = kbin.AppendInt8(b, int8(m.state))
	b = appendOwned(b, m.assigned)
	b = appendOwned(b, m.revoking)
	return kbin.AppendUvarint(b, 0)
}

func appendOwned(b []byte, o owned) []byte {
	b = kbin.AppendCompactArrayLen(b, len(o))
	for i := range o {
		b = appendPartitions(b, o[i].topic, o[i].partitions)
		field := kbin.AppendCompactArrayLen(nil, len(o[i].epochs))
		for _, e := range o[i].epochs {
			field = kbin.AppendInt32(field, e)
		}
		b = appendTagged(b, 0, field)
	}
	return b
}

func readCurrent(r *kbin.Reader, m *memberState) {
	m.epoch, m.previousEpoch = r.Int32(), r.Int32()
	m.state = consumerMemberState(r.Int8())
	m.assigned = readOwned(r, m.epoch)
	m.revoking = readOwned(r, m.epoch)
	tags(r, noTags)
}

// readOwned reads partitions with the epochs they were assigned at, which is
// epoch where the record does not say (KIP-1251).
func readOwned(r *kbin.Reader, epoch int32) owned {
	var o owned
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		t := ownedTopic{topic: r.Uuid(), partitions: readPartitions(r)}
		tags(r, func(tag uint32, r *kbin.Reader) {
			if tag == 0 {
				t.epochs = readInt32s(r)
			}
		})
		if len(t.epochs) != len(t.partitions) {
			t.epochs = make([]int32, len(t.partitions))
			for i := range t.epochs {
				t.epochs[i] = max(epoch, 0)
			}
		}
		o = append(o, t)
	}
	o = sortedOwned(o)
	for i := range o {
		if i > 0 && o[i].topic == o[i-1].topic {
			breakValue(r)
		}
	}
	return o
}

// regexValue is the value of kind 16.
func regexValue(x *resolvedRegex) []byte {
	b := kbin.AppendCompactArrayLen(newConsumerValue(), len(x.topics))
	for _, t := range x.topics {
		b = kbin.AppendCompactString(b, t)
	}
	b = kbin.AppendInt64(b, x.version)
	b = kbin.AppendInt64(b, x.timestampMs)
	return kbin.AppendUvarint(b, 0)
}

func readRegex(r *kbin.Reader) *resolvedRegex {
	x := &resolvedRegex{}
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		x.topics = append(x.topics, r.CompactString())
	}
	x.version, x.timestampMs = r.Int64(), r.Int64()
	tags(r, noTags)
	return x
}
