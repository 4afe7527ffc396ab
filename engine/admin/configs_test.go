package admin

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describe asks for one resource; keys nil is all of them.
func describe(kind kmsg.ConfigResourceType, name string, keys ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, r)
	return req
}

// entry renders a config: name=value source type, its flags and synonyms.
func entry(c kmsg.DescribeConfigsResponseResourceConfig) string {
	s := fmt.Sprintf("%s=%s %d/%d", c.Name, str(c.Value), c.Source, c.ConfigType)
	if c.ReadOnly {
		s += " read-only"
	}
	if c.IsSensitive {
		s += " sensitive"
	}
	for _, y := range c.ConfigSynonyms {
		s += fmt.Sprintf(" [%s=%s %d]", y.Name, str(y.Value), y.Source)
	}
	return s
}

func TestDescribeConfigs(t *testing.T) {
	c := newCluster(t, "log.retention.hours=2", "log.segment.bytes=2000000", "delegation.token.secret.key=hush", "my.plugin.key=hush", "log.dirs=/a")
	c.topic("a", id(1), 1, "segment.bytes=3000000", "cleanup.policy=compact , delete", "internal.segment.bytes=999")
	c.topic("plain", id(2), 1)
	c.change(func(im *meta.Image) {
		im.BrokerDefaults = map[string]string{"log.segment.bytes": "4000000", "message.max.bytes": "44", "other.plugin.key": "x"}
		im.BrokerConfigs[1] = map[string]string{"log.segment.bytes": "5000000"}
	})
	tests := []struct {
		req  *kmsg.DescribeConfigsRequest
		want []string
	}{
		{describe(topicResource, "a", "segment.bytes", "cleanup.policy", "retention.ms", "segment.ms", "max.message.bytes", "leader.replication.throttled.replicas", "no.such.key", "internal.segment.bytes"), []string{
			"cleanup.policy=compact,delete 1/7 [cleanup.policy=compact,delete 1] [log.cleanup.policy=delete 5]",
			"internal.segment.bytes=999 1/3 [internal.segment.bytes=999 1]",
			"leader.replication.throttled.replicas= 5/7",
			"max.message.bytes=44 3/3 [message.max.bytes=44 3] [message.max.bytes=1048588 5]",
			"retention.ms=7200000 5/5", // Kafka tells no source where only log.retention.hours is set
			"segment.bytes=3000000 1/3 [segment.bytes=3000000 1] [log.segment.bytes=5000000 2] [log.segment.bytes=4000000 3] [log.segment.bytes=2000000 4] [log.segment.bytes=1073741824 5]",
			"segment.ms=604800000 5/5",
		}},
		{describe(topicResource, "plain", "segment.bytes"), []string{
			"segment.bytes=5000000 2/3 [log.segment.bytes=5000000 2] [log.segment.bytes=4000000 3] [log.segment.bytes=2000000 4] [log.segment.bytes=1073741824 5]",
		}},
		{describe(brokerResource, "1", "log.segment.bytes", "log.retention.ms", "log.retention.hours", "delegation.token.secret.key", "my.plugin.key", "other.plugin.key", "log.dirs", "num.io.threads", "node.id"), []string{
			"delegation.token.secret.key=<null> 4/9 read-only sensitive [delegation.token.secret.key=<null> 4]",
			"log.dirs=/a 4/7 read-only [log.dirs=/a 4]",
			"log.retention.hours=2 4/3 read-only [log.retention.hours=2 4] [log.retention.hours=168 5]",
			"log.retention.ms=<null> 5/5",
			"log.segment.bytes=5000000 2/3 [log.segment.bytes=5000000 2] [log.segment.bytes=4000000 3] [log.segment.bytes=2000000 4] [log.segment.bytes=1073741824 5]",
			"my.plugin.key=<null> 4/0 read-only sensitive [my.plugin.key=<null> 4]",
			"node.id=1 5/3 read-only [node.id=1 5]",
			"num.io.threads=8 5/3 [num.io.threads=8 5]",
			"other.plugin.key=<null> 3/0 read-only sensitive [other.plugin.key=<null> 3]",
		}},
		{describe(brokerResource, ""), []string{
			"log.segment.bytes=4000000 3/3 [log.segment.bytes=4000000 3]",
			"message.max.bytes=44 3/3 [message.max.bytes=44 3]",
			"other.plugin.key=<null> 3/0 read-only sensitive [other.plugin.key=<null> 3]",
		}},
		{describe(loggerResource, "1"), []string{"root=INFO 6/0"}},
	}
	for _, tt := range tests {
		tt.req.IncludeSynonyms = true
		resp := c.DescribeConfigs(context.Background(), roundTrip(t, tt.req, kmsg.NewPtrDescribeConfigsRequest()), client)
		r := roundTrip(t, resp, kmsg.NewPtrDescribeConfigsResponse()).Resources[0]
		var got []string
		for _, c := range r.Configs {
			got = append(got, entry(c))
		}
		if r.ErrorCode != 0 || str(r.ErrorMessage) != "" || !slices.Equal(got, tt.want) {
			t.Errorf("%s %q: %d %q\n got %s\nwant %s", tt.req.Resources[0].ResourceType, tt.req.Resources[0].ResourceName, r.ErrorCode, str(r.ErrorMessage), strings.Join(got, "\n     "), strings.Join(tt.want, "\n     "))
		}
	}
}

