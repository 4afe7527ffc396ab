package engine

import (
	"context"
	"slices"

	"github.com/posthouse/posthouse/engine/admin"
	"github.com/posthouse/posthouse/engine/group"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// API is one row of the table of APIs: what is served, how it is advertised and
// where it runs. The table is the only place that knows this; dispatch and
// ApiVersions are both derived from it.
type API struct {
	Key  int16
	Name string
	// Min and Max are the versions that are answered, both inclusive.
	Min, Max int16
	// Flexible is the first version with compact and tagged fields (KIP-482).
	Flexible int16
	// AdvertiseMin is the lowest version named in ApiVersions, where it is not
	// Min.
	AdvertiseMin int16
	// Pipelined requests may start while earlier pipelined ones of their
	// connection are unanswered; all others wait their turn, as in Kafka.
	Pipelined bool
	// Feature is the part of the protocol the API belongs to.
	Feature Feature

	// One of onLoop and offLoop is set. With both, onLoop comes first and sends
	// what it cannot answer at once on (loop.cold).

	// onLoop answers on the connection's loop and never blocks.
	onLoop func(*loop, *call)
	// offLoop answers on a goroutine of its own; the message is decoded and
	// encoded by kmsg. The context ends when the engine shuts down.
	offLoop func(context.Context, *Engine, kmsg.Request, admin.Client) kmsg.Response
}

// Feature groups APIs by what a client uses them for.
type Feature string

// The features that there are.
const (
	FeatureCore   Feature = "core"
	FeatureData   Feature = "data"
	FeatureAdmin  Feature = "admin"
	FeatureConfig Feature = "config"
	FeatureGroups Feature = "groups"
)

// apis lists every API that is served, by key. Versions are those of Apache
// Kafka 4.4; APIs of coordinators, transactions and security are added with
// their features and are until then not advertised.
//
// Produce v0–v2 are advertised and not answered, exactly as Kafka 4.x does:
// librdkafka before 2.8 switches gzip, snappy and lz4 off unless the range
// contains v0 (KAFKA-18659).
var apis []API

func init() {
	// Assigned here, not above: the handlers read the table, which Go would call
	// an initialization cycle.
	apis = []API{
		{Key: 0, Name: "Produce", Min: 3, Max: 13, Flexible: 9, AdvertiseMin: 0, Pipelined: true, Feature: FeatureData, onLoop: (*loop).produce},
		{Key: 1, Name: "Fetch", Min: 4, Max: 18, Flexible: 12, AdvertiseMin: 4, Feature: FeatureData, onLoop: (*loop).fetch},
		{Key: 2, Name: "ListOffsets", Min: 1, Max: 11, Flexible: 6, AdvertiseMin: 1, Feature: FeatureData, onLoop: (*loop).listOffsets},
		{Key: 3, Name: "Metadata", Min: 0, Max: 13, Flexible: 9, AdvertiseMin: 0, Feature: FeatureCore, onLoop: (*loop).metadata, offLoop: byAdmin((*admin.Handlers).Metadata)},
		{Key: 8, Name: "OffsetCommit", Min: 2, Max: 10, Flexible: 8, AdvertiseMin: 2, Feature: FeatureGroups, onLoop: byGroups((*group.Coordinator).OffsetCommit)},
		{Key: 9, Name: "OffsetFetch", Min: 1, Max: 10, Flexible: 6, AdvertiseMin: 1, Feature: FeatureGroups, onLoop: atOnce((*group.Coordinator).OffsetFetch)},
		{Key: 10, Name: "FindCoordinator", Min: 0, Max: 6, Flexible: 3, AdvertiseMin: 0, Feature: FeatureGroups, onLoop: (*loop).findCoordinator},
		{Key: 11, Name: "JoinGroup", Min: 0, Max: 9, Flexible: 6, AdvertiseMin: 0, Feature: FeatureGroups, onLoop: byGroups((*group.Coordinator).JoinGroup)},
		{Key: 12, Name: "Heartbeat", Min: 0, Max: 4, Flexible: 4, AdvertiseMin: 0, Feature: FeatureGroups, onLoop: atOnce((*group.Coordinator).Heartbeat)},
		{Key: 13, Name: "LeaveGroup", Min: 0, Max: 5, Flexible: 4, AdvertiseMin: 0, Feature: FeatureGroups, onLoop: byGroups((*group.Coordinator).LeaveGroup)},
		{Key: 14, Name: "SyncGroup", Min: 0, Max: 5, Flexible: 4, AdvertiseMin: 0, Feature: FeatureGroups, onLoop: byGroups((*group.Coordinator).SyncGroup)},
		{Key: 15, Name: "DescribeGroups", Min: 0, Max: 6, Flexible: 5, AdvertiseMin: 0, Feature: FeatureGroups, onLoop: offLoopAlways((*group.Coordinator).DescribeGroups)},
		{Key: 16, Name: "ListGroups", Min: 0, Max: 5, Flexible: 3, AdvertiseMin: 0, Feature: FeatureGroups, onLoop: offLoopAlways((*group.Coordinator).ListGroups)},
		{Key: 18, Name: "ApiVersions", Min: 0, Max: 5, Flexible: 3, AdvertiseMin: 0, Feature: FeatureCore, onLoop: (*loop).apiVersions},
		{Key: 19, Name: "CreateTopics", Min: 2, Max: 7, Flexible: 5, AdvertiseMin: 2, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).CreateTopics)},
		{Key: 20, Name: "DeleteTopics", Min: 1, Max: 6, Flexible: 4, AdvertiseMin: 1, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).DeleteTopics)},
		{Key: 21, Name: "DeleteRecords", Min: 0, Max: 2, Flexible: 2, AdvertiseMin: 0, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).DeleteRecords)},
		{Key: 22, Name: "InitProducerId", Min: 0, Max: 5, Flexible: 2, AdvertiseMin: 0, Feature: FeatureData, onLoop: (*loop).initProducerID},
		{Key: 23, Name: "OffsetForLeaderEpoch", Min: 2, Max: 4, Flexible: 4, AdvertiseMin: 2, Feature: FeatureData, onLoop: (*loop).offsetForLeaderEpoch},
		{Key: 32, Name: "DescribeConfigs", Min: 1, Max: 4, Flexible: 4, AdvertiseMin: 1, Feature: FeatureConfig, offLoop: byAdmin((*admin.Handlers).DescribeConfigs)},
		{Key: 33, Name: "AlterConfigs", Min: 0, Max: 2, Flexible: 2, AdvertiseMin: 0, Feature: FeatureConfig, offLoop: byAdmin((*admin.Handlers).AlterConfigs)},
		{Key: 35, Name: "DescribeLogDirs", Min: 1, Max: 5, Flexible: 2, AdvertiseMin: 1, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).DescribeLogDirs)},
		{Key: 37, Name: "CreatePartitions", Min: 0, Max: 3, Flexible: 2, AdvertiseMin: 0, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).CreatePartitions)},
		{Key: 42, Name: "DeleteGroups", Min: 0, Max: 3, Flexible: 2, AdvertiseMin: 0, Feature: FeatureGroups, onLoop: byGroups((*group.Coordinator).DeleteGroups)},
		{Key: 43, Name: "ElectLeaders", Min: 0, Max: 2, Flexible: 2, AdvertiseMin: 0, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).ElectLeaders)},
		{Key: 44, Name: "IncrementalAlterConfigs", Min: 0, Max: 1, Flexible: 1, AdvertiseMin: 0, Feature: FeatureConfig, offLoop: byAdmin((*admin.Handlers).IncrementalAlterConfigs)},
		{Key: 45, Name: "AlterPartitionReassignments", Min: 0, Max: 1, Flexible: 0, AdvertiseMin: 0, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).AlterPartitionAssignments)},
		{Key: 46, Name: "ListPartitionReassignments", Min: 0, Max: 0, Flexible: 0, AdvertiseMin: 0, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).ListPartitionReassignments)},
		{Key: 47, Name: "OffsetDelete", Min: 0, Max: 0, Flexible: 1, AdvertiseMin: 0, Feature: FeatureGroups, onLoop: byGroups((*group.Coordinator).OffsetDelete)},
		{Key: 48, Name: "DescribeClientQuotas", Min: 0, Max: 1, Flexible: 1, AdvertiseMin: 0, Feature: FeatureConfig, offLoop: byAdmin((*admin.Handlers).DescribeClientQuotas)},
		{Key: 49, Name: "AlterClientQuotas", Min: 0, Max: 1, Flexible: 1, AdvertiseMin: 0, Feature: FeatureConfig, offLoop: byAdmin((*admin.Handlers).AlterClientQuotas)},
		{Key: 55, Name: "DescribeQuorum", Min: 0, Max: 2, Flexible: 0, AdvertiseMin: 0, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).DescribeQuorum)},
		{Key: 57, Name: "UpdateFeatures", Min: 0, Max: 2, Flexible: 0, AdvertiseMin: 0, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).UpdateFeatures)},
		{Key: 60, Name: "DescribeCluster", Min: 0, Max: 2, Flexible: 0, AdvertiseMin: 0, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).DescribeCluster)},
		{Key: 61, Name: "DescribeProducers", Min: 0, Max: 0, Flexible: 0, AdvertiseMin: 0, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).DescribeProducers)},
		{Key: 68, Name: "ConsumerGroupHeartbeat", Min: 0, Max: 1, Flexible: 0, AdvertiseMin: 0, Feature: FeatureGroups, onLoop: byGroups((*group.Coordinator).ConsumerGroupHeartbeat)},
		{Key: 69, Name: "ConsumerGroupDescribe", Min: 0, Max: 1, Flexible: 0, AdvertiseMin: 0, Feature: FeatureGroups, onLoop: atOnce((*group.Coordinator).ConsumerGroupDescribe)},
		{Key: 74, Name: "ListConfigResources", Min: 0, Max: 1, Flexible: 0, AdvertiseMin: 0, Feature: FeatureConfig, offLoop: byAdmin((*admin.Handlers).ListConfigResources)},
		{Key: 75, Name: "DescribeTopicPartitions", Min: 0, Max: 0, Flexible: 0, AdvertiseMin: 0, Feature: FeatureAdmin, offLoop: byAdmin((*admin.Handlers).DescribeTopicPartitions)},
	}
	for i := range apis {
		apiByKey[apis[i].Key] = &apis[i]
	}
}

