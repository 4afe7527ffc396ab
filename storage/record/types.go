package record

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Offset is the position of a record in a partition, counted in records.
type Offset int64

// LeaderEpoch counts the leaderships of a partition (KIP-101); it only grows.
type LeaderEpoch int32

// ProducerID names an idempotent or transactional producer; below 0 is none.
type ProducerID int64

// ProducerEpoch fences older instances of a producer id.
type ProducerEpoch int16

// Sequence numbers the records of one producer id in one partition. It wraps
// from 2^31−1 to 0.
type Sequence int32

// Timestamp is milliseconds since the Unix epoch; −1 is none.
type Timestamp int64

// The absent values, as Kafka's RecordBatch.java names them.
const (
	NoProducerID    ProducerID    = -1
	NoProducerEpoch ProducerEpoch = -1
	NoSequence      Sequence      = -1
	NoLeaderEpoch   LeaderEpoch   = -1
	NoTimestamp     Timestamp     = -1
)

// Add moves a sequence on by n ≥ 0 records, wrapping to 0 after 2^31−1
// (DefaultRecordBatch.incrementSequence).
func (s Sequence) Add(n int32) Sequence {
	if int32(s) > math.MaxInt32-n {
		return Sequence(n - (math.MaxInt32 - int32(s)) - 1)
	}
	return s + Sequence(n)
}

// Isolation is a consumer's isolation.level.
type Isolation int8

// The two isolation levels of KIP-98.
const (
	ReadUncommitted Isolation = 0
	ReadCommitted   Isolation = 1
)

// TimestampType is the topic's message.timestamp.type.
type TimestampType int8

// The values of the attribute bit.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// String is the config value.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// TopicID is a topic's identity across deletion and re-creation (KIP-516).
type TopicID [16]byte

// IsZero reports whether the id is absent.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// String is Kafka's form: URL-safe base64 without padding, 22 characters.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseTopicID reads what String writes; padding is accepted as Kafka's Uuid
// accepts it.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil || len(raw) != len(id) {
		return TopicID{}, fmt.Errorf("topic id %.100q is not the base64 of 16 bytes", s)
	}
	copy(id[:], raw)
	return id, nil
}

// NewTopicID makes a random id (UUID version 4) that is none of Kafka's
// reserved ones and whose text does not begin with a dash, so that command
// line tools do not take it for a flag (Uuid.randomUuid).
func NewTopicID() TopicID {
	for {
		var id TopicID
		if _, err := rand.Read(id[:]); err != nil {
			panic("BUG: crypto/rand failed: " + err.Error())
		}
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		// Version bits are set, so the reserved ids 0 and 1 cannot come out.
		if id.String()[0] != '-' {
			return id
		}
	}
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is the directory name, topic-partition.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// ParseDir reads a partition from its directory name: all before the last dash
// is the topic. Names with a suffix (-delete, -stray, -future) are refused.
func ParseDir(name string) (TopicPartition, error) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return TopicPartition{}, fmt.Errorf("directory %q is not of the form topic-partition", name)
	}
	digits := name[i+1:]
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != digits {
		return TopicPartition{}, fmt.Errorf("directory %q does not end in a partition number", name)
	}
	return TopicPartition{Topic: name[:i], Partition: int32(n)}, nil
}
