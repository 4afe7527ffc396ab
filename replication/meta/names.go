package meta

import (
	"strconv"
	"strings"
)

// Topics with a meaning of their own (org.apache.kafka.common.internals.Topic).
const (
	OffsetsTopic     = "__consumer_offsets"
	TransactionTopic = "__transaction_state"
	ShareStateTopic  = "__share_group_state"
	// ClusterMetadataTopic is Kafka's own log of its metadata; a directory of that
	// name in a log dir is not a topic's, and nobody may create one.
	ClusterMetadataTopic = "__cluster_metadata"
)

// TopicNameMax keeps <topic>-<partition>.<uuid>-delete within a file name.
const TopicNameMax = 249

// IsInternal says whether Kafka treats a topic of this name as internal.
func IsInternal(name string) bool {
	switch name {
	case OffsetsTopic, TransactionTopic, ShareStateTopic:
		return true
	}
	return false
}

// InvalidTopicName says in Kafka's words why a topic cannot have a name; empty
// if it can.
func InvalidTopicName(name string) string {
	const prefix = "Topic name is invalid: "
	switch {
	case name == "":
		return prefix + "the empty string is not allowed"
	case name == "." || name == "..":
		return prefix + "'" + name + "' is not allowed"
	case len(name) > TopicNameMax:
		return prefix + "the length of '" + name + "' is longer than the max allowed length " + strconv.Itoa(TopicNameMax)
	case strings.ContainsFunc(name, illegal):
		return prefix + "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	}
	return ""
}

func illegal(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
}
