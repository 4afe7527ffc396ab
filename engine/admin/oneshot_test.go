package admin

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestElectLeaders(t *testing.T) {
	c := newCluster(t)
	c.topic("led", id(1), 2)
	c.topic("lost", id(2), 2).Partitions[1].Leader = meta.NoLeader
	for _, tt := range []struct {
		kind   int8
		topic  string
		p      int32
		answer string
	}{
		{0, "led", 0, "84 Leader election not needed for topic partition."},
		{1, "led", 1, "84 Leader election not needed for topic partition."},
		{0, "led", 2, "3 No such partition as led-2"},
		{0, "none", 0, "3 No such topic as none"},
		{0, "lost", 1, "80 The preferred leader was not available."},
		{1, "lost", 1, "83 Eligible topic partition leaders are not available."},
		{7, "led", 0, "42 Unknown election type 7"},
	} {
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version, req.ElectionType = 2, tt.kind
		req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: tt.topic, Partitions: []int32{tt.p}}}
		resp := roundTrip(t, c.ElectLeaders(context.Background(), req, client), kmsg.NewPtrElectLeadersResponse())
		p := resp.Topics[0].Partitions[0]
		if got := fmt.Sprintf("%d %s", p.ErrorCode, str(p.ErrorMessage)); got != tt.answer || p.Partition != tt.p {
			t.Errorf("%+v: got %s", tt, got)
		}
	}
	all := kmsg.NewPtrElectLeadersRequest()
	all.Version = 2
	resp := c.ElectLeaders(context.Background(), all, client)
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != "lost" || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != 1 {
		t.Errorf("all: %+v", resp.Topics)
	}
}

func TestReassignments(t *testing.T) {
	c := newCluster(t)
	moving := c.topic("moving", id(1), 2)
	moving.Partitions[1].Adding = []int32{3}
	for _, tt := range []struct {
		topic  string
		p      int32
		target []int32
		answer string
	}{
		{"moving", 0, []int32{1}, "0 <null>"},
		{"moving", 0, nil, "85 <null>"},
		{"moving", 0, []int32{3}, "39 Replicas cannot be moved between brokers in this version."},
		{"moving", 0, []int32{77}, "39 The manual partition assignment includes broker 77, but no such broker is registered."},
		{"moving", 0, []int32{1, 1}, "39 The manual partition assignment includes the broker 1 more than once."},
		{"moving", 0, []int32{}, "39 The manual partition assignment includes an empty replica list."},
		{"moving", 9, []int32{1}, "3 Unable to find partition moving:9."},
		{"none", 0, []int32{1}, "3 Unable to find a topic named none."},
	} {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.Version = 1
		req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: tt.topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: tt.p, Replicas: tt.target}}}}
		resp := roundTrip(t, c.AlterPartitionAssignments(context.Background(), req, client), kmsg.NewPtrAlterPartitionAssignmentsResponse())
		p := resp.Topics[0].Partitions[0]
		if got := fmt.Sprintf("%d %s", p.ErrorCode, str(p.ErrorMessage)); got != tt.answer {
			t.Errorf("%+v: got %s", tt, got)
		}
	}
	list := kmsg.NewPtrListPartitionReassignmentsRequest()
	if resp := c.ListPartitionReassignments(context.Background(), list, client); len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != 1 {
		t.Errorf("all: %+v", resp.Topics)
	}
	list.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: "moving", Partitions: []int32{0, 9}}, {Topic: "none", Partitions: []int32{0}}}
	if resp := c.ListPartitionReassignments(context.Background(), list, client); len(resp.Topics) != 0 || resp.ErrorCode != 0 {
		t.Errorf("some: %+v", resp)
	}
}

