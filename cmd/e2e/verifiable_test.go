//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
)

const verifiablePartitions = 6

// verifiableConsumer is one process of Kafka's VerifiableConsumer, which prints
// a JSON line for each thing that happens to it.
type verifiableConsumer struct {
	*program
	name   string
	killed int64 // ms since 1970 when it was killed, 0 if it was not
}

// verifiableEvent is the part of its lines that is looked at.
type verifiableEvent struct {
	Timestamp  int64 // ms since 1970
	Name       string
	Success    *bool
	Error      string
	Count      int
	Partitions []struct {
		Topic                string
		Partition            int32
		Count                int64
		MinOffset, MaxOffset int64
	}
	Offsets []struct {
		Partition int32
		Offset    int64
	}
	who string
}

func startVerifiableConsumer(t *testing.T, s *server, name, topic, group string, args ...string) *verifiableConsumer {
	t.Helper()
	args = append([]string{"--bootstrap-server", s.addr, "--topic", topic, "--group-id", group}, args...)
	return &verifiableConsumer{
		program: startProgram(t, javaCommand(t, bench.ToolFlags, toolsPackage+"VerifiableConsumer", args...)),
		name:    name,
	}
}

// events are those of the process so far.
func (c *verifiableConsumer) events(t *testing.T) []verifiableEvent {
	t.Helper()
	var events []verifiableEvent
	for _, line := range c.output() {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		event := verifiableEvent{who: c.name}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			if c.killed != 0 {
				continue // its last line is cut
			}
			t.Fatalf("%s: %v: %s", c.name, err, line)
		}
		events = append(events, event)
	}
	return events
}

// owned is what the process owns after its events.
func (c *verifiableConsumer) owned(t *testing.T) []int32 {
	t.Helper()
	var owned []int32
	for _, e := range c.events(t) {
		for _, p := range e.Partitions {
			switch e.Name {
			case "partitions_assigned":
				owned = append(owned, p.Partition)
			case "partitions_revoked":
				owned = slices.DeleteFunc(owned, func(o int32) bool { return o == p.Partition })
			}
		}
	}
	return owned
}

// TestVerifiable runs VerifiableProducer and a group of VerifiableConsumers
// under both protocols while members come, go and are killed: each record is
// read, each commit succeeds, no partition has two owners.
func TestVerifiable(t *testing.T) {
	onEachEngineInFull(t, func(t *testing.T, engine string) {
		s := startServer(t, engine, "group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000",
			"group.consumer.heartbeat.interval.ms=1000", "group.consumer.min.heartbeat.interval.ms=1000",
			"group.consumer.session.timeout.ms=6000", "group.consumer.min.session.timeout.ms=6000")
		for _, protocol := range []string{"classic", "consumer"} {
			t.Run(protocol, func(t *testing.T) { testVerifiable(t, s, protocol) })
		}
		s.stop(t)
	})
}

func testVerifiable(t *testing.T, s *server, protocol string) {
	const limit = time.Minute
	records := amount(60_000, 15_000)
	topic, group := "verifiable-"+protocol, "group-"+protocol
	mustCreateTopic(t, s.addr, topic, verifiablePartitions, nil)
	args := []string{"--group-protocol", protocol}
	if protocol == "classic" {
		args = append(args, "--session-timeout", "6000")
	}
	start := func(name string) *verifiableConsumer {
		return startVerifiableConsumer(t, s, name, topic, group, args...)
	}
	balanced := func(members ...*verifiableConsumer) {
		t.Helper()
		waitUntil(t, limit, fmt.Sprintf("balance of %d members", len(members)), func() bool {
			var all []int32
			for _, m := range members {
				owned := m.owned(t)
				if len(owned) == 0 {
					return false
				}
				all = append(all, owned...)
			}
			slices.Sort(all)
			return slices.Equal(all, []int32{0, 1, 2, 3, 4, 5})
		})
	}

	first, second := start("first"), start("second")
	balanced(first, second)
	producer := startProgram(t, javaCommand(t, bench.ToolFlags, toolsPackage+"VerifiableProducer", "--bootstrap-server", s.addr,
		"--topic", topic, "--max-messages", fmt.Sprint(records), "--acks", "-1", "--throughput", fmt.Sprint(records/10)))
	third := start("third")
	balanced(first, second, third)
	first.terminate(t, limit)
	balanced(second, third)
	second.killed = time.Now().UnixMilli()
	second.kill()
	balanced(third) // once the session of the second is over
	fourth := start("fourth")
	balanced(third, fourth)
	producer.wait(t, limit)
	ends := producedByVerifiable(t, producer, records)

	members := []*verifiableConsumer{first, second, third, fourth}
	waitUntil(t, limit, "reader of every record", func() bool { return missing(t, members, ends) == "" })
	third.terminate(t, limit)
	fourth.terminate(t, limit)
	checkVerifiable(t, members)
	if got := committedOffsets(t, s.addr, group, topic); !maps.Equal(got, ends) {
		t.Errorf("committed %v, the partitions end at %v", got, ends)
	}
}

