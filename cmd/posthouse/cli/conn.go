package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/posthouse/posthouse/engine/config"
)

const (
	defaultBootstrap = "127.0.0.1:9092"
	defaultPort      = "9092"
	defaultTimeout   = 10 * time.Second
)

// Conn is how a command reaches a cluster; its fields are flags.
type Conn struct {
	Bootstrap  []string
	ConfigFile string
	Properties []string // -X key=value
	Timeout    time.Duration
	JSON       bool

	dials dials
}

// Register adds the flags of every command that talks to a broker.
func (c *Conn) Register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVarP(&c.Bootstrap, "bootstrap", "b", []string{defaultBootstrap}, "addresses of the cluster, `host:port,…`")
	f.StringVar(&c.ConfigFile, "command-config", "", "properties `file` of a client, as the Java tools read it")
	f.StringArrayVarP(&c.Properties, "property", "X", nil, "a client's property over the file, `key=value`; may be repeated")
	f.DurationVar(&c.Timeout, "timeout", defaultTimeout, "how long to wait for an answer")
}

// RegisterJSON adds --json too.
func (c *Conn) RegisterJSON(cmd *cobra.Command) {
	c.Register(cmd)
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON for machines")
}

// Session is one connection of a command.
type Session struct {
	Conn   *Conn
	Client *kgo.Client
	Admin  *kadm.Client
	Out    io.Writer
	Err    io.Writer
}

// Print prints a result: as JSON if that was asked for, else as people read it.
func (s *Session) Print(value any, human func(w io.Writer) error) error {
	if s.Conn.JSON {
		return WriteJSON(s.Out, value)
	}
	return human(s.Out)
}

// Run makes a command's RunE of work that asks and answers within the timeout.
func (c *Conn) Run(work func(ctx context.Context, s *Session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, release := UntilInterrupt(cmd.Context())
		defer release()
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		s, err := c.Connect(ctx, cmd, Anything)
		if err != nil {
			return err
		}
		defer s.Client.Close()
		return c.Explain(ctx, work(ctx, s, args))
	}
}

// Connect makes the client and sees that a broker answers within the timeout.
func (c *Conn) Connect(ctx context.Context, cmd *cobra.Command, scopes Scope, opts ...kgo.Opt) (*Session, error) {
	client, err := c.newClient(cmd.Flags().Changed("bootstrap"), cmd.ErrOrStderr(), scopes, opts...)
	if err != nil {
		return nil, err
	}
	ping, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := client.Ping(ping); err != nil {
		client.Close()
		if ctx.Err() == nil && ping.Err() != nil {
			err = context.DeadlineExceeded
		}
		return nil, c.explainDial(ping, err)
	}
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(int32(min(c.Timeout, time.Hour).Milliseconds()))
	return &Session{Conn: c, Client: client, Admin: admin, Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}, nil
}

func (c *Conn) newClient(bootstrapSet bool, warn io.Writer, scopes Scope, opts ...kgo.Opt) (*kgo.Client, error) {
	if c.Timeout <= 0 {
		return nil, Usagef("--timeout %v: want more than 0", c.Timeout)
	}
	properties, err := c.ReadProperties()
	if err != nil {
		return nil, err
	}
	if servers := properties["bootstrap.servers"]; servers != "" && !bootstrapSet {
		c.Bootstrap = strings.Split(servers, ",")
	}
	seeds, err := parseSeeds(c.Bootstrap)
	if err != nil {
		return nil, err
	}
	c.Bootstrap = seeds
	fromProperties, security, unknown, err := clientOptions(properties, scopes)
	if err != nil {
		return nil, err
	}
	for _, key := range unknown {
		fmt.Fprintf(warn, "posthouse: the property %s has no effect here\n", key)
	}
	c.dials.reset(seeds)
	all := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.ClientID("posthouse-cli"),
		kgo.Dialer(c.dials.dialer(security, c.Timeout)),
		kgo.RequestTimeoutOverhead(c.Timeout),
		kgo.RetryTimeout(c.Timeout),
		kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(250 * time.Millisecond),
	}
	client, err := kgo.NewClient(append(append(all, fromProperties...), opts...)...)
	if err != nil {
		return nil, &UsageError{err}
	}
	return client, nil
}

// ReadProperties gives those of the file with those of -X over them.
func (c *Conn) ReadProperties() (map[string]string, error) {
	properties := map[string]string{}
	if c.ConfigFile != "" {
		in, err := os.Open(c.ConfigFile)
		if err != nil {
			return nil, fmt.Errorf("--command-config: %w", err)
		}
		defer in.Close()
		if properties, err = config.ParseProperties(in, c.ConfigFile); err != nil {
			return nil, fmt.Errorf("--command-config: %w", err)
		}
	}
	for _, p := range c.Properties {
		key, value, ok := strings.Cut(p, "=")
		if !ok || key == "" {
			return nil, Usagef("-X %q: want key=value", p)
		}
		properties[key] = value
	}
	return properties, nil
}

