package config

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxPropertiesBytes bounds a properties file; a larger one is no configuration.
const MaxPropertiesBytes = 4 << 20

// ParseProperties reads a file in the syntax of java.util.Properties: '#' and
// '!' comments, '\' line continuation, '=', ':' or white space between key and
// value, the escapes \t \n \r \f \uXXXX (surrogate pairs included) and \c = c.
// The last of several values of one key wins, as in Java. Files are UTF-8; a
// byte that is not is read as ISO 8859-1, which is what Java assumes. name
// stands in front of errors, with the line.
func ParseProperties(r io.Reader, name string) (map[string]string, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxPropertiesBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > MaxPropertiesBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, MaxPropertiesBytes)
	}
	properties := make(map[string]string)
	lines := logicalLines{in: bufio.NewScanner(strings.NewReader(toUTF8(data)))}
	lines.in.Buffer(nil, 2*MaxPropertiesBytes+2)
	lines.in.Split(splitLines)
	for {
		line, number, ok := lines.next()
		if !ok {
			break
		}
		rawKey, rawValue := splitKey(line)
		key, err := unescape(rawKey)
		if err == nil {
			var value string
			if value, err = unescape(rawValue); err == nil {
				properties[key] = value
				continue
			}
		}
		return nil, fmt.Errorf("%s:%d: %w", name, number, err)
	}
	if err := lines.in.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return properties, nil
}

// toUTF8 keeps valid UTF-8 and turns everything else into the code points of
// ISO 8859-1.
func toUTF8(data []byte) string {
	s := strings.TrimPrefix(string(data), "\ufeff")
	if utf8.ValidString(s) {
		return s
	}
	out := make([]rune, len(data))
	for i, c := range data {
		out[i] = rune(c)
	}
	return string(out)
}

// splitLines is a bufio.SplitFunc for \n, \r and \r\n.
func splitLines(data []byte, atEOF bool) (int, []byte, error) {
	for i, c := range data {
		switch {
		case c == '\n':
			return i + 1, data[:i], nil
		case c == '\r' && i+1 < len(data):
			if data[i+1] == '\n' {
				return i + 2, data[:i], nil
			}
			return i + 1, data[:i], nil
		case c == '\r' && atEOF:
			return i + 1, data[:i], nil
		}
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// logicalLines joins continued lines and leaves out comments and blank ones.
type logicalLines struct {
	in     *bufio.Scanner
	number int
}

// next returns the next logical line and the number of its first natural line.
func (l *logicalLines) next() (line string, first int, ok bool) {
	for l.in.Scan() {
		l.number++
		natural := strings.TrimLeft(l.in.Text(), " \t\f")
		if natural == "" || natural[0] == '#' || natural[0] == '!' {
			continue
		}
		first = l.number
		var joined strings.Builder
		for continued(natural) {
			joined.WriteString(natural[:len(natural)-1])
			if !l.in.Scan() {
				natural = ""
				break
			}
			l.number++
			natural = strings.TrimLeft(l.in.Text(), " \t\f")
		}
		joined.WriteString(natural)
		return joined.String(), first, true
	}
	return "", 0, false
}

// continued reports whether a line ends in an odd number of backslashes.
func continued(line string) bool {
	n := 0
	for n < len(line) && line[len(line)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// splitKey cuts a logical line at its first separator that is not escaped. One
// '=' or ':' may follow the white space that ends a key.
func splitKey(line string) (key, value string) {
	end, escaped := len(line), false
	for i := 0; i < len(line); i++ {
		c := line[i]
		if !escaped && (c == '=' || c == ':' || c == ' ' || c == '\t' || c == '\f') {
			end = i
			break
		}
		escaped = c == '\\' && !escaped
	}
	key, value = line[:end], strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return key, value
}

var errUnicodeEscape = errors.New(`malformed \uXXXX escape`)

// unescape resolves the backslash escapes of a key or a value.
func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			break // a lone backslash at the end of the file
		}
		switch s[i] {
		case 't':
			out.WriteByte('\t')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 'f':
			out.WriteByte('\f')
		case 'u':
			unit, ok := hex4(s[i+1:])
			if !ok {
				return "", errUnicodeEscape
			}
			i += 4
			r := rune(unit)
			if utf16.IsSurrogate(r) && strings.HasPrefix(s[i+1:], `\u`) {
				if low, ok := hex4(s[i+3:]); ok {
					if pair := utf16.DecodeRune(r, rune(low)); pair != utf8.RuneError {
						r = pair
						i += 6
					}
				}
			}
			out.WriteRune(r)
		default:
			out.WriteByte(s[i])
		}
	}
	return out.String(), nil
}

// hex4 reads four hexadecimal digits.
func hex4(s string) (v uint16, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for _, c := range []byte(s[:4]) {
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | uint16(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | uint16(c-'a'+10)
		case 'A' <= c && c <= 'F':
			v = v<<4 | uint16(c-'A'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
