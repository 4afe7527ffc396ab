package config

import (
	"bytes"
	"errors"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// p makes properties of "key=value" strings.
func p(pairs ...string) map[string]string {
	m := make(map[string]string)
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		m[key] = value
	}
	return m
}

// load loads properties that must be accepted.
func mustLoad(t *testing.T, pairs ...string) (*Broker, []string) {
	t.Helper()
	b, warnings, err := Load(p(pairs...), nil)
	if err != nil {
		t.Fatalf("%v: %v", pairs, err)
	}
	return b, warnings
}

func TestLoadNothing(t *testing.T) {
	b, warnings, err := Load(nil, nil)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	want := &Broker{
		NodeID:              1,
		Listeners:           []Listener{{"PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092}},
		AdvertisedListeners: []Listener{{"PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092}},
		InterBrokerListener: "PLAINTEXT",

		MaxConnections: math.MaxInt32, MaxConnectionsPerIP: math.MaxInt32, MaxConnectionsOverrides: map[string]int32{},
		ConnectionsMaxIdleMs: 600000, QueuedMaxRequestBytes: 128 << 20,
		SocketSendBufferBytes: -1, SocketReceiveBufferBytes: -1, SocketRequestMaxBytes: 100 << 20, SocketListenBacklog: 50,

		LogDirs: []string{"data"}, NumPartitions: 1, DefaultReplicationFactor: 1, AutoCreateTopics: true, DeleteTopicEnable: true,
		RecoveryThreadsPerDataDir: 2, RetentionCheckIntervalMs: 300000, FlushSchedulerIntervalMs: math.MaxInt64,
		RecoveryPointIntervalMs: 60000, StartOffsetIntervalMs: 60000, HighWatermarkIntervalMs: 5000, LogDirFailureTimeoutMs: 30000,
		LogCleanerEnable: true, LogCleanerThreads: 1, LogCleanerDedupeBufferBytes: 128 << 20, LogCleanerBackoffMs: 15000,

		FetchMaxBytes: 55 << 20, FetchSessionCacheSlots: 1000, RequestPartitionSizeLimit: 2000, ReplicaLagTimeMaxMs: 30000,
		ProducerIDExpirationMs: 86400000, ProducerIDExpirationCheckMs: 600000,
		TransactionMaxTimeoutMs: 900000, TransactionalIDExpirationMs: 604800000, TransactionVerification: true,
		OffsetsTopicPartitions: 50, OffsetsTopicReplication: 1, OffsetsTopicSegmentBytes: 100 << 20,
		TransactionTopicPartitions: 50, TransactionTopicReplication: 1, TransactionTopicMinISR: 1, TransactionTopicSegmentBytes: 100 << 20,
		OffsetMetadataMaxBytes: 4096, OffsetsRetentionMinutes: 10080,
		OffsetsRetentionCheckMs: 600000, OffsetsCommitTimeoutMs: 5000,
		GroupInitialRebalanceDelayMs: 3000, GroupMinSessionTimeoutMs: 6000, GroupMaxSessionTimeoutMs: 1800000, GroupMaxSize: math.MaxInt32,
		ControlledShutdown: true,

		Quotas: Quotas{Samples: 11, WindowSeconds: 1, MutationSamples: 11, MutationWindowSeconds: 1, ConnectionRate: math.MaxInt32},
		Consumers: Consumers{
			HeartbeatIntervalMs: 5000, MinHeartbeatIntervalMs: 5000, MaxHeartbeatIntervalMs: 15000,
			SessionTimeoutMs: 45000, MinSessionTimeoutMs: 45000, MaxSessionTimeoutMs: 60000,
			AssignmentIntervalMs: 1000, MaxAssignmentIntervalMs: 15000, MaxSize: math.MaxInt32,
			Assignors: []string{"uniform", "range"}, MigrationPolicy: "bidirectional", RegexRefreshIntervalMs: 600_000,
			Protocols: []string{"classic", "consumer", "streams"},
		},
		TopicDefaults: Topic{
			Delete: true, CompressionType: "producer", CompressionGzipLevel: -1, CompressionLZ4Level: 9, CompressionZstdLevel: 3,
			MaxMessageBytes: 1048588, MaxDecompressedMessageBytes: math.MaxInt32 - 8,
			TimestampType: CreateTime, TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: 3600000,
			SegmentBytes: 1 << 30, SegmentMs: 604800000, SegmentIndexBytes: 10 << 20, IndexInterval: 4096,
			FlushMessages: math.MaxInt64, FlushMs: math.MaxInt64, RetentionMs: 604800000, RetentionBytes: -1, FileDeleteDelayMs: 60000,
			DeleteRetentionMs: 86400000, MaxCompactionLagMs: math.MaxInt64, MinCleanableDirtyRatio: 0.5, MinInSyncReplicas: 1,
			LocalRetentionMs: -2, LocalRetentionBytes: -2, RemoteCopyLagBytes: -1,
		},
		Netio: Netio{Engine: "auto", Loops: b.Netio.Loops, LoopbackCongestionControl: "cubic"},
		Meta:  Meta{Store: "local", Dir: "data/__meta"},
		HTTP:  HTTP{Listeners: []string{"127.0.0.1:9644"}, PartitionsMax: 2000},
	}
	if b.Netio.Loops < 1 {
		t.Errorf("%d loops", b.Netio.Loops)
	}
	want.static, want.cluster, want.own = b.static, b.cluster, b.own
	got, expected := reflect.ValueOf(*b), reflect.ValueOf(*want)
	for i := range got.NumField() {
		if name := got.Type().Field(i).Name; got.Type().Field(i).IsExported() && !reflect.DeepEqual(got.Field(i).Interface(), expected.Field(i).Interface()) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got.Field(i), expected.Field(i))
		}
	}
}

// TestLoadStockFile starts a node on the keys of Kafka's own file.
func TestLoadStockFile(t *testing.T) {
	text, err := os.ReadFile("testdata/server.properties")
	if err != nil {
		t.Fatal(err)
	}
	properties, err := ParseProperties(bytes.NewReader(text), "server.properties")
	if err != nil {
		t.Fatal(err)
	}
	b, warnings, err := Load(properties, p("log.dirs=/var/lib/a,/var/lib/b"))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Listeners) != 1 || b.Listeners[0].String() != "PLAINTEXT://:9092" {
		t.Errorf("listeners %v", b.Listeners)
	}
	if len(b.AdvertisedListeners) != 1 || b.AdvertisedListeners[0].String() != "PLAINTEXT://localhost:9092" {
		t.Errorf("advertised %v", b.AdvertisedListeners)
	}
	if !slices.Equal(b.LogDirs, []string{"/var/lib/a", "/var/lib/b"}) || b.Meta.Dir != "/var/lib/a/__meta" {
		t.Errorf("dirs %v, meta %s", b.LogDirs, b.Meta.Dir)
	}
	want := []string{
		"listener CONTROLLER belongs to Kafka's controller and is not opened: this broker needs none",
		"accepted and kept, without effect in this version: controller.quorum.bootstrap.servers",
	}
	if !slices.Equal(warnings, want) {
		t.Errorf("warnings:\n%s", strings.Join(warnings, "\n"))
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		pair string
		want []string
	}{
		{"log.dirrs=/x", []string{"unknown key log.dirrs is ignored (did you mean log.dirs?)"}},
		{"log.retention.hour=1", []string{"unknown key log.retention.hour is ignored (did you mean log.retention.hours?)"}},
		{"retention.ms=1", []string{"unknown key retention.ms is ignored: it is a topic config, its default for all topics is log.retention.ms"}},
		{"my.own.thing=1", []string{"unknown key my.own.thing is ignored"}},
		{"num.io.threads=8", nil}, // says nothing new
		{"num.io.threads=16", []string{"accepted and kept, without effect in this version: num.io.threads"}},
		{"ssl.keystore.password=x", []string{"accepted and kept, without effect in this version: ssl.keystore.password"}},
		{"log.retention.hours=24", []string{"accepted and kept, without effect in this version: log.retention.hours"}},
		{"zookeeper.connect=localhost:2181", []string{"accepted and kept, without effect in this version: zookeeper.connect"}},
		{"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", []string{
			"authorizer.class.name has no effect yet: every client may do everything",
		}},
		{"process.roles=controller", []string{"process.roles does not contain broker; this node serves clients all the same"}},
	}
	for _, tt := range tests {
		if _, got := mustLoad(t, tt.pair); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.pair, got, tt.want)
		}
	}
}

