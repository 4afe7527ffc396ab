package loadgen

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that is written as "1.5s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: want something like 1.5s or 200ms", text)
	}
	*d = Duration(v)
	return nil
}

// Bytes is a number of bytes that may be written with a unit: "16KiB", "1 MiB".
type Bytes int64

var byteUnits = []struct {
	suffix string
	factor float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"k", 1 << 10}, {"K", 1 << 10}, {"m", 1 << 20}, {"M", 1 << 20}, {"B", 1}, {"", 1},
}

// ParseBytes reads a number of bytes with or without a unit.
func ParseBytes(text string) (Bytes, error) {
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || v < 0 || v*u.factor > math.MaxInt32 {
			break
		}
		return Bytes(v * u.factor), nil
	}
	return 0, fmt.Errorf("%q is no number of bytes: want something like 1024, 16KiB or 1MiB, below 2GiB", text)
}

func (b Bytes) String() string {
	switch {
	case b >= 1<<20 && b%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", b>>20)
	case b >= 1<<10 && b%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", b>>10)
	}
	return strconv.FormatInt(int64(b), 10)
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) (err error) {
	*b, err = ParseBytes(string(text))
	return err
}

// UnmarshalJSON takes the number that is written, or a string with a unit.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	return b.UnmarshalText([]byte(strings.Trim(string(text), `"`)))
}

// Acks is how many replicas must have a record before it is acknowledged.
type Acks int16

// AcksAll waits for all replicas in sync.
const AcksAll Acks = -1

func (a Acks) String() string {
	if a == AcksAll {
		return "all"
	}
	return strconv.Itoa(int(a))
}

// MarshalText implements encoding.TextMarshaler.
func (a Acks) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Acks) UnmarshalText(text []byte) error {
	switch string(text) {
	case "0":
		*a = 0
	case "1":
		*a = 1
	case "all", "-1":
		*a = AcksAll
	default:
		return fmt.Errorf("acks %q: want 0, 1 or all", text)
	}
	return nil
}

// Sizes is a distribution of record sizes, in bytes, written as
//
//	1024                  all alike
//	uniform:100-2000      evenly between the two, both inclusive
//	normal:1024±256       cut off at 1 byte and at ten deviations; also +-
//	mix:100@0.9,10KiB@0.1 sizes with their weights
type Sizes struct {
	kind     string // "", uniform, normal, mix
	low      int    // uniform; the size where all are alike
	high     int    // uniform
	mean, sd float64
	mix      []weighted
}

type weighted struct {
	size   int
	weight float64
}

// Fixed is a distribution of one size.
func Fixed(size int) Sizes { return Sizes{low: size} }

// ParseSizes reads the written form.
func ParseSizes(text string) (Sizes, error) {
	kind, rest, distribution := strings.Cut(text, ":")
	var s Sizes
	var err error
	switch {
	case !distribution:
		s.low, err = parseSize(text)
	case kind == "uniform":
		low, high, ok := strings.Cut(rest, "-")
		s.kind = kind
		if s.low, err = parseSize(low); err == nil && ok {
			s.high, err = parseSize(high)
		}
		if err == nil && (!ok || s.high < s.low) {
			err = fmt.Errorf("want uniform:LOW-HIGH")
		}
	case kind == "normal":
		mean, sd, ok := strings.Cut(strings.ReplaceAll(rest, "+-", "±"), "±")
		var m, d int
		if m, err = parseSize(mean); err == nil && ok {
			d, err = parseSize(sd)
		}
		if err == nil && !ok {
			err = fmt.Errorf("want normal:MEAN±DEVIATION")
		}
		s.kind, s.mean, s.sd = kind, float64(m), float64(d)
	case kind == "mix":
		s.kind = kind
		s.mix, err = parseMix(rest)
	default:
		err = fmt.Errorf("want SIZE, uniform:LOW-HIGH, normal:MEAN±DEVIATION or mix:SIZE@WEIGHT,…")
	}
	if err != nil {
		return Sizes{}, fmt.Errorf("record size %q: %w", text, err)
	}
	return s, nil
}

func parseSize(text string) (int, error) {
	b, err := ParseBytes(text)
	return int(b), err
}

func parseMix(text string) ([]weighted, error) {
	var mix []weighted
	for part := range strings.SplitSeq(text, ",") {
		sizeText, weightText, ok := strings.Cut(part, "@")
		size, err := parseSize(sizeText)
		if err != nil {
			return nil, err
		}
		weight, err := strconv.ParseFloat(weightText, 64)
		if !ok || err != nil || !(weight > 0) || math.IsInf(weight, 0) {
			return nil, fmt.Errorf("%q: want SIZE@WEIGHT", part)
		}
		mix = append(mix, weighted{size, weight})
	}
	return mix, nil
}

func (s Sizes) String() string {
	switch s.kind {
	case "uniform":
		return fmt.Sprintf("uniform:%v-%v", Bytes(s.low), Bytes(s.high))
	case "normal":
		return fmt.Sprintf("normal:%v±%v", Bytes(s.mean), Bytes(s.sd))
	case "mix":
		parts := make([]string, len(s.mix))
		for i, w := range s.mix {
			parts[i] = fmt.Sprintf("%v@%v", Bytes(w.size), w.weight)
		}
		return "mix:" + strings.Join(parts, ",")
	}
	return strconv.Itoa(s.low)
}

// MarshalText implements encoding.TextMarshaler.
func (s Sizes) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Sizes) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSizes(string(text))
	return err
}

// UnmarshalJSON takes a string or a bare number.
func (s *Sizes) UnmarshalJSON(text []byte) error {
	var str string
	if json.Unmarshal(text, &str) != nil {
		str = string(text)
	}
	return s.UnmarshalText([]byte(str))
}

// bounds are the least and the largest size that may occur.
func (s *Sizes) bounds() (low, high int) {
	switch s.kind {
	case "uniform":
		return s.low, s.high
	case "normal":
		return max(1, int(s.mean-10*s.sd)), int(s.mean + 10*s.sd)
	case "mix":
		low, high = s.mix[0].size, s.mix[0].size
		for _, w := range s.mix {
			low, high = min(low, w.size), max(high, w.size)
		}
		return low, high
	}
	return s.low, s.low
}
