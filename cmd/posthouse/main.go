// Command posthouse is a message broker for Apache Kafka's clients.
//
// `posthouse serve` runs a broker, `posthouse help` lists what else it does.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
	"github.com/posthouse/posthouse/cmd/posthouse/configs"
	"github.com/posthouse/posthouse/cmd/posthouse/doctor"
	"github.com/posthouse/posthouse/cmd/posthouse/dump"
	"github.com/posthouse/posthouse/cmd/posthouse/groups"
	"github.com/posthouse/posthouse/cmd/posthouse/messages"
	"github.com/posthouse/posthouse/cmd/posthouse/topics"
)

func main() {
	if err := newRoot().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "posthouse:", oneLine(err))
		os.Exit(cli.ExitCode(err))
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
	cli.Group(root, newServe(), topics.New(), configs.New(), groups.New(),
		messages.NewProduce(), messages.NewConsume(), dump.New(), doctor.New(readConfig), newLoad(), newBench(), newReport(), newVersion())
	cli.UsageMistakes(root)
	return root
}
