package admin

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// brief renders the topics of a Metadata response: name:code(partition/leader/error...).
func brief(resp *kmsg.MetadataResponse) string {
	var out []string
	for _, t := range resp.Topics {
		s := fmt.Sprintf("%s:%d", str(t.Topic), t.ErrorCode)
		for _, p := range t.Partitions {
			s += fmt.Sprintf(" %d/%d/%d", p.Partition, p.Leader, p.ErrorCode)
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func TestMetadataEveryVersion(t *testing.T) {
	c := newCluster(t)
	topic := c.topic("a", id(1), 2)
	topic.Partitions[1].Leader = 3 // not on this listener
	c.topic("__consumer_offsets", id(2), 1)
	eachVersion(t, 0, 13, func(t *testing.T, v int16) {
		req := roundTrip(t, metadataRequest(v, false, "a", "none", "__consumer_offsets", "a", "bad name"), kmsg.NewPtrMetadataRequest())
		resp := roundTrip(t, c.Metadata(context.Background(), req, client), kmsg.NewPtrMetadataResponse())
		missing := "5" // LEADER_NOT_AVAILABLE
		if v >= 6 {
			missing = "72" // LISTENER_NOT_FOUND
		}
		none := "3"
		if v < 4 {
			none = "0 0/1/0" // created on demand: these versions cannot say no
		}
		want := "a:0 0/1/0 1/-1/" + missing + "; none:" + none + "; __consumer_offsets:0 0/1/0; bad name:17"
		if got := brief(resp); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 1 || resp.Brokers[0].Host != "one" || resp.Brokers[0].Port != 9092 {
			t.Errorf("brokers %+v", resp.Brokers)
		}
		if v >= 1 && (resp.ControllerID != 1 || str(resp.Brokers[0].Rack) != "a" || !resp.Topics[2].IsInternal || resp.Topics[0].IsInternal) {
			t.Errorf("%+v", resp)
		}
		if v >= 2 && str(resp.ClusterID) != "kluster" {
			t.Errorf("cluster %s", str(resp.ClusterID))
		}
		if v >= 5 && fmt.Sprint(resp.Topics[0].Partitions[0].OfflineReplicas) != "[]" {
			t.Errorf("offline %v", resp.Topics[0].Partitions[0].OfflineReplicas)
		}
		if v >= 7 && resp.Topics[0].Partitions[0].LeaderEpoch != 4 {
			t.Errorf("epoch %d", resp.Topics[0].Partitions[0].LeaderEpoch)
		}
		if v >= 8 && (resp.Topics[0].AuthorizedOperations != notAsked || v <= 10 && resp.AuthorizedOperations != notAsked) {
			t.Errorf("operations %d, %d", resp.Topics[0].AuthorizedOperations, resp.AuthorizedOperations)
		}
		if v >= 10 && (record.TopicID(resp.Topics[0].TopicID) != id(1) || resp.Topics[1].TopicID != [16]byte{}) {
			t.Errorf("ids %v %v", resp.Topics[0].TopicID, resp.Topics[1].TopicID)
		}
		if _, made := c.image.Topics["none"]; made != (v < 4) {
			t.Errorf("created: %v", made)
		}
		c.change(func(im *meta.Image) { delete(im.Topics, "none") })
	})
}

func TestMetadataListeners(t *testing.T) {
	c := newCluster(t)
	topic := c.topic("a", id(1), 3)
	topic.Partitions[0] = meta.Partition{Leader: 3, Replicas: []int32{3, 1, 2}, ISR: []int32{3, 1}, Offline: []int32{2}}
	topic.Partitions[1] = meta.Partition{Leader: meta.NoLeader, Replicas: []int32{2}, ISR: []int32{2}, Offline: []int32{2}}
	topic.Partitions[2] = meta.Partition{Leader: 1, Replicas: []int32{1, 3}, ISR: []int32{1, 3}}
	resp := c.Metadata(context.Background(), metadataRequest(12, false, "a"), Client{Listener: "INTERNAL"})
	if got := brief(resp); got != "a:0 0/3/0 1/-1/5 2/1/0" {
		t.Errorf("internal: %s", got)
	}
	if len(resp.Brokers) != 2 || resp.Brokers[0].Host != "one.internal" || resp.Brokers[1].Host != "three.internal" {
		t.Errorf("%+v", resp.Brokers)
	}
	resp = c.Metadata(context.Background(), metadataRequest(12, false, "a"), client)
	if got := fmt.Sprint(resp.Topics[0].Partitions[2].OfflineReplicas, resp.Topics[0].Partitions[0].OfflineReplicas); got != "[3] [2 3]" {
		t.Errorf("offline %s", got)
	}
	// v0 leaves out replicas that this listener cannot reach.
	resp = c.Metadata(context.Background(), metadataRequest(0, false, "a"), client)
	if got := brief(resp); got != "a:0 0/-1/5 1/-1/5 2/1/9" {
		t.Errorf("v0: %s", got)
	}
	if got := fmt.Sprint(resp.Topics[0].Partitions[2].Replicas); got != "[1]" {
		t.Errorf("v0 replicas %s", got)
	}
	// A listener that no broker has.
	resp = c.Metadata(context.Background(), metadataRequest(12, false, "a"), Client{Listener: "OTHER"})
	if len(resp.Brokers) != 0 || resp.ControllerID != -1 {
		t.Errorf("%+v, controller %d", resp.Brokers, resp.ControllerID)
	}
	// The controller in office is not on the listener: some live broker takes its place.
	c.change(func(im *meta.Image) { im.ControllerID = 3 })
	if resp = c.Metadata(context.Background(), metadataRequest(12, false), client); resp.ControllerID != 1 {
		t.Errorf("controller %d", resp.ControllerID)
	}
}

func TestMetadataAllOrNone(t *testing.T) {
	c := newCluster(t)
	c.topic("b", id(1), 1)
	c.topic("a", id(2), 1)
	eachVersion(t, 0, 13, func(t *testing.T, v int16) {
		none := roundTrip(t, metadataRequest(v, true), kmsg.NewPtrMetadataRequest())
		want := 0
		if v == 0 {
			want = 2
		}
		if resp := c.Metadata(context.Background(), none, client); len(resp.Topics) != want {
			t.Errorf("an empty list gave %d topics", len(resp.Topics))
		}
		if v == 0 {
			return
		}
		all := metadataRequest(v, true)
		all.Topics = nil
		resp := c.Metadata(context.Background(), roundTrip(t, all, kmsg.NewPtrMetadataRequest()), client)
		if got := brief(resp); got != "a:0 0/1/0; b:0 0/1/0" {
			t.Errorf("all: %s", got)
		}
	})
	c.expectCalls()
}

func TestMetadataByID(t *testing.T) {
	c := newCluster(t)
	c.topic("a", id(1), 1)
	byID := func(version int16, ids ...record.TopicID) *kmsg.MetadataRequest {
		req := metadataRequest(version, true, "z")
		for _, id := range ids {
			t := kmsg.NewMetadataRequestTopic()
			t.TopicID = id
			req.Topics = append(req.Topics, t)
		}
		return req
	}
	// With any id in the request names do not count.
	resp := c.Metadata(context.Background(), byID(12, id(1), id(9), id(1)), client)
	if got := brief(resp); got != "a:0 0/1/0; <null>:100" || record.TopicID(resp.Topics[1].TopicID) != id(9) {
		t.Errorf("got %s", got)
	}
	for _, req := range []*kmsg.MetadataRequest{byID(11, id(1)), byID(10, id(1)), byID(12, record.TopicID{})} {
		resp := c.Metadata(context.Background(), req, client)
		if got := brief(resp); got != "z:42; :42" || resp.Brokers != nil || resp.ControllerID != -1 || resp.ClusterID != nil {
			t.Errorf("v%d: got %s of %+v", req.Version, got, resp)
		}
	}
	c.expectCalls()
}

func TestMetadataOperations(t *testing.T) {
	c := newCluster(t)
	c.topic("a", id(1), 1)
	for v, want := range map[int16][2]int32{7: {notAsked, notAsked}, 8: {8096, 3576}, 10: {8096, 3576}, 11: {notAsked, 3576}, 13: {notAsked, 3576}} {
		req := metadataRequest(v, false, "a", "none")
		req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
		resp := c.Metadata(context.Background(), req, client)
		if got := [2]int32{resp.AuthorizedOperations, resp.Topics[0].AuthorizedOperations}; got != want || resp.Topics[1].AuthorizedOperations != want[1] {
			t.Errorf("v%d: got %v, want %v", v, got, want)
		}
	}
}

func TestMetadataAutoCreate(t *testing.T) {
	c := newCluster(t, "num.partitions=3")
	ask := func(auto bool, names ...string) string {
		return brief(c.Metadata(context.Background(), metadataRequest(12, auto, names...), client))
	}
	if got := ask(true, "new", "bad name", "__cluster_metadata", "new"); got != "new:0 0/1/0 1/1/0 2/1/0; bad name:17; __cluster_metadata:3" {
		t.Errorf("got %s", got)
	}
	c.expectCalls("create new 3 1 map[] map[] false")
	if got := ask(true, "new"); got != "new:0 0/1/0 1/1/0 2/1/0" {
		t.Errorf("the second time: %s", got)
	}
	ask(true, "__consumer_offsets", "__transaction_state")
	c.expectCalls(
		"create __consumer_offsets 50 1 map[] map[cleanup.policy:compact compression.type:producer segment.bytes:104857600] false",
		"create __transaction_state 50 1 map[] map[cleanup.policy:compact compression.type:uncompressed min.insync.replicas:1 segment.bytes:104857600 unclean.leader.election.enable:false] false")
	if got := ask(false, "other"); got != "other:3" {
		t.Errorf("the client says no: %s", got)
	}
	c.creating.Store("busy", nil)
	if got := ask(true, "busy"); got != "busy:3" {
		t.Errorf("another client's creation: %s", got)
	}
	c.expectCalls()
	c.failing = fail(kerr.InvalidTopicException, "Topic 'n.ew' collides")
	if got := ask(true, "n.ew"); got != "n.ew:17" {
		t.Errorf("refused: %s", got)
	}
	c.failing = kerr.TopicAlreadyExists
	if got := ask(true, "raced"); got != "raced:3" {
		t.Errorf("somebody was faster: %s", got)
	}
	c.failing = fmt.Errorf("disk on fire")
	if got := ask(true, "burnt"); got != "burnt:-1" {
		t.Errorf("failed: %s", got)
	}
	if _, busy := c.creating.Load("burnt"); busy {
		t.Error("a failed creation is still in progress")
	}
	c = newCluster(t)
	c.topic("again", id(7), 1)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TopicNames = 5, []string{"again"}
	c.Handlers.DeleteTopics(context.Background(), req, client)
	if got := ask(true, "again"); got != "again:3" {
		t.Errorf("right after the deletion: %s", got)
	}
	if got := ask(true, "again"); got != "again:0 0/1/0" {
		t.Errorf("created again: %s", got)
	}
	c = newCluster(t, "num.partitions=4000")
	if got := ask(true, "a", "b", "c"); !strings.HasSuffix(got, " 3999/1/0; c:3") {
		t.Errorf("more than one request may create: …%s", got[max(0, len(got)-40):])
	}
	c.expectCalls("create a 4000 1 map[] map[] false", "create b 4000 1 map[] map[] false")
	c = newCluster(t, "auto.create.topics.enable=false")
	if got := ask(true, "new"); got != "new:3" {
		t.Errorf("the broker says no: %s", got)
	}
	c.expectCalls()
}

// TestMetadataAutoCreateCrowd lets many clients ask for one topic at once: the
// controller is asked once, and nobody waits for another's creation.
func TestMetadataAutoCreateCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		slow := &slowController{cluster: c, release: make(chan struct{})}
		c.Handlers.Controller = slow
		answers := make(chan string, 20)
		for range cap(answers) {
			go func() {
				answers <- brief(c.Metadata(context.Background(), metadataRequest(12, true, "new"), client))
			}()
		}
		synctest.Wait()
		if n := len(answers); n != cap(answers)-1 {
			t.Errorf("%d of %d have their answer while one creates the topic", n, cap(answers))
		}
		close(slow.release)
		got := map[string]int{}
		for range cap(answers) {
			got[<-answers]++
		}
		if len(got) != 2 || got["new:3"] != cap(answers)-1 || got["new:0 0/1/0"] != 1 {
			t.Errorf("got %v", got)
		}
		c.expectCalls("create new 1 1 map[] map[] false")
	})
}