// producedByVerifiable checks the producer's lines and returns where each
// partition ends.
func producedByVerifiable(t *testing.T, producer *program, records int) map[int32]int64 {
	t.Helper()
	ends, acked := map[int32]int64{}, 0
	for _, line := range producer.output() {
		var event struct {
			Name      string
			Partition int32
			Offset    int64
		}
		if !strings.HasPrefix(line, "{") {
			continue
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		switch event.Name {
		case "producer_send_success":
			acked++
			ends[event.Partition] = max(ends[event.Partition], event.Offset+1)
		case "producer_send_error":
			t.Errorf("VerifiableProducer: %s", line)
		}
	}
	total := int64(0)
	for _, end := range ends {
		total += end
	}
	if acked != records || total != int64(records) {
		t.Fatalf("%d records acknowledged, the partitions hold %d, asked for %d", acked, total, records)
	}
	return ends
}

// missing says which offsets nobody has read yet.
func missing(t *testing.T, members []*verifiableConsumer, ends map[int32]int64) string {
	t.Helper()
	type span struct{ from, to int64 }
	read := map[int32][]span{}
	for _, m := range members {
		for _, e := range m.events(t) {
			if e.Name != "records_consumed" {
				continue
			}
			for _, p := range e.Partitions {
				read[p.Partition] = append(read[p.Partition], span{p.MinOffset, p.MaxOffset + 1})
			}
		}
	}
	for p, end := range ends {
		slices.SortFunc(read[p], func(a, b span) int { return int(a.from - b.from) })
		next := int64(0)
		for _, r := range read[p] {
			if r.from > next {
				break
			}
			next = max(next, r.to)
		}
		if next < end {
			return fmt.Sprintf("partition %d from offset %d on", p, next)
		}
	}
	return ""
}

// checkVerifiable goes through the events of all members in their order: who
// is assigned a partition must find that its owner before has given it up, has
// closed or was killed.
func checkVerifiable(t *testing.T, members []*verifiableConsumer) {
	t.Helper()
	var events []verifiableEvent
	for _, m := range members {
		events = append(events, m.events(t)...)
		if m.killed != 0 {
			events = append(events, verifiableEvent{Timestamp: m.killed, Name: "shutdown_complete", who: m.name})
		}
	}
	gives := func(e verifiableEvent) int {
		if e.Name == "partitions_assigned" {
			return 1 // after what others give up in the same millisecond
		}
		return 0
	}
	slices.SortStableFunc(events, func(a, b verifiableEvent) int {
		if a.Timestamp != b.Timestamp {
			return int(a.Timestamp - b.Timestamp)
		}
		return gives(a) - gives(b)
	})
	owner := map[int32]string{}
	commits, failed := 0, 0
	for _, e := range events {
		switch e.Name {
		case "partitions_assigned":
			for _, p := range e.Partitions {
				if owner[p.Partition] != "" && owner[p.Partition] != e.who {
					t.Errorf("partition %d is assigned to %s while %s owns it", p.Partition, e.who, owner[p.Partition])
				}
				owner[p.Partition] = e.who
			}
		case "partitions_revoked":
			for _, p := range e.Partitions {
				delete(owner, p.Partition)
			}
		case "shutdown_complete":
			for p, who := range owner {
				if who == e.who {
					delete(owner, p)
				}
			}
		case "offsets_committed":
			commits++
			if e.Success != nil && !*e.Success {
				failed++
				t.Logf("a commit of %s failed: %s", e.who, e.Error)
			}
		}
	}
	if commits == 0 || failed*20 > commits {
		t.Errorf("%d of %d commits failed", failed, commits)
	}
	t.Logf("%d events, %d commits, %d of them failed", len(events), commits, failed)
}
