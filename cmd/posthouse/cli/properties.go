package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Scope says which properties a command heeds besides those of any client.
type Scope int

// Scopes, to be combined.
const (
	Anything Scope = 0
	Producer Scope = 1 << iota
	Consumer
	GroupMember
)

// property is a client's property, by its name in the Java client.
type property struct {
	scope Scope
	set   func(value string) (kgo.Opt, error)
}

// clientProperties are those that become an option of the client; the ones of
// the connection's security are in tlsConfig and saslMechanism.
var clientProperties = map[string]property{
	"client.id":               {Anything, func(v string) (kgo.Opt, error) { return kgo.ClientID(v), nil }},
	"metadata.max.age.ms":     {Anything, millis(kgo.MetadataMaxAge)},
	"connections.max.idle.ms": {Anything, millis(kgo.ConnIdleTimeout)},

	"acks":               {Producer, acksProperty},
	"compression.type":   {Producer, compressionProperty},
	"linger.ms":          {Producer, millis(kgo.ProducerLinger)},
	"batch.size":         {Producer, count(func(n int32) kgo.Opt { return kgo.ProducerBatchMaxBytes(n) })},
	"request.timeout.ms": {Producer, millis(kgo.ProduceRequestTimeout)},
	"enable.idempotence": {Producer, idempotenceProperty},

	"isolation.level":           {Consumer, isolationProperty},
	"client.rack":               {Consumer, func(v string) (kgo.Opt, error) { return kgo.Rack(v), nil }},
	"fetch.min.bytes":           {Consumer, count(func(n int32) kgo.Opt { return kgo.FetchMinBytes(n) })},
	"fetch.max.bytes":           {Consumer, count(func(n int32) kgo.Opt { return kgo.FetchMaxBytes(n) })},
	"fetch.max.wait.ms":         {Consumer, millis(kgo.FetchMaxWait)},
	"max.partition.fetch.bytes": {Consumer, count(func(n int32) kgo.Opt { return kgo.FetchMaxPartitionBytes(n) })},

	"group.instance.id":       {GroupMember, func(v string) (kgo.Opt, error) { return kgo.InstanceID(v), nil }},
	"session.timeout.ms":      {GroupMember, millis(kgo.SessionTimeout)},
	"heartbeat.interval.ms":   {GroupMember, millis(kgo.HeartbeatInterval)},
	"max.poll.interval.ms":    {GroupMember, millis(kgo.RebalanceTimeout)},
	"auto.commit.interval.ms": {GroupMember, millis(kgo.AutoCommitInterval)},
}

// securityProperties are read by tlsConfig and saslMechanism; the names of
// librdkafka for files of PEM stand beside the Java client's.
var securityProperties = []string{
	"security.protocol", "ssl.endpoint.identification.algorithm",
	"ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location",
	"ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key",
	"ssl.certificate.location", "ssl.key.location",
	"sasl.mechanism", "sasl.mechanisms", "sasl.jaas.config", "sasl.username", "sasl.password",
}

