package admin

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

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
	// Mutations is the client's quota of partitions to create and delete; nil is
	// no limit.
	Mutations Mutations
}

// Mutations is a controller mutation quota as one request meets it (KIP-599).
type Mutations interface {
	// Take records that n partitions are to be created or deleted. A strict
	// quota answers false, once it is exhausted: THROTTLING_QUOTA_EXCEEDED.
	Take(n int, strict bool) bool
	// ThrottleMs is for how long the client is to be left alone.
	ThrottleMs() int64
}

// Controller changes the cluster's metadata; replication/controller's does. An
// error that wraps a kerr.Error is answered with its code, and with the text of
// a record.Error around it; any other is UNKNOWN_SERVER_ERROR. When a call
// returns, the image that [Config.Image] returns contains its effect.
type Controller interface {
	CreateTopics(ctx context.Context, specs []meta.TopicSpec, validateOnly bool) []meta.TopicResult
	// DeleteTopics returns one error for each id, nil where the topic is gone.
	DeleteTopics(ctx context.Context, ids []record.TopicID) []error
	// CreatePartitions raises the number of partitions to count; assignment has
	// the replicas of each new one, or is nil.
	CreatePartitions(ctx context.Context, topic string, count int32, assignment [][]int32, validateOnly bool) error
	// AlterTopicConfigs sets and removes overrides in one step.
	AlterTopicConfigs(ctx context.Context, topic string, set map[string]string, remove []string) error
	// AlterBrokerConfigs does so for the dynamic configs of a broker, or with
	// broker -1 for those of all.
	AlterBrokerConfigs(ctx context.Context, broker int32, set map[string]string, remove []string) error
	// AlterGroupConfigs does so for the configs of a group, which need not exist.
	AlterGroupConfigs(ctx context.Context, group string, set map[string]string, remove []string) error
	// AlterQuotas applies alterations of client quotas, all or none.
	AlterQuotas(ctx context.Context, alterations []meta.QuotaAlteration) error
	// UpdateFeatures sets feature levels, all or none.
	UpdateFeatures(ctx context.Context, levels map[string]int16) error
}

// Replicas is what handlers ask of this node's partitions; replication's
// Manager answers.
type Replicas interface {
	// DeleteRecords moves the log start offset of a partition that is led here
	// up to offset (-1: the high watermark) and returns the low watermark.
	DeleteRecords(ctx context.Context, tp record.TopicPartition, offset record.Offset) (record.Offset, error)
	// LogDirs returns the log directories and the replicas in them.
	LogDirs() []meta.LogDir
	// Producers lists the producers that a partition remembers, by id.
	Producers(tp record.TopicPartition) ([]meta.ProducerState, error)
	// WaitReady waits until no replica of the topic is being opened here.
	WaitReady(ctx context.Context, topic string) error
}

// Config is what the handlers work with. All fields but Logger and LogLevel are
// needed.
type Config struct {
	NodeID     int32
	Broker     func() *config.Broker // effective: with the image's dynamic configs applied
	Image      func() *meta.Image
	Controller Controller
	Replicas   Replicas
	Logger     *slog.Logger
	// LogLevel is the level of the log, to be changed by clients. Default: one
	// of its own, which nobody reads.
	LogLevel *slog.LevelVar
}

// Handlers answers the requests. It is safe for concurrent use.
type Handlers struct {
	Config

	// altering makes changes of configs one at a time on this node: a change is
	// worked out from the current values and validated with the rest of them.
	altering sync.Mutex

	// creating holds the topics that are being created because a client asked
	// for their metadata, so that a crowd of clients asks the controller once.
	creating sync.Map

	// deleted holds the topics that were deleted and not asked for since.
	deleted deletedNames
}

// readyWait bounds how long an answer waits for the replicas of what it made.
const readyWait = 10 * time.Second

// waitReady gives new replicas the time to open, so that a client that was told
// of a topic can use it at once instead of being sent away to retry. It is a
// courtesy: what takes longer, or fails, does not change the answer.
func (h *Handlers) waitReady(ctx context.Context, topics []string) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for _, topic := range topics {
		if err := h.Replicas.WaitReady(ctx, topic); err != nil {
			h.Logger.Warn("a new replica is not ready", "topic", topic, "error", err)
		}
	}
}

// New returns handlers over the given collaborators.
func New(c Config) *Handlers {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.LogLevel == nil {
		c.LogLevel = new(slog.LevelVar)
	}
	return &Handlers{Config: c}
}

// hostWait bounds the look-up of a host that a quota names.
const hostWait = 2 * time.Second

// changed logs what a client has changed: of which resource which key, and what
// it was and is.
func (h *Handlers) changed(cl Client, resource, key string, from, to any) {
	h.Logger.Info("changed by a client", "resource", resource, "key", key, "from", from, "to", to, "client", cl.ClientID, "peer", cl.Peer.String())
}

// shown is a value for the log; nil where there is none.
func shown[V any](values map[string]V, key string) any {
	if v, ok := values[key]; ok {
		return v
	}
	return nil
}