func TestBadValues(t *testing.T) {
	tests := []struct{ pairs, key, err string }{
		{"node.id=-1", "node.id", "Invalid value -1 for configuration node.id: Value must be at least 0"},
		{"node.id=x", "node.id", "Invalid value x for configuration node.id: Not a number of type INT"},
		{"node.id=1 broker.id=2", "broker.id", "Invalid value 2 for configuration broker.id: You must set `node.id` to the same value as `broker.id`, it is 1"},
		{"process.roles=worker", "process.roles", "Invalid value worker for configuration process.roles: String must be one of: broker, controller"},
		{"log.dirs=", "log.dirs", "Invalid value  for configuration log.dirs: At least one log directory must be defined via log.dirs or log.dir."},
		{"log.dirs=/a,", "log.dirs", "Invalid value /a, for configuration log.dirs: a directory must not be empty"},
		{"log.dirs=/a,/a/", "log.dirs", "Invalid value /a,/a/ for configuration log.dirs: directory /a/ is named twice"},
		{"log.segment.bytes=1000", "log.segment.bytes", "Invalid value 1000 for configuration log.segment.bytes: Value must be at least 1048576"},
		{"log.retention.ms=0", "log.retention.ms", "Invalid value 0 for configuration log.retention.ms: must be unlimited (-1) or, greater than or equal to 1"},
		{"log.retention.hours=0", "log.retention.hours", "Invalid value 0 for configuration log.retention.hours: must be unlimited (-1) or, greater than or equal to 1"},
		{"log.cleanup.policy=drop", "log.cleanup.policy", "Invalid value drop for configuration log.cleanup.policy: String must be one of: compact, delete"},
		{"log.flush.interval.ms=-5", "log.flush.interval.ms", "Invalid value -5 for configuration log.flush.interval.ms: Value must be at least 0"},
		{"queued.max.request.bytes=1000", "queued.max.request.bytes", "Invalid value 1000 for configuration queued.max.request.bytes: must be larger or equal to socket.request.max.bytes, which is 104857600"},
		{"max.connections.per.ip=0", "max.connections.per.ip", "Invalid value 0 for configuration max.connections.per.ip: can be set to zero only if max.connections.per.ip.overrides is set"},
		{"max.connections.per.ip.overrides=a", "max.connections.per.ip.overrides", `Invalid value a for configuration max.connections.per.ip.overrides: "a" must be address:limit`},
		{"max.connections.per.ip.overrides=a:x", "max.connections.per.ip.overrides", `Invalid value a:x for configuration max.connections.per.ip.overrides: limit in "a:x" must be a number that is not negative`},
		{"socket.send.buffer.bytes=-2", "socket.send.buffer.bytes", "Invalid value -2 for configuration socket.send.buffer.bytes: Value must be at least -1"},
		{"netio.engine=kqueue", "netio.engine", "Invalid value kqueue for configuration netio.engine: String must be one of: auto, io_uring, epoll"},
		{"netio.loops=0", "netio.loops", "Invalid value 0 for configuration netio.loops: Value must be at least 1"},
		{"meta.store=etcd", "meta.store", "Invalid value etcd for configuration meta.store: String must be one of: local"},
		{"meta.peers=1@a:1", "meta.peers", "Invalid value 1@a:1 for configuration meta.peers: only a single node is served by this version: leave it empty"},
		{"remote.log.storage.system.enable=true", "remote.log.storage.system.enable", "Invalid value true for configuration remote.log.storage.system.enable: tiered storage is not available: only false is allowed"},
		{"num.io.threads=0", "num.io.threads", "Invalid value 0 for configuration num.io.threads: Value must be at least 1"},
	}
	for _, tt := range tests {
		_, _, err := Load(p(strings.Fields(tt.pairs)...), nil)
		var bad *Error
		if !errors.As(err, &bad) || bad.Key != tt.key || err.Error() != tt.err {
			t.Errorf("%s: got %q, want %q", tt.pairs, text(err), tt.err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line", tt.pairs)
		}
	}
	if _, _, err := Load(p("log.cleaner.min.compaction.lag.ms=9", "log.cleaner.max.compaction.lag.ms=8"), nil); err == nil {
		t.Error("a minimum above the maximum is accepted")
	}
}

func TestPrecedenceOfSynonyms(t *testing.T) {
	tests := []struct {
		pairs string
		get   func(*Topic) int64
		want  int64
	}{
		{"log.retention.hours=2", func(d *Topic) int64 { return d.RetentionMs }, 2 * 3600_000},
		{"log.retention.hours=2 log.retention.minutes=3", func(d *Topic) int64 { return d.RetentionMs }, 3 * 60_000},
		{"log.retention.hours=2 log.retention.minutes=3 log.retention.ms=4", func(d *Topic) int64 { return d.RetentionMs }, 4},
		{"log.retention.hours=-1", func(d *Topic) int64 { return d.RetentionMs }, -1},
		{"log.retention.minutes=-5", func(d *Topic) int64 { return d.RetentionMs }, -1},
		{"log.roll.hours=2", func(d *Topic) int64 { return d.SegmentMs }, 2 * 3600_000},
		{"log.roll.hours=2 log.roll.ms=5", func(d *Topic) int64 { return d.SegmentMs }, 5},
		{"log.roll.jitter.hours=1", func(d *Topic) int64 { return d.SegmentJitterMs }, 3600_000},
		{"log.flush.scheduler.interval.ms=70", func(d *Topic) int64 { return d.FlushMs }, 70},
		{"log.flush.scheduler.interval.ms=70 log.flush.interval.ms=60", func(d *Topic) int64 { return d.FlushMs }, 60},
		{"message.max.bytes=2000", func(d *Topic) int64 { return int64(d.MaxMessageBytes) }, 2000},
		{"log.segment.delete.delay.ms=1", func(d *Topic) int64 { return d.FileDeleteDelayMs }, 1},
	}
	for _, tt := range tests {
		b, _ := mustLoad(t, strings.Fields(tt.pairs)...)
		if got := tt.get(&b.TopicDefaults); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.pairs, got, tt.want)
		}
	}
	b, _ := mustLoad(t, "log.dir=/one", "queued.max.request.bytes=-1", "broker.id=7")
	if !slices.Equal(b.LogDirs, []string{"/one"}) || b.QueuedMaxRequestBytes != -1 || b.NodeID != 7 {
		t.Errorf("dirs %v, queued %d, node %d", b.LogDirs, b.QueuedMaxRequestBytes, b.NodeID)
	}
	for pairs, want := range map[string]int64{"": 5000, "log.flush.offset.checkpoint.interval.ms=70": 70, "log.flush.start.offset.checkpoint.interval.ms=0": 1} {
		if b, _ := mustLoad(t, strings.Fields(pairs)...); b.CheckpointIntervalMs() != want {
			t.Errorf("%s: checkpoints each %d ms, want %d", pairs, b.CheckpointIntervalMs(), want)
		}
	}
	b, _ = mustLoad(t, "socket.request.max.bytes=500000000")
	if b.QueuedMaxRequestBytes != 500000000 {
		t.Errorf("one request of the largest size does not fit into %d bytes", b.QueuedMaxRequestBytes)
	}
}

