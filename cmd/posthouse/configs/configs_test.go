package configs

import (
	"strings"
	"testing"

	"github.com/posthouse/posthouse/cmd/posthouse/clitest"
	"github.com/posthouse/posthouse/cmd/posthouse/topics"
)

type node struct {
	t       *testing.T
	address string
}

func (n node) run(args ...string) clitest.Result {
	return clitest.Run(n.t, New(), "", append(args, "--bootstrap", n.address)...)
}

func start(t *testing.T) node {
	address, _ := clitest.Broker(t)
	clitest.Run(t, topics.New(), "", "create", "orders", "--bootstrap", address).OK(t)
	return node{t, address}
}

func values(entries []entry) map[string]string {
	out := map[string]string{}
	for _, e := range entries {
		if e.Value != nil {
			out[e.Name] = *e.Value
		}
	}
	return out
}

func TestTopicConfigs(t *testing.T) {
	n := start(t)
	n.run("describe", "topic", "orders").Contains(t, "nothing is set on topic orders; --all shows what holds\n")
	n.run("set", "topic", "orders", "retention.ms=1000", "cleanup.policy=compact").Contains(t, "changed 2 configs of topic orders\n")
	n.run("set", "topic", "orders", "cleanup.policy=delete", "--append").OK(t)
	n.run("describe", "topics", "orders").Contains(t, "cleanup.policy  compact,delete  dynamic topic config\n", "retention.ms    1000")
	all := clitest.Decode[[]entry](t, n.run("describe", "topic", "orders", "--all", "--docs", "--json"))
	if len(all) < 20 || values(all)["segment.bytes"] != "1073741824" {
		t.Errorf("%d configs, %v", len(all), values(all))
	}
	n.run("unset", "topic", "orders", "cleanup.policy").OK(t)
	if got := values(clitest.Decode[[]entry](t, n.run("describe", "topic", "orders", "--json"))); len(got) != 1 || got["retention.ms"] != "1000" {
		t.Errorf("%v", got)
	}
	n.run("set", "topic", "orders", "retention.ms=soon").Fails(t, 1, `topic "orders"`, "INVALID_CONFIG")
	n.run("set", "topic", "orders", "segment.bytes=2000000", "--validate-only").OK(t)
	n.run("set", "topic", "ordesr", "retention.ms=1").Fails(t, 1, `did you mean "orders"?`)
	n.run("describe", "topic", "ordesr").Fails(t, 1, `did you mean "orders"?`)
}

func TestBrokerConfigs(t *testing.T) {
	n := start(t)
	n.run("set", "broker", "default", "log.retention.ms=5000").Contains(t, "changed 1 config of the cluster's defaults\n")
	n.run("set", "broker", "1", "log.cleaner.threads=2").Contains(t, "changed 1 config of broker 1\n")
	if got := values(clitest.Decode[[]entry](t, n.run("describe", "broker", "default", "--json"))); got["log.retention.ms"] != "5000" {
		t.Errorf("%v", got)
	}
	n.run("describe", "broker", "1").Contains(t, "log.cleaner.threads", "dynamic broker config")
	n.run("describe", "broker", "1", "--all").Contains(t, "static broker config, read-only", "default config")
	n.run("describe", "broker", "7").Fails(t, 1, "there is no broker 7: the cluster has 1")
	n.run("set", "broker", "1", "listeners=x").Fails(t, 1, "broker 1", "listeners")
}

func TestMistakes(t *testing.T) {
	n := node{t, "127.0.0.1:1"} // nobody is asked
	for _, c := range []struct{ args, want string }{
		{"describe", "want a kind"},
		{"describe topic", "want a kind"},
		{"describe planet mars", `"planet" has no configs`},
		{"describe broker first", `broker "first": want a broker's id`},
		{"describe topic a b", `unexpected "b"`},
		{"set topic orders", "want KEY=VALUE"},
		{"unset topic orders", "want KEY"},
		{"quota set", "which quota?"},
	} {
		n.run(strings.Fields(c.args)...).Fails(t, 2, c.want)
	}
}

func TestEntities(t *testing.T) {
	for _, c := range []struct {
		who  entity
		want string
	}{
		{entity{user: "alice", clientID: "app"}, "user=alice, client-id=app"},
		{entity{user: "alice", defaultClientID: true}, "user=alice, client-id=<default>"},
		{entity{defaultIP: true}, "ip=<default>"},
		{entity{}, "error: whose quotas?"},
		{entity{user: "a", defaultUser: true}, "error: --user or --default-user, not both"},
		{entity{user: "a", ip: "::1"}, "error: an address has quotas of its own"},
	} {
		named, err := c.who.mustName()
		got := show(named)
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.who, got, c.want)
		}
	}
}
