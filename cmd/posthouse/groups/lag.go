package groups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

// progress is how far a group is in a partition; -1 is not known.
type progress struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	Start     int64  `json:"startOffset"`
	End       int64  `json:"endOffset"`
	Lag       int64  `json:"lag"`
	Member    string `json:"member,omitempty"`
	ClientID  string `json:"clientId,omitempty"`
	Host      string `json:"host,omitempty"`
	Metadata  string `json:"metadata,omitempty"`
}

type described struct {
	group
	Partitions []progress `json:"partitions"`
	Lag        int64      `json:"lag"`
}

// follow says how far a group is in all that it has commits for or reads.
func follow(ctx context.Context, s *cli.Session, g group) (described, error) {
	d := described{group: g, Partitions: []progress{}}
	commits, err := s.Admin.FetchOffsets(ctx, g.Name)
	if err != nil {
		return d, fmt.Errorf("group %q: %w", g.Name, cli.Broken(err, ""))
	}
	rows := map[string]map[int32]*progress{}
	row := func(topic string, p int32) *progress {
		if rows[topic] == nil {
			rows[topic] = map[int32]*progress{}
		}
		if rows[topic][p] == nil {
			rows[topic][p] = &progress{Topic: topic, Partition: p, Committed: -1, Start: -1, End: -1, Lag: -1}
		}
		return rows[topic][p]
	}
	for _, c := range commits.Sorted() {
		if c.At >= 0 && c.Err == nil {
			r := row(c.Topic, c.Partition)
			r.Committed, r.Metadata = c.At, c.Metadata
		}
	}
	for _, m := range g.Members {
		for topic, ps := range m.Assigned {
			for _, p := range ps {
				r := row(topic, p)
				r.Member, r.ClientID, r.Host = m.ID, m.ClientID, m.Host
			}
		}
	}
	if len(rows) == 0 {
		return d, nil
	}
	starts, ends, err := edges(ctx, s, sortedKeys(rows)...)
	if err != nil {
		return d, err
	}
	for topic, byPartition := range rows {
		for p, r := range byPartition {
			if o, ok := starts.Lookup(topic, p); ok && o.Err == nil {
				r.Start = o.Offset
			}
			if o, ok := ends.Lookup(topic, p); ok && o.Err == nil {
				r.End = o.Offset
			}
			if r.End >= 0 && r.Committed >= 0 {
				r.Lag = max(0, r.End-r.Committed)
				d.Lag += r.Lag
			}
			d.Partitions = append(d.Partitions, *r)
		}
	}
	slices.SortFunc(d.Partitions, func(a, b progress) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return d, nil
}

// edges are where the partitions of topics begin and end. Some of the topics
// may be gone.
func edges(ctx context.Context, s *cli.Session, topics ...string) (starts, ends kadm.ListedOffsets, err error) {
	if starts, err = s.Admin.ListStartOffsets(ctx, topics...); err != nil && len(starts) == 0 {
		return nil, nil, err
	}
	if ends, err = s.Admin.ListEndOffsets(ctx, topics...); err != nil && len(ends) == 0 {
		return nil, nil, err
	}
	return starts, ends, nil
}

func newDescribe() *cobra.Command {
	conn := &cli.Conn{}
	cmd := &cobra.Command{
		Use: "describe GROUP...", Short: "Show state, offsets, lag and readers of groups",
		Long: "Show state, offsets, lag and readers of groups. Lag is how many offsets lie between\n" +
			"what was committed and the end; \"-\" means that nothing was committed.",
		Args: cli.Names("group"), ValidArgsFunction: conn.Complete(cli.Groups, true),
		Example: "  posthouse group describe billing\n  posthouse group describe billing --json",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, names []string) error {
			all, err := followAll(ctx, s, names)
			return errors.Join(s.Print(all, func(w io.Writer) error { return printDescribed(w, all) }), err)
		}),
	}
	conn.RegisterJSON(cmd)
	return cmd
}

func followAll(ctx context.Context, s *cli.Session, names []string) ([]described, error) {
	groups, missing := find(ctx, s, names...)
	all := []described{}
	errs := []error{missing}
	for _, g := range groups {
		d, err := follow(ctx, s, g)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, d)
	}
	return all, errors.Join(errs...)
}

func printDescribed(w io.Writer, all []described) error {
	for i, d := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "group %s: %s, type %s, assignor %s, %s, lag %d, coordinator %s\n", d.Name, cli.OrDash(d.State), d.Type,
			cli.OrDash(d.Assignor), cli.Count(len(d.Members), "member"), d.Lag, d.Coordinator)
		if len(d.Partitions) == 0 {
			fmt.Fprintln(w, "it has committed nothing and reads nothing")
			continue
		}
		table := cli.NewTable("TOPIC", ">PARTITION", ">COMMITTED", ">END", ">LAG", "MEMBER", "CLIENT ID", "HOST")
		for _, p := range d.Partitions {
			table.Row(p.Topic, p.Partition, known(p.Committed), known(p.End), known(p.Lag), cli.OrDash(p.Member), cli.OrDash(p.ClientID), cli.OrDash(p.Host))
		}
		if err := table.Write(w); err != nil {
			return err
		}
	}
	return nil
}

// known is a number of which -1 means that there is none.
func known(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

type topicLag struct {
	Group       string `json:"group"`
	Topic       string `json:"topic"`
	Partitions  int    `json:"partitions"`
	Uncommitted int    `json:"uncommitted"`
	Lag         int64  `json:"lag"`
}

func newLag() *cobra.Command {
	conn := &cli.Conn{}
	cmd := &cobra.Command{
		Use: "lag [GROUP...]", Short: "Show how far behind groups are in each topic; all groups unless some are named",
		ValidArgsFunction: conn.Complete(cli.Groups, true),
		Example:           "  posthouse group lag\n  posthouse group lag billing --json | jq 'map(.lag) | add'",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, names []string) error {
			var listErr error
			if len(names) == 0 {
				if names, listErr = cli.Groups(ctx, s.Admin); len(names) == 0 && listErr != nil {
					return listErr
				}
				slices.Sort(names)
			}
			all, err := followAll(ctx, s, names)
			lags := []topicLag{}
			for _, d := range all {
				lags = append(lags, byTopic(d)...)
			}
			return errors.Join(s.Print(lags, func(w io.Writer) error {
				table := cli.NewTable("GROUP", "TOPIC", ">PARTITIONS", ">NOTHING COMMITTED", ">LAG")
				for _, l := range lags {
					table.Row(l.Group, l.Topic, l.Partitions, l.Uncommitted, l.Lag)
				}
				return table.Write(w)
			}), err, listErr)
		}),
	}
	conn.RegisterJSON(cmd)
	return cmd
}

// byTopic sums what is sorted by topic.
func byTopic(d described) []topicLag {
	var lags []topicLag
	for _, p := range d.Partitions {
		if n := len(lags); n == 0 || lags[n-1].Topic != p.Topic {
			lags = append(lags, topicLag{Group: d.Name, Topic: p.Topic})
		}
		l := &lags[len(lags)-1]
		l.Partitions++
		if p.Committed < 0 {
			l.Uncommitted++
		}
		l.Lag += max(0, p.Lag)
	}
	return lags
}
