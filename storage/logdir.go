package storage

import (
	"fmt"
	"sort"
	"strings"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// segmentFiles is what a partition directory holds of one segment.
type segmentFiles struct {
	base          record.Offset
	logSize       int64
	modTimeMs     int64
	indexSize     int64 // −1 if missing
	timeIndexSize int64 // −1 if missing
	txnIndexSize  int64 // −1 if missing
}

// logFiles is the content of a partition directory.
type logFiles struct {
	segments  []*segmentFiles // by base offset
	snapshots []record.Offset // ascending
	prepared  int64           // size of a prepared file, −1 if there is none
	leftovers []string        // files of no use to anybody, by name
}

// readLogFiles looks a partition directory through. Files that are none of a
// log's are left alone. A compaction that Kafka was about to put in place
// (.swap) is refused: only Kafka knows which files it replaces.
func readLogFiles(fsys vfs.FS, dir string) (*logFiles, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	f := &logFiles{prepared: -1}
	segments := map[record.Offset]*segmentFiles{}
	indexes := map[string]map[record.Offset]int64{indexSuffix: {}, timeIndexSuffix: {}, txnIndexSuffix: {}}
	for _, e := range entries {
		switch {
		case e.IsDir:
		case e.Name == preparedName:
			f.prepared = e.Size
		case strings.HasSuffix(e.Name, deletedSuffix), strings.HasSuffix(e.Name, cleanedSuffix), strings.HasSuffix(e.Name, tempSuffix):
			f.leftovers = append(f.leftovers, e.Name)
		case strings.HasSuffix(e.Name, swapSuffix):
			return nil, fmt.Errorf("%s: the compaction that left this file must be completed by the broker that began it", join(dir, e.Name))
		default:
			if base, ok := parseSegmentName(e.Name, logSuffix); ok {
				segments[base] = &segmentFiles{base: base, logSize: e.Size, modTimeMs: e.ModTime.UnixMilli(),
					indexSize: -1, timeIndexSize: -1, txnIndexSize: -1}
			} else if at, ok := parseSegmentName(e.Name, snapshotSuffix); ok {
				f.snapshots = append(f.snapshots, at)
			}
			for suffix, sizes := range indexes {
				if base, ok := parseSegmentName(e.Name, suffix); ok {
					sizes[base] = e.Size
				}
			}
		}
	}
	for suffix, sizes := range indexes {
		for base, size := range sizes {
			s := segments[base]
			if s == nil {
				f.leftovers = append(f.leftovers, segmentName(base, suffix))
				continue
			}
			switch suffix {
			case indexSuffix:
				s.indexSize = size
			case timeIndexSuffix:
				s.timeIndexSize = size
			default:
				s.txnIndexSize = size
			}
		}
	}
	for _, s := range segments {
		f.segments = append(f.segments, s)
	}
	sort.Slice(f.segments, func(i, j int) bool { return f.segments[i].base < f.segments[j].base })
	sort.Slice(f.snapshots, func(i, j int) bool { return f.snapshots[i] < f.snapshots[j] })
	sort.Strings(f.leftovers)
	return f, nil
}

// removeLeftovers removes what a crash left and nobody needs.
func (f *logFiles) removeLeftovers(fsys vfs.FS, dir string) error {
	for _, name := range f.leftovers {
		if err := fsys.Remove(join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// latestSnapshot is the greatest snapshot at or below an offset.
func (f *logFiles) latestSnapshot(o record.Offset) (record.Offset, bool) {
	i := sort.Search(len(f.snapshots), func(i int) bool { return f.snapshots[i] > o })
	if i == 0 {
		return 0, false
	}
	return f.snapshots[i-1], true
}

// dropSnapshot forgets a snapshot.
func (f *logFiles) dropSnapshot(o record.Offset) {
	for i, s := range f.snapshots {
		if s == o {
			f.snapshots = append(f.snapshots[:i], f.snapshots[i+1:]...)
			return
		}
	}
}
