package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ProcessSpec says what to run and where its output goes.
type ProcessSpec struct {
	Name string // for messages
	Path string // the program
	Args []string
	Dir  string // working directory, empty for this process's own

	// LogPath receives stdout and stderr, appended. Required: a child whose
	// output nobody keeps cannot be explained later.
	LogPath string
}

// Process is a running child. It dies with this process, whatever way that
// ends, so that no test leaves a broker behind.
type Process struct {
	spec    ProcessSpec
	cmd     *exec.Cmd
	started time.Time
	logFile *os.File

	// exited is closed once the child is reaped; waitErr is set before that.
	exited  chan struct{}
	waitErr error

	mu    sync.Mutex
	lines []string      // lines of stdout so far; guarded by mu
	more  chan struct{} // closed and replaced at each new line; guarded by mu
}

// starts carries the starting of children to one thread that never exits:
// Pdeathsig is sent when the parent's *thread* ends, and the Go runtime ends
// threads as it likes.
var starts = sync.OnceValue(func() chan func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

// StartProcess starts the program. The caller ends it with Stop or Kill.
func StartProcess(spec ProcessSpec) (*Process, error) {
	logFile, err := os.OpenFile(spec.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", spec.Name, err)
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Env = cleanEnvironment()
	cmd.Stderr = logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stdout of %s: %w", spec.Name, err), logFile.Close())
	}
	p := &Process{spec: spec, cmd: cmd, logFile: logFile, exited: make(chan struct{}), more: make(chan struct{})}
	result := make(chan error)
	starts() <- func() {
		p.started = time.Now()
		result <- cmd.Start()
	}
	if err := <-result; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", spec.Name, err), logFile.Close())
	}
	go p.follow(stdout)
	return p, nil
}

// cleanEnvironment is this process's without POSTHOUSE_… variables: they would
// configure the broker, and those that steer tests are unknown keys to it.
func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "POSTHOUSE_") })
}

// follow copies stdout to the log and keeps its lines, then reaps the child.
func (p *Process) follow(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fmt.Fprintln(p.logFile, lines.Text())
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
	p.waitErr = p.cmd.Wait()
	p.logFile.Close()
	close(p.exited)
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Started is the moment just before the fork.
func (p *Process) Started() time.Time { return p.started }

// Exited is closed once the child has ended and was reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ExitCode is the child's exit code, or -1 while it runs and when a signal
// ended it.
func (p *Process) ExitCode() int {
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	default:
		return -1
	}
}

// WaitLine waits for a line of stdout with the prefix and returns it.
func (p *Process) WaitLine(ctx context.Context, prefix string) (string, error) {
	seen := 0
	for {
		p.mu.Lock()
		fresh, more := p.lines[seen:], p.more
		seen = len(p.lines)
		p.mu.Unlock()
		for _, line := range fresh {
			if strings.HasPrefix(line, prefix) {
				return line, nil
			}
		}
		select {
		case <-more:
		case <-p.exited:
			return "", fmt.Errorf("%s ended (%v) before it printed %q:\n%s", p.spec.Name, p.waitErr, prefix, p.LogTail())
		case <-ctx.Done():
			return "", fmt.Errorf("%s printed no %q: %w\n%s", p.spec.Name, prefix, ctx.Err(), p.LogTail())
		}
	}
}

// Signal sends a signal to the child.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal %v to %s: %w", sig, p.spec.Name, err)
	}
	return nil
}

// Pause stops the child by SIGSTOP; Resume lets it go on.
func (p *Process) Pause() error  { return p.Signal(syscall.SIGSTOP) }
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Stop sends SIGTERM and waits for the end, which it forces when ctx is over.
// It returns the exit code (-1 after a signal).
func (p *Process) Stop(ctx context.Context) (int, error) {
	select {
	case <-p.exited:
		return p.ExitCode(), nil
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return -1, err
	}
	select {
	case <-p.exited:
		return p.ExitCode(), nil
	case <-ctx.Done():
		p.Kill()
		return -1, fmt.Errorf("%s did not stop: %w\n%s", p.spec.Name, ctx.Err(), p.LogTail())
	}
}

// Kill ends the child by SIGKILL and reaps it.
func (p *Process) Kill() {
	// An error here means that the child is gone already, which is the aim.
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// LogTail is the end of the child's log, for messages.
func (p *Process) LogTail() string {
	data, err := os.ReadFile(p.spec.LogPath)
	if err != nil {
		return err.Error()
	}
	const tail = 4 << 10
	if len(data) > tail {
		data = data[len(data)-tail:]
	}
	return fmt.Sprintf("--- %s\n%s", filepath.Base(p.spec.LogPath), data)
}
