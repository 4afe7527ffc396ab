// Package groups has the command posthouse group and those below it: what
// consumer groups read, how far behind they are, and how to put them elsewhere.
package groups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

// New makes posthouse group.
func New() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "group",
		Short: "List and describe consumer groups, show their lag, reset and delete their offsets",
		Long: "List and describe consumer groups of both protocols, show their lag, reset and delete\n" +
			"their offsets.",
	}, newList(), newDescribe(), newMembers(), newLag(), newResetOffsets(), newDelete(), newDeleteOffsets())
}

type listed struct {
	Group       string `json:"group"`
	Type        string `json:"type"`
	State       string `json:"state"`
	Protocol    string `json:"protocolType"`
	Coordinator int32  `json:"coordinator"`
}

func newList() *cobra.Command {
	conn := &cli.Conn{}
	var states, types []string
	var names bool
	cmd := &cobra.Command{
		Use: "list", Short: "List groups", Args: cobra.NoArgs,
		Example: "  posthouse group list\n  posthouse group list --state Stable,Empty --type consumer",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, _ []string) error {
			found, err := s.Admin.ListGroupsByType(ctx, types, states...)
			if err != nil && len(found) == 0 {
				return err
			}
			groups := []listed{}
			for _, g := range found.Sorted() {
				groups = append(groups, listed{g.Group, kind(g), g.State, g.ProtocolType, g.Coordinator})
			}
			return errors.Join(s.Print(groups, func(w io.Writer) error {
				if names {
					for _, g := range groups {
						fmt.Fprintln(w, g.Group)
					}
					return nil
				}
				table := cli.NewTable("GROUP", "TYPE", "STATE", "PROTOCOL TYPE", ">COORDINATOR")
				for _, g := range groups {
					table.Row(g.Group, g.Type, cli.OrDash(g.State), cli.OrDash(g.Protocol), g.Coordinator)
				}
				return table.Write(w)
			}), err)
		}),
	}
	conn.RegisterJSON(cmd)
	cmd.Flags().StringSliceVar(&states, "state", nil, "only groups in these `states`: Stable, Empty, PreparingRebalance, …")
	cmd.Flags().StringSliceVar(&types, "type", nil, "only groups of these `types`: classic, consumer")
	cmd.Flags().BoolVar(&names, "names", false, "nothing but the names")
	cli.FlagWords(cmd, "state", "Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
	cli.FlagWords(cmd, "type", "classic", "consumer")
	return cmd
}

// kind is a group's type; brokers before KIP-848 know one.
func kind(g kadm.ListedGroup) string {
	if g.GroupType == "" {
		return typeClassic
	}
	return strings.ToLower(g.GroupType)
}

const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
)

// group is a group of either protocol.
type group struct {
	Name        string   `json:"group"`
	Type        string   `json:"type"`
	State       string   `json:"state"`
	Assignor    string   `json:"assignor"`
	Epoch       *int32   `json:"epoch,omitempty"`
	Coordinator string   `json:"coordinator"`
	Members     []member `json:"members"`
}

type member struct {
	ID         string             `json:"member"`
	InstanceID string             `json:"instance,omitempty"`
	ClientID   string             `json:"clientId"`
	Host       string             `json:"host"`
	Epoch      *int32             `json:"epoch,omitempty"`
	Topics     []string           `json:"subscribed"`
	Pattern    string             `json:"subscribedPattern,omitempty"`
	Assigned   map[string][]int32 `json:"assigned"`
}

// partitions counts what a member reads.
func (m *member) partitions() int {
	n := 0
	for _, ps := range m.Assigned {
		n += len(ps)
	}
	return n
}

// assigned is what a member reads, as a cell.
func (m *member) assigned() string {
	var parts []string
	for _, topic := range sortedKeys(m.Assigned) {
		parts = append(parts, topic+":"+cli.Int32s(m.Assigned[topic]))
	}
	return cli.OrDash(strings.Join(parts, " "))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// find describes groups that must exist.
func find(ctx context.Context, s *cli.Session, names ...string) ([]group, error) {
	all, err := s.Admin.ListGroups(ctx)
	if err != nil && len(all) == 0 {
		return nil, err
	}
	var groups []group
	var errs []error
	for _, name := range names {
		g, ok := all[name]
		if !ok {
			errs = append(errs, unknown(name, all))
			continue
		}
		described, err := describe(ctx, s, g)
		if err != nil {
			errs = append(errs, fmt.Errorf("group %q: %w", name, err))
			continue
		}
		groups = append(groups, described)
	}
	return groups, errors.Join(errs...)
}

func unknown(name string, all kadm.ListedGroups) error {
	hint := "posthouse group list shows those that do"
	if near := cli.Nearest(name, all.Groups()); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Errorf("group %q does not exist: %s", name, hint)
}

func describe(ctx context.Context, s *cli.Session, g kadm.ListedGroup) (group, error) {
	switch kind(g) {
	case typeConsumer:
		return describeConsumer(ctx, s, g.Group)
	case typeClassic:
		return describeClassic(ctx, s, g.Group)
	}
	return group{}, fmt.Errorf("groups of type %s cannot be described here", kind(g))
}

func describeClassic(ctx context.Context, s *cli.Session, name string) (group, error) {
	found, err := s.Admin.DescribeGroups(ctx, name)
	if err != nil && len(found) == 0 {
		return group{}, err
	}
	d := found[name]
	if d.Err != nil {
		return group{}, cli.Broken(d.Err, d.ErrMessage)
	}
	out := group{Name: name, Type: typeClassic, State: d.State, Assignor: d.Protocol, Coordinator: broker(d.Coordinator), Members: []member{}}
	for _, m := range d.Members {
		row := member{ID: m.MemberID, ClientID: m.ClientID, Host: host(m.ClientHost), Topics: []string{}, Assigned: map[string][]int32{}}
		if m.InstanceID != nil {
			row.InstanceID = *m.InstanceID
		}
		if join, ok := m.Join.AsConsumer(); ok {
			row.Topics = append(row.Topics, join.Topics...)
			slices.Sort(row.Topics)
		}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				ps := append(row.Assigned[t.Topic], t.Partitions...)
				slices.Sort(ps)
				row.Assigned[t.Topic] = ps
			}
		}
		out.Members = append(out.Members, row)
	}
	return out, nil
}

