// Package clitest runs posthouse's commands in a test, against a broker that
// the test starts on a port of the system's choice.
package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthouse/posthouse/cmd/broker"
	"github.com/posthouse/posthouse/cmd/posthouse/cli"
	"github.com/posthouse/posthouse/engine/config"
)

// limit bounds each step.
const limit = 30 * time.Second

// Broker starts a node that is stopped at the end of the test, and gives its
// address and its log directory. overrides are key=value.
func Broker(t *testing.T, overrides ...string) (address, dir string) {
	t.Helper()
	address, dir, _ = Start(t, overrides...)
	return address, dir
}

// Start is Broker with a way to stop the node before.
func Start(t *testing.T, overrides ...string) (address, dir string, stop func()) {
	t.Helper()
	dir = t.TempDir()
	properties := map[string]string{
		"log.dirs": dir, "listeners": "PLAINTEXT://127.0.0.1:0", "http.listeners": "",
		"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0",
	}
	for _, o := range overrides {
		key, value, _ := strings.Cut(o, "=")
		properties[key] = value
	}
	cfg, _, err := config.Load(properties, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	b, err := broker.Start(ctx, broker.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := b.Stop(ctx, nil); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-b.Loaded():
	case <-ctx.Done():
		t.Fatal("logs are still being opened")
	}
	return strings.TrimPrefix(b.Listeners(), "PLAINTEXT://"), dir, stop
}

// Result is what a command did.
type Result struct {
	Out, Err string
	Error    error
	Code     int
}

// Run runs a command with arguments and standard input.
func Run(t *testing.T, cmd *cobra.Command, stdin string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return RunContext(ctx, t, cmd, strings.NewReader(stdin), args...)
}

// RunContext runs a command until it ends or ctx does.
func RunContext(ctx context.Context, t *testing.T, cmd *cobra.Command, stdin io.Reader, args ...string) Result {
	t.Helper()
	root := &cobra.Command{Use: "posthouse", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(cmd)
	cli.UsageMistakes(root)
	var stdout, stderr bytes.Buffer
	root.SetIn(stdin)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{cmd.Name()}, args...))
	err := root.ExecuteContext(ctx)
	return Result{stdout.String(), stderr.String(), err, cli.ExitCode(err)}
}

// OK wants the command to have worked, and gives what it printed.
func (r Result) OK(t *testing.T) string {
	t.Helper()
	if r.Error != nil {
		t.Fatalf("%v\nstdout:\n%s\nstderr:\n%s", r.Error, r.Out, r.Err)
	}
	return r.Out
}

// Fails wants the command to have failed with this exit code and these texts.
func (r Result) Fails(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.Error == nil || r.Code != code {
		t.Fatalf("exit code %d (%v), want %d\nstdout:\n%s", r.Code, r.Error, code, r.Out)
	}
	for _, text := range texts {
		if !strings.Contains(r.Error.Error(), text) {
			t.Errorf("error %q does not say %q", r.Error, text)
		}
	}
}

// Contains wants texts in what was printed.
func (r Result) Contains(t *testing.T, texts ...string) {
	t.Helper()
	out := r.OK(t)
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("output does not contain %q:\n%s", text, out)
		}
	}
}

// Decode reads the JSON that a command printed.
func Decode[T any](t *testing.T, r Result) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(r.OK(t)), &value); err != nil {
		t.Fatalf("%v in\n%s", err, r.Out)
	}
	return value
}
