package topics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

type described struct {
	Topic       string               `json:"topic"`
	ID          string               `json:"id"`
	Internal    bool                 `json:"internal"`
	Replication int                  `json:"replication"`
	Configs     map[string]string    `json:"configs"`
	Partitions  []describedPartition `json:"partitions"`
	Warnings    []string             `json:"warnings"`
}

type describedPartition struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`
	LeaderEpoch int32   `json:"leaderEpoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	Offline     []int32 `json:"offline"`
	Start       int64   `json:"startOffset"`
	End         int64   `json:"endOffset"`
	Bytes       int64   `json:"bytes"`
}

func newDescribe() *cobra.Command {
	conn := &cli.Conn{}
	var onlyUnderReplicated bool
	cmd := &cobra.Command{
		Use: "describe TOPIC...", Short: "Show partitions, offsets, sizes and changed configs of topics",
		Long: "Show partitions, offsets, sizes and changed configs of topics, and warn of what is\n" +
			"likely not meant: no leader, too few replicas in sync, settings under which\n" +
			"acknowledged records can be lost. Offsets and bytes of -1 are not known.",
		Args: cli.Names("topic"), ValidArgsFunction: conn.Complete(cli.Topics, true),
		Example: "  posthouse topic describe orders\n  posthouse topic describe orders --json | jq '.[0].partitions'",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, names []string) error {
			details, missing := s.FindTopics(ctx, names...)
			topics, err := describe(ctx, s, details)
			if err != nil {
				return errors.Join(missing, err)
			}
			if onlyUnderReplicated {
				for i := range topics {
					topics[i].Partitions = slices.DeleteFunc(topics[i].Partitions, func(p describedPartition) bool {
						return p.Leader >= 0 && len(p.ISR) >= len(p.Replicas)
					})
				}
			}
			return errors.Join(s.Print(topics, func(w io.Writer) error { return printDescribed(w, topics) }), missing)
		}),
	}
	conn.RegisterJSON(cmd)
	cmd.Flags().BoolVar(&onlyUnderReplicated, "under-replicated", false, "only partitions without a leader or with replicas out of sync")
	return cmd
}

func describe(ctx context.Context, s *cli.Session, details []kadm.TopicDetail) ([]described, error) {
	topics := []described{}
	if len(details) == 0 {
		return topics, nil
	}
	names := make([]string, len(details))
	set := kadm.TopicsSet{}
	for i, d := range details {
		names[i] = d.Topic
		set.Add(d.Topic, d.Partitions.Numbers()...)
	}
	configs, err := s.Admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, err
	}
	starts, err := s.Admin.ListStartOffsets(ctx, names...)
	if err != nil && len(starts) == 0 {
		return nil, err
	}
	ends, err := s.Admin.ListEndOffsets(ctx, names...)
	if err != nil && len(ends) == 0 {
		return nil, err
	}
	// A broker that does not tell sizes is no reason to tell nothing.
	sizes := leaderSizes(ctx, s, set)
	for _, d := range details {
		t := described{Topic: d.Topic, ID: topicID(d), Internal: d.IsInternal, Replication: replication(d),
			Configs: map[string]string{}, Warnings: []string{}, Partitions: []describedPartition{}}
		values := map[string]string{}
		for _, r := range configs {
			if r.Name != d.Topic {
				continue
			}
			for _, c := range r.Configs {
				values[c.Key] = c.MaybeValue()
				if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
					t.Configs[c.Key] = c.MaybeValue()
				}
			}
		}
		for _, p := range d.Partitions.Sorted() {
			dp := describedPartition{Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
				Replicas: list(p.Replicas), ISR: list(p.ISR), Offline: list(p.OfflineReplicas), Start: -1, End: -1, Bytes: -1}
			if o, ok := starts.Lookup(d.Topic, p.Partition); ok && o.Err == nil {
				dp.Start = o.Offset
			}
			if o, ok := ends.Lookup(d.Topic, p.Partition); ok && o.Err == nil {
				dp.End = o.Offset
			}
			if n, ok := sizes[partition{d.Topic, p.Partition, p.Leader}]; ok {
				dp.Bytes = n
			}
			t.Partitions = append(t.Partitions, dp)
		}
		t.Warnings = warnings(t, values)
		topics = append(topics, t)
	}
	return topics, nil
}

