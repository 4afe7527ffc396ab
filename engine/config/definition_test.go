package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// kafkaRow is one line of testdata/kafka-4.4.tsv.
type kafkaRow struct {
	kind, name, typ, def, valid string
	internal                    bool
	update                      string // read-only, dynamic, or - where unknown
}

func kafkaRows(t *testing.T) []kafkaRow {
	t.Helper()
	text, err := os.ReadFile("testdata/kafka-4.4.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var rows []kafkaRow
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		c := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(c) != 7 {
			t.Fatalf("%d columns in %q", len(c), line)
		}
		rows = append(rows, kafkaRow{c[0], c[1], c[2], c[3], c[4], c[5] == "internal", c[6]})
	}
	return rows
}

// ourDefaults are where a lone node, or this broker's design, wants another
// default than Kafka's.
var ourDefaults = map[string]string{
	"socket.receive.buffer.bytes":           "-1",
	"socket.send.buffer.bytes":              "-1",
	"broker.id":                             "<null>",
	"controller.listener.names":             "<null>",
	"listeners":                             "PLAINTEXT://127.0.0.1:9092",
	"log.dir":                               "./data",
	"metric.reporters":                      "",
	"node.id":                               "1",
	"offsets.topic.replication.factor":      "1",
	"principal.builder.class":               "<null>",
	"process.roles":                         "broker",
	"queued.max.request.bytes":              "134217728",
	"transaction.state.log.min.isr":         "1",
	"share.coordinator.state.topic.min.isr": "1",
	"share.coordinator.state.topic.replication.factor": "1",
	"transaction.state.log.replication.factor":         "1",
}

// ourChecks are stricter than Kafka's: what it accepts there it cannot use, or
// it checks elsewhere.
var ourChecks = []string{
	"authorizer.class.name", "controller.quorum.bootstrap.servers", "controller.quorum.voters", "default.replication.factor",
	"internal.segment.bytes", "log.cleaner.dedupe.buffer.size", "log.roll.jitter.ms", "log.roll.ms", "max.connections.per.ip.overrides", "remote.log.storage.system.enable",
	"share.coordinator.state.topic.min.isr",
}

// ourReadOnly cannot be changed at run time here.
var ourReadOnly = []string{"listener.security.protocol.map", "listeners", "principal.builder.class"}

func TestDefinitionsAreKafkas(t *testing.T) {
	seen := make(map[string]bool)
	for _, row := range kafkaRows(t) {
		def := TopicDefinition(row.name)
		if row.kind == "broker" {
			def = BrokerDefinition(row.name)
		}
		if def == nil {
			t.Errorf("%s config %s is not defined", row.kind, row.name)
			continue
		}
		if row.kind == "topic" {
			seen[row.name] = true
		}
		want := row.def
		if ours, ok := ourDefaults[row.name]; ok && row.kind == "broker" {
			want = ours
		}
		got := def.DefaultValue().String()
		if def.Null {
			got = "<null>"
		}
		if got != want {
			t.Errorf("%s: default %q, want %q", row.name, got, want)
		}
		if def.Type.String() != row.typ {
			t.Errorf("%s: type %s, want %s", row.name, def.Type, row.typ)
		}
		if def.Allowed() != row.valid && !slices.Contains(ourChecks, row.name) {
			t.Errorf("%s: valid values %q, want %q", row.name, def.Allowed(), row.valid)
		}
		if def.Internal != row.internal {
			t.Errorf("%s: internal %v, want %v", row.name, def.Internal, row.internal)
		}
		if row.kind == "broker" && row.update != "-" && (def.Update == ReadOnly) != (row.update == "read-only") && !slices.Contains(ourReadOnly, row.name) {
			t.Errorf("%s: update mode %d, want %s", row.name, def.Update, row.update)
		}
	}
	for _, name := range TopicNames() {
		if !seen[name] {
			t.Errorf("topic config %s is not Kafka's", name)
		}
	}
}

