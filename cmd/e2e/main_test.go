//go:build e2e

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
)

// engineKafka runs a suite against Apache Kafka instead of Posthouse.
const engineKafka = "kafka"

var (
	posthouseBin string
	engines      []string
	keepDirs     = os.Getenv("POSTHOUSE_E2E_KEEP") != ""
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	removeClasses()
	os.Exit(code)
}

func setUp() error {
	list := os.Getenv("POSTHOUSE_E2E_ENGINES")
	if list == "" {
		list = "io_uring,epoll"
	}
	engines = strings.Split(list, ",")
	bin := os.Getenv("POSTHOUSE_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin", "posthouse")
	}
	var err error
	if posthouseBin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if _, err := os.Stat(posthouseBin); err != nil && list != engineKafka {
		return fmt.Errorf("no broker to test (make build): %w", err)
	}
	return nil
}

// onEachEngine runs f once per engine as a subtest.
func onEachEngine(t *testing.T, f func(t *testing.T, engine string)) {
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) { f(t, engine) })
	}
}

// onEachEngineInFull runs f once per engine, under -short only on the first: for
// suites that look at what lies above the network.
func onEachEngineInFull(t *testing.T, f func(t *testing.T, engine string)) {
	for _, engine := range engines[:amount(len(engines), 1)] {
		t.Run(engine, func(t *testing.T) { f(t, engine) })
	}
}

// amount is full, or short under -short.
func amount(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}

// within is a context that bounds one step; it ends with the test as well.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// server is the broker under test.
type server struct {
	*bench.Broker
	engine string
	addr   string
}

// startServer starts a broker on a fresh directory and a free port. It is
// killed at the end of the test if it still runs.
func startServer(t *testing.T, engine string, overrides ...string) *server {
	t.Helper()
	return startServerIn(t, engine, scratchDir(t), overrides...)
}

// startServerIn starts a broker on a directory that may hold data already.
func startServerIn(t *testing.T, engine, dir string, overrides ...string) *server {
	t.Helper()
	s := newServer(t, engine, dir, overrides...)
	s.start(t)
	return s
}

// newServer describes a broker without starting it.
func newServer(t *testing.T, engine, dir string, overrides ...string) *server {
	t.Helper()
	addr, err := bench.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	config := bench.BrokerConfig{
		Kind:      bench.Posthouse,
		Binary:    posthouseBin,
		Dir:       dir,
		Addr:      addr,
		Overrides: map[string]string{"netio.engine": engine},
		LogPath:   filepath.Join(scratchDir(t), "server.log"),
	}
	if engine == engineKafka {
		config.Kind = bench.ApacheKafka
	}
	for _, o := range overrides {
		key, value, _ := strings.Cut(o, "=")
		config.Overrides[key] = value
	}
	s := &server{Broker: &bench.Broker{Config: config}, engine: engine, addr: addr}
	t.Cleanup(func() {
		if s.Process == nil {
			return
		}
		s.Process.Kill()
		if t.Failed() {
			t.Logf("server's log:\n%s", s.Process.LogTail())
		}
	})
	return s
}

// start starts the broker (again) and checks that it runs on the engine asked
// for: a silent fall back to epoll would make half of this run worthless.
func (s *server) start(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(s.Config.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(within(t, 60*time.Second)); err != nil {
		t.Fatal(err)
	}
	if s.engine != engineKafka && !strings.Contains(s.Ready, "engine="+s.engine+" ") {
		t.Fatalf("asked for engine %s, the ready line says %q", s.engine, s.Ready)
	}
}

// stop ends the broker by SIGTERM as an operator does. Posthouse exits with 0,
// Java with 128+15.
func (s *server) stop(t *testing.T) {
	t.Helper()
	code, err := s.Process.Stop(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	if s.engine == engineKafka {
		want = 143
	}
	if code != want {
		t.Fatalf("exit code %d after SIGTERM, want %d\n%s", code, want, s.Process.LogTail())
	}
}

// scratchDir is a directory of the test, deleted at its end unless kept.
func scratchDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "posthouse-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if keepDirs {
			t.Logf("kept %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// run runs a command that must succeed within the limit and returns its
// output, stderr included.
func run(t *testing.T, limit time.Duration, cmd *exec.Cmd) string {
	t.Helper()
	out, err := runErr(t, limit, cmd)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, tail(out))
	}
	return out
}

// runErr runs a command bounded by the limit and returns what it printed.
func runErr(t *testing.T, limit time.Duration, cmd *exec.Cmd) (string, error) {
	t.Helper()
	out, err := os.CreateTemp(scratchDir(t), "out-")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-time.After(limit):
		_ = cmd.Process.Kill() // gone already at worst
		<-ended
		err = fmt.Errorf("still running after %v", limit)
	}
	text, readErr := os.ReadFile(out.Name())
	if readErr != nil {
		t.Fatal(readErr)
	}
	return string(text), err
}

// tail is the end of a long output.
func tail(s string) string {
	const limit = 6 << 10
	if len(s) > limit {
		return "…" + s[len(s)-limit:]
	}
	return s
}
