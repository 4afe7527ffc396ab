package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
	"github.com/posthouse/posthouse/netio"
)

const cleanMark = ".kafka_cleanshutdown"

var readyLine = regexp.MustCompile(`^posthouse ready node=(\d+) listeners=(\S+) engine=(io_uring|epoll) dir=(\S+) in=(\d+)ms$`)

// serveCommand prepares `posthouse serve` in dir at a free port.
func serveCommand(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	return command(t, "posthouse", dir, env, append([]string{"serve", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "http.listeners="}, args...)...)
}

// ready takes a ready line apart.
func ready(t *testing.T, line string) (node, listeners, engine, dir string) {
	t.Helper()
	m := readyLine.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("ready line %q, want the form %s", line, readyLine)
	}
	return m[1], m[2], m[3], m[4]
}

// wantServed fails unless something accepts connections at PLAINTEXT://address.
func wantServed(t *testing.T, listener string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(listener, "PLAINTEXT://"), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func wantCleanMark(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, cleanMark)); err != nil {
		t.Errorf("no clean mark: %v", err)
	}
}

// TestServeDefaults starts a broker without any argument. The port is Kafka's;
// where something else on this machine has it, the refusal shows the default.
func TestServeDefaults(t *testing.T) {
	dir := t.TempDir()
	p := command(t, "posthouse", dir, nil, "serve").launch(t)
	var line string
	select {
	case l, started := <-p.ready:
		if !started {
			<-p.ended
			if taken := `listen on "127.0.0.1:9092": address already in use`; !strings.Contains(p.err(), taken) {
				t.Fatalf("not started, and not because of %s", taken)
			}
			return
		}
		line = l
	case <-time.After(30 * time.Second):
		t.Fatal("no ready line within 30 s")
	}
	node, listeners, engine, data := ready(t, line)
	if node != "1" || listeners != "PLAINTEXT://127.0.0.1:9092" || data != filepath.Join(dir, "data") || engine != netio.Engines()[0] {
		t.Errorf("ready line %q", p.out())
	}
	wantServed(t, listeners)
	p.stop(t)
	wantCleanMark(t, filepath.Join(dir, "data"))
	if p.out() != strings.SplitAfter(p.out(), "\n")[0] {
		t.Errorf("more than the ready line on stdout: %q", p.out())
	}
	for line := range strings.Lines(p.err()) {
		// What this machine is to blame for: its limit of files, and another broker
		// that has the metrics' address.
		ofMachine := strings.Contains(line, "few files") ||
			strings.Contains(line, "metrics and health are not served") && strings.Contains(line, "address already in use")
		if strings.Contains(line, "level=WARN") && !ofMachine {
			t.Errorf("warning in a plain start: %s", line)
		}
	}
}

// TestStockServerProperties starts a node from the file that Kafka ships, with
// its ports and directory moved.
func TestStockServerProperties(t *testing.T) {
	stock, err := os.ReadFile("testdata/server.properties")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := string(stock)
	for old, moved := range map[string]string{":9092": ":0", "/tmp/kraft-combined-logs": filepath.Join(dir, "logs")} {
		if !strings.Contains(text, old) {
			t.Fatalf("the stock file has no %s", old)
		}
		text = strings.ReplaceAll(text, old, moved)
	}
	file := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := command(t, "posthouse", dir, nil, "serve", file).launch(t)
	_, listeners, _, data := ready(t, p.waitReady(t))
	if !strings.HasPrefix(listeners, "PLAINTEXT://localhost:") || strings.Contains(listeners, ",") || strings.HasSuffix(listeners, ":0") {
		t.Errorf("advertised %s, want PLAINTEXT on localhost alone", listeners)
	}
	if data != filepath.Join(dir, "logs") {
		t.Errorf("data in %s", data)
	}
	wantServed(t, strings.Replace(listeners, "localhost", "127.0.0.1", 1))
	p.stop(t)
	if strings.Contains(p.err(), "unknown key") {
		t.Errorf("a key of Kafka's own file is not known:\n%s", p.err())
	}
	if !strings.Contains(p.err(), "listener CONTROLLER") {
		t.Error("nothing says that the controller's listener is not opened")
	}
	wantCleanMark(t, data)
}