func TestUpdateFeatures(t *testing.T) {
	const failed = "95 The update failed for all features since the following feature had an error: "
	for _, tt := range []struct {
		name   string
		level  int16
		kind   int8
		answer string
		call   string
	}{
		{"group.version", 1, 1, "0 <null>", "features map[group.version:1]"},
		{"group.version", 0, 2, "0 <null>", "features map[group.version:0]"},
		{"group.version", 0, 1, failed + "Invalid update version 0 for feature group.version. Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.", ""},
		{"group.version", 2, 1, failed + "Invalid update version 2 for feature group.version. Local controller 1 only supports versions 0-1", ""},
		{"kraft.version", 1, 2, failed + "Invalid update version 1 for feature kraft.version. Can't downgrade to a newer version.", ""},
		{"metadata.version", 30, 1, failed + "Invalid update version 30 for feature metadata.version. Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.", ""},
		{"metadata.version", 30, 2, failed + "Unsupported metadata.version downgrade from 33 to 30. Refusing to perform the requested downgrade because it might delete metadata information.", ""},
		{"metadata.version", -1, 2, failed + "Invalid update version -1 for feature metadata.version. A feature version cannot be less than 0.", ""},
		{"nothing", 1, 1, failed + "Invalid update version 1 for feature nothing. Local controller 1 does not support this feature.", ""},
		{"group.version", 1, 4, failed + "Invalid update version 1 for feature group.version. The controller does not support the given upgrade type.", ""},
	} {
		for _, validateOnly := range []bool{true, false} {
			c := newCluster(t)
			req := kmsg.NewPtrUpdateFeaturesRequest()
			req.Version, req.ValidateOnly = 2, validateOnly
			req.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: tt.name, MaxVersionLevel: tt.level, UpgradeType: tt.kind}}
			resp := roundTrip(t, c.Handlers.UpdateFeatures(context.Background(), req, client), kmsg.NewPtrUpdateFeaturesResponse())
			if got := fmt.Sprintf("%d %s", resp.ErrorCode, str(resp.ErrorMessage)); got != tt.answer {
				t.Errorf("%+v: got %s", tt, got)
			}
			if tt.call != "" && !validateOnly {
				c.expectCalls(tt.call)
			} else {
				c.expectCalls()
			}
		}
	}
	c := newCluster(t)
	old := kmsg.NewPtrUpdateFeaturesRequest()
	old.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "group.version", MaxVersionLevel: 1, AllowDowngrade: false}}
	if resp := c.Handlers.UpdateFeatures(context.Background(), old, client); resp.ErrorCode != 0 || len(resp.Results) != 1 {
		t.Errorf("v0: %+v", resp)
	}
}

func TestDescribeQuorumAndResources(t *testing.T) {
	c := newCluster(t)
	c.topic("b", id(1), 1)
	c.topic("a", id(2), 1)
	c.change(func(im *meta.Image) { im.Revision, im.GroupConfigs = 55, map[string]map[string]string{"g": {}} })
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = 2
	req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: 0}, {Partition: 1}}}}
	resp := roundTrip(t, c.DescribeQuorum(context.Background(), req, client), kmsg.NewPtrDescribeQuorumResponse())
	p := resp.Topics[0].Partitions
	if p[0].LeaderID != 1 || p[0].HighWatermark != 55 || len(p[0].CurrentVoters) != 3 || p[0].CurrentVoters[0].LastCaughtUpTimestamp <= 0 || p[1].ErrorCode != 3 {
		t.Errorf("%+v", p)
	}
	if len(resp.Nodes) != 1 || len(resp.Nodes[0].Listeners) != 2 || resp.Nodes[0].Listeners[0].Port != 9092 {
		t.Errorf("nodes %+v", resp.Nodes)
	}
	list := func(version int16, kinds ...int8) string {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version, req.ResourceTypes = version, kinds
		resp := roundTrip(t, c.ListConfigResources(context.Background(), req, client), kmsg.NewPtrListConfigResourcesResponse())
		s := fmt.Sprint(resp.ErrorCode)
		for _, r := range resp.ConfigResources {
			s += fmt.Sprintf(" %s/%d", r.Name, r.Type)
		}
		return s
	}
	for got, want := range map[string]string{
		list(0): "0", list(1, 2, 2): "0 a/2 b/2", list(1, 32): "0 g/32", list(1, 16): "0", list(1, 4, 99): "35",
		list(1): "0 g/32 1/8 2/8 3/8 1/4 2/4 3/4 a/2 b/2",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDescribeProducers(t *testing.T) {
	c := newCluster(t)
	c.topic("a", id(1), 2)
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "a", Partitions: []int32{1, 5}}, {Topic: "no topic", Partitions: []int32{0}}}
	resp := roundTrip(t, c.DescribeProducers(context.Background(), req, client), kmsg.NewPtrDescribeProducersResponse())
	p := resp.Topics[0].Partitions
	if len(p[0].ActiveProducers) != 1 || p[0].ActiveProducers[0].CurrentTxnStartOffset != 1 || p[0].ActiveProducers[0].ProducerID != 7 {
		t.Errorf("%+v", p[0])
	}
	if p[1].ErrorCode != 3 || resp.Topics[1].Partitions[0].ErrorCode != 17 {
		t.Errorf("errors %+v", resp)
	}
}

