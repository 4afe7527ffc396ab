// Package messages has the commands posthouse produce and posthouse consume.
package messages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

const (
	// flushTimeout bounds how long the end of an interrupted produce waits.
	flushTimeout = 10 * time.Second
	// stallFactor times the timeout of a request is how long nothing may be
	// acknowledged: requests are tried again meanwhile.
	stallFactor = 3
)

type produceFlags struct {
	conn         cli.Conn
	keySeparator string
	delimiter    string
	null         string
	headers      []string
	partition    int32
	partitioner  string
	compression  string
	acks         string
	linger       time.Duration
	maxBytes     int32
	json         bool
	whole        bool
	create       bool
	quiet        bool
}

// NewProduce makes posthouse produce.
func NewProduce() *cobra.Command {
	flags := &produceFlags{}
	cmd := &cobra.Command{
		Use: "produce TOPIC [FILE...]", Short: "Write records: a line of the input each, or JSON, or whole files",
		Long: "Write records into a topic: one for each line of the files or of standard input.\n\n" +
			"With --key-separator what stands before it is the key. With --json each line is an\n" +
			"object as consume --json prints it: key, value, headers, partition, timestamp; other\n" +
			"fields that consume prints are passed over. Records with equal keys go to one\n" +
			"partition, the same one as with Java's producer, unless a partition or another\n" +
			"partitioner is chosen. It ends when all is acknowledged.",
		Example: "  echo hello | posthouse produce greetings --create\n" +
			"  posthouse produce orders orders.csv --key-separator , --compression zstd\n" +
			"  posthouse produce orders --json < records.jsonl\n" +
			"  posthouse produce images photo.jpg --whole -H type=image/jpeg -p 3",
		Args: cli.Names("topic"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return flags.conn.Complete(cli.Topics, false)(cmd, args, word)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return produce(cmd, flags, args[0], args[1:]) },
	}
	flags.conn.Register(cmd)
	f := cmd.Flags()
	f.StringVarP(&flags.keySeparator, "key-separator", "K", "", "what stands between key and value, such as : or \\t")
	f.StringVarP(&flags.delimiter, "delimiter", "D", "\\n", "what stands between records")
	f.StringVarP(&flags.null, "null", "N", "", "a key or value that is `this` becomes null")
	f.StringArrayVarP(&flags.headers, "header", "H", nil, "a header for every record, `key=value`; may be repeated")
	f.Int32VarP(&flags.partition, "partition", "p", noPartition, "write into this partition")
	f.StringVar(&flags.partitioner, "partitioner", defaultPartitioner, "key-hash: by key, without a key batch by batch; round-robin: in turn; sticky: batch by batch")
	f.StringVarP(&flags.compression, "compression", "z", "none", strings.Join(cli.Codecs, ", "))
	f.StringVar(&flags.acks, "acks", "all", "wait for all in-sync replicas, for the leader (1), or for nobody (0)")
	f.DurationVar(&flags.linger, "linger", 5*time.Millisecond, "how long a batch waits for more records")
	f.Int32Var(&flags.maxBytes, "max-bytes", 1_000_000, "largest batch, and with it the largest record")
	f.BoolVar(&flags.json, "json", false, "each line is a record as JSON")
	f.BoolVar(&flags.whole, "whole", false, "each file is one record")
	f.BoolVar(&flags.create, "create", false, "create the topic if there is none, as the broker's defaults say")
	f.BoolVarP(&flags.quiet, "quiet", "q", false, "no progress and no count at the end")
	cli.FlagWords(cmd, "partitioner", cli.SortedNames(partitioners)...)
	cli.FlagWords(cmd, "compression", cli.Codecs...)
	cli.FlagWords(cmd, "acks", "all", "1", "0")
	return cmd
}

