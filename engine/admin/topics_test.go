package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newTopic makes a topic of a CreateTopics request; configs are "key=value", or
// "key" for null.
func newTopic(name string, partitions int32, replicas int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
	for _, pair := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		key, value, ok := strings.Cut(pair, "=")
		if c.Name = key; ok {
			c.Value = &value
		}
		t.Configs = append(t.Configs, c)
	}
	return t
}

// placed adds a replica assignment.
func placed(t kmsg.CreateTopicsRequestTopic, partition int32, replicas ...int32) kmsg.CreateTopicsRequestTopic {
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Partition, a.Replicas = partition, replicas
	t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	return t
}

func createTopics(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis, r.Topics = 7, 5000, topics
	return r
}

func createBrief(resp *kmsg.CreateTopicsResponse) []string {
	var out []string
	for _, t := range resp.Topics {
		out = append(out, fmt.Sprintf("%s %d %s", t.Topic, t.ErrorCode, str(t.ErrorMessage)))
	}
	return out
}

func TestCreateTopics(t *testing.T) {
	many := newTopic("many", 10001, 1)
	tests := []struct {
		title  string
		topics []kmsg.CreateTopicsRequestTopic
		want   []string
		calls  []string
	}{
		{"plain", []kmsg.CreateTopicsRequestTopic{newTopic("x", 2, 1, "retention.ms=5")},
			[]string{"x 0 <null>"}, []string{"create x 2 1 map[] map[retention.ms:5] false"}},
		{"defaults are the controller's", []kmsg.CreateTopicsRequestTopic{newTopic("x", -1, -1)},
			[]string{"x 0 <null>"}, []string{"create x -1 -1 map[] map[] false"}},
		{"the last of a config given twice", []kmsg.CreateTopicsRequestTopic{newTopic("x", 1, 1, "retention.ms=5", "retention.ms=6")},
			[]string{"x 0 <null>"}, []string{"create x 1 1 map[] map[retention.ms:6] false"}},
		{"placed by hand", []kmsg.CreateTopicsRequestTopic{placed(placed(newTopic("x", -1, -1), 0, 1), 1, 3, 1)},
			[]string{"x 0 <null>"}, []string{"create x -1 -1 map[0:[1] 1:[3 1]] map[] false"}},
		{"placed twice", []kmsg.CreateTopicsRequestTopic{placed(placed(newTopic("x", -1, -1), 0, 1), 0, 1)},
			[]string{"x 39 Found multiple manual partition assignments for partition 0"}, nil},
		{"names", []kmsg.CreateTopicsRequestTopic{newTopic("", 1, 1), newTopic(".", 1, 1), newTopic("..", 1, 1), newTopic("a b", 1, 1), newTopic("ü", 1, 1), newTopic(strings.Repeat("x", 250), 1, 1), newTopic("__cluster_metadata", 1, 1), newTopic(strings.Repeat("x", 249), 1, 1)},
			[]string{
				" 17 Topic name is invalid: the empty string is not allowed",
				". 17 Topic name is invalid: '.' is not allowed",
				".. 17 Topic name is invalid: '..' is not allowed",
				"a b 17 Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
				"ü 17 Topic name is invalid: 'ü' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
				strings.Repeat("x", 250) + " 17 Topic name is invalid: the length of '" + strings.Repeat("x", 250) + "' is longer than the max allowed length 249",
				strings.Repeat("x", 249) + " 0 <null>",
				"__cluster_metadata 42 Creation of internal topic __cluster_metadata is prohibited.",
			}, []string{"create " + strings.Repeat("x", 249) + " 1 1 map[] map[] false"}},
		{"null configs", []kmsg.CreateTopicsRequestTopic{newTopic("x", 1, 1, "retention.ms", "segment.ms")},
			[]string{"x 40 Null value not supported for topic configs: retention.ms,segment.ms"}, nil},
		{"there already, whatever else", []kmsg.CreateTopicsRequestTopic{newTopic("there", 1, 1, "foo=1", "retention.ms")},
			[]string{"there 36 Topic 'there' already exists."}, nil},
		{"duplicates last and once", []kmsg.CreateTopicsRequestTopic{newTopic("d", 1, 1), newTopic("x", 1, 1), newTopic("d", 1, 1), newTopic("d", 1, 1)},
			[]string{"x 0 <null>", "d 42 Duplicate topic name."}, []string{"create x 1 1 map[] map[] false"}},
		{"too many", []kmsg.CreateTopicsRequestTopic{newTopic("x", 1, 1), many},
			[]string{"x 44 Excessively large number of partitions per request.", "many 44 Excessively large number of partitions per request."}, nil},
		{"nothing", nil, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.title, func(t *testing.T) {
			c := newCluster(t)
			c.topic("there", id(1), 1)
			resp := c.CreateTopicsHandler(createTopics(tt.topics...))
			if got := createBrief(resp); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			c.expectCalls(tt.calls...)
		})
	}
}

