package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthouse/posthouse/cmd/broker"
	"github.com/posthouse/posthouse/engine/config"
)

const (
	// heapGrowthPercent is GOGC unless the environment sets it: the heap holds
	// few live pointers, so a collection is cheap and rare (LAB: the collector
	// is the tail of latency).
	heapGrowthPercent = 400
	// heapLimitBytes is GOMEMLIMIT unless the environment sets it. Record bytes
	// live outside the Go heap; this bounds what is left.
	heapLimitBytes = 512 << 20
	// loadPatience is how long the ready line waits for logs that are still
	// being opened.
	loadPatience = time.Second
	// flushTimeout bounds the flush of a stop.
	flushTimeout = 5 * time.Minute
)

// reservedVariables are POSTHOUSE_… variables that are no keys: they tell the
// outside suites (cmd/e2e) and benchmarks what to use.
var reservedVariables = []string{"bin", "java", "e2e_cache", "e2e_engines", "e2e_keep"}

type serveFlags struct {
	overrides    []string
	topicConfigs []string
	logLevel     string
	logFormat    string
}

func newServe() *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:   "serve [server.properties]",
		Short: "Run a broker",
		Long: "Run a broker. Without arguments it listens on 127.0.0.1:9092 and keeps its data in ./data.\n" +
			"A properties file has Kafka's own keys; POSTHOUSE_LOG_DIRS and its like set keys by environment;\n" +
			"--override wins over both. SIGTERM or Ctrl-C stops it cleanly, a second one at once.",
		Example: "  posthouse serve\n" +
			"  posthouse serve config/server.properties --override log.dirs=/srv/posthouse\n" +
			"  posthouse serve --override listeners=PLAINTEXT://0.0.0.0:9092 \\\n" +
			"      --override advertised.listeners=PLAINTEXT://broker.example:9092",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("unexpected %q: one properties file at most, keys are set by --override key=value", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return serve(cmd.Context(), args, flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringArrayVar(&flags.overrides, "override", nil, "set a `key=value` over the file; may be repeated")
	cmd.Flags().StringArrayVar(&flags.topicConfigs, "topic-config", nil,
		"config of a topic whose directories Kafka wrote, as `topic:key=value`; used when an empty store adopts them")
	cmd.Flags().StringVar(&flags.logLevel, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(&flags.logFormat, "log-format", "text", "text or json")
	return cmd
}

func serve(ctx context.Context, args []string, flags serveFlags, stdout, stderr io.Writer) error {
	started := processStart()
	level := new(slog.LevelVar)
	logger, err := newLogger(stderr, level, flags.logLevel, flags.logFormat)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(args, flags.overrides, logger)
	if err != nil {
		return err
	}
	topicConfigs, err := parseTopicConfigs(flags.topicConfigs)
	if err != nil {
		return err
	}
	tuneRuntime(int(cfg.Netio.Loops))
	ctx, release := untilSignal(ctx, logger)
	defer release()

	loading := &progress{logger: logger, what: "opening logs", begun: time.Now()}
	b, err := broker.Start(ctx, broker.Options{
		Config: cfg, Logger: logger, LogLevel: level, TopicConfigs: topicConfigs, LoadProgress: loading.report,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		logger.Info("stopped before the start was done", "err", err)
		return nil
	case err != nil:
		return err
	}
	engine, _ := b.Engine()
	if awaitLoaded(ctx, b, logger) {
		// A supervisor that has closed stdout does not wait for the line.
		_, _ = fmt.Fprintf(stdout, "posthouse ready node=%d listeners=%s engine=%s dir=%s in=%dms\n",
			cfg.NodeID, b.Listeners(), engine, strings.Join(absolute(cfg.LogDirs), ","), time.Since(started).Milliseconds())
	}
	return waitAndStop(ctx, b, logger)
}

// absolute are the paths as they are from any directory.
func absolute(paths []string) []string {
	out := slices.Clone(paths)
	for i, path := range paths {
		if a, err := filepath.Abs(path); err == nil {
			out[i] = a
		}
	}
	return out
}

// awaitLoaded waits a moment for the logs, and says whether the node is ready:
// a long recovery does not keep it from serving what is open, a failed one does.
func awaitLoaded(ctx context.Context, b *broker.Broker, logger *slog.Logger) bool {
	select {
	case <-b.Loaded():
		return b.Err() == nil
	case <-time.After(loadPatience):
		logger.Info("serving while logs are still being opened")
		return true
	case <-ctx.Done():
		return false
	}
}

// waitAndStop serves until ctx ends or the logs cannot be loaded.
func waitAndStop(ctx context.Context, b *broker.Broker, logger *slog.Logger) error {
	var failure error
	loaded := b.Loaded()
	for waiting := true; waiting; {
		select {
		case <-loaded:
			loaded = nil
			failure = b.Err()
			waiting = failure == nil
		case <-ctx.Done():
			waiting = false
		}
	}
	flushCtx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	begun := time.Now()
	flushing := &progress{logger: logger, what: "flushing logs", begun: begun, always: true}
	err := b.Stop(flushCtx, flushing.report)
	switch took := time.Since(begun).Milliseconds(); {
	case failure != nil || err != nil:
	case b.Err() != nil:
		logger.Warn("stopped before all logs were open: the next start goes on with them", "ms", took)
	default:
		logger.Info("stopped cleanly", "ms", took)
	}
	return errors.Join(failure, err)
}

// newLogger makes the log; current is its level from then on, to be changed while
// it is written to.
func newLogger(w io.Writer, current *slog.LevelVar, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	current.Set(l)
	options := &slog.HandlerOptions{Level: current}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: want text or json", format)
}

// loadConfig is readConfig with its warnings logged.
func loadConfig(args, overrides []string, logger *slog.Logger) (*config.Broker, error) {
	cfg, warnings, err := readConfig(args, overrides)
	for _, w := range warnings {
		logger.Warn(w)
	}
	return cfg, err
}

// readConfig reads file, environment and overrides, in rising precedence.
func readConfig(args, overrides []string) (cfg *config.Broker, warnings []string, err error) {
	properties := map[string]string{}
	file := ""
	if len(args) == 1 {
		file = args[0]
		in, err := os.Open(file)
		if err != nil {
			return nil, nil, err
		}
		defer in.Close()
		if properties, err = config.ParseProperties(in, file); err != nil {
			return nil, nil, err
		}
	}
	environment := config.FromEnvironment(os.Environ(), reservedVariables...)
	maps.Copy(properties, environment)
	set := make(map[string]string, len(overrides))
	for _, o := range overrides {
		key, value, ok := strings.Cut(o, "=")
		if !ok || key == "" {
			return nil, nil, fmt.Errorf("--override %q: want key=value", o)
		}
		set[key] = value
	}
	cfg, warnings, err = config.Load(properties, set)
	if err != nil {
		return nil, nil, fmt.Errorf("%w%s", err, sourceOf(err, set, environment, properties, file))
	}
	return cfg, warnings, nil
}

// sourceOf says where a value that was refused came from, for the end of its
// error's line; empty where it is a default.
func sourceOf(err error, overrides, environment, properties map[string]string, file string) string {
	var refused *config.Error
	if !errors.As(err, &refused) {
		return ""
	}
	for _, source := range []struct {
		values map[string]string
		name   string
	}{{overrides, "--override"}, {environment, "the environment"}, {properties, file}} {
		if _, ok := source.values[refused.Key]; ok {
			return " (set by " + source.name + ")"
		}
	}
	return ""
}

func parseTopicConfigs(flags []string) (map[string]map[string]string, error) {
	configs := make(map[string]map[string]string)
	for _, f := range flags {
		topic, assignment, ok := strings.Cut(f, ":")
		key, value, assigned := strings.Cut(assignment, "=")
		if !ok || !assigned || topic == "" || key == "" {
			return nil, fmt.Errorf("--topic-config %q: want topic:key=value", f)
		}
		if configs[topic] == nil {
			configs[topic] = make(map[string]string)
		}
		configs[topic][key] = value
	}
	return configs, nil
}

// tuneRuntime gives a loop that wakes a processor at once, and the collector
// little to do, unless the environment says otherwise.
func tuneRuntime(loops int) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + loops)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowthPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapLimitBytes)
	}
}
