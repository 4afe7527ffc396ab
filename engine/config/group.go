package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Group is the effective configuration of one group (resource type 32): its own
// overrides on top of the broker's defaults. Times are in milliseconds.
type Group struct {
	ConsumerHeartbeatIntervalMs  int32
	ConsumerSessionTimeoutMs     int32
	ConsumerAssignmentIntervalMs int32
}

// SourceGroup is the group's own override (DYNAMIC_GROUP_CONFIG).
const SourceGroup Source = 8

// groupDef is a group key and where its value goes; apply is nil where nothing
// here reads it.
type groupDef struct {
	Definition
	apply func(*Group, Value)
}

// groupDefs holds every group key of Kafka 4.4 (GroupConfig.java).
var groupDefs = newRegistry(func(d *groupDef) string { return d.Name }, []groupDef{
	{Definition{Name: "consumer.heartbeat.interval.ms", Type: Int, Default: "5000", Synonyms: same("group.consumer.heartbeat.interval.ms"), check: atLeast(1),
		Doc: "The heartbeat interval given to the members of a consumer group."},
		func(g *Group, v Value) { g.ConsumerHeartbeatIntervalMs = int32(v.Int) }},
	{Definition{Name: "consumer.session.timeout.ms", Type: Int, Default: "45000", Synonyms: same("group.consumer.session.timeout.ms"), check: atLeast(1),
		Doc: "How long a member of a consumer group may be silent."},
		func(g *Group, v Value) { g.ConsumerSessionTimeoutMs = int32(v.Int) }},
	{Definition{Name: "consumer.assignment.interval.ms", Type: Int, Default: "1000", Synonyms: same("group.consumer.assignment.interval.ms"), check: atLeast(0),
		Doc: "Least time between two assignments of a consumer group."},
		func(g *Group, v Value) { g.ConsumerAssignmentIntervalMs = int32(v.Int) }},
	groupInert("errors.deadletterqueue.copy.record.enable", Boolean, "false", "", check{}, "Whether a record in the dead letter queue has the bytes of the original."),
	groupInert("errors.deadletterqueue.topic.name", String, "", "", check{}, "Dead letter queue of a share group; empty: none."),
	groupInert("share.assignment.interval.ms", Int, "1000", "group.share.assignment.interval.ms", atLeast(0), "Least time between two assignments of a share group."),
	groupInert("share.auto.offset.reset", String, "latest", "", shareReset, "Where a share group begins to read."),
	groupInert("share.delivery.count.limit", Int, "5", "group.share.delivery.count.limit", atLeast(2), "How many times a record is delivered to a share group."),
	groupInert("share.heartbeat.interval.ms", Int, "5000", "group.share.heartbeat.interval.ms", atLeast(1), "The heartbeat interval given to the members of a share group."),
	groupInert("share.isolation.level", String, "read_uncommitted", "", oneOf("read_committed", "read_uncommitted"), "Whether a share group sees records of transactions that are not committed."),
	groupInert("share.partition.max.record.locks", Int, "2000", "group.share.partition.max.record.locks", atLeast(100), "Records of a partition that a share group may have locked."),
	groupInert("share.record.lock.duration.ms", Int, "30000", "group.share.record.lock.duration.ms", atLeast(1000), "How long a record is a share group member's own."),
	groupInert("share.renew.acknowledge.enable", Boolean, "true", "", check{}, "Whether a member may renew its lock of a record."),
	groupInert("share.session.timeout.ms", Int, "45000", "group.share.session.timeout.ms", atLeast(1), "How long a member of a share group may be silent."),
	groupInert("streams.assignment.interval.ms", Int, "1000", "group.streams.assignment.interval.ms", atLeast(0), "Least time between two assignments of a streams group."),
	groupInert("streams.assignor.name", String, "sticky", "group.streams.assignors", check{}, "Assignor of a streams group."),
	groupInert("streams.heartbeat.interval.ms", Int, "5000", "group.streams.heartbeat.interval.ms", atLeast(1), "The heartbeat interval given to the members of a streams group."),
	groupInert("streams.initial.rebalance.delay.ms", Int, "3000", "group.streams.initial.rebalance.delay.ms", atLeast(0), "How long a new streams group waits for more members."),
	groupInert("streams.num.standby.replicas", Int, "0", "group.streams.num.standby.replicas", atLeast(0), "Standby tasks of a streams group."),
	groupInert("streams.rack.aware.assignment.tags", List, "", "group.streams.rack.aware.assignment.tags", check{}, "Client tags by which standby tasks are spread."),
	groupInert("streams.session.timeout.ms", Int, "45000", "group.streams.session.timeout.ms", atLeast(1), "How long a member of a streams group may be silent."),
})

// groupInert makes the definition of a key that nothing here reads.
func groupInert(name string, t Type, def, broker string, c check, doc string) groupDef {
	d := Definition{Name: name, Type: t, Default: def, Inert: true, check: c, Doc: doc}
	if broker != "" {
		d.Synonyms = same(broker)
	}
	return groupDef{Definition: d}
}

var shareResetForm = regexp.MustCompile(`^(earliest|latest|by_duration:P(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?)$`)

// shareReset accepts the values of share.auto.offset.reset.
var shareReset = check{"[latest, earliest, by_duration:PnDTnHnMn.nS]", func(name string, v Value) *Error {
	if !shareResetForm.MatchString(v.Str) || strings.HasSuffix(v.Str, "P") || strings.HasSuffix(v.Str, "T") {
		return refuse(name, v.Str, "Invalid value `%s` for configuration %s. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.", v.Str, name)
	}
	return nil
}}

