package admin

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster is a controller, its replicas and the image, in memory.
type cluster struct {
	t       *testing.T
	static  map[string]string
	image   *meta.Image
	dirs    []meta.LogDir
	low     map[record.TopicPartition]record.Offset
	calls   []string // what the handlers asked for
	failing error    // what every call answers
	waited  []string // topics whose replicas were waited for
	nextID  byte
	*Handlers
}

var id = func(n byte) record.TopicID { return record.TopicID{0: 0x70, 15: n} }

// newCluster starts with broker 1 on two listeners, broker 2 fenced and broker
// 3 on one of them, all on static properties "key=value".
func newCluster(t *testing.T, static ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, static: map[string]string{}, low: map[record.TopicPartition]record.Offset{}, nextID: 100}
	for _, pair := range static {
		key, value, _ := strings.Cut(pair, "=")
		c.static[key] = value
	}
	im := *meta.EmptyImage()
	im.ClusterID, im.ControllerID = "kluster", 1
	im.Brokers = []meta.Broker{
		{ID: 1, Rack: "a", Listeners: []meta.Endpoint{{Name: "PLAINTEXT", Host: "one", Port: 9092}, {Name: "INTERNAL", Host: "one.internal", Port: 9093}}},
		{ID: 2, Fenced: true, Listeners: []meta.Endpoint{{Name: "PLAINTEXT", Host: "two", Port: 9092}}},
		{ID: 3, Listeners: []meta.Endpoint{{Name: "INTERNAL", Host: "three.internal", Port: 9093}}},
	}
	im.Topics, im.TopicsByID = map[string]*meta.Topic{}, map[record.TopicID]*meta.Topic{}
	im.BrokerConfigs, im.BrokerDefaults = map[int32]map[string]string{}, map[string]string{}
	c.image = &im
	c.Handlers = New(Config{NodeID: 1, Broker: c.broker, Image: func() *meta.Image { return c.image }, Controller: c, Replicas: c})
	return c
}

