package storage

import (
	"bytes"
	"errors"
	"io/fs"
	"sort"
	"strconv"
	"strings"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// Checkpoints are Kafka's CheckpointFile: lines of text, the first a version
// (0), the second the number of entries, then an entry a line. They are
// replaced whole (temporary file, sync, rename, directory sync), so a reader
// that finds anything else has found damage.

const checkpointVersion = 0

// maxCheckpointBytes bounds what a damaged or foreign file can make us read.
const maxCheckpointBytes = 256 << 20

// parseCheckpoint splits a checkpoint into the fields of its entries. An empty
// file has none, as Kafka creates its checkpoints empty.
func parseCheckpoint(name string, data []byte, fields int, entry func(f [][]byte) error) error {
	if len(data) == 0 {
		return nil
	}
	if len(data) > maxCheckpointBytes {
		return corrupt(name, 0, "%d bytes are no checkpoint", len(data))
	}
	pos := 0
	line := func() ([]byte, bool) {
		if pos >= len(data) {
			return nil, false
		}
		rest := data[pos:]
		n := bytes.IndexByte(rest, '\n')
		if n < 0 {
			n = len(rest)
		}
		pos += n + 1
		return bytes.TrimSuffix(rest[:n], []byte{'\r'}), true
	}
	first, _ := line()
	if v, err := strconv.Atoi(string(first)); err != nil || v != checkpointVersion {
		return corrupt(name, 0, "version %.20q, want %d", first, checkpointVersion)
	}
	second, ok := line()
	if !ok {
		return nil
	}
	want, err := strconv.Atoi(string(second))
	if err != nil || want < 0 {
		return corrupt(name, 0, "number of entries %.20q", second)
	}
	got := 0
	for {
		at := pos
		l, ok := line()
		if !ok {
			break
		}
		f := bytes.Fields(l)
		if len(f) != fields {
			return corrupt(name, int64(at), "entry %.80q has %d fields, want %d", l, len(f), fields)
		}
		if err := entry(f); err != nil {
			return corrupt(name, int64(at), "entry %.80q: %w", l, err)
		}
		got++
	}
	if got != want {
		return corrupt(name, int64(pos), "%d entries, want %d", got, want)
	}
	return nil
}

// formatCheckpoint is the text of a checkpoint with these entries.
func formatCheckpoint(entries []string) []byte {
	var b bytes.Buffer
	b.WriteString(strconv.Itoa(checkpointVersion))
	b.WriteByte('\n')
	b.WriteString(strconv.Itoa(len(entries)))
	b.WriteByte('\n')
	for _, e := range entries {
		b.WriteString(e)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// readOffsets reads an offset checkpoint: topic, partition and offset a line.
// A missing file is an empty one.
func readOffsets(fsys vfs.FS, name string) (map[record.TopicPartition]record.Offset, error) {
	data, err := fsys.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return parseOffsets(name, data)
}

func parseOffsets(name string, data []byte) (map[record.TopicPartition]record.Offset, error) {
	out := map[record.TopicPartition]record.Offset{}
	err := parseCheckpoint(name, data, 3, func(f [][]byte) error {
		p, err := strconv.ParseInt(string(f[1]), 10, 32)
		if err != nil {
			return err
		}
		o, err := strconv.ParseInt(string(f[2]), 10, 64)
		if err != nil {
			return err
		}
		if p < 0 || o < 0 {
			return errors.New("negative partition or offset")
		}
		out[record.TopicPartition{Topic: string(f[0]), Partition: int32(p)}] = record.Offset(o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// formatOffsets is the text of an offset checkpoint, sorted so that equal
// state gives equal files.
func formatOffsets(offsets map[record.TopicPartition]record.Offset) []byte {
	tps := make([]record.TopicPartition, 0, len(offsets))
	for tp := range offsets {
		tps = append(tps, tp)
	}
	sort.Slice(tps, func(i, j int) bool {
		if c := strings.Compare(tps[i].Topic, tps[j].Topic); c != 0 {
			return c < 0
		}
		return tps[i].Partition < tps[j].Partition
	})
	lines := make([]string, len(tps))
	for i, tp := range tps {
		lines[i] = tp.Topic + " " + strconv.Itoa(int(tp.Partition)) + " " + strconv.FormatInt(int64(offsets[tp]), 10)
	}
	return formatCheckpoint(lines)
}
