package config

import (
	"errors"

	"slices"
	"strings"
	"testing"
)

func TestListeners(t *testing.T) {
	name := hostname
	hostname = func() (string, error) { return "box.example", nil }
	defer func() { hostname = name }()
	const mapped = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:plaintext,SECURE:SSL,CONTROLLER:PLAINTEXT"
	tests := []struct {
		pairs      string
		open       string // listeners
		advertised string
		inter      string
	}{
		{"listeners=PLAINTEXT://localhost:0", "PLAINTEXT://localhost:0", "PLAINTEXT://localhost:0", "PLAINTEXT"},
		{"listeners=PLAINTEXT://:9092", "PLAINTEXT://:9092", "PLAINTEXT://box.example:9092", "PLAINTEXT"},
		{"listeners=plaintext://[::1]:9092", "PLAINTEXT://[::1]:9092", "PLAINTEXT://[::1]:9092", "PLAINTEXT"},
		{"listeners=PLAINTEXT://[fe80::1%eth0]:9092", "PLAINTEXT://[fe80::1%eth0]:9092", "PLAINTEXT://[fe80::1%eth0]:9092", "PLAINTEXT"},
		{"listeners=PLAINTEXT://0.0.0.0:9092 advertised.listeners=PLAINTEXT://kafka.example:19092", "PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://kafka.example:19092", "PLAINTEXT"},
		{"listeners=PLAINTEXT://0.0.0.0:9092 advertised.listeners=PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://box.example:9092", "PLAINTEXT"},
		{mapped + " listeners=INTERNAL://a:1,EXTERNAL://b:2", "INTERNAL://a:1 EXTERNAL://b:2", "INTERNAL://a:1 EXTERNAL://b:2", "INTERNAL"},
		{mapped + " listeners=INTERNAL://a:1,EXTERNAL://b:2 inter.broker.listener.name=external", "INTERNAL://a:1 EXTERNAL://b:2", "INTERNAL://a:1 EXTERNAL://b:2", "EXTERNAL"},
		{mapped + " listeners=INTERNAL://a:1,EXTERNAL://b:2 advertised.listeners=EXTERNAL://c:3", "INTERNAL://a:1 EXTERNAL://b:2", "EXTERNAL://c:3", "EXTERNAL"},
		{mapped + " listeners=CONTROLLER://a:1,EXTERNAL://b:2 controller.listener.names=CONTROLLER", "EXTERNAL://b:2", "EXTERNAL://b:2", "EXTERNAL"},
		{mapped + " listeners=INTERNAL://127.0.0.1:1,EXTERNAL://[::1]:1", "INTERNAL://127.0.0.1:1 EXTERNAL://[::1]:1", "INTERNAL://127.0.0.1:1 EXTERNAL://[::1]:1", "INTERNAL"},
		{mapped + " listeners=INTERNAL://a:0,EXTERNAL://b:0", "INTERNAL://a:0 EXTERNAL://b:0", "INTERNAL://a:0 EXTERNAL://b:0", "INTERNAL"},
	}
	join := func(listeners []Listener) string {
		var s []string
		for _, l := range listeners {
			s = append(s, l.String())
			if l.Protocol != plaintext {
				t.Errorf("protocol of %s is %q", l, l.Protocol)
			}
		}
		return strings.Join(s, " ")
	}
	for _, tt := range tests {
		b, _ := mustLoad(t, strings.Fields(tt.pairs)...)
		if join(b.Listeners) != tt.open || join(b.AdvertisedListeners) != tt.advertised || b.InterBrokerListener != tt.inter {
			t.Errorf("%s:\n got %s | %s | %s\nwant %s | %s | %s", tt.pairs, join(b.Listeners), join(b.AdvertisedListeners), b.InterBrokerListener, tt.open, tt.advertised, tt.inter)
		}
	}
}

