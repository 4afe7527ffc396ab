package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Type is the type of a key's value; the numbers are those of DescribeConfigs
// (KIP-569).
type Type int8

// The types of Kafka's ConfigDef.
const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3 // 32 bits
	Short    Type = 4 // 16 bits
	Long     Type = 5 // 64 bits
	Double   Type = 6
	List     Type = 7 // comma separated
	Class    Type = 8
	Password Type = 9
)

var typeNames = [...]string{Boolean: "BOOLEAN", String: "STRING", Int: "INT", Short: "SHORT", Long: "LONG", Double: "DOUBLE", List: "LIST", Class: "CLASS", Password: "PASSWORD"}

// String returns Kafka's name of the type.
func (t Type) String() string {
	if t <= 0 || int(t) >= len(typeNames) {
		return "UNKNOWN"
	}
	return typeNames[t]
}

// Source says where a value comes from; the numbers are those of
// DescribeConfigs.
type Source int8

// The sources, first wins where several hold a key.
const (
	SourceTopic          Source = 1 // the topic's own override
	SourceDynamicBroker  Source = 2 // IncrementalAlterConfigs on one broker
	SourceDynamicDefault Source = 3 // IncrementalAlterConfigs on broker ""
	SourceStatic         Source = 4 // file, environment, --override
	SourceDefault        Source = 5
)

// Update says whether and where a broker key can be changed at run time.
type Update int8

// The update modes of Kafka's broker configs.
const (
	ReadOnly    Update = iota // at start only
	PerBroker                 // on one broker at a time
	ClusterWide               // on one broker or on all
)

// Synonym is a broker key that stands behind another key. The broker key's
// number times Scale is the value in the unit of the key in front.
type Synonym struct {
	Name  string
	Scale int64
}

// Definition describes one key.
type Definition struct {
	Name    string
	Type    Type
	Default string // as text; without meaning where Null
	Null    bool   // the default is no value
	Doc     string
	Update  Update // broker keys
	// Synonyms are the broker keys behind a topic key, first wins; behind a
	// broker key, the chain it belongs to, itself included.
	Synonyms []Synonym
	// Internal keys are accepted and not described.
	Internal bool
	// Inert keys are accepted, kept and described and change nothing here.
	Inert bool

	check check
}

// Allowed states the valid values, as Kafka's documentation does; empty where
// every value of the type is valid.
func (d *Definition) Allowed() string { return d.check.allowed }

// Sensitive reports whether values of the key are never shown.
func (d *Definition) Sensitive() bool { return d.Type == Password }

// Value is a parsed value.
type Value struct {
	Type Type
	Null bool
	Int  int64 // Short, Int, Long
	Num  float64
	Bool bool
	Str  string // String, Class, Password
	List []string
}

// String renders the value as Kafka's ConfigDef.convertToString does.
func (v Value) String() string {
	switch v.Type {
	case Boolean:
		return strconv.FormatBool(v.Bool)
	case Short, Int, Long:
		return strconv.FormatInt(v.Int, 10)
	case Double:
		return formatDouble(v.Num)
	case List:
		return strings.Join(v.List, ",")
	default:
		return v.Str
	}
}

// formatDouble writes a double as Java does in the cases that configs meet.
func formatDouble(f float64) string {
	if math.IsNaN(f) {
		return "NaN"
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-3 || abs >= 1e7) {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		e, _ := strconv.Atoi(exponent)
		return mantissa + "E" + strconv.Itoa(e)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// Error is a known key with a value that is not allowed. Its text is Kafka's.
type Error struct {
	Key, Value string
	Reason     string
	Text       string // the whole text, where it has another form
}

func (e *Error) Error() string {
	if e.Text != "" {
		return e.Text
	}
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", e.Value, e.Key, e.Reason)
}

// Parse reads a value and checks it. The error is an [*Error].
func (d *Definition) Parse(raw string) (Value, error) {
	v, reason := parseValue(d.Type, strings.TrimSpace(raw))
	var bad *Error
	if reason != "" {
		bad = refuse(d.Name, raw, "%s", reason)
	} else if d.check.fail != nil {
		bad = d.check.fail(d.Name, v)
	}
	if bad == nil {
		return v, nil
	}
	if d.Sensitive() {
		bad.Value = "[hidden]"
	}
	return Value{}, bad
}

// DefaultValue returns the default as a value.
func (d *Definition) DefaultValue() Value {
	if d.Null {
		return Value{Type: d.Type, Null: true}
	}
	v, reason := parseValue(d.Type, d.Default)
	if reason != "" {
		panic("BUG: default of " + d.Name + ": " + reason)
	}
	return v
}

// parseValue reads the text of a value of type t; reason is empty on success.
func parseValue(t Type, s string) (v Value, reason string) {
	v.Type = t
	var err error
	switch t {
	case Boolean:
		switch strings.ToLower(s) {
		case "true":
			v.Bool = true
		case "false":
		default:
			return v, "Expected value to be either true or false"
		}
	case Short:
		v.Int, err = parseInt(s, 16)
	case Int:
		v.Int, err = parseInt(s, 32)
	case Long:
		v.Int, err = parseInt(s, 64)
	case Double:
		if v.Num, err = strconv.ParseFloat(s, 64); math.IsInf(v.Num, 0) {
			err = strconv.ErrRange
		}
	case List:
		v.List = SplitList(s)
	default:
		v.Str = s
	}
	if err != nil {
		return v, "Not a number of type " + t.String()
	}
	return v, ""
}

// parseInt reads a decimal integer, as Java's parsers do: a sign and digits.
func parseInt(s string, bits int) (int64, error) {
	if strings.Contains(s, "_") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(s, 10, bits)
}

// SplitList cuts a comma-separated list and trims its elements. Empty text is
// an empty list; empty elements stay.
func SplitList(s string) []string {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil
	}
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
