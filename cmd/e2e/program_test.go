//go:build e2e

package e2e

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is a command that runs beside the test, its lines collected. It is
// killed at the end of the test if it still runs.
type program struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when it has ended and err is set
	err   error

	mu    sync.Mutex
	lines []string // guarded by mu: stdout and stderr so far
}

func startProgram(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{cmd: cmd, ended: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.follow(out)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s:\n%s", strings.Join(cmd.Args[len(cmd.Args)-min(len(cmd.Args), 8):], " "), tail(strings.Join(p.output(), "\n")))
		}
	})
	return p
}

func (p *program) follow(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		p.mu.Unlock()
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

// output is a copy of the lines so far.
func (p *program) output() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// waitLine waits for a line that starts with the prefix and has not been
// waited for: it looks from line number from on and returns the line and the
// number behind it.
func (p *program) waitLine(t *testing.T, limit time.Duration, from int, prefix string) (string, int) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		lines := p.output()
		for i := from; i < len(lines); i++ {
			if strings.HasPrefix(lines[i], prefix) {
				return lines[i], i + 1
			}
		}
		select {
		case <-p.ended:
			t.Fatalf("ended (%v) without a line %q", p.err, prefix)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("no line %q within %v", prefix, limit)
		}
	}
}

// terminate sends SIGTERM and waits for the end.
func (p *program) terminate(t *testing.T, limit time.Duration) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // gone already at worst
	p.wait(t, limit)
}

// wait waits for the end.
func (p *program) wait(t *testing.T, limit time.Duration) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		t.Fatalf("%s still runs after %v", p.cmd.Args[0], limit)
	}
}

// kill ends it by SIGKILL.
func (p *program) kill() {
	_ = p.cmd.Process.Kill() // gone already at worst
	<-p.ended
}

// waitUntil polls a condition until it holds.
func waitUntil(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %v", what, limit)
		}
	}
}
