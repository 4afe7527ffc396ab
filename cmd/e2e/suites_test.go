//go:build e2e

package e2e

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
)

// goSuite is the test suite of a Go client, run as its authors run it against
// a broker on host:port.
type goSuite struct {
	module string // directory under testdata whose go.mod pins the client
	pkg    string // import path of the tests
	list   string // what must pass and what may skip, see readSuiteList
	least  int    // tests that must pass in a full run: the list cannot shrink unnoticed
	skip   string // -test.skip: what FINDINGS.md leaves out
	short  string // -test.run under -short
	env    []string
	args   []string
	limit  time.Duration
}

// suiteList names tests and subtests as `go test -v` does.
type suiteList struct {
	pass []string // must pass
	ours []string // must pass here, though Kafka 4.4 fails it (FINDINGS.md says why)
	skip []string // skip themselves; a skip of anything else is a failure
}

// readSuiteList reads a list: one "pass NAME", "ours NAME" or "skip NAME" a line,
// # comments.
func readSuiteList(t *testing.T, path string) suiteList {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list suiteList
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
		verb, name, _ := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case verb == "pass":
			list.pass = append(list.pass, name)
		case verb == "ours":
			list.ours = append(list.ours, name)
		case verb == "skip":
			list.skip = append(list.skip, name)
		default:
			t.Fatalf("%s: %q", path, line)
		}
	}
	return list
}

// matching keeps the tests whose first element matches the expression, as
// -test.run would.
func (l suiteList) matching(run string) suiteList {
	re := regexp.MustCompile(run)
	other := func(name string) bool {
		top, _, _ := strings.Cut(name, "/")
		return !re.MatchString(top)
	}
	return suiteList{slices.DeleteFunc(l.pass, other), slices.DeleteFunc(l.ours, other), slices.DeleteFunc(l.skip, other)}
}

