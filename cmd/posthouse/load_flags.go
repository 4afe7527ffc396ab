package main

import (
	"encoding"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/posthouse/posthouse/loadgen"
)

// workloadFlag sets one thing of a workload from text. Flags are applied over
// the workload file, in the order of the table.
type workloadFlag struct {
	name, usage string
	// value is what the help calls the value, where the usage does not say.
	value   string
	apply   func(w *loadgen.Workload, text string) error
	show    func(w *loadgen.Workload) string
	boolean bool
}

// textField is the flag of a field that reads text.
func textField[T any, P interface {
	*T
	encoding.TextUnmarshaler
	fmt.Stringer
}](name, usage string, field func(w *loadgen.Workload) *T) workloadFlag {
	value := "text"
	switch any(field(new(loadgen.Workload))).(type) {
	case *loadgen.Duration:
		value = "duration"
	case *loadgen.Bytes:
		value = "size"
	}
	return workloadFlag{
		name: name, usage: usage, value: value,
		apply: func(w *loadgen.Workload, text string) error { return P(field(w)).UnmarshalText([]byte(text)) },
		show:  func(w *loadgen.Workload) string { return P(field(w)).String() },
	}
}

func intField(name, usage string, field func(w *loadgen.Workload) *int) workloadFlag {
	return workloadFlag{
		name: name, usage: usage, value: "n",
		apply: func(w *loadgen.Workload, text string) (err error) {
			*field(w), err = strconv.Atoi(text)
			return numberError(text, err)
		},
		show: func(w *loadgen.Workload) string { return strconv.Itoa(*field(w)) },
	}
}

func int64Field(name, usage string, field func(w *loadgen.Workload) *int64) workloadFlag {
	return workloadFlag{
		name: name, usage: usage, value: "n",
		apply: func(w *loadgen.Workload, text string) (err error) {
			*field(w), err = strconv.ParseInt(text, 10, 64)
			return numberError(text, err)
		},
		show: func(w *loadgen.Workload) string { return strconv.FormatInt(*field(w), 10) },
	}
}

func floatField(name, usage string, field func(w *loadgen.Workload) *float64) workloadFlag {
	return workloadFlag{
		name: name, usage: usage, value: "share",
		apply: func(w *loadgen.Workload, text string) (err error) {
			*field(w), err = strconv.ParseFloat(text, 64)
			return numberError(text, err)
		},
		show: func(w *loadgen.Workload) string { return strconv.FormatFloat(*field(w), 'g', -1, 64) },
	}
}

func stringField(name, usage string, field func(w *loadgen.Workload) *string) workloadFlag {
	return workloadFlag{
		name: name, usage: usage, value: "text",
		apply: func(w *loadgen.Workload, text string) error { *field(w) = text; return nil },
		show:  func(w *loadgen.Workload) string { return *field(w) },
	}
}

func boolField(name, usage string, field func(w *loadgen.Workload) *bool) workloadFlag {
	return workloadFlag{
		name: name, usage: usage, boolean: true,
		apply: func(w *loadgen.Workload, text string) (err error) {
			*field(w), err = strconv.ParseBool(text)
			return err
		},
		show: func(w *loadgen.Workload) string { return strconv.FormatBool(*field(w)) },
	}
}

func numberError(text string, err error) error {
	if err != nil {
		return fmt.Errorf("%q is no number, or too large", text)
	}
	return nil
}

type workload = loadgen.Workload

// commonFlags are those of every mode.
var commonFlags = []workloadFlag{
	stringField("name", "name of the workload in reports", func(w *workload) *string { return &w.Name }),
	stringField("topic", "`topic`, or the prefix of several", func(w *workload) *string { return &w.Topic }),
	intField("topics", "how many topics", func(w *workload) *int { return &w.Topics }),
	intField("partitions", "partitions of each topic that is created", func(w *workload) *int { return &w.Partitions }),
	intField("replication", "replication factor of topics that are created; -1 is the broker's default", func(w *workload) *int { return &w.Replication }),
	stringField("create", "`when` to create the topics: missing, fresh (deleted first) or never", func(w *workload) *string { return &w.Create }),
	boolField("delete-after", "delete the topics at the end", func(w *workload) *bool { return &w.DeleteAfter }),
	{name: "topic-config", usage: "`key=value,…` of topics that are created", apply: applyTopicConfigs, show: func(*workload) string { return "" }},
	intField("consumers", "connections that consume", func(w *workload) *int { return &w.Consumers }),
	intField("catch-up", "further connections that read all from offset 0, again and again", func(w *workload) *int { return &w.CatchUp }),
	textField("fetch-max-bytes", "most bytes of a Fetch response", func(w *workload) *loadgen.Bytes { return &w.Fetch.MaxBytes }),
	textField("fetch-partition-bytes", "most bytes of one partition in it", func(w *workload) *loadgen.Bytes { return &w.Fetch.PartitionBytes }),
	textField("fetch-min-bytes", "bytes that a Fetch waits for", func(w *workload) *loadgen.Bytes { return &w.Fetch.MinBytes }),
	textField("fetch-wait", "how long it waits for them", func(w *workload) *loadgen.Duration { return &w.Fetch.Wait }),
	boolField("check-crc", "verify the checksum of every batch that is read", func(w *workload) *bool { return &w.Fetch.CheckCRC }),
	textField("duration", "of the whole run", func(w *workload) *loadgen.Duration { return &w.Duration }),
	textField("warmup", "part of it, at the begin, that is not counted; by default no more than a quarter", func(w *workload) *loadgen.Duration { return &w.Warmup }),
	int64Field("records", "end after that many records; 0 is no bound", func(w *workload) *int64 { return &w.Records }),
	textField("drain", "how long to wait for answers at the end", func(w *workload) *loadgen.Duration { return &w.Drain }),
}

