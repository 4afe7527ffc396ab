package admin

import (
	"strconv"
	"strings"
)

// Topics with a meaning of their own (Topic.java).
const (
	offsetsTopic         = "__consumer_offsets"
	transactionTopic     = "__transaction_state"
	clusterMetadataTopic = "__cluster_metadata"
)

const maxTopicName = 249

// invalidName says in Kafka's words why a topic cannot have a name; empty if it
// can.
func invalidName(name string) string {
	const prefix = "Topic name is invalid: "
	switch {
	case name == "":
		return prefix + "the empty string is not allowed"
	case name == "." || name == "..":
		return prefix + "'" + name + "' is not allowed"
	case len(name) > maxTopicName:
		return prefix + "the length of '" + name + "' is longer than the max allowed length " + strconv.Itoa(maxTopicName)
	case strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
	}):
		return prefix + "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	}
	return ""
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }
