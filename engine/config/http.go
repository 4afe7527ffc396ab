package config

import (
	"net"
	"strconv"
)

// HTTP is the part of [Broker] for operators' HTTP endpoints (keys http.*).
type HTTP struct {
	// Listeners are the addresses to serve on, host:port each; none is off.
	Listeners []string
	// Explicit says that Listeners were asked for: then one that is taken stops
	// the start, while the default's only costs the endpoints.
	Explicit bool
	// Pprof serves Go's profiles under /debug/pprof/.
	Pprof bool
	// PartitionsMax is up to how many partitions have metrics of their own.
	PartitionsMax int32
}

// httpTable holds the keys of the HTTP endpoints; all are this broker's own.
var httpTable = []brokerDef{
	{Definition{Name: "http.listeners", Type: List, Default: "127.0.0.1:9644", check: addresses,
		Doc: "Addresses, host:port each, of /metrics, /healthz and /readyz. An empty host is every interface, port 0 lets the system choose, an empty list is off. Nobody is asked who he is: keep them inside. A taken address stops the start, but the default's is only warned of."},
		func(b *Broker, v Value) { b.HTTP.Listeners = v.List }},
	{Definition{Name: "http.pprof.enable", Type: Boolean, Default: "false",
		Doc: "Whether /debug/pprof/ gives Go's profiles, which cost CPU while they are taken."},
		func(b *Broker, v Value) { b.HTTP.Pprof = v.Bool }},
	{Definition{Name: "http.metrics.partitions.max", Type: Int, Default: "2000", check: atLeast(0),
		Doc: "Partitions up to which /metrics gives series to each; the same holds for topics and for the partitions that groups have committed. Beyond it those series are left out and posthouse_metrics_left_out counts them; /metrics?topic=REGEX asks for some."},
		func(b *Broker, v Value) { b.HTTP.PartitionsMax = int32(v.Int) }},
}

// addresses accepts host:port entries.
var addresses = check{"host:port,...", func(name string, v Value) *Error {
	for _, entry := range v.List {
		_, port, err := net.SplitHostPort(entry)
		if err != nil {
			return refuse(name, v.String(), "%q is not host:port (an IPv6 address stands in brackets)", entry)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return refuse(name, v.String(), "the port of %q must be between 0 and 65535", entry)
		}
	}
	return nil
}}

func setHTTP(b *Broker) error {
	b.HTTP.Explicit = b.isSet("http.listeners")
	return nil
}
