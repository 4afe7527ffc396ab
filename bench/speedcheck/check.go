package main

import (
	"context"
	"fmt"
	"time"

	"github.com/posthouse/posthouse/bench"
)

// check runs the rounds.
type check struct {
	options    options
	machine    *bench.Machine // nil if the machine is left as it is
	contenders []*contender
	topics     int          // created so far
	free       bench.Sample // MiB free before each round
}

// figures are a contender's rounds of one line.
type figures struct {
	rate   bench.Sample // records/s
	mibps  bench.Sample
	server bench.Sample // CPU µs per record
	client bench.Sample // CPU µs per record
	perGiB bench.Sample // server CPU s per GiB of batches
	others bench.Sample // cores busy with neither server nor client
}

// warmUp writes what reads need and gives the JVM time to compile what it will
// run: 20 s of batches, and each line once.
func (c *check) warmUp(ctx context.Context, lines []line) error {
	for _, contender := range c.contenders {
		if err := c.onlyThis(contender); err != nil {
			return err
		}
		var err error
		if contender.read, err = writeForReads(ctx, contender.broker.Config.Addr); err != nil {
			return err
		}
		warm := line{key: "warm", partitions: 8, run: produceWith(batchConns, pipelineDepth, batchRecords, recordBytes)}
		for _, l := range append([]line{warm, warm, warm, warm}, lines...) {
			if _, _, err := c.round(ctx, contender, l, false); err != nil {
				return fmt.Errorf("%s: %s: %w", contender.name, l.key, err)
			}
		}
	}
	return nil
}

// measure runs a line's rounds, the contenders in turn, and prints them.
func (c *check) measure(ctx context.Context, l line) error {
	all := make([]figures, len(c.contenders))
	for range c.options.rounds {
		for i, contender := range c.contenders {
			if err := c.onlyThis(contender); err != nil {
				return err
			}
			got, used, err := c.round(ctx, contender, l, true)
			if err != nil {
				return fmt.Errorf("%s: %w", contender.name, err)
			}
			f, records := &all[i], float64(got.records)
			f.rate = append(f.rate, records/got.elapsed.Seconds())
			f.mibps = append(f.mibps, float64(got.bytes)/(1<<20)/got.elapsed.Seconds())
			f.server = append(f.server, float64(used.server.Microseconds())/records)
			f.client = append(f.client, float64(got.client.Microseconds())/records)
			f.perGiB = append(f.perGiB, used.server.Seconds()/(float64(got.bytes)/(1<<30)))
			f.others = append(f.others, max(0, used.machine-used.server-got.client).Seconds()/used.wall.Seconds())
		}
	}
	c.print(l, all)
	return nil
}

// onlyThis lets one contender run and stops the others.
func (c *check) onlyThis(running *contender) error {
	for _, other := range c.contenders {
		if other != running {
			if err := other.broker.Process.Pause(); err != nil {
				return err
			}
		}
	}
	return running.broker.Process.Resume()
}

// usage is what a round cost.
type usage struct {
	server  time.Duration // the broker's CPU, user and system
	machine time.Duration // all cores, whoever kept them busy
	wall    time.Duration
}

// round runs a line once on a fresh topic and returns what the client saw and
// what it cost. A round that is measured begins on a prepared machine.
func (c *check) round(ctx context.Context, contender *contender, l line, measured bool) (result, usage, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	addr := contender.broker.Config.Addr
	work := load{addr: addr, topic: readTopic, read: contender.read, seconds: c.options.seconds}
	if !l.reads {
		c.topics++
		work.topic = fmt.Sprintf("speed-%s-%d", l.key, c.topics)
		// Files go soon after the topic, so that the disk holds a round at a time.
		if err := bench.CreateTopic(ctx, addr, work.topic, l.partitions, map[string]string{"file.delete.delay.ms": "0"}); err != nil {
			return result{}, usage{}, err
		}
	}
	if measured && c.machine != nil {
		free, err := c.machine.UseUpFreeMemory(ctx)
		if err != nil {
			return result{}, usage{}, err
		}
		c.free = append(c.free, float64(free)/(1<<20))
	}
	before, err := readUsage(contender.broker.Process.PID())
	if err != nil {
		return result{}, usage{}, err
	}
	began := time.Now()
	got, err := l.run(ctx, work)
	if err != nil {
		return got, usage{}, err
	}
	wall := time.Since(began)
	after, err := readUsage(contender.broker.Process.PID())
	if err != nil {
		return got, usage{}, err
	}
	if !l.reads {
		err = bench.DeleteTopic(ctx, addr, work.topic)
		time.Sleep(300 * time.Millisecond) // the deletion's own work
	}
	return got, usage{server: after.server - before.server, machine: after.machine - before.machine, wall: wall}, err
}

// readUsage reads the counters that only grow.
func readUsage(pid int) (usage, error) {
	server, err := bench.ProcessCPU(pid)
	if err != nil {
		return usage{}, err
	}
	machine, err := bench.ReadMachineCPU()
	return usage{server: server.Total(), machine: machine.Busy + machine.Steal}, err
}

func (c *check) print(l line, all []figures) {
	fmt.Println(l.name)
	fmt.Printf("  %-20s %26s %20s %22s %22s %22s %14s\n", "", "records/s", "MiB/s", "server CPU µs/record", "server CPU s/GiB", "client CPU µs/record", "other cores")
	for i, contender := range c.contenders {
		f := all[i]
		fmt.Printf("  %-20s %26s %20s %22s %22s %22.2f %14.2f\n", contender.name, f.rate, f.mibps, f.server, f.perGiB, f.client.Median(), f.others.Median())
	}
	last := len(all) - 1
	for i := range last {
		rate, cpu := bench.Ratios(all[i].rate, all[last].rate), bench.Ratios(all[i].server, all[last].server)
		verdict := "as promised (at most half the CPU, more throughput)"
		if cpu.Median() > 0.5 || rate.Median() <= 1 {
			verdict = "NOT as promised (at most half the CPU, more throughput)"
		}
		fmt.Printf("  %s / %s: throughput %s, server CPU per record %s: %s\n", c.contenders[i].name, c.contenders[last].name, rate, cpu, verdict)
	}
	fmt.Println()
}