func TestBadListeners(t *testing.T) {
	tests := []struct{ pairs, err string }{
		{"listeners=", "Invalid value  for configuration listeners: at least one NAME://host:port is needed"},
		{"listeners=localhost:9092", `Invalid value localhost:9092 for configuration listeners: "localhost:9092" is not NAME://host:port (an IPv6 address stands in brackets)`},
		{"listeners=PLAINTEXT://::1:9092", `Invalid value PLAINTEXT://::1:9092 for configuration listeners: "PLAINTEXT://::1:9092" is not NAME://host:port (an IPv6 address stands in brackets)`},
		{"listeners=PLAINTEXT://a:65536", `Invalid value PLAINTEXT://a:65536 for configuration listeners: the port of "PLAINTEXT://a:65536" must be between 0 and 65535`},
		{"listeners=PLAINTEXT://a:-1", `Invalid value PLAINTEXT://a:-1 for configuration listeners: "PLAINTEXT://a:-1" is not NAME://host:port (an IPv6 address stands in brackets)`},
		{"listeners=PLAINTEXT://[abc]:1", `Invalid value PLAINTEXT://[abc]:1 for configuration listeners: "PLAINTEXT://[abc]:1" has no IPv6 address in its brackets`},
		{"listeners=PLAINTEXT://a:1,PLAINTEXT://a:2", "Invalid value PLAINTEXT://a:1,PLAINTEXT://a:2 for configuration listeners: Each listener must have a different name: PLAINTEXT is there twice"},
		{"listeners=PLAINTEXT://a:1,SSL://a:2", "Invalid value PLAINTEXT://a:1,SSL://a:2 for configuration listeners: listener SSL uses SSL, and only PLAINTEXT is served by this version"},
		{"listeners=SASL_PLAINTEXT://a:2", "Invalid value SASL_PLAINTEXT://a:2 for configuration listeners: listener SASL_PLAINTEXT uses SASL_PLAINTEXT, and only PLAINTEXT is served by this version"},
		{"listeners=EXTERNAL://a:2", "Invalid value EXTERNAL://a:2 for configuration listeners: No security protocol defined for listener EXTERNAL: name it in listener.security.protocol.map"},
		{"listeners=A://a:2,B://b:2 listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT", "Invalid value A://a:2,B://b:2 for configuration listeners: Each listener must have a different port unless exactly one listener has an IPv4 address and the other IPv6 address: A and B"},
		{"listener.security.protocol.map=A=PLAINTEXT", `Invalid value A=PLAINTEXT for configuration listener.security.protocol.map: "A=PLAINTEXT" must be NAME:PROTOCOL with one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL`},
		{"listener.security.protocol.map=A:TLS", `Invalid value A:TLS for configuration listener.security.protocol.map: "A:TLS" must be NAME:PROTOCOL with one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL`},
		{"listeners=PLAINTEXT://0.0.0.0:9092", "Invalid value PLAINTEXT://0.0.0.0:9092 for configuration listeners: clients cannot connect to 0.0.0.0: set advertised.listeners to the address that they use, for instance advertised.listeners=PLAINTEXT://broker.example:9092"},
		{"listeners=PLAINTEXT://[::]:9092", "Invalid value PLAINTEXT://[::]:9092 for configuration listeners: clients cannot connect to ::: set advertised.listeners to the address that they use, for instance advertised.listeners=PLAINTEXT://broker.example:9092"},
		{"advertised.listeners=PLAINTEXT://0.0.0.0:9092", "Invalid value PLAINTEXT://0.0.0.0:9092 for configuration advertised.listeners: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."},
		{"advertised.listeners=OTHER://a:9092,PLAINTEXT://a:9092", "Invalid value OTHER://a:9092,PLAINTEXT://a:9092 for configuration advertised.listeners: listener names must be equal to or a subset of the ones defined in listeners, and OTHER is not"},
		{"listeners=CONTROLLER://a:1 controller.listener.names=CONTROLLER", "Invalid value CONTROLLER://a:1 for configuration listeners: There must be at least one broker advertised listener. Perhaps all listeners appear in controller.listener.names?"},
		{"inter.broker.listener.name=OTHER", "Invalid value OTHER for configuration inter.broker.listener.name: must be a listener name defined in advertised.listeners: PLAINTEXT"},
		{"inter.broker.listener.name=PLAINTEXT security.inter.broker.protocol=PLAINTEXT", "Invalid value PLAINTEXT for configuration inter.broker.listener.name: Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."},
	}
	for _, tt := range tests {
		_, _, err := Load(p(strings.Fields(tt.pairs)...), nil)
		var bad *Error
		if !errors.As(err, &bad) || err.Error() != tt.err {
			t.Errorf("%s:\n got %s\nwant %s", tt.pairs, text(err), tt.err)
		}
	}
	name := hostname
	hostname = func() (string, error) { return "", errors.New("no name") }
	defer func() { hostname = name }()
	if _, _, err := Load(p("listeners=PLAINTEXT://:9092"), nil); err == nil || !strings.Contains(err.Error(), "no name") {
		t.Errorf("without a host name: %v", err)
	}
}

func TestAdvertise(t *testing.T) {
	b, _ := mustLoad(t, "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT", "listeners=A://a:0,B://b:5")
	got := b.Advertise(map[string]int32{"A": 40001, "B": 5})
	want := []Listener{{"A", "PLAINTEXT", "a", 40001}, {"B", "PLAINTEXT", "b", 5}}
	if !slices.Equal(got, want) || b.AdvertisedListeners[0].Port != 0 {
		t.Errorf("got %v, left %v", got, b.AdvertisedListeners)
	}
}
