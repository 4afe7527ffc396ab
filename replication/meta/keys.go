package meta

import (
	"strconv"
	"strings"

	"github.com/posthouse/posthouse/storage/record"
)

// The layout of the store. A topic is one key, so that creating it is one
// write whatever its partition count; a partition gets a key of its own when
// its state first departs from what the topic's value implies (leader = first
// replica, ISR = all replicas, epoch 0).
//
//	cluster                          Cluster
//	broker-epochs                    Counter: the last broker epoch given out
//	producer-ids                     Counter: the first producer id of the next block
//	adopting                         Counter: there while found directories are being made topics
//	brokers/<id>                     BrokerValue
//	topics/<name>                    TopicValue
//	states/<topic id>/<partition>    StateValue
//	deleted/<topic id>               DeletedValue: directories of it may still be on disks
//	configs/topic/<name>             ConfigValue: overrides of a topic
//	configs/broker/<id>              ConfigValue: dynamic configs of one broker
//	configs/broker-default           ConfigValue: dynamic configs of all brokers
//	configs/group/=<group>           ConfigValue: configs of a group, its id escaped
//	quotas/<entity>                  QuotaValue: client quotas, see KeyQuota
//	features                         FeaturesValue: feature levels that were set
//	offices/<office>                 who holds it (ephemeral)
//	live/<id>                        a broker's life sign (ephemeral)
const (
	KeyCluster       = "cluster"
	KeyBrokerEpochs  = "broker-epochs"
	KeyProducerIDs   = "producer-ids"
	KeyAdopting      = "adopting"
	KeyBrokerDefault = "configs/broker-default"
	KeyFeatures      = "features"

	PrefixBrokers       = "brokers/"
	PrefixTopics        = "topics/"
	PrefixStates        = "states/"
	PrefixDeleted       = "deleted/"
	PrefixTopicConfigs  = "configs/topic/"
	PrefixBrokerConfigs = "configs/broker/"
	PrefixGroupConfigs  = "configs/group/"
	PrefixQuotas        = "quotas/"
	PrefixOffices       = "offices/"
	PrefixLive          = "live/"
)

// OfficeController is the office that the cluster's one controller holds.
const OfficeController = "controller"

// KeyBroker is where broker id is registered.
func KeyBroker(id int32) string { return PrefixBrokers + strconv.Itoa(int(id)) }

// KeyTopic is where the topic called name is kept.
func KeyTopic(name string) string { return PrefixTopics + name }

// KeyTopicConfig is where the overrides of the topic called name are kept.
func KeyTopicConfig(name string) string { return PrefixTopicConfigs + name }

// KeyBrokerConfig is where the dynamic configs of broker id are kept.
func KeyBrokerConfig(id int32) string { return PrefixBrokerConfigs + strconv.Itoa(int(id)) }

// KeyDeleted is where the deletion of a topic is remembered.
func KeyDeleted(id record.TopicID) string { return PrefixDeleted + id.String() }

// KeyState is where the state of one partition is kept.
func KeyState(id record.TopicID, partition int32) string {
	return PrefixStates + id.String() + "/" + strconv.Itoa(int(partition))
}

// ParseStateKey is the inverse of KeyState.
func ParseStateKey(key string) (id record.TopicID, partition int32, ok bool) {
	rest, ok := strings.CutPrefix(key, PrefixStates)
	if !ok {
		return id, 0, false
	}
	name, number, ok := strings.Cut(rest, "/")
	if !ok {
		return id, 0, false
	}
	id, err := record.ParseTopicID(name)
	if err != nil {
		return id, 0, false
	}
	p, ok := parseID(number)
	return id, p, ok
}

// parseID reads a non-negative decimal int32 as strconv.Itoa writes it.
func parseID(s string) (int32, bool) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 || strconv.Itoa(int(n)) != s {
		return 0, false
	}
	return int32(n), true
}
