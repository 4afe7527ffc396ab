package replication

import (
	"path/filepath"
	"slices"

	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
)

// LogDir is one log directory and what this node keeps in it.
type LogDir struct {
	storage.DirInfo
	Replicas []DirReplica // sorted by partition
}

// DirReplica is one log in a directory (DescribeLogDirs).
type DirReplica struct {
	record.TopicPartition
	SizeBytes int64
	// OffsetLag is how far the log's end is behind the HW.
	OffsetLag int64
}

// LogDirs describes the directories.
func (m *Manager) LogDirs() []LogDir {
	dirs := m.cfg.Storage.Dirs()
	out := make([]LogDir, len(dirs))
	at := make(map[string]*LogDir, len(dirs))
	for i, d := range dirs {
		out[i].DirInfo = d
		at[filepath.Clean(d.Path)] = &out[i]
	}
	for _, t := range m.index.Load().byName {
		for _, p := range t.Partitions {
			if p == nil {
				continue
			}
			log := p.Log()
			if log == nil {
				continue
			}
			if d := at[filepath.Dir(filepath.Clean(log.Dir()))]; d != nil {
				o := p.Offsets()
				d.Replicas = append(d.Replicas, DirReplica{p.tp, log.SizeBytes(), int64(max(o.HW-o.LEO, 0))})
			}
		}
	}
	for i := range out {
		slices.SortFunc(out[i].Replicas, func(a, b DirReplica) int { return compareTPs(a.TopicPartition, b.TopicPartition) })
	}
	return out
}
