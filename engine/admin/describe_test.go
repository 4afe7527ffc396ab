package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pages renders a DescribeTopicPartitions response: topics with their
// partitions, and the cursor.
func pages(resp *kmsg.DescribeTopicPartitionsResponse) string {
	var out []string
	for _, t := range resp.Topics {
		s := fmt.Sprintf("%s:%d", str(t.Topic), t.ErrorCode)
		for _, p := range t.Partitions {
			s += fmt.Sprintf(" %d", p.Partition)
		}
		out = append(out, s)
	}
	if resp.NextCursor != nil {
		out = append(out, fmt.Sprintf("next %s %d", resp.NextCursor.Topic, resp.NextCursor.Partition))
	}
	return strings.Join(out, "; ")
}

func TestDescribeTopicPartitions(t *testing.T) {
	c := newCluster(t, "max.request.partition.size.limit=4")
	c.topic("a", id(1), 3)
	c.topic("b", id(2), 2)
	c.topic("c", id(3), 2)
	tests := []struct {
		topics string
		limit  int32
		cursor string // "topic partition"
		want   string
	}{
		{"none a bad!name", 10, "", "a:0 0 1 2; bad!name:17; none:3"}, // in order of name
		{"b a", 2, "", "a:0 0 1; next a 2"},
		{"a b", 3, "", "a:0 0 1 2; next b 0"},
		{"b a", 4, "", "a:0 0 1 2; b:0 0; next b 1"},
		{"b a", 100, "", "a:0 0 1 2; b:0 0; next b 1"}, // the broker's limit
		{"a", 0, "", "a:0 0; next a 1"},
		{"a", -5, "", "a:0 0; next a 1"},
		{"b b", 4, "", "b:0 0 1"},
		{"a b", 4, "a 2", "a:0 2; b:0 0 1"},
		{"a b", 4, "a 7", "a:0; b:0 0 1"},
		{"a b", 3, "a 2147483647", "a:0; b:0 0 1"},
		{"a b", 4, "a -1", "a:42; b:42"},
		{"a b", 4, "aa 0", "a:42; b:42"}, // not in the list
		{"a b", 4, "none 0", "a:42; b:42"},
		{"", 4, "", "a:0 0 1 2; b:0 0; next b 1"},
		{"", 2, "b 1", "b:0 1; c:0 0; next c 1"},
		{"", 4, "bb 1", "c:0 0 1"}, // deleted since
		{"", 4, "z 0", ""},
		{"", 4, "z -1", ""},
	}
	for _, tt := range tests {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = tt.limit
		for _, name := range strings.Fields(tt.topics) {
			topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
			topic.Topic = name
			req.Topics = append(req.Topics, topic)
		}
		if tt.cursor != "" {
			cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
			if _, err := fmt.Sscan(tt.cursor, &cursor.Topic, &cursor.Partition); err != nil {
				t.Fatal(err)
			}
			req.Cursor = &cursor
		}
		resp := c.DescribeTopicPartitions(context.Background(), roundTrip(t, req, kmsg.NewPtrDescribeTopicPartitionsRequest()), client)
		resp = roundTrip(t, resp, kmsg.NewPtrDescribeTopicPartitionsResponse())
		if got := pages(resp); got != tt.want {
			t.Errorf("%q limit %d cursor %q: got %s, want %s", tt.topics, tt.limit, tt.cursor, got, tt.want)
		}
	}
}

// TestDescribeTopicPartitionsPaging walks all topics page by page.
func TestDescribeTopicPartitionsPaging(t *testing.T) {
	c := newCluster(t)
	total := 0
	for i := range 20 {
		c.topic(fmt.Sprintf("t%02d", i), id(byte(i)), i%4+1)
		total += i%4 + 1
	}
	for limit := int32(1); limit < 60; limit += 3 {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = limit
		seen := map[string]bool{}
		for page := 0; ; page++ {
			if page > total {
				t.Fatal("no end")
			}
			resp := c.DescribeTopicPartitions(context.Background(), req, client)
			for _, topic := range resp.Topics {
				for _, p := range topic.Partitions {
					key := fmt.Sprint(*topic.Topic, p.Partition)
					if seen[key] {
						t.Errorf("limit %d: %s twice", limit, key)
					}
					seen[key] = true
				}
			}
			if resp.NextCursor == nil {
				break
			}
			req.Cursor = ptr(kmsg.NewDescribeTopicPartitionsRequestCursor())
			req.Cursor.Topic, req.Cursor.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		}
		if len(seen) != total {
			t.Errorf("limit %d: %d partitions of %d", limit, len(seen), total)
		}
	}
}

