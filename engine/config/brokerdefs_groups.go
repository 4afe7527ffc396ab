package config

// Consumers is the part of [Broker] for consumer groups (KIP-848, keys
// group.consumer.* and group.coordinator.rebalance.protocols). Times are in
// milliseconds.
type Consumers struct {
	HeartbeatIntervalMs, MinHeartbeatIntervalMs, MaxHeartbeatIntervalMs    int32
	SessionTimeoutMs, MinSessionTimeoutMs, MaxSessionTimeoutMs             int32
	AssignmentIntervalMs, MinAssignmentIntervalMs, MaxAssignmentIntervalMs int32
	MaxSize                                                                int32
	Assignors                                                              []string // the first is the default
	MigrationPolicy                                                        string   // in any case
	RegexRefreshIntervalMs                                                 int32
	Protocols                                                              []string // of groups, that are enabled
}

// groupKey makes the definition of a key of consumer groups.
func groupKey(name, def string, update Update, c check, doc string, apply func(*Consumers, int32)) brokerDef {
	return brokerDef{Definition{Name: name, Type: Int, Default: def, Update: update, check: c, Doc: doc},
		func(b *Broker, v Value) { apply(&b.Consumers, int32(v.Int)) }}
}

// groupsTable holds the keys of groups of the newer protocols
// (GroupCoordinatorConfig.java, ShareGroupConfig.java). Those of share and
// streams groups are there for the defaults of group configs.
var groupsTable = []brokerDef{
	groupKey("group.consumer.heartbeat.interval.ms", "5000", ReadOnly, atLeast(1), "Heartbeat interval of consumer groups (KIP-848).",
		func(c *Consumers, n int32) { c.HeartbeatIntervalMs = n }),
	groupKey("group.consumer.min.heartbeat.interval.ms", "5000", ReadOnly, atLeast(1), "Shortest heartbeat interval that a consumer group may have.",
		func(c *Consumers, n int32) { c.MinHeartbeatIntervalMs = n }),
	groupKey("group.consumer.max.heartbeat.interval.ms", "15000", ReadOnly, atLeast(1), "Longest heartbeat interval that a consumer group may have.",
		func(c *Consumers, n int32) { c.MaxHeartbeatIntervalMs = n }),
	groupKey("group.consumer.session.timeout.ms", "45000", ReadOnly, atLeast(1), "Session timeout of consumer groups (KIP-848).",
		func(c *Consumers, n int32) { c.SessionTimeoutMs = n }),
	groupKey("group.consumer.min.session.timeout.ms", "45000", ReadOnly, atLeast(1), "Shortest session timeout that a consumer group may have.",
		func(c *Consumers, n int32) { c.MinSessionTimeoutMs = n }),
	groupKey("group.consumer.max.session.timeout.ms", "60000", ReadOnly, atLeast(1), "Longest session timeout that a consumer group may have.",
		func(c *Consumers, n int32) { c.MaxSessionTimeoutMs = n }),
	groupKey("group.consumer.assignment.interval.ms", "1000", ClusterWide, atLeast(0), "Least time between two assignments of a consumer group.",
		func(c *Consumers, n int32) { c.AssignmentIntervalMs = n }),
	groupKey("group.consumer.min.assignment.interval.ms", "0", ReadOnly, atLeast(0), "Shortest assignment interval that a consumer group may have.",
		func(c *Consumers, n int32) { c.MinAssignmentIntervalMs = n }),
	groupKey("group.consumer.max.assignment.interval.ms", "15000", ReadOnly, atLeast(0), "Longest assignment interval that a consumer group may have.",
		func(c *Consumers, n int32) { c.MaxAssignmentIntervalMs = n }),
	groupKey("group.consumer.max.size", maxInt, ReadOnly, atLeast(1), "Most members of a consumer group (KIP-848).",
		func(c *Consumers, n int32) { c.MaxSize = n }),
	groupKey("group.consumer.regex.refresh.interval.ms", "600000", ReadOnly, atLeast(10_000), "Time after which the topics of a consumer group's regular expressions are looked for again.",
		func(c *Consumers, n int32) { c.RegexRefreshIntervalMs = n }),
	{Definition{Name: "group.consumer.assignors", Type: List, Default: "uniform,range",
		Doc: "Assignors of consumer groups on the broker's side, the first is the default."},
		func(b *Broker, v Value) { b.Consumers.Assignors = v.List }},
	{Definition{Name: "group.consumer.migration.policy", Type: String, Default: "bidirectional", check: oneOfFold("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
		Doc: "Whether groups may move between the classic and the consumer protocol while they run."},
		func(b *Broker, v Value) { b.Consumers.MigrationPolicy = v.Str }},
	{Definition{Name: "group.coordinator.rebalance.protocols", Type: List, Default: "classic,consumer,streams", check: eachOneOf("consumer", "classic", "share", "streams"),
		Doc: "Group protocols that are enabled; those of share and streams groups are not served."},
		func(b *Broker, v Value) { b.Consumers.Protocols = v.List }},

	inert("group.share.heartbeat.interval.ms", Int, "5000", ReadOnly, atLeast(1), "Heartbeat interval of share groups."),
	inert("group.share.min.heartbeat.interval.ms", Int, "5000", ReadOnly, atLeast(1), "Shortest heartbeat interval that a share group may have."),
	inert("group.share.max.heartbeat.interval.ms", Int, "15000", ReadOnly, atLeast(1), "Longest heartbeat interval that a share group may have."),
	inert("group.share.session.timeout.ms", Int, "45000", ReadOnly, atLeast(1), "Session timeout of share groups."),
	inert("group.share.min.session.timeout.ms", Int, "45000", ReadOnly, atLeast(1), "Shortest session timeout that a share group may have."),
	inert("group.share.max.session.timeout.ms", Int, "60000", ReadOnly, atLeast(1), "Longest session timeout that a share group may have."),
	inert("group.share.assignment.interval.ms", Int, "1000", ClusterWide, atLeast(0), "Least time between two assignments of a share group."),
	inert("group.share.min.assignment.interval.ms", Int, "0", ReadOnly, atLeast(0), "Shortest assignment interval that a share group may have."),
	inert("group.share.max.assignment.interval.ms", Int, "15000", ReadOnly, atLeast(0), "Longest assignment interval that a share group may have."),
	inert("group.share.record.lock.duration.ms", Int, "30000", ReadOnly, between(1000, 3_600_000), "How long a record is a share group member's own."),
	inert("group.share.min.record.lock.duration.ms", Int, "15000", ReadOnly, between(1000, 30_000), "Shortest lock of a record that a share group may have."),
	inert("group.share.max.record.lock.duration.ms", Int, "60000", ReadOnly, between(30_000, 3_600_000), "Longest lock of a record that a share group may have."),
	inert("group.share.delivery.count.limit", Int, "5", ReadOnly, between(2, 10), "How many times a record is delivered to a share group."),
	inert("group.share.min.delivery.count.limit", Int, "2", ReadOnly, between(2, 5), "Least limit of deliveries that a share group may have."),
	inert("group.share.max.delivery.count.limit", Int, "10", ReadOnly, between(5, 25), "Greatest limit of deliveries that a share group may have."),
	inert("group.share.partition.max.record.locks", Int, "2000", ReadOnly, between(100, 10_000), "Records of a partition that a share group may have locked."),
	inert("group.share.min.partition.max.record.locks", Int, "100", ReadOnly, between(100, 2_000), "Least number of locked records that a share group may have."),
	inert("group.share.max.partition.max.record.locks", Int, "4000", ReadOnly, between(2_000, 20_000), "Greatest number of locked records that a share group may have."),

	inert("group.streams.heartbeat.interval.ms", Int, "5000", ReadOnly, atLeast(1), "Heartbeat interval of streams groups."),
	inert("group.streams.min.heartbeat.interval.ms", Int, "5000", ReadOnly, atLeast(1), "Shortest heartbeat interval that a streams group may have."),
	inert("group.streams.max.heartbeat.interval.ms", Int, "15000", ReadOnly, atLeast(1), "Longest heartbeat interval that a streams group may have."),
	inert("group.streams.session.timeout.ms", Int, "45000", ReadOnly, atLeast(1), "Session timeout of streams groups."),
	inert("group.streams.min.session.timeout.ms", Int, "45000", ReadOnly, atLeast(1), "Shortest session timeout that a streams group may have."),
	inert("group.streams.max.session.timeout.ms", Int, "60000", ReadOnly, atLeast(1), "Longest session timeout that a streams group may have."),
	inert("group.streams.assignment.interval.ms", Int, "1000", ClusterWide, atLeast(0), "Least time between two assignments of a streams group."),
	inert("group.streams.min.assignment.interval.ms", Int, "0", ReadOnly, atLeast(0), "Shortest assignment interval that a streams group may have."),
	inert("group.streams.max.assignment.interval.ms", Int, "15000", ReadOnly, atLeast(0), "Longest assignment interval that a streams group may have."),
	inert("group.streams.initial.rebalance.delay.ms", Int, "3000", ReadOnly, atLeast(0), "How long a new streams group waits for more members."),
	inert("group.streams.num.standby.replicas", Int, "0", ReadOnly, atLeast(0), "Standby tasks of a streams group."),
	inert("group.streams.max.standby.replicas", Int, "2", ReadOnly, atLeast(0), "Most standby tasks that a streams group may have."),
	inert("group.streams.assignors", List, "sticky", ReadOnly, check{}, "Assignors of streams groups on the broker's side, the first is the default."),
	inert("group.streams.rack.aware.assignment.tags", List, "", ReadOnly, check{}, "Client tags by which standby tasks are spread."),
}
