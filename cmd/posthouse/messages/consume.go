package messages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

const (
	// pollMax is how many records are printed before the output is flushed.
	pollMax = 10_000
	// pollWait is how long a poll waits before the end is looked for.
	pollWait = 500 * time.Millisecond
	// endPatience is how long nothing may come, short of the end, before the end
	// is taken to be reached: the last offsets can belong to records that
	// compaction has removed, which no fetch brings.
	endPatience = 3 * time.Second
	// commitTimeout bounds the commit at the end.
	commitTimeout = 10 * time.Second
)

type consumeFlags struct {
	conn      cli.Conn
	offset    string
	until     string
	count     int64
	follow    bool
	idle      time.Duration
	group     string
	protocol  string
	assignor  string
	regex     bool
	noCommit  bool
	format    string
	isolation string
	quiet     bool
	json      bool
}

// NewConsume makes posthouse consume.
func NewConsume() *cobra.Command {
	flags := &consumeFlags{}
	cmd := &cobra.Command{
		Use: "consume TOPIC...", Short: "Print records: of whole topics, of some partitions, or as a member of a group",
		Long: "Print records. Without a group it reads what is there, from the beginning to the end,\n" +
			"and ends; with --follow it goes on with what comes, until Ctrl-C. topic:0,2-5 names\n" +
			"partitions. With --group it is a member of a consumer group: it begins where the group\n" +
			"has committed (or at --offset where it has not), goes on until Ctrl-C, and commits what\n" +
			"it has printed.\n\n" +
			"--offset and --until are beginning, end, an offset, -N for the last N of each partition,\n" +
			"or @ and a time: a date, milliseconds since 1970, or how long ago (@2h).\n\n" +
			"--format prints records as this text says:\n" + formatHelp,
		Example: "  posthouse consume greetings\n" +
			"  posthouse consume orders:0,3 --offset -10 --follow\n" +
			"  posthouse consume orders --offset @1h --until @30m --json\n" +
			"  posthouse consume orders --group billing --protocol consumer\n" +
			"  posthouse consume orders --count 5 --format '%p:%o %k=%s\\n'",
		Args: cli.Names("topic"), ValidArgsFunction: flags.conn.Complete(cli.Topics, true),
		RunE: func(cmd *cobra.Command, args []string) error { return consume(cmd, flags, args) },
	}
	flags.conn.Register(cmd)
	f := cmd.Flags()
	f.StringVarP(&flags.offset, "offset", "o", "beginning", "where to begin")
	f.StringVar(&flags.until, "until", "end", "where to end, exclusive, without --follow and --group")
	f.Int64VarP(&flags.count, "count", "n", 0, "end after this many records; 0 is no limit")
	f.BoolVarP(&flags.follow, "follow", "F", false, "go on with what comes")
	f.DurationVar(&flags.idle, "idle", 0, "end when nothing has come for this long; 0 is never")
	f.StringVarP(&flags.group, "group", "g", "", "be a member of this consumer `group`")
	f.StringVar(&flags.protocol, "protocol", "classic", "of the group: classic, or consumer (KIP-848)")
	f.StringVar(&flags.assignor, "assignor", "", "range, roundrobin, sticky, cooperative-sticky; uniform or range with --protocol consumer")
	f.BoolVar(&flags.regex, "regex", false, "topics are regular expressions; with --group")
	f.BoolVar(&flags.noCommit, "no-commit", false, "commit nothing for the group")
	f.StringVarP(&flags.format, "format", "f", "%s\\n", "print each record so")
	f.BoolVar(&flags.json, "json", false, "print each record as a line of JSON")
	f.StringVar(&flags.isolation, "isolation", "read_committed", "read_committed, or read_uncommitted for records of aborted and open transactions too")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "no count at the end")
	flags.conn.CompleteFlag(cmd, "group", cli.Groups)
	cli.FlagWords(cmd, "protocol", "classic", "consumer")
	cli.FlagWords(cmd, "isolation", "read_committed", "read_uncommitted")
	cli.FlagWords(cmd, "offset", "beginning", "end")
	cli.FlagWords(cmd, "assignor", "range", "roundrobin", "sticky", "cooperative-sticky", "uniform")
	return cmd
}

