package groups

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

// scope is which partitions a command is about.
type scope struct {
	topics []string
	all    bool
}

func (sc *scope) register(cmd *cobra.Command, conn *cli.Conn) {
	cmd.Flags().StringArrayVar(&sc.topics, "topic", nil, "a `topic`, or some of its partitions as topic:0,2-5; may be repeated")
	cmd.Flags().BoolVar(&sc.all, "all-topics", false, "all topics that the group has committed offsets of")
	conn.CompleteFlag(cmd, "topic", cli.Topics)
}

// partitions resolves the flags.
func (sc *scope) partitions(ctx context.Context, s *cli.Session, commits kadm.OffsetResponses) (kadm.TopicsSet, error) {
	if (len(sc.topics) > 0) == sc.all {
		return nil, cli.Usagef("which topics? give --topic, or --all-topics")
	}
	set := kadm.TopicsSet{}
	for _, text := range sc.topics {
		tp, err := cli.ParseTopicPartitions(text)
		if err != nil {
			return nil, err
		}
		found, err := s.FindTopics(ctx, tp.Topic)
		if err != nil {
			return nil, err
		}
		existing := found[0].Partitions.Numbers()
		if tp.Partitions == nil {
			tp.Partitions = existing
		}
		for _, p := range tp.Partitions {
			if !slices.Contains(existing, p) {
				return nil, fmt.Errorf("topic %q has no partition %d: it has %s, from 0", tp.Topic, p, cli.Count(len(existing), "partition"))
			}
		}
		set.Add(tp.Topic, tp.Partitions...)
	}
	if sc.all {
		for _, c := range commits.Sorted() {
			if c.At >= 0 && c.Err == nil {
				set.Add(c.Topic, c.Partition)
			}
		}
		if len(set) == 0 {
			return nil, errors.New("the group has committed nothing: name topics with --topic")
		}
	}
	return set, nil
}

// target is where to put a group: one of the flags.
type target struct {
	earliest, latest, current bool
	offset, shift             int64
	datetime, duration, file  string
	cmd                       *cobra.Command
}

var targetFlags = []string{"to-earliest", "to-latest", "to-current", "to-offset", "shift-by", "to-datetime", "by-duration", "from-file"}

func (t *target) register(cmd *cobra.Command) {
	t.cmd = cmd
	f := cmd.Flags()
	f.BoolVar(&t.earliest, "to-earliest", false, "to the beginning")
	f.BoolVar(&t.latest, "to-latest", false, "to the end: nothing that is there is read")
	f.BoolVar(&t.current, "to-current", false, "to what is committed, or to the end where nothing is")
	f.Int64Var(&t.offset, "to-offset", 0, "to an `offset`")
	f.Int64Var(&t.shift, "shift-by", 0, "on by this many records, or back if it is negative")
	f.StringVar(&t.datetime, "to-datetime", "", "to the first record at or after a `time`, such as 2024-05-01T12:30:00Z")
	f.StringVar(&t.duration, "by-duration", "", "to the first record not older than this, such as `2h`")
	f.StringVar(&t.file, "from-file", "", "to what a CSV `file` says: topic,partition,offset")
}

// chosen is the name of the flag that was given.
func (t *target) chosen() (string, error) {
	var given []string
	for _, name := range targetFlags {
		if t.cmd.Flags().Changed(name) {
			given = append(given, name)
		}
	}
	if len(given) != 1 {
		return "", cli.Usagef("where to? give one of --%s", strings.Join(targetFlags, ", --"))
	}
	return given[0], nil
}

