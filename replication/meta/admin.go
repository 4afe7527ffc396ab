package meta

import "github.com/posthouse/posthouse/storage/record"

// TopicSpec asks for one topic, as CreateTopics does.
type TopicSpec struct {
	Name              string
	Partitions        int32 // -1: the broker's num.partitions
	ReplicationFactor int16 // -1: the broker's default.replication.factor
	// Assignment places replicas by hand, by partition; the two numbers above
	// are then -1. The first replica leads.
	Assignment map[int32][]int32
	Configs    map[string]string
}

// TopicResult is the answer: the topic as created, or as it would be, or an
// error for the client.
type TopicResult struct {
	Topic *Topic
	Err   error
}

// LogDir is one log directory of a broker, as DescribeLogDirs shows it. Sizes
// are in bytes.
type LogDir struct {
	Path     string
	Err      error // why the directory is offline; sizes are then unset
	Total    int64
	Usable   int64
	Replicas []ReplicaSize // sorted by partition
}

// ReplicaSize is one log in a directory.
type ReplicaSize struct {
	TP    record.TopicPartition
	Bytes int64 // of its segments, without what is reserved ahead
	// OffsetLag is how far the log's end is behind the high watermark.
	OffsetLag int64
	Future    bool // being moved here from another directory
}

// QuotaAlteration changes the limits of one entity: removes go first.
type QuotaAlteration struct {
	Entity QuotaEntity
	Set    map[string]float64
	Remove []string
}

// ProducerState is what a partition remembers of one producer.
type ProducerState struct {
	ID               record.ProducerID
	Epoch            record.ProducerEpoch
	LastSequence     record.Sequence
	LastTimestamp    record.Timestamp
	CoordinatorEpoch int32         // -1: no transaction has ended
	TxnFirst         record.Offset // of the open transaction; -1: none
}