func describeConsumer(ctx context.Context, s *cli.Session, name string) (group, error) {
	found, err := s.Admin.DescribeConsumerGroups(ctx, name)
	if err != nil && len(found) == 0 {
		return group{}, err
	}
	d := found[name]
	if d.Err != nil {
		return group{}, cli.Broken(d.Err, "")
	}
	out := group{Name: name, Type: typeConsumer, State: d.State, Assignor: d.AssignorName, Epoch: &d.Epoch, Coordinator: broker(d.Coordinator), Members: []member{}}
	for _, m := range d.Members {
		row := member{ID: m.MemberID, ClientID: m.ClientID, Host: host(m.ClientHost), Epoch: &m.MemberEpoch,
			Topics: append([]string{}, m.SubscribedTopics...), Assigned: map[string][]int32{}}
		slices.Sort(row.Topics)
		if m.InstanceID != nil {
			row.InstanceID = *m.InstanceID
		}
		if m.SubscribedTopicRegex != nil {
			row.Pattern = *m.SubscribedTopicRegex
		}
		for _, t := range m.Assignment.Sorted() {
			row.Assigned[t.Topic] = t.Partitions
		}
		out.Members = append(out.Members, row)
	}
	return out, nil
}

func broker(b kadm.BrokerDetail) string { return fmt.Sprintf("%d at %s:%d", b.NodeID, b.Host, b.Port) }

// host is a member's address without the slash that Java puts before it.
func host(s string) string { return strings.TrimPrefix(s, "/") }

func newMembers() *cobra.Command {
	conn := &cli.Conn{}
	cmd := &cobra.Command{
		Use: "members GROUP...", Short: "Show the members of groups and what each reads",
		Args: cli.Names("group"), ValidArgsFunction: conn.Complete(cli.Groups, true),
		Example: "  posthouse group members billing",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, names []string) error {
			groups, missing := find(ctx, s, names...)
			return errors.Join(s.Print(append([]group{}, groups...), func(w io.Writer) error {
				table := cli.NewTable("GROUP", "MEMBER", "INSTANCE", "CLIENT ID", "HOST", ">PARTITIONS", "ASSIGNED")
				for _, g := range groups {
					for _, m := range g.Members {
						table.Row(g.Name, m.ID, cli.OrDash(m.InstanceID), m.ClientID, m.Host, m.partitions(), m.assigned())
					}
				}
				if len(table.Rows) == 0 && len(groups) > 0 {
					_, err := fmt.Fprintln(w, "no members")
					return err
				}
				return table.Write(w)
			}), missing)
		}),
	}
	conn.RegisterJSON(cmd)
	return cmd
}

func newDelete() *cobra.Command {
	conn := &cli.Conn{}
	var yes bool
	cmd := &cobra.Command{
		Use: "delete GROUP...", Short: "Delete groups that have no members, with their offsets",
		Args: cli.Names("group"), ValidArgsFunction: conn.Complete(cli.Groups, true),
		Example: "  posthouse group delete billing --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Confirm(cmd, yes, fmt.Sprintf("delete %s with all offsets", cli.Count(len(args), "group"))); err != nil {
				return err
			}
			return conn.Run(func(ctx context.Context, s *cli.Session, names []string) error {
				answers, err := s.Admin.DeleteGroups(ctx, names...)
				if err != nil && len(answers) == 0 {
					return err
				}
				var errs []error
				for _, a := range answers.Sorted() {
					switch {
					case errors.Is(a.Err, kerr.GroupIDNotFound):
						all, listErr := s.Admin.ListGroups(ctx)
						errs = append(errs, unknown(a.Group, all), listErr)
					case errors.Is(a.Err, kerr.NonEmptyGroup):
						errs = append(errs, fmt.Errorf("group %q has members: stop them first, posthouse group members %s shows who they are", a.Group, a.Group))
					case a.Err != nil:
						errs = append(errs, fmt.Errorf("group %q: %w", a.Group, cli.Broken(a.Err, a.ErrMessage)))
					default:
						fmt.Fprintf(s.Out, "deleted group %s\n", a.Group)
					}
				}
				return errors.Join(errs...)
			})(cmd, args)
		},
	}
	conn.Register(cmd)
	cli.AddYes(cmd, &yes)
	return cmd
}