// budget is a mutation quota of so many partitions.
type budget struct {
	left   int
	strict []bool
}

func (b *budget) Take(n int, strict bool) bool {
	b.strict = append(b.strict, strict)
	if strict && b.left <= 0 {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) ThrottleMs() int64 { return 7 }

func TestMutationQuota(t *testing.T) {
	ctx := context.Background()
	create := func(version int16, names ...string) *kmsg.CreateTopicsRequest {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = version, 1000
		for _, name := range names {
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 3, 1
			req.Topics = append(req.Topics, topic)
		}
		return req
	}
	for version, want := range map[int16]string{6: "[0 0 89]", 5: "[0 0 0]"} {
		c, b := newCluster(t), &budget{left: 4}
		cl := client
		cl.Mutations, cl.Version = b, version
		var codes []int16
		for _, topic := range c.Handlers.CreateTopics(ctx, create(version, "a", "b", "c"), cl).Topics {
			codes = append(codes, topic.ErrorCode)
		}
		if fmt.Sprint(codes) != want || b.strict[0] != (version == 6) {
			t.Errorf("v%d: %v, want %s; %v", version, codes, want, b.strict)
		}
		if _, made := c.image.Topics["c"]; made == (version == 6) {
			t.Errorf("v%d: c is made %v", version, made)
		}
	}
	c, b := newCluster(t), &budget{left: 1}
	c.topic("a", id(1), 2)
	c.topic("b", id(2), 2)
	cl := client
	cl.Mutations, cl.Version = b, 3
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Version, grow.TimeoutMillis = 3, 1000
	for _, name := range []string{"a", "b"} {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = name, 5
		grow.Topics = append(grow.Topics, topic)
	}
	if resp := c.Handlers.CreatePartitions(ctx, grow, cl); resp.Topics[0].ErrorCode != 0 || resp.Topics[1].ErrorCode != 89 || b.left != -2 {
		t.Errorf("partitions: %+v, %d left", resp.Topics, b.left)
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.Version, del.TopicNames = 5, []string{"a", "b"}
	b.left, cl.Version = 1, 5
	resp := c.Handlers.DeleteTopics(ctx, del, cl)
	if resp.Topics[0].ErrorCode != 0 || resp.Topics[1].ErrorCode != 89 || c.image.Topics["b"] == nil || c.image.Topics["a"] != nil {
		t.Errorf("delete: %+v", resp.Topics)
	}
}

func TestChangesAreLogged(t *testing.T) {
	c := newCluster(t)
	var out bytes.Buffer
	c.Logger = slog.New(slog.NewTextHandler(&out, nil))
	c.topic("a", id(1), 1, "retention.ms=9")
	for _, want := range []struct {
		req  *kmsg.IncrementalAlterConfigsRequest
		line string
	}{
		{incremental(topicResource, "a", "retention.ms=10"), `resource="topic a" key=retention.ms from=9 to=10 client=test peer=127.0.0.1:1`},
		{incremental(brokerResource, "", "max.connections=10"), `resource="all brokers" key=max.connections from=<nil> to=10`},
		{incremental(brokerResource, "1", "my.plugin.key=hush"), `resource="broker 1" key=my.plugin.key from=<nil> to=[hidden]`},
		{incremental(groupResource, "g", "consumer.session.timeout.ms=50000"), `resource="group g" key=consumer.session.timeout.ms from=<nil> to=50000`},
		{incremental(loggerResource, "1", "root=WARN"), `resource="logger of broker 1" key=root from=INFO to=WARN`},
	} {
		out.Reset()
		c.IncrementalAlterConfigs(context.Background(), want.req, client)
		if !strings.Contains(out.String(), want.line) {
			t.Errorf("log %q, want %q", out.String(), want.line)
		}
	}
	out.Reset()
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.TimeoutMillis = 1000
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: 4}}
	c.Handlers.CreatePartitions(context.Background(), grow, client)
	if want := `resource="topic a" key=partitions from=1 to=4`; !strings.Contains(out.String(), want) {
		t.Errorf("log %q, want %q", out.String(), want)
	}
}
