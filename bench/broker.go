package bench

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Kind says which program a Broker is.
type Kind string

// The contenders.
const (
	Posthouse   Kind = "posthouse"
	ApacheKafka Kind = "kafka"
)

// BrokerConfig describes a broker to start. The zero Overrides are each
// program's defaults.
type BrokerConfig struct {
	Kind      Kind
	Binary    string // of Posthouse
	Dir       string // the log dir; made when missing, kept across starts
	Addr      string // host:port of the PLAINTEXT listener
	Overrides map[string]string
	LogPath   string // output of the process
	JavaHeap  string // of Kafka, "1G" when empty
}

// Broker is a broker's process and what is needed to start it again.
type Broker struct {
	Config  BrokerConfig
	Process *Process

	// Ready is the line that Posthouse printed, and ReadyAfter the time from
	// the fork to the first answer to a client (Kafka) or to that line.
	Ready      string
	ReadyAfter time.Duration
}

// FreeAddr returns a loopback address whose port was free a moment ago. It
// lies below the range from which the kernel gives ports to outgoing
// connections (from 32768): while a broker is down, a client that dials it
// again and again could be given its very port.
func FreeAddr() (string, error) {
	const first, beyond, tries = 10_000, 32_000, 100
	var err error
	for range tries {
		addr := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(beyond-first))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", fmt.Errorf("no free port in %d tries: %w", tries, err)
}

// StartBroker starts the broker and waits until clients are served or ctx ends.
func StartBroker(ctx context.Context, config BrokerConfig) (*Broker, error) {
	b := &Broker{Config: config}
	if err := os.MkdirAll(config.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := b.Start(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// Start starts the process again after it has ended, on the same directory and
// address.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.Launch(ctx); err != nil {
		return err
	}
	return b.WaitReady(ctx)
}

// Launch starts the process and does not wait until it serves.
func (b *Broker) Launch(ctx context.Context) error {
	spec := ProcessSpec{Name: string(b.Config.Kind), LogPath: b.Config.LogPath}
	switch b.Config.Kind {
	case Posthouse:
		spec.Path, spec.Args = b.Config.Binary, posthouseArgs(b.Config)
	case ApacheKafka:
		args, err := b.kafkaArgs(ctx)
		if err != nil {
			return err
		}
		if spec.Path, err = Java(); err != nil {
			return err
		}
		spec.Args = args
	default:
		return fmt.Errorf("unknown kind of broker %q", b.Config.Kind)
	}
	p, err := StartProcess(spec)
	if err != nil {
		return err
	}
	b.Process = p
	return nil
}

// WaitReady waits until the broker serves clients, and kills it otherwise.
func (b *Broker) WaitReady(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			b.Process.Kill()
		}
	}()
	if b.Config.Kind == Posthouse {
		if b.Ready, err = b.Process.WaitLine(ctx, "posthouse ready "); err != nil {
			return err
		}
	} else if err = WaitAnswer(ctx, b.Config.Addr, 20*time.Millisecond); err != nil {
		return fmt.Errorf("%w\n%s", err, b.Process.LogTail())
	}
	b.ReadyAfter = time.Since(b.Process.Started())
	return nil
}

// posthouseArgs is the command line of a node that shares nothing with another
// on the same machine.
func posthouseArgs(config BrokerConfig) []string {
	args := []string{"serve",
		"--override", "listeners=PLAINTEXT://" + config.Addr,
		"--override", "log.dirs=" + config.Dir,
		"--override", "http.listeners=",
	}
	for _, key := range slices.Sorted(maps.Keys(config.Overrides)) {
		args = append(args, "--override", key+"="+config.Overrides[key])
	}
	return args
}

// kafkaArgs writes Kafka's configuration, formats a new directory and returns
// the arguments of java.
func (b *Broker) kafkaArgs(ctx context.Context) ([]string, error) {
	config := filepath.Join(b.Config.Dir, "server.properties")
	if _, err := os.Stat(config); err != nil {
		controller, err := FreeAddr()
		if err != nil {
			return nil, err
		}
		text := kafkaProperties(b.Config.Dir, b.Config.Addr, controller, b.Config.Overrides)
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			return nil, err
		}
		if err := formatKafka(ctx, config); err != nil {
			return nil, err
		}
	}
	jars, err := KafkaJars(ctx)
	if err != nil {
		return nil, err
	}
	heap := b.Config.JavaHeap
	if heap == "" {
		heap = "1G"
	}
	// The flags of Kafka's own start script.
	return []string{"-server", "-Xms" + heap, "-Xmx" + heap, "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		"-XX:InitiatingHeapOccupancyPercent=35", "-cp", jars + "/*", "kafka.Kafka", config}, nil
}