// input is what the flags say of the input.
func (f *produceFlags) input(cmd *cobra.Command) (*input, error) {
	in := &input{json: f.json, whole: f.whole, partition: f.partition, null: f.null, hasNull: cmd.Flags().Changed("null")}
	var err error
	if in.keySeparator, err = unescapeAll("key-separator", f.keySeparator); err != nil {
		return nil, err
	}
	if in.delimiter, err = unescapeAll("delimiter", f.delimiter); err != nil {
		return nil, err
	}
	switch {
	case in.delimiter == "":
		return nil, cli.Usagef("--delimiter is empty; --whole makes each file one record")
	case f.json && (f.whole || f.keySeparator != "" || in.hasNull):
		return nil, cli.Usagef("--json has keys and nulls of its own: it goes without --whole, --key-separator and --null")
	case f.partition < noPartition:
		return nil, cli.Usagef("--partition %d: want 0 or more", f.partition)
	}
	for _, h := range f.headers {
		key, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, cli.Usagef("--header %q: want key=value", h)
		}
		in.headers = append(in.headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	return in, nil
}

// options are what the flags say of the client. A flag that was not given
// leaves the word to the properties.
func (f *produceFlags) options(cmd *cobra.Command) ([]kgo.Opt, error) {
	partitioner, err := parsePartitioner(f.partitioner)
	if err != nil {
		return nil, err
	}
	if f.maxBytes <= 0 {
		return nil, cli.Usagef("--max-bytes %d: want more than 0", f.maxBytes)
	}
	properties, err := f.conn.ReadProperties()
	if err != nil {
		return nil, err
	}
	given := func(flag, property string) bool {
		return cmd.Flags().Changed(flag) || properties[property] == ""
	}
	opts := []kgo.Opt{kgo.RecordPartitioner(partitioner), kgo.UnknownTopicRetries(3), kgo.MaxBufferedBytes(32 << 20)}
	if f.create {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	if given("compression", "compression.type") {
		codec, err := cli.Codec(f.compression)
		if err != nil {
			return nil, cli.Usagef("--compression %q: %w", f.compression, err)
		}
		opts = append(opts, kgo.ProducerBatchCompression(codec))
	}
	if given("acks", "acks") {
		acks, err := cli.Acks(f.acks)
		if err != nil {
			return nil, cli.Usagef("--acks %q: %w", f.acks, err)
		}
		opts = append(opts, kgo.RequiredAcks(acks))
		if acks != kgo.AllISRAcks() {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
	}
	if given("linger", "linger.ms") {
		opts = append(opts, kgo.ProducerLinger(f.linger))
	}
	if given("max-bytes", "batch.size") {
		opts = append(opts, kgo.ProducerBatchMaxBytes(f.maxBytes), kgo.BrokerMaxWriteBytes(max(100<<20, f.maxBytes+f.maxBytes/2)))
	}
	return opts, nil
}

// sending is one run of produce.
type sending struct {
	client *kgo.Client
	topic  string
	count  int32 // partitions of the topic; 0 is not known

	read   atomic.Int64 // bytes of the input
	queued atomic.Int64
	stalls time.Duration // how long nothing may be acknowledged
	acked  atomic.Int64
	failed atomic.Pointer[failure]
	stop   context.CancelFunc
}

// failure is the first record that was refused.
type failure struct {
	where string
	err   error
}

func produce(cmd *cobra.Command, flags *produceFlags, topic string, files []string) error {
	in, err := flags.input(cmd)
	if err != nil {
		return err
	}
	opts, err := flags.options(cmd)
	if err != nil {
		return err
	}
	sources, err := openSources(files, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer closeSources(sources)
	ctx, release := cli.UntilInterrupt(cmd.Context())
	defer release()
	session, err := flags.conn.Connect(ctx, cmd, cli.Producer, opts...)
	if err != nil {
		return err
	}
	defer session.Client.Close()
	s := &sending{client: session.Client, topic: topic, stalls: stallFactor * flags.conn.Timeout}
	if err := s.findTopic(ctx, session, flags); err != nil {
		return flags.conn.Explain(ctx, err)
	}
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()
	go s.watch(ctx)
	bar := newBar(cmd.ErrOrStderr(), flags.quiet, s, sources)
	readErr := s.readAll(ctx, in, sources)
	err = s.finish(ctx, readErr)
	bar.end()
	if !flags.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s acknowledged\n", cli.Count(int(s.acked.Load()), "record"))
	}
	return flags.conn.Explain(cmd.Context(), err)
}

// findTopic wants the topic and the partition to be there before anything of
// the input is read, unless the topic may be created.
func (s *sending) findTopic(ctx context.Context, session *cli.Session, flags *produceFlags) error {
	ctx, cancel := context.WithTimeout(ctx, flags.conn.Timeout)
	defer cancel()
	found, err := session.FindTopics(ctx, s.topic)
	if err != nil {
		if cli.IsUnknownTopic(err) {
			if flags.create {
				return nil
			}
			return fmt.Errorf("%w; --create makes it", err)
		}
		return err
	}
	s.count = int32(len(found[0].Partitions))
	if flags.partition >= s.count {
		return fmt.Errorf("topic %q has no partition %d: it has %s, from 0", s.topic, flags.partition, cli.Count(int(s.count), "partition"))
	}
	return nil
}

// errStopped ends the reading of the input early.
var errStopped = errors.New("stopped")

// readAll queues the records of all sources. It returns when they are read,
// even if one that blocks is still at it, when ctx ends.
func (s *sending) readAll(ctx context.Context, in *input, sources []source) error {
	done := make(chan error, 1)
	go func() {
		for _, src := range sources {
			err := in.each(src, &s.read, func(r *kgo.Record, where string) bool { return s.send(ctx, r, where) })
			if err != nil || ctx.Err() != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errStopped
	}
}

// send queues a record; it waits while too many are in flight.
func (s *sending) send(ctx context.Context, r *kgo.Record, where string) bool {
	if ctx.Err() != nil {
		return false
	}
	r.Topic = s.topic
	if s.count > 0 && r.Partition >= s.count {
		s.fail(where, fmt.Errorf("topic %q has no partition %d: it has %s, from 0", s.topic, r.Partition, cli.Count(int(s.count), "partition")))
		return false
	}
	s.queued.Add(1)
	s.client.Produce(context.WithoutCancel(ctx), r, func(_ *kgo.Record, err error) {
		if err != nil {
			s.fail(where, cli.Broken(err, ""))
			return
		}
		s.acked.Add(1)
	})
	return true
}

// watch gives up when nothing has been acknowledged for long. The client's own
// limit counts from a record's timestamp, which may be of any time.
func (s *sending) watch(ctx context.Context) {
	ticker := time.NewTicker(max(s.stalls/20, time.Millisecond))
	defer ticker.Stop()
	acked, since := int64(-1), time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if n := s.acked.Load(); n != acked || n == s.queued.Load() {
			acked, since = n, time.Now()
		} else if time.Since(since) > s.stalls {
			s.fail("", fmt.Errorf("nothing was acknowledged for %v: %w", s.stalls, context.DeadlineExceeded))
			return
		}
	}
}

func (s *sending) fail(where string, err error) {
	if s.failed.CompareAndSwap(nil, &failure{where, err}) {
		s.stop()
	}
}

// finish waits for the acknowledgements and says how it ended.
func (s *sending) finish(ctx context.Context, readErr error) error {
	flush := context.WithoutCancel(ctx)
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		flush, cancel = context.WithTimeout(flush, flushTimeout)
		defer cancel()
	}
	flushErr := s.flush(flush)
	if f := s.failed.Load(); f != nil {
		if f.where == "" {
			return fmt.Errorf("%w: %d of %d records sent are acknowledged", f.err, s.acked.Load(), s.queued.Load())
		}
		return fmt.Errorf("%s: %w: %d of %d records sent are acknowledged", f.where, f.err, s.acked.Load(), s.queued.Load())
	}
	if readErr != nil && !errors.Is(readErr, errStopped) {
		return readErr
	}
	if flushErr != nil {
		return fmt.Errorf("%d of %d records sent are acknowledged: %w", s.acked.Load(), s.queued.Load(), flushErr)
	}
	if errors.Is(readErr, errStopped) {
		return errors.New("interrupted: the rest of the input was not read")
	}
	return nil
}

// flush waits until all is acknowledged or something has failed.
func (s *sending) flush(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.client.Flush(ctx) }()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			if f := s.failed.Load(); f != nil && f.where == "" {
				return f.err
			}
		}
	}
}

