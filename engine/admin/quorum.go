package admin

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeQuorum serves v0–v2 (KIP-595, KIP-853). There is no raft log: what the
// tools ask of it is answered from the metadata store. The leader is the broker
// that holds the controller's office, its epoch the broker's registration, and
// offsets are the store's revision, which all of it has.
func (h *Handlers) DescribeQuorum(_ context.Context, req *kmsg.DescribeQuorumRequest, cl Client) *kmsg.DescribeQuorumResponse {
	resp := kmsg.NewPtrDescribeQuorumResponse()
	resp.Version = req.Version
	im := h.Image()
	for i := range req.Topics {
		t := kmsg.NewDescribeQuorumResponseTopic()
		t.Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			out := kmsg.NewDescribeQuorumResponseTopicPartition()
			out.Partition = p.Partition
			if t.Topic == meta.ClusterMetadataTopic && p.Partition == 0 {
				h.quorum(im, &out)
			} else {
				out.ErrorCode, out.ErrorMessage = h.answer("DescribeQuorum", kerr.UnknownTopicOrPartition)
			}
			t.Partitions = append(t.Partitions, out)
		}
		resp.Topics = append(resp.Topics, t)
	}
	for _, n := range liveBrokers(im, cl.Listener) {
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = n.ID
		for _, e := range n.Listeners {
			l := kmsg.NewDescribeQuorumResponseNodeListener()
			l.Name, l.Host, l.Port = e.Name, e.Host, uint16(e.Port)
			node.Listeners = append(node.Listeners, l)
		}
		resp.Nodes = append(resp.Nodes, node)
	}
	return resp
}

func (h *Handlers) quorum(im *meta.Image, out *kmsg.DescribeQuorumResponseTopicPartition) {
	out.LeaderID = im.ControllerID
	out.HighWatermark = int64(im.Revision)
	if b := im.Broker(im.ControllerID); b != nil {
		out.LeaderEpoch = int32(min(b.Epoch, math.MaxInt32))
	}
	now := time.Now().UnixMilli()
	for i := range im.Brokers {
		v := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		v.ReplicaID, v.LogEndOffset, v.LastFetchTimestamp, v.LastCaughtUpTimestamp = im.Brokers[i].ID, int64(im.Revision), now, now
		out.CurrentVoters = append(out.CurrentVoters, v)
	}
}

// ListConfigResources serves v0–v1 (KIP-714, KIP-1142): what has configs. v0,
// which was ListClientMetricsResources, knows subscriptions to client metrics
// alone, of which there are none.
func (h *Handlers) ListConfigResources(_ context.Context, req *kmsg.ListConfigResourcesRequest, _ Client) *kmsg.ListConfigResourcesResponse {
	resp := kmsg.NewPtrListConfigResourcesResponse()
	resp.Version = req.Version
	if req.Version == 0 {
		return resp
	}
	kinds := req.ResourceTypes
	if len(kinds) == 0 {
		kinds = []int8{int8(groupResource), int8(clientMetricsResource), int8(loggerResource), int8(brokerResource), int8(topicResource)}
	}
	im := h.Image()
	for i, kind := range kinds {
		if !known(kmsg.ConfigResourceType(kind)) {
			resp.ErrorCode, resp.ConfigResources = kerr.UnsupportedVersion.Code, nil
			return resp
		}
		if slices.Contains(kinds[:i], kind) {
			continue
		}
		for _, name := range h.resources(im, kmsg.ConfigResourceType(kind)) {
			r := kmsg.NewListConfigResourcesResponseConfigResource()
			r.Name, r.Type = name, kind
			resp.ConfigResources = append(resp.ConfigResources, r)
		}
	}
	return resp
}
