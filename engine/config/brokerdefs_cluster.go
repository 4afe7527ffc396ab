package config

import "math"

// clusterTable holds the keys of fetching, replication, groups and transactions
// (ServerConfigs.java, ReplicationConfigs.java, GroupCoordinatorConfig.java,
// TransactionLogConfig.java). The internal topics default to one replica: this
// node is alone, and with Kafka's three a first group would never start.
var clusterTable = []brokerDef{
	{Definition{Name: "fetch.max.bytes", Type: Int, Default: "57671680", check: atLeast(1024),
		Doc: "Most bytes of records in one answer to a consumer's fetch."},
		func(b *Broker, v Value) { b.FetchMaxBytes = int32(v.Int) }},
	{Definition{Name: "max.incremental.fetch.session.cache.slots", Type: Int, Default: "1000", check: atLeast(0),
		Doc: "Incremental fetch sessions kept."},
		func(b *Broker, v Value) { b.FetchSessionCacheSlots = int32(v.Int) }},
	{Definition{Name: "max.request.partition.size.limit", Type: Int, Default: "2000", check: atLeast(1),
		Doc: "Most partitions in one answer to DescribeTopicPartitions."},
		func(b *Broker, v Value) { b.RequestPartitionSizeLimit = int32(v.Int) }},
	{Definition{Name: "replica.lag.time.max.ms", Type: Long, Default: "30000", Inert: true,
		Doc: "A follower that has not caught up for this long leaves the in-sync replicas."},
		func(b *Broker, v Value) { b.ReplicaLagTimeMaxMs = v.Int }},
	{Definition{Name: "producer.id.expiration.ms", Type: Int, Default: "86400000", Update: ClusterWide, check: atLeast(1),
		Doc: "How long an idle idempotent producer is remembered by a partition."},
		func(b *Broker, v Value) { b.ProducerIDExpirationMs = int32(v.Int) }},
	{Definition{Name: "producer.id.expiration.check.interval.ms", Type: Int, Default: "600000", Inert: true, Internal: true, check: atLeast(1),
		Doc: "Time between two looks for idle producers."},
		func(b *Broker, v Value) { b.ProducerIDExpirationCheckMs = int32(v.Int) }},
	{Definition{Name: "transaction.max.timeout.ms", Type: Int, Default: "900000", Inert: true, check: atLeast(1),
		Doc: "Longest timeout a transactional producer may ask for."},
		func(b *Broker, v Value) { b.TransactionMaxTimeoutMs = int32(v.Int) }},
	{Definition{Name: "transactional.id.expiration.ms", Type: Int, Default: "604800000", Inert: true, check: atLeast(1),
		Doc: "How long an idle transactional id is remembered."},
		func(b *Broker, v Value) { b.TransactionalIDExpirationMs = int32(v.Int) }},
	{Definition{Name: "transaction.partition.verification.enable", Type: Boolean, Default: "true", Inert: true, Update: ClusterWide,
		Doc: "Whether a partition is looked up in its transaction before it is written."},
		func(b *Broker, v Value) { b.TransactionVerification = v.Bool }},
	{Definition{Name: "transaction.state.log.num.partitions", Type: Int, Default: "50", check: atLeast(1),
		Doc: "Partitions of the transaction topic."},
		func(b *Broker, v Value) { b.TransactionTopicPartitions = int32(v.Int) }},
	{Definition{Name: "transaction.state.log.replication.factor", Type: Short, Default: "1", check: atLeast(1),
		Doc: "Replicas of the transaction topic. Kafka's default is 3."},
		func(b *Broker, v Value) { b.TransactionTopicReplication = int16(v.Int) }},
	{Definition{Name: "transaction.state.log.min.isr", Type: Int, Default: "1", check: atLeast(1),
		Doc: "min.insync.replicas of the transaction topic. Kafka's default is 2."},
		func(b *Broker, v Value) { b.TransactionTopicMinISR = int32(v.Int) }},
	{Definition{Name: "transaction.state.log.segment.bytes", Type: Int, Default: "104857600", check: atLeast(1),
		Doc: "Segment size of the transaction topic."},
		func(b *Broker, v Value) { b.TransactionTopicSegmentBytes = int32(v.Int) }},
	{Definition{Name: "offsets.topic.num.partitions", Type: Int, Default: "50", check: atLeast(1),
		Doc: "Partitions of the topic of committed offsets."},
		func(b *Broker, v Value) { b.OffsetsTopicPartitions = int32(v.Int) }},
	{Definition{Name: "offsets.topic.replication.factor", Type: Short, Default: "1", check: atLeast(1),
		Doc: "Replicas of the topic of committed offsets. Kafka's default is 3."},
		func(b *Broker, v Value) { b.OffsetsTopicReplication = int16(v.Int) }},
	{Definition{Name: "offsets.topic.segment.bytes", Type: Int, Default: "104857600", check: atLeast(1),
		Doc: "Segment size of the topic of committed offsets."},
		func(b *Broker, v Value) { b.OffsetsTopicSegmentBytes = int32(v.Int) }},
	{Definition{Name: "offsets.retention.minutes", Type: Int, Default: "10080", check: atLeast(1),
		Doc: "How long offsets of a group without members are kept."},
		func(b *Broker, v Value) { b.OffsetsRetentionMinutes = int32(v.Int) }},
	{Definition{Name: "offset.metadata.max.bytes", Type: Int, Default: "4096",
		Doc: "Longest note that may be stored with a committed offset."},
		func(b *Broker, v Value) { b.OffsetMetadataMaxBytes = int32(v.Int) }},
	{Definition{Name: "group.initial.rebalance.delay.ms", Type: Int, Default: "3000",
		Doc: "How long a new group waits for more members before its first rebalance."},
		func(b *Broker, v Value) { b.GroupInitialRebalanceDelayMs = int32(v.Int) }},
	{Definition{Name: "group.min.session.timeout.ms", Type: Int, Default: "6000",
		Doc: "Shortest session timeout a classic consumer may ask for."},
		func(b *Broker, v Value) { b.GroupMinSessionTimeoutMs = int32(v.Int) }},
	{Definition{Name: "group.max.session.timeout.ms", Type: Int, Default: "1800000",
		Doc: "Longest session timeout a classic consumer may ask for."},
		func(b *Broker, v Value) { b.GroupMaxSessionTimeoutMs = int32(v.Int) }},
	{Definition{Name: "group.max.size", Type: Int, Default: maxInt, check: atLeast(1),
		Doc: "Most members of a classic group."},
		func(b *Broker, v Value) { b.GroupMaxSize = int32(v.Int) }},
	{Definition{Name: "offsets.commit.timeout.ms", Type: Int, Default: "5000", check: atLeast(1),
		Doc: "How long a commit waits for its replicas."},
		func(b *Broker, v Value) { b.OffsetsCommitTimeoutMs = int32(v.Int) }},
	{Definition{Name: "offsets.retention.check.interval.ms", Type: Long, Default: "600000", check: atLeast(1),
		Doc: "Time between two looks for offsets to expire."},
		func(b *Broker, v Value) { b.OffsetsRetentionCheckMs = v.Int }},
	{Definition{Name: "offsets.topic.compression.codec", Type: Int, Default: "0",
		Doc: "Codec of the batches in the topic of committed offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."},
		func(b *Broker, v Value) { b.OffsetsTopicCodec = int8(v.Int) }},
	{Definition{Name: "controlled.shutdown.enable", Type: Boolean, Default: "true", Inert: true,
		Doc: "Whether leadership moves away before a planned stop."},
		func(b *Broker, v Value) { b.ControlledShutdown = v.Bool }},
}

