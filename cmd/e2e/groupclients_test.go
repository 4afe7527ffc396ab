//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// groupClient is a program under testdata in which members of one group join
// one by one and one leaves while records are produced: each must arrive
// exactly once and in order, and the group's offsets must be those read.
type groupClient struct {
	name    string
	command func(t *testing.T) []string // before host:port topic count
	modes   []string                    // the last argument, one run each
	short   []string                    // the modes of a -short run
}

// groupClients are the libraries of other languages. FINDINGS.md says why
// kafka-python's sticky strategy is missing.
var groupClients = []groupClient{
	{
		name: "confluent-kafka",
		command: func(t *testing.T) []string {
			return []string{pythonWith(t, "confluent-kafka==2.16.0"), filepath.Join("testdata", "python", "confluent_group.py")}
		},
		modes: []string{"range", "roundrobin", "cooperative-sticky", "consumer-uniform", "consumer-range"},
		short: []string{"cooperative-sticky", "consumer-uniform"},
	},
	{
		name: "kafka-python-2.0.2",
		command: func(t *testing.T) []string {
			return []string{oldKafkaPython(t), filepath.Join("testdata", "python", "kafkapython_group.py")}
		},
		modes: []string{"range", "roundrobin"},
		short: []string{"range"},
	},
	{
		name: "aiokafka",
		command: func(t *testing.T) []string {
			return []string{pythonWith(t, "aiokafka==0.14.0"), filepath.Join("testdata", "python", "aiokafka_group.py")}
		},
		modes: []string{"range", "roundrobin", "sticky"},
		short: []string{"roundrobin"},
	},
	{
		name:    "kafkajs",
		command: func(t *testing.T) []string { return []string{node(t), filepath.Join("testdata", "js", "group.js")} },
		modes:   []string{"roundrobin"},
		short:   []string{"roundrobin"},
	},
}

// TestGroupClients runs every library's groups in each of its strategies.
func TestGroupClients(t *testing.T) {
	const leastRuns = 11
	runs := 0
	for _, client := range groupClients {
		runs += len(client.modes)
	}
	if runs < leastRuns {
		t.Errorf("%d runs are listed, at least %d are asked for", runs, leastRuns)
	}
	records := fmt.Sprint(amount(30_000, 3_000))
	onEachEngineInFull(t, func(t *testing.T, engine string) {
		s := startServer(t, engine, "group.initial.rebalance.delay.ms=0",
			"group.consumer.heartbeat.interval.ms=1000", "group.consumer.min.heartbeat.interval.ms=1000")
		for _, client := range groupClients {
			modes := client.modes
			if testing.Short() {
				modes = client.short
			}
			command := client.command(t)
			for _, mode := range modes {
				name := client.name + "-" + mode
				t.Run(name, func(t *testing.T) {
					args := append(command[1:len(command):len(command)], s.addr, name, records, mode)
					cmd := exec.Command(command[0], args...)
					cmd.Env = append(os.Environ(), "NODE_PATH="+nodeModules(t))
					if out := run(t, 3*time.Minute, cmd); lastLine(out) != "PASS" {
						t.Fatalf("no PASS:\n%s", tail(out))
					}
				})
			}
		}
		s.stop(t)
	})
}