// slowController creates nothing before it is released.
type slowController struct {
	*cluster
	release chan struct{}
}

func (s *slowController) CreateTopics(ctx context.Context, specs []meta.TopicSpec, validateOnly bool) []meta.TopicResult {
	<-s.release
	return s.cluster.CreateTopics(ctx, specs, validateOnly)
}

// TestMetadataLarge describes 10,000 partitions in every version's encoding.
func TestMetadataLarge(t *testing.T) {
	c := newCluster(t)
	for i := range 1000 {
		topic := &meta.Topic{Name: fmt.Sprintf("t%04d", i), ID: record.TopicID{0: byte(i), 1: byte(i >> 8), 2: 1}}
		for range 10 {
			topic.Partitions = append(topic.Partitions, meta.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}})
		}
		c.image.Topics[topic.Name], c.image.TopicsByID[topic.ID] = topic, topic
	}
	c.change(func(*meta.Image) {})
	req := kmsg.NewPtrMetadataRequest()
	for _, v := range []int16{1, 13} {
		req.Version = v
		resp := roundTrip(t, c.Metadata(context.Background(), req, client), kmsg.NewPtrMetadataResponse())
		if len(resp.Topics) != 1000 || len(resp.Topics[999].Partitions) != 10 {
			t.Fatalf("v%d: %d topics", v, len(resp.Topics))
		}
	}
}

