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

// oneLine is an error's text on one line, also where several things went wrong.
func oneLine(err error) string {
	var parts []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "posthouse",
		Short: "A message broker that Apache Kafka's clients use unchanged",
		Long: "Posthouse is a message broker for Linux that Apache Kafka's clients use unchanged.\n" +
			"It speaks Kafka's wire protocol and writes Kafka's log format.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newServe(), newLoad(), newReport(), newVersion())
	return root
}