func TestWithDynamic(t *testing.T) {
	b, _ := mustLoad(t, "log.retention.ms=1", "log.segment.bytes=2000000", "num.partitions=3")
	next, err := b.WithDynamic(p("log.retention.ms=3600000", "log.segment.bytes=3000000"), p("log.segment.bytes=4000000", "num.partitions=9"))
	if err != nil {
		t.Fatal(err)
	}
	// One broker's outrank everybody's, which outrank the file's; what is
	// read-only stays.
	if d := next.TopicDefaults; d.RetentionMs != 3600_000 || d.SegmentBytes != 4000000 || next.NumPartitions != 3 {
		t.Errorf("retention %d, segment %d, partitions %d", d.RetentionMs, d.SegmentBytes, next.NumPartitions)
	}
	if b.TopicDefaults.SegmentBytes != 2000000 {
		t.Error("the original has changed")
	}
	if _, err := b.WithDynamic(nil, p("log.segment.bytes=5")); err == nil {
		t.Error("a bad dynamic value is accepted")
	}
	back, err := next.WithDynamic(nil, nil)
	if err != nil || back.TopicDefaults.SegmentBytes != 2000000 {
		t.Error("dynamic values stay behind", err)
	}
}

func TestParseTopic(t *testing.T) {
	b, _ := mustLoad(t, "log.retention.hours=1", "log.validate.compressed=true")
	topic, err := ParseTopic(p("cleanup.policy=compact", "max.message.bytes=5", "message.timestamp.type=LogAppendTime", "internal.segment.bytes=1000"), b)
	if err != nil {
		t.Fatal(err)
	}
	if !topic.Compact || topic.Delete || topic.MaxMessageBytes != 5 || topic.TimestampType != LogAppendTime || topic.SegmentBytes != 1000 || topic.RetentionMs != 3600_000 || !topic.ValidateCompressed {
		t.Errorf("%+v", topic)
	}
	if topic, err = ParseTopic(p("cleanup.policy="), b); err != nil || topic.Compact || topic.Delete {
		t.Errorf("an empty policy: %+v, %v", topic, err)
	}
	for pairs, want := range map[string]string{
		"foo=1":                                            "Unknown topic config name: foo",
		"message.format.version=3.0":                       "Unknown topic config name: message.format.version",
		"message.timestamp.difference.max.ms=1":            "Unknown topic config name: message.timestamp.difference.max.ms",
		"message.downconversion.enable=true":               "Unknown topic config name: message.downconversion.enable",
		"min.compaction.lag.ms=10 max.compaction.lag.ms=5": "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
		"remote.storage.enable=true":                       "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
		"segment.bytes=1048575":                            "Invalid value 1048575 for configuration segment.bytes: Value must be at least 1048576",
		"internal.segment.bytes=0":                         "Invalid value 0 for configuration internal.segment.bytes: Value must be at least 14",
		"retention.ms=x local.retention.ms=-3":             "Invalid value -3 for configuration local.retention.ms: Value must be at least -2",
	} {
		if _, err := ParseTopic(p(strings.Fields(pairs)...), b); text(err) != want {
			t.Errorf("%s: got %q, want %q", pairs, text(err), want)
		}
	}
}