func TestDescribeConfigsEveryVersion(t *testing.T) {
	c := newCluster(t)
	c.topic("a", id(1), 1)
	eachVersion(t, 1, 4, func(t *testing.T, v int16) {
		req := describe(topicResource, "a")
		req.Resources[0].ConfigNames = []string{} // as null: all
		second := describe(brokerResource, "1").Resources[0]
		req.Resources = append(req.Resources, second, req.Resources[0])
		req.Version, req.IncludeDocumentation = v, true
		resp := c.DescribeConfigs(context.Background(), roundTrip(t, req, kmsg.NewPtrDescribeConfigsRequest()), client)
		resp = roundTrip(t, resp, kmsg.NewPtrDescribeConfigsResponse())
		if len(resp.Resources) != 3 || len(resp.Resources[0].Configs) != 37 || len(resp.Resources[2].Configs) != 37 || len(resp.Resources[1].Configs) < 150 {
			t.Fatalf("%d configs of the topic, %d of the broker", len(resp.Resources[0].Configs), len(resp.Resources[1].Configs))
		}
		for _, r := range resp.Resources {
			for _, c := range r.Configs {
				if len(c.ConfigSynonyms) > 0 {
					t.Errorf("%s has synonyms that nobody asked for", c.Name)
				}
				if v >= 3 && (c.Documentation == nil || *c.Documentation == "" || c.ConfigType == 0) {
					t.Errorf("%s: type %d, documentation %s", c.Name, c.ConfigType, str(c.Documentation))
				}
			}
		}
		req.IncludeDocumentation = false
		if resp := c.DescribeConfigs(context.Background(), req, client); resp.Resources[0].Configs[0].Documentation != nil {
			t.Error("documentation that nobody asked for")
		}
	})
}