func (c *cluster) broker() *config.Broker {
	b, _, err := config.Load(c.static, nil)
	if err == nil {
		b, err = b.WithDynamic(c.image.BrokerDefaults, c.image.BrokerConfigs[1])
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

// change replaces the image.
func (c *cluster) change(edit func(im *meta.Image)) {
	im := *c.image
	im.Topics, im.TopicsByID = maps.Clone(im.Topics), maps.Clone(im.TopicsByID)
	im.BrokerConfigs = maps.Clone(im.BrokerConfigs)
	edit(&im)
	im.Names = slices.Sorted(maps.Keys(im.Topics))
	c.image = &im
}

// topic adds a topic whose partitions are all led by broker 1.
func (c *cluster) topic(name string, id record.TopicID, partitions int, configs ...string) *meta.Topic {
	t := &meta.Topic{Name: name, ID: id, Internal: meta.IsInternal(name), Configs: map[string]string{}}
	for _, pair := range configs {
		key, value, _ := strings.Cut(pair, "=")
		t.Configs[key] = value
	}
	for range partitions {
		t.Partitions = append(t.Partitions, meta.Partition{Leader: 1, LeaderEpoch: 4, Replicas: []int32{1}, ISR: []int32{1}})
	}
	c.change(func(im *meta.Image) { im.Topics[name], im.TopicsByID[id] = t, t })
	return t
}

func (c *cluster) called(format string, args ...any) {
	c.calls = append(c.calls, fmt.Sprintf(format, args...))
}

// expectCalls compares what was asked for since the last time.
func (c *cluster) expectCalls(want ...string) {
	c.t.Helper()
	if !slices.Equal(c.calls, want) {
		c.t.Errorf("calls:\n got %q\nwant %q", c.calls, want)
	}
	c.calls = nil
}

func (c *cluster) CreateTopics(_ context.Context, specs []meta.TopicSpec, validateOnly bool) []meta.TopicResult {
	var results []meta.TopicResult
	for _, s := range specs {
		c.called("create %s %d %d %v %v %v", s.Name, s.Partitions, s.ReplicationFactor, s.Assignment, s.Configs, validateOnly)
		if c.failing != nil {
			results = append(results, meta.TopicResult{Err: c.failing})
			continue
		}
		c.nextID++
		before := c.image
		topic := c.topic(s.Name, id(c.nextID), max(1, int(s.Partitions), len(s.Assignment)))
		topic.Configs = s.Configs
		if validateOnly {
			c.image = before
		}
		results = append(results, meta.TopicResult{Topic: topic})
	}
	return results
}

func (c *cluster) DeleteTopics(_ context.Context, ids []record.TopicID) []error {
	errs := make([]error, len(ids))
	for i, id := range ids {
		errs[i] = c.failing
		t := c.image.TopicsByID[id]
		c.called("delete %s", t.Name)
		c.change(func(im *meta.Image) {
			delete(im.Topics, t.Name)
			delete(im.TopicsByID, id)
		})
	}
	return errs
}

func (c *cluster) CreatePartitions(_ context.Context, topic string, count int32, assignment [][]int32, validateOnly bool) error {
	placement := fmt.Sprint(assignment)
	if assignment == nil {
		placement = "any"
	}
	c.called("partitions %s %d %s %v", topic, count, placement, validateOnly)
	if c.failing == nil && c.image.Topics[topic] == nil {
		return kerr.UnknownTopicOrPartition
	}
	return c.failing
}

// merged is a resource's configs after set and remove.
func merged(configs, set map[string]string, remove []string) map[string]string {
	next := maps.Clone(configs)
	if next == nil {
		next = map[string]string{}
	}
	maps.Copy(next, set)
	for _, key := range remove {
		delete(next, key)
	}
	return next
}

func (c *cluster) AlterTopicConfigs(_ context.Context, topic string, set map[string]string, remove []string) error {
	c.called("alter %s %v %v", topic, set, remove)
	t := *c.image.Topics[topic]
	t.Configs = merged(t.Configs, set, remove)
	c.change(func(im *meta.Image) { im.Topics[topic] = &t })
	return c.failing
}

func (c *cluster) AlterBrokerConfigs(_ context.Context, broker int32, set map[string]string, remove []string) error {
	c.called("alter broker %d %v %v", broker, set, remove)
	c.change(func(im *meta.Image) {
		if broker < 0 {
			im.BrokerDefaults = merged(im.BrokerDefaults, set, remove)
		} else {
			im.BrokerConfigs[broker] = merged(im.BrokerConfigs[broker], set, remove)
		}
	})
	return c.failing
}

func (c *cluster) DeleteRecords(_ context.Context, tp record.TopicPartition, offset record.Offset) (record.Offset, error) {
	c.called("delete records %s %d", tp, offset)
	return c.low[tp], c.failing
}

func (c *cluster) AlterGroupConfigs(_ context.Context, group string, set map[string]string, remove []string) error {
	c.called("alter group %s %v %v", group, set, remove)
	c.change(func(im *meta.Image) {
		im.GroupConfigs = maps.Clone(im.GroupConfigs)
		im.GroupConfigs[group] = merged(im.GroupConfigs[group], set, remove)
	})
	return c.failing
}

func (c *cluster) AlterQuotas(_ context.Context, alterations []meta.QuotaAlteration) error {
	c.change(func(im *meta.Image) {
		im.Quotas = maps.Clone(im.Quotas)
		for _, a := range alterations {
			c.called("quota of %s %v %v", a.Entity, a.Set, a.Remove)
			next := maps.Clone(im.Quotas[a.Entity])
			if next == nil {
				next = map[string]float64{}
			}
			maps.Copy(next, a.Set)
			for _, key := range a.Remove {
				delete(next, key)
			}
			if im.Quotas[a.Entity] = next; len(next) == 0 {
				delete(im.Quotas, a.Entity)
			}
		}
	})
	return c.failing
}

func (c *cluster) UpdateFeatures(_ context.Context, levels map[string]int16) error {
	c.called("features %v", levels)
	c.change(func(im *meta.Image) { im.Features = levels })
	return c.failing
}

func (c *cluster) Producers(tp record.TopicPartition) ([]meta.ProducerState, error) {
	return []meta.ProducerState{{ID: 7, Epoch: 2, LastSequence: 5, LastTimestamp: 99, CoordinatorEpoch: -1, TxnFirst: record.Offset(tp.Partition)}}, c.failing
}

func (c *cluster) LogDirs() []meta.LogDir { return c.dirs }

func (c *cluster) WaitReady(ctx context.Context, topic string) error {
	c.waited = append(c.waited, topic)
	if _, bounded := ctx.Deadline(); !bounded {
		c.t.Error("an unbounded wait")
	}
	return c.failing
}

// client asks by the listener PLAINTEXT.
var client = Client{ClientID: "test", Listener: "PLAINTEXT", Peer: netip.MustParseAddrPort("127.0.0.1:1")}

// roundTrip encodes and decodes a message, as a client would see it.
func roundTrip[M interface {
	AppendTo([]byte) []byte
	ReadFrom([]byte) error
	GetVersion() int16
	SetVersion(int16)
}](t *testing.T, message, into M) M {
	t.Helper()
	into.SetVersion(message.GetVersion())
	if err := into.ReadFrom(message.AppendTo(nil)); err != nil {
		t.Fatalf("%T v%d cannot be read: %v", message, message.GetVersion(), err)
	}
	return into
}

func ptr[T any](v T) *T { return &v }

// str renders a message of a response.
func str(s *string) string {
	if s == nil {
		return "<null>"
	}
	return *s
}

// eachVersion runs a test for every version of a request.
func eachVersion(t *testing.T, first, last int16, run func(t *testing.T, version int16)) {
	for v := first; v <= last; v++ {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) { run(t, v) })
	}
}

func TestAnswer(t *testing.T) {
	h := New(Config{Logger: slog.New(slog.DiscardHandler)})
	tests := []struct {
		err  error
		code int16
		text string
	}{
		{nil, 0, "<null>"},
		{kerr.UnknownTopicID, 100, "This server does not host this topic ID."},
		{kerr.NotLeaderForPartition, 6, kerr.NotLeaderForPartition.Description},
		{fmt.Errorf("wrapped: %w", kerr.InvalidPartitions), 37, kerr.InvalidPartitions.Description},
		{fail(kerr.InvalidRequest, "no %d", 1), 42, "no 1"},
		{&record.Error{Kerr: kerr.InvalidRequest}, 42, malformed},
		{&config.Error{Key: "a", Value: "b", Reason: "c"}, 40, "Invalid value b for configuration a: c"},
		{config.RuleError("rule"), 40, "rule"},
		{context.DeadlineExceeded, 7, "The request timed out."},
		{fmt.Errorf("write /var/x: no space left on device"), -1, "The server experienced an unexpected error when processing the request."},
	}
	for _, tt := range tests {
		code, text := h.answer("Test", tt.err)
		if code != tt.code || str(text) != tt.text {
			t.Errorf("%v: got %d %q, want %d %q", tt.err, code, str(text), tt.code, tt.text)
		}
	}
}

// metadataRequest asks for topics by name.
func metadataRequest(version int16, auto bool, names ...string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Version, r.AllowAutoTopicCreation = version, auto
	r.Topics = []kmsg.MetadataRequestTopic{}
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = ptr(n)
		r.Topics = append(r.Topics, t)
	}
	return r
}
