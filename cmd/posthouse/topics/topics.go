// Package topics has the command posthouse topic and those below it.
package topics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
	"github.com/posthouse/posthouse/storage/record"
)

// New makes posthouse topic.
func New() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "topic",
		Short: "List, create, describe, change and delete topics",
		Long:  "List, create, describe, change and delete topics, and look up and cut off their offsets.",
	}, newList(), newCreate(), newDescribe(), newAlter(), newDelete(), newAddPartitions(), newDeleteRecords(), newOffsets())
}

type listed struct {
	Topic       string `json:"topic"`
	ID          string `json:"id"`
	Partitions  int    `json:"partitions"`
	Replication int    `json:"replication"`
	Internal    bool   `json:"internal"`
}

func newList() *cobra.Command {
	conn := &cli.Conn{}
	var internal, names bool
	cmd := &cobra.Command{
		Use: "list", Short: "List topics", Args: cobra.NoArgs,
		Example: "  posthouse topic list\n  posthouse topic list --names --bootstrap broker.example:9092",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, _ []string) error {
			list := s.Admin.ListTopics
			if internal {
				list = s.Admin.ListTopicsWithInternal
			}
			details, err := list(ctx)
			if err != nil {
				return err
			}
			topics := []listed{}
			for _, d := range details.Sorted() {
				topics = append(topics, listed{d.Topic, topicID(d), len(d.Partitions), replication(d), d.IsInternal})
			}
			return s.Print(topics, func(w io.Writer) error {
				if names {
					for _, t := range topics {
						fmt.Fprintln(w, t.Topic)
					}
					return nil
				}
				table := cli.NewTable("TOPIC", ">PARTITIONS", ">REPLICATION")
				for _, t := range topics {
					table.Row(t.Topic, t.Partitions, t.Replication)
				}
				return table.Write(w)
			})
		}),
	}
	conn.RegisterJSON(cmd)
	cmd.Flags().BoolVar(&internal, "internal", false, "with those that the broker keeps for itself")
	cmd.Flags().BoolVar(&names, "names", false, "nothing but the names")
	return cmd
}

func topicID(d kadm.TopicDetail) string {
	if d.ID == (kadm.TopicID{}) {
		return ""
	}
	return record.TopicID(d.ID).String() // kadm pads it, Kafka's tools do not
}

func replication(d kadm.TopicDetail) int {
	n := 0
	for _, p := range d.Partitions {
		n = max(n, len(p.Replicas))
	}
	return n
}

type created struct {
	Topic       string `json:"topic"`
	ID          string `json:"id,omitempty"`
	Partitions  int32  `json:"partitions"`
	Replication int16  `json:"replication"`
	Created     bool   `json:"created"`
}

func newCreate() *cobra.Command {
	conn := &cli.Conn{}
	var partitions int32
	var factor int16
	var configs []string
	var ifNotExists, validate bool
	cmd := &cobra.Command{
		Use: "create TOPIC...", Short: "Create topics", Args: cli.Names("topic"),
		Example: "  posthouse topic create orders --partitions 12 --replication 3 --config min.insync.replicas=2\n" +
			"  posthouse topic create events --if-not-exists --config cleanup.policy=compact",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, names []string) error {
			set, err := cli.Assignments(configs)
			if err != nil {
				return err
			}
			if partitions == 0 || partitions < -1 || factor == 0 || factor < -1 {
				return cli.Usagef("--partitions and --replication: want 1 or more, or -1 for the broker's default")
			}
			values := make(map[string]*string, len(set))
			for k, v := range set {
				values[k] = &v
			}
			create := s.Admin.CreateTopics
			if validate {
				create = s.Admin.ValidateCreateTopics
			}
			answers, err := create(ctx, partitions, factor, values, names...)
			if err != nil {
				return err
			}
			return printCreated(s, answers, ifNotExists, validate)
		}),
	}
	conn.RegisterJSON(cmd)
	f := cmd.Flags()
	f.Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1 is the broker's default")
	f.Int16VarP(&factor, "replication", "r", -1, "replication factor; -1 is the broker's default")
	f.StringArrayVarP(&configs, "config", "c", nil, "a config of the topic, `key=value`; may be repeated")
	f.BoolVar(&ifNotExists, "if-not-exists", false, "a topic that exists is no failure")
	f.BoolVar(&validate, "validate-only", false, "say what would happen, and do nothing")
	return cmd
}

func printCreated(s *cli.Session, answers kadm.CreateTopicResponses, ifNotExists, validate bool) error {
	results := []created{}
	var errs []error
	for _, a := range answers.Sorted() {
		exists := errors.Is(a.Err, kerr.TopicAlreadyExists)
		switch {
		case a.Err != nil && !(exists && ifNotExists):
			errs = append(errs, fmt.Errorf("topic %q: %w", a.Topic, cli.Broken(a.Err, a.ErrMessage)))
		case exists:
			results = append(results, created{Topic: a.Topic, Partitions: -1, Replication: -1})
		default:
			id := ""
			if a.ID != (kadm.TopicID{}) {
				id = record.TopicID(a.ID).String()
			}
			results = append(results, created{a.Topic, id, a.NumPartitions, a.ReplicationFactor, !validate})
		}
	}
	return errors.Join(s.Print(results, func(w io.Writer) error {
		for _, r := range results {
			switch {
			case r.Partitions < 0:
				fmt.Fprintf(w, "topic %s exists\n", r.Topic)
			case validate:
				fmt.Fprintf(w, "topic %s would be created: %s, replication factor %d\n", r.Topic, cli.Count(int(r.Partitions), "partition"), r.Replication)
			default:
				fmt.Fprintf(w, "created topic %s: %s, replication factor %d\n", r.Topic, cli.Count(int(r.Partitions), "partition"), r.Replication)
			}
		}
		return nil
	}), errors.Join(errs...))
}

