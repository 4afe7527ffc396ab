//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
)

// TestKafkaGroupTools runs what Kafka ships for groups: consumers in a group
// and the command that looks at groups and changes them.
func TestKafkaGroupTools(t *testing.T) {
	onEachEngineInFull(t, func(t *testing.T, engine string) {
		s := startServer(t, engine, "group.initial.rebalance.delay.ms=0")
		tool := func(t *testing.T, class string, args ...string) string {
			t.Helper()
			return javaTool(t, toolLimit, toolsPackage+class, append([]string{"--bootstrap-server", s.addr}, args...)...)
		}
		n := amount(200_000, 20_000)
		mustCreateTopic(t, s.addr, "tools", 3, nil)
		run(t, 2*time.Minute, javaCommand(t, bench.ToolFlags, toolsPackage+"ProducerPerformance", "--topic", "tools",
			"--num-records", fmt.Sprint(n), "--record-size", "20", "--throughput", "-1", "--bootstrap-server", s.addr))
		for _, protocol := range []string{"classic", "consumer"} {
			t.Run("ConsoleConsumer-"+protocol, func(t *testing.T) { testConsoleGroup(t, tool, protocol, n) })
		}
		t.Run("ConsumerPerformance", func(t *testing.T) { testConsumerPerformance(t, tool, n) })
		t.Run("ConsumerGroupCommand", func(t *testing.T) { testGroupCommand(t, s, tool, n) })
		s.stop(t)
		t.Run("DumpLogSegments", func(t *testing.T) { testOffsetsDecoder(t, s) })
	})
}

// testConsoleGroup reads a topic as a group, so that the group's offsets are
// its end, and another time, when nothing is left.
func testConsoleGroup(t *testing.T, tool toolFunc, protocol string, n int) {
	args := []string{"--topic", "tools", "--group", "console-" + protocol, "--from-beginning", "--timeout-ms", "8000",
		"--consumer-property", "group.protocol=" + protocol}
	out := tool(t, "consumer.ConsoleConsumer", append(args, "--max-messages", fmt.Sprint(n))...)
	mustContain(t, out, fmt.Sprintf("Processed a total of %d messages", n))
	for p, lag := range groupLag(t, tool, "console-"+protocol) {
		if lag != 0 {
			t.Errorf("partition %d lags by %d after everything was read", p, lag)
		}
	}
	out = tool(t, "consumer.ConsoleConsumer", args...)
	mustContain(t, out, "Processed a total of 0 messages")
}

func testConsumerPerformance(t *testing.T, tool toolFunc, n int) {
	out := tool(t, "ConsumerPerformance", "--topic", "tools", "--group", "performance", "--num-records", fmt.Sprint(n), "--timeout", "20000")
	line := ""
	for l := range strings.Lines(out) {
		if strings.HasPrefix(l, "20") {
			line = l
		}
	}
	fields := strings.Split(line, ",")
	if len(fields) < 5 {
		t.Fatalf("no figures:\n%s", tail(out))
	}
	if got, err := strconv.Atoi(strings.TrimSpace(fields[4])); err != nil || got < n {
		t.Errorf("%q records read of %d:\n%s", fields[4], n, tail(out))
	}
}

var groupLine = regexp.MustCompile(`(?m)^(\S+)\s+tools\s+(\d)\s+(-|\d+)\s+(\d+)\s+(-|\d+)`)

// groupLag is the lag that ConsumerGroupCommand describes, by partition.
func groupLag(t *testing.T, tool toolFunc, group string) map[int]int {
	t.Helper()
	out := tool(t, "consumer.group.ConsumerGroupCommand", "--describe", "--group", group)
	lag := map[int]int{}
	for _, m := range groupLine.FindAllStringSubmatch(out, -1) {
		p, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if lag[p], err = strconv.Atoi(m[5]); err != nil {
			t.Errorf("partition %d has no lag: %q", p, m[0])
		}
	}
	if len(lag) != 3 {
		t.Errorf("%s: %d partitions described:\n%s", group, len(lag), tail(out))
	}
	return lag
}