// clientOptions turns a client's properties into options of the scopes asked
// for. unknown are the properties that mean nothing to this client.
func clientOptions(properties map[string]string, scopes Scope) (opts []kgo.Opt, security *tls.Config, unknown []string, err error) {
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		value := properties[key]
		p, known := clientProperties[key]
		switch {
		case known && (p.scope == Anything || p.scope&scopes != 0):
			opt, err := p.set(strings.TrimSpace(value))
			if err != nil {
				return nil, nil, nil, Usagef("%s=%s: %w", key, Printable(value), err)
			}
			opts = append(opts, opt)
		case !known && key != "bootstrap.servers" && !slices.Contains(securityProperties, key):
			unknown = append(unknown, key)
		}
	}
	protocol := strings.ToUpper(strings.TrimSpace(properties["security.protocol"]))
	switch protocol {
	case "", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL":
	default:
		return nil, nil, nil, Usagef("security.protocol=%s: want PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", Printable(protocol))
	}
	if strings.HasSuffix(protocol, "SSL") {
		if security, err = tlsConfig(properties); err != nil {
			return nil, nil, nil, err
		}
	}
	if strings.HasPrefix(protocol, "SASL") {
		mechanism, err := saslMechanism(properties)
		if err != nil {
			return nil, nil, nil, err
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, security, unknown, nil
}

func millis[O kgo.Opt](opt func(time.Duration) O) func(string) (kgo.Opt, error) {
	return func(v string) (kgo.Opt, error) {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 0 {
			return nil, errors.New("want milliseconds")
		}
		return opt(time.Duration(n) * time.Millisecond), nil
	}
}

func count(opt func(int32) kgo.Opt) func(string) (kgo.Opt, error) {
	return func(v string) (kgo.Opt, error) {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 0 {
			return nil, errors.New("want a number of bytes")
		}
		return opt(int32(n)), nil
	}
}

// Acks reads acks as all clients spell it.
func Acks(v string) (kgo.Acks, error) {
	switch strings.ToLower(v) {
	case "all", "-1":
		return kgo.AllISRAcks(), nil
	case "1":
		return kgo.LeaderAck(), nil
	case "0":
		return kgo.NoAck(), nil
	}
	return kgo.Acks{}, errors.New("want 0, 1 or all")
}

func acksProperty(v string) (kgo.Opt, error) {
	acks, err := Acks(v)
	return kgo.RequiredAcks(acks), err
}

// Codecs are the names of the compressions.
var Codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Codec reads the name of a compression.
func Codec(v string) (kgo.CompressionCodec, error) {
	switch strings.ToLower(v) {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.CompressionCodec{}, fmt.Errorf("want one of %s", strings.Join(Codecs, ", "))
}

func compressionProperty(v string) (kgo.Opt, error) {
	codec, err := Codec(v)
	return kgo.ProducerBatchCompression(codec), err
}

func idempotenceProperty(v string) (kgo.Opt, error) {
	on, err := strconv.ParseBool(v)
	if err != nil {
		return nil, errors.New("want true or false")
	}
	if on {
		return kgo.RequiredAcks(kgo.AllISRAcks()), nil
	}
	return kgo.DisableIdempotentWrite(), nil
}

// Isolation reads an isolation level.
func Isolation(v string) (kgo.IsolationLevel, error) {
	switch strings.ReplaceAll(strings.ToLower(v), "-", "_") {
	case "read_committed":
		return kgo.ReadCommitted(), nil
	case "read_uncommitted":
		return kgo.ReadUncommitted(), nil
	}
	return kgo.IsolationLevel{}, errors.New("want read_uncommitted or read_committed")
}

func isolationProperty(v string) (kgo.Opt, error) {
	level, err := Isolation(v)
	return kgo.FetchIsolationLevel(level), err
}

// tlsConfig reads keys and certificates in PEM; Java's own stores would need
// Java.
func tlsConfig(properties map[string]string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	for _, store := range []string{"ssl.truststore", "ssl.keystore"} {
		kind := properties[store+".type"]
		if kind == "" && properties[store+".location"] != "" || kind != "" && !strings.EqualFold(kind, "PEM") {
			return nil, Usagef("%s.type=%s: only PEM can be read here; keytool and openssl turn a store into it", store, Printable(kind))
		}
	}
	if algorithm, ok := properties["ssl.endpoint.identification.algorithm"]; ok && (algorithm == "" || algorithm == "none") {
		// What the property asks for: any name will do, the chain must still be right.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(s tls.ConnectionState) error {
			return verifyChain(config.RootCAs, s.PeerCertificates)
		}
	}
	authorities, from, err := pemText(properties, "ssl.truststore.certificates", "ssl.truststore.location", "ssl.ca.location")
	if err != nil {
		return nil, err
	}
	if authorities != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, Usagef("%s holds no certificate in PEM", from)
		}
	}
	chain, chainFrom, err := pemText(properties, "ssl.keystore.certificate.chain", "ssl.keystore.location", "ssl.certificate.location")
	if err != nil || chain == nil {
		return config, err
	}
	key, _, err := pemText(properties, "ssl.keystore.key", "ssl.keystore.location", "ssl.key.location")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, Usagef("%s: %w", chainFrom, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// verifyChain is tls's own check without the name.
func verifyChain(roots *x509.CertPool, chain []*x509.Certificate) error {
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(options)
	return err
}

// pemText is the text of the first property that is set: inline, or of a file.
func pemText(properties map[string]string, inline string, files ...string) (text []byte, from string, err error) {
	if v := properties[inline]; v != "" {
		if block, _ := pem.Decode([]byte(v)); block == nil {
			return nil, inline, Usagef("%s is not in PEM", inline)
		}
		return []byte(v), inline, nil
	}
	for _, key := range files {
		if path := properties[key]; path != "" {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, key, fmt.Errorf("%s: %w", key, err)
			}
			return text, path, nil
		}
	}
	return nil, "", nil
}

// jaasOption finds name="value" in a sasl.jaas.config.
var jaasOption = regexp.MustCompile(`\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"`)

func saslMechanism(properties map[string]string) (sasl.Mechanism, error) {
	user, password := properties["sasl.username"], properties["sasl.password"]
	for _, m := range jaasOption.FindAllStringSubmatch(properties["sasl.jaas.config"], -1) {
		value := strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(m[2])
		if m[1] == "username" {
			user = value
		} else {
			password = value
		}
	}
	if user == "" {
		return nil, Usagef("SASL needs sasl.jaas.config, or sasl.username and sasl.password")
	}
	name := properties["sasl.mechanism"]
	if name == "" {
		name = properties["sasl.mechanisms"]
	}
	switch strings.ToUpper(name) {
	case "PLAIN":
		return plain.Plain(func(context.Context) (plain.Auth, error) { return plain.Auth{User: user, Pass: password}, nil }), nil
	case "SCRAM-SHA-256":
		return scram.Sha256(func(context.Context) (scram.Auth, error) { return scram.Auth{User: user, Pass: password}, nil }), nil
	case "SCRAM-SHA-512":
		return scram.Sha512(func(context.Context) (scram.Auth, error) { return scram.Auth{User: user, Pass: password}, nil }), nil
	}
	return nil, Usagef("sasl.mechanism=%s: want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", Printable(name))
}
