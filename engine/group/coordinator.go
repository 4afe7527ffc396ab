package group

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// OffsetsTopic is the topic that groups and offsets are kept in.
const OffsetsTopic = "__consumer_offsets"

// Log is the way to the partitions of [OffsetsTopic].
type Log interface {
	// Append appends one batch to a partition that this node leads in the given
	// epoch. It does not wait. done is called once, on any goroutine, maybe
	// before Append returns: nil when the high watermark covers the batch, in the
	// order of the appends of a partition; else why it does not, in any order (a
	// *kerr.Error: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, …).
	Append(partition int32, epoch record.LeaderEpoch, batch record.Batch, done func(error))
	// Scan calls fn for every batch of the partition from its log start to where
	// it ends as of the call, for loading; fn's error ends it. It may sleep.
	Scan(ctx context.Context, partition int32, epoch record.LeaderEpoch, fn func(record.Batch) error) error
}

// Executor runs what may sleep. Submit does not block.
type Executor interface{ Submit(func()) }

// Config is what a Coordinator works with. All fields are required but Now,
// AfterFunc and Logger.
type Config struct {
	NodeID int32
	// Image is the current state of the cluster; it never blocks.
	Image func() *meta.Image
	Log   Log
	// Settings are the broker's, as they are now. The value is not changed after.
	Settings func() *Settings
	// GroupConfig is what is set for one group (resource type 32); zero fields
	// are not set.
	GroupConfig func(group string) GroupConfig
	// Executor runs the loads.
	Executor Executor
	// Now is the clock, time.Now by default.
	Now func() time.Time
	// AfterFunc is time.AfterFunc by default.
	AfterFunc func(time.Duration, func()) Timer
	Logger    *slog.Logger
}

// Timer is what AfterFunc returns; *time.Timer is one.
type Timer interface{ Stop() bool }

// Settings are the broker's configs that concern groups.
type Settings struct {
	InitialRebalanceDelay  time.Duration // group.initial.rebalance.delay.ms
	MinSessionTimeout      time.Duration // group.min.session.timeout.ms
	MaxSessionTimeout      time.Duration // group.max.session.timeout.ms
	MaxSize                int           // group.max.size
	OffsetMetadataMaxBytes int           // offset.metadata.max.bytes
	OffsetsRetention       time.Duration // offsets.retention.minutes
	ExpiryInterval         time.Duration // offsets.retention.check.interval.ms
	CommitTimeout          time.Duration // offsets.commit.timeout.ms
	Codec                  record.Codec  // offsets.topic.compression.codec
	BatchBytesMax          int           // largest batch that the offsets topic takes

	// ConsumerEnabled says that the consumer protocol is among
	// group.coordinator.rebalance.protocols. The level of group.version counts too.
	ConsumerEnabled              bool
	ConsumerHeartbeatInterval    time.Duration // group.consumer.heartbeat.interval.ms
	ConsumerSessionTimeout       time.Duration // group.consumer.session.timeout.ms
	ConsumerAssignmentInterval   time.Duration // group.consumer.assignment.interval.ms
	ConsumerMaxSize              int           // group.consumer.max.size
	ConsumerAssignors            []string      // group.consumer.assignors; the first is the default
	ConsumerMigration            string        // group.consumer.migration.policy, lower case
	ConsumerRegexRefreshInterval time.Duration // group.consumer.regex.refresh.interval.ms
}

// GroupConfig is what is set for one group; zero is not set.
type GroupConfig struct {
	ConsumerHeartbeatInterval time.Duration // consumer.heartbeat.interval.ms
	ConsumerSessionTimeout    time.Duration // consumer.session.timeout.ms
	// ConsumerAssignmentInterval is nil where it is not set: none is an interval.
	ConsumerAssignmentInterval *time.Duration // consumer.assignment.interval.ms
}

// Client is who sends a request.
type Client struct {
	ClientID string
	Host     string // as Kafka writes it: "/127.0.0.1"
	Version  int16  // of the request
}

// Coordinator serves the groups whose partitions of the offsets topic this node
// leads. It is safe for concurrent use; no method waits for a disk, a replica
// or a client.
type Coordinator struct {
	config Config
	start  time.Time // instants count from here

	mu     sync.Mutex // guards changes of shards
	shards atomic.Pointer[map[int32]*shard]
	image  *meta.Image // that ImageChanged saw last

	counters counters
}

