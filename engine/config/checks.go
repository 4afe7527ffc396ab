package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A check states which values are allowed and says why one is not; fail returns
// nil for a value that is.
type check struct {
	allowed string
	fail    func(name string, v Value) *Error
}

// refuse makes the usual error, which names the value as Kafka prints it.
func refuse(name, shown, format string, args ...any) *Error {
	return &Error{Key: name, Value: shown, Reason: fmt.Sprintf(format, args...)}
}

// atLeast accepts integers from min on.
func atLeast(min int64) check {
	return check{fmt.Sprintf("[%d,...]", min), func(name string, v Value) *Error {
		if v.Int < min {
			return refuse(name, v.String(), "Value must be at least %d", min)
		}
		return nil
	}}
}

// between accepts the integers of [min, max].
func between(min, max int64) check {
	return check{fmt.Sprintf("[%d,...,%d]", min, max), func(name string, v Value) *Error {
		switch {
		case v.Int < min:
			return refuse(name, v.String(), "Value must be at least %d", min)
		case v.Int > max:
			return refuse(name, v.String(), "Value must be no more than %d", max)
		}
		return nil
	}}
}

// ratio accepts the doubles of [0, 1]. Kafka lets NaN pass.
var ratio = check{"[0,...,1]", func(name string, v Value) *Error {
	switch {
	case v.Num < 0:
		return refuse(name, v.String(), "Value must be at least 0")
	case v.Num > 1:
		return refuse(name, v.String(), "Value must be no more than 1")
	case v.Num != v.Num:
		return refuse(name, v.String(), "Value must be a number between 0 and 1")
	}
	return nil
}}

// levels accepts the compression levels of [min, max], and other beside them.
func levels(min, max, other int64) check {
	return check{fmt.Sprintf("[%d,...,%d] or %d", min, max, other), func(name string, v Value) *Error {
		if v.Int > max || v.Int < min && v.Int != other {
			return refuse(name, v.String(), "Value must be between %d and %d or equal to %d", min, max, other)
		}
		return nil
	}}
}

// oneOf accepts the given strings.
func oneOf(valid ...string) check {
	list := strings.Join(valid, ", ")
	return check{"[" + list + "]", func(name string, v Value) *Error {
		if !slices.Contains(valid, v.Str) {
			return refuse(name, v.Str, "String must be one of: %s", list)
		}
		return nil
	}}
}

// oneOfFold accepts the given strings in any case.
func oneOfFold(valid ...string) check {
	list := strings.Join(valid, ", ")
	return check{"(case insensitive) [" + list + "]", func(name string, v Value) *Error {
		if !slices.ContainsFunc(valid, func(s string) bool { return strings.EqualFold(s, v.Str) }) {
			return refuse(name, v.Str, "String must be one of (case insensitive): %s", list)
		}
		return nil
	}}
}

// eachOneOf accepts lists of the given strings.
func eachOneOf(valid ...string) check {
	list := strings.Join(valid, ", ")
	return check{"[" + list + "]", func(name string, v Value) *Error {
		for _, s := range v.List {
			if s == "" {
				return &Error{Key: name, Value: v.String(), Text: "Configuration '" + name + "' values must not be empty."}
			}
			if !slices.Contains(valid, s) {
				return refuse(name, s, "String must be one of: %s", list)
			}
		}
		return nil
	}}
}

var throttledReplica = regexp.MustCompile(`^([0-9]+:[0-9]+)?$`)

const throttledReplicaForm = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

// throttledReplicas accepts "*" or partition:broker pairs.
var throttledReplicas = check{throttledReplicaForm, func(name string, v Value) *Error {
	if strings.Join(v.List, "") == "*" {
		return nil
	}
	for _, s := range v.List {
		if !throttledReplica.MatchString(s) {
			return refuse(name, "["+strings.Join(v.List, ", ")+"]", "%s must be the literal '*' or a list of replicas in the following format: %s", name, throttledReplicaForm)
		}
	}
	return nil
}}

// connectionOverrides accepts address:limit pairs (max.connections.per.ip.overrides).
var connectionOverrides = check{"address:limit,...", func(name string, v Value) *Error {
	if _, err := parseConnectionOverrides(v.Str); err != nil {
		return refuse(name, v.Str, "%v", err)
	}
	return nil
}}

// parseConnectionOverrides reads "host:limit,[::1]:limit".
func parseConnectionOverrides(s string) (map[string]int32, error) {
	overrides := make(map[string]int32)
	for _, entry := range SplitList(s) {
		i := strings.LastIndexByte(entry, ':')
		if i <= 0 {
			return nil, fmt.Errorf("%q must be address:limit", entry)
		}
		n, err := strconv.ParseInt(entry[i+1:], 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("limit in %q must be a number that is not negative", entry)
		}
		overrides[strings.Trim(entry[:i], "[]")] = int32(n)
	}
	return overrides, nil
}

// noPeers refuses to start a node that believes itself part of a cluster.
var noPeers = check{"empty", func(name string, v Value) *Error {
	if len(v.List) > 0 {
		return refuse(name, v.String(), "only a single node is served by this version: leave it empty")
	}
	return nil
}}

// noTiering refuses a setting whose silent loss would cost data.
var noTiering = check{"false", func(name string, v Value) *Error {
	if v.Bool {
		return refuse(name, "true", "tiered storage is not available: only false is allowed")
	}
	return nil
}}