// printer prints records.
type printer func(dst []byte, r *kgo.Record) ([]byte, error)

func (f *consumeFlags) printer() (printer, error) {
	if f.json {
		return func(dst []byte, r *kgo.Record) ([]byte, error) {
			text, err := formatLine(r)
			return append(dst, text...), err
		}, nil
	}
	layout, err := parseFormat(f.format)
	return func(dst []byte, r *kgo.Record) ([]byte, error) { return layout.append(dst, r), nil }, err
}

// check finds flags that do not go together.
func (f *consumeFlags) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch {
	case f.count < 0:
		return cli.Usagef("--count %d: want 0 or more", f.count)
	case f.idle < 0:
		return cli.Usagef("--idle %v: want 0 or more", f.idle)
	case f.json && changed("format"):
		return cli.Usagef("--json or --format, not both")
	case f.group == "" && (changed("protocol") || changed("assignor") || f.regex || f.noCommit):
		return cli.Usagef("--protocol, --assignor, --regex and --no-commit are for members of a --group")
	case f.group != "" && changed("until"):
		return cli.Usagef("a member of a group has no --until: --count and --idle end it")
	case f.follow && changed("until"):
		return cli.Usagef("--follow or --until, not both")
	case f.protocol != "classic" && f.protocol != "consumer":
		return cli.Usagef("--protocol %q: want classic or consumer", f.protocol)
	}
	return nil
}

func consume(cmd *cobra.Command, flags *consumeFlags, topics []string) error {
	if err := flags.check(cmd); err != nil {
		return err
	}
	print, err := flags.printer()
	if err != nil {
		return err
	}
	level, err := cli.Isolation(flags.isolation)
	if err != nil {
		return cli.Usagef("--isolation %q: %w", flags.isolation, err)
	}
	opts := []kgo.Opt{kgo.FetchMaxWait(pollWait), kgo.KeepControlRecords()}
	if properties, err := flags.conn.ReadProperties(); err != nil {
		return err
	} else if properties["isolation.level"] == "" || cmd.Flags().Changed("isolation") {
		opts = append(opts, kgo.FetchIsolationLevel(level))
	} else if level, err = cli.Isolation(properties["isolation.level"]); err != nil {
		return cli.Usagef("isolation.level: %w", err)
	}
	from, err := parsePlace("offset", flags.offset, time.Now())
	if err != nil {
		return err
	}
	to, err := parsePlace("until", flags.until, time.Now())
	if err != nil {
		return err
	}
	ctx, release := cli.UntilInterrupt(cmd.Context())
	defer release()
	c := &consuming{flags: flags, print: print, out: bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10), diagnostics: cmd.ErrOrStderr()}
	if flags.group != "" {
		return c.inGroup(ctx, cmd, topics, from, opts)
	}
	return c.directly(ctx, cmd, topics, from, to, level == kgo.ReadCommitted(), opts)
}

// consuming is one run of consume.
type consuming struct {
	flags       *consumeFlags
	print       printer
	out         *bufio.Writer
	diagnostics io.Writer
	buffer      []byte

	client  *kgo.Client
	printed int64
	ends    remaining // where to end; nil is nowhere
	mark    bool      // mark what was printed for the commit
	warned  string    // the last warning
}