func TestDescribeConfigsErrors(t *testing.T) {
	c := newCluster(t)
	c.topic("a", id(1), 1)
	for _, tt := range []struct {
		kind       kmsg.ConfigResourceType
		name, want string
	}{
		{topicResource, "none", "3 "},
		{topicResource, "bad name", "17 Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{topicResource, "", "17 Topic name is invalid: the empty string is not allowed"},
		{brokerResource, "9", "42 Unexpected broker id, expected 1 or empty string, but received 9"},
		{brokerResource, "abc", "42 Broker id must be an integer, but it is: abc"},
		{loggerResource, "", "42 Broker id must not be empty"},
		{loggerResource, "9", "42 Unexpected broker id, expected 1 but received 9"},
		{loggerResource, "x", "42 Broker id must be an integer, but it is: x"},
		{groupResource, "", "42 Group name must not be empty"},
		{clientMetricsResource, "m", "42 Unsupported resource type: CLIENT_METRICS"},
	} {
		resp := c.DescribeConfigs(context.Background(), describe(tt.kind, tt.name), client)
		if r := resp.Resources[0]; fmt.Sprintf("%d %s", r.ErrorCode, str(r.ErrorMessage)) != tt.want || len(r.Configs) != 0 {
			t.Errorf("%s %q: got %d %s, want %s", tt.kind, tt.name, r.ErrorCode, str(r.ErrorMessage), tt.want)
		}
	}
	// A type that Kafka does not know spoils the request.
	req := describe(99, "x")
	req.Resources = append(req.Resources, describe(topicResource, "a").Resources[0])
	for _, r := range c.DescribeConfigs(context.Background(), req, client).Resources {
		if r.ErrorCode != 42 || str(r.ErrorMessage) != malformed || len(r.Configs) != 0 {
			t.Errorf("%+v", r)
		}
	}
	for level, want := range map[slog.Level]string{slog.LevelDebug: "DEBUG", slog.LevelInfo: "INFO", slog.LevelWarn: "WARN", slog.LevelError: "ERROR"} {
		c.LogLevel.Set(level)
		if got := c.logLevel(); got != want {
			t.Errorf("log level %s, want %s", got, want)
		}
	}
}

// operation reads one operation of an IncrementalAlterConfigs request: "+=", "-=", "=" or
// "!" (delete) between name and value; "?" is a SET of null.
func operation(s string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	for sign, op := range map[string]kmsg.IncrementalAlterConfigOp{"+=": opAppend, "-=": opSubtract, "~=": 9} {
		if name, value, ok := strings.Cut(s, sign); ok {
			c.Name, c.Op, c.Value = name, op, &value
			return c
		}
	}
	if name, ok := strings.CutSuffix(s, "!"); ok {
		c.Name, c.Op = name, opDelete
	} else if name, ok := strings.CutSuffix(s, "?"); ok {
		c.Name, c.Op = name, opSet
	} else {
		name, value, _ := strings.Cut(s, "=")
		c.Name, c.Op, c.Value = name, opSet, &value
	}
	return c
}

func incremental(kind kmsg.ConfigResourceType, name string, ops ...string) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, s := range ops {
		r.Configs = append(r.Configs, operation(s))
	}
	req.Resources = append(req.Resources, r)
	return req
}

