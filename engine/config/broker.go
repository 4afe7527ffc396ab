package config

// Broker is the effective configuration of one node. It is immutable: a change
// of dynamic configs makes another one ([Broker.WithDynamic]).
type Broker struct {
	// The sources, as text by key. Only keys that are set are in them.
	static, cluster, own map[string]string

	NodeID int32
	Rack   string

	Listeners           []Listener // those to open; controller listeners are left out
	AdvertisedListeners []Listener // those of Listeners that are advertised, in that order; port 0 where the listener's is 0
	InterBrokerListener string     // name of one of Listeners
	ControllerListeners []string   // names accepted and not opened

	MaxConnections           int32            // math.MaxInt32: no limit
	MaxConnectionsPerIP      int32            // math.MaxInt32: no limit
	MaxConnectionsOverrides  map[string]int32 // by address or host name
	ConnectionsMaxIdleMs     int64            // negative: never
	QueuedMaxRequestBytes    int64            // memory of requests in flight; -1: no limit
	SocketSendBufferBytes    int32            // -1: the system's
	SocketReceiveBufferBytes int32            // -1: the system's
	SocketRequestMaxBytes    int32
	SocketListenBacklog      int32

	LogDirs                     []string
	NumPartitions               int32
	DefaultReplicationFactor    int16
	AutoCreateTopics            bool
	DeleteTopicEnable           bool
	RecoveryThreadsPerDataDir   int32
	RetentionCheckIntervalMs    int64
	FlushSchedulerIntervalMs    int64
	RecoveryPointIntervalMs     int32 // log.flush.offset.checkpoint.interval.ms
	StartOffsetIntervalMs       int32 // log.flush.start.offset.checkpoint.interval.ms
	HighWatermarkIntervalMs     int64 // replica.high.watermark.checkpoint.interval.ms
	LogDirFailureTimeoutMs      int64
	LogCleanerEnable            bool
	LogCleanerThreads           int32
	LogCleanerDedupeBufferBytes int64
	LogValidateCompressed       bool
	LogCleanerBackoffMs         int64

	FetchMaxBytes                int32
	FetchSessionCacheSlots       int32
	RequestPartitionSizeLimit    int32 // max.request.partition.size.limit
	ReplicaLagTimeMaxMs          int64
	ProducerIDExpirationMs       int32
	ProducerIDExpirationCheckMs  int32
	TransactionMaxTimeoutMs      int32
	TransactionalIDExpirationMs  int32
	TransactionVerification      bool
	OffsetsTopicPartitions       int32
	OffsetsTopicReplication      int16
	OffsetsTopicSegmentBytes     int32
	TransactionTopicPartitions   int32
	TransactionTopicReplication  int16
	TransactionTopicMinISR       int32
	TransactionTopicSegmentBytes int32
	OffsetMetadataMaxBytes       int32
	OffsetsRetentionMinutes      int32
	OffsetsRetentionCheckMs      int64
	OffsetsCommitTimeoutMs       int32
	OffsetsTopicCodec            int8 // record.Codec
	GroupInitialRebalanceDelayMs int32
	GroupMinSessionTimeoutMs     int32
	GroupMaxSessionTimeoutMs     int32
	GroupMaxSize                 int32
	ControlledShutdown           bool

	Consumers Consumers
	Quotas    Quotas

	// TopicDefaults is what a topic without overrides has.
	TopicDefaults Topic

	Netio Netio
	Meta  Meta
	HTTP  HTTP
}

// Netio is the network engine's own part of [Broker] (keys netio.*).
type Netio struct {
	Engine                    string // auto, io_uring, epoll
	Loops                     int32  // 0: cores / 2, at least 1
	BusyPollUs                int64
	LoopbackCongestionControl string // empty leaves the host's
}

// Meta is the metadata store's part of [Broker] (keys meta.*, zookeeper.connect).
type Meta struct {
	Store string // local
	Dir   string // defaults to <first log dir>/__meta
}

// CheckpointIntervalMs is the time between two writes of recovery points, log
// start offsets and high watermarks, which go together: the shortest of the
// three that Kafka has keys for.
func (b *Broker) CheckpointIntervalMs() int64 {
	return max(1, min(b.HighWatermarkIntervalMs, int64(b.RecoveryPointIntervalMs), int64(b.StartOffsetIntervalMs)))
}
