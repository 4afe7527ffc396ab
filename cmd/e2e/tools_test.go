//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
)

const (
	toolsPackage = "org.apache.kafka.tools."
	toolLimit    = time.Minute
)

// TestKafkaAdminTools runs Kafka 4.4's own administration commands.
func TestKafkaAdminTools(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		s := startServer(t, engine)
		tool := func(t *testing.T, class string, args ...string) string {
			t.Helper()
			return javaTool(t, toolLimit, toolsPackage+class, append([]string{"--bootstrap-server", s.addr}, args...)...)
		}
		t.Run("TopicCommand", func(t *testing.T) { testTopicCommand(t, tool) })
		t.Run("ConfigCommand", func(t *testing.T) { testConfigCommand(t, tool) })
		t.Run("offsets", func(t *testing.T) { testOffsetTools(t, s, tool) })
		t.Run("BrokerApiVersionsCommand", func(t *testing.T) { testAPIVersions(t, tool) })
		s.stop(t)
	})
}

// toolFunc runs a class of Kafka's tools against the server under test.
type toolFunc func(t *testing.T, class string, args ...string) string

func mustContain(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("lacks %q:\n%s", w, tail(out))
		}
	}
}

func mustLack(t *testing.T, out string, unwanted ...string) {
	t.Helper()
	for _, w := range unwanted {
		if strings.Contains(out, w) {
			t.Errorf("has %q:\n%s", w, tail(out))
		}
	}
}

func testTopicCommand(t *testing.T, tool toolFunc) {
	out := tool(t, "TopicCommand", "--create", "--topic", "tc", "--partitions", "3", "--replication-factor", "1",
		"--config", "retention.ms=3600000", "--config", "cleanup.policy=delete")
	mustContain(t, out, "Created topic tc.")
	out = tool(t, "TopicCommand", "--describe", "--topic", "tc")
	mustContain(t, out, "PartitionCount: 3", "ReplicationFactor: 1", "retention.ms=3600000", "Partition: 2", "Leader: 1", "Isr: 1")
	if !regexp.MustCompile(`TopicId: [A-Za-z0-9_-]{22}`).MatchString(out) {
		t.Errorf("no topic id:\n%s", out)
	}
	tool(t, "TopicCommand", "--alter", "--topic", "tc", "--partitions", "5")
	mustContain(t, tool(t, "TopicCommand", "--describe", "--topic", "tc"), "PartitionCount: 5", "Partition: 4")
	mustContain(t, tool(t, "TopicCommand", "--list"), "tc")
	tool(t, "TopicCommand", "--delete", "--topic", "tc")
	// Deletion is answered before the last broker has carried it out.
	for deadline := time.Now().Add(10 * time.Second); ; {
		out = tool(t, "TopicCommand", "--list")
		if !strings.Contains(out, "tc") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still listed 10 s after its deletion:\n%s", out)
		}
	}
	out = tool(t, "TopicCommand", "--create", "--if-not-exists", "--topic", "tc", "--partitions", "1")
	mustContain(t, out, "Created topic tc.")
	mustContain(t, tool(t, "TopicCommand", "--describe", "--topic", "tc"), "PartitionCount: 1")
}

