package admin

import (
	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
)

const minISRKey = "min.insync.replicas"

// checkMinISR refuses a request that asks for more in-sync replicas than there
// are replicas. Kafka 4 accepts that and then counts the replicas that there are
// (Partition.effectiveMinIsr), so that acks=all silently promises less than its
// owner was told: one of the most frequent misunderstandings, and no client or
// tool needs it. Only what the request itself sets is judged: the broker's
// default, and what a topic already has, go on as in Kafka.
func checkMinISR(set map[string]string, replicas int) error {
	raw, asked := set[minISRKey]
	if !asked || replicas < 1 {
		return nil
	}
	v, err := config.TopicDefinition(minISRKey).Parse(raw)
	if err != nil || v.Int <= int64(replicas) {
		return nil // a bad value is refused with all others
	}
	return fail(kerr.InvalidConfig, "%s=%d is above the replication factor %d: acks=all can never mean so many replicas. Ask for at most %d, or for more replicas",
		minISRKey, v.Int, replicas, replicas)
}

// replicasAsked is the smallest number of replicas that a spec gives a
// partition; below 1 it is one that the controller refuses.
func (h *Handlers) replicasAsked(spec *meta.TopicSpec) int {
	if len(spec.Assignment) == 0 {
		if spec.ReplicationFactor == -1 {
			return int(h.Broker().DefaultReplicationFactor)
		}
		return int(spec.ReplicationFactor)
	}
	least := -1
	for _, replicas := range spec.Assignment {
		if least < 0 || len(replicas) < least {
			least = len(replicas)
		}
	}
	return least
}

// replicasOf is the smallest number of replicas of a topic's partitions.
func replicasOf(t *meta.Topic) int {
	least := -1
	for i := range t.Partitions {
		if n := len(t.Partitions[i].Replicas); least < 0 || n < least {
			least = n
		}
	}
	return least
}
