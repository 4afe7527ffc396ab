// Command posthouse is a message broker for Apache Kafka's clients.
//
// `posthouse serve` runs a broker, `posthouse help` lists what else it does.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	if err := newRoot().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "posthouse:", oneLine(err))
		os.Exit(1)
	}
}

// errorsShown is how many of the things that went wrong one line names: a full
// disk can fail thousands of logs alike.
const errorsShown = 5

// oneLine is an error's text on one line, also where several things went wrong.
func oneLine(err error) string {
	var parts []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	if more := len(parts) - errorsShown; more > 1 {
		parts = append(parts[:errorsShown], fmt.Sprintf("and %d more like these", more))
	}
	return strings.Join(parts, "; ")
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "posthouse",
		Short: "A message broker that Apache Kafka's clients use unchanged",
		Long: "Posthouse is a message broker for Linux that Apache Kafka's clients use unchanged.\n" +
			"It speaks Kafka's wire protocol and writes Kafka's log format.",
		Version:       aboutThis().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: %s --help lists the flags", err, cmd.CommandPath())
	})
	holdsCommands(root)
	root.AddCommand(newServe(), newLoad(), newBench(), newReport(), newVersion())
	return root
}

// holdsCommands makes cmd a command that is there for those below it: alone it
// shows its help, and a name that it does not know is a mistake on one line.
func holdsCommands(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Errorf("unknown command %q: did you mean %s %s?", args[0], cmd.CommandPath(), strings.Join(near, " or "))
		}
		return fmt.Errorf("unknown command %q: %s --help lists the commands", args[0], cmd.CommandPath())
	}
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}
