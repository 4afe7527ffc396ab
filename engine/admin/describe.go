package admin

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"sort"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeTopicPartitions serves v0 (KIP-966): topics in order of name with at
// most responsePartitionLimit partitions (and never more than the broker's
// max.request.partition.size.limit), and a cursor to go on from. An empty list
// of topics is all topics (DescribeTopicPartitionsRequestHandler.java).
func (h *Handlers) DescribeTopicPartitions(_ context.Context, req *kmsg.DescribeTopicPartitionsRequest, cl Client) *kmsg.DescribeTopicPartitionsResponse {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	resp.Version = req.Version
	im := h.Image()
	names, ok := topicsFrom(im, req)
	if !ok {
		for i := range req.Topics {
			out := kmsg.NewDescribeTopicPartitionsResponseTopic()
			out.Topic, out.ErrorCode = &req.Topics[i].Topic, kerr.InvalidRequest.Code
			out.AuthorizedOperations = notAsked
			resp.Topics = append(resp.Topics, out)
		}
		return resp
	}
	view := view{im: im, listener: cl.Listener}
	remaining := int(max(1, min(h.Broker().RequestPartitionSizeLimit, req.ResponsePartitionLimit)))
	for _, name := range names {
		first := 0
		if req.Cursor != nil && req.Cursor.Topic == name {
			first = int(req.Cursor.Partition)
		}
		t := im.Topics[name]
		if remaining == 0 {
			resp.NextCursor = cursor(name, first)
			break
		}
		if t == nil {
			resp.Topics = append(resp.Topics, describeMissing(name))
			continue
		}
		end := min(len(t.Partitions), first+remaining)
		resp.Topics = append(resp.Topics, view.describe(t, first, end))
		if end < len(t.Partitions) {
			resp.NextCursor = cursor(name, end)
			break
		}
		remaining -= max(0, end-first)
	}
	return resp
}

// topicsFrom lists the topics from the cursor on, each once and in order. It is
// false if the cursor names a partition below zero, or a topic that is not in
// the request's own list.
func topicsFrom(im *meta.Image, req *kmsg.DescribeTopicPartitionsRequest) (names []string, ok bool) {
	from := ""
	if req.Cursor != nil {
		from = req.Cursor.Topic
		if req.Cursor.Partition < 0 {
			return nil, false
		}
	}
	if len(req.Topics) == 0 {
		return im.Names[sort.SearchStrings(im.Names, from):], true
	}
	listed := make(map[string]struct{}, len(req.Topics))
	for i := range req.Topics {
		if req.Topics[i].Topic >= from {
			listed[req.Topics[i].Topic] = struct{}{}
		}
	}
	if _, there := listed[from]; req.Cursor != nil && !there {
		return nil, false
	}
	return slices.Sorted(maps.Keys(listed)), true
}

func cursor(topic string, partition int) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, int32(partition)
	return &c
}

// describeMissing answers a topic that does not exist.
func describeMissing(name string) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.ErrorCode = &name, kerr.UnknownTopicOrPartition.Code
	if meta.InvalidTopicName(name) != "" {
		out.ErrorCode = kerr.InvalidTopicException.Code
	}
	out.IsInternal = meta.IsInternal(name)
	out.AuthorizedOperations = topicOperations
	return out
}

// describe renders the partitions [first, end) of a topic.
func (v view) describe(t *meta.Topic, first, end int) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &t.Name, t.ID, t.Internal
	out.AuthorizedOperations = topicOperations
	for i := first; i < end; i++ {
		p := &t.Partitions[i]
		o := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		o.Partition, o.LeaderID, o.LeaderEpoch = int32(i), meta.NoLeader, int32(p.LeaderEpoch)
		if leader := v.im.Broker(p.Leader); leader != nil && v.live(leader) {
			o.LeaderID = p.Leader
		}
		o.Replicas, o.ISR, o.OfflineReplicas = p.Replicas, p.ISR, v.offline(p)
		o.EligibleLeaderReplicas, o.LastKnownELR = orEmpty(p.ELR), orEmpty(p.LastKnownELR)
		out.Partitions = append(out.Partitions, o)
	}
	return out
}

// orEmpty makes a nullable list present.
func orEmpty(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}