// consumeFlags are those of load consume.
var consumeFlags = []workloadFlag{
	stringField("from", "`where` to begin: earliest or latest", func(w *workload) *string { return &w.From }),
	boolField("rewind", "begin again at the start when all is read", func(w *workload) *bool { return &w.Rewind }),
}

// produceFlags are those of the modes that produce.
var produceFlags = []workloadFlag{
	intField("connections", "connections that produce", func(w *workload) *int { return &w.Connections }),
	textField("record-size", "`bytes` of a value, or uniform:LOW-HIGH, normal:MEAN±DEVIATION, mix:SIZE@WEIGHT,…", func(w *workload) *loadgen.Sizes { return &w.Record }),
	{name: "keys", usage: "`none`, uniform:COUNT or zipf:COUNT:SKEW", apply: applyKeys, show: showKeys},
	intField("key-bytes", "length of a key", func(w *workload) *int { return &w.Keys.Bytes }),
	stringField("compression", "`codec`: none, gzip, snappy, lz4 or zstd", func(w *workload) *string { return &w.Compression }),
	floatField("compressibility", "share of a value that compresses away, 0 to 1", func(w *workload) *float64 { return &w.Compressibility }),
	textField("acks", "`acks`: 0, 1 or all", func(w *workload) *loadgen.Acks { return &w.Acks }),
	boolField("idempotent", "idempotent producers", func(w *workload) *bool { return &w.Idempotent }),
	intField("in-flight", "unanswered requests of one connection", func(w *workload) *int { return &w.InFlight }),
	textField("linger", "how long a record waits for others", func(w *workload) *loadgen.Duration { return &w.Linger }),
	textField("batch-bytes", "most bytes of a batch, header included", func(w *workload) *loadgen.Bytes { return &w.BatchBytes }),
	intField("batch-records", "most records of a batch; 0 is no bound", func(w *workload) *int { return &w.BatchRecords }),
	{name: "rate", value: "records/s", usage: "records per second over all connections; 0 is as fast as answers come", apply: applyRate, show: showRate},
	{name: "poisson", usage: "random arrivals at the rate", apply: applyPoisson, show: func(*workload) string { return "false" }, boolean: true},
	{name: "steps", usage: "rates one after the other, `RATE@TIME,…,RATE`", apply: applySteps, show: func(*workload) string { return "" }},
	{name: "seed", value: "n", usage: "of sizes, keys and random arrivals", apply: func(w *workload, text string) (err error) {
		w.Seed, err = strconv.ParseUint(text, 10, 64)
		return numberError(text, err)
	}, show: func(w *workload) string { return strconv.FormatUint(w.Seed, 10) }},
}

// verifyFlags are those of load verify.
var verifyFlags = []workloadFlag{
	textField("reconnect", "how long to go on without a broker", func(w *workload) *loadgen.Duration { return &w.Reconnect }),
}

func applyTopicConfigs(w *workload, text string) error {
	configs := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return fmt.Errorf("%q: want key=value", pair)
		}
		configs[key] = value
	}
	w.TopicConfigs = configs
	return nil
}

func applyKeys(w *workload, text string) (err error) {
	kind, rest, more := strings.Cut(text, ":")
	count, skew, hasSkew := strings.Cut(rest, ":")
	w.Keys.Distribution = kind
	if more {
		if w.Keys.Count, err = strconv.ParseInt(count, 10, 64); err != nil {
			return numberError(count, err)
		}
	}
	if hasSkew {
		if w.Keys.Skew, err = strconv.ParseFloat(skew, 64); err != nil {
			return numberError(skew, err)
		}
	}
	return nil
}