// testGroupCommand lists, describes, resets and deletes: a group at rest and
// one at work, under each protocol.
func testGroupCommand(t *testing.T, s *server, tool toolFunc, n int) {
	command := func(t *testing.T, args ...string) string {
		t.Helper()
		return tool(t, "consumer.group.ConsumerGroupCommand", args...)
	}
	mustContain(t, command(t, "--list"), "console-classic", "console-consumer", "performance")
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run("at-work-"+protocol, func(t *testing.T) {
			group := "at-work-" + protocol
			member := startVerifiableConsumer(t, s, "member", "tools", group, "--group-protocol", protocol)
			waitUntil(t, time.Minute, "member with all partitions", func() bool { return len(member.owned(t)) == 3 })
			out := command(t, "--describe", "--group", group, "--state")
			mustContain(t, out, "Stable", s.addr)
			out = command(t, "--describe", "--group", group, "--members", "--verbose")
			mustContain(t, out, "tools", "/127.0.0.1")
			mustContain(t, command(t, "--list", "--state"), group)
			mustContain(t, command(t, "--list", "--type", protocol), group)
			// A group at work keeps its offsets and its life.
			out = command(t, "--reset-offsets", "--group", group, "--topic", "tools", "--to-earliest", "--execute")
			mustContain(t, out, "only be reset if the group")
			mustContain(t, command(t, "--delete", "--group", group), "GroupNotEmptyException")
			member.terminate(t, toolLimit)
			waitUntil(t, toolLimit, "empty group", func() bool {
				return strings.Contains(command(t, "--describe", "--group", group, "--state"), "Empty")
			})
			mustContain(t, command(t, "--delete", "--group", group), "successful")
			mustLack(t, command(t, "--list"), group)
		})
	}
	ends := groupOffsets(t, s, "performance")
	sum := int64(0)
	for _, end := range ends {
		sum += end
	}
	if sum != int64(n) {
		t.Errorf("the group's offsets are %v, %d records were read", ends, n)
	}
	for _, reset := range []struct {
		how  []string
		want func(p int32) int64
	}{
		{[]string{"--to-earliest"}, func(int32) int64 { return 0 }},
		{[]string{"--shift-by", "5"}, func(int32) int64 { return 5 }},
		{[]string{"--to-offset", "7"}, func(int32) int64 { return 7 }},
		{[]string{"--to-datetime", "2001-01-01T00:00:00.000"}, func(int32) int64 { return 0 }},
		{[]string{"--to-latest"}, func(p int32) int64 { return ends[p] }},
		{[]string{"--to-current"}, func(p int32) int64 { return ends[p] }},
	} {
		command(t, append([]string{"--reset-offsets", "--group", "performance", "--topic", "tools", "--execute"}, reset.how...)...)
		for p, at := range groupOffsets(t, s, "performance") {
			if want := reset.want(p); at != want {
				t.Errorf("%v: partition %d is at %d, want %d", reset.how, p, at, want)
			}
		}
	}
	out := command(t, "--delete-offsets", "--group", "performance", "--topic", "tools:0")
	mustContain(t, out, "Successful")
	if got := groupOffsets(t, s, "performance"); len(got) != 2 {
		t.Errorf("offsets after one was deleted: %v", got)
	}
	mustContain(t, command(t, "--delete", "--group", "performance"), "successful")
	if got := groupOffsets(t, s, "performance"); len(got) != 0 {
		t.Errorf("offsets of a deleted group: %v", got)
	}
}

func groupOffsets(t *testing.T, s *server, group string) map[int32]int64 {
	t.Helper()
	return committedOffsets(t, s.addr, group, "tools")
}

// testOffsetsDecoder lets Kafka's tool decode every record of the offsets
// topic: both protocols' and those of groups that were deleted.
func testOffsetsDecoder(t *testing.T, s *server) {
	logs, err := filepath.Glob(filepath.Join(s.Config.Dir, "__consumer_offsets-*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, log := range logs {
		if info, err := os.Stat(log); err == nil && info.Size() > 0 {
			files = append(files, log)
		}
	}
	if len(files) == 0 {
		t.Fatalf("no file of the offsets topic has a record (%d files)", len(logs))
	}
	out := javaTool(t, 2*time.Minute, toolsPackage+"DumpLogSegments", "--offsets-decoder", "--files", strings.Join(files, ","))
	counts := map[string]int{}
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "| offset: ") {
			if strings.Contains(line, "Exception") || strings.Contains(line, "isvalid: false") {
				t.Errorf("DumpLogSegments: %s", line)
			}
			continue
		}
		// A decoded key is JSON, {"type":"offset_commit" or the number 0,…}; what
		// it cannot decode it says in angle brackets.
		key := line[strings.Index(line, "key:"):]
		if !strings.HasPrefix(key, `key: {"type":`) || strings.Contains(line, "payload: <") && !strings.Contains(line, "payload: <DELETE>") {
			t.Errorf("not decoded: %s", tail(line))
			continue
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(key, `key: {"type":`), ",")
		counts[kind]++
	}
	t.Logf("records of the offsets topic by kind: %v", counts)
	for _, kind := range []string{`"1"`, `"2"`, `"3"`, `"5"`} {
		if counts[kind] == 0 && counts[strings.Trim(kind, `"`)] == 0 {
			t.Errorf("no record of kind %s among %v", kind, counts)
		}
	}
}
