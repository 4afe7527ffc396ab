package replication

import (
	"math"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
)

// TopicConfig is a topic's effective configuration as the log, the validator
// of batches and the partition need it. Immutable.
type TopicConfig struct {
	config.Topic
	// Log is the part that storage acts on.
	Log storage.LogConfig
	// Policy is what is asked of a client's batch: copy it and set Now.
	Policy record.Policy
}

// ParseTopicConfig applies a topic's overrides to the broker's defaults.
func ParseTopicConfig(overrides map[string]string, broker *config.Broker) (*TopicConfig, error) {
	t, err := config.ParseTopic(overrides, broker)
	if err != nil {
		return nil, err
	}
	return NewTopicConfig(t), nil
}

// NewTopicConfig derives the log's and the validator's part from a parsed topic.
func NewTopicConfig(t *config.Topic) *TopicConfig {
	c := &TopicConfig{Topic: *t}
	c.Log = storage.LogConfig{
		SegmentBytes:       t.SegmentBytes,
		SegmentMs:          t.SegmentMs,
		SegmentJitterMs:    t.SegmentJitterMs,
		SegmentIndexBytes:  t.SegmentIndexBytes,
		IndexIntervalBytes: max(t.IndexInterval, 1),
		MaxMessageBytes:    t.MaxMessageBytes,
		FlushMessages:      t.FlushMessages,
		FlushMs:            positive(t.FlushMs),
		RetentionMs:        positive(t.RetentionMs),
		RetentionBytes:     positive(t.RetentionBytes),
		FileDeleteDelayMs:  positive(t.FileDeleteDelayMs),
		Compact:            t.Compact,
		Delete:             t.Delete,
		Preallocate:        t.Preallocate,
	}
	if t.TimestampType == config.LogAppendTime {
		c.Log.TimestampType = record.LogAppendTime
	}
	if c.Log.FlushMessages <= 0 {
		c.Log.FlushMessages = math.MaxInt64
	}
	c.Policy = record.Policy{
		MaxMessageBytes:      t.MaxMessageBytes,
		Compacted:            t.Compact,
		TimestampType:        c.Log.TimestampType,
		TimestampBeforeMaxMs: t.TimestampBeforeMaxMs,
		TimestampAfterMaxMs:  t.TimestampAfterMaxMs,
		ValidateCompressed:   t.ValidateCompressed,
		FromClient:           true,
	}
	c.Policy.CompressionType, c.Policy.CompressionLevel = compression(t)
	return c
}

// compression translates compression.type and the level that belongs to it.
// The parser has checked the name, so an unknown one is a bug.
func compression(t *config.Topic) (record.CompressionType, int) {
	ct, err := record.ParseCompressionType(t.CompressionType)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	switch ct {
	case record.CompressionGzip:
		return ct, max(int(t.CompressionGzipLevel), 0) // -1 is the codec's default
	case record.CompressionLZ4:
		return ct, int(t.CompressionLZ4Level)
	case record.CompressionZstd:
		return ct, int(t.CompressionZstdLevel)
	}
	return ct, 0
}

// positive keeps an explicit 0 from being read as "the default": to storage,
// where zero means unset, the smallest value says the same.
func positive(v int64) int64 {
	if v == 0 {
		return 1
	}
	return v
}