// CreateTopicsHandler calls the handler: the fake has the controller's method of
// the same name.
func (c *cluster) CreateTopicsHandler(req *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	return c.Handlers.CreateTopics(context.Background(), req, client)
}

func TestCreateTopicsEveryVersion(t *testing.T) {
	c := newCluster(t, "log.retention.hours=2", "message.max.bytes=77")
	c.change(func(im *meta.Image) { im.BrokerDefaults = map[string]string{"log.segment.bytes": "5000000"} })
	eachVersion(t, 2, 7, func(t *testing.T, v int16) {
		req := createTopics(newTopic("x", 2, 1, "cleanup.policy=compact, delete"))
		req.Version, req.ValidateOnly = v, true
		req = roundTrip(t, req, kmsg.NewPtrCreateTopicsRequest())
		resp := roundTrip(t, c.CreateTopicsHandler(req), kmsg.NewPtrCreateTopicsResponse())
		if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 || c.image.Topics["x"] != nil {
			t.Fatalf("%+v", resp)
		}
		topic := resp.Topics[0]
		if v >= 7 == (topic.TopicID == [16]byte{}) {
			t.Errorf("id %v", topic.TopicID)
		}
		if v < 5 {
			return
		}
		if topic.NumPartitions != 2 || topic.ReplicationFactor != 1 || topic.ConfigErrorCode != 0 {
			t.Errorf("%+v", topic)
		}
		got := map[string]string{}
		for i, e := range topic.Configs {
			got[e.Name] = fmt.Sprintf("%s %d %v", str(e.Value), e.Source, e.ReadOnly || e.IsSensitive)
			if i > 0 && topic.Configs[i-1].Name >= e.Name {
				t.Errorf("%s is out of order", e.Name)
			}
		}
		for name, want := range map[string]string{
			"cleanup.policy": "compact, delete 1 false", "retention.ms": "7200000 4 false", "max.message.bytes": "77 4 false",
			"segment.bytes": "5000000 3 false", "segment.ms": "604800000 5 false", "flush.ms": "9223372036854775807 5 false",
		} {
			if got[name] != want {
				t.Errorf("%s: got %s, want %s", name, got[name], want)
			}
		}
		if len(got) != 37 {
			t.Errorf("%d configs", len(got))
		}
	})
	// Errors carry no partitions and no configs.
	c.failing = fail(kerr.InvalidReplicationFactor, "Unable to replicate")
	resp := c.CreateTopicsHandler(createTopics(newTopic("x", 1, 3)))
	if topic := resp.Topics[0]; topic.ErrorCode != 38 || str(topic.ErrorMessage) != "Unable to replicate" || topic.NumPartitions != -1 || topic.ReplicationFactor != -1 || len(topic.Configs) != 0 {
		t.Errorf("%+v", topic)
	}
}

// TestWaitsForReplicas looks that answers wait for what was made, and for
// nothing else.
func TestWaitsForReplicas(t *testing.T) {
	c := newCluster(t)
	expect := func(want ...string) {
		t.Helper()
		if !slices.Equal(c.waited, want) {
			t.Errorf("waited for %q, want %q", c.waited, want)
		}
		c.waited = nil
	}
	c.CreateTopicsHandler(createTopics(newTopic("x", 1, 1), newTopic("bad name", 1, 1), newTopic("y", 1, 1)))
	expect("x", "y")
	dry := createTopics(newTopic("z", 1, 1))
	dry.ValidateOnly = true
	c.CreateTopicsHandler(dry)
	expect()
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Topics = append(grow.Topics, kmsg.NewCreatePartitionsRequestTopic(), kmsg.NewCreatePartitionsRequestTopic())
	grow.Topics[0].Topic, grow.Topics[0].Count, grow.Topics[1].Topic = "x", 2, "none"
	c.Handlers.CreatePartitions(context.Background(), grow, client)
	expect("x")
	grow.ValidateOnly = true
	c.Handlers.CreatePartitions(context.Background(), grow, client)
	expect()
	c.Metadata(context.Background(), metadataRequest(12, true, "auto", "x"), client)
	expect("auto")
}

