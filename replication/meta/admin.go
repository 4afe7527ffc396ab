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

// PartitionsSpec asks for a topic to grow to Count partitions.
type PartitionsSpec struct {
	Topic string
	Count int32
	// Assignments places the new partitions by hand, in order; nil lets the
	// controller.
	Assignments [][]int32
}

// AlterFunc makes a resource's new overrides from its current ones, which it
// must not change. An error ends the alteration and goes to the client.
type AlterFunc = func(current map[string]string) (map[string]string, error)

// LogDir is one log directory of a broker, as DescribeLogDirs shows it.
type LogDir struct {
	Path        string
	DirectoryID record.TopicID
	TotalBytes  int64
	FreeBytes   int64
	Err         error // why the directory is offline
	Replicas    []LogDirReplica
}

// LogDirReplica is one log in a directory.
type LogDirReplica struct {
	record.TopicPartition
	SizeBytes int64
	// OffsetLag is how far the log's end is behind the high watermark.
	OffsetLag int64
}
