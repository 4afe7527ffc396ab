// Package configs has the command posthouse config and those below it: configs
// of topics, brokers and groups, and the quotas of clients.
package configs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

// New makes posthouse config.
func New() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "config",
		Short: "Show and change configs of topics, brokers and groups, and quotas",
		Long: "Show and change configs of topics, brokers and groups, and quotas of clients.\n\n" +
			"A broker is named by its id; \"default\" names what holds for all brokers of the\n" +
			"cluster that have nothing of their own.",
	}, newDescribe(), newSet(), newUnset(), newQuota())
}

// defaultBroker names the cluster's defaults.
const defaultBroker = "default"

// resource is what configs belong to.
type resource struct {
	kind kmsg.ConfigResourceType
	word string // as on the command line
	name string // as on the wire
}

func (r resource) String() string {
	if r.kind == kmsg.ConfigResourceTypeBroker && r.name == "" {
		return "the cluster's defaults"
	}
	return r.word + " " + r.name
}

var kinds = map[string]kmsg.ConfigResourceType{
	"topic": kmsg.ConfigResourceTypeTopic, "broker": kmsg.ConfigResourceTypeBroker, "group": kmsg.ConfigResourceTypeGroupConfig,
}

func parseResource(word, name string) (resource, error) {
	kind, ok := kinds[strings.TrimSuffix(word, "s")]
	if !ok {
		return resource{}, cli.Usagef("%q has no configs: want topic, broker or group", word)
	}
	r := resource{kind, strings.TrimSuffix(word, "s"), name}
	if name == "" {
		return r, cli.Usagef("which %s?", r.word)
	}
	if kind != kmsg.ConfigResourceTypeBroker {
		return r, nil
	}
	if name == defaultBroker {
		r.name = ""
		return r, nil
	}
	if id, err := strconv.ParseInt(name, 10, 32); err != nil || id < 0 {
		return r, cli.Usagef("broker %q: want a broker's id or %q", name, defaultBroker)
	}
	return r, nil
}

// resourceArgs wants a kind, a name and more arguments if that is not "".
func resourceArgs(more string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < 2 {
			return cli.Usagef("want a kind (topic, broker or group) and a name: %s --help shows examples", cmd.CommandPath())
		}
		if more == "" && len(args) > 2 {
			return cli.Usagef("unexpected %q", args[2])
		}
		if more != "" && len(args) < 3 {
			return cli.Usagef("nothing to change: want %s", more)
		}
		_, err := parseResource(args[0], args[1])
		return err
	}
}

// complete completes a kind and a name.
func complete(conn *cli.Conn) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return []cobra.Completion{"topic", "broker", "group"}, cobra.ShellCompDirectiveNoFileComp
		}
		lister := map[string]cli.Lister{"topic": cli.Topics, "group": cli.Groups, "broker": brokers}[args[0]]
		if len(args) > 1 || lister == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return conn.Complete(lister, true)(cmd, nil, word)
	}
}

func brokers(ctx context.Context, admin *kadm.Client) ([]string, error) {
	list, err := admin.ListBrokers(ctx)
	names := []string{defaultBroker}
	for _, b := range list {
		names = append(names, strconv.Itoa(int(b.NodeID)))
	}
	return names, err
}

type entry struct {
	Name      string  `json:"name"`
	Value     *string `json:"value"`
	Source    string  `json:"source"`
	ReadOnly  bool    `json:"readOnly"`
	Sensitive bool    `json:"sensitive"`
	Doc       string  `json:"documentation,omitempty"`
}

func newDescribe() *cobra.Command {
	conn := &cli.Conn{}
	var all, docs bool
	cmd := &cobra.Command{
		Use: "describe KIND NAME", Short: "Show configs: those that were set, or all",
		Args: resourceArgs(""), ValidArgsFunction: complete(conn),
		Example: "  posthouse config describe topic orders --all\n  posthouse config describe broker 1\n" +
			"  posthouse config describe broker default\n  posthouse config describe group billing",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, args []string) error {
			r, err := parseResource(args[0], args[1])
			if err != nil {
				return err
			}
			entries, err := describe(ctx, s, r, docs)
			if err != nil {
				return err
			}
			if !all {
				entries = slices.DeleteFunc(entries, func(e entry) bool { return !setAtRunTime(e) })
			}
			return s.Print(entries, func(w io.Writer) error { return printEntries(w, r, entries, docs) })
		}),
	}
	conn.RegisterJSON(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "those with their default and those of the properties file too")
	cmd.Flags().BoolVar(&docs, "docs", false, "with what each means, if the broker says")
	return cmd
}

// setAtRunTime tells what somebody chose through the cluster from defaults and
// the brokers' own files.
func setAtRunTime(e entry) bool {
	return strings.HasPrefix(e.Source, "DYNAMIC") || e.Source == kmsg.ConfigSourceGroupConfig.String()
}

func printEntries(w io.Writer, r resource, entries []entry, docs bool) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintf(w, "nothing is set on %v; --all shows what holds\n", r)
		return err
	}
	head := []string{"NAME", "VALUE", "SOURCE"}
	if docs {
		head = append(head, "MEANING")
	}
	table := cli.NewTable(head...)
	for _, e := range entries {
		value := "-"
		switch {
		case e.Sensitive:
			value = "(hidden)"
		case e.Value != nil && *e.Value == "":
			value = `""`
		case e.Value != nil:
			value = *e.Value
		}
		source := strings.ToLower(strings.ReplaceAll(e.Source, "_", " "))
		if e.ReadOnly {
			source += ", read-only"
		}
		cells := []any{e.Name, value, source}
		if docs {
			cells = append(cells, e.Doc)
		}
		table.Row(cells...)
	}
	return table.Write(w)
}