func TestIncrementalAlterConfigs(t *testing.T) {
	const ok = "0 <null>"
	tests := []struct {
		kind kmsg.ConfigResourceType
		name string
		ops  string
		want string
		call string // what the controller was asked for
	}{
		{topicResource, "a", "segment.ms=5 retention.ms!", ok, "alter a map[segment.ms:5] [retention.ms]"},
		{topicResource, "a", "retention.ms=9", ok, ""}, // changes nothing
		{topicResource, "a", "foo!", ok, ""},
		{topicResource, "a", "flush.ms!", ok, ""},
		{topicResource, "a", "", ok, ""},
		{topicResource, "a", "segment.ms=0", "40 Invalid value 0 for configuration segment.ms: Value must be at least 1", ""},
		{topicResource, "a", "segment.ms=8 retention.ms=x", "40 Invalid value x for configuration retention.ms: Not a number of type LONG", ""},
		{topicResource, "a", "foo=1", "40 Unknown topic config name: foo", ""},
		{topicResource, "a", "message.format.version=3.0", "40 Unknown topic config name: message.format.version", ""},
		{topicResource, "a", "remote.storage.enable=true", "40 Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.", ""},
		{topicResource, "a", "min.compaction.lag.ms=9 max.compaction.lag.ms=8", "40 conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)", ""},
		{topicResource, "a", "segment.ms+=1", "40 Can't APPEND to key segment.ms because its type is not LIST.", ""},
		{topicResource, "a", "segment.ms-=1", "40 Can't SUBTRACT to key segment.ms because its type is not LIST.", ""},
		{topicResource, "a", "foo+=1", "40 Can't APPEND to key foo because its type is not LIST.", ""},
		{topicResource, "a", "cleanup.policy+=compact", ok, "alter a map[cleanup.policy:delete,compact] []"}, // from the default
		{topicResource, "a", "cleanup.policy+=delete", ok, "alter a map[cleanup.policy:delete] []"},
		{topicResource, "a", "cleanup.policy-=delete", ok, "alter a map[cleanup.policy:] []"},
		{topicResource, "a", "leader.replication.throttled.replicas-=0:1", ok, "alter a map[leader.replication.throttled.replicas:1:1] []"},
		{topicResource, "a", "leader.replication.throttled.replicas+=1:1,2:1", ok, "alter a map[leader.replication.throttled.replicas:0:1,1:1,2:1] []"},
		{topicResource, "a", "segment.ms?|retention.ms?", "42 Null value not supported for : segment.ms, retention.ms", ""},
		{topicResource, "a", "segment.ms=1 segment.ms!", "42 Error due to duplicate config keys", ""},
		{topicResource, "a", "segment.ms~=1", "42 Unknown operations type 9", ""},
		{topicResource, "none", "segment.ms=1", "3 The topic 'none' does not exist.", ""},
		{topicResource, "none", "foo=1", "40 Unknown topic config name: foo", ""},
		{topicResource, "bad:name", "segment.ms=1", "17 Topic name is invalid: 'bad:name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", ""},
		{topicResource, "", "segment.ms=1", "42 Default topic resources are not allowed.", ""},

		{brokerResource, "1", "log.retention.ms=7", ok, "alter broker 1 map[log.retention.ms:7] []"},
		{brokerResource, "", "log.retention.ms=7 message.max.bytes!", ok, "alter broker -1 map[log.retention.ms:7] [message.max.bytes]"},
		{brokerResource, "1", "my.plugin.key=x", ok, "alter broker 1 map[my.plugin.key:x] []"},
		{brokerResource, "1", "log.cleanup.policy+=compact", ok, "alter broker 1 map[log.cleanup.policy:delete,compact] []"},
		{brokerResource, "1", "node.id=2 log.dirs=/x", "42 Cannot update these configs dynamically: [log.dirs, node.id]", ""},
		{brokerResource, "1", "listeners=PLAINTEXT://:1", "42 Cannot update these configs dynamically: [listeners]", ""},
		{brokerResource, "1", "log.cleaner.threads=x", "42 Invalid value x for configuration log.cleaner.threads: Not a number of type INT", ""},
		{brokerResource, "1", "log.cleaner.threads=-1", "42 Invalid value -1 for configuration log.cleaner.threads: Value must be at least 0", ""},
		{brokerResource, "1", "log.retention.ms=0", "42 Invalid value 0 for configuration log.retention.ms: must be unlimited (-1) or, greater than or equal to 1", ""},
		{brokerResource, "1", "log.cleaner.threads+=2", "40 Config value append is not allowed for config key: log.cleaner.threads", ""},
		{brokerResource, "1", "log.cleaner.threads-=2", "40 Config value subtract is not allowed for config key: log.cleaner.threads", ""},
		{brokerResource, "1", "foo+=2", "40 Unknown config name: foo", ""},
		{brokerResource, "1", "foo~=2", "42 Unknown operations type 9", ""},
		{brokerResource, "9", "log.cleaner.threads=2", "42 Unexpected broker id, expected 1, but received 9", ""},
		{brokerResource, "x", "log.cleaner.threads=2", "42 Node id must be an integer, but it is: x", ""},
		{loggerResource, "1", "root=DEBUG", "0 <null>", ""},
		{loggerResource, "1", "root=LOUD", "40 Cannot set the log level of root to LOUD as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN", ""},
		{loggerResource, "1", "other=INFO", "40 Logger other does not exist!", ""},
		{loggerResource, "1", "root!", "42 Removing the log level of the root logger is not allowed", ""},
		{loggerResource, "1", "root+=INFO", "42 APPEND operation is not allowed for the BROKER_LOGGER resource", ""},
		{loggerResource, "2", "root=INFO", "42 Unexpected node id. Expected 1, but received 2", ""},
		{loggerResource, "x", "root=INFO", "42 Node id must be an integer, but it is: x", ""},
		{groupResource, "g", "consumer.session.timeout.ms=1", "40 consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.", ""},
		{groupResource, "g", "consumer.session.timeout.ms=50000", "0 <null>", "alter group g map[consumer.session.timeout.ms:50000] []"},
		{groupResource, "", "consumer.session.timeout.ms=50000", "42 Default group resources are not allowed.", ""},
		{groupResource, "g", "consumer.session.timeout.ms+=50000", "40 Can't APPEND to key consumer.session.timeout.ms because its type is not LIST.", ""},
		{clientMetricsResource, "m", "interval.ms=1", "42 Unsupported resource type: CLIENT_METRICS", ""},
		{99, "x", "a=b", "42 Unknown resource type 99", ""},
	}
	for _, tt := range tests {
		ops := strings.FieldsFunc(tt.ops, func(r rune) bool { return r == ' ' || r == '|' })
		eachVersion(t, 0, 1, func(t *testing.T, v int16) {
			for _, validateOnly := range []bool{true, false} {
				c := newCluster(t)
				c.topic("a", id(1), 1, "retention.ms=9", "leader.replication.throttled.replicas=0:1,1:1", "cleanup.policy=delete")
				if tt.ops == "cleanup.policy+=compact" || tt.ops == "cleanup.policy+=delete" {
					c.topic("a", id(1), 1)
				}
				c.change(func(im *meta.Image) { im.BrokerDefaults = map[string]string{"message.max.bytes": "5"} })
				req := incremental(tt.kind, tt.name, ops...)
				req.Version, req.ValidateOnly = v, validateOnly
				resp := c.IncrementalAlterConfigs(context.Background(), roundTrip(t, req, kmsg.NewPtrIncrementalAlterConfigsRequest()), client)
				r := roundTrip(t, resp, kmsg.NewPtrIncrementalAlterConfigsResponse()).Resources[0]
				if got := fmt.Sprintf("%d %s", r.ErrorCode, str(r.ErrorMessage)); got != tt.want || r.ResourceName != tt.name || r.ResourceType != tt.kind {
					t.Errorf("%s %q %s: got %s, want %s", tt.kind, tt.name, tt.ops, got, tt.want)
				}
				if validateOnly || tt.call == "" {
					c.expectCalls()
				} else {
					c.expectCalls(tt.call)
				}
			}
		})
	}
}

