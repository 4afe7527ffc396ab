package replication

import (
	"path/filepath"
	"slices"

	"github.com/posthouse/posthouse/replication/meta"
)

// LogDirs describes this node's log directories and the replicas in them,
// sorted by partition (DescribeLogDirs).
func (m *Manager) LogDirs() []meta.LogDir {
	dirs := m.cfg.Storage.Dirs()
	out := make([]meta.LogDir, len(dirs))
	at := make(map[string]*meta.LogDir, len(dirs))
	for i, d := range dirs {
		out[i] = meta.LogDir{Path: d.Path, Err: d.Err, Total: d.Total, Usable: d.Free}
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
				d.Replicas = append(d.Replicas, meta.ReplicaSize{TP: p.tp, Bytes: log.SizeBytes(), OffsetLag: int64(max(o.HW-o.LEO, 0))})
			}
		}
	}
	for i := range out {
		slices.SortFunc(out[i].Replicas, func(a, b meta.ReplicaSize) int { return compareTPs(a.TP, b.TP) })
	}
	return out
}
