package config

import (
	"errors"
	"io"
	"maps"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseProperties(t *testing.T) {
	tests := []struct {
		text string
		want map[string]string
	}{
		{"", nil},
		{"a=1\nb:2\nc 3\n", p("a=1", "b=2", "c=3")},
		{"a = 1\n b\t:\t2\nc  3  ", p("a=1", "b=2", "c=3  ")},
		{"# no\n! no\n  # no\n\n \t\f\na=#yes", p("a=#yes")},
		{"a=1\r\nb=2\rc=3", p("a=1", "b=2", "c=3")},
		{"a=one,\\\n   two,\\\n\tthree\nb=x", p("a=one,two,three", "b=x")},
		{"a=x\\\\\nb=y", p("a=x\\", "b=y")},
		{"a=x\\", p("a=x")},
		{"a=1\\\n# not a comment", p("a=1# not a comment")},
		{"# comment \\\nb=2", p("b=2")},
		{"a", p("a=")},
		{"a=", p("a=")},
		{"=v", map[string]string{"": "v"}},
		{"a==b", p("a==b")},
		{"a=:b", p("a=:b")},
		{"a : = b", p("a== b")},
		{"key\\=with\\:all\\ kinds=v", map[string]string{"key=with:all kinds": "v"}},
		{`a=\t\n\r\f\q\\`, map[string]string{"a": "\t\n\r\fq\\"}},
		{`a=\u0041\u00e9 \uD83D\uDE00`, map[string]string{"a": "Aé 😀"}},
		{`a=\uD83Dx`, map[string]string{"a": "\uFFFDx"}},
		{"a=1\na=2", p("a=2")},
		{"\ufeffa=1", p("a=1")},
		{"a=caf\xe9", p("a=café")}, // ISO 8859-1
		{"a=café", p("a=café")},
	}
	for _, tt := range tests {
		got, err := ParseProperties(strings.NewReader(tt.text), "x")
		if err != nil || !maps.Equal(got, tt.want) {
			t.Errorf("%q: got %q, %v; want %q", tt.text, got, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		"a=1\nb=\\\n\\u00g0": `server.properties:2: malformed \uXXXX escape`,
		"b=\\u12":            `server.properties:1: malformed \uXXXX escape`,
	} {
		if _, err := ParseProperties(strings.NewReader(text), "server.properties"); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if _, err := ParseProperties(io.LimitReader(zeros{}, MaxPropertiesBytes+1), "big"); err == nil {
		t.Error("a file without end is accepted")
	}
	if _, err := ParseProperties(zeros{errors.New("no disk")}, "x"); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("a read error: %v", err)
	}
}

// zeros reads as spaces without end, or fails.
type zeros struct{ err error }

func (z zeros) Read(b []byte) (int, error) {
	if z.err != nil {
		return 0, z.err
	}
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// FuzzParseProperties parses anything, and parses what it gave once more.
func FuzzParseProperties(f *testing.F) {
	stock, err := os.ReadFile("testdata/server.properties")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(stock))
	for _, seed := range []string{"", "a=1\nb:2\nc 3", "a=\\u00e9\\\n  x", "# c\\\n!d\r\ne\\ f=g", "\ufeffa\\=b==c", "a=\xff", "=", "\\", `\uD83D\uDE00`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseProperties(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		var out strings.Builder
		for key, value := range got {
			if !utf8.ValidString(key) || !utf8.ValidString(value) {
				t.Fatalf("%q: %q is not UTF-8", text, key+"="+value)
			}
			out.WriteString(escape(key) + "=" + escape(value) + "\n")
		}
		again, err := ParseProperties(strings.NewReader(out.String()), "again")
		if err != nil || !maps.Equal(got, again) {
			t.Fatalf("%q gave %q and then %q, %v", text, got, again, err)
		}
		if b, _, err := Load(got, nil); err == nil && len(b.Listeners) == 0 {
			t.Fatalf("%q loads without a listener", text)
		}
	})
}

// escape writes a key or a value as a properties file has it.
func escape(s string) string {
	var out strings.Builder
	for _, r := range s {
		switch r {
		case '\n':
			out.WriteString(`\n`)
		case '\r':
			out.WriteString(`\r`)
		case '\t':
			out.WriteString(`\t`)
		case '\f':
			out.WriteString(`\f`)
		case ' ', '=', ':', '#', '!', '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
