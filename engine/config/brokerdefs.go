package config

import (
	"math"
	"strconv"
)

// brokerDef is a broker key and where its value goes; apply is nil where the
// value is read by other means (as a topic default, or with the listeners).
type brokerDef struct {
	Definition
	apply func(*Broker, Value)
}

// DefaultQueuedMaxRequestBytes bounds the memory of requests in flight where
// queued.max.request.bytes is not set; it is never below socket.request.max.bytes.
const DefaultQueuedMaxRequestBytes = 128 << 20

// chain makes the synonyms of a broker key that shares a value with others.
func chain(names ...string) []Synonym {
	synonyms := make([]Synonym, len(names))
	for i, name := range names {
		synonyms[i] = Synonym{name, 1}
	}
	return synonyms
}

var (
	retentionChain = chain("log.retention.ms", "log.retention.minutes", "log.retention.hours")
	rollChain      = chain("log.roll.ms", "log.roll.hours")
	jitterChain    = chain("log.roll.jitter.ms", "log.roll.jitter.hours")
	flushChain     = chain("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
)

// networkTable holds the keys of a node's identity and network
// (SocketServerConfigs.java, KRaftConfigs.java, ServerConfigs.java) and netio's
// own.
var networkTable = []brokerDef{
	{Definition{Name: "node.id", Type: Int, Default: "1", check: atLeast(0),
		Doc: "Number of this node, unique in its cluster."},
		func(b *Broker, v Value) { b.NodeID = int32(v.Int) }},
	{Definition{Name: "broker.id", Type: Int, Null: true,
		Doc: "Older name of node.id; where both are set they must agree."}, nil},
	{Definition{Name: "broker.rack", Type: String, Null: true,
		Doc: "Rack, zone or data centre of this broker, told to clients and used to spread replicas."},
		func(b *Broker, v Value) { b.Rack = v.Str }},
	{Definition{Name: "process.roles", Type: List, Default: "broker", check: eachOneOf("broker", "controller"),
		Doc: "Kafka's split of roles. This broker always does both; the key is read so that Kafka's files start a node."}, nil},
	{Definition{Name: "listeners", Type: List, Default: "PLAINTEXT://127.0.0.1:9092", Update: PerBroker,
		Doc: "Addresses to listen on, NAME://host:port each. An empty host is every interface, port 0 lets the system choose."}, nil},
	{Definition{Name: "advertised.listeners", Type: List, Null: true, Update: PerBroker,
		Doc: "Addresses that clients are told to connect to, by listener name; unset, those of listeners."}, nil},
	{Definition{Name: "listener.security.protocol.map", Type: String, Default: "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", Update: PerBroker,
		Doc: "Security protocol of each listener name."}, nil},
	{Definition{Name: "inter.broker.listener.name", Type: String, Null: true,
		Doc: "Listener that brokers use among themselves."}, nil},
	{Definition{Name: "security.inter.broker.protocol", Type: String, Default: plaintext, check: oneOf(plaintext, "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
		Doc: "Security protocol among brokers where inter.broker.listener.name is not set."}, nil},
	{Definition{Name: "controller.listener.names", Type: List, Null: true,
		Doc: "Listeners of Kafka's controller. They are accepted and not opened."}, nil},
	{Definition{Name: "max.connections", Type: Int, Default: maxInt, Update: ClusterWide, check: atLeast(0),
		Doc: "Most connections to this broker at a time."},
		func(b *Broker, v Value) { b.MaxConnections = int32(v.Int) }},
	{Definition{Name: "max.connections.per.ip", Type: Int, Default: maxInt, Update: ClusterWide, check: atLeast(0),
		Doc: "Most connections from one address at a time."},
		func(b *Broker, v Value) { b.MaxConnectionsPerIP = int32(v.Int) }},
	{Definition{Name: "max.connections.per.ip.overrides", Type: String, Default: "", Update: ClusterWide, check: connectionOverrides,
		Doc: "Limits for single addresses in place of max.connections.per.ip: address:limit, comma separated."},
		func(b *Broker, v Value) { b.MaxConnectionsOverrides, _ = parseConnectionOverrides(v.Str) }},
	{Definition{Name: "connections.max.idle.ms", Type: Long, Default: "600000",
		Doc: "Connections without a request for this long are closed; negative: never."},
		func(b *Broker, v Value) { b.ConnectionsMaxIdleMs = v.Int }},
	{Definition{Name: "queued.max.request.bytes", Type: Long, Default: strconv.Itoa(DefaultQueuedMaxRequestBytes),
		Doc: "Memory that requests in flight may take together; beyond it no more is read from clients. 0 or negative: no limit. Kafka's default is no limit."},
		func(b *Broker, v Value) { b.QueuedMaxRequestBytes = v.Int }},
	{Definition{Name: "socket.request.max.bytes", Type: Int, Default: "104857600", check: atLeast(1),
		Doc: "Largest request accepted."},
		func(b *Broker, v Value) { b.SocketRequestMaxBytes = int32(v.Int) }},
	{Definition{Name: "socket.send.buffer.bytes", Type: Int, Default: "102400",
		Doc: "SO_SNDBUF of connections; -1 leaves the system's."},
		func(b *Broker, v Value) { b.SocketSendBufferBytes = int32(v.Int) }},
	{Definition{Name: "socket.receive.buffer.bytes", Type: Int, Default: "102400",
		Doc: "SO_RCVBUF of connections; -1 leaves the system's."},
		func(b *Broker, v Value) { b.SocketReceiveBufferBytes = int32(v.Int) }},
	{Definition{Name: "socket.listen.backlog.size", Type: Int, Default: "50", check: atLeast(1),
		Doc: "Connections that may wait to be accepted."},
		func(b *Broker, v Value) { b.SocketListenBacklog = int32(v.Int) }},
	{Definition{Name: "netio.engine", Type: String, Default: "auto", check: oneOf("auto", "io_uring", "epoll"),
		Doc: "Network engine: io_uring, epoll, or the first that works."},
		func(b *Broker, v Value) { b.Netio.Engine = v.Str }},
	{Definition{Name: "netio.loops", Type: Int, Null: true, check: between(1, 63),
		Doc: "Event loops; unset, half as many as cores and at least one."},
		func(b *Broker, v Value) { b.Netio.Loops = int32(v.Int) }},
	{Definition{Name: "netio.busy.poll.us", Type: Long, Default: "0", check: between(0, 1_000_000),
		Doc: "How long a loop spins for work before it sleeps, in microseconds."},
		func(b *Broker, v Value) { b.Netio.BusyPollUs = v.Int }},
	{Definition{Name: "netio.loopback.congestion.control", Type: String, Default: "cubic",
		Doc: "TCP congestion control for peers on loopback; empty leaves the system's."},
		func(b *Broker, v Value) { b.Netio.LoopbackCongestionControl = v.Str }},
	{Definition{Name: "meta.store", Type: String, Default: "local", check: oneOf("local"),
		Doc: "Where the cluster's metadata is kept: local is one file of this node."},
		func(b *Broker, v Value) { b.Meta.Store = v.Str }},
	{Definition{Name: "meta.dir", Type: String, Null: true,
		Doc: "Directory of the local metadata store; unset, __meta in the first log directory."},
		func(b *Broker, v Value) { b.Meta.Dir = v.Str }},
	{Definition{Name: "meta.peers", Type: List, Default: "", check: noPeers,
		Doc: "Members of the embedded metadata store. Empty is a single node, the only form this version serves."}, nil},
}

// noPeers refuses to start a node that believes itself part of a cluster.
var noPeers = check{"empty", func(_ string, v Value) (string, string) {
	if len(v.List) > 0 {
		return v.String(), "only a single node is served by this version: leave it empty"
	}
	return "", ""
}}

// logTable holds the keys of logs (ServerLogConfigs.java, CleanerConfig.java).
// Those behind a topic key have no apply: they reach [Broker.TopicDefaults].
var logTable = []brokerDef{
	{Definition{Name: "log.dirs", Type: List, Null: true,
		Doc: "Directories that hold the logs, comma separated; unset, log.dir."}, nil},
	{Definition{Name: "log.dir", Type: List, Default: "./data",
		Doc: "Directory that holds the logs where log.dirs is not set."}, nil},
	{Definition{Name: "num.partitions", Type: Int, Default: "1", check: atLeast(1),
		Doc: "Partitions of a topic that is created without a number of its own."},
		func(b *Broker, v Value) { b.NumPartitions = int32(v.Int) }},
	{Definition{Name: "default.replication.factor", Type: Int, Default: "1", check: between(1, math.MaxInt16),
		Doc: "Replicas of a topic that is created without a number of its own."},
		func(b *Broker, v Value) { b.DefaultReplicationFactor = int16(v.Int) }},
	{Definition{Name: "auto.create.topics.enable", Type: Boolean, Default: "true",
		Doc: "Whether asking for a topic that does not exist creates it, where the client agrees."},
		func(b *Broker, v Value) { b.AutoCreateTopics = v.Bool }},
	{Definition{Name: "delete.topic.enable", Type: Boolean, Default: "true",
		Doc: "Whether topics can be deleted."},
		func(b *Broker, v Value) { b.DeleteTopicEnable = v.Bool }},
	{Definition{Name: "num.recovery.threads.per.data.dir", Type: Int, Default: "2", Update: ClusterWide, check: atLeast(1),
		Doc: "Partitions of one log directory recovered at the same time after an unclean stop, and flushed at the same time at a stop."},
		func(b *Broker, v Value) { b.RecoveryThreadsPerDataDir = int32(v.Int) }},
	{Definition{Name: "log.retention.check.interval.ms", Type: Long, Default: "300000", check: atLeast(1),
		Doc: "Time between two looks for segments that retention may delete."},
		func(b *Broker, v Value) { b.RetentionCheckIntervalMs = v.Int }},
	{Definition{Name: "log.flush.scheduler.interval.ms", Type: Long, Default: maxLong,
		Doc: "Time between two looks for logs to sync; stands behind log.flush.interval.ms."},
		func(b *Broker, v Value) { b.FlushSchedulerIntervalMs = v.Int }},
	{Definition{Name: "log.flush.offset.checkpoint.interval.ms", Type: Int, Default: "60000", check: atLeast(0),
		Doc: "Time between two writes of the recovery points, which bound what an unclean stop makes the next start check."},
		func(b *Broker, v Value) { b.RecoveryPointIntervalMs = int32(v.Int) }},
	{Definition{Name: "log.flush.start.offset.checkpoint.interval.ms", Type: Int, Default: "60000", check: atLeast(0),
		Doc: "Time between two writes of the log start offsets."},
		func(b *Broker, v Value) { b.StartOffsetIntervalMs = int32(v.Int) }},
	{Definition{Name: "replica.high.watermark.checkpoint.interval.ms", Type: Long, Default: "5000",
		Doc: "Time between two writes of the high watermarks."},
		func(b *Broker, v Value) { b.HighWatermarkIntervalMs = v.Int }},
	{Definition{Name: "log.dir.failure.timeout.ms", Type: Long, Default: "30000", check: atLeast(1),
		Doc: "How long a node that could not tell the cluster of a failed log directory goes on."},
		func(b *Broker, v Value) { b.LogDirFailureTimeoutMs = v.Int }},
	{Definition{Name: "log.cleaner.enable", Type: Boolean, Default: "true",
		Doc: "Whether compacted topics are compacted."},
		func(b *Broker, v Value) { b.LogCleanerEnable = v.Bool }},
	{Definition{Name: "log.cleaner.threads", Type: Int, Default: "1", Update: ClusterWide, check: atLeast(0),
		Doc: "Logs compacted at the same time."},
		func(b *Broker, v Value) { b.LogCleanerThreads = int32(v.Int) }},
	{Definition{Name: "log.cleaner.dedupe.buffer.size", Type: Long, Default: "134217728", Update: ClusterWide, check: atLeast(1 << 20),
		Doc: "Memory for the keys seen by compaction, of all its threads together."},
		func(b *Broker, v Value) { b.LogCleanerDedupeBufferBytes = v.Int }},
	{Definition{Name: "log.cleaner.backoff.ms", Type: Long, Default: "15000", Update: ClusterWide, check: atLeast(0),
		Doc: "How long compaction rests when there is nothing to do."},
		func(b *Broker, v Value) { b.LogCleanerBackoffMs = v.Int }},
	{Definition{Name: "log.validate.compressed", Type: Boolean, Default: "false",
		Doc: "Whether the records inside every compressed batch are checked, at the price of decompressing it; Kafka always does. Compacted topics' batches are checked anyway."},
		func(b *Broker, v Value) { b.LogValidateCompressed = v.Bool }},

	{Definition{Name: "log.retention.ms", Type: Long, Null: true, Update: ClusterWide, Synonyms: retentionChain,
		Doc: "Default of retention.ms; unset, log.retention.minutes. -1 is no limit."}, nil},
	{Definition{Name: "log.retention.minutes", Type: Int, Null: true, Synonyms: retentionChain,
		Doc: "Default of retention.ms in minutes; unset, log.retention.hours."}, nil},
	{Definition{Name: "log.retention.hours", Type: Int, Default: "168", Synonyms: retentionChain,
		Doc: "Default of retention.ms in hours."}, nil},
	{Definition{Name: "log.retention.bytes", Type: Long, Default: "-1", Update: ClusterWide,
		Doc: "Default of retention.bytes."}, nil},
	{Definition{Name: "log.segment.bytes", Type: Int, Default: "1073741824", Update: ClusterWide, check: atLeast(minSegmentBytes),
		Doc: "Default of segment.bytes."}, nil},
	{Definition{Name: "log.roll.ms", Type: Long, Null: true, Update: ClusterWide, Synonyms: rollChain, check: atLeast(1),
		Doc: "Default of segment.ms; unset, log.roll.hours."}, nil},
	{Definition{Name: "log.roll.hours", Type: Int, Default: "168", Synonyms: rollChain, check: atLeast(1),
		Doc: "Default of segment.ms in hours."}, nil},
	{Definition{Name: "log.roll.jitter.ms", Type: Long, Null: true, Update: ClusterWide, Synonyms: jitterChain, check: atLeast(0),
		Doc: "Default of segment.jitter.ms; unset, log.roll.jitter.hours."}, nil},
	{Definition{Name: "log.roll.jitter.hours", Type: Int, Default: "0", Synonyms: jitterChain, check: atLeast(0),
		Doc: "Default of segment.jitter.ms in hours."}, nil},
	{Definition{Name: "log.segment.delete.delay.ms", Type: Long, Default: "60000", Update: ClusterWide, check: atLeast(0),
		Doc: "Default of file.delete.delay.ms."}, nil},
	{Definition{Name: "log.flush.interval.messages", Type: Long, Default: maxLong, Update: ClusterWide, check: atLeast(1),
		Doc: "Default of flush.messages."}, nil},
	{Definition{Name: "log.flush.interval.ms", Type: Long, Null: true, Update: ClusterWide, Synonyms: flushChain,
		Doc: "Default of flush.ms; unset, log.flush.scheduler.interval.ms."}, nil},
	{Definition{Name: "log.cleanup.policy", Type: List, Default: "delete", Update: ClusterWide, check: eachOneOf("compact", "delete"),
		Doc: "Default of cleanup.policy."}, nil},
	{Definition{Name: "log.index.size.max.bytes", Type: Int, Default: "10485760", Update: ClusterWide, check: atLeast(4),
		Doc: "Default of segment.index.bytes."}, nil},
	{Definition{Name: "log.index.interval.bytes", Type: Int, Default: "4096", Update: ClusterWide, check: atLeast(0),
		Doc: "Default of index.interval.bytes."}, nil},
	{Definition{Name: "log.preallocate", Type: Boolean, Default: "false", Update: ClusterWide,
		Doc: "Default of preallocate."}, nil},
	{Definition{Name: "log.message.timestamp.type", Type: String, Default: CreateTime, Update: ClusterWide, check: oneOf(CreateTime, LogAppendTime),
		Doc: "Default of message.timestamp.type."}, nil},
	{Definition{Name: "log.message.timestamp.before.max.ms", Type: Long, Default: maxLong, Update: ClusterWide, check: atLeast(0),
		Doc: "Default of message.timestamp.before.max.ms."}, nil},
	{Definition{Name: "log.message.timestamp.after.max.ms", Type: Long, Default: "3600000", Update: ClusterWide, check: atLeast(0),
		Doc: "Default of message.timestamp.after.max.ms."}, nil},
	{Definition{Name: "log.cleaner.delete.retention.ms", Type: Long, Default: "86400000", Update: ClusterWide, check: atLeast(0),
		Doc: "Default of delete.retention.ms."}, nil},
	{Definition{Name: "log.cleaner.min.cleanable.ratio", Type: Double, Default: "0.5", Update: ClusterWide, check: ratio,
		Doc: "Default of min.cleanable.dirty.ratio."}, nil},
	{Definition{Name: "log.cleaner.min.compaction.lag.ms", Type: Long, Default: "0", Update: ClusterWide, check: atLeast(0),
		Doc: "Default of min.compaction.lag.ms."}, nil},
	{Definition{Name: "log.cleaner.max.compaction.lag.ms", Type: Long, Default: maxLong, Update: ClusterWide, check: atLeast(1),
		Doc: "Default of max.compaction.lag.ms."}, nil},
	{Definition{Name: "log.local.retention.bytes", Type: Long, Default: "-2", Update: ClusterWide, check: atLeast(-2), Inert: true,
		Doc: "Default of local.retention.bytes."}, nil},
	{Definition{Name: "log.local.retention.ms", Type: Long, Default: "-2", Update: ClusterWide, check: atLeast(-2), Inert: true,
		Doc: "Default of local.retention.ms."}, nil},
	{Definition{Name: "log.remote.copy.lag.bytes", Type: Long, Default: "-1", Update: ClusterWide, check: atLeast(-1), Inert: true,
		Doc: "Default of remote.copy.lag.bytes."}, nil},
	{Definition{Name: "log.remote.copy.lag.ms", Type: Long, Default: "0", Update: ClusterWide, check: atLeast(-1), Inert: true,
		Doc: "Default of remote.copy.lag.ms."}, nil},
	{Definition{Name: "message.max.bytes", Type: Int, Default: "1048588", Update: ClusterWide, check: atLeast(0),
		Doc: "Default of max.message.bytes."}, nil},
	{Definition{Name: "max.decompressed.message.bytes", Type: Int, Default: strconv.Itoa(math.MaxInt32 - 8), Update: ClusterWide, check: between(1, math.MaxInt32-8),
		Doc: "Default of the topic config of the same name."}, nil},
	{Definition{Name: "compression.type", Type: String, Default: CompressionProducer, Update: ClusterWide, check: oneOf(compressionTypes...),
		Doc: "Default of the topic config of the same name."}, nil},
	{Definition{Name: "compression.gzip.level", Type: Int, Default: "-1", Update: ClusterWide, check: levels(1, 9, -1),
		Doc: "Default of the topic config of the same name."}, nil},
	{Definition{Name: "compression.lz4.level", Type: Int, Default: "9", Update: ClusterWide, check: between(1, 17),
		Doc: "Default of the topic config of the same name."}, nil},
	{Definition{Name: "compression.zstd.level", Type: Int, Default: "3", Update: ClusterWide, check: between(-131072, 22),
		Doc: "Default of the topic config of the same name."}, nil},
	{Definition{Name: "min.insync.replicas", Type: Int, Default: "1", Update: ClusterWide, check: atLeast(1),
		Doc: "Default of the topic config of the same name."}, nil},
	{Definition{Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", Update: ClusterWide,
		Doc: "Default of the topic config of the same name."}, nil},
}
