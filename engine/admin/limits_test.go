package admin

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMessagesFitTheirField: what a client sent comes back inside error texts,
// and a text longer than a string's 16-bit length would break the whole answer.
func TestMessagesFitTheirField(t *testing.T) {
	long := strings.Repeat("é", math.MaxInt16/2)
	eachVersion(t, 2, 7, func(t *testing.T, version int16) {
		c := newCluster(t)
		req := createTopics(newTopic(long, 1, 1), newTopic("b", 1, 1, "segment.bytes="+long))
		req.Version = version
		c.failing = kerr.UnknownServerError // of the controller: the texts are ours
		resp := c.Handlers.CreateTopics(context.Background(), req, client)
		got := roundTrip(t, resp, kmsg.NewPtrCreateTopicsResponse())
		if len(got.Topics) != 2 || got.Topics[0].ErrorCode != kerr.InvalidTopicException.Code {
			t.Fatalf("%d topics", len(got.Topics))
		}
		if m := str(got.Topics[0].ErrorMessage); len(m) > 4096 || !strings.HasPrefix(m, "Topic name is invalid: the length of 'é") {
			t.Errorf("%d bytes of text: %.60s", len(m), m)
		}
	})
	eachVersion(t, 0, 1, func(t *testing.T, version int16) {
		c := newCluster(t)
		c.topic("t", id(1), 1)
		req := incremental(topicResource, "t", "segment.bytes="+long)
		req.Version = version
		got := roundTrip(t, c.IncrementalAlterConfigs(context.Background(), req, client), kmsg.NewPtrIncrementalAlterConfigsResponse())
		if r := got.Resources[0]; r.ErrorCode != kerr.InvalidConfig.Code || len(str(r.ErrorMessage)) > 4096 {
			t.Errorf("%d, %d bytes of text", r.ErrorCode, len(str(r.ErrorMessage)))
		}
	})
}

// TestAppendedListsStayReadable: a list may grow by appending, but not beyond
// what DescribeConfigs can tell of it.
func TestAppendedListsStayReadable(t *testing.T) {
	c := newCluster(t)
	c.topic("t", id(1), 1)
	var list []string
	for i := range 6000 {
		list = append(list, itoa(int32(i))+":1")
	}
	first, second := strings.Join(list[:4000], ","), strings.Join(list[4000:], ",")
	const key = "leader.replication.throttled.replicas"
	set := incremental(topicResource, "t", key+"="+first)
	if r := c.IncrementalAlterConfigs(context.Background(), set, client).Resources[0]; r.ErrorCode != 0 {
		t.Fatalf("%d %s", r.ErrorCode, str(r.ErrorMessage))
	}
	grow := incremental(topicResource, "t", key+"+="+second)
	r := c.IncrementalAlterConfigs(context.Background(), grow, client).Resources[0]
	if r.ErrorCode != kerr.InvalidConfig.Code || !strings.Contains(str(r.ErrorMessage), key) {
		t.Errorf("%d %.200s", r.ErrorCode, str(r.ErrorMessage))
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 1
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = topicResource, "t"
	req.Resources = append(req.Resources, res)
	roundTrip(t, c.DescribeConfigs(context.Background(), req, client), kmsg.NewPtrDescribeConfigsResponse())
}

// TestDescribeConfigsRepeats: a resource that a request names thousands of times
// is not described as often: each costs some thousand bytes, and five on the wire.
func TestDescribeConfigsRepeats(t *testing.T) {
	c := newCluster(t)
	c.topic("t", id(1), 1)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	for range 1000 {
		for _, name := range []string{"t", "none"} { // in turn
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = topicResource, name
			req.Resources = append(req.Resources, r)
		}
	}
	resp := c.DescribeConfigs(context.Background(), req, client)
	if n := len(resp.Resources); n != repeatsMax || len(resp.Resources[0].Configs) == 0 {
		t.Fatalf("%d answers in %d bytes", n, len(resp.AppendTo(nil)))
	}
}
