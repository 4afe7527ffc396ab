package loadgen

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/posthouse/posthouse/storage/record"
)

const (
	// stampBytes is the least value that e2e and verify can mark.
	stampBytes = 32
	// keyBytesMin holds a key's number.
	keyBytesMin = 8
	// recordBytesMax and batchBytesMax are bounds of the protocol and of sense.
	recordBytesMax = 64 << 20
	inFlightMax    = 1000
	partitionsMax  = 100_000
)

// ReadWorkload reads a YAML file; what it leaves out is as DefaultWorkload says
// for its mode.
func ReadWorkload(path string, mode Mode) (Workload, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Workload{}, err
	}
	w, err := ParseWorkload(text, mode)
	if err != nil {
		return Workload{}, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

// ParseWorkload reads a workload in YAML. mode is what the document must agree
// with, or empty. Unknown keys are errors. The workload is not validated yet:
// flags may still change it.
func ParseWorkload(text []byte, mode Mode) (Workload, error) {
	var head struct {
		Mode     Mode      `yaml:"mode"`
		Schedule *Schedule `yaml:"schedule"`
	}
	if err := yaml.Load(text, &head); err != nil {
		return Workload{}, errors.New(oneLine(err))
	}
	if mode == "" {
		mode = head.Mode
	}
	if head.Mode != "" && head.Mode != mode {
		return Workload{}, fmt.Errorf("mode: the file says %s, the command %s", head.Mode, mode)
	}
	w := DefaultWorkload(mode)
	if head.Schedule != nil {
		// A schedule is whole: the default's rate is no part of it.
		w.Schedule = Schedule{}
	}
	if err := yaml.Load(text, &w, yaml.WithKnownFields()); err != nil {
		return Workload{}, errors.New(oneLine(err))
	}
	w.Mode = mode
	if s := &w.Schedule; s.Kind == "" && len(s.Steps) > 0 {
		s.Kind = Steps
	} else if s.Kind == "" && s.Rate != 0 {
		s.Kind = Constant
	}
	return w, nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// modes with producers and consumers, and what they stamp.
func (w *Workload) produces() bool { return w.Mode != ModeConsume }
func (w *Workload) stamped() bool  { return w.Mode == ModeE2E || w.Mode == ModeVerify }

// codec is the number of the compression.
func (w *Workload) codec() (record.Codec, bool) {
	for c := record.None; c.Known(); c++ {
		if c.String() == w.Compression {
			return c, true
		}
	}
	return record.None, false
}

// Validate says, in one line, everything that is contradictory or out of range,
// and fills in the name.
func (w *Workload) Validate() error {
	if w.Name == "" {
		w.Name = string(w.Mode)
	}
	var v problems
	switch w.Mode {
	case ModeProduce, ModeConsume, ModeE2E, ModeVerify:
	default:
		return fmt.Errorf("workload: mode %q: want produce, consume, e2e or verify", w.Mode)
	}
	w.validateTopics(&v)
	if w.produces() {
		w.validateProducers(&v)
		w.validateSchedule(&v)
	} else {
		v.addIf(w.Connections > 0, "connections: %d producers in a consume workload", w.Connections)
		v.addIf(w.Schedule.Open(), "schedule: a consume workload reads as fast as it can; use min-bytes and wait to slow it")
		v.addIf(w.Create == "fresh", "create: fresh topics hold nothing to consume")
	}
	w.validateConsumers(&v)
	w.validateTimes(&v)
	if len(v) == 0 {
		return nil
	}
	return errors.New("workload: " + strings.Join(v, "; "))
}

// problems collects what is wrong.
type problems []string

func (p *problems) addIf(wrong bool, format string, args ...any) {
	if wrong {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

func (w *Workload) validateTopics(v *problems) {
	v.addIf(w.Topic == "" || len(w.Topic) > 200, "topic: a name of 1 to 200 characters is wanted")
	v.addIf(w.Topics < 1 || w.Topics > partitionsMax, "topics: %d, want at least 1", w.Topics)
	v.addIf(w.Partitions < 1 || w.Topics*w.Partitions > partitionsMax,
		"partitions: %d of %d topics, want at least 1 and at most %d in all", w.Partitions, w.Topics, partitionsMax)
	v.addIf(w.Replication == 0 || w.Replication < -1, "replication: %d, want -1 or at least 1", w.Replication)
	v.addIf(!slices.Contains([]string{"missing", "fresh", "never"}, w.Create), "create: %q, want missing, fresh or never", w.Create)
	v.addIf(w.DeleteAfter && w.Create == "never", "delete-after: would delete topics that create: never says are not ours")
}

func (w *Workload) validateProducers(v *problems) {
	v.addIf(w.Connections < 1, "connections: %d, want at least 1", w.Connections)
	lowest, highest := w.Record.bounds()
	v.addIf(lowest < 0 || highest > recordBytesMax, "record: sizes %d to %d, want 0 to %d", lowest, highest, recordBytesMax)
	v.addIf(w.stamped() && lowest < stampBytes, "record: %s marks each value, which takes %d bytes; sizes go down to %d", w.Mode, stampBytes, lowest)
	_, known := w.codec()
	v.addIf(!known, "compression: %q, want none, gzip, snappy, lz4 or zstd", w.Compression)
	v.addIf(!(w.Compressibility >= 0 && w.Compressibility <= 1), "compressibility: %v, want 0 to 1", w.Compressibility)
	v.addIf(w.Acks < -1 || w.Acks > 1, "acks: %d, want 0, 1 or all", w.Acks)
	v.addIf(w.Idempotent && w.Acks != AcksAll, "idempotent: needs acks all, not %v", w.Acks)
	v.addIf(w.Idempotent && w.InFlight > 5, "idempotent: at most 5 in flight, not %d", w.InFlight)
	v.addIf(w.InFlight < 1 || w.InFlight > inFlightMax, "in-flight: %d, want 1 to %d", w.InFlight, inFlightMax)
	v.addIf(w.Mode == ModeVerify && w.Acks == 0, "acks: verify needs acknowledgements to know what was lost")
	v.addIf(w.Linger < 0, "linger: %v is negative", w.Linger)
	v.addIf(w.BatchBytes < 1, "batch-bytes: %d, want at least 1", w.BatchBytes)
	v.addIf(w.BatchRecords < 0, "batch-records: %d is negative", w.BatchRecords)
	switch w.Keys.Distribution {
	case "none":
	case "uniform", "zipf":
		v.addIf(w.Keys.Count < 1, "keys: count %d, want at least 1", w.Keys.Count)
		v.addIf(w.Keys.Bytes < keyBytesMin || w.Keys.Bytes > 32<<10, "keys: %d bytes, want %d to 32768", w.Keys.Bytes, keyBytesMin)
		v.addIf(w.Keys.Distribution == "zipf" && !(w.Keys.Skew > 0 && w.Keys.Skew <= 10), "keys: skew %v, want above 0 and at most 10", w.Keys.Skew)
	default:
		v.addIf(true, "keys: distribution %q, want none, uniform or zipf", w.Keys.Distribution)
	}
}

func (w *Workload) validateConsumers(v *problems) {
	v.addIf(w.Consumers < 0 || w.CatchUp < 0, "consumers: a negative number")
	v.addIf(w.Mode != ModeProduce && w.Consumers < 1, "consumers: %s needs at least 1", w.Mode)
	v.addIf(w.Mode == ModeVerify && w.CatchUp > 0, "catch-up: not with verify")
	f := &w.Fetch
	v.addIf(f.MaxBytes < 1 || f.PartitionBytes < 1, "fetch: max-bytes %d and partition-bytes %d, want at least 1", f.MaxBytes, f.PartitionBytes)
	v.addIf(f.MinBytes < 0 || f.MinBytes > f.MaxBytes, "fetch: min-bytes %d, want 0 to max-bytes (%d)", f.MinBytes, f.MaxBytes)
	v.addIf(f.Wait < 0 || f.Wait > Duration(time.Hour), "fetch: wait %v, want 0 to 1h", f.Wait)
	v.addIf(w.From != "earliest" && w.From != "latest", "from: %q, want earliest or latest", w.From)
	v.addIf(w.Rewind && w.Mode != ModeConsume, "rewind: only consumers of a consume workload begin again")
}

func (w *Workload) validateSchedule(v *problems) {
	s := &w.Schedule
	rate := func(r float64) bool { return r > 0 && r <= 1e9 }
	switch s.Kind {
	case Closed:
		v.addIf(s.Rate != 0 || len(s.Steps) > 0, "schedule: closed sends as fast as answers come and has no rate")
		v.addIf(w.Acks == 0 && w.Mode == ModeE2E, "schedule: closed with acks 0 has nothing to wait for")
	case Constant, Poisson:
		v.addIf(!rate(s.Rate), "schedule: rate %v, want above 0", s.Rate)
		v.addIf(len(s.Steps) > 0, "schedule: %s has no steps", s.Kind)
	case Steps:
		v.addIf(len(s.Steps) == 0, "schedule: steps without a step")
		v.addIf(s.Rate != 0, "schedule: the rate belongs to the steps")
		for i, step := range s.Steps {
			v.addIf(!rate(step.Rate) || step.For < 0 || step.For == 0 && i < len(s.Steps)-1,
				"schedule: step %d: rate %v for %v, want both above 0", i+1, step.Rate, step.For)
		}
	default:
		v.addIf(true, "schedule: kind %q, want closed, constant, poisson or steps", s.Kind)
	}
}

func (w *Workload) validateTimes(v *problems) {
	v.addIf(w.Duration <= 0, "duration: %v, want above 0", w.Duration)
	v.addIf(w.Warmup < 0 || w.Warmup >= w.Duration, "warmup: %v of a run of %v leaves nothing to measure", w.Warmup, w.Duration)
	v.addIf(w.Records < 0, "records: %d is negative", w.Records)
	v.addIf(w.Drain < 0 || w.Reconnect < 0, "drain and reconnect: want no negative times")
}