func TestAlterList(t *testing.T) {
	long := strings.Repeat("a,", 50_000)
	var unique strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&unique, "%d,", i)
	}
	for _, tt := range []struct {
		list, change string
		add          bool
		want         string
	}{
		{"a,b", "b,c,c", true, "a,b,c"},
		{"", "a", true, "a"},
		{"a,,b", "", true, "a,b"},
		{"a,b,a,a", "a,a,x", false, "b,a"},
		{"a", "a", false, ""},
		{"", "a", false, ""},
		{"b", long, true, "b,a"},
		{"", unique.String(), true, strings.TrimSuffix(unique.String(), ",")}, // in less than quadratic time
		{unique.String(), unique.String(), false, ""},
	} {
		if got := alterList(tt.list, tt.change, tt.add); got != tt.want {
			t.Errorf("%.20q, %.20q: got %.40q, want %.40q", tt.list, tt.change, got, tt.want)
		}
	}
}

func TestAlterManyResources(t *testing.T) {
	c := newCluster(t)
	c.topic("a", id(1), 1)
	c.topic("b", id(2), 1)
	req := incremental(topicResource, "a", "segment.ms=5")
	for _, r := range []*kmsg.IncrementalAlterConfigsRequest{
		incremental(topicResource, "b", "segment.ms=0"), incremental(brokerResource, "1", "log.cleaner.threads=2"),
		incremental(brokerResource, "", "log.cleaner.threads=3"), incremental(brokerResource, "", "log.cleaner.threads=4"),
	} {
		req.Resources = append(req.Resources, r.Resources[0])
	}
	var got []string
	for _, r := range c.IncrementalAlterConfigs(context.Background(), req, client).Resources {
		got = append(got, fmt.Sprintf("%s:%d", r.ResourceName, r.ErrorCode))
	}
	if s := strings.Join(got, " "); s != "a:0 b:40 1:0 :42 :42" {
		t.Errorf("got %s", s)
	}
	c.expectCalls("alter a map[segment.ms:5] []", "alter broker 1 map[log.cleaner.threads:2] []")
	c.failing = kerr.NotController
	if r := c.IncrementalAlterConfigs(context.Background(), incremental(topicResource, "b", "segment.ms=7"), client).Resources[0]; r.ErrorCode != 41 {
		t.Errorf("%+v", r)
	}
}