// TestPrecedence sets one key in the file, the environment and by flag.
func TestPrecedence(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(file, []byte("log.dirs=from-file\nnode.id=5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"POSTHOUSE_LOG_DIRS=from-environment"}
	for _, c := range []struct {
		env, args []string
		want      string
	}{
		{nil, []string{file}, "from-file"},
		{env, []string{file}, "from-environment"},
		{env, []string{file, "--override", "log.dirs=lost", "--override", "log.dirs=from-flag"}, "from-flag"},
	} {
		p := serveCommand(t, dir, c.env, c.args...).launch(t)
		node, _, _, data := ready(t, p.waitReady(t))
		if node != "5" || data != filepath.Join(dir, c.want) {
			t.Errorf("%v %v: node %s, data in %s; want 5 and %s", c.env, c.args, node, data, c.want)
		}
		p.stop(t)
	}
}

func TestUnknownKeyWarns(t *testing.T) {
	p := serveCommand(t, t.TempDir(), []string{"POSTHOUSE_NUM_PARTITION=4"},
		"--override", "log.retention.hour=1", "--override", "wholly.made.up.by.this.test=1", "--override", "segment.bytes=1048576").launch(t)
	ready(t, p.waitReady(t))
	p.stop(t)
	for _, want := range []string{
		"unknown key log.retention.hour is ignored (did you mean log.retention.hours?)",
		"unknown key num.partition is ignored (did you mean num.partitions?)",
		"unknown key wholly.made.up.by.this.test is ignored",
		"unknown key segment.bytes is ignored: it is a topic config, its default for all topics is log.segment.bytes",
	} {
		if !strings.Contains(p.err(), want) {
			t.Errorf("no warning %q", want)
		}
	}
}

// TestRefusedByOneLine gives serve what it must refuse: nothing on stdout, one
// line on stderr, exit code 1.
func TestRefusedByOneLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	broken := filepath.Join(t.TempDir(), "broken.properties")
	if err := os.WriteFile(broken, []byte("a=1\nb=\\u12\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := func(assignments ...string) (args []string) {
		for _, a := range assignments {
			args = append(args, "--override", a)
		}
		return append(args, "--log-level", "warn")
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{set("log.segment.bytes=lots"), []string{"log.segment.bytes", "lots", "INT"}},
		{set("num.partitions=0"), []string{"num.partitions", "0", "at least 1"}},
		{set("compression.type=rar"), []string{"compression.type", "rar", "gzip", "zstd"}},
		{set("netio.engine=kqueue"), []string{"netio.engine", "kqueue", "epoll"}},
		{set("listeners=nonsense"), []string{"listeners", "nonsense", "NAME://host:port"}},
		{set("listeners=SSL://127.0.0.1:0"), []string{"listeners", "SSL", "PLAINTEXT"}},
		{set("advertised.listeners=PLAINTEXT://0.0.0.0:9092"), []string{"advertised.listeners", "0.0.0.0"}},
		{set("listeners=PLAINTEXT://" + taken.Addr().String()), []string{"PLAINTEXT", taken.Addr().String(), "address already in use"}},
		{set("log.dirs=/proc/posthouse"), []string{"log directory", "/proc/posthouse"}},
		{[]string{"--override", "keyonly"}, []string{"--override", "keyonly", "key=value"}},
		{[]string{"--topic-config", "t=1"}, []string{"--topic-config", "t=1", "topic:key=value"}},
		{[]string{"--log-level", "loud"}, []string{"--log-level", "loud", "debug"}},
		{[]string{"--log-format", "xml"}, []string{"--log-format", "xml", "json"}},
		{[]string{"no-such-file"}, []string{"no-such-file"}},
		{[]string{broken}, []string{broken + ":2"}},
	} {
		p := serveCommand(t, t.TempDir(), nil, c.args...).launch(t)
		code := p.exitCode(t, 20*time.Second)
		stderr := p.err()
		if code != 1 || p.out() != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "posthouse: ") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", c.args, code, p.out(), stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%v: %q does not name %q", c.args, stderr, want)
			}
		}
	}
}

// TestDirectoryInUse starts a second broker on the directory of a first.
func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	first := serveCommand(t, dir, nil).launch(t)
	first.waitReady(t)
	second := serveCommand(t, dir, nil).launch(t)
	if code := second.exitCode(t, 20*time.Second); code != 1 || !strings.Contains(second.err(), "data/.lock") {
		t.Errorf("exit code %d, stderr %q", code, second.err())
	}
	first.stop(t)
	wantCleanMark(t, filepath.Join(dir, "data"))
}