// TestEveryTopicKeyArrives sets each key to a value that is not its default and
// looks for a change in Topic.
func TestEveryTopicKeyArrives(t *testing.T) {
	b, _ := mustLoad(t)
	other := map[Type]string{Boolean: "true", Int: "2000000", Long: "5", Double: "0.25", List: "0:1"}
	special := map[string]string{
		"cleanup.policy": "compact", "compression.type": "zstd", "message.timestamp.type": LogAppendTime,
		"compression.gzip.level": "2", "compression.lz4.level": "2", "compression.zstd.level": "2",
	}
	for _, name := range TopicNames() {
		if name == "remote.storage.enable" {
			continue // refused
		}
		value, ok := special[name]
		if !ok {
			value = other[TopicDefinition(name).Type]
		}
		topic, err := ParseTopic(map[string]string{name: value}, b)
		if err != nil {
			t.Errorf("%s=%s: %v", name, value, err)
			continue
		}
		if reflect.DeepEqual(*topic, b.TopicDefaults) {
			t.Errorf("%s=%s changes nothing", name, value)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	got := FromEnvironment([]string{
		"POSTHOUSE_LOG_DIRS=/data", "POSTHOUSE_NODE_ID=3", "PATH=/bin", "POSTHOUSE_=x", "POSTHOUSE_A__B___C=1=2",
		"POSTHOUSE_PORT=tcp://10.0.0.1:9092", "POSTHOUSE_PORT_9092_TCP_ADDR=10.0.0.1", "POSTHOUSE_SERVICE_HOST=10.0.0.1", "POSTHOUSE_SERVICE_PORT_KAFKA=9092",
		"POSTHOUSE_LOG_LEVEL=debug",
	}, "log_level")
	if want := p("log.dirs=/data", "node.id=3", "a-b_c=1=2"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