func TestAlterConfigs(t *testing.T) {
	tests := []struct {
		kind kmsg.ConfigResourceType
		name string
		ops  string
		want string
		call string
	}{
		{topicResource, "a", "segment.ms=5", "0 <null>", "alter a map[segment.ms:5] [cleanup.policy retention.ms]"},
		{topicResource, "a", "segment.ms=5 retention.ms=9", "0 <null>", "alter a map[segment.ms:5] [cleanup.policy]"},
		{topicResource, "a", "", "0 <null>", "alter a map[] [cleanup.policy retention.ms]"},
		{topicResource, "a", "segment.ms?", "42 Null value not supported for : segment.ms", ""},
		{topicResource, "a", "segment.ms=1 segment.ms=1", "42 Error due to duplicate config keys", ""},
		{topicResource, "a", "foo=1", "40 Unknown topic config name: foo", ""},
		{topicResource, "none", "segment.ms=1", "3 The topic 'none' does not exist.", ""},
		{brokerResource, "1", "log.cleaner.threads=2", "0 <null>", "alter broker 1 map[log.cleaner.threads:2] [log.retention.ms]"},
		{brokerResource, "1", "log.dirs=/x", "42 Cannot update these configs dynamically: [log.dirs]", ""},
		{loggerResource, "1", "root=INFO", "42 Unknown resource type 8", ""},
		{99, "1", "root=INFO", "42 Unknown resource type 99", ""},
	}
	for _, tt := range tests {
		eachVersion(t, 0, 2, func(t *testing.T, v int16) {
			for _, validateOnly := range []bool{true, false} {
				c := newCluster(t)
				c.topic("a", id(1), 1, "retention.ms=9", "cleanup.policy=compact")
				c.change(func(im *meta.Image) { im.BrokerConfigs[1] = map[string]string{"log.retention.ms": "5"} })
				req := kmsg.NewPtrAlterConfigsRequest()
				req.Version, req.ValidateOnly = v, validateOnly
				r := kmsg.NewAlterConfigsRequestResource()
				r.ResourceType, r.ResourceName = tt.kind, tt.name
				for _, s := range strings.Fields(tt.ops) {
					o := operation(s)
					c := kmsg.NewAlterConfigsRequestResourceConfig()
					c.Name, c.Value = o.Name, o.Value
					r.Configs = append(r.Configs, c)
				}
				req.Resources = append(req.Resources, r)
				resp := c.AlterConfigs(context.Background(), roundTrip(t, req, kmsg.NewPtrAlterConfigsRequest()), client)
				out := roundTrip(t, resp, kmsg.NewPtrAlterConfigsResponse()).Resources[0]
				if got := fmt.Sprintf("%d %s", out.ErrorCode, str(out.ErrorMessage)); got != tt.want {
					t.Errorf("%s %q %s: got %s, want %s", tt.kind, tt.name, tt.ops, got, tt.want)
				}
				if validateOnly || tt.call == "" {
					c.expectCalls()
				} else {
					c.expectCalls(tt.call)
				}
			}
		})
	}
}

// TestMirrorMakerReplay sets every topic config at once to its default, as
// MirrorMaker 2 does with another cluster's topic.
func TestMirrorMakerReplay(t *testing.T) {
	c := newCluster(t)
	c.topic("a", id(1), 1)
	var ops []string
	for _, name := range config.TopicNames() {
		if def := config.TopicDefinition(name); !def.Internal {
			ops = append(ops, name+"="+def.Default)
		}
	}
	if r := c.IncrementalAlterConfigs(context.Background(), incremental(topicResource, "a", ops...), client).Resources[0]; r.ErrorCode != 0 {
		t.Errorf("%d %s", r.ErrorCode, str(r.ErrorMessage))
	}
	if n := len(c.image.Topics["a"].Configs); n != 37 {
		t.Errorf("%d overrides", n)
	}
}
