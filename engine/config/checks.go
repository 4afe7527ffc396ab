package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A check states which values are allowed and says why one is not; an empty
// reason accepts it. shown is the part of the value that the message names.
type check struct {
	allowed string
	fail    func(name string, v Value) (shown, reason string)
}

// atLeast accepts integers from min on.
func atLeast(min int64) check {
	return check{fmt.Sprintf("[%d,...]", min), func(_ string, v Value) (string, string) {
		if v.Int < min {
			return v.String(), fmt.Sprintf("Value must be at least %d", min)
		}
		return "", ""
	}}
}

// between accepts the integers of [min, max].
func between(min, max int64) check {
	return check{fmt.Sprintf("[%d,...,%d]", min, max), func(_ string, v Value) (string, string) {
		switch {
		case v.Int < min:
			return v.String(), fmt.Sprintf("Value must be at least %d", min)
		case v.Int > max:
			return v.String(), fmt.Sprintf("Value must be no more than %d", max)
		}
		return "", ""
	}}
}

// ratio accepts the doubles of [0, 1].
var ratio = check{"[0,...,1]", func(_ string, v Value) (string, string) {
	switch {
	case v.Num < 0:
		return v.String(), "Value must be at least 0"
	case v.Num > 1:
		return v.String(), "Value must be no more than 1"
	case v.Num != v.Num:
		return v.String(), "Value must be a number between 0 and 1"
	}
	return "", ""
}}

// levels accepts the compression levels of [min, max], and other beside them.
func levels(min, max, other int64) check {
	return check{fmt.Sprintf("[%d,...,%d] or %d", min, max, other), func(_ string, v Value) (string, string) {
		if v.Int > max || v.Int < min && v.Int != other {
			return v.String(), fmt.Sprintf("Value must be between %d and %d or equal to %d", min, max, other)
		}
		return "", ""
	}}
}

// oneOf accepts the given strings.
func oneOf(valid ...string) check {
	list := strings.Join(valid, ", ")
	return check{"[" + list + "]", func(_ string, v Value) (string, string) {
		if !slices.Contains(valid, v.Str) {
			return v.Str, "String must be one of: " + list
		}
		return "", ""
	}}
}

// oneOfFold accepts the given strings in any case.
func oneOfFold(valid ...string) check {
	list := strings.Join(valid, ", ")
	return check{"(case insensitive) [" + list + "]", func(_ string, v Value) (string, string) {
		if !slices.ContainsFunc(valid, func(s string) bool { return strings.EqualFold(s, v.Str) }) {
			return v.Str, "String must be one of (case insensitive): " + list
		}
		return "", ""
	}}
}

// eachOneOf accepts lists of the given strings.
func eachOneOf(valid ...string) check {
	list := strings.Join(valid, ", ")
	return check{"[" + list + "]", func(_ string, v Value) (string, string) {
		for _, s := range v.List {
			if !slices.Contains(valid, s) {
				return s, "String must be one of: " + list
			}
		}
		return "", ""
	}}
}

var throttledReplica = regexp.MustCompile(`^([0-9]+:[0-9]+)?$`)

const throttledReplicaForm = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

// throttledReplicas accepts "*" or partition:broker pairs.
var throttledReplicas = check{throttledReplicaForm, func(name string, v Value) (string, string) {
	if strings.Join(v.List, "") == "*" {
		return "", ""
	}
	for _, s := range v.List {
		if !throttledReplica.MatchString(s) {
			return "[" + strings.Join(v.List, ", ") + "]", name + " must be the literal '*' or a list of replicas in the following format: " + throttledReplicaForm
		}
	}
	return "", ""
}}

// connectionOverrides accepts address:limit pairs (max.connections.per.ip.overrides).
var connectionOverrides = check{"address:limit,...", func(_ string, v Value) (string, string) {
	if _, err := parseConnectionOverrides(v.Str); err != nil {
		return v.Str, err.Error()
	}
	return "", ""
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