// parseSeeds checks addresses and gives those without a port Kafka's.
func parseSeeds(addresses []string) ([]string, error) {
	var seeds []string
	for _, a := range addresses {
		a = strings.TrimSpace(a)
		if a == "" {
			continue
		}
		if _, rest, ok := strings.Cut(a, "://"); ok {
			a = rest // PLAINTEXT://host:port, as the ready line has it
		}
		host, port, err := net.SplitHostPort(a)
		if err != nil {
			host, port = strings.Trim(a, "[]"), defaultPort
			if strings.ContainsAny(host, "[]/ ") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
				return nil, Usagef("--bootstrap %q: want host:port", a)
			}
		}
		if _, err := net.LookupPort("tcp", port); err != nil || host == "" || port == "0" {
			return nil, Usagef("--bootstrap %q: want host:port", a)
		}
		seeds = append(seeds, net.JoinHostPort(host, port))
	}
	if len(seeds) == 0 {
		return nil, Usagef("--bootstrap names no address")
	}
	return seeds, nil
}

// dials remembers how connecting to each address went, for the error's text.
type dials struct {
	mu     sync.Mutex
	seeds  []string
	failed map[string]error
	worked map[string]bool
}

func (d *dials) reset(seeds []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seeds, d.failed, d.worked = seeds, map[string]error{}, map[string]bool{}
}

// dialer connects with TLS if security says so.
func (d *dials) dialer(security *tls.Config, timeout time.Duration) func(context.Context, string, string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout}
	dial := plain.DialContext
	if security != nil {
		dial = (&tls.Dialer{NetDialer: plain, Config: security}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		d.mu.Lock()
		defer d.mu.Unlock()
		if err != nil {
			if ctx.Err() == nil || d.failed[address] == nil {
				d.failed[address] = err
			}
			return nil, err
		}
		d.worked[address] = true
		delete(d.failed, address)
		return conn, nil
	}
}

// advertised is an address that a broker told of and that cannot be reached.
func (d *dials) advertised() (address string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range slices.Sorted(func(yield func(string) bool) {
		for a := range d.failed {
			if !yield(a) {
				return
			}
		}
	}) {
		if !slices.Contains(d.seeds, a) {
			return a, d.failed[a]
		}
	}
	return "", nil
}

func (d *dials) reached() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.worked) > 0
}

// lastFailure is the latest error of a seed.
func (d *dials) lastFailure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.seeds {
		if err := d.failed[s]; err != nil {
			return err
		}
	}
	return nil
}

// explainDial says why no broker answered.
func (c *Conn) explainDial(ctx context.Context, err error) error {
	at := strings.Join(c.Bootstrap, ", ")
	if errors.Is(ctx.Err(), context.Canceled) {
		return errInterrupted
	}
	if !c.dials.reached() {
		if failure := c.dials.lastFailure(); failure != nil {
			err = failure
		}
		return fmt.Errorf("no broker can be reached at %s: %w: is it running, and is --bootstrap right?", at, rootCause(err))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s accepts connections but did not answer within %v: is a Kafka-compatible broker listening there, without TLS where none was asked for?", at, c.Timeout)
	}
	return fmt.Errorf("%s does not answer as a Kafka-compatible broker does: %w", at, err)
}

// rootCause leaves out what the text says anyway.
func rootCause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

var errInterrupted = errors.New("interrupted")

// Explain adds to an error what the addresses have to do with it.
func (c *Conn) Explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var dialing *net.OpError
	timedOut := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kgo.ErrRecordTimeout)
	if timedOut || errors.As(err, &dialing) && dialing.Op == "dial" {
		if address, failure := c.dials.advertised(); failure != nil {
			return fmt.Errorf("%s answers, but tells clients to go to %s, which cannot be reached: %w: see advertised.listeners of that broker",
				strings.Join(c.Bootstrap, ", "), address, rootCause(failure))
		}
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled) && errors.Is(err, context.Canceled):
		return errInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from %s within %v (--timeout): %w", strings.Join(c.Bootstrap, ", "), c.Timeout, err)
	}
	return err
}

// Broken is an answer's error with its message: the code's name for machines
// and those who search for it, the broker's own words where it has some.
func Broken(err error, message string) error {
	if err == nil {
		return nil
	}
	var code *kerr.Error
	if errors.As(err, &code) && message != "" && message != code.Description {
		return &answered{code, fmt.Sprintf("%s (%s)", strings.TrimSuffix(message, "."), code.Message)}
	}
	if code != nil {
		return &answered{code, fmt.Sprintf("%s (%s)", strings.TrimSuffix(code.Description, "."), code.Message)}
	}
	return err
}

type answered struct {
	code *kerr.Error
	text string
}

func (a *answered) Error() string { return a.text }
func (a *answered) Unwrap() error { return a.code }