func TestCreatePartitions(t *testing.T) {
	grow := func(topic string, count int32, lists ...[]int32) kmsg.CreatePartitionsRequestTopic {
		r := kmsg.NewCreatePartitionsRequestTopic()
		r.Topic, r.Count = topic, count
		for _, l := range lists {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = l
			r.Assignment = append(r.Assignment, a)
		}
		return r
	}
	empty := grow("a", 5)
	empty.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
	tests := []struct {
		title  string
		topics []kmsg.CreatePartitionsRequestTopic
		fails  error
		want   string
		calls  []string
	}{
		{"grow", []kmsg.CreatePartitionsRequestTopic{grow("a", 4)}, nil, "a 0 <null>", []string{"partitions a 4 any true"}},
		{"by hand", []kmsg.CreatePartitionsRequestTopic{grow("a", 4, []int32{1}, []int32{3})}, nil, "a 0 <null>", []string{"partitions a 4 [[1] [3]] true"}},
		{"an empty list is one", []kmsg.CreatePartitionsRequestTopic{empty}, nil, "a 0 <null>", []string{"partitions a 5 [] true"}},
		{"unknown", []kmsg.CreatePartitionsRequestTopic{grow("none", 4)}, nil, "none 3 <null>", []string{"partitions none 4 any true"}},
		{"refused", []kmsg.CreatePartitionsRequestTopic{grow("a", 1)}, fail(kerr.InvalidPartitions, "Topic already has 1 partition(s)."), "a 37 Topic already has 1 partition(s).", []string{"partitions a 1 any true"}},
		{"duplicates", []kmsg.CreatePartitionsRequestTopic{grow("a", 4), grow("b", 9), grow("a", 5)}, nil, "a 42 Duplicate topic name.; b 0 <null>", []string{"partitions b 9 any true"}},
		{"the most", []kmsg.CreatePartitionsRequestTopic{grow("a", 10002)}, nil, "a 0 <null>", []string{"partitions a 10002 any true"}},
		{"too many", []kmsg.CreatePartitionsRequestTopic{grow("a", 10003), grow("b", 2)}, nil, "a 44 Excessively large number of additional partitions per request.; b 44 Excessively large number of additional partitions per request.", nil},
		{"nothing", nil, nil, "", nil},
	}
	for _, tt := range tests {
		eachVersion(t, 0, 3, func(t *testing.T, v int16) {
			c := newCluster(t)
			c.topic("a", id(1), 2)
			c.topic("b", id(2), 1)
			c.failing = tt.fails
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.Version, req.TimeoutMillis, req.ValidateOnly, req.Topics = v, 1000, true, tt.topics
			resp := c.Handlers.CreatePartitions(context.Background(), roundTrip(t, req, kmsg.NewPtrCreatePartitionsRequest()), client)
			resp = roundTrip(t, resp, kmsg.NewPtrCreatePartitionsResponse())
			var got []string
			for _, topic := range resp.Topics {
				got = append(got, fmt.Sprintf("%s %d %s", topic.Topic, topic.ErrorCode, str(topic.ErrorMessage)))
			}
			if s := strings.Join(got, "; "); s != tt.want {
				t.Errorf("%s: got %s, want %s", tt.title, s, tt.want)
			}
			c.expectCalls(tt.calls...)
		})
	}
}

