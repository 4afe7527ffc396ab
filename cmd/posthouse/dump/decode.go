package dump

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/posthouse/posthouse/storage/record"
)

// object is a JSON object that keeps the order of its members.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// decoder says what a record of some topic means.
type decoder func(key, value []byte) (object, error)

// decoders, by what --decode calls them.
var decoders = map[string]decoder{"offsets": decodeOffsets, "transactions": decodeTransactions}

// decoderOf is the decoder of a topic that a broker keeps for itself.
func decoderOf(topic string) decoder {
	switch topic {
	case "__consumer_offsets":
		return decodeOffsets
	case "__transaction_state":
		return decodeTransactions
	}
	return nil
}

var (
	partitionsOf = []field{{name: "topicId", kind: kindUUID}, {name: "partitions", kind: kindInt32s}}
	flexible     = func(fields ...field) *schema { return &schema{fields: fields, flexible: true} }
)

// groupRecord is a kind of record in the offsets topic: the number that its key
// begins with (CoordinatorRecordType.java).
type groupRecord struct {
	name  string
	key   []field // after the group
	value *schema // version 0
}

// groupRecords are those of consumer groups (ConsumerGroup*.json); the classic
// ones, 0 to 2, are kmsg's.
var groupRecords = map[int16]groupRecord{
	3: {"ConsumerGroupMetadata", nil, withTags(flexible(field{name: "epoch", kind: kindInt32}),
		"", map[uint32]field{0: {name: "metadataHash", kind: kindInt64}})},
	4: {"ConsumerGroupPartitionMetadata", nil, flexible(field{name: "topics", kind: kindArray, sub: []field{
		{name: "topicId", kind: kindUUID}, {name: "topicName", kind: kindString}, {name: "numPartitions", kind: kindInt32},
		{name: "partitionMetadata", kind: kindArray, sub: []field{{name: "partition", kind: kindInt32}, {name: "racks", kind: kindStrings}}},
	}})},
	5: {"ConsumerGroupMemberMetadata", []field{{name: "memberId", kind: kindString}}, withTags(flexible(
		field{name: "instanceId", kind: kindNullableString}, field{name: "rackId", kind: kindNullableString},
		field{name: "clientId", kind: kindString}, field{name: "clientHost", kind: kindString},
		field{name: "subscribedTopicNames", kind: kindStrings}, field{name: "subscribedTopicRegex", kind: kindNullableString},
		field{name: "rebalanceTimeoutMs", kind: kindInt32}, field{name: "serverAssignor", kind: kindNullableString},
	), "", map[uint32]field{0: {name: "classicMemberMetadata", kind: kindStruct, sub: []field{
		{name: "sessionTimeoutMs", kind: kindInt32},
		{name: "supportedProtocols", kind: kindArray, sub: []field{{name: "name", kind: kindString}, {name: "metadata", kind: kindBytes}}},
	}}})},
	6: {"ConsumerGroupTargetAssignmentMetadata", nil, withTags(flexible(field{name: "assignmentEpoch", kind: kindInt32}),
		"", map[uint32]field{0: {name: "assignmentTimestamp", kind: kindInt64}})},
	7: {"ConsumerGroupTargetAssignmentMember", []field{{name: "memberId", kind: kindString}},
		flexible(field{name: "topicPartitions", kind: kindArray, sub: partitionsOf})},
	8: {"ConsumerGroupCurrentMemberAssignment", []field{{name: "memberId", kind: kindString}}, withTags(flexible(
		field{name: "memberEpoch", kind: kindInt32}, field{name: "previousMemberEpoch", kind: kindInt32}, field{name: "state", kind: kindInt8},
		field{name: "assignedPartitions", kind: kindArray, sub: partitionsOf}, field{name: "partitionsPendingRevocation", kind: kindArray, sub: partitionsOf},
	), "assignedPartitions", map[uint32]field{0: {name: "assignmentEpochs", kind: kindInt32s}},
		"partitionsPendingRevocation", map[uint32]field{0: {name: "assignmentEpochs", kind: kindInt32s}})},
	16: {"ConsumerGroupRegularExpression", []field{{name: "regularExpression", kind: kindString}}, flexible(
		field{name: "topics", kind: kindStrings}, field{name: "version", kind: kindInt64}, field{name: "timestamp", kind: kindInt64})},
}

// withTags adds tagged fields: pairs of a struct's name and its tags.
func withTags(s *schema, pairs ...any) *schema {
	s.tags = map[string]map[uint32]field{}
	for i := 0; i < len(pairs); i += 2 {
		s.tags[pairs[i].(string)] = pairs[i+1].(map[uint32]field)
	}
	return s
}

// decodeOffsets reads a record of __consumer_offsets. What is of a kind or
// version that is not known comes in hex.
func decodeOffsets(key, value []byte) (object, error) {
	if len(key) < 2 {
		return nil, fmt.Errorf("a key of %d bytes", len(key))
	}
	switch kind := int16(binary.BigEndian.Uint16(key)); {
	case kind == 0 || kind == 1:
		return decodeCommit(key, value)
	case kind == 2:
		return decodeGroup(key, value)
	default:
		known, ok := groupRecords[kind]
		if !ok {
			return object{{"type", fmt.Sprintf("kind %d", kind)}, {"key", hex.EncodeToString(key)}, {"value", hexOrNull(value)}}, nil
		}
		named, err := (&schema{fields: append([]field{{name: "group", kind: kindString}}, known.key...)}).decode(key[2:])
		if err != nil {
			return nil, fmt.Errorf("key of %s: %w", known.name, err)
		}
		out := append(object{{"type", known.name}}, named...)
		return decodeValue(out, known, value)
	}
}