// verdictLine is what `go test -v` prints when a test or subtest is over.
var verdictLine = regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (.+) \(\d+\.\d+s\)$`)

// run runs the suite against a server and holds its verdicts against the list.
func (g goSuite) run(t *testing.T, s *server) {
	t.Helper()
	bin, dir := buildGoSuite(t, g.module, g.pkg)
	list := readSuiteList(t, filepath.Join("testdata", g.module, g.list))
	if len(list.pass) < g.least {
		t.Errorf("%s lists %d tests that must pass, at least %d are asked for", g.list, len(list.pass), g.least)
	}
	args := append([]string{"-test.v", "-test.timeout", g.limit.String()}, g.args...)
	if g.skip != "" {
		args = append(args, "-test.skip", g.skip)
	}
	if testing.Short() {
		list = list.matching(g.short)
		args = append(args, "-test.run", g.short)
	}
	excused := list.ours
	if s.engine != engineKafka {
		list.pass, excused = append(list.pass, list.ours...), nil
	}
	cmd := exec.Command(bin, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), g.env...)
	began := time.Now()
	out, err := runErr(t, g.limit+10*time.Second, cmd)
	took := time.Since(began).Round(time.Second)
	saved := filepath.Join(os.TempDir(), fmt.Sprintf("posthouse-%s-%s.out", g.module, s.engine))
	if writeErr := os.WriteFile(saved, []byte(out), 0o644); writeErr != nil {
		t.Error(writeErr)
	}
	g.judge(t, s, list, excused, out)
	if err != nil && len(excused) == 0 {
		t.Errorf("%s ended with %v; its output is in %s\n%s", g.pkg, err, saved, tail(out))
	}
	t.Logf("%s on %s: %d of %d tests passed, %d may skip, %v", g.module, s.engine,
		len(verdicts(out, "PASS", list.pass)), len(list.pass), len(list.skip), took)
}

// judge reports every difference between the output and the list, but for the
// failures that are excused. What skips for want of a feature may run on Kafka,
// which has it.
func (g goSuite) judge(t *testing.T, s *server, list suiteList, excused []string, out string) {
	t.Helper()
	passed := verdicts(out, "PASS", nil)
	for _, name := range list.pass {
		if !slices.Contains(passed, name) {
			t.Errorf("must pass and did not: %s", name)
		}
	}
	for _, name := range verdicts(out, "FAIL", nil) {
		if slices.Contains(excused, name) {
			continue
		}
		t.Errorf("failed: %s\n%s", name, outputOf(out, name))
	}
	skipped := verdicts(out, "SKIP", nil)
	for _, name := range skipped {
		if !slices.Contains(list.skip, name) {
			t.Errorf("skipped and is not among those that may: %s", name)
		}
	}
	for _, name := range list.skip {
		if s.engine != engineKafka && !slices.Contains(skipped, name) {
			t.Errorf("no longer skips, so the list must say that it passes: %s", name)
		}
	}
}

// verdicts are the names with a verdict, only those among the wanted if these
// are given.
func verdicts(out, verdict string, wanted []string) []string {
	var names []string
	for _, match := range verdictLine.FindAllStringSubmatch(out, -1) {
		if match[1] == verdict && (wanted == nil || slices.Contains(wanted, match[2])) {
			names = append(names, match[2])
		}
	}
	return names
}

// outputOf is what a failed test said: the lines between its last start or
// continuation and its verdict that name a source line.
func outputOf(out, name string) string {
	var said []string
	mine := false
	for line := range strings.Lines(out) {
		if mark, ok := strings.CutPrefix(line, "=== "); ok {
			fields := strings.Fields(mark)
			mine = len(fields) == 2 && fields[1] == name
			continue
		}
		if mine && strings.Contains(line, ".go:") {
			said = append(said, line)
		}
	}
	return strings.Join(said[max(0, len(said)-8):], "")
}

// buildGoSuite compiles the tests of a package into the cache and returns the
// binary and the directory that it must run in.
func buildGoSuite(t *testing.T, module, pkg string) (bin, dir string) {
	t.Helper()
	cache, err := bench.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(cache, module+".test")
	env := append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	build := exec.Command("go", "test", "-c", "-o", bin, pkg)
	build.Dir, build.Env = filepath.Join("testdata", module), env
	run(t, 8*time.Minute, build)
	list := exec.Command("go", "list", "-f", "{{.Dir}}", pkg)
	list.Dir, list.Env = build.Dir, env
	return bin, lastLine(run(t, time.Minute, list))
}

// TestFranzSuite runs kgo's own tests: every balancer, static members and
// KIP-848 with exact checks for records lost, doubled or out of order.
func TestFranzSuite(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		s := startServer(t, engine, "auto.create.topics.enable=false",
			"group.initial.rebalance.delay.ms=0", "group.consumer.heartbeat.interval.ms=1000", "group.consumer.min.heartbeat.interval.ms=1000")
		goSuite{
			module: "franz",
			pkg:    "github.com/twmb/franz-go/pkg/kgo",
			list:   "tests.txt",
			least:  38,
			skip:   "^TestTxnEtl$|^Fuzz|^Benchmark",
			short:  "^(TestPing|TestClient_Produce|TestGroupSimple|TestConsumeRegex|Test848RegexBrokerResolves|TestGroupETL)$",
			env: []string{
				"KGO_SEEDS=" + s.addr, "KGO_TEST_RF=1", "KGO_LOG_LEVEL=none", "KGO_TEST_MAX_TOPIC_PARTS=7",
				fmt.Sprintf("KGO_TEST_RECORDS=%d", amount(20_000, 2_000)),
			},
			limit: time.Duration(amount(6, 2)) * time.Minute,
		}.run(t, s)
		s.stop(t)
	})
}

// TestSegmentioSuite runs the tests of segmentio/kafka-go, which sends old
// versions without asking. They dial localhost:9092 and nothing else, and
// some hold only while others run beside them.
func TestSegmentioSuite(t *testing.T) {
	onEachEngineInFull(t, func(t *testing.T, engine string) {
		s := newServer(t, engine, scratchDir(t), "num.partitions=1", "message.max.bytes=200000000",
			"group.initial.rebalance.delay.ms=0", "advertised.listeners=PLAINTEXT://localhost:9092")
		s.addr, s.Config.Addr = "127.0.0.1:9092", "127.0.0.1:9092"
		s.start(t)
		goSuite{
			module: "segmentio",
			pkg:    "github.com/segmentio/kafka-go",
			list:   "tests.txt",
			least:  133,
			skip: "^(TestUnsupportedSASLMechanism|TestClient(Create|Delete|Describe)ACLs|Test(Describe|Alter)UserScramCredentials" +
				"|TestClientFindCoordinator|TestClientAlterPartitionReassignments(MultiTopics)?" +
				"|TestReaderReadCompactedMessage)$" +
				"|^TestWriter$/^writing_a_message_with_SASL" +
				"|^TestReaderConsumerGroup$/^(verify_offset_committed.*|consumer_group_commits_on_close|consumer_group_rebalance)$",
			short: "^(TestConsumerGroup.*|TestClientOffset.*|TestClient(Describe|List|Delete)Groups|TestCloseLeavesGroup|TestConn)$",
			env:   []string{"KAFKA_SKIP_NETTEST=1", "KAFKA_VERSION=3.7.0"},
			args:  []string{"-test.parallel", "16"},
			limit: time.Duration(amount(7, 2)) * time.Minute,
		}.run(t, s)
		s.stop(t)
	})
}
