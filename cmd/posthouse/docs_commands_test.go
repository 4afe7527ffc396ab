package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// documented are the commands that docs/commands.md shows in full.
var documented = []string{"topic", "config", "group", "produce", "consume", "dump", "doctor"}

// commandPages is the help of the everyday commands as a page: what each does,
// its examples and its flags.
func commandPages() string {
	var b strings.Builder
	root := newRoot()
	for _, name := range documented {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			panic("BUG: " + err.Error())
		}
		page(&b, cmd)
	}
	return b.String()
}

func page(b *strings.Builder, cmd *cobra.Command) {
	level := strings.Repeat("#", 1+strings.Count(cmd.CommandPath(), " "))
	fmt.Fprintf(b, "%s %s\n\n", level, cmd.CommandPath())
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	// A fixed width keeps the layout of lists and stops Markdown from reading it.
	fmt.Fprintf(b, "```text\n%s\n", long)
	if cmd.HasSubCommands() {
		b.WriteString("```\n\n")
		for _, sub := range cmd.Commands() {
			page(b, sub)
		}
		return
	}
	fmt.Fprintf(b, "\n%s\n", cmd.UseLine())
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || everywhere[f.Name] {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(b, "  %-34s %s\n", strings.TrimSpace(name+" "+kind), usage)
	})
	fmt.Fprintf(b, "```\n\n```sh\n%s\n```\n\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
}

// everywhere are the flags of all commands that talk to a broker.
var everywhere = map[string]bool{"bootstrap": true, "command-config": true, "property": true, "timeout": true}
