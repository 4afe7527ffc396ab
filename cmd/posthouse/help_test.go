package main

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/posthouse/posthouse/netio"
)

func TestVersion(t *testing.T) {
	stdout, _, code := run(t, "version")
	if code != 0 || !strings.HasPrefix(stdout, "posthouse ") || !strings.Contains(stdout, runtime.Version()) || !strings.Contains(stdout, "epoll") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	stdout, _, code = run(t, "version", "--json")
	var about struct {
		Version, Go string
		Engines     []string
	}
	if err := json.Unmarshal([]byte(stdout), &about); err != nil || code != 0 {
		t.Fatalf("exit code %d, %q: %v", code, stdout, err)
	}
	if about.Version == "" || about.Go != runtime.Version() || !slices.Equal(about.Engines, netio.Engines()) {
		t.Errorf("%+v", about)
	}
}

// TestHelp asks every command for help, by flag and by `posthouse help`.
func TestHelp(t *testing.T) {
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		for _, args := range [][]string{append(slices.Clone(path), "--help"), append([]string{"help"}, path...)} {
			stdout, stderr, code := run(t, args...)
			if code != 0 || stderr != "" || !strings.Contains(stdout, "Usage:") || !strings.Contains(stdout, cmd.Short) && !strings.Contains(stdout, firstLine(cmd.Long)) {
				t.Errorf("%v: exit code %d, stderr %q, stdout %q", args, code, stderr, stdout)
			}
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%v: summary %q", path, cmd.Short)
		}
		for _, sub := range cmd.Commands() {
			walk(sub, append(slices.Clone(path), sub.Name()))
		}
	}
	walk(newRoot(), nil)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func TestMistakes(t *testing.T) {
	for _, args := range [][]string{{"sevre"}, {"serve", "a", "b"}, {"version", "x"}, {"--nope"}} {
		stdout, stderr, code := run(t, args...)
		if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if stdout, _, code := run(t, "completion", shell); code != 0 || !strings.Contains(stdout, "posthouse") {
			t.Errorf("%s: exit code %d", shell, code)
		}
	}
}
