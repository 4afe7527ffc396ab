// Command speedcheck compares Posthouse with Apache Kafka 4.4 on this machine,
// in one run, and prints what each costs:
//
//	go run ./bench/speedcheck [-bin bin/posthouse] [-rounds 5] [-lines batch,ping]
//
// Both are started here with the same topic settings and no fsync, warmed up,
// and measured in interleaved rounds; the one not measured is stopped by
// SIGSTOP. Before each round the machine has no free memory left and no dirty
// pages, and all sockets use the same congestion control. It needs root for
// that (-prepare=false does without, and says so in what it prints).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/posthouse/posthouse/bench"
)

type options struct {
	bin     string
	engines string
	lines   string
	rounds  int
	seconds float64
	dir     string
	prepare bool
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin/posthouse", "the Posthouse binary")
	flag.StringVar(&o.engines, "engines", "io_uring", "engines of Posthouse, each a contender (comma separated); empty measures Kafka alone")
	flag.StringVar(&o.lines, "lines", "", "only these lines (comma separated), all otherwise")
	flag.IntVar(&o.rounds, "rounds", 5, "measured rounds of each line")
	flag.Float64Var(&o.seconds, "seconds", 3, "length of a round")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where the brokers' data goes")
	flag.BoolVar(&o.prepare, "prepare", true, "use up free memory and set the congestion control before measuring")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "speedcheck:", err)
		os.Exit(1)
	}
}

// contender is a broker and what its rounds gave, by line.
type contender struct {
	name   string
	broker *bench.Broker
	read   []bench.Written // what the read line reads
}

func run(ctx context.Context, o options) (err error) {
	lines, err := chosenLines(o.lines)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.dir, "speedcheck-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var machine *bench.Machine
	if o.prepare {
		if machine, err = bench.PrepareMachine(work); err != nil {
			return fmt.Errorf("prepare the machine (-prepare=false does without): %w", err)
		}
		defer func() { err = errors.Join(err, machine.Close()) }()
	}
	contenders, err := startAll(ctx, o, work)
	defer func() { err = errors.Join(err, stopAll(contenders)) }()
	if err != nil {
		return err
	}
	printEnvironment(o, contenders)
	c := &check{options: o, machine: machine, contenders: contenders}
	if err := c.warmUp(ctx, lines); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	for _, l := range lines {
		if err := c.measure(ctx, l); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	if c.machine != nil {
		fmt.Printf("memory free before a round, MiB: %s\n", c.free)
	}
	return nil
}

// startAll starts Posthouse, once per engine, and Kafka.
func startAll(ctx context.Context, o options, work string) ([]*contender, error) {
	var all []*contender
	start := func(name string, config bench.BrokerConfig) error {
		addr, err := bench.FreeAddr()
		if err != nil {
			return err
		}
		config.Addr, config.Dir = addr, filepath.Join(work, name)
		config.LogPath = filepath.Join(work, name+".log")
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		broker, err := bench.StartBroker(ctx, config)
		if err != nil {
			return err
		}
		all = append(all, &contender{name: name, broker: broker})
		return nil
	}
	for engine := range strings.FieldsFuncSeq(o.engines, func(r rune) bool { return r == ',' }) {
		config := bench.BrokerConfig{Kind: bench.Posthouse, Binary: o.bin, Overrides: map[string]string{"netio.engine": engine}}
		if err := start("posthouse-"+engine, config); err != nil {
			return all, err
		}
	}
	// Stopped by SIGSTOP for longer than its session, its own controller would
	// fence it.
	kafka := bench.BrokerConfig{Kind: bench.ApacheKafka, Overrides: map[string]string{"broker.session.timeout.ms": "3600000"}}
	return all, start("kafka-"+bench.KafkaVersion, kafka)
}

func stopAll(contenders []*contender) error {
	var errs []error
	for _, c := range contenders {
		// A stopped process does not see SIGTERM.
		if err := c.broker.Process.Resume(); err != nil {
			errs = append(errs, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		_, err := c.broker.Process.Stop(ctx)
		cancel()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func printEnvironment(o options, contenders []*contender) {
	var uts syscall.Utsname
	release := "?"
	if syscall.Uname(&uts) == nil {
		var b []byte
		for _, c := range uts.Release {
			if c == 0 {
				break
			}
			b = append(b, byte(c))
		}
		release = string(b)
	}
	java, err := bench.Java()
	if err != nil {
		java = err.Error()
	}
	fmt.Printf("kernel %s, %d CPUs, %s, java %s\n", release, runtime.NumCPU(), runtime.Version(), java)
	for _, c := range contenders {
		fmt.Printf("%s: ready after %v %s\n", c.name, c.broker.ReadyAfter.Round(time.Millisecond), c.broker.Ready)
	}
	if !o.prepare {
		fmt.Println("the machine was NOT prepared: free memory and congestion control as found")
	}
	fmt.Printf("%d rounds of %.1f s, medians (range); CPU is the process's own, user + system;\n"+
		"\"other cores\" is what kept the machine busy beside server and client: kernel threads, and whatever else ran\n\n", o.rounds, o.seconds)
}

func chosenLines(list string) ([]line, error) {
	if list == "" {
		return allLines, nil
	}
	var chosen []line
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(allLines, func(l line) bool { return l.key == name })
		if i < 0 {
			return nil, fmt.Errorf("no line %q", name)
		}
		chosen = append(chosen, allLines[i])
	}
	return chosen, nil
}