// TestDefinitionsAreWhole checks what the tables promise to their readers.
func TestDefinitionsAreWhole(t *testing.T) {
	check := func(def *Definition) {
		if def.Doc == "" || !strings.HasSuffix(def.Doc, ".") {
			t.Errorf("%s: documentation %q", def.Name, def.Doc)
		}
		if !def.Null {
			if _, err := def.Parse(def.Default); err != nil {
				t.Errorf("%s: default is refused: %v", def.Name, err)
			}
		}
		for _, s := range def.Synonyms {
			if BrokerDefinition(s.Name) == nil {
				t.Errorf("%s: synonym %s is not defined", def.Name, s.Name)
			}
			if s.Scale < 1 {
				t.Errorf("%s: synonym %s has scale %d", def.Name, s.Name, s.Scale)
			}
		}
	}
	for _, name := range TopicNames() {
		check(TopicDefinition(name))
	}
	for _, name := range BrokerNames() {
		check(BrokerDefinition(name))
	}
	for _, name := range groupDefs.names {
		check(GroupDefinition(name))
	}
}

func TestParseValue(t *testing.T) {
	tests := []struct{ key, raw, value, err string }{
		{"segment.bytes", " 2097152 ", "2097152", ""},
		{"segment.bytes", "+2097152", "2097152", ""},
		{"segment.bytes", "abc", "", "Invalid value abc for configuration segment.bytes: Not a number of type INT"},
		{"segment.bytes", "99999999999", "", "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT"},
		{"segment.bytes", "100", "", "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576"},
		{"segment.bytes", "2_097_152", "", "Invalid value 2_097_152 for configuration segment.bytes: Not a number of type INT"},
		{"retention.ms", "", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "-2", "", "Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{"preallocate", " TRUE ", "true", ""},
		{"preallocate", "yes", "", "Invalid value yes for configuration preallocate: Expected value to be either true or false"},
		{"cleanup.policy", "compact , delete", "compact,delete", ""},
		{"cleanup.policy", "", "", ""},
		{"cleanup.policy", "compact,", "", "Configuration 'cleanup.policy' values must not be empty."},
		{"cleanup.policy", "Compact", "", "Invalid value Compact for configuration cleanup.policy: String must be one of: compact, delete"},
		{"min.cleanable.dirty.ratio", "1.5", "", "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.cleanable.dirty.ratio", "-1", "", "Invalid value -1.0 for configuration min.cleanable.dirty.ratio: Value must be at least 0"},
		{"min.cleanable.dirty.ratio", "1", "1.0", ""},
		{"min.cleanable.dirty.ratio", "NaN", "", "Invalid value NaN for configuration min.cleanable.dirty.ratio: Value must be a number between 0 and 1"},
		{"compression.gzip.level", "0", "", "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.gzip.level", "-1", "-1", ""},
		{"compression.lz4.level", "99", "", "Invalid value 99 for configuration compression.lz4.level: Value must be no more than 17"},
		{"compression.type", "brotli", "", "Invalid value brotli for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"leader.replication.throttled.replicas", "0:1, 1:1", "0:1,1:1", ""},
		{"leader.replication.throttled.replicas", "*", "*", ""},
		{"leader.replication.throttled.replicas", "*,0:1", "", "Invalid value [*, 0:1] for configuration leader.replication.throttled.replicas: leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."},
		{"max.decompressed.message.bytes", "0", "", "Invalid value 0 for configuration max.decompressed.message.bytes: Value must be at least 1"},
	}
	for _, tt := range tests {
		v, err := TopicDefinition(tt.key).Parse(tt.raw)
		if text(err) != tt.err || err == nil && v.String() != tt.value {
			t.Errorf("%s=%q: got %q, %q; want %q, %q", tt.key, tt.raw, v, text(err), tt.value, tt.err)
		}
	}
	if _, err := BrokerDefinition("delegation.token.secret.key").Parse("secret"); err != nil {
		t.Error(err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestFormatDouble(t *testing.T) {
	for f, want := range map[float64]string{0: "0.0", 0.5: "0.5", 1: "1.0", 1e7: "1.0E7", 1.5e-4: "1.5E-4", 1.7976931348623157e308: "1.7976931348623157E308", 1234567: "1234567.0"} {
		if got := formatDouble(f); got != want {
			t.Errorf("%v: got %s, want %s", f, got, want)
		}
	}
}
