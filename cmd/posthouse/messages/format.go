package messages

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

// formatHelp says what a format may hold; it is kcat's -f.
const formatHelp = "%s value, %S its length, %k key, %K its length, %t topic, %p partition, %o offset,\n" +
	"%T timestamp in milliseconds, %h headers as k=v,…, %% a percent sign; \\n \\r \\t \\0 \\xNN \\\\.\n" +
	"The length of null is -1."

// format prints records as a text says: pieces of it, in order.
type format []func(dst []byte, r *kgo.Record) []byte

func parseFormat(text string) (format, error) {
	var f format
	var literal []byte
	flush := func() {
		if b := literal; len(b) > 0 {
			f = append(f, func(dst []byte, _ *kgo.Record) []byte { return append(dst, b...) })
			literal = nil
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			b, n, ok := unescape(text[i:])
			if !ok {
				return nil, cli.Usagef("--format: %.4q is no escape; known are\n%s", text[i:], formatHelp)
			}
			literal = append(literal, b)
			i += n - 1
		case '%':
			i++
			if i < len(text) && text[i] == '%' {
				literal = append(literal, '%')
				continue
			}
			verb := verbs[text[min(i, len(text)-1)]]
			if i == len(text) || verb == nil {
				return nil, cli.Usagef("--format: %.2q stands for nothing; known are\n%s", text[i-1:], formatHelp)
			}
			flush()
			f = append(f, verb)
		default:
			literal = append(literal, c)
		}
	}
	flush()
	return f, nil
}

// unescape reads the escape at the start of s and how long it is.
func unescape(s string) (b byte, n int, ok bool) {
	if len(s) < 2 {
		return 0, 0, false
	}
	switch s[1] {
	case 'n':
		return '\n', 2, true
	case 'r':
		return '\r', 2, true
	case 't':
		return '\t', 2, true
	case '0':
		return 0, 2, true
	case '\\':
		return '\\', 2, true
	case 'x':
		if len(s) >= 4 {
			v, err := strconv.ParseUint(s[2:4], 16, 8)
			return byte(v), 4, err == nil
		}
	}
	return 0, 0, false
}

// unescapeAll is a separator as the shell passes it on: \t is a tab.
func unescapeAll(flag, text string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			continue
		}
		c, n, ok := unescape(text[i:])
		if !ok {
			return "", cli.Usagef("--%s: %.4q is no escape: known are \\n \\r \\t \\0 \\xNN \\\\", flag, text[i:])
		}
		b.WriteByte(c)
		i += n - 1
	}
	return b.String(), nil
}

var verbs = map[byte]func(dst []byte, r *kgo.Record) []byte{
	's': func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Value...) },
	'S': func(dst []byte, r *kgo.Record) []byte { return appendLength(dst, r.Value) },
	'k': func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Key...) },
	'K': func(dst []byte, r *kgo.Record) []byte { return appendLength(dst, r.Key) },
	't': func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Topic...) },
	'p': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, int64(r.Partition), 10) },
	'o': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, r.Offset, 10) },
	'T': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, r.Timestamp.UnixMilli(), 10) },
	'h': appendHeaders,
}

func appendLength(dst, b []byte) []byte {
	if b == nil {
		return append(dst, "-1"...)
	}
	return strconv.AppendInt(dst, int64(len(b)), 10)
}

func appendHeaders(dst []byte, r *kgo.Record) []byte {
	for i, h := range r.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, h.Key...), '=')
		if h.Value == nil {
			dst = append(dst, "NULL"...)
		}
		dst = append(dst, h.Value...)
	}
	return dst
}

// append prints one record.
func (f format) append(dst []byte, r *kgo.Record) []byte {
	for _, piece := range f {
		dst = piece(dst, r)
	}
	return dst
}