func TestDeleteTopics(t *testing.T) {
	byName := func(name string) kmsg.DeleteTopicsRequestTopic {
		r := kmsg.NewDeleteTopicsRequestTopic()
		r.Topic = &name
		return r
	}
	byID := func(id record.TopicID) kmsg.DeleteTopicsRequestTopic {
		r := kmsg.NewDeleteTopicsRequestTopic()
		r.TopicID = id
		return r
	}
	both := byName("a")
	both.TopicID = id(1)
	tests := []struct {
		title  string
		topics []kmsg.DeleteTopicsRequestTopic
		want   string
		calls  []string
	}{
		{"by name", []kmsg.DeleteTopicsRequestTopic{byName("a"), byName("b")}, "a 1 0 <null>; b 2 0 <null>", []string{"delete a", "delete b"}},
		{"by id", []kmsg.DeleteTopicsRequestTopic{byID(id(2)), byName("a")}, "b 2 0 <null>; a 1 0 <null>", []string{"delete b", "delete a"}},
		{"unknown", []kmsg.DeleteTopicsRequestTopic{byName("x"), byName("bad name"), byID(id(9))},
			"x 0 3 This server does not host this topic-partition.; bad name 0 3 This server does not host this topic-partition.; <null> 9 100 This server does not host this topic ID.", nil},
		{"neither", []kmsg.DeleteTopicsRequestTopic{byID(record.TopicID{})}, "<null> 0 42 Neither topic name nor id were specified.", nil},
		{"both", []kmsg.DeleteTopicsRequestTopic{both}, "a 1 42 You may not specify both topic name and topic id.", nil},
		{"both, and by name", []kmsg.DeleteTopicsRequestTopic{both, byName("a")}, "a 1 42 You may not specify both topic name and topic id.; a 1 0 <null>", []string{"delete a"}},
		{"duplicate names", []kmsg.DeleteTopicsRequestTopic{byName("a"), byName("b"), byName("a")}, "a 0 42 Duplicate topic name.; b 2 0 <null>", []string{"delete b"}},
		{"duplicate ids", []kmsg.DeleteTopicsRequestTopic{byID(id(1)), byID(id(1))}, "<null> 1 42 Duplicate topic id.", nil},
		{"a name and its id", []kmsg.DeleteTopicsRequestTopic{byID(id(1)), byName("a")}, "a 1 42 The provided topic name maps to an ID that was already supplied.", nil},
		{"a name and its id twice", []kmsg.DeleteTopicsRequestTopic{byID(id(1)), byID(id(1)), byName("a")},
			"<null> 1 42 Duplicate topic id.; a 1 42 The provided topic name maps to an ID that was already supplied.", nil},
		{"a name twice and its id", []kmsg.DeleteTopicsRequestTopic{byName("a"), byName("a"), byID(id(1))}, "a 0 42 Duplicate topic name.; a 1 0 <null>", []string{"delete a"}},
		{"nothing", nil, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.title, func(t *testing.T) {
			c := newCluster(t)
			c.topic("a", id(1), 1)
			c.topic("b", id(2), 1)
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.Version, req.TimeoutMillis, req.Topics = 6, 1000, tt.topics
			resp := c.Handlers.DeleteTopics(context.Background(), roundTrip(t, req, kmsg.NewPtrDeleteTopicsRequest()), client)
			var got []string
			for _, topic := range roundTrip(t, resp, kmsg.NewPtrDeleteTopicsResponse()).Topics {
				got = append(got, fmt.Sprintf("%s %d %d %s", str(topic.Topic), topic.TopicID[15], topic.ErrorCode, str(topic.ErrorMessage)))
			}
			if s := strings.Join(got, "; "); s != tt.want {
				t.Errorf("got %s, want %s", s, tt.want)
			}
			c.expectCalls(tt.calls...)
		})
	}
}

func TestDeleteTopicsEveryVersion(t *testing.T) {
	eachVersion(t, 1, 6, func(t *testing.T, v int16) {
		for _, enabled := range []bool{true, false} {
			c := newCluster(t, fmt.Sprintf("delete.topic.enable=%v", enabled))
			c.topic("a", id(1), 1)
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.Version, req.TimeoutMillis, req.TopicNames = v, 1000, []string{"a", "x"}
			for i := range req.TopicNames {
				topic := kmsg.NewDeleteTopicsRequestTopic()
				topic.Topic = &req.TopicNames[i]
				req.Topics = append(req.Topics, topic)
			}
			req = roundTrip(t, req, kmsg.NewPtrDeleteTopicsRequest())
			resp := roundTrip(t, c.Handlers.DeleteTopics(context.Background(), req, client), kmsg.NewPtrDeleteTopicsResponse())
			got := fmt.Sprint(resp.Topics[0].ErrorCode, resp.Topics[1].ErrorCode)
			want := "0 3"
			if !enabled && v < 3 {
				want = "42 42"
			} else if !enabled {
				want = "73 73"
			}
			if got != want || len(resp.Topics) != 2 {
				t.Errorf("enabled %v: got %s, want %s", enabled, got, want)
			}
			if gone := c.image.Topics["a"] == nil; gone != enabled {
				t.Errorf("gone: %v", gone)
			}
		}
	})
}
