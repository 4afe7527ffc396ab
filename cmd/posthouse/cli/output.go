package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is what people read: a head, rows, and columns as wide as they must be.
type Table struct {
	Head []string
	Rows [][]string
	// Right says which columns are numbers.
	Right []bool
}

// NewTable makes one; a column whose name begins with '>' is set flush right.
func NewTable(head ...string) *Table {
	t := &Table{}
	for _, h := range head {
		name, right := strings.CutPrefix(h, ">")
		t.Head, t.Right = append(t.Head, name), append(t.Right, right)
	}
	return t
}

// Row adds a row; cells are printed as fmt prints them.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Printable(fmt.Sprint(c))
	}
	t.Rows = append(t.Rows, row)
}

// gap is between two columns.
const gap = "  "

// widthMax bounds the columns, in characters: one name of 32 KiB, which anybody
// may give a group, must not make every line that long. A longer cell pushes the
// rest of its own line aside.
const widthMax = 80

// Write prints the table.
func (t *Table) Write(w io.Writer) error {
	widths := make([]int, len(t.Head))
	measure := func(row []string) {
		for i, cell := range row {
			widths[i] = max(widths[i], min(utf8.RuneCountInString(cell), widthMax))
		}
	}
	measure(t.Head)
	for _, row := range t.Rows {
		measure(row)
	}
	out := bufio.NewWriter(w) // keeps the first error
	t.writeRow(out, t.Head, widths)
	for _, row := range t.Rows {
		t.writeRow(out, row, widths)
	}
	return out.Flush()
}

func (t *Table) writeRow(out *bufio.Writer, row []string, widths []int) {
	var line strings.Builder
	for i, cell := range row {
		if i > 0 {
			line.WriteString(gap)
		}
		pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
		if t.Right[i] {
			line.WriteString(pad + cell)
		} else {
			line.WriteString(cell + pad)
		}
	}
	out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// Printable keeps names and values that others chose from moving a terminal's
// cursor: what is no text is shown as Go would quote it.
func Printable(s string) string {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			quoted := fmt.Sprintf("%q", s)
			return quoted[1 : len(quoted)-1]
		}
	}
	return s
}

// WriteJSON prints one value.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// Bytes is a size as people read it: 1.5 GiB.
func Bytes(n int64) string {
	if n < 0 {
		return "unknown"
	}
	const step = 1 << 10
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	value, unit := float64(n)/step, 0
	for value >= step && unit < len(units)-1 {
		value, unit = value/step, unit+1
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// Int32s is a list of numbers for a cell.
func Int32s(ns []int32) string {
	if len(ns) == 0 {
		return "-"
	}
	var b strings.Builder
	for i, n := range ns {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, n)
	}
	return b.String()
}

// OrDash is a cell that may be empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Count is a number with its noun: 1 topic, 2 topics.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// SortedNames are the keys of a table that is looked up by name.
func SortedNames[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
