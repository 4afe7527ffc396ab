package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/posthouse/posthouse/results"
)

// Contender is one that is measured: a process of ours on loopback with data of
// its own, or an address that somebody else runs.
type Contender struct {
	Spec string // what was asked for
	Info results.Contender
	// Address is host:port once it is started.
	Address string
	// Ready is the time from the fork to the first answer to a client.
	Ready time.Duration

	kind    contenderKind
	binary  string // of Posthouse or the limit
	engine  string // of Posthouse
	args    []string
	dir     string // where its data lies
	process *Process
	// loaded are the topics that reads are made of, filled once.
	loaded map[string]bool
	// warmed are the workloads that it has run unmeasured.
	warmed map[string]bool
}

type contenderKind int

const (
	kindPosthouse contenderKind = iota
	kindKafka
	kindLimit
	kindExternal
)

// What the contenders check of a producer's batch, for the report.
const (
	validatesAll  = "CRC, batch header, framing of every record"
	validatesCRC  = "CRC, batch header"
	validatesNone = "batch header"
)

// ContenderHelp says what a contender may be called.
const ContenderHelp = "io_uring, epoll (Posthouse with that engine; =BINARY takes another build), kafka, limit, limit-sync, null, external:HOST:PORT"

// ParseContenders reads names; none are started. binary is Posthouse's.
func ParseContenders(specs []string, binary string) ([]*Contender, error) {
	var all []*Contender
	for _, spec := range specs {
		c, err := parseContender(spec, binary)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(o *Contender) bool { return o.Info.Name == c.Info.Name }) {
			return nil, fmt.Errorf("contender %s is there twice", spec)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("no contender")
	}
	return all, nil
}

func parseContender(spec, binary string) (*Contender, error) {
	c := &Contender{Spec: spec, loaded: map[string]bool{}, warmed: map[string]bool{}}
	name, value, hasValue := strings.Cut(spec, "=")
	address, external := strings.CutPrefix(spec, "external:")
	c.Info.Durability = "page cache"
	switch {
	case external:
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("contender %s: %w", spec, err)
		}
		c.kind, c.Address = kindExternal, address
		c.Info = results.Contender{Name: spec, Role: results.RoleExternal, Address: address}
	case name == "io_uring" || name == "epoll":
		c.kind, c.engine, c.binary = kindPosthouse, name, binary
		c.Info.Name, c.Info.Role, c.Info.Validation = "posthouse "+name, results.RoleSubject, validatesAll
		if hasValue {
			c.binary = value
			c.Info.Name += " " + filepath.Base(value)
		}
	case hasValue:
		return nil, fmt.Errorf("contender %q: only io_uring and epoll take another binary", spec)
	case name == "kafka":
		c.kind = kindKafka
		c.Info.Name, c.Info.Role, c.Info.Validation, c.Info.Version = "kafka "+KafkaVersion, results.RolePeer, validatesAll, KafkaVersion
	case name == "limit":
		c.kind = kindLimit
		c.Info.Name, c.Info.Role, c.Info.Validation = name, results.RoleLimit, validatesCRC
	case name == "limit-sync":
		c.kind, c.args = kindLimit, []string{"--sync"}
		c.Info.Name, c.Info.Role, c.Info.Validation, c.Info.Durability = name, results.RoleLimit, validatesCRC, "fdatasync"
	case name == "null":
		c.kind, c.args = kindLimit, []string{"--null"}
		c.Info.Name, c.Info.Role, c.Info.Validation, c.Info.Durability = name, results.RoleNull, validatesNone, "nothing is kept"
	default:
		return nil, fmt.Errorf("contender %q: want one of %s", spec, ContenderHelp)
	}
	return c, nil
}

// PID is its process, 0 where that is not ours.
func (c *Contender) PID() int {
	if c.process == nil {
		return 0
	}
	return c.process.PID()
}

// startPatience is how long a contender may take to serve, and Kafka's jars to
// be fetched.
const startPatience = 10 * time.Minute