func list(ns []int32) []int32 { return append([]int32{}, ns...) }

type partition struct {
	topic  string
	number int32
	broker int32
}

// leaderSizes are the bytes of each replica that the brokers tell of.
func leaderSizes(ctx context.Context, s *cli.Session, set kadm.TopicsSet) map[partition]int64 {
	sizes := map[partition]int64{}
	dirs, err := s.Admin.DescribeAllLogDirs(ctx, set)
	if err != nil && len(dirs) == 0 {
		return sizes
	}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if !p.IsFuture {
				sizes[partition{p.Topic, p.Partition, p.Broker}] = p.Size
			}
		})
	})
	return sizes
}

// warnings are what is likely not meant.
func warnings(t described, values map[string]string) []string {
	out := []string{}
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	minISR, _ := strconv.Atoi(values["min.insync.replicas"])
	if minISR == 1 && t.Replication > 1 {
		warn("min.insync.replicas is 1: with acks=all a record may be on one broker alone when it is acknowledged, and is lost with it; 2 is safer with %d replicas", t.Replication)
	}
	if minISR > t.Replication && t.Replication > 0 {
		warn("min.insync.replicas is %d and there are %d replicas: no produce with acks=all can succeed", minISR, t.Replication)
	}
	if values["unclean.leader.election.enable"] == "true" && t.Replication > 1 {
		warn("unclean.leader.election.enable is true: a replica that lacks acknowledged records may become leader")
	}
	for _, p := range t.Partitions {
		switch {
		case p.Leader < 0:
			warn("partition %d has no leader: it can be neither written nor read", p.Partition)
		case len(p.ISR) < minISR:
			warn("partition %d has %d of %d replicas in sync, fewer than min.insync.replicas: no produce with acks=all can succeed", p.Partition, len(p.ISR), len(p.Replicas))
		case len(p.ISR) < len(p.Replicas):
			warn("partition %d has %d of %d replicas in sync", p.Partition, len(p.ISR), len(p.Replicas))
		}
	}
	return out
}

func printDescribed(w io.Writer, topics []described) error {
	for i, t := range topics {
		if i > 0 {
			fmt.Fprintln(w)
		}
		internal := ""
		if t.Internal {
			internal = ", internal"
		}
		fmt.Fprintf(w, "topic %s (id %s%s): %s, replication factor %d\n", t.Topic, cli.OrDash(t.ID), internal, cli.Count(len(t.Partitions), "partition"), t.Replication)
		if len(t.Configs) > 0 {
			fmt.Fprintln(w, "configs:")
			for _, key := range slices.Sorted(func(yield func(string) bool) {
				for k := range t.Configs {
					if !yield(k) {
						return
					}
				}
			}) {
				fmt.Fprintf(w, "  %s=%s\n", key, cli.Printable(t.Configs[key]))
			}
		}
		table := cli.NewTable(">PARTITION", ">LEADER", ">EPOCH", "REPLICAS", "ISR", "OFFLINE", ">START", ">END", ">SIZE")
		for _, p := range t.Partitions {
			table.Row(p.Partition, orNone(p.Leader), p.LeaderEpoch, cli.Int32s(p.Replicas), cli.Int32s(p.ISR), cli.Int32s(p.Offline), p.Start, p.End, cli.Bytes(p.Bytes))
		}
		if err := table.Write(w); err != nil {
			return err
		}
		for _, text := range t.Warnings {
			fmt.Fprintln(w, "warning:", strings.TrimSpace(text))
		}
	}
	return nil
}

func orNone(broker int32) string {
	if broker < 0 {
		return "none"
	}
	return strconv.Itoa(int(broker))
}
