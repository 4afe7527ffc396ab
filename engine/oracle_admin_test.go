package engine

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// asking is a question of requests, each of which may build on those before it;
// answers are compared whole, but for what is each broker's own.
func asking(name string, requests ...func(topic string) kmsg.Request) question {
	return question{"admin: " + name, func(c *client, topic string) string {
		var answers []string
		for _, make := range requests {
			req := make(topic)
			req.SetVersion(min(req.MaxVersion(), lookupMax(req)))
			resp, otherwise := c.try(req)
			if resp == nil {
				answers = append(answers, otherwise)
				continue
			}
			answers = append(answers, plainAnswer(resp, topic))
			time.Sleep(settleTime)
		}
		return strings.Join(answers, "\n       ")
	}}
}

// settleTime is what Kafka's broker needs to hear of what its controller did.
const settleTime = 150 * time.Millisecond

// lookupMax is the version to ask in: the highest that both serve.
func lookupMax(req kmsg.Request) int16 {
	if api := lookupAPI(req.Key()); api != nil {
		return api.Max
	}
	return req.MaxVersion()
}

// plainAnswer renders an answer without what may differ.
func plainAnswer(resp kmsg.Response, topic string) string {
	text, err := json.Marshal(resp)
	if err != nil {
		return err.Error()
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err.Error()
	}
	text, _ = json.Marshal(stripped(v))
	return strings.ReplaceAll(string(text), topic, "T")
}

// mayDiffer are fields that are each broker's own.
var mayDiffer = []string{"ThrottleMillis", "Version", "UnknownTags", "TopicID", "ClusterID", "Documentation",
	"LastFetchTimestamp", "LastCaughtUpTimestamp", "LastTimestamp", "ReplicaDirectoryID", "LeaderEpoch", "Nodes", "Host", "Port", "LogEndOffset", "HighWatermark"}

