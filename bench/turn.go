package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/posthouse/posthouse/loadgen"
	"github.com/posthouse/posthouse/results"
)

const (
	// hotTopicPartitions are those of every topic that reads share.
	hotTopicPartitions = 8
	// warmTopic is the name of topics whose figures nobody reads.
	warmTopic = "warm-up"
)

// loadOptions are loadgen's for a contender.
func (s *session) loadOptions(c *Contender, load loadgen.Workload) loadgen.Options {
	return loadgen.Options{
		Bootstrap: []string{c.Address}, Workload: load, Engine: s.ClientEngine, Loops: s.ClientLoops,
		ClientID: "posthouse-bench", LoopbackCongestion: "cubic",
	}
}

// onTopic names the load's topic: the one that reads share, or a fresh one that
// is deleted afterwards.
func (w *Workload) onTopic(load loadgen.Workload, name string) loadgen.Workload {
	load.Name = w.Name
	if w.Preload != nil {
		load.Topic, load.Partitions, load.Create = w.Preload.Topic, hotTopicPartitions, "never"
		return load
	}
	load.Topic, load.Create, load.DeleteAfter = name, "fresh", true
	load.Replication = 1
	// Files go with the topic, so that the disk holds one run at a time.
	load.TopicConfigs = map[string]string{"file.delete.delay.ms": "0"}
	return load
}

// warmUp fills what the workload reads, and lets the contender do the work once
// unmeasured: a JVM compiles what it runs.
func (s *session) warmUp(ctx context.Context, w *Workload, c *Contender) error {
	if err := s.preload(ctx, w, c); err != nil {
		return err
	}
	length := s.Warmup
	if c.kind == kindKafka {
		length = s.JVMWarmup
	}
	if w.Special != "" || length <= 0 || c.warmed[w.Name] {
		return nil
	}
	s.Progress(fmt.Sprintf("%s: warming up %s", w.Name, c.Info.Name))
	c.warmed[w.Name] = true
	// A closed loop is bounded in bytes: a long warm-up takes several.
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil; {
		load := w.onTopic(w.Load, warmTopic)
		load.Warmup, load.Duration = 0, loadgen.Duration(max(time.Until(end), time.Second/2))
		if _, err := loadgen.Run(ctx, s.loadOptions(c, load)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// preload fills the topic that the workload reads, once for each contender.
func (s *session) preload(ctx context.Context, w *Workload, c *Contender) error {
	if w.Preload == nil || c.loaded[w.Preload.Topic] {
		return nil
	}
	s.Progress(fmt.Sprintf("%s: filling %s of %s", w.Name, w.Preload.Topic, c.Info.Name))
	load := loadgen.DefaultWorkload(loadgen.ModeProduce)
	load.Topic, load.Partitions, load.Replication = w.Preload.Topic, hotTopicPartitions, 1
	load.Connections, load.Create = hotTopicPartitions, "fresh"
	load.Record, load.Records = loadgen.Fixed(recordBytes), w.Preload.Bytes/recordBytes
	load.Warmup, load.Duration = 0, loadgen.Duration(5*time.Minute)
	outcome, err := loadgen.Run(ctx, s.loadOptions(c, load))
	if err != nil {
		return fmt.Errorf("fill %s: %w", w.Preload.Topic, err)
	}
	if ack := outcome.Line(loadgen.LineAck); ack == nil || ack.Records < load.Records {
		return fmt.Errorf("fill %s: not all of %d records were acknowledged", w.Preload.Topic, load.Records)
	}
	c.loaded[w.Preload.Topic] = true
	return nil
}

// load runs loadgen once and meters it. The run is nil if nothing was measured.
func (s *session) load(ctx context.Context, w *Workload, c *Contender) (*results.Run, error) {
	opts := s.loadOptions(c, w.onTopic(w.shortened(s.Measured), fmt.Sprintf("bench-%04d", s.done)))
	var m *meter
	opts.Started = func(_, measured time.Time) { m = startMeter(c.PID(), measured) }
	opts.Measured = func(time.Time) { m.end() }
	opts.Progress = func(t loadgen.Tick) {
		s.Progress(fmt.Sprintf("[%d/%d] %s, %s: %s", s.done, s.total, w.Name, c.Info.Name, tickLine(t)))
	}
	outcome, err := loadgen.Run(ctx, opts)
	if m == nil || outcome == nil {
		return nil, err
	}
	used, series, meterErr := m.result()
	run := outcome.Result(s.Command)
	if outcome.Interrupted && run.Failure == "" {
		run.Failure = "interrupted" // half a run counts in no median
	}
	if meterErr != nil {
		// A run that loadgen calls good and the meters could not read is none.
		if err == nil {
			err = meterErr
		}
		if run.Failure == "" {
			run.Failure = strings.ReplaceAll(err.Error(), "\n", "; ")
			run.Warn(results.WarnFailed, "%s", run.Failure)
		}
		return run, err
	}
	// What a catch-up reader costs is no price of the records beside it.
	if len(run.Lines) > 0 && w.Load.CatchUp == 0 {
		used.Derive(run.Lines[0].Records, run.Lines[0].Bytes)
	}
	run.Usage = &used
	if c.PID() == 0 {
		run.Usage.CPUMicrosPerRecord, run.Usage.CPUSecondsPerGiB = 0, 0
	}
	run.Series = append(run.Series, series...)
	return run, err
}

func tickLine(t loadgen.Tick) string {
	parts := []string{fmt.Sprintf("%.0f s", t.Elapsed.Seconds())}
	for _, l := range t.Lines {
		parts = append(parts, fmt.Sprintf("%s %d/s p99 %.1f ms", l.Name, l.Records, float64(l.P99)/1000))
	}
	return strings.Join(parts, ", ")
}

// oneLineOf is a run for the log.
func oneLineOf(run *results.Run) string {
	parts := []string{run.Contender.Name + ":"}
	for i := range run.Lines {
		l := &run.Lines[i]
		text := l.Name
		if l.RecordsPerSec > 0 {
			text += " " + number(l.RecordsPerSec) + "/s"
		}
		if l.MiBPerSec > 0 {
			text += ", " + number(l.MiBPerSec) + " MiB/s"
		}
		for _, p := range []float64{50, 99, 99.9} {
			if us, ok := l.Percentile(p); ok {
				text += fmt.Sprintf(", p%g %s ms", p, number(float64(us)/1000))
			}
		}
		parts = append(parts, text+";")
	}
	if u := run.Usage; u != nil && u.CPUMicrosPerRecord > 0 {
		parts = append(parts, fmt.Sprintf("server %s µs/record, %s s/GiB,", number(u.CPUMicrosPerRecord), number(u.CPUSecondsPerGiB)))
	}
	if u := run.Usage; u != nil {
		parts = append(parts, fmt.Sprintf("%s MiB", number(float64(u.PeakRSSBytes)/(1<<20))))
	}
	var codes []string
	for _, warning := range run.Warnings {
		switch warning.Code {
		case results.WarnValidationDiffers, results.WarnFewRounds:
		default:
			codes = append(codes, warning.Code)
		}
	}
	if len(codes) > 0 {
		parts = append(parts, "("+strings.Join(codes, ", ")+")")
	}
	return strings.Join(parts, " ")
}