// directly reads partitions without a group.
func (c *consuming) directly(ctx context.Context, cmd *cobra.Command, names []string, from, to place, committed bool, opts []kgo.Opt) error {
	conn := &c.flags.conn
	lookup, err := conn.Connect(ctx, cmd, cli.Anything)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, conn.Timeout)
	span, err := findSpan(bounded, lookup, names, from, to, committed)
	err = conn.Explain(bounded, err)
	cancel()
	lookup.Client.Close()
	if err != nil {
		return err
	}
	if !c.flags.follow {
		c.ends = span.ends()
		if c.ends.done() {
			return c.finish(nil)
		}
	}
	session, err := conn.Connect(ctx, cmd, cli.Consumer, append(opts, kgo.ConsumePartitions(span.starts(c.ends)))...)
	if err != nil {
		return err
	}
	defer session.Client.Close()
	c.client = session.Client
	return c.finish(conn.Explain(context.WithoutCancel(ctx), c.run(ctx)))
}

var classicBalancers = map[string]func() kgo.GroupBalancer{
	"range": kgo.RangeBalancer, "roundrobin": kgo.RoundRobinBalancer, "sticky": kgo.StickyBalancer, "cooperative-sticky": kgo.CooperativeStickyBalancer,
}

// serverBalancers stand for the server's own assignors.
var serverBalancers = map[string]func() kgo.GroupBalancer{"range": kgo.RangeBalancer, "uniform": kgo.StickyBalancer}

// balancer is the option for an assignor's name, nil for the client's default.
func balancer(protocol, name string) ([]kgo.Opt, error) {
	table, opts := classicBalancers, []kgo.Opt(nil)
	if protocol == "consumer" {
		table, opts = serverBalancers, []kgo.Opt{kgo.ServerSideBalancer()}
		if name == "" {
			name = "uniform"
		}
	}
	if name == "" {
		return nil, nil
	}
	make, ok := table[name]
	if !ok {
		return nil, cli.Usagef("--assignor %q: with --protocol %s want %s", name, protocol, strings.Join(cli.SortedNames(table), ", "))
	}
	return append(opts, kgo.Balancers(make())), nil
}

// inGroup reads as a member of a group.
func (c *consuming) inGroup(ctx context.Context, cmd *cobra.Command, topics []string, from place, opts []kgo.Opt) error {
	conn := &c.flags.conn
	reset, err := from.reset()
	if err != nil {
		return err
	}
	assign, err := balancer(c.flags.protocol, c.flags.assignor)
	if err != nil {
		return err
	}
	for _, t := range topics {
		if strings.Contains(t, ":") && !c.flags.regex {
			return cli.Usagef("%q: the group gives partitions to its members", t)
		}
	}
	opts = append(append(opts, assign...), kgo.ConsumerGroup(c.flags.group), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(reset))
	if c.flags.regex {
		opts = append(opts, kgo.ConsumeRegex())
	}
	if c.flags.noCommit {
		opts = append(opts, kgo.DisableAutoCommit())
	} else {
		opts = append(opts, kgo.AutoCommitMarks())
	}
	session, err := conn.Connect(ctx, cmd, cli.Consumer|cli.GroupMember, opts...)
	if err != nil {
		return err
	}
	defer session.Client.Close()
	c.client, c.mark = session.Client, !c.flags.noCommit
	if !c.flags.regex {
		bounded, cancel := context.WithTimeout(ctx, conn.Timeout)
		_, err := session.FindTopics(bounded, topics...)
		err = conn.Explain(bounded, err)
		cancel()
		if err != nil {
			return err
		}
	}
	err = c.run(ctx)
	if c.mark {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
		defer cancel()
		if commitErr := c.client.CommitMarkedOffsets(ending); commitErr != nil {
			err = errors.Join(err, fmt.Errorf("what was printed last is not committed: %w", cli.Broken(commitErr, "")))
		}
	}
	return c.finish(conn.Explain(context.WithoutCancel(ctx), err))
}

// errEnough ends a run that has all that it was to print.
var errEnough = errors.New("enough")