func TestDescribeTopicPartitionsDetail(t *testing.T) {
	c := newCluster(t)
	topic := c.topic("__consumer_offsets", id(1), 2)
	topic.Partitions[0] = meta.Partition{Leader: 1, LeaderEpoch: 7, Replicas: []int32{1, 2}, ISR: []int32{1}, Offline: []int32{2}, ELR: []int32{2}, LastKnownELR: []int32{2}}
	topic.Partitions[1] = meta.Partition{Leader: 2, LeaderEpoch: 8, Replicas: []int32{2}, ISR: []int32{2}, Offline: []int32{2}}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 10
	out := c.DescribeTopicPartitions(context.Background(), req, client).Topics[0]
	if !out.IsInternal || record.TopicID(out.TopicID) != id(1) || out.AuthorizedOperations != topicOperations {
		t.Errorf("%+v", out)
	}
	got := fmt.Sprint(out.Partitions[0].LeaderID, out.Partitions[0].LeaderEpoch, out.Partitions[0].Replicas, out.Partitions[0].ISR, out.Partitions[0].EligibleLeaderReplicas, out.Partitions[0].LastKnownELR, out.Partitions[0].OfflineReplicas)
	if got != "1 7 [1 2] [1] [2] [2] [2]" {
		t.Errorf("got %s", got)
	}
	// Led by a fenced broker is led by nobody; empty lists are not null.
	if p := out.Partitions[1]; p.LeaderID != -1 || p.LeaderEpoch != 8 || p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
		t.Errorf("%+v", p)
	}
}

func TestDescribeLogDirs(t *testing.T) {
	c := newCluster(t)
	tp := func(topic string, p int32) record.TopicPartition {
		return record.TopicPartition{Topic: topic, Partition: p}
	}
	c.dirs = []meta.LogDir{
		{Path: "/one", Total: 1000, Usable: 400, Replicas: []meta.ReplicaSize{{TP: tp("a", 0), Bytes: 10}, {TP: tp("b", 0), Bytes: 20, OffsetLag: 3, Future: true}, {TP: tp("a", 1), Bytes: 30}}},
		{Path: "/two", Err: errors.New("input/output error")},
		{Path: "/three", Total: 7, Usable: 6},
	}
	ask := func(v int16, topics map[string][]int32) string {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Version = v
		if topics != nil {
			req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
		}
		for topic, partitions := range topics {
			r := kmsg.NewDescribeLogDirsRequestTopic()
			r.Topic, r.Partitions = topic, partitions
			req.Topics = append(req.Topics, r)
		}
		resp := c.DescribeLogDirs(context.Background(), roundTrip(t, req, kmsg.NewPtrDescribeLogDirsRequest()), client)
		resp = roundTrip(t, resp, kmsg.NewPtrDescribeLogDirsResponse())
		var out []string
		for _, d := range resp.Dirs {
			s := fmt.Sprintf("%s %d %d/%d", d.Dir, d.ErrorCode, d.UsableBytes, d.TotalBytes)
			for _, topic := range d.Topics {
				for _, p := range topic.Partitions {
					s += fmt.Sprintf(" %s-%d:%d,%d,%v", topic.Topic, p.Partition, p.Size, p.OffsetLag, p.IsFuture)
				}
			}
			out = append(out, s)
		}
		return strings.Join(out, "; ")
	}
	eachVersion(t, 1, 5, func(t *testing.T, v int16) {
		sizes := []any{"400/1000", "6/7"}
		if v < 4 {
			sizes = []any{"-1/-1", "-1/-1"}
		}
		for _, tt := range []struct {
			topics map[string][]int32
			want   string
		}{
			{nil, "/one 0 %s a-0:10,0,false a-1:30,0,false b-0:20,3,true; /two 56 -1/-1; /three 0 %s"},
			{map[string][]int32{"a": {1, 9}}, "/one 0 %s a-1:30,0,false; /two 56 -1/-1; /three 0 %s"},
			{map[string][]int32{"none": {0}}, "/one 0 %s; /two 56 -1/-1; /three 0 %s"},
			{map[string][]int32{}, "/one 0 %s; /two 56 -1/-1; /three 0 %s"},
		} {
			if got, want := ask(v, tt.topics), fmt.Sprintf(tt.want, sizes...); got != want {
				t.Errorf("%v: got %s, want %s", tt.topics, got, want)
			}
		}
	})
}