// inert makes the definition of a key that is accepted, checked, kept and
// described, and changes nothing in this version.
func inert(name string, t Type, def string, update Update, c check, doc string) brokerDef {
	d := Definition{Name: name, Type: t, Default: def, Update: update, Inert: true, check: c, Doc: doc}
	if def == null {
		d.Default, d.Null = "", true
	}
	return brokerDef{Definition: d}
}

const null = "\x00" // marks a default that is no value

// inertTable holds Kafka's keys that name a thing this broker has not (threads
// of another design, a Raft quorum of its own) or not yet.
var inertTable = []brokerDef{
	inert("num.network.threads", Int, "3", ClusterWide, atLeast(1), "Kafka's network threads. Here netio.loops says how many loops serve the network."),
	inert("num.io.threads", Int, "8", ClusterWide, atLeast(1), "Kafka's request threads. Here loops run most requests."),
	inert("background.threads", Int, "10", ClusterWide, atLeast(1), "Kafka's background threads."),
	inert("queued.max.requests", Int, "500", ReadOnly, atLeast(1), "Kafka's request queue. Here queued.max.request.bytes bounds requests in flight."),
	inert("connection.failed.authentication.delay.ms", Int, "100", ReadOnly, atLeast(0), "Delay of the answer to a failed authentication."),
	inert("connections.max.reauth.ms", Long, "0", ReadOnly, check{}, "Longest session of an authenticated connection."),
	inert("request.timeout.ms", Int, "30000", ReadOnly, check{}, "How long a broker waits for another's answer."),
	inert("early.start.listeners", List, null, ReadOnly, check{}, "Listeners opened before authorisation is ready."),
	inert("cordoned.log.dirs", List, "", ClusterWide, check{}, "Log directories that get no new partitions."),
	inert("metadata.log.dir", String, null, ReadOnly, check{}, "Directory of Kafka's metadata log. Here meta.dir holds the metadata."),
	inert("controller.quorum.voters", List, "", ReadOnly, check{}, "Members of Kafka's controller quorum."),
	inert("controller.quorum.bootstrap.servers", List, "", ReadOnly, check{}, "First addresses of Kafka's controller quorum."),
	inert("initial.broker.registration.timeout.ms", Int, "60000", ReadOnly, check{}, "How long a broker tries to register with Kafka's controller."),
	inert("broker.heartbeat.interval.ms", Int, "2000", ReadOnly, check{}, "Time between two heartbeats of a broker to the controller."),
	inert("broker.session.timeout.ms", Int, "9000", ReadOnly, check{}, "How long a broker without heartbeats counts as alive."),
	inert("zookeeper.connect", String, null, ReadOnly, check{}, "Addresses of ZooKeeper in Kafka before 4.0."),

	inert("log.cleaner.io.buffer.size", Int, "524288", ClusterWide, atLeast(0), "Memory of compaction's buffers."),
	inert("log.cleaner.io.buffer.load.factor", Double, "0.9", ClusterWide, check{}, "How full the table of keys seen by compaction may become."),
	inert("log.cleaner.io.max.bytes.per.second", Double, "1.7976931348623157E308", ClusterWide, check{}, "Most bytes that compaction reads and writes per second."),
	inert("fetch.purgatory.purge.interval.requests", Int, "1000", ReadOnly, check{}, "Kafka's clean-up interval of waiting fetches."),
	inert("producer.purgatory.purge.interval.requests", Int, "1000", ReadOnly, check{}, "Kafka's clean-up interval of waiting produce requests."),
	inert("delete.records.purgatory.purge.interval.requests", Int, "1", ReadOnly, check{}, "Kafka's clean-up interval of waiting DeleteRecords requests."),
	inert("replica.selector.class", String, null, ReadOnly, check{}, "How a replica near a consumer is chosen (KIP-392)."),

	inert("num.replica.fetchers", Int, "1", ClusterWide, atLeast(1), "Fetchers per leader."),
	inert("num.replica.alter.log.dirs.threads", Int, null, ReadOnly, check{}, "Threads that move replicas between log directories."),
	inert("replica.fetch.max.bytes", Int, "1048576", ReadOnly, atLeast(0), "Bytes per partition in one fetch of a follower."),
	inert("replica.fetch.wait.max.ms", Int, "500", ReadOnly, check{}, "Longest wait of a follower's fetch."),
	inert("replica.fetch.min.bytes", Int, "1", ReadOnly, check{}, "Least bytes a follower's fetch waits for."),
	inert("replica.fetch.response.max.bytes", Int, "10485760", ReadOnly, atLeast(0), "Bytes in one answer to a follower's fetch."),
	inert("replica.fetch.backoff.ms", Int, "1000", ReadOnly, atLeast(0), "Pause of a follower after an error."),
	inert("replica.socket.timeout.ms", Int, "30000", ReadOnly, check{}, "Timeout of a follower's connection."),
	inert("replica.socket.receive.buffer.bytes", Int, "65536", ReadOnly, check{}, "SO_RCVBUF of a follower's connection."),
	inert("auto.leader.rebalance.enable", Boolean, "true", ReadOnly, check{}, "Whether leadership returns to preferred replicas by itself."),
	inert("leader.imbalance.check.interval.seconds", Long, "300", ReadOnly, atLeast(1), "Time between two checks for leaders away from their preferred replica."),
	inert("leader.imbalance.per.broker.percentage", Int, "10", ReadOnly, check{}, "Share of misplaced leaders a broker may have."),
	inert("leader.replication.throttled.rate", Long, maxLong, ClusterWide, atLeast(0), "Bytes per second that throttled replicas may be read with."),
	inert("follower.replication.throttled.rate", Long, maxLong, ClusterWide, atLeast(0), "Bytes per second that throttled replicas may be written with."),
	inert("replica.alter.log.dirs.io.max.bytes.per.second", Long, maxLong, ClusterWide, atLeast(0), "Bytes per second for moves between log directories."),

	inert("offsets.load.buffer.size", Int, "5242880", ReadOnly, atLeast(1), "Bytes read at once when offsets are loaded."),
	inert("transaction.abort.timed.out.transaction.cleanup.interval.ms", Int, "10000", ReadOnly, atLeast(1), "Time between two looks for transactions that ran out of time."),
	inert("transaction.remove.expired.transaction.cleanup.interval.ms", Int, "3600000", ReadOnly, atLeast(1), "Time between two looks for transactional ids to forget."),
	inert("transaction.state.log.load.buffer.size", Int, "5242880", ReadOnly, atLeast(1), "Bytes read at once when transaction state is loaded."),
	inert("transaction.two.phase.commit.enable", Boolean, "false", ReadOnly, check{}, "Whether producers may take part in two-phase commits (KIP-939)."),
	inert("share.coordinator.state.topic.replication.factor", Short, "1", ReadOnly, atLeast(1), "Replicas of the share groups' state topic. Kafka's default is 3."),
	inert("share.coordinator.state.topic.min.isr", Short, "1", ReadOnly, between(1, math.MaxInt16), "min.insync.replicas of the share groups' state topic. Kafka's default is 2."),

	inert("authorizer.class.name", String, "", ReadOnly, check{}, "Class that authorises requests. There is no authorisation yet."),
	inert("super.users", String, null, ReadOnly, check{}, "Principals that may do everything. There is no authorisation yet."),
	inert("allow.everyone.if.no.acl.found", Boolean, "false", ReadOnly, check{}, "Whether what no ACL names is allowed. There is no authorisation yet."),
	inert("principal.builder.class", Class, null, ReadOnly, check{}, "Class that makes principals."),
	inert("delegation.token.secret.key", Password, null, ReadOnly, check{}, "Key that signs delegation tokens."),
	inert("create.topic.policy.class.name", Class, null, ReadOnly, check{}, "Class that may refuse topics."),
	inert("alter.config.policy.class.name", Class, null, ReadOnly, check{}, "Class that may refuse configs."),
	inert("client.quota.callback.class", Class, null, ReadOnly, check{}, "Class that decides quotas."),
	inert("metric.reporters", List, "", ClusterWide, check{}, "Classes that report metrics in Kafka."),
	inert("metrics.num.samples", Int, "2", ReadOnly, atLeast(1), "Samples kept for Kafka's metrics."),
	inert("metrics.sample.window.ms", Long, "30000", ReadOnly, atLeast(1), "Time span of a sample of Kafka's metrics."),
	inert("metrics.recording.level", String, "INFO", ReadOnly, check{}, "Detail of Kafka's metrics."),
	inert("telemetry.max.bytes", Int, "1048576", ReadOnly, atLeast(1), "Largest telemetry push of a client."),
	inert("remote.log.storage.system.enable", Boolean, "false", ReadOnly, noTiering, "Tiered storage. This broker has none: true is refused."),
}

// inertFamilies are prefixes of Kafka's keys of which none has an effect here
// and which are not defined one by one.
var inertFamilies = []string{
	"add.partitions.to.txn.", "alter.log.dirs.", "config.providers", "controller.", "delegation.token.", "errors.deadletterqueue.",
	"follower.fetch.", "group.consumer.", "group.coordinator.", "group.share.", "group.streams.", "internal.metadata.", "kafka.metrics.",
	"listener.name.", "log.initial.task.delay.", "metadata.", "remote.", "replication.quota.", "rlmm.config.", "rsm.config.", "sasl.",
	"security.providers", "server.max.startup.time.", "share.", "socket.connection.setup.", "ssl.", "unclean.leader.election.interval.",
	"unstable.", "zookeeper.",
}
