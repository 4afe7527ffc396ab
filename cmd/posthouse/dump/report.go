package dump

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
	"github.com/posthouse/posthouse/storage"
)

// report is where a dump goes: lines for people, or a JSON value a line.
type report struct {
	out    io.Writer
	json   bool
	silent bool // items are left out: a verification shows what is wrong alone

	problems []problem
	files    int
	batches  int64
	records  int64
	bytes    int64
	err      error // the first of writing
}

// problem is something that must not be.
type problem struct {
	File     string `json:"file"`
	Position int64  `json:"position"`
	Text     string `json:"problem"`
}

func (p problem) String() string {
	return fmt.Sprintf("%s: at byte %d: %s", p.File, p.Position, p.Text)
}

// file begins a file.
func (r *report) file(path, what string) {
	r.files++
	if !r.silent && !r.json {
		r.print("%s: %s\n", path, what)
	}
}

// item is a piece of a file: a line of text, or its members in JSON.
func (r *report) item(path, kind string, line func() string, members func() object) {
	if r.silent {
		return
	}
	if r.json {
		r.encode(append(object{{"file", path}, {"kind", kind}}, members()...))
		return
	}
	r.print("  %s\n", cli.Printable(line()))
}

// problem notes what is wrong, and where.
func (r *report) problem(path string, position int64, format string, args ...any) {
	p := problem{path, position, fmt.Sprintf(format, args...)}
	r.problems = append(r.problems, p)
	if r.json {
		r.encode(p)
		return
	}
	r.print("%sPROBLEM %v\n", map[bool]string{true: "", false: "  "}[r.silent], p)
}

// failure notes an error of reading a file, with the position that it names.
func (r *report) failure(path string, err error) {
	var corrupt *storage.CorruptionError
	if errors.As(err, &corrupt) {
		r.problem(path, int64(corrupt.Position), "%v", corrupt.Err)
		return
	}
	r.problem(path, 0, "%v", err)
}

// note is something to know that is no problem.
func (r *report) note(path string, position int64, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.item(path, "note", func() string { return fmt.Sprintf("note: at byte %d: %s", position, text) },
		func() object { return object{{"position", position}, {"note", text}} })
}

func (r *report) print(format string, args ...any) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.out, format, args...)
	}
}

func (r *report) encode(value any) {
	if r.err != nil {
		return
	}
	text, err := json.Marshal(value)
	if err == nil {
		_, err = r.out.Write(append(text, '\n'))
	}
	r.err = err
}