// run prints what comes until there is enough, or ctx ends.
func (c *consuming) run(ctx context.Context) error {
	last := time.Now()
	for {
		poll, cancel := context.WithTimeout(ctx, pollWait)
		fetches := c.client.PollRecords(poll, pollMax)
		cancel()
		if err := c.failure(ctx, fetches); err != nil {
			return errors.Join(err, c.out.Flush())
		}
		if !fetches.Empty() && fetches.NumRecords() > 0 {
			last = time.Now()
		}
		err := c.printAll(fetches)
		if flushErr := c.out.Flush(); err == nil && flushErr != nil {
			err = fmt.Errorf("printing: %w", flushErr)
		}
		quiet := time.Since(last)
		switch {
		case errors.Is(err, errEnough), err == nil && ctx.Err() != nil, c.flags.idle > 0 && quiet > c.flags.idle, c.ends != nil && quiet > endPatience:
			return nil
		case err != nil:
			return err
		}
	}
}

// failure is an error of a poll that trying again does not mend.
func (c *consuming) failure(ctx context.Context, fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		var loss *kgo.ErrDataLoss
		var session *kgo.ErrGroupSession
		switch {
		case errors.Is(e.Err, context.DeadlineExceeded), ctx.Err() != nil:
		case errors.As(e.Err, &loss):
			c.warn("records are gone that were to be read: " + loss.Error())
		case errors.As(e.Err, &session) && rejoins(session.Err):
			c.warn("the group's session was lost, joining again: " + cli.Broken(session.Err, "").Error())
		case session != nil:
			return fmt.Errorf("group %q: %w", c.flags.group, cli.Broken(session.Err, ""))
		case e.Topic == "":
			return e.Err
		default:
			return fmt.Errorf("topic %q partition %d: %w", e.Topic, e.Partition, cli.Broken(e.Err, ""))
		}
	}
	return nil
}

// rejoins says whether a client that joins again can come to be a member.
func rejoins(err error) bool {
	var code *kerr.Error
	var network net.Error
	if errors.As(err, &code) {
		return code.Retriable || slices.Contains(lostMembership, code)
	}
	return errors.As(err, &network) || errors.Is(err, io.EOF)
}

// lostMembership are the answers to one who is a member no longer.
var lostMembership = []*kerr.Error{
	kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.FencedMemberEpoch, kerr.StaleMemberEpoch, kerr.UnreleasedInstanceID,
}

// warn says something that is no failure, once in a row.
func (c *consuming) warn(text string) {
	if text != c.warned {
		fmt.Fprintln(c.diagnostics, "posthouse:", text)
		c.warned = text
	}
}

// printAll prints the records of a poll, in order, up to where it is to end.
func (c *consuming) printAll(fetches kgo.Fetches) error {
	for records := fetches.RecordIter(); !records.Done(); {
		r := records.Next()
		if c.ends.past(r) {
			if c.ends.done() {
				return errEnough
			}
			continue
		}
		if !r.Attrs.IsControl() {
			var err error
			if c.buffer, err = c.print(c.buffer[:0], r); err != nil {
				return err
			}
			if _, err := c.out.Write(c.buffer); err != nil {
				return fmt.Errorf("printing: %w", err)
			}
			c.printed++
		}
		if c.mark {
			c.client.MarkCommitRecords(r)
		}
		if c.ends.reached(r) || c.flags.count > 0 && c.printed >= c.flags.count {
			return errEnough
		}
	}
	return nil
}

// finish says how many records there were.
func (c *consuming) finish(err error) error {
	err = errors.Join(err, c.out.Flush())
	if !c.flags.quiet && cli.IsTerminal(c.diagnostics) {
		fmt.Fprintf(c.diagnostics, "%s\n", cli.Count(int(c.printed), "record"))
	}
	return err
}

// lookUp finds offsets by time, for places that are times.
func lookUp(ctx context.Context, s *cli.Session, p place, topics []string) (kadm.ListedOffsets, error) {
	if p.kind != atTime {
		return nil, nil
	}
	return s.Admin.ListOffsetsAfterMilli(ctx, p.n, topics...)
}
