package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/posthouse/posthouse/storage/record"
)

// FoundLog is a partition directory found on disk, before it is opened.
type FoundLog struct {
	Dir     string // <log dir>/<topic>-<partition>
	TP      record.TopicPartition
	TopicID record.TopicID // zero where partition.metadata is missing
}

// Scan lists the partition directories. Directories of deleted partitions that
// a crash left are removed; what was set aside as stray, Kafka's metadata log
// and the metadata store are passed over. A partition found in two log
// directories is an error.
func (m *Manager) Scan() ([]FoundLog, error) {
	var out []FoundLog
	seen := map[record.TopicPartition]string{}
	for _, d := range m.dirs {
		entries, err := m.cfg.FS.ReadDir(d.path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			path := join(d.path, e.Name)
			switch {
			case !e.IsDir, e.Name == metaStoreDirName:
				continue
			case strings.HasSuffix(e.Name, deleteDirSuffix) && strings.Contains(e.Name, "."):
				m.cfg.Logger.Info("removing what a stop left of a deleted partition", "dir", path)
				if err := m.cfg.FS.RemoveAll(path); err != nil {
					return nil, err
				}
				continue
			case strings.HasSuffix(e.Name, strayDirSuffix), strings.HasSuffix(e.Name, futureDirSuffix):
				m.cfg.Logger.Warn("passing over a directory that was set aside", "dir", path)
				continue
			}
			tp, err := record.ParseDir(e.Name)
			if err != nil || tp.Topic == clusterMetadataTopic {
				continue // lost+found and the like
			}
			if other := seen[tp]; other != "" {
				return nil, fmt.Errorf("partition %v is in %s and in %s: one of them must go", tp, other, path)
			}
			seen[tp] = path
			id, err := readTopicID(m.cfg.FS, path)
			if err != nil {
				return nil, err
			}
			out = append(out, FoundLog{Dir: path, TP: tp, TopicID: id})
		}
	}
	return out, nil
}

// Load opens what Scan finds, num.recovery.threads.per.data.dir at a time in
// each log directory. want tells the configuration of a log; false sets the
// directory aside as a stray, by name. Each log can be had by Get once it is
// loaded. progress is called after each, from any goroutine but never twice at
// once. A log that cannot be loaded does not keep others from it: the errors
// come joined at the end.
func (m *Manager) Load(ctx context.Context, want func(FoundLog) (LogConfig, bool), progress func(done, total int)) error {
	found, err := m.Scan()
	if err != nil {
		return err
	}
	// From here on logs take appends, so the mark holds no longer.
	if err := m.removeCleanMarks(); err != nil {
		return err
	}
	for _, d := range m.dirs {
		d.state = complete // unless a loader says otherwise
	}
	byDir := map[*logDir][]FoundLog{}
	for _, f := range found {
		d := m.dirAt(f)
		byDir[d] = append(byDir[d], f)
	}
	ld := loader{m: m, ctx: ctx, want: want, progress: progress, total: len(found)}
	for d, logs := range byDir {
		queue := make(chan FoundLog, len(logs))
		for _, f := range logs {
			queue <- f
		}
		close(queue)
		for range min(m.cfg.RecoveryThreads, len(logs)) {
			ld.wg.Go(func() { ld.work(d, queue) })
		}
	}
	ld.wg.Wait()
	return errors.Join(append(ld.errs, m.markStale())...)
}

func (m *Manager) dirAt(f FoundLog) *logDir {
	for _, d := range m.dirs {
		if join(d.path, f.TP.String()) == f.Dir {
			return d
		}
	}
	panic("BUG: " + f.Dir + " is in no log directory")
}

// loader is one run of Load.
type loader struct {
	m        *Manager
	ctx      context.Context
	want     func(FoundLog) (LogConfig, bool)
	progress func(done, total int)
	total    int
	wg       sync.WaitGroup

	mu   sync.Mutex // guards what follows, logDir.state and the calls of want and progress
	done int
	errs []error
}

func (ld *loader) work(d *logDir, queue <-chan FoundLog) {
	for f := range queue {
		err := ctxErr(ld.ctx)
		if err == nil {
			err = ld.one(d, f)
		}
		ld.mu.Lock()
		ld.done++
		if err != nil {
			d.state = incomplete
			ld.errs = append(ld.errs, fmt.Errorf("loading %s: %w", f.Dir, err))
		}
		if ld.progress != nil {
			ld.progress(ld.done, ld.total)
		}
		ld.mu.Unlock()
	}
}

func (ld *loader) one(d *logDir, f FoundLog) error {
	ld.mu.Lock()
	cfg, ok := ld.want(f)
	ld.mu.Unlock()
	m := ld.m
	if !ok {
		return m.setStray(d, f.TP, f.Dir)
	}
	m.claim(f.TP)
	defer m.unclaim(f.TP)
	l := newLog(m, d, f.TP, f.TopicID, f.Dir, cfg)
	if err := l.load(d.leftAt(f.TP)); err != nil {
		l.abandon()
		return err
	}
	m.put(l)
	return nil
}

// abandon gives back what a log that could not be loaded holds.
func (l *Log) abandon() {
	l.files.Lock()
	l.gone = true
	l.files.Unlock()
	for _, s := range l.list() {
		s.retire()
	}
}

// setStray moves a directory that belongs to no topic we know out of the way.
func (m *Manager) setStray(d *logDir, tp record.TopicPartition, dir string) error {
	aside := join(d.path, asideName(tp, strayDirSuffix))
	if err := m.cfg.FS.Rename(dir, aside); err != nil {
		return err
	}
	d.isGone(tp)
	m.cfg.Logger.Warn("setting a stray partition directory aside: no topic of this cluster claims it", "dir", dir, "now", aside)
	return m.cfg.FS.SyncDir(d.path)
}

func (m *Manager) removeCleanMarks() error {
	for _, d := range m.dirs {
		name := join(d.path, cleanMarkName)
		ok, err := m.cfg.FS.Exists(name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := m.cfg.FS.Remove(name); err != nil {
			return err
		}
		if err := m.cfg.FS.SyncDir(d.path); err != nil {
			return err
		}
	}
	return nil
}

// markStale notes the checkpoint entries of partitions that are not there.
func (m *Manager) markStale() error {
	for _, d := range m.dirs {
		d.writing.Lock()
		for _, offsets := range []map[record.TopicPartition]record.Offset{d.recovery, d.start, d.replication} {
			for tp := range offsets {
				if m.Get(tp) != nil {
					continue
				}
				// One that is there but could not be loaded keeps its entries.
				ok, err := m.cfg.FS.Exists(join(d.path, tp.String()))
				if err != nil {
					d.writing.Unlock()
					return err
				}
				if !ok {
					d.markGone(tp)
				}
			}
		}
		d.writing.Unlock()
	}
	return nil
}