// bar shows on a terminal how far a long input is.
type bar struct {
	w    io.Writer
	stop chan struct{}
	done chan struct{}
}

const (
	barAfter    = time.Second
	barInterval = 250 * time.Millisecond
	barWidth    = 30
)

func newBar(w io.Writer, quiet bool, s *sending, sources []source) *bar {
	b := &bar{w: w, stop: make(chan struct{}), done: make(chan struct{})}
	if quiet || !cli.IsTerminal(w) {
		close(b.done)
		return b
	}
	total := int64(0)
	for _, src := range sources {
		if src.size < 0 {
			total = -1
			break
		}
		total += src.size
	}
	go func() {
		defer close(b.done)
		begun := time.Now()
		select {
		case <-time.After(barAfter):
		case <-b.stop:
			return
		}
		ticker := time.NewTicker(barInterval)
		defer ticker.Stop()
		for {
			fmt.Fprintf(w, "\r\x1b[K%s", barLine(s.read.Load(), total, s.acked.Load(), time.Since(begun)))
			select {
			case <-ticker.C:
			case <-b.stop:
				fmt.Fprint(w, "\r\x1b[K")
				return
			}
		}
	}()
	return b
}

// barLine is one look of the bar; total is -1 where it is not known.
func barLine(read, total, acked int64, took time.Duration) string {
	rate := fmt.Sprintf("%d records, %.0f/s", acked, float64(acked)/max(took.Seconds(), 1e-3))
	if total <= 0 {
		return fmt.Sprintf("%s, %s", cli.Bytes(read), rate)
	}
	share := min(1, float64(read)/float64(total))
	full := int(share * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f %% of %s, %s", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), 100*share, cli.Bytes(total), rate)
}

// end takes the bar away.
func (b *bar) end() {
	close(b.stop)
	<-b.done
}
