package metrics

// Units, as docs/metrics.md names them.
const (
	milliseconds = "ms"
	seconds      = "s"
	bytes        = "bytes"
	ratio        = "0–1"
	yesNo        = "0 or 1"
)

// What topics take in and give out (BrokerTopicMetrics). The series with an
// empty topic is the whole broker, topics that were deleted included; it does
// not fall when one is.
var (
	MessagesIn = define(Counter, "kafka_server_brokertopicmetrics_messagesin_total", "records",
		"Records appended for producers.", "no rise while producers should be writing", "topic")
	BytesIn = define(Counter, "kafka_server_brokertopicmetrics_bytesin_total", bytes,
		"Bytes of record batches appended for producers, as they are stored.", "", "topic")
	BytesOut = define(Counter, "kafka_server_brokertopicmetrics_bytesout_total", bytes,
		"Bytes of record batches in answers to consumers.", "", "topic")
	ProduceRequests = define(Counter, "kafka_server_brokertopicmetrics_totalproducerequests_total", "batches",
		"Batches that were handed to partitions, whatever became of them.", "", "topic")
	FailedProduces = define(Counter, "kafka_server_brokertopicmetrics_failedproducerequests_total", "batches",
		"Batches of known partitions that were answered with an error.", "any steady rise", "topic")
	FailedFetches = define(Counter, "kafka_server_brokertopicmetrics_failedfetchrequests_total", "partitions",
		"Partitions in answers to fetches that carried an error.", "any steady rise", "topic")
)

// Requests (RequestMetrics). FetchConsumer and FetchFollower are parts of Fetch,
// as in Kafka; only requests that came at all have series.
var (
	RequestsTotal = define(Counter, "kafka_network_requestmetrics_requests_total", "requests",
		"Requests by API and version.", "", "request", "version")
	RequestErrors = define(Counter, "kafka_network_requestmetrics_errors_total", "error codes",
		"Error codes in answers, by API and Kafka's name of the error. An answer may carry one for each of its partitions; answers without an error are not counted.",
		"a rise of errors that clients do not retry, such as UNKNOWN_SERVER_ERROR or KAFKA_STORAGE_ERROR", "request", "error")
	RequestBytes = define(Counter, "posthouse_network_request_bytes_total", bytes,
		"Bytes of requests.", "", "request")
	TotalTime = define(HistogramKind, "kafka_network_requestmetrics_totaltimems", milliseconds,
		"Time of requests from the arrival of their last byte to the last byte of the answer.",
		"p99 of Produce above what producers may wait; a Fetch may wait for fetch.max.wait.ms by its nature", "request")
	LocalTime = define(HistogramKind, "kafka_network_requestmetrics_localtimems", milliseconds,
		"The part of it in which this broker worked or sent.", "p99 above some 50 ms: disk or CPU is short", "request")
	RemoteTime = define(HistogramKind, "kafka_network_requestmetrics_remotetimems", milliseconds,
		"The part of it spent waiting for others: replicas, records to come, members of a group.",
		"p99 of Produce: followers are slow", "request")
	QueueTime = define(HistogramKind, "kafka_network_requestmetrics_requestqueuetimems", milliseconds,
		"The part of it behind earlier requests of the same connection.", "", "request")
	RequestQueue = define(Gauge, "kafka_network_requestchannel_requestqueuesize", "requests",
		"Requests that are complete and not begun.", "above some thousands for minutes: the loops are saturated")
	RequestsInProgress = define(Gauge, "posthouse_network_requests_in_progress", "requests",
		"Requests begun and not answered, those that wait included.", "")
	ResponseQueue = define(Gauge, "kafka_network_requestchannel_responsequeuesize", "answers",
		"Answers that are not all sent: clients read too slowly, or replies wait for a disk.", "a steady rise")
	Purgatory = define(Gauge, "kafka_server_delayedoperationpurgatory_purgatorysize", "requests",
		"Requests that wait: Produce for replicas, Fetch for records.", "", "delayedOperation")
	FetchSessions = define(Gauge, "kafka_server_fetchsessioncache_numincrementalfetchsessions", "sessions",
		"Incremental fetch sessions.", "at max.incremental.fetch.session.cache.slots")
	FetchSessionPartitions = define(Gauge, "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", "partitions",
		"Partitions that fetch sessions remember.", "")
)

