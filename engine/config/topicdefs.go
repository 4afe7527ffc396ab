package config

import (
	"math"
	"slices"
	"strconv"
)

// topicDef is a topic key and where its value goes.
type topicDef struct {
	Definition
	apply func(*Topic, Value)
}

const (
	maxInt  = "2147483647"
	maxLong = "9223372036854775807"

	// minSegmentBytes is the floor of segment.bytes since Kafka 4.0 (KIP-1030).
	minSegmentBytes = 1 << 20
	// minInternalSegmentBytes is one empty record batch: internal.segment.bytes
	// goes below the floor, for tests.
	minInternalSegmentBytes = 14

	hour   = 60 * minute
	minute = 60 * 1000
)

// compressionTypes are the values of compression.type.
var compressionTypes = []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", CompressionProducer}

// same makes a chain of one broker key with the same unit.
func same(broker string) []Synonym { return []Synonym{{broker, 1}} }

// topicTable holds every topic key of Kafka 4.4 (TopicConfig.java,
// LogConfig.java, ServerTopicConfigSynonyms.java), in order of name.
var topicTable = []topicDef{
	{Definition{Name: "cleanup.policy", Type: List, Default: "delete", Synonyms: same("log.cleanup.policy"), check: eachOneOf("compact", "delete"),
		Doc: "What happens to old segments: \"delete\" drops whole segments by age and size, \"compact\" keeps the last record of each key, both together do both. An empty list keeps everything for ever."},
		func(t *Topic, v Value) {
			t.Compact, t.Delete = slices.Contains(v.List, "compact"), slices.Contains(v.List, "delete")
		}},
	{Definition{Name: "compression.gzip.level", Type: Int, Default: "-1", Synonyms: same("compression.gzip.level"), check: levels(1, 9, -1),
		Doc: "Level used where compression.type is gzip; -1 is gzip's own default."},
		func(t *Topic, v Value) { t.CompressionGzipLevel = int32(v.Int) }},
	{Definition{Name: "compression.lz4.level", Type: Int, Default: "9", Synonyms: same("compression.lz4.level"), check: between(1, 17),
		Doc: "Level used where compression.type is lz4."},
		func(t *Topic, v Value) { t.CompressionLZ4Level = int32(v.Int) }},
	{Definition{Name: "compression.type", Type: String, Default: CompressionProducer, Synonyms: same("compression.type"),
		check: oneOf(compressionTypes...),
		Doc:   "Codec of the batches on disk. \"producer\" keeps each batch as it was sent; any other value makes the broker recompress what differs."},
		func(t *Topic, v Value) { t.CompressionType = v.Str }},
	{Definition{Name: "compression.zstd.level", Type: Int, Default: "3", Synonyms: same("compression.zstd.level"), check: between(-131072, 22),
		Doc: "Level used where compression.type is zstd."},
		func(t *Topic, v Value) { t.CompressionZstdLevel = int32(v.Int) }},
	{Definition{Name: "delete.retention.ms", Type: Long, Default: "86400000", Inert: true, Synonyms: same("log.cleaner.delete.retention.ms"), check: atLeast(0),
		Doc: "How long tombstones and transaction markers stay in a compacted topic after they were first seen by the cleaner: the time a reader that starts at the beginning has to see them."},
		func(t *Topic, v Value) { t.DeleteRetentionMs = v.Int }},
	{Definition{Name: "errors.deadletterqueue.group.enable", Type: Boolean, Default: "false", Inert: true,
		Doc: "Whether share groups may use this topic as their dead letter queue (KIP-1191)."},
		func(t *Topic, v Value) { t.DeadLetterQueueGroup = v.Bool }},
	{Definition{Name: "file.delete.delay.ms", Type: Long, Default: "60000", Synonyms: same("log.segment.delete.delay.ms"), check: atLeast(0),
		Doc: "How long the files of a deleted segment or topic stay on disk."},
		func(t *Topic, v Value) { t.FileDeleteDelayMs = v.Int }},
	{Definition{Name: "flush.messages", Type: Long, Default: maxLong, Inert: true, Synonyms: same("log.flush.interval.messages"), check: atLeast(1),
		Doc: "Records appended before a sync to disk is forced."},
		func(t *Topic, v Value) { t.FlushMessages = v.Int }},
	{Definition{Name: "flush.ms", Type: Long, Default: maxLong, Inert: true, Synonyms: []Synonym{{"log.flush.interval.ms", 1}, {"log.flush.scheduler.interval.ms", 1}}, check: atLeast(0),
		Doc: "Time after which appended records are synced to disk."},
		func(t *Topic, v Value) { t.FlushMs = v.Int }},
	{Definition{Name: "follower.replication.throttled.replicas", Type: List, Default: "", Inert: true, check: throttledReplicas,
		Doc: "Replicas whose incoming replication is throttled: partition:broker pairs, or * for all."},
		func(t *Topic, v Value) { t.FollowerThrottledReplicas = v.List }},
	{Definition{Name: "index.interval.bytes", Type: Int, Default: "4096", Synonyms: same("log.index.interval.bytes"), check: atLeast(0),
		Doc: "Log bytes between two entries of the offset index."},
		func(t *Topic, v Value) { t.IndexInterval = int32(v.Int) }},
	{Definition{Name: "internal.segment.bytes", Type: Int, Null: true, Internal: true, check: atLeast(minInternalSegmentBytes),
		Doc: "Segment size below the floor of segment.bytes, for tests."},
		func(t *Topic, v Value) { t.internalSegmentBytes = int32(v.Int) }},
	{Definition{Name: "leader.replication.throttled.replicas", Type: List, Default: "", Inert: true, check: throttledReplicas,
		Doc: "Replicas whose outgoing replication is throttled: partition:broker pairs, or * for all."},
		func(t *Topic, v Value) { t.LeaderThrottledReplicas = v.List }},
	{Definition{Name: "local.retention.bytes", Type: Long, Default: "-2", Synonyms: same("log.local.retention.bytes"), check: atLeast(-2), Inert: true,
		Doc: "With tiered storage, bytes of a partition kept on local disk; -2 means retention.bytes."},
		func(t *Topic, v Value) { t.LocalRetentionBytes = v.Int }},
	{Definition{Name: "local.retention.ms", Type: Long, Default: "-2", Synonyms: same("log.local.retention.ms"), check: atLeast(-2), Inert: true,
		Doc: "With tiered storage, how long segments stay on local disk; -2 means retention.ms."},
		func(t *Topic, v Value) { t.LocalRetentionMs = v.Int }},
	{Definition{Name: "max.compaction.lag.ms", Type: Long, Default: maxLong, Inert: true, Synonyms: same("log.cleaner.max.compaction.lag.ms"), check: atLeast(1),
		Doc: "Longest time a record of a compacted topic may stay out of the cleaner's reach."},
		func(t *Topic, v Value) { t.MaxCompactionLagMs = v.Int }},
	{Definition{Name: "max.decompressed.message.bytes", Type: Int, Default: strconv.Itoa(math.MaxInt32 - 8), Inert: true, Synonyms: same("max.decompressed.message.bytes"), check: between(1, math.MaxInt32-8),
		Doc: "Most bytes a compressed batch may hold once decompressed, wherever the broker decompresses it."},
		func(t *Topic, v Value) { t.MaxDecompressedMessageBytes = int32(v.Int) }},
	{Definition{Name: "max.message.bytes", Type: Int, Default: "1048588", Synonyms: same("message.max.bytes"), check: atLeast(0),
		Doc: "Largest record batch accepted, compressed as it was sent."},
		func(t *Topic, v Value) { t.MaxMessageBytes = int32(v.Int) }},
	{Definition{Name: "message.timestamp.after.max.ms", Type: Long, Default: "3600000", Synonyms: same("log.message.timestamp.after.max.ms"), check: atLeast(0),
		Doc: "How far a record's timestamp may lie ahead of the broker's clock, with message.timestamp.type CreateTime."},
		func(t *Topic, v Value) { t.TimestampAfterMaxMs = v.Int }},
	{Definition{Name: "message.timestamp.before.max.ms", Type: Long, Default: maxLong, Synonyms: same("log.message.timestamp.before.max.ms"), check: atLeast(0),
		Doc: "How far a record's timestamp may lie behind the broker's clock, with message.timestamp.type CreateTime."},
		func(t *Topic, v Value) { t.TimestampBeforeMaxMs = v.Int }},
	{Definition{Name: "message.timestamp.type", Type: String, Default: CreateTime, Synonyms: same("log.message.timestamp.type"), check: oneOf(CreateTime, LogAppendTime),
		Doc: "Whose clock stamps records: the producer's (CreateTime) or the broker's at append (LogAppendTime)."},
		func(t *Topic, v Value) { t.TimestampType = v.Str }},
	{Definition{Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", Inert: true, Synonyms: same("log.cleaner.min.cleanable.ratio"), check: ratio,
		Doc: "Share of a compacted log that must be uncleaned before the cleaner takes it up."},
		func(t *Topic, v Value) { t.MinCleanableDirtyRatio = v.Num }},
	{Definition{Name: "min.compaction.lag.ms", Type: Long, Default: "0", Inert: true, Synonyms: same("log.cleaner.min.compaction.lag.ms"), check: atLeast(0),
		Doc: "Shortest time a record of a compacted topic stays uncompacted."},
		func(t *Topic, v Value) { t.MinCompactionLagMs = v.Int }},
	{Definition{Name: "min.insync.replicas", Type: Int, Default: "1", Synonyms: same("min.insync.replicas"), check: atLeast(1),
		Doc: "Replicas that must be in sync for a write with acks=all to be accepted. 2 with three replicas survives the loss of any one broker."},
		func(t *Topic, v Value) { t.MinInSyncReplicas = int32(v.Int) }},
	{Definition{Name: "preallocate", Type: Boolean, Default: "false", Synonyms: same("log.preallocate"),
		Doc: "Reserve a segment's whole size when it is made. Segments are preallocated in smaller steps anyway."},
		func(t *Topic, v Value) { t.Preallocate = v.Bool }},
	{Definition{Name: "remote.copy.lag.bytes", Type: Long, Default: "-1", Synonyms: same("log.remote.copy.lag.bytes"), check: atLeast(-1), Inert: true,
		Doc: "With tiered storage, bytes that must follow a segment before it is copied."},
		func(t *Topic, v Value) { t.RemoteCopyLagBytes = v.Int }},
	{Definition{Name: "remote.copy.lag.ms", Type: Long, Default: "0", Synonyms: same("log.remote.copy.lag.ms"), check: atLeast(-1), Inert: true,
		Doc: "With tiered storage, time before a segment is copied."},
		func(t *Topic, v Value) { t.RemoteCopyLagMs = v.Int }},
	{Definition{Name: "remote.log.copy.disable", Type: Boolean, Default: "false", Inert: true,
		Doc: "With tiered storage, stop copying segments and keep what was copied readable."},
		func(t *Topic, v Value) { t.RemoteLogCopyDisable = v.Bool }},
	{Definition{Name: "remote.log.delete.on.disable", Type: Boolean, Default: "false", Inert: true,
		Doc: "Whether turning tiered storage off for a topic deletes what was copied."},
		func(t *Topic, v Value) { t.RemoteLogDeleteOnDisable = v.Bool }},
	{Definition{Name: "remote.storage.enable", Type: Boolean, Default: "false",
		Doc: "Tiered storage for this topic. This broker has none: true is refused."},
		func(t *Topic, v Value) { t.RemoteStorageEnable = v.Bool }},
	{Definition{Name: "retention.bytes", Type: Long, Default: "-1", Inert: true, Synonyms: same("log.retention.bytes"),
		Doc: "Bytes of each partition that are kept, oldest segments going first; -1 is no limit. Never deletes more than needed to get under the limit."},
		func(t *Topic, v Value) { t.RetentionBytes = v.Int }},
	{Definition{Name: "retention.ms", Type: Long, Default: "604800000", Inert: true,
		Synonyms: []Synonym{{"log.retention.ms", 1}, {"log.retention.minutes", minute}, {"log.retention.hours", hour}}, check: atLeast(-1),
		Doc: "How long records are kept, by the largest timestamp of each segment; -1 is no limit."},
		func(t *Topic, v Value) { t.RetentionMs = v.Int }},
	{Definition{Name: "segment.bytes", Type: Int, Default: "1073741824", Synonyms: same("log.segment.bytes"), check: atLeast(minSegmentBytes),
		Doc: "Size at which a segment is closed and the next one begun. Retention and compaction work on whole segments."},
		func(t *Topic, v Value) { t.SegmentBytes = int32(v.Int) }},
	{Definition{Name: "segment.index.bytes", Type: Int, Default: "10485760", Synonyms: same("log.index.size.max.bytes"), check: atLeast(4),
		Doc: "Largest size of a segment's offset index; a full index closes the segment."},
		func(t *Topic, v Value) { t.SegmentIndexBytes = int32(v.Int) }},
	{Definition{Name: "segment.jitter.ms", Type: Long, Default: "0", Synonyms: []Synonym{{"log.roll.jitter.ms", 1}, {"log.roll.jitter.hours", hour}}, check: atLeast(0),
		Doc: "Upper bound of a random time taken off segment.ms, so that segments do not all roll at once."},
		func(t *Topic, v Value) { t.SegmentJitterMs = v.Int }},
	{Definition{Name: "segment.ms", Type: Long, Default: "604800000", Synonyms: []Synonym{{"log.roll.ms", 1}, {"log.roll.hours", hour}}, check: atLeast(1),
		Doc: "Age at which a segment is closed though it is not full."},
		func(t *Topic, v Value) { t.SegmentMs = v.Int }},
	{Definition{Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", Inert: true, Synonyms: same("unclean.leader.election.enable"),
		Doc: "Whether a replica that is not in sync may lead when nothing else is left. It may lose acknowledged records."},
		func(t *Topic, v Value) { t.UncleanLeaderElection = v.Bool }},
}
