package admin

import (
	"context"
	"slices"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The election types of KIP-460.
const (
	electPreferred int8 = 0
	electUnclean   int8 = 1
)

// ElectLeaders serves v0–v2 (KIP-183, KIP-460; ReplicationControlManager.
// electLeaders). With one replica to each partition nothing can be elected: a
// partition that is led needs no election, one that is not has nobody to lead
// it. No list of topics is all partitions, of which those without need are left
// out.
func (h *Handlers) ElectLeaders(_ context.Context, req *kmsg.ElectLeadersRequest, _ Client) *kmsg.ElectLeadersResponse {
	resp := kmsg.NewPtrElectLeadersResponse()
	resp.Version = req.Version
	im := h.Image()
	all := req.Topics == nil
	topics := req.Topics
	for _, name := range im.Names {
		if all {
			t := kmsg.NewElectLeadersRequestTopic()
			t.Topic = name
			for p := range im.Topics[name].Partitions {
				t.Partitions = append(t.Partitions, int32(p))
			}
			topics = append(topics, t)
		}
	}
	if req.ElectionType != electPreferred && req.ElectionType != electUnclean {
		resp.ErrorCode = kerr.InvalidRequest.Code
	}
	for i := range topics {
		t := kmsg.NewElectLeadersResponseTopic()
		t.Topic = topics[i].Topic
		for _, p := range topics[i].Partitions {
			err := elect(im, req.ElectionType, record.TopicPartition{Topic: t.Topic, Partition: p})
			if all && err == kerr.ElectionNotNeeded {
				continue
			}
			out := kmsg.NewElectLeadersResponseTopicPartition()
			out.Partition = p
			out.ErrorCode, out.ErrorMessage = h.answer("ElectLeaders", err)
			t.Partitions = append(t.Partitions, out)
		}
		if len(t.Partitions) > 0 || !all {
			resp.Topics = append(resp.Topics, t)
		}
	}
	return resp
}

// elect says why a partition gets no other leader.
func elect(im *meta.Image, kind int8, tp record.TopicPartition) error {
	switch p := im.Partition(tp); {
	case kind != electPreferred && kind != electUnclean:
		return fail(kerr.InvalidRequest, "Unknown election type %d", kind)
	case im.Topics[tp.Topic] == nil:
		return fail(kerr.UnknownTopicOrPartition, "No such topic as %s", tp.Topic)
	case p == nil:
		return fail(kerr.UnknownTopicOrPartition, "No such partition as %s", tp)
	case p.Leader == meta.NoLeader && kind == electUnclean:
		return kerr.EligibleLeadersNotAvailable
	case p.Leader == meta.NoLeader, kind == electPreferred && p.Leader != p.Replicas[0]:
		return kerr.PreferredLeaderNotAvailable
	}
	return kerr.ElectionNotNeeded
}

// ListPartitionReassignments serves v0 (KIP-455): those under way, of which a
// single node has none. Partitions that do not exist are left out, as in Kafka.
func (h *Handlers) ListPartitionReassignments(_ context.Context, req *kmsg.ListPartitionReassignmentsRequest, _ Client) *kmsg.ListPartitionReassignmentsResponse {
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	resp.Version = req.Version
	im := h.Image()
	list := func(name string, partitions []int32) {
		t := kmsg.NewListPartitionReassignmentsResponseTopic()
		t.Topic = name
		for _, i := range partitions {
			p := im.Partition(record.TopicPartition{Topic: name, Partition: i})
			if p == nil || len(p.Adding) == 0 && len(p.Removing) == 0 {
				continue
			}
			out := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			out.Partition, out.Replicas, out.AddingReplicas, out.RemovingReplicas = i, p.Replicas, p.Adding, p.Removing
			t.Partitions = append(t.Partitions, out)
		}
		if len(t.Partitions) > 0 {
			resp.Topics = append(resp.Topics, t)
		}
	}
	if req.Topics != nil {
		for i := range req.Topics {
			list(req.Topics[i].Topic, req.Topics[i].Partitions)
		}
		return resp
	}
	for _, name := range im.Names {
		partitions := make([]int32, len(im.Topics[name].Partitions))
		for i := range partitions {
			partitions[i] = int32(i)
		}
		list(name, partitions)
	}
	return resp
}

// AlterPartitionAssignments serves AlterPartitionReassignments v0–v1 (KIP-455,
// KIP-860; ReplicationControlManager.alterPartitionReassignments). A partition
// whose replicas are asked to be what they are is done at once; there is no
// other broker to move one to, and nothing to cancel.
func (h *Handlers) AlterPartitionAssignments(_ context.Context, req *kmsg.AlterPartitionAssignmentsRequest, _ Client) *kmsg.AlterPartitionAssignmentsResponse {
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	resp.Version = req.Version
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	im := h.Image()
	for i := range req.Topics {
		t := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		t.Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			out := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			out.Partition = p.Partition
			err := reassign(im, record.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.Replicas)
			if out.ErrorCode, out.ErrorMessage = h.answer("AlterPartitionReassignments", err); plain(err) {
				out.ErrorMessage = nil // an exception without a text, in Kafka
			}
			t.Partitions = append(t.Partitions, out)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// reassign judges one reassignment; a null target is a cancellation.
func reassign(im *meta.Image, tp record.TopicPartition, target []int32) error {
	p := im.Partition(tp)
	switch {
	case im.Topics[tp.Topic] == nil:
		return fail(kerr.UnknownTopicOrPartition, "Unable to find a topic named %s.", tp.Topic)
	case p == nil:
		return fail(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.", tp.Topic, tp.Partition)
	case target == nil:
		return kerr.NoReassignmentInProgress
	case len(target) == 0:
		return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(target))
	for i, id := range sorted {
		if im.Broker(id) == nil {
			return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
		if i > 0 && sorted[i-1] == id {
			return fail(kerr.InvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.", id)
		}
	}
	if !slices.Equal(target, p.Replicas) {
		return fail(kerr.InvalidReplicaAssignment, "Replicas cannot be moved between brokers in this version.")
	}
	return nil
}

// DescribeProducers serves v0 (KIP-664): the idempotent producers that each
// partition remembers, and their open transactions.
func (h *Handlers) DescribeProducers(_ context.Context, req *kmsg.DescribeProducersRequest, _ Client) *kmsg.DescribeProducersResponse {
	resp := kmsg.NewPtrDescribeProducersResponse()
	resp.Version = req.Version
	im := h.Image()
	for i := range req.Topics {
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			out := kmsg.NewDescribeProducersResponseTopicPartition()
			out.Partition = p
			producers, err := h.producers(im, record.TopicPartition{Topic: t.Topic, Partition: p})
			if out.ErrorCode, out.ErrorMessage = h.answer("DescribeProducers", err); plain(err) && im.Topics[t.Topic] != nil {
				out.ErrorMessage = nil // an exception without a text, in Kafka
			}
			for _, q := range producers {
				o := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				o.ProducerID, o.ProducerEpoch, o.LastSequence = int64(q.ID), int32(q.Epoch), int32(q.LastSequence)
				o.LastTimestamp, o.CoordinatorEpoch, o.CurrentTxnStartOffset = int64(q.LastTimestamp), q.CoordinatorEpoch, int64(q.TxnFirst)
				out.ActiveProducers = append(out.ActiveProducers, o)
			}
			t.Partitions = append(t.Partitions, out)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (h *Handlers) producers(im *meta.Image, tp record.TopicPartition) ([]meta.ProducerState, error) {
	switch reason := meta.InvalidTopicName(tp.Topic); {
	case reason != "":
		return nil, fail(kerr.InvalidTopicException, "%s", reason)
	case im.Partition(tp) == nil:
		return nil, kerr.UnknownTopicOrPartition
	}
	return h.Replicas.Producers(tp)
}