func decodeValue(out object, known groupRecord, value []byte) (object, error) {
	switch {
	case value == nil:
		return append(out, member{"value", nil}), nil
	case len(value) < 2:
		return nil, fmt.Errorf("a value of %d bytes", len(value))
	case binary.BigEndian.Uint16(value) != 0:
		return append(out, member{"value", hex.EncodeToString(value)}), nil
	}
	content, err := known.value.decode(value[2:])
	if err != nil {
		return nil, fmt.Errorf("value of %s: %w", known.name, err)
	}
	return append(out, member{"value", content}), nil
}

func hexOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return hex.EncodeToString(b)
}

// decodeCommit reads a committed offset.
func decodeCommit(key, value []byte) (object, error) {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return nil, fmt.Errorf("key of OffsetCommit: %w", err)
	}
	out := object{{"type", "OffsetCommit"}, {"group", k.Group}, {"topic", k.Topic}, {"partition", k.Partition}}
	if value == nil {
		return append(out, member{"value", nil}), nil
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(value); err != nil {
		return nil, fmt.Errorf("value of OffsetCommit: %w", err)
	}
	content := object{{"offset", v.Offset}, {"leaderEpoch", v.LeaderEpoch}, {"metadata", v.Metadata}, {"commitTimestamp", v.CommitTimestamp}}
	if v.ExpireTimestamp >= 0 && v.Version == 1 {
		content = append(content, member{"expireTimestamp", v.ExpireTimestamp})
	}
	return append(out, member{"value", content}), nil
}

// decodeGroup reads a classic group's state.
func decodeGroup(key, value []byte) (object, error) {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return nil, fmt.Errorf("key of GroupMetadata: %w", err)
	}
	out := object{{"type", "GroupMetadata"}, {"group", k.Group}}
	if value == nil {
		return append(out, member{"value", nil}), nil
	}
	var v kmsg.GroupMetadataValue
	if err := v.ReadFrom(value); err != nil {
		return nil, fmt.Errorf("value of GroupMetadata: %w", err)
	}
	members := []object{}
	for _, m := range v.Members {
		members = append(members, object{{"memberId", m.MemberID}, {"instanceId", m.InstanceID}, {"clientId", m.ClientID}, {"clientHost", m.ClientHost},
			{"rebalanceTimeoutMs", m.RebalanceTimeoutMillis}, {"sessionTimeoutMs", m.SessionTimeoutMillis},
			{"subscription", hex.EncodeToString(m.Subscription)}, {"assignment", assignment(v.ProtocolType, m.Assignment)}})
	}
	return append(out, member{"value", object{{"protocolType", v.ProtocolType}, {"generation", v.Generation}, {"protocol", v.Protocol},
		{"leader", v.Leader}, {"currentStateTimestamp", v.CurrentStateTimestamp}, {"members", members}}}), nil
}

// assignment reads what a consumer was given; other protocols have their own.
func assignment(protocol string, data []byte) any {
	var a kmsg.ConsumerMemberAssignment
	if protocol != "consumer" || len(data) == 0 || a.ReadFrom(data) != nil {
		return hex.EncodeToString(data)
	}
	out := object{}
	for _, t := range a.Topics {
		out = append(out, member{t.Topic, t.Partitions})
	}
	return out
}

// decodeTransactions reads a record of __transaction_state.
func decodeTransactions(key, value []byte) (object, error) {
	var k kmsg.TxnMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return nil, fmt.Errorf("key of TransactionLog: %w", err)
	}
	out := object{{"type", "TransactionLog"}, {"transactionalId", k.TransactionalID}}
	if value == nil {
		return append(out, member{"value", nil}), nil
	}
	var v kmsg.TxnMetadataValue
	if err := v.ReadFrom(value); err != nil {
		return nil, fmt.Errorf("value of TransactionLog: %w", err)
	}
	topics := object{}
	for _, t := range v.Topics {
		topics = append(topics, member{t.Topic, t.Partitions})
	}
	return append(out, member{"value", object{{"producerId", v.ProducerID}, {"producerEpoch", v.ProducerEpoch}, {"timeoutMs", v.TimeoutMillis},
		{"state", v.State.String()}, {"partitions", topics}, {"lastUpdateTimestamp", v.LastUpdateTimestamp}, {"startTimestamp", v.StartTimestamp}}}), nil
}

// decodeControl reads a record of a control batch.
func decodeControl(key, value []byte) (object, error) {
	kind, err := record.ParseControlKey(key)
	if err != nil {
		return nil, err
	}
	names := map[record.ControlType]string{record.ControlAbort: "abort", record.ControlCommit: "commit", record.ControlLeaderChange: "leader change",
		3: "snapshot header", 4: "snapshot footer", 5: "KRaft version", 6: "KRaft voters"}
	name, ok := names[kind]
	if !ok {
		name = fmt.Sprintf("control type %d", kind)
	}
	out := object{{"type", name}}
	if (kind == record.ControlAbort || kind == record.ControlCommit) && len(value) >= 6 {
		return append(out, member{"coordinatorEpoch", int32(binary.BigEndian.Uint32(value[2:]))}), nil
	}
	return append(out, member{"value", hexOrNull(value)}), nil
}

// text shows bytes: as text if they are, else in hex.
func text(b []byte) any {
	switch {
	case b == nil:
		return nil
	case utf8.Valid(b):
		return string(b)
	}
	return "0x" + hex.EncodeToString(b)
}