func newAlter() *cobra.Command {
	conn := &cli.Conn{}
	var set, unset []string
	var validate bool
	cmd := &cobra.Command{
		Use: "alter TOPIC...", Short: "Change configs of topics",
		Long: "Change configs of topics; the same as posthouse config set topic.",
		Args: cli.Names("topic"), ValidArgsFunction: conn.Complete(cli.Topics, true),
		Example: "  posthouse topic alter orders --config retention.ms=86400000\n  posthouse topic alter orders --delete-config retention.ms",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, names []string) error {
			values, err := cli.Assignments(set)
			if err != nil {
				return err
			}
			var changes []kadm.AlterConfig
			for _, key := range slices.Sorted(maps.Keys(values)) {
				value := values[key]
				changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
			}
			for _, key := range unset {
				changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key})
			}
			if len(changes) == 0 {
				return cli.Usagef("nothing to change: give --config or --delete-config")
			}
			alter := s.Admin.AlterTopicConfigs
			if validate {
				alter = s.Admin.ValidateAlterTopicConfigs
			}
			answers, err := alter(ctx, changes, names...)
			if err != nil {
				return err
			}
			var errs []error
			for _, a := range answers {
				if a.Err != nil {
					errs = append(errs, s.TopicError(ctx, a.Name, a.Err, a.ErrMessage))
				} else if !validate {
					fmt.Fprintf(s.Out, "changed topic %s\n", a.Name)
				}
			}
			return errors.Join(errs...)
		}),
	}
	conn.Register(cmd)
	f := cmd.Flags()
	f.StringArrayVarP(&set, "config", "c", nil, "set a config, `key=value`; may be repeated")
	f.StringArrayVar(&unset, "delete-config", nil, "go back to the default of a `key`; may be repeated")
	f.BoolVar(&validate, "validate-only", false, "only let the broker check the changes")
	return cmd
}

func newDelete() *cobra.Command {
	conn := &cli.Conn{}
	var yes, ifExists bool
	cmd := &cobra.Command{
		Use: "delete TOPIC...", Short: "Delete topics with all their records",
		Args: cli.Names("topic"), ValidArgsFunction: conn.Complete(cli.Topics, true),
		Example: "  posthouse topic delete orders\n  posthouse topic delete orders events --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Confirm(cmd, yes, fmt.Sprintf("delete %s with all records", cli.Count(len(args), "topic"))); err != nil {
				return err
			}
			return conn.Run(func(ctx context.Context, s *cli.Session, names []string) error {
				answers, err := s.Admin.DeleteTopics(ctx, names...)
				if err != nil {
					return err
				}
				var errs []error
				for _, a := range answers.Sorted() {
					switch {
					case errors.Is(a.Err, kerr.UnknownTopicOrPartition) && ifExists:
						fmt.Fprintf(s.Out, "topic %s does not exist\n", a.Topic)
					case a.Err != nil:
						errs = append(errs, s.TopicError(ctx, a.Topic, a.Err, a.ErrMessage))
					default:
						fmt.Fprintf(s.Out, "deleted topic %s\n", a.Topic)
					}
				}
				return errors.Join(errs...)
			})(cmd, args)
		},
	}
	conn.Register(cmd)
	cli.AddYes(cmd, &yes)
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "a topic that does not exist is no failure")
	return cmd
}

func newAddPartitions() *cobra.Command {
	conn := &cli.Conn{}
	var total, add int
	var validate bool
	cmd := &cobra.Command{
		Use: "add-partitions TOPIC...", Short: "Give topics more partitions",
		Long: "Give topics more partitions. Their number can only grow, and keys go to other\n" +
			"partitions afterwards: records of one key are no longer in one partition.",
		Args: cli.Names("topic"), ValidArgsFunction: conn.Complete(cli.Topics, true),
		Example: "  posthouse topic add-partitions orders --total 24",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, names []string) error {
			if (total > 0) == (add > 0) || total < 0 || add < 0 {
				return cli.Usagef("give --total, the number that there shall be, or --add, how many more")
			}
			n, change := total, s.Admin.UpdatePartitions
			switch {
			case total > 0 && validate:
				change = s.Admin.ValidateUpdatePartitions
			case add > 0 && validate:
				n, change = add, s.Admin.ValidateCreatePartitions
			case add > 0:
				n, change = add, s.Admin.CreatePartitions
			}
			answers, err := change(ctx, n, names...)
			if err != nil {
				return err
			}
			var errs []error
			for _, a := range answers.Sorted() {
				if a.Err != nil {
					errs = append(errs, s.TopicError(ctx, a.Topic, a.Err, a.ErrMessage))
				} else if !validate {
					fmt.Fprintf(s.Out, "added partitions to topic %s\n", a.Topic)
				}
			}
			return errors.Join(errs...)
		}),
	}
	conn.Register(cmd)
	cmd.Flags().IntVar(&total, "total", 0, "how many partitions there shall be")
	cmd.Flags().IntVar(&add, "add", 0, "how many to add")
	cmd.Flags().BoolVar(&validate, "validate-only", false, "only let the broker check it")
	return cmd
}