// groupRanges are the broker keys that bound group keys.
var groupRanges = []struct{ key, min, max string }{
	{"consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"share.session.timeout.ms", "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"share.assignment.interval.ms", "group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	{"share.delivery.count.limit", "group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"},
	{"share.partition.max.record.locks", "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
	{"streams.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"streams.session.timeout.ms", "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"streams.assignment.interval.ms", "group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
}

// GroupDefinition returns the definition of a group key, nil if unknown.
func GroupDefinition(name string) *Definition {
	if def := groupDefs.get(name); def != nil {
		return &def.Definition
	}
	return nil
}

// CheckGroup checks a group's overrides as Kafka does (GroupConfig.validate):
// names, values, the broker's bounds, and that a session outlasts a heartbeat.
// Its texts are Kafka's and go to the client with INVALID_CONFIG.
func (b *Broker) CheckGroup(overrides map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		def := groupDefs.get(key)
		if def == nil {
			return RuleError("Unknown group config name: " + key)
		}
		if _, err := def.Parse(overrides[key]); err != nil {
			return err
		}
	}
	for _, r := range groupRanges {
		if _, ok := overrides[r.key]; !ok {
			continue
		}
		least, most := b.value(r.min), b.value(r.max)
		if n := b.groupValue(r.key, overrides).Int; n < least.Int || n > most.Int {
			return RuleError(r.key + " must be in the range " + least.String() + " to " + most.String() + " inclusive.")
		}
	}
	if most := b.value("group.streams.max.standby.replicas"); b.groupValue("streams.num.standby.replicas", overrides).Int > most.Int {
		return RuleError("streams.num.standby.replicas must be less than or equal to " + most.String())
	}
	if name, ok := overrides["streams.assignor.name"]; ok {
		if known := b.value("group.streams.assignors").List; !slices.Contains(known, name) {
			return RuleError("streams.assignor.name '" + name + "' is not a registered task assignor. Registered assignors are: [" + strings.Join(known, ", ") + "].")
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		if b.groupValue(session, overrides).Int <= b.groupValue(heartbeat, overrides).Int {
			return RuleError(session + " must be greater than " + heartbeat)
		}
	}
	return nil
}

// groupValue is the value that a group with these overrides has for a key. What
// cannot be read is not there.
func (b *Broker) groupValue(name string, overrides map[string]string) Value {
	def := groupDefs.get(name)
	if raw, ok := overrides[name]; ok {
		if v, err := def.Parse(raw); err == nil {
			return v
		}
	}
	v, ok := b.synonymValue(&def.Definition)
	if !ok {
		v = def.DefaultValue()
	}
	if def.Type == String && len(v.List) > 0 {
		v = Value{Type: String, Str: v.List[0]} // of a list of choices the first is the default
	}
	return v
}

// Group is the configuration of a group with these overrides, nil for none. A
// value that the broker's bounds, which may have moved since, do not allow is
// taken to the nearest that they do.
func (b *Broker) Group(overrides map[string]string) Group {
	var g Group
	for i := range groupRanges[:3] {
		r := &groupRanges[i]
		v := b.groupValue(r.key, overrides)
		if _, own := overrides[r.key]; own {
			v.Int = max(min(v.Int, b.value(r.max).Int), b.value(r.min).Int)
		}
		groupDefs.get(r.key).apply(&g, v)
	}
	return g
}

// DescribeGroup lists every group key for a group with the given overrides, in
// order of name.
func (b *Broker) DescribeGroup(overrides map[string]string) []Entry {
	entries := make([]Entry, 0, len(groupDefs.names))
	for _, name := range groupDefs.names {
		def := &groupDefs.get(name).Definition
		value := b.groupValue(name, overrides).String()
		e := Entry{Name: name, Value: &value, Definition: def}
		if _, ok := overrides[name]; ok {
			e.Synonyms = append(e.Synonyms, SynonymValue{name, &value, SourceGroup})
		}
		if len(def.Synonyms) > 0 {
			e.Synonyms = append(e.Synonyms, b.synonyms(def.Synonyms[0].Name)...)
		} else {
			standard := def.DefaultValue().String()
			e.Synonyms = append(e.Synonyms, SynonymValue{name, &standard, SourceDefault})
		}
		e.Source = e.Synonyms[0].Source
		entries = append(entries, e)
	}
	return entries
}

// checkConsumers is Kafka's check of the broker's own bounds
// (GroupCoordinatorConfig.java).
func checkConsumers(b *Broker) error {
	for _, r := range groupRanges {
		key := groupDefs.get(r.key).Synonyms[0].Name
		v, least, most := b.value(key), b.value(r.min), b.value(r.max)
		switch {
		case most.Int < least.Int:
			return refuse(r.max, most.String(), "must be greater than or equal to %s", r.min)
		case v.Int < least.Int:
			return refuse(key, v.String(), "must be greater than or equal to %s", r.min)
		case v.Int > most.Int:
			return refuse(key, v.String(), "must be less than or equal to %s", r.max)
		}
	}
	c := &b.Consumers
	if c.HeartbeatIntervalMs >= c.SessionTimeoutMs {
		return refuse("group.consumer.heartbeat.interval.ms", b.value("group.consumer.heartbeat.interval.ms").String(), "must be less than group.consumer.session.timeout.ms")
	}
	return nil
}
