package messages

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

// lineMax bounds what one record of the input may hold.
const lineMax = 256 << 20

// input cuts what is read into records.
type input struct {
	keySeparator string
	delimiter    string
	null         string // stands for null; "" is no mark
	hasNull      bool
	json         bool
	whole        bool // a file is a record
	headers      []kgo.RecordHeader
	partition    int32
}

// source is one file, or standard input.
type source struct {
	name string
	in   io.ReadCloser
	size int64 // -1 is not known
}

// openSources opens files, "-" and none being standard input.
func openSources(files []string, stdin io.Reader) ([]source, error) {
	if len(files) == 0 {
		files = []string{"-"}
	}
	var sources []source
	for _, name := range files {
		if name == "-" {
			sources = append(sources, source{"standard input", io.NopCloser(stdin), -1})
			continue
		}
		f, err := os.Open(name)
		if err == nil {
			var info os.FileInfo
			if info, err = f.Stat(); err == nil && info.IsDir() {
				err = fmt.Errorf("%s is a directory", name)
			}
			if err == nil {
				size := int64(-1)
				if info.Mode().IsRegular() {
					size = info.Size()
				}
				sources = append(sources, source{name, f, size})
				continue
			}
			_ = f.Close()
		}
		closeSources(sources)
		return nil, err
	}
	return sources, nil
}

func closeSources(sources []source) {
	for _, s := range sources {
		_ = s.in.Close() // only read
	}
}

// counted counts the bytes that are read, for the progress.
type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// each calls fn with every record of a source and where it stands, until fn
// says no.
func (in *input) each(s source, read *atomic.Int64, fn func(r *kgo.Record, where string) bool) error {
	reader := counted{s.in, read}
	if in.whole {
		data, err := io.ReadAll(io.LimitReader(reader, lineMax+1))
		if err == nil && len(data) > lineMax {
			err = fmt.Errorf("more than %s", cli.Bytes(lineMax))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r, err := in.record(data)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fn(r, s.name)
		return nil
	}
	lines := bufio.NewScanner(reader)
	lines.Buffer(make([]byte, 64<<10), lineMax)
	lines.Split(in.cut)
	n := 0
	for lines.Scan() {
		n++
		where := fmt.Sprintf("%s, line %d", s.name, n)
		if in.json && len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		r, err := in.record(bytes.Clone(lines.Bytes()))
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if !fn(r, where) {
			return nil
		}
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("line %d: more than %s", n+1, cli.Bytes(lineMax))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// cut is bufio's SplitFunc for the delimiter; as with lines, what follows the
// last one is a record unless it is empty.
func (in *input) cut(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.Index(data, []byte(in.delimiter)); i >= 0 {
		return i + len(in.delimiter), data[:i:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// record makes a record of one piece of input, which it keeps.
func (in *input) record(text []byte) (*kgo.Record, error) {
	if in.json {
		r, err := parseLine(text)
		if err != nil {
			return nil, fmt.Errorf("not a record in JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
		r.Headers = append(r.Headers, in.headers...)
		if in.partition != noPartition {
			r.Partition = in.partition
		}
		return r, nil
	}
	r := &kgo.Record{Value: text, Headers: in.headers, Partition: in.partition}
	if in.keySeparator != "" {
		key, value, ok := bytes.Cut(text, []byte(in.keySeparator))
		if !ok {
			return nil, fmt.Errorf("no key: %q does not occur", in.keySeparator)
		}
		r.Key, r.Value = key, value
	}
	if r.Value == nil {
		r.Value = []byte{}
	}
	if in.hasNull {
		if string(r.Value) == in.null {
			r.Value = nil
		}
		if r.Key != nil && string(r.Key) == in.null {
			r.Key = nil
		}
	}
	return r, nil
}