func testConfigCommand(t *testing.T, tool toolFunc) {
	tool(t, "TopicCommand", "--create", "--topic", "cc", "--partitions", "1")
	entity := []string{"--entity-type", "topics", "--entity-name", "cc"}
	out := tool(t, "ConfigCommand", append(entity, "--alter", "--add-config", "retention.ms=60000,segment.bytes=2097152,max.message.bytes=2000000")...)
	mustContain(t, out, "Completed updating config for topic cc.")
	out = tool(t, "ConfigCommand", append(entity, "--describe")...)
	mustContain(t, out, "retention.ms=60000", "segment.bytes=2097152", "max.message.bytes=2000000", "DYNAMIC_TOPIC_CONFIG:retention.ms=60000")
	tool(t, "ConfigCommand", append(entity, "--alter", "--delete-config", "retention.ms")...)
	out = tool(t, "ConfigCommand", append(entity, "--describe")...)
	mustContain(t, out, "segment.bytes=2097152")
	mustLack(t, out, "retention.ms=60000")
	out = tool(t, "ConfigCommand", append(entity, "--describe", "--all")...)
	mustContain(t, out, "retention.ms=604800000", "cleanup.policy=delete", "min.insync.replicas=1", "compression.type=producer")
	out = tool(t, "ConfigCommand", "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
	mustContain(t, out, "message.max.bytes=1048588", "num.partitions=1", "log.dirs=")
}

func testOffsetTools(t *testing.T, s *server, tool toolFunc) {
	tool(t, "TopicCommand", "--create", "--topic", "off", "--partitions", "2")
	javaTool(t, toolLimit, toolsPackage+"ProducerPerformance", "--topic", "off", "--num-records", "20000", "--record-size", "100",
		"--throughput", "-1", "--bootstrap-server", s.addr)
	ends := offsets(t, tool, "off", "latest")
	if ends[0]+ends[1] != 20000 {
		t.Errorf("latest offsets %v, want 20,000 together", ends)
	}
	if got := offsets(t, tool, "off", "earliest"); got[0] != 0 || got[1] != 0 {
		t.Errorf("earliest offsets %v, want 0", got)
	}
	if got := offsets(t, tool, "off", "1"); got[0] != 0 || got[1] != 0 {
		t.Errorf("offsets for timestamp 1: %v, want 0", got)
	}
	// The largest timestamp is that of some record near the end.
	if got := offsets(t, tool, "off", "-3"); got[0] >= ends[0] || got[1] >= ends[1] || got[0] < 0 || got[1] < 0 {
		t.Errorf("offsets of the largest timestamp: %v, ends are %v", got, ends)
	}

	file := filepath.Join(scratchDir(t), "offsets.json")
	text := fmt.Sprintf(`{"version":1,"partitions":[{"topic":"off","partition":0,"offset":%d},{"topic":"off","partition":1,"offset":-1}]}`, ends[0]/2)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out := tool(t, "DeleteRecordsCommand", "--offset-json-file", file)
	mustContain(t, out, fmt.Sprintf("partition: off-0\tlow_watermark: %d", ends[0]/2), fmt.Sprintf("partition: off-1\tlow_watermark: %d", ends[1]))
	if got := offsets(t, tool, "off", "earliest"); got[0] != ends[0]/2 || got[1] != ends[1] {
		t.Errorf("earliest offsets after the deletion: %v, want %d and %d", got, ends[0]/2, ends[1])
	}

	out = tool(t, "LogDirsCommand", "--describe", "--topic-list", "off")
	size := logDirSize(t, out)
	if size[0] <= 0 || size[1] <= 0 || size[0]+size[1] < 20000*100/2 {
		t.Errorf("LogDirsCommand gives sizes %v:\n%s", size, out)
	}
}

// offsets are those that GetOffsetShell prints ("topic:partition:offset") for
// the two partitions of a topic; -1 is none.
func offsets(t *testing.T, tool toolFunc, topic, at string) [2]int64 {
	t.Helper()
	out := tool(t, "GetOffsetShell", "--topic", topic, "--time", at)
	got := [2]int64{-1, -1}
	for line := range strings.Lines(out) {
		var partition int
		var offset int64
		if _, err := fmt.Sscanf(line, topic+":%d:%d", &partition, &offset); err == nil && partition < 2 {
			got[partition] = offset
		}
	}
	return got
}

// logDirSize reads the sizes of the partitions of a topic out of the JSON line
// of LogDirsCommand.
func logDirSize(t *testing.T, out string) map[int]int64 {
	t.Helper()
	var description struct {
		Brokers []struct {
			LogDirs []struct {
				Partitions []struct {
					Partition string
					Size      int64
				}
			}
		}
	}
	line := out[strings.Index(out, "{"):]
	if err := json.Unmarshal([]byte(strings.SplitN(line, "\n", 2)[0]), &description); err != nil {
		t.Fatalf("LogDirsCommand: %v\n%s", err, out)
	}
	size := map[int]int64{}
	for _, broker := range description.Brokers {
		for _, dir := range broker.LogDirs {
			for _, p := range dir.Partitions {
				var partition int
				if _, err := fmt.Sscanf(p.Partition, "off-%d", &partition); err == nil {
					size[partition] = p.Size
				}
			}
		}
	}
	return size
}

// servedAPIs are the calls that must be usable in the newest version of Kafka
// 4.4's own client.
var servedAPIs = []string{
	"Produce(0): 0 to 13 [usable: 13]", "Fetch(1): 4 to 18 [usable: 18]", "ListOffsets(2): 1 to 11 [usable: 11]",
	"Metadata(3): 0 to 13 [usable: 13]", "ApiVersions(18): 0 to ", "CreateTopics(19): 2 to 7 [usable: 7]",
	"DeleteTopics(20): 1 to 6 [usable: 6]", "DeleteRecords(21): 0 to 2 [usable: 2]", "InitProducerId(22): 0 to ",
	"OffsetForLeaderEpoch(23): 2 to 4 [usable: 4]", "DescribeConfigs(32): 1 to 4 [usable: 4]",
	"AlterConfigs(33): 0 to 2 [usable: 2]", "DescribeLogDirs(35): 1 to 5 [usable: 5]", "CreatePartitions(37): 0 to 3 [usable: 3]",
	"IncrementalAlterConfigs(44): 0 to 1 [usable: 1]", "DescribeCluster(60): 0 to 2 [usable: 2]",
	"DescribeTopicPartitions(75): 0 [usable: 0]",
}

func testAPIVersions(t *testing.T, tool toolFunc) {
	out := tool(t, "BrokerApiVersionsCommand")
	mustContain(t, out, "(id: 1 rack: null")
	mustContain(t, out, servedAPIs...)
	mustLack(t, out, "ERROR", "UNKNOWN(")
}

// TestProducerPerformance produces two million records with Kafka's default
// producer (idempotent, acks=all); a consumer that assigns itself the
// partitions reads them back in order without a gap.
func TestProducerPerformance(t *testing.T) {
	records := amount(2_000_000, 100_000)
	onEachEngine(t, func(t *testing.T, engine string) {
		s := startServer(t, engine)
		javaTool(t, toolLimit, toolsPackage+"TopicCommand", "--bootstrap-server", s.addr, "--create", "--topic", "perf", "--partitions", "3")
		out := run(t, 4*time.Minute, javaCommand(t, bench.LoadFlags, toolsPackage+"ProducerPerformance", "--topic", "perf",
			"--num-records", fmt.Sprint(records), "--record-size", "100", "--throughput", "-1", "--bootstrap-server", s.addr))
		mustContain(t, out, fmt.Sprintf("%d records sent", records))
		mustLack(t, out, "Exception", "ERROR")
		t.Log(lastLine(out))

		total := int64(0)
		for _, n := range readInOrder(t, s.addr, "perf", 3, int64(records)) {
			total += n
		}
		if total != int64(records) {
			t.Errorf("%d records read, %d produced", total, records)
		}

		t.Run("ConsoleConsumer", func(t *testing.T) { testConsoleConsumer(t, s) })
		s.stop(t)
		n := dumpLogs(t, s.Config.Dir, allSegments)
		t.Logf("DumpLogSegments read %d files", n)
	})
}

// testConsoleConsumer writes numbers with Kafka's producer and reads them with
// its console consumer, which assigns itself the partition.
func testConsoleConsumer(t *testing.T, s *server) {
	n := amount(200_000, 20_000)
	run(t, 2*time.Minute, javaCommand(t, bench.LoadFlags, toolsPackage+"ProducerPerformance", "--topic", "numbers",
		"--num-records", fmt.Sprint(n), "--payload-monotonic", "--throughput", "-1", "--bootstrap-server", s.addr))
	out := run(t, 2*time.Minute, javaCommand(t, bench.LoadFlags, toolsPackage+"consumer.ConsoleConsumer", "--bootstrap-server", s.addr,
		"--topic", "numbers", "--partition", "0", "--offset", "earliest", "--max-messages", fmt.Sprint(n), "--timeout-ms", "30000"))
	next := 0
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == fmt.Sprint(next) {
			next++
			continue
		}
		if line != fmt.Sprintf("Processed a total of %d messages", n) && !javaNoise.MatchString(line) {
			t.Fatalf("after %d numbers in order: %q", next, line)
		}
	}
	if next != n {
		t.Errorf("%d numbers read, %d written", next, n)
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