// stripped leaves out what may differ, and orders lists that have no order.
func stripped(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range mayDiffer {
			delete(v, name)
		}
		for key, value := range v {
			if v[key] = stripped(value); reflect.ValueOf(v[key]).IsZero() {
				delete(v, key)
			}
		}
	case []any:
		for i := range v {
			v[i] = stripped(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		if len(v) == 0 {
			return ""
		}
	case nil:
		return ""
	}
	return v
}

func elect(kind int8, partitions ...int32) func(string) kmsg.Request {
	return func(topic string) kmsg.Request {
		req := kmsg.NewPtrElectLeadersRequest()
		req.ElectionType, req.TimeoutMillis = kind, 5000
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
		return req
	}
}

func reassign(target []int32, partitions ...int32) func(string) kmsg.Request {
	return func(topic string) kmsg.Request {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		t.Topic = topic
		for _, p := range partitions {
			q := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			q.Partition, q.Replicas = p, target
			t.Partitions = append(t.Partitions, q)
		}
		req.Topics = append(req.Topics, t)
		return req
	}
}

func reassignments(topics func(string) []kmsg.ListPartitionReassignmentsRequestTopic) func(string) kmsg.Request {
	return func(topic string) kmsg.Request {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.Topics = topics(topic)
		return req
	}
}

func producers(partitions ...int32) func(string) kmsg.Request {
	return func(topic string) kmsg.Request {
		req := kmsg.NewPtrDescribeProducersRequest()
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
		return req
	}
}

func features(validate bool, kind int8, level int16, names ...string) func(string) kmsg.Request {
	return func(string) kmsg.Request {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.TimeoutMillis, req.ValidateOnly = 5000, validate
		for _, name := range names {
			f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			f.Feature, f.MaxVersionLevel, f.UpgradeType = name, level, kind
			f.AllowDowngrade = kind > 1
			req.FeatureUpdates = append(req.FeatureUpdates, f)
		}
		return req
	}
}

func quorum(topic string, partition int32) func(string) kmsg.Request {
	return func(string) kmsg.Request {
		req := kmsg.NewPtrDescribeQuorumRequest()
		t := kmsg.NewDescribeQuorumRequestTopic()
		t.Topic = topic
		p := kmsg.NewDescribeQuorumRequestTopicPartition()
		p.Partition = partition
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}
}

// set is one key of an incremental alteration; "-" deletes.
type set struct{ key, value string }

func alter(kind kmsg.ConfigResourceType, name string, sets ...set) func(string) kmsg.Request {
	return func(topic string) kmsg.Request {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, strings.ReplaceAll(name, "T", topic)
		for _, s := range sets {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Value = s.key, kmsg.StringPtr(s.value)
			if s.value == "-" {
				c.Op, c.Value = kmsg.IncrementalAlterConfigOpDelete, nil
			} else if strings.HasPrefix(s.value, "+") {
				c.Op, c.Value = kmsg.IncrementalAlterConfigOpAppend, kmsg.StringPtr(s.value[1:])
			}
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
		return req
	}
}

func describe(kind kmsg.ConfigResourceType, name string, keys ...string) func(string) kmsg.Request {
	return func(topic string) kmsg.Request {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.IncludeSynonyms = true
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kind, strings.ReplaceAll(name, "T", topic), keys
		req.Resources = append(req.Resources, r)
		return req
	}
}

func resources(kinds ...int8) func(string) kmsg.Request {
	return func(string) kmsg.Request {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = kinds
		return req
	}
}

// limit alters the quotas of one entity: pairs of type and name ("<default>"), then sets.
func limit(entity []string, sets ...any) func(string) kmsg.Request {
	return func(topic string) kmsg.Request {
		req := kmsg.NewPtrAlterClientQuotasRequest()
		e := kmsg.NewAlterClientQuotasRequestEntry()
		for i := 0; i < len(entity); i += 2 {
			p := kmsg.NewAlterClientQuotasRequestEntryEntity()
			p.Type, p.Name = entity[i], kmsg.StringPtr(strings.ReplaceAll(entity[i+1], "T", topic))
			if entity[i+1] == "<default>" {
				p.Name = nil
			}
			e.Entity = append(e.Entity, p)
		}
		for i := 0; i < len(sets); i += 2 {
			op := kmsg.NewAlterClientQuotasRequestEntryOp()
			op.Key = sets[i].(string)
			if value, ok := sets[i+1].(float64); ok {
				op.Value = value
			} else {
				op.Remove = true
			}
			e.Ops = append(e.Ops, op)
		}
		req.Entries = append(req.Entries, e)
		return req
	}
}

// quotas describes: triples of type, match and name.
func quotas(strict bool, components ...any) func(string) kmsg.Request {
	return func(topic string) kmsg.Request {
		req := kmsg.NewPtrDescribeClientQuotasRequest()
		req.Strict = strict
		for i := 0; i < len(components); i += 3 {
			p := kmsg.NewDescribeClientQuotasRequestComponent()
			p.EntityType, p.MatchType = components[i].(string), kmsg.QuotasMatchType(components[i+1].(int))
			if name := components[i+2].(string); name != "<null>" {
				p.Match = kmsg.StringPtr(strings.ReplaceAll(name, "T", topic))
			}
			req.Components = append(req.Components, p)
		}
		return req
	}
}

const (
	topicConfigs, brokerConfigs, loggerConfigs     = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger
	clientMetricConfigs, groupConfigs              = kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig
	sessionTimeoutKey, heartbeatKey, assignmentKey = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms"
	producerKey, consumerKey, percentKey, ipKey    = "producer_byte_rate", "consumer_byte_rate", "request_percentage", "connection_creation_rate"
)

func init() { questions = append(questions, adminQuestions...) }

var adminQuestions = []question{
	asking("elect preferred", elect(0, 0, 1, 9)),
	asking("elect unclean", elect(1, 0, 9)),
	asking("elect of a strange type", elect(7, 0)),
	asking("elect of a topic twice", func(topic string) kmsg.Request {
		req := elect(0, 0, 0)(topic).(*kmsg.ElectLeadersRequest)
		req.Topics = append(req.Topics, req.Topics[0])
		return req
	}),
	asking("elect of an unknown topic", func(topic string) kmsg.Request { return elect(0, 0)("no-" + topic) }),
	asking("list all reassignments", reassignments(func(string) []kmsg.ListPartitionReassignmentsRequestTopic { return nil })),
	asking("list reassignments of topics", reassignments(func(topic string) []kmsg.ListPartitionReassignmentsRequestTopic {
		return []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: topic, Partitions: []int32{0, 9}}, {Topic: "no-" + topic, Partitions: []int32{0}}}
	})),
	asking("cancel reassignments", reassign(nil, 0, 9)),
	asking("reassign to the only broker", reassign([]int32{1}, 0, 1)),
	asking("reassign to an unknown broker", reassign([]int32{1, 77}, 0)),
	asking("reassign to nobody", reassign([]int32{}, 0)),
	asking("reassign to a broker twice", reassign([]int32{1, 1}, 0)),
	asking("reassign to a negative broker", reassign([]int32{-1}, 0)),
	asking("reassign an unknown partition", reassign([]int32{1}, 9)),
	asking("reassign an unknown topic", func(topic string) kmsg.Request { return reassign([]int32{1}, 0)("no-" + topic) }),
	asking("producers of nobody", producers(0, 9)),
	asking("producers of an unknown topic", func(topic string) kmsg.Request { return producers(0)("no-" + topic) }),
	asking("producers of a topic with a bad name", func(topic string) kmsg.Request { return producers(0)("a b") }),
	{"admin: producers after writes", func(c *client, topic string) string {
		for i := range int32(3) {
			c.produced(produceTo(9, -1, topic, 0, producerBatch(i)))
		}
		req := producers(0)(topic)
		if resp, _ := c.try(req); resp != nil {
			return plainAnswer(resp, topic)
		}
		return "closed"
	}},
	asking("features: unknown", features(true, 1, 1, "no.such.feature")),
	asking("features: too high", features(true, 1, 99, "metadata.version")),
	asking("features: of a strange type", features(true, 9, 1, "metadata.version")),
	asking("features: the same", features(true, 1, 33, "metadata.version")),
	asking("features: lower as an upgrade", features(true, 1, 30, "metadata.version")),
	asking("features: lower", features(true, 2, 20, "metadata.version")),
	asking("features: lower, unsafe", features(true, 3, 20, "metadata.version")),
	asking("features: twice", features(true, 1, 33, "metadata.version", "metadata.version")),
	asking("features: off", features(true, 2, 0, "metadata.version")),
	asking("features: negative", features(true, 2, -1, "metadata.version")),
	asking("features: none", features(true, 1, 0)),
	asking("features: kraft", features(true, 1, 1, "kraft.version")),
	asking("features: one good, one not", features(true, 1, 33, "metadata.version", "no.such.feature")),
	asking("quorum", quorum("__cluster_metadata", 0)),
	asking("quorum of another partition", quorum("__cluster_metadata", 1)),
	asking("quorum of another topic", quorum("other", 0)),

	asking("group configs", alter(groupConfigs, "T", set{sessionTimeoutKey, "50000"}, set{assignmentKey, "2000"}), describe(groupConfigs, "T"),
		alter(groupConfigs, "T", set{sessionTimeoutKey, "-"}), describe(groupConfigs, "T", sessionTimeoutKey, assignmentKey, "no.such.key")),
	asking("group configs of no group", describe(groupConfigs, ""), alter(groupConfigs, "", set{sessionTimeoutKey, "50000"})),
	asking("group configs: unknown key", alter(groupConfigs, "T", set{"no.such.key", "1"})),
	asking("group configs: no number", alter(groupConfigs, "T", set{sessionTimeoutKey, "x"})),
	asking("group configs: too low", alter(groupConfigs, "T", set{sessionTimeoutKey, "1000"})),
	asking("group configs: too high", alter(groupConfigs, "T", set{sessionTimeoutKey, "100000"})),
	asking("group configs: zero", alter(groupConfigs, "T", set{sessionTimeoutKey, "0"})),
	asking("group configs: heartbeat too low", alter(groupConfigs, "T", set{heartbeatKey, "100"})),
	asking("group configs: heartbeat too high", alter(groupConfigs, "T", set{heartbeatKey, "60000"})),
	asking("group configs: assignment too high", alter(groupConfigs, "T", set{assignmentKey, "60000"})),
	asking("group configs: assignment negative", alter(groupConfigs, "T", set{assignmentKey, "-1"})),
	asking("group configs: append", alter(groupConfigs, "T", set{sessionTimeoutKey, "+50000"})),
	asking("group configs: share", alter(groupConfigs, "T", set{"share.auto.offset.reset", "never"}), alter(groupConfigs, "T", set{"share.isolation.level", "none"}),
		alter(groupConfigs, "T", set{"share.record.lock.duration.ms", "1000"}), alter(groupConfigs, "T", set{"share.delivery.count.limit", "1"}),
		alter(groupConfigs, "T", set{"share.session.timeout.ms", "1000"}), alter(groupConfigs, "T", set{"share.heartbeat.interval.ms", "100000"}),
		alter(groupConfigs, "T", set{"share.partition.max.record.locks", "5"}), alter(groupConfigs, "T", set{"streams.num.standby.replicas", "9"}),
		alter(groupConfigs, "T", set{"streams.session.timeout.ms", "5"}), alter(groupConfigs, "T", set{"streams.heartbeat.interval.ms", "5"}),
		alter(groupConfigs, "T", set{"share.auto.offset.reset", "by_duration:PT1H"}), alter(groupConfigs, "T", set{"share.record.lock.duration.ms", "100000"}),
		alter(groupConfigs, "T", set{"streams.initial.rebalance.delay.ms", "-1"}), alter(groupConfigs, "T", set{"streams.assignor.name", "best"}),
		alter(groupConfigs, "T", set{"streams.assignor.name", ""}), alter(groupConfigs, "T", set{"errors.deadletterqueue.topic.name", "a b"}),
		alter(groupConfigs, "T", set{"share.delivery.count.limit", "11"}), alter(groupConfigs, "T", set{"share.partition.max.record.locks", "5000"})),

	asking("broker configs: not defined", alter(brokerConfigs, "1", set{"no.such.key", "1"}), alter(brokerConfigs, "1", set{"no.such.key", "-"})),
	asking("broker configs: read only", alter(brokerConfigs, "1", set{"num.partitions", "3"})),
	asking("broker configs: two read only", alter(brokerConfigs, "", set{"num.partitions", "3"}, set{"node.id", "3"})),
	asking("broker configs: bad value", alter(brokerConfigs, "1", set{"max.connections", "x"}), alter(brokerConfigs, "", set{"max.connections", "-1"}), alter(brokerConfigs, "", set{"log.retention.ms", "x"})),
	asking("broker configs: negative quota", alter(brokerConfigs, "", set{"max.connection.creation.rate", "-1"})),
	asking("broker configs: overrides", alter(brokerConfigs, "", set{"max.connections.per.ip.overrides", "127.0.0.9:5"}),
		describe(brokerConfigs, "", "max.connections.per.ip.overrides"), alter(brokerConfigs, "", set{"max.connections.per.ip.overrides", "-"})),
	asking("broker configs: cluster and own", alter(brokerConfigs, "", set{"background.threads", "11"}), alter(brokerConfigs, "1", set{"background.threads", "12"}), describe(brokerConfigs, "1", "background.threads"),
		alter(brokerConfigs, "1", set{"background.threads", "-"}), describe(brokerConfigs, "1", "background.threads"), alter(brokerConfigs, "", set{"background.threads", "-"}), describe(brokerConfigs, "1", "background.threads")),
	asking("broker configs: another broker", alter(brokerConfigs, "7", set{"max.connections", "5"}), alter(brokerConfigs, "x", set{"max.connections", "5"})),

	asking("loggers: change", alter(loggerConfigs, "1", set{"root", "DEBUG"}), alter(loggerConfigs, "1", set{"root", "INFO"})),
	asking("loggers: bad level", alter(loggerConfigs, "1", set{"root", "LOUD"})),
	asking("loggers: no such logger", alter(loggerConfigs, "1", set{"no.such.logger", "INFO"}), alter(loggerConfigs, "1", set{"no.such.logger", "-"})),
	asking("loggers: delete root", alter(loggerConfigs, "1", set{"root", "-"})),
	asking("loggers: append", alter(loggerConfigs, "1", set{"root", "+INFO"})),
	asking("loggers: another broker", alter(loggerConfigs, "5", set{"root", "INFO"}), alter(loggerConfigs, "", set{"root", "INFO"}), alter(loggerConfigs, "x", set{"root", "INFO"}), describe(loggerConfigs, "5"), describe(loggerConfigs, "x")),

	asking("resources of a strange type", resources(99)), asking("resources: topics twice and loggers", resources(8)),

	asking("quota", limit([]string{"user", "T"}, producerKey, 1024.0, percentKey, 12.5), quotas(true, "user", 0, "T"), limit([]string{"user", "T"}, producerKey, nil), quotas(false, "user", 0, "T"),
		limit([]string{"user", "T"}, percentKey, nil), quotas(true, "user", 0, "T")),
	asking("quota of a user and client", limit([]string{"user", "T", "client-id", "T"}, consumerKey, 5.0), quotas(true, "user", 0, "T"), quotas(false, "user", 0, "T"), quotas(true, "user", 0, "T", "client-id", 0, "T"),
		quotas(true, "user", 0, "T", "client-id", 1, "<null>"), quotas(false, "client-id", 0, "T"), quotas(false, "user", 0, "T", "client-id", 2, "<null>"), limit([]string{"user", "T", "client-id", "T"}, consumerKey, nil)),
	asking("quota of a client's default", limit([]string{"user", "T", "client-id", "<default>"}, consumerKey, 5.0), quotas(true, "user", 0, "T", "client-id", 1, "<null>"), quotas(false, "user", 0, "T", "client-id", 2, "<null>"), limit([]string{"user", "T", "client-id", "<default>"}, consumerKey, nil)),
	asking("quota: no entity", limit(nil, producerKey, 1.0)), asking("quota: empty name", limit([]string{"user", ""}, producerKey, 1.0)),
	asking("quota: strange type", limit([]string{"color", "T"}, producerKey, 1.0)), asking("quota: a type twice", limit([]string{"user", "a", "user", "T"}, producerKey, 1.0)),
	asking("quota: ip with user", limit([]string{"user", "T", "ip", "1.2.3.4"}, ipKey, 1.0)), asking("quota: not an ip", limit([]string{"ip", "no such host"}, ipKey, 1.0)),
	asking("quota: ip", limit([]string{"ip", "10.9.8.7"}, ipKey, 5.0), quotas(true, "ip", 0, "10.9.8.7"), limit([]string{"ip", "10.9.8.7"}, ipKey, nil), limit([]string{"ip", "10.9.8.7"}, ipKey, 1.5), limit([]string{"ip", "10.9.8.7"}, ipKey, 3e9)),
	asking("quota: bad key", limit([]string{"user", "T"}, ipKey, 1.0)), asking("quota: unknown key", limit([]string{"user", "T"}, "color", 1.0)),
	asking("quota: zero", limit([]string{"user", "T"}, producerKey, 0.0)), asking("quota: negative", limit([]string{"user", "T"}, producerKey, -1.0)),
	asking("quota: fraction", limit([]string{"user", "T"}, producerKey, 1.5)), asking("quota: too large", limit([]string{"user", "T"}, producerKey, 1e30)),
	asking("quota: a key twice", limit([]string{"user", "T"}, producerKey, 1.0, producerKey, 2.0)), asking("quota: removing what is not there", limit([]string{"user", "T"}, producerKey, nil), limit([]string{"user", "T"}, "color", nil)),
	asking("quota: no keys", limit([]string{"user", "T"})),
	asking("quota: an entity twice", func(topic string) kmsg.Request {
		req := limit([]string{"user", "T"}, producerKey, nil)(topic).(*kmsg.AlterClientQuotasRequest)
		req.Entries = append(req.Entries, req.Entries[0])
		return req
	}),
	asking("quotas: strange type", quotas(true, "color", 0, "T")), asking("quotas: empty type", quotas(true, "", 0, "T")), asking("quotas: a type twice", quotas(true, "user", 0, "T", "user", 1, "<null>")),
	asking("quotas: strange match", quotas(true, "user", 9, "T")), asking("quotas: exact without a name", quotas(true, "user", 0, "<null>")), asking("quotas: default with a name", quotas(true, "user", 1, "T")),
	asking("quotas: any with a name", quotas(true, "user", 2, "T")), asking("quotas: ip and user", quotas(true, "user", 0, "T", "ip", 0, "1.2.3.4")),
}

// producerBatch is the nth batch of a producer.
func producerBatch(n int32) []byte {
	return record.NewBuilder().Producer(4711, 3, record.Sequence(n)).Add(fixedTime, nil, []byte("v")).Build(record.None)
}
