package config

import (
	"maps"
	"slices"
	"strconv"
)

// Timestamp types, the values of message.timestamp.type.
const (
	CreateTime    = "CreateTime"
	LogAppendTime = "LogAppendTime"
)

// CompressionProducer is the compression.type that keeps a producer's bytes.
const CompressionProducer = "producer"

// Topic is the effective configuration of one topic: its own overrides on top
// of the broker's defaults. It is immutable once parsed.
type Topic struct {
	Compact bool // cleanup.policy contains compact
	Delete  bool // cleanup.policy contains delete; neither: keep for ever

	CompressionType      string // producer, uncompressed, gzip, snappy, lz4, zstd
	CompressionGzipLevel int32
	CompressionLZ4Level  int32
	CompressionZstdLevel int32

	MaxMessageBytes             int32 // of a batch as sent, compressed
	MaxDecompressedMessageBytes int32
	TimestampType               string // CreateTime or LogAppendTime
	TimestampBeforeMaxMs        int64
	TimestampAfterMaxMs         int64
	ValidateCompressed          bool // the broker's log.validate.compressed

	SegmentBytes      int32 // internal.segment.bytes where set
	SegmentMs         int64
	SegmentJitterMs   int64
	SegmentIndexBytes int32
	IndexInterval     int32 // bytes between two index entries
	Preallocate       bool

	FlushMessages     int64 // records between two syncs; math.MaxInt64: never
	FlushMs           int64 // math.MaxInt64: never
	RetentionMs       int64 // -1: no limit
	RetentionBytes    int64 // per partition; -1: no limit
	FileDeleteDelayMs int64

	DeleteRetentionMs      int64
	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64
	MinCleanableDirtyRatio float64

	MinInSyncReplicas         int32
	UncleanLeaderElection     bool
	LeaderThrottledReplicas   []string // "partition:broker" or the single entry "*"
	FollowerThrottledReplicas []string

	RemoteStorageEnable      bool // always false: refused by validation
	RemoteLogCopyDisable     bool
	RemoteLogDeleteOnDisable bool
	LocalRetentionMs         int64 // -2: retention.ms
	LocalRetentionBytes      int64 // -2: retention.bytes
	RemoteCopyLagMs          int64
	RemoteCopyLagBytes       int64
	DeadLetterQueueGroup     bool // errors.deadletterqueue.group.enable

	internalSegmentBytes int32 // 0: unset
}

// ParseTopic applies a topic's overrides to the broker's defaults. An unknown
// key, a bad value and a combination that is not allowed are errors whose text
// is Kafka's (LogConfig.java) and goes to the client with INVALID_CONFIG.
func ParseTopic(overrides map[string]string, b *Broker) (*Topic, error) {
	t := b.TopicDefaults
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		def := topicDefs.get(key)
		if def == nil {
			return nil, RuleError("Unknown topic config name: " + key)
		}
		v, err := def.Parse(overrides[key])
		if err != nil {
			return nil, err
		}
		def.apply(&t, v)
	}
	if err := t.validate(); err != nil {
		return nil, err
	}
	return &t, nil
}

// RuleError is a combination of topic configs, or a name, that is not allowed.
// Its text is Kafka's.
type RuleError string

func (e RuleError) Error() string { return string(e) }

// validate checks what no single key can (LogConfig.validateValues) and settles
// the values that depend on others.
func (t *Topic) validate() error {
	if t.MinCompactionLagMs > t.MaxCompactionLagMs {
		return RuleError("conflict topic config setting min.compaction.lag.ms (" + strconv.FormatInt(t.MinCompactionLagMs, 10) +
			") > max.compaction.lag.ms (" + strconv.FormatInt(t.MaxCompactionLagMs, 10) + ")")
	}
	if t.RemoteStorageEnable {
		return RuleError("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
	}
	if t.internalSegmentBytes > 0 {
		t.SegmentBytes = t.internalSegmentBytes
	}
	return nil
}
