package cli

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// completionTimeout is how long a shell waits for names after the tab key.
const completionTimeout = time.Second

// Lister finds names that a word on the command line may become.
type Lister func(ctx context.Context, admin *kadm.Client) ([]string, error)

// Topics lists the topics that are not internal.
func Topics(ctx context.Context, admin *kadm.Client) ([]string, error) {
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	return topics.Names(), nil
}

// Groups lists the groups.
func Groups(ctx context.Context, admin *kadm.Client) ([]string, error) {
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	return groups.Groups(), nil
}

// Complete completes arguments, all of them or only the first, with what the
// cluster has. A cluster that does not answer at once completes nothing.
func (c *Conn) Complete(list Lister, all bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !all {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := c.names(cmd, list)
		return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlag completes a flag's value in the same way.
func (c *Conn) CompleteFlag(cmd *cobra.Command, flag string, list Lister) {
	FlagValues(cmd, flag, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.names(cmd, list), cobra.ShellCompDirectiveNoFileComp
	})
}

// FlagValues completes the value of a flag that cmd has.
func FlagValues(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic("BUG: " + err.Error())
	}
}

// FlagWords completes the value of a flag with one of a few words.
func FlagWords(cmd *cobra.Command, flag string, words ...string) {
	FlagValues(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func (c *Conn) names(cmd *cobra.Command, list Lister) []string {
	c.Timeout = min(c.Timeout, completionTimeout)
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, c.Timeout)
	defer cancel()
	client, err := c.newClient(cmd.Flags().Changed("bootstrap"), io.Discard, Anything)
	if err != nil {
		return nil
	}
	defer client.Close()
	names, err := list(ctx, kadm.NewClient(client))
	if err != nil {
		return nil
	}
	return names
}
