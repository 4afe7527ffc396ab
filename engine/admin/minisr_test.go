package admin

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMinISRAboveReplicas: a request that asks for more in-sync replicas than
// the topic has replicas is told so; what nobody asked for is let pass.
func TestMinISRAboveReplicas(t *testing.T) {
	const key = "min.insync.replicas"
	refused := func(n int) string {
		return fmt.Sprintf("40 min.insync.replicas=2 is above the replication factor %d: ", n)
	}
	c := newCluster(t, key+"=2") // the broker's default is nobody's request
	for want, topics := range map[string][]kmsg.CreateTopicsRequestTopic{
		"0 <null>": {newTopic("none", 1, 1), newTopic("fits", 1, 2, key+"=2"), newTopic("bad", 1, 0, key+"=2"), placed(newTopic("hand", -1, -1, key+"=1"), 0, 1),
			newTopic("x", 1, 1, key+"=2x")}, // the controller's to refuse
		refused(1): {newTopic("a", 1, 1, key+"=2"), newTopic("default", -1, -1, key+"=2"), placed(placed(newTopic("byhand", -1, -1, key+"=2"), 0, 1), 1, 1, 3)},
	} {
		for _, topic := range topics {
			out := c.Handlers.CreateTopics(context.Background(), createTopics(topic), client).Topics[0]
			if got := fmt.Sprintf("%d %s", out.ErrorCode, str(out.ErrorMessage)); !strings.HasPrefix(got, want) {
				t.Errorf("%s: got %s, want %s", topic.Topic, got, want)
			}
		}
	}
}

func TestAlterMinISRAboveReplicas(t *testing.T) {
	const key = "min.insync.replicas"
	c := newCluster(t)
	c.topic("a", id(1), 2)
	c.topic("had", id(2), 1, key+"=2") // adopted, or made when there were more
	c.change(func(im *meta.Image) { im.Topics["a"].Partitions[1].Replicas = []int32{1, 3} })
	for _, tt := range []struct{ topic, ops, want string }{
		{"a", key + "=2", "40 min.insync.replicas=2 is above the replication factor 1: "},
		{"a", key + "=1", "0 <null>"},
		{"had", "segment.ms=9", "0 <null>"},
		{"had", key + "=2 segment.ms=8", "0 <null>"}, // it is what it was
		{"had", key + "=3", "40 min.insync.replicas=3 is above the replication factor 1: "},
		{"none", key + "=2", "3 "},
	} {
		out := c.IncrementalAlterConfigs(context.Background(), incremental(topicResource, tt.topic, strings.Fields(tt.ops)...), client).Resources[0]
		if got := fmt.Sprintf("%d %s", out.ErrorCode, str(out.ErrorMessage)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s %s: got %s, want %s", tt.topic, tt.ops, got, tt.want)
		}
	}
}