func TestDescribeCluster(t *testing.T) {
	c := newCluster(t)
	eachVersion(t, 0, 2, func(t *testing.T, v int16) {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version, req.IncludeClusterAuthorizedOperations, req.IncludeFencedBrokers = v, true, true
		resp := c.DescribeCluster(context.Background(), roundTrip(t, req, kmsg.NewPtrDescribeClusterRequest()), client)
		resp = roundTrip(t, resp, kmsg.NewPtrDescribeClusterResponse())
		if resp.ErrorCode != 0 || resp.ClusterID != "kluster" || resp.ControllerID != 1 || resp.ClusterAuthorizedOperations != 8096 || resp.EndpointType != 1 {
			t.Errorf("%+v", resp)
		}
		want := 1
		if v == 2 {
			want = 2 // with the fenced one
		}
		if len(resp.Brokers) != want || resp.Brokers[0].Host != "one" || str(resp.Brokers[0].Rack) != "a" || v == 2 && (!resp.Brokers[1].IsFenced || resp.Brokers[1].Rack != nil) {
			t.Errorf("%+v", resp.Brokers)
		}
	})
	for kind, want := range map[int8]string{
		2: "114 The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
		9: "115 Unsupported endpoint type 9",
	} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version, req.EndpointType = 1, kind
		resp := c.DescribeCluster(context.Background(), req, client)
		if got := fmt.Sprintf("%d %s", resp.ErrorCode, str(resp.ErrorMessage)); got != want || resp.ControllerID != -1 || len(resp.Brokers) != 0 {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestMetadataAtHand: a loop answers what is there and short; what would create
// a topic, or takes long, is not for it.
func TestMetadataAtHand(t *testing.T) {
	c := newCluster(t)
	c.topic("a", id(1), 3)
	c.topic("b", id(2), 3)
	all := kmsg.NewPtrMetadataRequest()
	all.Version = 12
	byID := func(n byte) *kmsg.MetadataRequest {
		r := kmsg.NewPtrMetadataRequest()
		r.Version = 12
		topic := kmsg.NewMetadataRequestTopic()
		topic.TopicID = id(n)
		r.Topics = append(r.Topics, topic)
		return r
	}
	twice := metadataRequest(9, true, "a", "a", "a")
	for _, tt := range []struct {
		req *kmsg.MetadataRequest
		max int
		ok  bool
	}{
		{metadataRequest(9, true, "a"), 4, true},
		{metadataRequest(9, true, "a"), 3, false},
		{metadataRequest(9, true, "a", "b"), 8, true},
		{metadataRequest(9, true, "a", "none"), 100, false},
		{metadataRequest(9, false, "none"), 100, false},
		{metadataRequest(9, true), 0, true}, // none
		{metadataRequest(0, true), 7, false},
		{metadataRequest(0, true), 8, true}, // all
		{all, 7, false},
		{all, 8, true},
		{byID(1), 4, true},
		{byID(1), 3, false},
		{byID(9), 1, true},
		{byID(9), 0, false},
		{twice, 100, true},
	} {
		got := c.MetadataAtHand(context.Background(), tt.req, client, tt.max)
		if (got != nil) != tt.ok {
			t.Errorf("v%d, %d topics, at most %d: answered %v", tt.req.Version, len(tt.req.Topics), tt.max, got != nil)
		}
		if got == nil {
			continue
		}
		if want := c.Metadata(context.Background(), tt.req, client); !bytes.Equal(got.AppendTo(nil), want.AppendTo(nil)) {
			t.Errorf("the loop's answer is another one:\n%+v\n%+v", got, want)
		}
		c.expectCalls()
	}
}