// The network.
var (
	Connections = define(Gauge, "kafka_server_socket_server_metrics_connection_count", "connections",
		"Open connections.", "near max.connections", "listener")
	ConnectionsCreated = define(Counter, "kafka_server_socket_server_metrics_connection_creation_total", "connections",
		"Connections accepted.", "a rate far above the usual: clients reconnect in a loop", "listener")
	ConnectionsClosed = define(Counter, "kafka_server_socket_server_metrics_connection_close_total", "connections",
		"Connections closed.", "", "listener")
	ConnectionsRefused = define(Counter, "posthouse_network_connections_refused_total", "connections",
		"Connections closed at once because their address had its share (max.connections.per.ip).", "any rise", "listener")
	AcceptErrors = define(Counter, "posthouse_network_accept_errors_total", "errors",
		"Errors in place of new connections, such as too many open files.", "any rise", "listener")
	ConnectionEnds = define(Counter, "posthouse_network_connection_ends_total", "connections",
		"Connections by why they ended: peer, idle, protocol (the client broke it), io (sockets or files failed), shutdown, handler (refused by the broker).",
		"any rise of io; a rise of protocol", "cause")
	NetworkBytesIn = define(Counter, "posthouse_network_bytes_received_total", bytes,
		"Bytes received by event loops.", "", "loop")
	NetworkBytesOut = define(Counter, "posthouse_network_bytes_sent_total", bytes,
		"Bytes sent by event loops.", "", "loop")
	RequestMemory = define(Gauge, "posthouse_network_request_memory_bytes", bytes,
		"Memory of requests under way that counts against queued.max.request.bytes.", "near posthouse_network_request_memory_limit_bytes: clients are read from more slowly")
	RequestMemoryLimit = define(Gauge, "posthouse_network_request_memory_limit_bytes", bytes,
		"queued.max.request.bytes; no series where there is no limit.", "")
	LoopBusy = define(Counter, "posthouse_loop_busy_seconds_total", seconds,
		"Time in which an event loop did not sleep; its rate is the busy ratio.", "a rate above 0.9: add loops (netio.loops) or brokers", "loop")
	LoopWakeUps = define(Counter, "posthouse_loop_wakeups_total", "wake-ups",
		"Sleeps of an event loop that ended.", "", "loop")
	LoopTurns = define(Counter, "posthouse_loop_turns_total", "turns",
		"Turns of an event loop; requests for each turn say how much is done at a time.", "", "loop")
	LoopConnections = define(Gauge, "posthouse_loop_connections", "connections",
		"Connections of an event loop.", "", "loop")
	LoopColdReads = define(Counter, "posthouse_loop_cold_reads_total", "reads",
		"Answers that had to wait for a disk because their records were not in the page cache.", "a high rate: consumers lag behind memory", "loop")
	LoopsStalled = define(Gauge, "posthouse_loops_stalled", "loops",
		"Event loops that did not answer this scrape within a second; their series show what they said last.", "above 0")
	NetworkIdle = define(Gauge, "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", ratio,
		"Share of time that the event loops slept, over the last ten seconds or more. The same as Kafka's idle ratio of request handlers, since here loops handle requests.", "below 0.2")
	ProcessorIdle = define(Gauge, "kafka_network_socketserver_networkprocessoravgidle_percent", ratio,
		"The same, under the name of Kafka's network threads.", "below 0.2")
)

// Replicas (ReplicaManager) and the controller.
var (
	PartitionCount = define(Gauge, "kafka_server_replicamanager_partitioncount", "partitions",
		"Partitions with a replica on this node.", "")
	LeaderCount = define(Gauge, "kafka_server_replicamanager_leadercount", "partitions",
		"Partitions that this node leads.", "")
	OfflineReplicas = define(Gauge, "kafka_server_replicamanager_offlinereplicacount", "partitions",
		"Replicas here whose log could not be opened or written.", "above 0")
	UnderReplicated = define(Gauge, "kafka_server_replicamanager_underreplicatedpartitions", "partitions",
		"Partitions led here with fewer in-sync replicas than replicas.", "above 0 for minutes")
	UnderMinISR = define(Gauge, "kafka_server_replicamanager_underminisrpartitioncount", "partitions",
		"Partitions led here with fewer in-sync replicas than min.insync.replicas: acks=all is refused.", "above 0")
	AtMinISR = define(Gauge, "kafka_server_replicamanager_atminisrpartitioncount", "partitions",
		"Partitions led here with exactly min.insync.replicas in sync.", "")
	ProducerIDs = define(Gauge, "kafka_server_replicamanager_produceridcount", "producers",
		"Producer ids that the logs remember, counted once for each partition.", "a steady rise: clients make a producer for each record")
	ActiveController = define(Gauge, "kafka_controller_kafkacontroller_activecontrollercount", yesNo,
		"Whether this node is the controller.", "the sum over all nodes is not 1")
	GlobalTopics = define(Gauge, "kafka_controller_kafkacontroller_globaltopiccount", "topics",
		"Topics of the cluster.", "")
	GlobalPartitions = define(Gauge, "kafka_controller_kafkacontroller_globalpartitioncount", "partitions",
		"Partitions of the cluster.", "")
	OfflinePartitions = define(Gauge, "kafka_controller_kafkacontroller_offlinepartitionscount", "partitions",
		"Partitions of the cluster without a leader.", "above 0")
	ActiveBrokers = define(Gauge, "kafka_controller_kafkacontroller_activebrokercount", "brokers",
		"Brokers that are registered and not fenced.", "below the number of brokers")
	FencedBrokers = define(Gauge, "kafka_controller_kafkacontroller_fencedbrokercount", "brokers",
		"Brokers that are registered and fenced.", "above 0 for minutes")
)