func showKeys(w *workload) string { return w.Keys.Distribution }

func applyRate(w *workload, text string) error {
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return numberError(text, err)
	}
	if rate == 0 {
		w.Schedule = loadgen.Schedule{Kind: loadgen.Closed}
		return nil
	}
	w.Schedule = loadgen.Schedule{Kind: loadgen.Constant, Rate: rate}
	return nil
}

func showRate(w *workload) string { return strconv.FormatFloat(w.Schedule.Rate, 'g', -1, 64) }

func applyPoisson(w *workload, text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil || !on {
		return err
	}
	switch w.Schedule.Kind {
	case loadgen.Constant:
		w.Schedule.Kind = loadgen.Poisson
	case loadgen.Closed:
		return fmt.Errorf("needs a --rate")
	}
	w.Schedule.Poisson = w.Schedule.Kind == loadgen.Steps
	return nil
}

func applySteps(w *workload, text string) error {
	random := w.Schedule.Kind == loadgen.Poisson
	w.Schedule = loadgen.Schedule{Kind: loadgen.Steps, Poisson: random}
	for part := range strings.SplitSeq(text, ",") {
		rateText, lasting, _ := strings.Cut(part, "@")
		var step loadgen.Step
		var err error
		if step.Rate, err = strconv.ParseFloat(rateText, 64); err != nil {
			return numberError(rateText, err)
		}
		if lasting != "" {
			if err := step.For.UnmarshalText([]byte(lasting)); err != nil {
				return err
			}
		}
		w.Schedule.Steps = append(w.Schedule.Steps, step)
	}
	return nil
}

// pending is a flag that was set and waits to be applied.
type pending struct {
	flag        workloadFlag
	text        string
	set         bool
	defaultText string
}

func (p *pending) String() string {
	if p.set {
		return p.text
	}
	return p.defaultText
}

func (p *pending) Set(text string) error {
	// Checked at once, so that the error names the flag.
	scratch := loadgen.DefaultWorkload(loadgen.ModeProduce)
	scratch.Schedule = loadgen.Schedule{Kind: loadgen.Constant, Rate: 1}
	if err := p.flag.apply(&scratch, text); err != nil {
		return err
	}
	p.text, p.set = text, true
	return nil
}

func (p *pending) Type() string {
	if p.flag.boolean {
		return "bool"
	}
	return p.flag.value
}

// workloadFlags are the flags of one mode on one command line.
type workloadFlags struct {
	mode    loadgen.Mode
	file    string
	pending []*pending
}

// register adds the flags of a mode.
func (f *workloadFlags) register(flags *pflag.FlagSet) {
	flags.StringVarP(&f.file, "workload", "w", "", "YAML `file` of the workload; flags win over it")
	table := commonFlags
	switch f.mode {
	case loadgen.ModeConsume:
		table = append(table[:len(table):len(table)], consumeFlags...)
	case loadgen.ModeVerify:
		table = append(append(table[:len(table):len(table)], produceFlags...), verifyFlags...)
	default:
		table = append(table[:len(table):len(table)], produceFlags...)
	}
	defaults := loadgen.DefaultWorkload(f.mode)
	for _, flag := range table {
		p := &pending{flag: flag, defaultText: flag.show(&defaults)}
		f.pending = append(f.pending, p)
		registered := flags.VarPF(p, flag.name, "", flag.usage)
		if flag.boolean {
			registered.NoOptDefVal = "true"
		}
	}
}

// workload is the file, or the defaults, with the flags applied.
func (f *workloadFlags) workload() (loadgen.Workload, error) {
	w := loadgen.DefaultWorkload(f.mode)
	if f.file != "" {
		var err error
		if w, err = loadgen.ReadWorkload(f.file, f.mode); err != nil {
			return w, err
		}
	}
	for _, p := range f.pending {
		if !p.set {
			continue
		}
		if err := p.flag.apply(&w, p.text); err != nil {
			return w, fmt.Errorf("--%s: %w", p.flag.name, err)
		}
	}
	f.fitWarmup(&w)
	return w, w.Validate()
}

// fitWarmup makes the default warm-up a quarter of a run that is too short for
// it.
func (f *workloadFlags) fitWarmup(w *workload) {
	asked := slices.ContainsFunc(f.pending, func(p *pending) bool { return p.flag.name == "warmup" && p.set })
	if !asked && w.Warmup == loadgen.DefaultWorkload(f.mode).Warmup && w.Warmup >= w.Duration {
		w.Warmup = w.Duration / 4
	}
}