// Start starts it with a fresh directory below work.
func (c *Contender) Start(ctx context.Context, work string) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if c.kind == kindExternal {
		if err := WaitAnswer(ctx, c.Address, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%s: %w", c.Spec, err)
		}
		return nil
	}
	name := strings.ReplaceAll(c.Info.Name, " ", "-")
	if err := c.launch(ctx, filepath.Join(work, name)); err != nil {
		return fmt.Errorf("start %s: %w", c.Info.Name, err)
	}
	c.Info.Address, c.Info.Command = c.Address, c.process.command()
	return nil
}

// launch starts a process with its data in dir and waits until it serves.
func (c *Contender) launch(ctx context.Context, dir string) (err error) {
	if c.Address, err = FreeAddr(); err != nil {
		return err
	}
	c.dir = dir
	if c.kind == kindLimit {
		return c.launchLimit(ctx)
	}
	config := BrokerConfig{Kind: ApacheKafka, Dir: dir, Addr: c.Address, LogPath: dir + ".log"}
	if c.kind == kindPosthouse {
		config.Kind, config.Binary = Posthouse, c.binary
		config.Overrides = map[string]string{"netio.engine": c.engine}
	} else {
		// Stopped by SIGSTOP for longer than its session, its own controller
		// would fence it.
		config.Overrides = map[string]string{"broker.session.timeout.ms": "3600000"}
	}
	c.Info.Config = nil
	for key, value := range config.Overrides {
		c.Info.Config = append(c.Info.Config, key+"="+value)
	}
	broker, err := StartBroker(ctx, config)
	if err != nil {
		return err
	}
	c.process, c.Ready = broker.Process, broker.ReadyAfter
	if c.kind == kindPosthouse && !strings.Contains(broker.Ready+" ", "engine="+c.engine+" ") {
		return errors.Join(fmt.Errorf("it does not run with %s: %s", c.engine, broker.Ready), c.Stop())
	}
	return nil
}

func (c *Contender) launchLimit(ctx context.Context) error {
	binary := c.binary
	if binary == "" {
		var err error
		if binary, err = LimitBinary(ctx); err != nil {
			return err
		}
	}
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return err
	}
	args := append([]string{"--dir", c.dir, "--host", host, "--port", port}, c.args...)
	if c.process, err = StartProcess(ProcessSpec{Name: c.Info.Name, Path: binary, Args: args, LogPath: c.dir + ".log"}); err != nil {
		return err
	}
	if _, err = c.process.WaitLine(ctx, "limit ready "); err != nil {
		return errors.Join(err, c.Stop())
	}
	c.Ready = time.Since(c.process.Started())
	return nil
}

// Stop ends the process, if it is ours.
func (c *Contender) Stop() error {
	if c.process == nil {
		return nil
	}
	// A stopped process does not see SIGTERM.
	if err := c.resume(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := c.process.Stop(ctx)
	return err
}

func (c *Contender) pause() error {
	if c.process == nil {
		return nil
	}
	return ignoreEnded(c.process.Pause())
}

func (c *Contender) resume() error {
	if c.process == nil {
		return nil
	}
	return ignoreEnded(c.process.Resume())
}

// ignoreEnded leaves a process that is gone to whoever uses it next.
func ignoreEnded(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// alive is an error if its process has ended.
func (c *Contender) alive() error {
	if c.process == nil {
		return nil
	}
	select {
	case <-c.process.Exited():
		return fmt.Errorf("%s ended (%v)\n%s", c.Info.Name, c.process.waitErr, c.process.LogTail())
	default:
		return nil
	}
}

// command is how the process was started.
func (p *Process) command() []string { return append([]string{p.spec.Path}, p.spec.Args...) }

// dropCache has the kernel forget the cached pages of its data.
func (c *Contender) dropCache() error {
	if c.dir == "" {
		return fmt.Errorf("the data of %s is not ours to drop from the cache", c.Info.Name)
	}
	return filepath.WalkDir(c.dir, func(name string, entry os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) || err == nil && filepath.Ext(name) != ".log" {
			return nil
		}
		if err != nil {
			return err
		}
		return dropFile(name)
	})
}
