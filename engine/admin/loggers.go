package admin

import (
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rootLogger is the only logger there is.
const rootLogger = "root"

// logLevels are Kafka's levels (LogLevelConfig.java) as the log has them: it
// tells no TRACE from DEBUG, and FATAL not from ERROR.
var logLevels = map[string]slog.Level{
	"TRACE": slog.LevelDebug, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo,
	"WARN": slog.LevelWarn, "ERROR": slog.LevelError, "FATAL": slog.LevelError,
}

// logLevel names the level of the log in Kafka's words.
func (h *Handlers) logLevel() string {
	switch level := h.LogLevel.Level(); {
	case level <= slog.LevelDebug:
		return "DEBUG"
	case level <= slog.LevelInfo:
		return "INFO"
	case level <= slog.LevelWarn:
		return "WARN"
	}
	return "ERROR"
}

// describeLoggers lists the levels of this broker's loggers (resource type
// BROKER_LOGGER, KIP-412).
func (h *Handlers) describeLoggers(name string) ([]config.Entry, error) {
	if name == "" {
		return nil, fail(kerr.InvalidRequest, "Broker id must not be empty")
	}
	if err := h.thisBroker(name, "Unexpected broker id, expected %d but received %s"); err != nil {
		return nil, err
	}
	level := h.logLevel()
	return []config.Entry{{Name: rootLogger, Value: &level, Source: config.Source(kmsg.ConfigSourceDynamicBrokerLoggerConfig)}}, nil
}

// alterLoggers sets the level of the log until the next restart, as Kafka does
// (RuntimeLoggerManager.java).
func (h *Handlers) alterLoggers(cl Client, c *change, validateOnly bool) error {
	n, err := strconv.ParseInt(c.name, 10, 32)
	if err != nil {
		return fail(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", c.name)
	}
	if int32(n) != h.NodeID {
		return fail(kerr.InvalidRequest, "Unexpected node id. Expected %d, but received %s", h.NodeID, c.name)
	}
	next := h.logLevel()
	for _, e := range c.entries {
		switch {
		case e.op == opAppend || e.op == opSubtract:
			name := map[kmsg.IncrementalAlterConfigOp]string{opAppend: "APPEND", opSubtract: "SUBTRACT"}[e.op]
			return fail(kerr.InvalidRequest, "%s operation is not allowed for the BROKER_LOGGER resource", name)
		case e.op != opSet && e.op != opDelete:
			return fail(kerr.InvalidRequest, "Unknown operation type %d is not allowed for the BROKER_LOGGER resource", int8(e.op))
		case e.name != rootLogger:
			return fail(kerr.InvalidConfig, "Logger %s does not exist!", e.name)
		case e.op == opDelete:
			return fail(kerr.InvalidRequest, "Removing the log level of the root logger is not allowed")
		}
		if _, ok := logLevels[*e.value]; !ok {
			return fail(kerr.InvalidConfig, "Cannot set the log level of %s to %s as it is not a supported log level. Valid log levels are %s",
				e.name, *e.value, strings.Join(slices.Sorted(maps.Keys(logLevels)), ", "))
		}
		next = *e.value
	}
	if before := h.logLevel(); !validateOnly && before != next {
		h.changed(cl, "logger of broker "+c.name, rootLogger, before, next)
		h.LogLevel.Set(logLevels[next])
	}
	return nil
}