// DescribeLogDirs serves v1–v5: the log directories of this broker with the
// replicas in them, all (null) or those asked for. Sizes are of log bytes,
// without what is reserved ahead; v4 adds the file system's (KIP-827), v5 says
// that no directory is cordoned.
func (h *Handlers) DescribeLogDirs(_ context.Context, req *kmsg.DescribeLogDirsRequest, _ Client) *kmsg.DescribeLogDirsResponse {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	resp.Version = req.Version
	asked := make(map[record.TopicPartition]struct{})
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			asked[record.TopicPartition{Topic: req.Topics[i].Topic, Partition: p}] = struct{}{}
		}
	}
	for _, dir := range h.Replicas.LogDirs() {
		out := kmsg.NewDescribeLogDirsResponseDir()
		out.Dir, out.TotalBytes, out.UsableBytes = dir.Path, dir.Total, dir.Usable
		if path, err := filepath.Abs(dir.Path); err == nil {
			out.Dir = path
		}
		if dir.Err != nil {
			h.Logger.Warn("log directory is offline", "dir", dir.Path, "error", dir.Err)
			out.ErrorCode, out.TotalBytes, out.UsableBytes = kerr.KafkaStorageError.Code, -1, -1
			resp.Dirs = append(resp.Dirs, out)
			continue
		}
		topics := make(map[string]int)
		for _, r := range dir.Replicas {
			if _, ok := asked[r.TP]; !ok && req.Topics != nil {
				continue
			}
			i, ok := topics[r.TP.Topic]
			if !ok {
				i = len(out.Topics)
				topics[r.TP.Topic] = i
				t := kmsg.NewDescribeLogDirsResponseDirTopic()
				t.Topic = r.TP.Topic
				out.Topics = append(out.Topics, t)
			}
			p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			p.Partition, p.Size, p.OffsetLag, p.IsFuture = r.TP.Partition, r.Bytes, r.OffsetLag, r.Future
			out.Topics[i].Partitions = append(out.Topics[i].Partitions, p)
		}
		resp.Dirs = append(resp.Dirs, out)
	}
	return resp
}

// DeleteRecords serves v0–v2 (KIP-107): moves the start of partitions up to an
// offset, or with -1 to the high watermark, and tells the low watermark.
// Compacted topics that delete nothing refuse, internal ones always.
func (h *Handlers) DeleteRecords(ctx context.Context, req *kmsg.DeleteRecordsRequest, _ Client) *kmsg.DeleteRecordsResponse {
	ctx, cancel := withTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.Version = req.Version
	im := h.Image()
	// Of a partition named twice the last offset counts, and it is answered once.
	offsets := make(map[record.TopicPartition]record.Offset)
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			offsets[record.TopicPartition{Topic: req.Topics[i].Topic, Partition: p.Partition}] = record.Offset(p.Offset)
		}
	}
	topics := make(map[string]int)
	for i := range req.Topics {
		name := req.Topics[i].Topic
		slot, ok := topics[name]
		if !ok && len(req.Topics[i].Partitions) > 0 {
			slot = len(resp.Topics)
			topics[name] = slot
			t := kmsg.NewDeleteRecordsResponseTopic()
			t.Topic = name
			resp.Topics = append(resp.Topics, t)
		}
		for _, p := range req.Topics[i].Partitions {
			tp := record.TopicPartition{Topic: name, Partition: p.Partition}
			offset, due := offsets[tp]
			if !due {
				continue
			}
			delete(offsets, tp)
			out := kmsg.NewDeleteRecordsResponseTopicPartition()
			out.Partition = p.Partition
			low, err := h.deleteRecords(ctx, im, tp, offset)
			out.LowWatermark, out.ErrorCode = int64(low), h.code("DeleteRecords", err)
			resp.Topics[slot].Partitions = append(resp.Topics[slot].Partitions, out)
		}
	}
	return resp
}

func (h *Handlers) deleteRecords(ctx context.Context, im *meta.Image, tp record.TopicPartition, offset record.Offset) (record.Offset, error) {
	switch t := im.Topics[tp.Topic]; {
	case t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions):
		return -1, kerr.UnknownTopicOrPartition
	case t.Internal:
		return -1, fail(kerr.InvalidTopicException, "Cannot delete records of internal topic %s", tp.Topic)
	}
	low, err := h.Replicas.DeleteRecords(ctx, tp, offset)
	if err != nil {
		return -1, err
	}
	return low, nil
}
