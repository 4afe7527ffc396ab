package results

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A FileError names a file that cannot be read as results, and where in it.
type FileError struct {
	File string
	// Line and Column are from 1, Offset is in bytes from 0 (of the JSON, after
	// decompression); all 0 where the trouble has no place.
	Line, Column int
	Offset       int64
	Err          error
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d:%d (byte %d): %v", e.File, e.Line, e.Column, e.Offset, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// ErrNewerSchema is wrapped in what Read says of a file that a later version of
// this program wrote.
var ErrNewerSchema = errors.New("newer schema")

// ErrNotResults is wrapped in what Read says of JSON that is something else.
var ErrNotResults = errors.New("no result of posthouse load or bench")

// Write writes one run, whole or not at all, gzipped where the name ends in
// .gz. It refuses a run that Validate refuses.
func (r *Run) Write(path string) error {
	if r.SchemaVersion == 0 {
		r.SchemaVersion = SchemaVersion
	}
	if err := r.Validate(); err != nil {
		return fmt.Errorf("%s: not written: %w", path, err)
	}
	return writeJSON(path, r)
}

// Write writes a set as Run.Write does.
func (s *Set) Write(path string) error {
	if s.SchemaVersion == 0 {
		s.SchemaVersion = SchemaVersion
	}
	for _, r := range s.Runs {
		if r.SchemaVersion == 0 {
			r.SchemaVersion = SchemaVersion
		}
		if err := r.Validate(); err != nil {
			return fmt.Errorf("%s: not written: %w", path, err)
		}
	}
	return writeJSON(path, s)
}

func writeJSON(path string, v any) (err error) {
	var out bytes.Buffer
	var w io.Writer = &out
	var packer *gzip.Writer
	if strings.HasSuffix(path, ".gz") {
		packer, _ = gzip.NewWriterLevel(&out, gzip.BestCompression)
		w = packer
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if packer != nil {
		if err := packer.Close(); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return WriteFile(path, out.Bytes())
}

// WriteFile replaces a file whole or not at all: what cannot be written leaves
// the old one.
func WriteFile(path string, data []byte) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Chmod(0o644)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// Read reads the one run of a file.
func Read(path string) (*Run, error) {
	set, err := ReadSet(path)
	if err != nil {
		return nil, err
	}
	if len(set.Runs) != 1 {
		return nil, &FileError{File: path, Err: fmt.Errorf("%d runs where one was expected", len(set.Runs))}
	}
	return set.Runs[0], nil
}

// ReadSet reads a file that holds one run or a set. Every run then has its
// environment.
func ReadSet(path string) (*Set, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

func parse(path string, data []byte) (*Set, error) {
	data, err := unpack(data)
	if err != nil {
		return nil, &FileError{File: path, Err: err}
	}
	var head struct {
		SchemaVersion *int            `json:"schemaVersion"`
		Runs          json.RawMessage `json:"runs"`
		Workload      json.RawMessage `json:"workload"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, place(path, data, err)
	}
	switch {
	case head.SchemaVersion == nil || *head.SchemaVersion < 1 || (head.Runs == nil && head.Workload == nil):
		return nil, &FileError{File: path, Err: ErrNotResults}
	case *head.SchemaVersion > SchemaVersion:
		return nil, &FileError{File: path, Err: fmt.Errorf("%w: version %d; this posthouse reads up to %d: use the one that wrote it",
			ErrNewerSchema, *head.SchemaVersion, SchemaVersion)}
	}
	set := &Set{SchemaVersion: *head.SchemaVersion}
	if head.Runs != nil {
		err = json.Unmarshal(data, set)
	} else {
		run := new(Run)
		err = json.Unmarshal(data, run)
		set.Runs, set.Environment = []*Run{run}, run.Environment
	}
	if err != nil {
		return nil, place(path, data, err)
	}
	return set, set.settle(path)
}

// settle gives every run its environment and checks it.
func (s *Set) settle(path string) error {
	for i, r := range s.Runs {
		if r == nil {
			return &FileError{File: path, Err: fmt.Errorf("run %d is null", i)}
		}
		if r.Environment == nil {
			r.Environment = s.Environment
		}
		if r.SchemaVersion > SchemaVersion {
			return &FileError{File: path, Err: fmt.Errorf("%w: run %q has version %d; this posthouse reads up to %d",
				ErrNewerSchema, r.ID, r.SchemaVersion, SchemaVersion)}
		}
		if err := r.Validate(); err != nil {
			return &FileError{File: path, Err: err}
		}
	}
	return nil
}

// maxUnpacked bounds what a gzipped file may become.
const maxUnpacked = 1 << 30

func unpack(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(reader, maxUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("after %d bytes: %w", len(plain), err)
	}
	if len(plain) > maxUnpacked {
		return nil, fmt.Errorf("more than %d MiB", maxUnpacked>>20)
	}
	return plain, nil
}

// place finds line and column of what encoding/json complains about.
func place(path string, data []byte, err error) error {
	offset := int64(-1)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		// The offset counts the byte at fault.
		offset = max(syntax.Offset-1, 0)
	case errors.As(err, &kind):
		offset = kind.Offset
		err = fmt.Errorf("%s: a %s where %s was expected", kind.Field, kind.Value, kind.Type)
	}
	if offset < 0 {
		return &FileError{File: path, Err: err}
	}
	before := data[:min(offset, int64(len(data)))]
	return &FileError{
		File:   path,
		Line:   1 + bytes.Count(before, []byte("\n")),
		Column: len(before) - (bytes.LastIndexByte(before, '\n') + 1) + 1,
		Offset: offset,
		Err:    err,
	}
}

// ReadAll reads the named files, and of a directory all *.json and *.json.gz
// below it that are results; other JSON in a directory is left alone, anything
// that is named and cannot be read is an error. Runs come in order of time; the
// same run found twice is one.
func ReadAll(paths ...string) ([]*Run, error) {
	var runs []*Run
	seen := make(map[string]string)
	for _, path := range paths {
		files, err := resultFiles(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			set, err := ReadSet(file)
			if errors.Is(err, ErrNotResults) && file != path {
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, r := range set.Runs {
				if _, twice := seen[r.ID]; !twice {
					seen[r.ID] = file
					runs = append(runs, r)
				}
			}
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("no results in %s", strings.Join(paths, ", "))
	}
	slices.SortStableFunc(runs, func(a, b *Run) int { return a.StartedAt.Compare(b.StartedAt) })
	return runs, nil
}

func resultFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		plain := strings.TrimSuffix(entry.Name(), ".gz")
		if entry.Type().IsRegular() && strings.HasSuffix(plain, ".json") && !strings.HasPrefix(plain, ".") {
			files = append(files, name)
		}
		return nil
	})
	return files, err
}
