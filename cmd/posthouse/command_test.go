package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asCommand makes the test program act as a command instead of running tests.
const asCommand = "TEST_RUNS_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(asCommand) {
	case "posthouse":
		main()
	case "untilSignal":
		waitForSignals()
	default:
		os.Exit(m.Run())
	}
}

// process is the test program run as a command.
type process struct {
	cmd   *exec.Cmd
	ready chan string // the first line of stdout; closed at its end
	ended chan struct{}

	mu     sync.Mutex
	stdout bytes.Buffer
	stderr bytes.Buffer
}

// command prepares a command; env is added to an environment without keys.
func command(t *testing.T, as, dir string, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self, args...), ready: make(chan string, 1), ended: make(chan struct{})}
	p.cmd.Dir = dir
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "POSTHOUSE_") {
			p.cmd.Env = append(p.cmd.Env, e)
		}
	}
	p.cmd.Env = append(append(p.cmd.Env, asCommand+"="+as), env...)
	return p
}

// launch starts a command; it is killed at the end of the test.
func (p *process) launch(t *testing.T) *process {
	t.Helper()
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	readers.Go(func() {
		defer close(p.ready)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.mu.Lock()
			if p.stdout.Len() == 0 {
				p.ready <- lines.Text()
			}
			p.stdout.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
		}
	})
	readers.Go(func() { _, _ = io.Copy(&guarded{&p.mu, &p.stderr}, stderr) })
	go func() {
		readers.Wait()
		_ = p.cmd.Wait() // the exit code tells
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%v\nstdout:\n%s\nstderr:\n%s", p.cmd.Args[1:], p.out(), p.err())
		}
	})
	return p
}

type guarded struct {
	mu *sync.Mutex
	w  io.Writer
}

func (g *guarded) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.w.Write(b)
}

func (p *process) out() string { p.mu.Lock(); defer p.mu.Unlock(); return p.stdout.String() }
func (p *process) err() string { p.mu.Lock(); defer p.mu.Unlock(); return p.stderr.String() }

// waitReady returns the first line of stdout. What the process wrote to stderr
// before may still be on its way: waitErr waits for some of it, exitCode and stop
// for all.
func (p *process) waitReady(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-p.ready:
		if !ok {
			<-p.ended
			t.Fatalf("ended with code %d before it was ready", p.cmd.ProcessState.ExitCode())
		}
		return line
	case <-time.After(30 * time.Second):
		t.Fatal("no ready line within 30 s")
		return ""
	}
}

// waitErr waits until stderr contains text.
func (p *process) waitErr(t *testing.T, text string) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(p.err(), text) {
			return
		}
	}
	t.Fatalf("stderr does not say %q", text)
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// exitCode waits for the end; -1 stands for a signal.
func (p *process) exitCode(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("still running after %v", limit)
		return 0
	}
}

// stop ends a broker as an operator does; it must exit with 0.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if code := p.exitCode(t, 20*time.Second); code != 0 {
		t.Fatalf("exit code %d after SIGTERM", code)
	}
}

// run runs a command to its end.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	p := command(t, "posthouse", t.TempDir(), nil, args...).launch(t)
	code = p.exitCode(t, 30*time.Second)
	return p.out(), p.err(), code
}

// waitForSignals is the command of TestSecondSignal: it takes for ever to stop.
func waitForSignals() {
	logger, err := newLogger(os.Stderr, new(slog.LevelVar), "info", "text")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	ctx, release := untilSignal(context.Background(), logger)
	defer release()
	logger.Info("waiting")
	<-ctx.Done()
	select {}
}
