package topics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

type offsets struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Start     int64  `json:"startOffset"`
	End       int64  `json:"endOffset"`
	Records   int64  `json:"offsets"`
	At        *int64 `json:"at,omitempty"`
	AtTime    *int64 `json:"atTimestamp,omitempty"`
	Error     string `json:"error,omitempty"`
}

func newOffsets() *cobra.Command {
	conn := &cli.Conn{}
	var at string
	var committed bool
	cmd := &cobra.Command{
		Use: "offsets TOPIC...", Short: "Show the offsets of topics, or look some up by time",
		Long: "Show where each partition begins and ends (exclusive), and with --at which record is the\n" +
			"first at or after a time: a date, milliseconds since 1970, how long ago (2h), or\n" +
			"max-timestamp for the record with the greatest one. An offset of -1 means that there\n" +
			"is no such record.",
		Args: cli.Names("topic"), ValidArgsFunction: conn.Complete(cli.Topics, true),
		Example: "  posthouse topic offsets orders\n  posthouse topic offsets orders --at 2024-05-01T12:30:00Z\n  posthouse topic offsets orders --at 2h",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, names []string) error {
			var lookUp func() (kadm.ListedOffsets, error)
			switch at {
			case "":
			case "max-timestamp":
				lookUp = func() (kadm.ListedOffsets, error) { return s.Admin.ListMaxTimestampOffsets(ctx, names...) }
			default:
				when, err := cli.ParseTime(at, time.Now())
				if err != nil {
					return err
				}
				lookUp = func() (kadm.ListedOffsets, error) {
					return s.Admin.ListOffsetsAfterMilli(ctx, when.UnixMilli(), names...)
				}
			}
			rows, err := listOffsets(ctx, s, names, committed, lookUp)
			if err != nil {
				return err
			}
			return s.Print(rows, func(w io.Writer) error { return printOffsets(w, rows, lookUp != nil) })
		}),
	}
	conn.RegisterJSON(cmd)
	cmd.Flags().StringVar(&at, "at", "", "look up the first record at or after this `time`")
	cmd.Flags().BoolVar(&committed, "read-committed", false, "end where open transactions begin")
	return cmd
}

