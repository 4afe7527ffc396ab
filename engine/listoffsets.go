package engine

import (
	"errors"
	"fmt"

	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListOffsets, v1–v11 (ListOffsetsRequest.json; ReplicaManager.fetchOffset).
//
//   - The special timestamps are answered on the loop, a real one, or the
//     largest, on a goroutine, since it may read and decompress a batch.
//   - A special timestamp of a later version is UNSUPPORTED_VERSION.
//   - A partition named twice is INVALID_REQUEST, once.
//   - OFFSET_NOT_AVAILABLE (KIP-207) is LEADER_NOT_AVAILABLE below v5.
//   - The leader epoch is there from v4 (KIP-320).
//
// OffsetForLeaderEpoch, v2–v4 (KIP-101, KIP-279, KIP-320): the largest epoch of
// the log that is at most the one asked for, and where it ends; -1 and -1 if
// there is none.

// timestampSince is the first version that knows a special timestamp.
var timestampSince = map[record.Timestamp]int16{
	replication.LatestTimestamp:         1,
	replication.EarliestTimestamp:       1,
	replication.MaxTimestamp:            7,
	replication.EarliestLocalTimestamp:  8,
	replication.LatestTieredTimestamp:   9,
	replication.EarliestPendingUploadTS: 11,
}

// consumerReplicaID is the replica id of a client.
const consumerReplicaID = -1

func (lp *loop) listOffsets(k *call) {
	req := kmsg.NewPtrListOffsetsRequest()
	if k.small() {
		if !k.decode(req) {
			return
		}
		if !needsWorker(req) {
			k.reply(lp.engine.listOffsets(req))
			return
		}
	}
	lp.offLoop(k, kmsg.NewPtrListOffsetsRequest(), func(op *coldOp, req kmsg.Request) kmsg.Response {
		return op.engine.listOffsets(req.(*kmsg.ListOffsetsRequest))
	})
}

// needsWorker says whether any of the timestamps takes a look into files.
func needsWorker(req *kmsg.ListOffsetsRequest) bool {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if replication.ListOffsetNeedsWorker(record.Timestamp(req.Topics[i].Partitions[j].Timestamp)) {
				return true
			}
		}
	}
	return false
}

// listOffsets answers all partitions. Any goroutine.
func (e *Engine) listOffsets(req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := kmsg.NewPtrListOffsetsResponse()
	seen := make(map[record.TopicPartition]int)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			seen[record.TopicPartition{Topic: t.Topic, Partition: t.Partitions[j].Partition}]++
		}
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		answer := kmsg.NewListOffsetsResponseTopic()
		answer.Topic = t.Topic
		for j := range t.Partitions {
			tp := record.TopicPartition{Topic: t.Topic, Partition: t.Partitions[j].Partition}
			switch n := seen[tp]; {
			case n == 1:
				answer.Partitions = append(answer.Partitions, e.listOffset(req, t.Topic, &t.Partitions[j]))
			case n > 1:
				seen[tp] = 0
				p := noOffset(tp.Partition)
				p.ErrorCode = kerr.InvalidRequest.Code
				answer.Partitions = append(answer.Partitions, p)
			}
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}

// noOffset is an answer without offset.
func noOffset(partition int32) kmsg.ListOffsetsResponseTopicPartition {
	p := kmsg.NewListOffsetsResponseTopicPartition()
	p.Partition = partition
	p.Offset, p.Timestamp, p.LeaderEpoch = -1, -1, -1
	return p
}

// listOffset answers one partition.
func (e *Engine) listOffset(req *kmsg.ListOffsetsRequest, topic string, q *kmsg.ListOffsetsRequestTopicPartition) kmsg.ListOffsetsResponseTopicPartition {
	answer := noOffset(q.Partition)
	ts := record.Timestamp(q.Timestamp)
	if since, ok := timestampSince[ts]; ts < 0 && (!ok || req.Version < since) {
		answer.ErrorCode = kerr.UnsupportedVersion.Code
		return answer
	}
	p := e.config.Replicas.Lookup(bytesOf(topic), q.Partition)
	if p == nil {
		answer.ErrorCode = e.unknownPartition(false, bytesOf(topic), record.TopicID{}, q.Partition).Code
		return answer
	}
	found, err := p.ListOffset(replication.ListParams{
		Timestamp:          ts,
		Isolation:          record.Isolation(req.IsolationLevel),
		Replica:            req.ReplicaID != consumerReplicaID,
		CurrentLeaderEpoch: record.LeaderEpoch(q.CurrentLeaderEpoch),
	})
	switch {
	case errors.Is(err, kerr.OffsetNotAvailable) && req.Version < 5:
		answer.ErrorCode = kerr.LeaderNotAvailable.Code
	case err != nil:
		if !expected(err) {
			e.complain("list offsets failed", "partition", fmt.Sprint(p.TopicPartition()), "err", err)
		}
		answer.ErrorCode = asKerr(err).Code
	default:
		answer.Offset, answer.Timestamp = int64(found.Offset), int64(found.Timestamp)
		answer.LeaderEpoch = int32(found.LeaderEpoch)
	}
	return answer
}

func (lp *loop) offsetForLeaderEpoch(k *call) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	switch {
	case !k.small():
		lp.offLoop(k, req, func(op *coldOp, req kmsg.Request) kmsg.Response {
			return op.engine.endsOfEpochs(req.(*kmsg.OffsetForLeaderEpochRequest))
		})
	case k.decode(req):
		k.reply(lp.engine.endsOfEpochs(req))
	}
}

// endsOfEpochs answers all partitions. Any goroutine.
func (e *Engine) endsOfEpochs(req *kmsg.OffsetForLeaderEpochRequest) *kmsg.OffsetForLeaderEpochResponse {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for i := range req.Topics {
		t := &req.Topics[i]
		answer := kmsg.NewOffsetForLeaderEpochResponseTopic()
		answer.Topic = t.Topic
		for j := range t.Partitions {
			answer.Partitions = append(answer.Partitions, e.endOfEpoch(t.Topic, &t.Partitions[j]))
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}

// endOfEpoch answers one partition of an OffsetForLeaderEpoch.
func (e *Engine) endOfEpoch(topic string, q *kmsg.OffsetForLeaderEpochRequestTopicPartition) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	answer := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	answer.Partition = q.Partition
	answer.LeaderEpoch, answer.EndOffset = -1, -1
	p := e.config.Replicas.Lookup(bytesOf(topic), q.Partition)
	if p == nil {
		answer.ErrorCode = e.unknownPartition(false, bytesOf(topic), record.TopicID{}, q.Partition).Code
		return answer
	}
	epoch, end, err := p.EndOffsetForEpoch(record.LeaderEpoch(q.CurrentLeaderEpoch), record.LeaderEpoch(q.LeaderEpoch))
	if err != nil {
		answer.ErrorCode = asKerr(err).Code
		return answer
	}
	answer.LeaderEpoch, answer.EndOffset = int32(epoch), int64(end)
	return answer
}