func TestDescribeLogDirsAbsolute(t *testing.T) {
	c := newCluster(t)
	c.dirs = []meta.LogDir{{Path: "data"}}
	resp := c.DescribeLogDirs(context.Background(), kmsg.NewPtrDescribeLogDirsRequest(), client)
	if dir := resp.Dirs[0].Dir; !filepath.IsAbs(dir) || filepath.Base(dir) != "data" {
		t.Errorf("directory %s", dir)
	}
}

func TestDeleteRecords(t *testing.T) {
	type asked struct {
		topic      string
		partitions []int64 // partition, offset, ...
	}
	tests := []struct {
		title string
		asked []asked
		fails error
		want  string
		calls []string
	}{
		{"some", []asked{{"a", []int64{0, 5, 1, -1}}}, nil, "a-0:5:0 a-1:0:0", []string{"delete records a-0 5", "delete records a-1 -1"}},
		{"unknown", []asked{{"none", []int64{0, 5}}, {"a", []int64{9, 1, -1, 1}}}, nil, "none-0:-1:3 a-9:-1:3 a--1:-1:3", nil},
		{"internal", []asked{{"__consumer_offsets", []int64{0, 5}}}, nil, "__consumer_offsets-0:-1:17", nil},
		{"twice", []asked{{"a", []int64{0, 5, 0, 3}}, {"a", []int64{1, 2}}}, nil, "a-0:5:0 a-1:0:0", []string{"delete records a-0 3", "delete records a-1 2"}},
		{"out of range", []asked{{"a", []int64{0, 50}}}, fail(kerr.OffsetOutOfRange, "x"), "a-0:-1:1", []string{"delete records a-0 50"}},
		{"compacted", []asked{{"a", []int64{0, 5}}}, kerr.PolicyViolation, "a-0:-1:44", []string{"delete records a-0 5"}},
		{"not led here", []asked{{"a", []int64{0, 5}}}, kerr.NotLeaderForPartition, "a-0:-1:6", []string{"delete records a-0 5"}},
		{"failed", []asked{{"a", []int64{0, 5}}}, errors.New("write /x: no space"), "a-0:-1:-1", []string{"delete records a-0 5"}},
		{"nothing", nil, nil, "", nil},
		{"no partitions", []asked{{"a", nil}}, nil, "", nil},
	}
	for _, tt := range tests {
		eachVersion(t, 0, 2, func(t *testing.T, v int16) {
			c := newCluster(t)
			c.topic("a", id(1), 2)
			c.topic("__consumer_offsets", id(2), 1)
			c.low[record.TopicPartition{Topic: "a", Partition: 0}] = 5
			c.failing = tt.fails
			req := kmsg.NewPtrDeleteRecordsRequest()
			req.Version, req.TimeoutMillis = v, 1000
			for _, a := range tt.asked {
				topic := kmsg.NewDeleteRecordsRequestTopic()
				topic.Topic = a.topic
				for i := 0; i < len(a.partitions); i += 2 {
					p := kmsg.NewDeleteRecordsRequestTopicPartition()
					p.Partition, p.Offset = int32(a.partitions[i]), a.partitions[i+1]
					topic.Partitions = append(topic.Partitions, p)
				}
				req.Topics = append(req.Topics, topic)
			}
			resp := c.Handlers.DeleteRecords(context.Background(), roundTrip(t, req, kmsg.NewPtrDeleteRecordsRequest()), client)
			var got []string
			for _, topic := range roundTrip(t, resp, kmsg.NewPtrDeleteRecordsResponse()).Topics {
				for _, p := range topic.Partitions {
					got = append(got, fmt.Sprintf("%s-%d:%d:%d", topic.Topic, p.Partition, p.LowWatermark, p.ErrorCode))
				}
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("%s: got %s, want %s", tt.title, s, tt.want)
			}
			c.expectCalls(tt.calls...)
		})
	}
}
