// Package cli is the common ground of the commands that talk to a broker: how
// they connect, what they print, how they fail and ask.
//
// A command is quiet about what went well and says on one line of stderr what
// did not: what is wrong, with which address or name, and what to do. What a
// machine may read is JSON with --json, one value, to stdout. Exit codes: 0
// done, 1 failed, 2 used wrongly.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// Exit codes of the command.
const (
	ExitFailure = 1
	ExitUsage   = 2
)

// UsageError says that the command was called wrongly: nothing was done.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap gives what is wrong.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// ExitCode is the process's exit code for what a command returned.
func ExitCode(err error) int {
	var usage *UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return ExitUsage
	}
	return ExitFailure
}

// sameSignal is how soon after the first a second signal counts as the same
// one: timeout(1) signals the process and then its group.
const sameSignal = 200 * time.Millisecond

// exitInterrupted is the exit code of a second Ctrl-C, as of a shell's.
const exitInterrupted = 130

// UntilInterrupt returns a context that ends with Ctrl-C or SIGTERM; the second
// one ends the process. release undoes it.
func UntilInterrupt(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		var first time.Time
		for range signals {
			switch {
			case first.IsZero():
				first = time.Now()
				cancel()
			case time.Since(first) > sameSignal:
				os.Exit(exitInterrupted)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// IsTerminal says whether a stream of the process is a terminal: people read
// its output, and can be asked.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// ErrDeclined is what a person answered.
var ErrDeclined = errors.New("nothing was done")

// Confirm asks before something is destroyed, unless yes. Where nobody can be
// asked the flag --yes is needed.
func Confirm(cmd *cobra.Command, yes bool, what string) error {
	if yes {
		return nil
	}
	if !IsTerminal(cmd.InOrStdin()) {
		return Usagef("this would %s: confirm it with --yes", what)
	}
	return ask(cmd.InOrStdin(), cmd.ErrOrStderr(), what)
}

// ask takes y and yes for consent.
func ask(in io.Reader, out io.Writer, what string) error {
	fmt.Fprintf(out, "This will %s. Go on? [y/N] ", what)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(out)
		return ErrDeclined
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return ErrDeclined
}

// AddYes gives a destructive command its flag.
func AddYes(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do it without asking")
}

// Group makes a command that is there for those below it: alone it shows its
// help, and a name that it does not know is a mistake on one line.
func Group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(below...)
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return Usagef("unknown command %q: did you mean %s %s?", args[0], cmd.CommandPath(), strings.Join(near, " or "))
		}
		return Usagef("unknown command %q: %s --help lists the commands", args[0], cmd.CommandPath())
	}
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// Names wants one name or more of what, such as "topic".
func Names(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef("which %s? %s --help shows examples", what, cmd.CommandPath())
		}
		return notEmpty(what, args)
	}
}

// OneName wants exactly one.
func OneName(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef("which %s? %s --help shows examples", what, cmd.CommandPath())
		}
		if len(args) > 1 {
			return Usagef("unexpected %q: one %s at a time", args[1], what)
		}
		return notEmpty(what, args)
	}
}

func notEmpty(what string, names []string) error {
	for _, name := range names {
		if name == "" {
			return Usagef("an empty name is no %s", what)
		}
	}
	return nil
}

// UsageMistakes makes all that cobra itself finds wrong in the commands from
// root down a UsageError.
func UsageMistakes(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return Usagef("%w: %s --help lists the flags", err, cmd.CommandPath())
	})
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				err := check(cmd, args)
				if err != nil && ExitCode(err) != ExitUsage {
					return &UsageError{err}
				}
				return err
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}
