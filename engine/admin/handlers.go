package admin

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
)

// Client is who asks: what the connection and the request's header say.
type Client struct {
	ClientID string
	Listener string // name of the listener the connection came in by
	Version  int16  // of the request
	Peer     netip.AddrPort
}

// NewTopic is a topic to create. Either Assignment is set, one entry for each
// of the partitions 0..n-1, or Partitions and ReplicationFactor are positive.
type NewTopic struct {
	Name              string
	Partitions        int32
	ReplicationFactor int16
	Assignment        map[int32][]int32 // broker ids by partition, the first is the preferred leader
	Configs           map[string]string // overrides, already validated
}

// NewTopicResult is what became of a [NewTopic]: the topic as it is, or would
// be with validateOnly, or an error.
type NewTopicResult struct {
	Topic *meta.Topic
	Err   error
}

// Controller changes the cluster's metadata. An error that wraps a kerr.Error
// is answered with its code, and with the text of a record.Error around it; any
// other is UNKNOWN_SERVER_ERROR. When a call returns, the image that
// [Config.Image] returns contains its effect.
type Controller interface {
	// CreateTopics makes topics, each atomically.
	CreateTopics(ctx context.Context, topics []NewTopic, validateOnly bool) []NewTopicResult
	// DeleteTopics deletes by id and returns one error for each, nil if gone.
	DeleteTopics(ctx context.Context, ids []record.TopicID) []error
	// CreatePartitions raises the number of partitions to count. assignment has
	// an entry for each new one, or is nil.
	CreatePartitions(ctx context.Context, topic string, count int32, assignment [][]int32, validateOnly bool) error
	// AlterTopicConfigs sets and removes overrides in one step.
	AlterTopicConfigs(ctx context.Context, topic string, set map[string]string, remove []string) error
	// AlterBrokerConfigs does so for the dynamic configs of a broker, or with
	// broker -1 for those of all.
	AlterBrokerConfigs(ctx context.Context, broker int32, set map[string]string, remove []string) error
}

// Replicas is what handlers ask of this node's partitions.
type Replicas interface {
	// DeleteRecords moves the log start offset of a partition that is led here
	// up to offset (-1: the high watermark) and returns the low watermark.
	DeleteRecords(ctx context.Context, tp record.TopicPartition, offset record.Offset) (record.Offset, error)
	// LogDirs returns the log directories and the replicas in them.
	LogDirs() []LogDir
}

// LogDir is one log directory. Sizes are in bytes; -1 is unknown.
type LogDir struct {
	Path     string // absolute
	Err      error  // the directory is offline; the rest is then unset
	Total    int64
	Usable   int64
	Replicas []ReplicaSize
}

// ReplicaSize is one replica in a log directory.
type ReplicaSize struct {
	TP        record.TopicPartition
	Bytes     int64 // of its segments' records, without what is preallocated
	OffsetLag int64 // high watermark (of a future replica: the current one's end) less log end offset, at least 0
	Future    bool  // being moved here from another directory
}

// Config is what the handlers work with. All fields but Logger are needed.
type Config struct {
	NodeID     int32
	Broker     func() *config.Broker // effective: with the image's dynamic configs applied
	Image      func() *meta.Image
	Controller Controller
	Replicas   Replicas
	Logger     *slog.Logger
}

// Handlers answers the requests. It is safe for concurrent use.
type Handlers struct {
	Config

	// altering makes read-modify-write of configs (APPEND, validation against
	// the rest of a resource) one at a time on this node.
	altering sync.Mutex

	creating creating
}

// New returns handlers over the given collaborators.
func New(c Config) *Handlers {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Handlers{Config: c, creating: creating{names: make(map[string]struct{})}}
}