// New returns a coordinator that leads nothing yet.
func New(config Config) *Coordinator {
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.AfterFunc == nil {
		config.AfterFunc = func(d time.Duration, fn func()) Timer { return time.AfterFunc(d, fn) }
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Coordinator{config: config, start: config.Now(), image: config.Image()}
	c.shards.Store(&map[int32]*shard{})
	return c
}

// instant is a time since the coordinator was made, on its monotonic clock.
type instant time.Duration

// now is the current instant.
func (c *Coordinator) now() instant { return instant(c.config.Now().Sub(c.start)) }

// nowMs is the wall clock, as records carry it.
func (c *Coordinator) nowMs() int64 { return c.config.Now().UnixMilli() }

// consumerEnabled says that the consumer protocol may be used.
func (c *Coordinator) consumerEnabled() bool {
	return c.config.Settings().ConsumerEnabled && config.FeatureLevel("group.version", c.config.Image().Features) >= 1
}

// PartitionFor is the partition of the offsets topic that a group belongs to:
// the Java hash of its id (Utils.abs(groupId.hashCode()) % partitions).
func PartitionFor(group string, partitions int) int32 {
	hash := javaHash(group)
	if hash == -1<<31 {
		hash = 0 // Utils.abs
	}
	return max(hash, -hash) % int32(partitions)
}

// javaHash is String.hashCode: over UTF-16 units.
func javaHash(s string) int32 {
	h := int32(0)
	for _, r := range s {
		if r >= 0x10000 {
			r -= 0x10000
			h = 31*h + (0xd800 + r>>10)
			r = 0xdc00 + r&0x3ff
		}
		h = 31*h + r
	}
	return h
}

// stringMax is the longest string that the keys of records hold, in bytes. In
// requests of flexible versions there may be longer ones, which Kafka's parser
// refuses.
const stringMax = math.MaxInt16

// enter finds the shard of a group and locks it; the caller ends its step with
// shard.leave. The error is what a client is told: INVALID_GROUP_ID,
// COORDINATOR_NOT_AVAILABLE while there is no offsets topic, NOT_COORDINATOR,
// COORDINATOR_LOAD_IN_PROGRESS.
func (c *Coordinator) enter(group string) (*shard, *kerr.Error) {
	if len(group) > stringMax {
		return nil, kerr.InvalidGroupID
	}
	im := c.config.Image()
	topic := im.Topics[OffsetsTopic]
	if topic == nil || len(topic.Partitions) == 0 {
		return nil, kerr.CoordinatorNotAvailable
	}
	return c.enterPartition(im, PartitionFor(group, len(topic.Partitions)))
}

func (c *Coordinator) enterPartition(im *meta.Image, partition int32) (*shard, *kerr.Error) {
	s := (*c.shards.Load())[partition]
	if s == nil {
		p := im.Partition(record.TopicPartition{Topic: OffsetsTopic, Partition: partition})
		if p != nil && p.Leader == c.config.NodeID {
			return nil, kerr.CoordinatorLoadInProgress // its log is not open yet
		}
		return nil, kerr.NotCoordinator
	}
	s.mu.Lock()
	switch s.state {
	case shardActive:
		return s, nil
	case shardLoading:
		s.mu.Unlock()
		return nil, kerr.CoordinatorLoadInProgress
	}
	s.mu.Unlock()
	return nil, kerr.NotCoordinator
}

// Lead takes over a partition that this node leads in the given epoch, and loads
// it. Until that is done its groups are answered COORDINATOR_LOAD_IN_PROGRESS.
// An epoch that is led already, or an older one, is passed over.
func (c *Coordinator) Lead(partition int32, epoch record.LeaderEpoch) {
	c.mu.Lock()
	old := (*c.shards.Load())[partition]
	if old != nil && old.epoch >= epoch {
		c.mu.Unlock()
		return
	}
	s := newShard(c, partition, epoch)
	c.replace(partition, s)
	c.mu.Unlock()
	if old != nil {
		old.resign()
	}
	c.config.Executor.Submit(s.load)
}

// Serves says whether a partition is led here and its groups are loaded.
func (c *Coordinator) Serves(partition int32) bool {
	s := (*c.shards.Load())[partition]
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == shardActive
}

// Resign gives a partition up: what waits is answered NOT_COORDINATOR.
func (c *Coordinator) Resign(partition int32) {
	c.mu.Lock()
	s := (*c.shards.Load())[partition]
	if s != nil {
		c.replace(partition, nil)
	}
	c.mu.Unlock()
	if s != nil {
		s.resign()
	}
}

// all is every shard, by partition.
func (c *Coordinator) all() []*shard {
	shards := *c.shards.Load()
	list := make([]*shard, 0, len(shards))
	for _, p := range slices.Sorted(maps.Keys(shards)) {
		list = append(list, shards[p])
	}
	return list
}

// loadFailed takes a shard away that could not be loaded.
func (c *Coordinator) loadFailed(s *shard) {
	c.mu.Lock()
	if (*c.shards.Load())[s.partition] == s {
		c.replace(s.partition, nil)
	}
	c.mu.Unlock()
	s.resign()
}

// Close resigns from everything.
func (c *Coordinator) Close() {
	for _, s := range c.all() {
		c.Resign(s.partition)
	}
}

// replace changes one entry of the map of shards; c.mu is held.
func (c *Coordinator) replace(partition int32, s *shard) {
	old := *c.shards.Load()
	next := make(map[int32]*shard, len(old)+1)
	for p, s := range old {
		next[p] = s
	}
	if s == nil {
		delete(next, partition)
	} else {
		next[partition] = s
	}
	c.shards.Store(&next)
}