// maxKey is the highest API key that Kafka 4.4 knows.
const maxKey = 94

// apiByKey is apis indexed by key; nil where nothing is served.
var apiByKey [maxKey + 1]*API

// APIs returns the table, by key: for documentation and tests.
func APIs() []API { return slices.Clone(apis) }

// OnLoop reports whether the API is answered on the connection's loop.
func (a *API) OnLoop() bool { return a.onLoop != nil }

// lookupAPI returns the row of an API key, nil if it is not served.
func lookupAPI(key int16) *API {
	if key < 0 || key > maxKey {
		return nil
	}
	return apiByKey[key]
}

// flexible says whether a request has a flexible header. It answers for
// versions above the served range too: ApiVersions in a version of the future
// is answered (KIP-511).
func flexible(key, version int16) bool {
	api := lookupAPI(key)
	return api != nil && version >= api.Flexible
}

// byAdmin adapts an admin handler to the table.
func byAdmin[Q kmsg.Request, R kmsg.Response](handle func(*admin.Handlers, context.Context, Q, admin.Client) R) func(context.Context, *Engine, kmsg.Request, admin.Client) kmsg.Response {
	return func(ctx context.Context, e *Engine, q kmsg.Request, c admin.Client) kmsg.Response {
		return handle(e.config.Admin, ctx, q.(Q), c)
	}
}
