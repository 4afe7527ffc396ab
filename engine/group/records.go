package group

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The first two bytes of a key say what a record is (CoordinatorRecordType;
// group-coordinator/src/main/resources/common/message/*.json). Values begin with
// a version of their own.
const (
	keyLegacyOffset                    = 0
	keyOffset                          = 1
	keyGroupMetadata                   = 2
	keyConsumerMetadata                = 3
	keyConsumerPartitionMetadata       = 4
	keyConsumerMember                  = 5
	keyConsumerTargetMetadata          = 6
	keyConsumerTargetMember            = 7
	keyConsumerCurrentAssignment       = 8
	keyConsumerRegularExpression       = 16
	groupMetadataVersion         int16 = 3
)

// errUnknownRecord says that a record is of a kind that nobody here reads.
var errUnknownRecord = errors.New("group: unknown kind of record")

// kv is a record on its way to the log; a nil value is a tombstone.
type kv struct{ key, value []byte }

// recordOverhead is more than the framing of a record takes, in bytes.
const recordOverhead = 32

// sizeBytes is at least what the write takes in a batch.
func (w *write) sizeBytes() int {
	n := 0
	for _, r := range w.records {
		n += recordOverhead + len(r.key) + len(r.value)
	}
	return n
}

// buildBatch puts the records of writes into one batch.
func buildBatch(now record.Timestamp, writes []*write, codec record.Codec) record.Batch {
	b := record.NewBuilder()
	for _, w := range writes {
		for _, r := range w.records {
			b.Add(now, r.key, r.value)
		}
	}
	if !codec.Known() {
		codec = record.None
	}
	return b.Build(codec)
}

// replay applies one record to the state: while the shard loads, and when a write
// is committed.
func (s *shard) replay(key, value []byte) error {
	if len(key) < 2 {
		return fmt.Errorf("group: a key of %d bytes", len(key))
	}
	switch kind := binary.BigEndian.Uint16(key); kind {
	case keyLegacyOffset, keyOffset:
		return s.replayOffset(key, value)
	case keyGroupMetadata:
		return s.replayClassic(key, value)
	case keyConsumerMetadata, keyConsumerPartitionMetadata, keyConsumerMember, keyConsumerTargetMetadata,
		keyConsumerTargetMember, keyConsumerCurrentAssignment, keyConsumerRegularExpression:
		return s.replayConsumer(key, value)
	default:
		return fmt.Errorf("%w: %d", errUnknownRecord, kind)
	}
}

// offsetRecord is the commit of one partition's offset.
func offsetRecord(group, topic string, partition int32, o *offset) kv {
	return kv{key: offsetKey(group, topic, partition), value: o.value()}
}

// offsetTombstone removes the offset of one partition.
func offsetTombstone(group, topic string, partition int32) kv {
	return kv{key: offsetKey(group, topic, partition)}
}

func offsetKey(group, topic string, partition int32) []byte {
	k := kmsg.OffsetCommitKey{Version: keyOffset, Group: group, Topic: topic, Partition: partition}
	return k.AppendTo(make([]byte, 0, 2+2+len(group)+2+len(topic)+4))
}

// value is the record's value: v3, or v1 with a time to expire as clients before
// KIP-211 give it, or v4 with the topic's id where the client named it.
func (o *offset) value() []byte {
	v := kmsg.OffsetCommitValue{
		Version: 3, Offset: o.offset, LeaderEpoch: int32(o.leaderEpoch), Metadata: o.metadata,
		CommitTimestamp: o.commitMs, ExpireTimestamp: o.expireMs, TopicID: o.topicID,
	}
	switch {
	case o.expireMs >= 0:
		v.Version = 1
	case !o.topicID.IsZero():
		v.Version = 4
	}
	return v.AppendTo(make([]byte, 0, 2+8+4+2+len(o.metadata)+8+20))
}

// replayOffset applies a commit or the tombstone of one.
func (s *shard) replayOffset(key, value []byte) error {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return fmt.Errorf("group: key of an offset: %w", err)
	}
	if value == nil {
		if g := s.groups[k.Group]; g != nil {
			g.offsets.remove(k.Topic, k.Partition)
		}
		return nil
	}
	var v kmsg.OffsetCommitValue
	v.Default()
	if err := v.ReadFrom(value); err != nil {
		return fmt.Errorf("group: value of an offset: %w", err)
	}
	o := offset{offset: v.Offset, leaderEpoch: record.NoLeaderEpoch, metadata: v.Metadata, commitMs: v.CommitTimestamp, expireMs: -1, topicID: v.TopicID}
	if v.Version >= 3 {
		o.leaderEpoch = record.LeaderEpoch(v.LeaderEpoch)
	}
	if v.Version == 1 {
		o.expireMs = v.ExpireTimestamp
	}
	s.create(k.Group).offsets.set(k.Topic, k.Partition, o)
	return nil
}

// groupTombstone removes a classic group.
func groupTombstone(group string) kv { return kv{key: groupKey(group)} }

func groupKey(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: keyGroupMetadata, Group: group}
	return k.AppendTo(make([]byte, 0, 2+2+len(group)))
}