// move is a step of the plan.
type move struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"committed"`
	To        int64  `json:"new"`
	Lag       int64  `json:"lag"`
	Note      string `json:"note,omitempty"`
}

// place is what is known of a partition when its new offset is worked out.
type place struct{ start, end, committed int64 }

// within keeps an offset in the log, and says so where that changed it.
func (p place) within(offset int64) (int64, string) {
	switch {
	case offset < p.start:
		return p.start, fmt.Sprintf("%d is before the beginning", offset)
	case offset > p.end:
		return p.end, fmt.Sprintf("%d is past the end", offset)
	}
	return offset, ""
}

func newResetOffsets() *cobra.Command {
	conn, sc, to := &cli.Conn{}, &scope{}, &target{}
	var execute, dryRun, asCSV bool
	cmd := &cobra.Command{
		Use: "reset-offsets GROUP", Short: "Put a group elsewhere: shows the plan, and does it with --execute",
		Long: "Put a group elsewhere in its topics. The group must have no members. Without --execute\n" +
			"the plan is shown and nothing is done. A group that does not exist is made.",
		Args: cli.OneName("group"), ValidArgsFunction: conn.Complete(cli.Groups, false),
		Example: "  posthouse group reset-offsets billing --topic orders --to-earliest\n" +
			"  posthouse group reset-offsets billing --all-topics --to-datetime 2024-05-01T12:30:00Z --execute\n" +
			"  posthouse group reset-offsets billing --topic orders:0,2 --shift-by -100 --execute\n" +
			"  posthouse group reset-offsets billing --all-topics --to-current --csv > offsets.csv",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, args []string) error {
			if execute && dryRun {
				return cli.Usagef("--dry-run or --execute, not both")
			}
			name, err := to.chosen()
			if err != nil {
				return err
			}
			moves, err := plan(ctx, s, args[0], name, sc, to)
			if err != nil {
				return err
			}
			if execute {
				err = commit(ctx, s, args[0], moves)
			}
			if err != nil {
				return err
			}
			if asCSV {
				return writeCSV(s.Out, moves)
			}
			return s.Print(moves, func(w io.Writer) error { return printMoves(w, moves, execute) })
		}),
	}
	conn.RegisterJSON(cmd)
	sc.register(cmd, conn)
	to.register(cmd)
	cmd.Flags().BoolVar(&execute, "execute", false, "do it")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be done; so it is without --execute")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print the plan as --from-file reads it")
	return cmd
}

// plan works out the new offsets. The group must have nobody who would commit
// over them.
func plan(ctx context.Context, s *cli.Session, name, flag string, sc *scope, to *target) ([]move, error) {
	all, err := s.Admin.ListGroups(ctx)
	if err != nil && len(all) == 0 {
		return nil, err
	}
	commits := kadm.OffsetResponses{}
	if listed, ok := all[name]; ok {
		g, err := describe(ctx, s, listed)
		if err != nil {
			return nil, fmt.Errorf("group %q: %w", name, err)
		}
		if len(g.Members) > 0 {
			return nil, fmt.Errorf("group %q is %s with %s: stop them first, posthouse group members %s shows who they are", name, g.State, cli.Count(len(g.Members), "member"), name)
		}
		if commits, err = s.Admin.FetchOffsets(ctx, name); err != nil {
			return nil, fmt.Errorf("group %q: %w", name, cli.Broken(err, ""))
		}
	}
	wanted, set := map[string]map[int32]int64(nil), kadm.TopicsSet(nil)
	if flag == "from-file" {
		if len(sc.topics) > 0 || sc.all {
			return nil, cli.Usagef("--from-file names the topics itself")
		}
		if wanted, set, err = readCSV(to.file); err != nil {
			return nil, err
		}
		if _, err := s.FindTopics(ctx, set.Topics()...); err != nil {
			return nil, err
		}
	} else if set, err = sc.partitions(ctx, s, commits); err != nil {
		return nil, err
	}
	starts, ends, err := edges(ctx, s, set.Topics()...)
	if err != nil {
		return nil, err
	}
	atTime, err := lookUp(ctx, s, flag, to, set)
	if err != nil {
		return nil, err
	}
	moves := []move{}
	for _, t := range set.Sorted() {
		for _, p := range t.Partitions {
			start, _ := starts.Lookup(t.Topic, p)
			end, known := ends.Lookup(t.Topic, p)
			if err := errors.Join(start.Err, end.Err); err != nil || !known {
				return nil, fmt.Errorf("topic %q partition %d: where it begins and ends is not known: %w", t.Topic, p, cli.Broken(err, ""))
			}
			at := place{start.Offset, end.Offset, -1}
			if c, ok := commits.Lookup(t.Topic, p); ok && c.Err == nil {
				at.committed = c.At
			}
			m := move{Topic: t.Topic, Partition: p, From: at.committed}
			if m.To, m.Note, err = newOffset(flag, to, at, atTime, wanted, t.Topic, p); err != nil {
				return nil, err
			}
			m.Lag = at.end - m.To
			moves = append(moves, m)
		}
	}
	return moves, nil
}

// lookUp finds the offsets of a time, if the target is one.
func lookUp(ctx context.Context, s *cli.Session, flag string, to *target, set kadm.TopicsSet) (kadm.ListedOffsets, error) {
	now := time.Now()
	var when time.Time
	switch flag {
	case "to-datetime":
		t, err := cli.ParseTime(to.datetime, now)
		if err != nil {
			return nil, err
		}
		when = t
	case "by-duration":
		d, err := cli.ParseDuration(to.duration)
		if err != nil {
			return nil, err
		}
		when = now.Add(-d)
	default:
		return nil, nil
	}
	return s.Admin.ListOffsetsAfterMilli(ctx, when.UnixMilli(), set.Topics()...)
}

// newOffset is where one partition goes.
func newOffset(flag string, to *target, at place, atTime kadm.ListedOffsets, wanted map[string]map[int32]int64, topic string, p int32) (offset int64, note string, err error) {
	switch flag {
	case "to-earliest":
		return at.start, "", nil
	case "to-latest":
		return at.end, "", nil
	case "to-current":
		if at.committed < 0 {
			return at.end, "nothing was committed", nil
		}
		offset, note = at.within(at.committed)
	case "to-offset":
		offset, note = at.within(to.offset)
	case "shift-by":
		if at.committed < 0 {
			return 0, "", fmt.Errorf("topic %q partition %d: nothing was committed that could be shifted", topic, p)
		}
		offset, note = at.within(at.committed + to.shift)
	case "from-file":
		offset, note = at.within(wanted[topic][p])
	default:
		o, ok := atTime.Lookup(topic, p)
		if !ok || o.Err != nil {
			return 0, "", fmt.Errorf("topic %q partition %d: its offset at that time is not known: %w", topic, p, cli.Broken(o.Err, ""))
		}
		offset, _ = at.within(o.Offset)
	}
	return offset, note, nil
}

func commit(ctx context.Context, s *cli.Session, name string, moves []move) error {
	var offsets kadm.Offsets
	for _, m := range moves {
		offsets.AddOffset(m.Topic, m.Partition, m.To, -1)
	}
	answers, err := s.Admin.CommitOffsets(ctx, name, offsets)
	if err != nil {
		return fmt.Errorf("group %q: %w", name, cli.Broken(err, ""))
	}
	var errs []error
	for _, a := range answers.Sorted() {
		if a.Err != nil {
			errs = append(errs, fmt.Errorf("group %q, topic %q partition %d: %w", name, a.Topic, a.Partition, cli.Broken(a.Err, "")))
		}
	}
	return errors.Join(errs...)
}

func printMoves(w io.Writer, moves []move, executed bool) error {
	table := cli.NewTable("TOPIC", ">PARTITION", ">COMMITTED", ">NEW", ">LAG THEN", "NOTE")
	for _, m := range moves {
		table.Row(m.Topic, m.Partition, known(m.From), m.To, m.Lag, m.Note)
	}
	if err := table.Write(w); err != nil || executed {
		return err
	}
	_, err := fmt.Fprintln(w, "nothing was done: --execute does it")
	return err
}

func writeCSV(w io.Writer, moves []move) error {
	out := csv.NewWriter(w)
	for _, m := range moves {
		if err := out.Write([]string{m.Topic, strconv.Itoa(int(m.Partition)), strconv.FormatInt(m.To, 10)}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// readCSV reads topic,partition,offset a line, as Kafka's own tool writes it.
func readCSV(file string) (map[string]map[int32]int64, kadm.TopicsSet, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, fmt.Errorf("--from-file: %w", err)
	}
	defer f.Close()
	in := csv.NewReader(f)
	in.FieldsPerRecord = 3
	in.TrimLeadingSpace = true
	wanted, set := map[string]map[int32]int64{}, kadm.TopicsSet{}
	for {
		row, err := in.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		line, _ := in.FieldPos(0)
		p, err := strconv.ParseInt(row[1], 10, 32)
		offset, offsetErr := strconv.ParseInt(row[2], 10, 64)
		if cmp.Or(err, offsetErr) != nil || p < 0 || offset < 0 || row[0] == "" {
			return nil, nil, fmt.Errorf("%s:%d: %q: want topic,partition,offset", file, line, strings.Join(row, ","))
		}
		if wanted[row[0]] == nil {
			wanted[row[0]] = map[int32]int64{}
		}
		wanted[row[0]][int32(p)] = offset
		set.Add(row[0], int32(p))
	}
	if len(set) == 0 {
		return nil, nil, fmt.Errorf("%s names no partition", file)
	}
	return wanted, set, nil
}

func newDeleteOffsets() *cobra.Command {
	conn, sc := &cli.Conn{}, &scope{}
	var yes bool
	cmd := &cobra.Command{
		Use: "delete-offsets GROUP", Short: "Forget what a group has committed of topics that it does not read",
		Args: cli.OneName("group"), ValidArgsFunction: conn.Complete(cli.Groups, false),
		Example: "  posthouse group delete-offsets billing --topic orders --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Confirm(cmd, yes, "delete offsets of group "+args[0]); err != nil {
				return err
			}
			return conn.Run(func(ctx context.Context, s *cli.Session, args []string) error {
				return deleteOffsets(ctx, s, args[0], sc)
			})(cmd, args)
		},
	}
	conn.Register(cmd)
	cli.AddYes(cmd, &yes)
	sc.register(cmd, conn)
	return cmd
}

func deleteOffsets(ctx context.Context, s *cli.Session, name string, sc *scope) error {
	all, err := s.Admin.ListGroups(ctx)
	if err != nil && len(all) == 0 {
		return err
	}
	if _, ok := all[name]; !ok {
		return unknown(name, all)
	}
	commits, err := s.Admin.FetchOffsets(ctx, name)
	if err != nil {
		return fmt.Errorf("group %q: %w", name, cli.Broken(err, ""))
	}
	set, err := sc.partitions(ctx, s, commits)
	if err != nil {
		return err
	}
	answers, err := s.Admin.DeleteOffsets(ctx, name, set)
	if err != nil {
		return fmt.Errorf("group %q: %w", name, cli.Broken(err, ""))
	}
	var errs []error
	deleted := 0
	for topic, byPartition := range answers {
		for p, err := range byPartition {
			if err != nil {
				errs = append(errs, fmt.Errorf("group %q, topic %q partition %d: %w", name, topic, p, cli.Broken(err, "")))
			} else {
				deleted++
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if deleted > 0 {
		fmt.Fprintf(s.Out, "deleted offsets of %s\n", cli.Count(deleted, "partition"))
	}
	return errors.Join(errs...)
}