// describe asks for the configs of one resource. Kadm knows neither groups nor
// documentation.
func describe(ctx context.Context, s *cli.Session, r resource, docs bool) ([]entry, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeDocumentation = docs
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = r.kind, r.name
	req.Resources = append(req.Resources, res)
	answer, err := request(ctx, s, r, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.DescribeConfigsResponse)
	entries := []entry{}
	for _, res := range resp.Resources {
		if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
			return nil, resourceError(ctx, s, r, err, res.ErrorMessage)
		}
		for _, c := range res.Configs {
			e := entry{Name: c.Name, Value: c.Value, Source: c.Source.String(), ReadOnly: c.ReadOnly, Sensitive: c.IsSensitive}
			if c.Documentation != nil {
				e.Doc = *c.Documentation
			}
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// request sends a request about r: to the broker that it names, or to any.
func request(ctx context.Context, s *cli.Session, r resource, req kmsg.Request) (kmsg.Response, error) {
	if r.kind == kmsg.ConfigResourceTypeBroker && r.name != "" {
		id, err := strconv.ParseInt(r.name, 10, 32)
		if err != nil {
			return nil, err
		}
		known, err := s.Admin.ListBrokers(ctx)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(known.NodeIDs(), int32(id)) {
			return nil, fmt.Errorf("there is no broker %d: the cluster has %s", id, cli.Int32s(known.NodeIDs()))
		}
		return s.Client.Broker(int(id)).RetriableRequest(ctx, req)
	}
	return s.Client.Request(ctx, req)
}

func resourceError(ctx context.Context, s *cli.Session, r resource, err error, message *string) error {
	text := ""
	if message != nil {
		text = *message
	}
	if r.kind == kmsg.ConfigResourceTypeTopic {
		return s.TopicError(ctx, r.name, err, text)
	}
	return fmt.Errorf("%v: %w", r, cli.Broken(err, text))
}

func newSet() *cobra.Command {
	conn := &cli.Conn{}
	var appendTo, subtract, validate bool
	cmd := &cobra.Command{
		Use: "set KIND NAME KEY=VALUE...", Short: "Set configs of a topic, a broker, all brokers or a group",
		Long: "Set configs of a topic, a broker, all brokers (broker default) or a group. They hold at\n" +
			"once; keys that only a restart can change are refused.",
		Args: resourceArgs("KEY=VALUE"), ValidArgsFunction: complete(conn),
		Example: "  posthouse config set topic orders retention.ms=86400000 cleanup.policy=delete\n" +
			"  posthouse config set broker default log.retention.ms=604800000\n" +
			"  posthouse config set group billing consumer.session.timeout.ms=60000",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, args []string) error {
			r, err := parseResource(args[0], args[1])
			if err != nil {
				return err
			}
			values, err := cli.Assignments(args[2:])
			if err != nil {
				return err
			}
			op := kmsg.IncrementalAlterConfigOpSet
			switch {
			case appendTo && subtract:
				return cli.Usagef("--append or --subtract, not both")
			case appendTo:
				op = kmsg.IncrementalAlterConfigOpAppend
			case subtract:
				op = kmsg.IncrementalAlterConfigOpSubtract
			}
			var changes []kmsg.IncrementalAlterConfigsRequestResourceConfig
			for _, key := range slices.Sorted(maps.Keys(values)) {
				changes = append(changes, change(key, op, values[key]))
			}
			return alter(ctx, s, r, changes, validate)
		}),
	}
	conn.Register(cmd)
	cmd.Flags().BoolVar(&appendTo, "append", false, "add the values to lists that are there")
	cmd.Flags().BoolVar(&subtract, "subtract", false, "take the values out of lists that are there")
	cmd.Flags().BoolVar(&validate, "validate-only", false, "only let the broker check it")
	return cmd
}

func newUnset() *cobra.Command {
	conn := &cli.Conn{}
	var validate bool
	cmd := &cobra.Command{
		Use: "unset KIND NAME KEY...", Short: "Go back to the defaults of configs",
		Args: resourceArgs("KEY"), ValidArgsFunction: complete(conn),
		Example: "  posthouse config unset topic orders retention.ms",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, args []string) error {
			r, err := parseResource(args[0], args[1])
			if err != nil {
				return err
			}
			var changes []kmsg.IncrementalAlterConfigsRequestResourceConfig
			for _, key := range args[2:] {
				if strings.Contains(key, "=") || key == "" {
					return cli.Usagef("unset %q: want the name of a config alone", key)
				}
				changes = append(changes, change(key, kmsg.IncrementalAlterConfigOpDelete, ""))
			}
			return alter(ctx, s, r, changes, validate)
		}),
	}
	conn.Register(cmd)
	cmd.Flags().BoolVar(&validate, "validate-only", false, "only let the broker check it")
	return cmd
}

func change(key string, op kmsg.IncrementalAlterConfigOp, value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op = key, op
	if op != kmsg.IncrementalAlterConfigOpDelete {
		c.Value = &value
	}
	return c
}

func alter(ctx context.Context, s *cli.Session, r resource, changes []kmsg.IncrementalAlterConfigsRequestResourceConfig, validate bool) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validate
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.Configs = r.kind, r.name, changes
	req.Resources = append(req.Resources, res)
	answer, err := request(ctx, s, r, req)
	if err != nil {
		return err
	}
	var errs []error
	for _, res := range answer.(*kmsg.IncrementalAlterConfigsResponse).Resources {
		if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
			errs = append(errs, resourceError(ctx, s, r, err, res.ErrorMessage))
		}
	}
	if err := errors.Join(errs...); err != nil || validate {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "changed %s of %v\n", cli.Count(len(changes), "config"), r)
	return err
}