// TestReadOnlyDirectory runs a broker that may not write, as nobody where the
// test is root.
func TestReadOnlyDirectory(t *testing.T) {
	base, err := os.MkdirTemp("", "posthouse-readonly-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	if err := os.Chmod(base, 0o555); err != nil {
		t.Fatal(err)
	}
	p := serveCommand(t, base, nil)
	if os.Geteuid() == 0 {
		program := filepath.Join(base, "posthouse")
		data, err := os.ReadFile(p.cmd.Path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, data, 0o755); err != nil {
			t.Fatal(err)
		}
		p.cmd.Path = program
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	p.launch(t)
	if code := p.exitCode(t, 20*time.Second); code != 1 || !strings.Contains(p.err(), "log directory: mkdir data: permission denied") {
		t.Errorf("exit code %d, stderr %q", code, p.err())
	}
}

// TestLowLimitOfFiles starts a broker that may open few files, and connects
// more often than it can take: those over the bound wait, and the log has the
// files that it needs.
func TestLowLimitOfFiles(t *testing.T) {
	p := serveCommand(t, t.TempDir(), nil)
	p.cmd.Args = append([]string{"sh", "-c", `ulimit -n 256; exec "$0" "$@"`, p.cmd.Path}, p.cmd.Args[1:]...)
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Path = sh
	p.launch(t)
	_, listeners, _, _ := ready(t, p.waitReady(t))
	for _, want := range []string{"level=WARN", "limit=256", "connections=192", "LimitNOFILE"} {
		p.waitErr(t, want)
	}
	address := strings.TrimPrefix(listeners, "PLAINTEXT://")
	var open []net.Conn
	for range 300 {
		conn, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	time.Sleep(200 * time.Millisecond)
	for _, conn := range open {
		conn.Close()
	}
	if err := bench.WaitAnswer(within(t, 20*time.Second), address, 10*time.Millisecond); err != nil {
		t.Error(err)
	}
	if err := bench.CreateTopic(within(t, 20*time.Second), address, "after", 1, nil); err != nil {
		t.Error(err)
	}
	p.stop(t)
	if strings.Contains(p.err(), "too many open files") {
		t.Error("connections used up the files")
	}
}

// within bounds one step of a test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestSignals stops a broker by each signal that means it.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		dir := t.TempDir()
		p := serveCommand(t, dir, nil).launch(t)
		p.waitReady(t)
		begun := time.Now()
		p.signal(t, s)
		// Once more at once, as timeout(1) does: still one wish.
		p.signal(t, s)
		if code := p.exitCode(t, 20*time.Second); code != 0 {
			t.Errorf("%v: exit code %d", s, code)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("%v: the stop took %v", s, took)
		}
		wantCleanMark(t, filepath.Join(dir, "data"))
		if !strings.Contains(p.err(), "stopped cleanly") {
			t.Errorf("%v: nothing says that the stop was clean", s)
		}
	}
}

// TestSignalAtAnyTime sends SIGTERM to brokers that are still starting: they
// end with 0 and leave a directory that starts again.
func TestSignalAtAnyTime(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		p := serveCommand(t, dir, nil).launch(t)
		time.Sleep(time.Duration(i) * 8 * time.Millisecond)
		p.signal(t, syscall.SIGTERM)
		if code := p.exitCode(t, 20*time.Second); code != 0 && code != -1 {
			t.Errorf("SIGTERM after %d ms: exit code %d", i*8, code)
		}
	}
	p := serveCommand(t, dir, nil).launch(t)
	p.waitReady(t)
	p.stop(t)
}

func TestSecondSignal(t *testing.T) {
	p := command(t, "untilSignal", t.TempDir(), nil).launch(t)
	p.waitErr(t, "waiting")
	p.signal(t, syscall.SIGTERM)
	p.waitErr(t, "stopping")
	time.Sleep(sameSignal + 50*time.Millisecond)
	p.signal(t, syscall.SIGINT)
	if code := p.exitCode(t, 2*time.Second); code != 1 || !strings.Contains(p.err(), "second signal") {
		t.Errorf("exit code %d", code)
	}
}

// TestLogReaderGone closes both ends that a broker writes to.
func TestLogReaderGone(t *testing.T) {
	dir := t.TempDir()
	p := serveCommand(t, dir, nil)
	stderr, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = write
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	line := make([]byte, 200)
	n, err := stdout.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, listeners, _, _ := ready(t, strings.TrimSuffix(string(line[:n]), "\n"))
	stdout.Close()
	stderr.Close()
	// A client that breaks the protocol earns a line of log, which nobody reads.
	conn, err := net.Dial("tcp", strings.TrimPrefix(listeners, "PLAINTEXT://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{0xff, 0xff, 0xff, 0xff, 0}); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Read(line)
	wantServed(t, listeners)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the broker did not survive its log: %v", err)
	}
	wantCleanMark(t, filepath.Join(dir, "data"))
}

func TestJSONLog(t *testing.T) {
	p := serveCommand(t, t.TempDir(), nil, "--log-format", "json", "--log-level", "debug", "--override", "no.such.key.at.all=1").launch(t)
	ready(t, p.waitReady(t))
	p.stop(t)
	var messages []string
	for line := range strings.Lines(p.err()) {
		var entry struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Level == "" || entry.Msg == "" {
			t.Errorf("line of log %q: %v", line, err)
		}
		messages = append(messages, entry.Msg)
	}
	for _, want := range []string{"network engine", "stopping", "stopped cleanly"} {
		if !slices.Contains(messages, want) {
			t.Errorf("no %q among %q", want, messages)
		}
	}
}

// TestRestart starts a broker on what an earlier one left, with each engine.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range append(netio.Engines(), "auto") {
		p := serveCommand(t, dir, nil, "--override", "netio.engine="+name).launch(t)
		_, _, engine, _ := ready(t, p.waitReady(t))
		if want := name; engine != want && (name != "auto" || engine != netio.Engines()[0]) {
			t.Errorf("netio.engine=%s runs %s", want, engine)
		}
		p.stop(t)
		if !strings.Contains(p.err(), fmt.Sprintf("engine=%s reason=", engine)) {
			t.Errorf("the log does not say why %s runs", engine)
		}
	}
}