// Logs.
var (
	LogSize = define(Gauge, "kafka_log_log_size", bytes,
		"Bytes of record batches in a partition's log.", "", "topic", "partition")
	LogEndOffset = define(Gauge, "kafka_log_log_logendoffset", "offset",
		"Offset that the next record gets.", "", "topic", "partition")
	LogStartOffset = define(Gauge, "kafka_log_log_logstartoffset", "offset",
		"First offset that is still there.", "", "topic", "partition")
	LogSegments = define(Gauge, "kafka_log_log_numlogsegments", "segments",
		"Segment files of a partition's log.", "", "topic", "partition")
	LogFlushes = define(HistogramKind, "kafka_log_logflushstats_logflushrateandtimems", milliseconds,
		"Flushes of logs to disk, off the event loops.", "p99 above some seconds: the disk is slow")
	AppendFailures = define(Counter, "posthouse_log_append_failures_total", "writes",
		"Writes to logs that failed or came short and were taken back.", "any rise: a disk is full or broken")
	LogsFailed = define(Counter, "posthouse_log_failures_total", "logs",
		"Logs that were taken offline because of their files.", "any rise")
	OfflineLogDirs = define(Gauge, "kafka_log_logmanager_offlinelogdirectorycount", "directories",
		"Log directories that cannot be read.", "above 0")
	LogDirOffline = define(Gauge, "kafka_log_logmanager_logdirectoryoffline", yesNo,
		"Whether a log directory cannot be read.", "above 0", "logDirectory")
	DiskFree = define(Gauge, "posthouse_log_dir_free_bytes", bytes,
		"Room left in the file system of a log directory.", "below a tenth of posthouse_log_dir_size_bytes", "dir")
	DiskSize = define(Gauge, "posthouse_log_dir_size_bytes", bytes,
		"Size of the file system of a log directory.", "", "dir")
	LogsLoading = define(Gauge, "posthouse_logs_loading", "logs",
		"Logs that are still to be opened after the start.", "")
)

// Consumer groups, of which this node is the coordinator. Lag is named as
// kafka_exporter does.
var (
	GroupCount = define(Gauge, "kafka_server_group_coordinator_metrics_group_count", "groups",
		"Groups by protocol and state.", "groups in PreparingRebalance for minutes", "protocol", "state")
	GroupMembers = define(Gauge, "kafka_consumergroup_members", "members",
		"Members of a group.", "0 where consumers should run", "consumergroup")
	GroupOffset = define(Gauge, "kafka_consumergroup_current_offset", "offset",
		"Offset that a group has committed.", "", "consumergroup", "topic", "partition")
	GroupLag = define(Gauge, "kafka_consumergroup_lag", "records",
		"Records between what a group has committed and the high watermark, for partitions led here.", "a steady rise, or more than the group can catch up in time", "consumergroup", "topic", "partition")
	GroupRebalances = define(Counter, "kafka_server_group_coordinator_metrics_group_completed_rebalance_total", "rebalances",
		"Rebalances that ended.", "a rate far above the usual")
	OffsetCommits = define(Counter, "kafka_server_group_coordinator_metrics_offset_commit_total", "offsets",
		"Offsets that were committed.", "")
	OffsetCommitErrors = define(Counter, "posthouse_group_offset_commit_errors_total", "requests",
		"Requests to commit offsets that could not be written.", "any rise")
	OffsetsExpired = define(Counter, "kafka_server_group_coordinator_metrics_offset_expiration_total", "offsets",
		"Committed offsets that were forgotten because of their age.", "")
)

// Quotas. Connections are those of an address that came too fast.
var (
	Throttles = define(Counter, "posthouse_quota_throttles_total", "times",
		"How often a quota held a client back: produce, fetch, request, mutation or connection.", "a rise where nobody should be near a quota", "quota")
	ThrottleTime = define(Counter, "posthouse_quota_throttle_seconds_total", seconds,
		"For how long in sum.", "", "quota")
)

// The node.
var (
	BuildInfo = define(Gauge, "posthouse_build_info", "1",
		"Always 1; the labels say what runs.", "", "version", "goversion", "engine")
	NodeInfo = define(Gauge, "posthouse_node_info", "1",
		"Always 1; the labels say which node of which cluster this is.", "", "node", "cluster")
	Ready = define(Gauge, "posthouse_ready", yesNo,
		"Whether /readyz says yes.", "0 for minutes")
	LeftOut = define(Gauge, "posthouse_metrics_left_out", "items",
		"Partitions, topics and groups' partitions without series of their own, because there are more than http.metrics.partitions.max.", "above 0: ask for fewer by /metrics?topic=, or raise the key", "kind")
)