func listOffsets(ctx context.Context, s *cli.Session, names []string, committed bool, lookUp func() (kadm.ListedOffsets, error)) ([]offsets, error) {
	details, err := s.FindTopics(ctx, names...)
	if err != nil {
		return nil, err
	}
	listEnds := s.Admin.ListEndOffsets
	if committed {
		listEnds = s.Admin.ListCommittedOffsets
	}
	starts, err := s.Admin.ListStartOffsets(ctx, names...)
	if err != nil && len(starts) == 0 {
		return nil, err
	}
	ends, err := listEnds(ctx, names...)
	if err != nil && len(ends) == 0 {
		return nil, err
	}
	var found kadm.ListedOffsets
	if lookUp != nil {
		if found, err = lookUp(); err != nil && len(found) == 0 {
			return nil, err
		}
	}
	rows := []offsets{}
	for _, d := range details {
		for _, p := range d.Partitions.Sorted() {
			row := offsets{Topic: d.Topic, Partition: p.Partition, Start: -1, End: -1}
			begin, _ := starts.Lookup(d.Topic, p.Partition)
			end, _ := ends.Lookup(d.Topic, p.Partition)
			if err := errors.Join(begin.Err, end.Err); err != nil {
				row.Error = cli.Broken(err, "").Error()
			} else {
				row.Start, row.End, row.Records = begin.Offset, end.Offset, end.Offset-begin.Offset
			}
			if o, ok := found.Lookup(d.Topic, p.Partition); ok {
				row.At, row.AtTime = &o.Offset, &o.Timestamp
				if o.Err != nil && row.Error == "" {
					row.Error = cli.Broken(o.Err, "").Error()
				}
				// kadm gives the end for a time after the last record.
				if o.Offset == row.End && o.Timestamp < 0 {
					none := int64(-1)
					row.At = &none
				}
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func printOffsets(w io.Writer, rows []offsets, at bool) error {
	head := []string{"TOPIC", ">PARTITION", ">START", ">END", ">OFFSETS"}
	if at {
		head = append(head, ">AT", "TIMESTAMP")
	}
	failed := slices.ContainsFunc(rows, func(r offsets) bool { return r.Error != "" })
	if failed {
		head = append(head, "ERROR")
	}
	table := cli.NewTable(head...)
	for _, r := range rows {
		cells := []any{r.Topic, r.Partition, r.Start, r.End, r.Records}
		if at {
			offset, when := int64(-1), int64(-1)
			if r.At != nil {
				offset, when = *r.At, *r.AtTime
			}
			cells = append(cells, offset, cli.FormatTime(when))
		}
		if failed {
			cells = append(cells, cli.OrDash(r.Error))
		}
		table.Row(cells...)
	}
	return table.Write(w)
}

type cutOff struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Start     int64  `json:"startOffset"`
}

func newDeleteRecords() *cobra.Command {
	conn := &cli.Conn{}
	var before, partitions string
	var yes bool
	cmd := &cobra.Command{
		Use: "delete-records TOPIC", Short: "Delete the records before an offset or a time",
		Long: "Delete the records before an offset, or before the first at or after a time, in all\n" +
			"partitions or in some. --before end empties them. Partitions that have no record that\n" +
			"old are left as they are.",
		Args: cli.OneName("topic"), ValidArgsFunction: conn.Complete(cli.Topics, false),
		Example: "  posthouse topic delete-records orders --before end\n" +
			"  posthouse topic delete-records orders --partitions 0,3-5 --before 120000 --yes\n" +
			"  posthouse topic delete-records orders --before 7d",
		RunE: func(cmd *cobra.Command, args []string) error {
			if before == "" {
				return cli.Usagef("before which offset or time? give --before")
			}
			if err := cli.Confirm(cmd, yes, fmt.Sprintf("delete records of topic %s before %s", args[0], before)); err != nil {
				return err
			}
			return conn.Run(func(ctx context.Context, s *cli.Session, args []string) error {
				return deleteRecords(ctx, s, args[0], partitions, before)
			})(cmd, args)
		},
	}
	conn.RegisterJSON(cmd)
	cli.AddYes(cmd, &yes)
	cmd.Flags().StringVar(&before, "before", "", "an `offset`, end, a date, or how long ago")
	cmd.Flags().StringVar(&partitions, "partitions", "", "these alone, `0,2-5`")
	return cmd
}

func deleteRecords(ctx context.Context, s *cli.Session, topic, partitions, before string) error {
	details, err := s.FindTopics(ctx, topic)
	if err != nil {
		return err
	}
	chosen, err := Choose(details[0], partitions)
	if err != nil {
		return err
	}
	targets, err := cutOffsets(ctx, s, topic, chosen, before)
	if err != nil {
		return err
	}
	answers, err := s.Admin.DeleteRecords(ctx, targets)
	if err != nil {
		return err
	}
	results := []cutOff{}
	var errs []error
	for _, a := range answers.Sorted() {
		if a.Err != nil {
			errs = append(errs, fmt.Errorf("partition %d: %w", a.Partition, cli.Broken(a.Err, "")))
			continue
		}
		results = append(results, cutOff{a.Topic, a.Partition, a.LowWatermark})
	}
	return errors.Join(s.Print(results, func(w io.Writer) error {
		table := cli.NewTable("TOPIC", ">PARTITION", ">NEW START")
		for _, r := range results {
			table.Row(r.Topic, r.Partition, r.Start)
		}
		return table.Write(w)
	}), errors.Join(errs...))
}

// Choose are the partitions of a topic that a list names; "" names all.
func Choose(d kadm.TopicDetail, list string) ([]int32, error) {
	all := d.Partitions.Numbers()
	slices.Sort(all)
	if list == "" {
		return all, nil
	}
	chosen, err := cli.ParsePartitions(list)
	if err != nil {
		return nil, err
	}
	for _, p := range chosen {
		if !slices.Contains(all, p) {
			return nil, fmt.Errorf("topic %q has no partition %d: it has %s, from 0", d.Topic, p, cli.Count(len(all), "partition"))
		}
	}
	return chosen, nil
}

// cutOffsets turns what --before says into an offset for each partition. -1 is
// the high watermark (DeleteRecords' own convention).
func cutOffsets(ctx context.Context, s *cli.Session, topic string, partitions []int32, before string) (kadm.Offsets, error) {
	var targets kadm.Offsets
	fixed, err := strconv.ParseInt(before, 10, 64)
	switch {
	case before == "end":
		fixed = -1
	case err == nil && fixed < 0:
		return nil, cli.Usagef("--before %s: no offset is negative", before)
	case err != nil:
		when, err := cli.ParseTime(before, time.Now())
		if err != nil {
			return nil, err
		}
		found, err := s.Admin.ListOffsetsAfterMilli(ctx, when.UnixMilli(), topic)
		if err != nil {
			return nil, err
		}
		for _, p := range partitions {
			o, ok := found.Lookup(topic, p)
			if !ok || o.Err != nil {
				return nil, fmt.Errorf("partition %d: its offset at that time is not known: %w", p, cli.Broken(o.Err, ""))
			}
			targets.AddOffset(topic, p, o.Offset, -1)
		}
		return targets, nil
	}
	for _, p := range partitions {
		targets.AddOffset(topic, p, fixed, -1)
	}
	return targets, nil
}
