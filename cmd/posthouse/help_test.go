package main

import (
	"encoding/json"
	"errors"
	"fmt"
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
	for _, flag := range []string{"--version", "-v"} {
		if again, _, code := run(t, flag); code != 0 || again != stdout {
			t.Errorf("%s: exit code %d, %q, want %q", flag, code, again, stdout)
		}
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

// TestMistakes mistypes: one line says what is wrong and where to go on.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"sevre"}, `unknown command "sevre": did you mean posthouse serve?`},
		{[]string{"topics"}, `unknown command "topics": did you mean posthouse topic?`},
		{[]string{"nonsense"}, `unknown command "nonsense": posthouse --help lists the commands`},
		{[]string{"topic", "creat"}, `unknown command "creat": did you mean posthouse topic create?`},
		{[]string{"topic", "create"}, `which topic? posthouse topic create --help shows examples`},
		{[]string{"load", "verfy"}, `unknown command "verfy": did you mean posthouse load verify?`},
		{[]string{"serve", "a", "num.partitions=3"}, `unexpected "num.partitions=3": one properties file at most, keys are set by --override key=value`},
		{[]string{"version", "x"}, `unknown command "x" for "posthouse version"`},
		{[]string{"--nope"}, `unknown flag: --nope: posthouse --help lists the flags`},
		{[]string{"serve", "--override"}, `flag needs an argument: --override: posthouse serve --help lists the flags`},
	} {
		stdout, stderr, code := run(t, c.args...)
		if want := "posthouse: " + c.want + "\n"; code != 2 || stdout != "" || stderr != want {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q, want %q", c.args, code, stdout, stderr, want)
		}
	}
}

// TestOneLine shortens what many logs have to say.
func TestOneLine(t *testing.T) {
	var errs []error
	for i := range 100 {
		errs = append(errs, fmt.Errorf("log %d", i))
	}
	for n, want := range map[int]string{
		1: "log 0", 2: "log 0; log 1", 6: "log 0; log 1; log 2; log 3; log 4; log 5",
		100: "log 0; log 1; log 2; log 3; log 4; and 95 more like these",
	} {
		if got := oneLine(errors.Join(errs[:n]...)); got != want {
			t.Errorf("%d errors: %q, want %q", n, got, want)
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
