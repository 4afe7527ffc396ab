package storage

import (
	"errors"
	"fmt"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// Create makes the log of a new partition, in the log directory with the
// fewest. If it is there under the same topic id, that log is the answer; one
// of another id, which a deleted topic of the same name has left, is set aside
// as a stray. Worker context.
//
// The directory is filled under the name of one to be deleted and then
// renamed, so that a crash half way leaves nothing that looks like a partition.
func (m *Manager) Create(tp record.TopicPartition, id record.TopicID, cfg LogConfig) (*Log, error) {
	m.claim(tp)
	defer m.unclaim(tp)
	if l := m.Get(tp); l != nil {
		if l.id == id {
			return l, nil
		}
		if err := m.displace(l); err != nil {
			return nil, err
		}
	}
	l, err := m.openExisting(tp, id, cfg)
	if l != nil || err != nil {
		return l, err
	}
	d := m.emptiestDir()
	if err := m.forget(d, tp); err != nil {
		return nil, err
	}
	l = newLog(m, d, tp, id, join(d.path, tp.String()), cfg)
	if err := m.makeDir(d, l); err != nil {
		return nil, fmt.Errorf("creating %s: %w", l.dir, err)
	}
	m.put(l)
	return l, nil
}

// openExisting opens a directory that Load has not, of the same id; one of
// another id is set aside.
func (m *Manager) openExisting(tp record.TopicPartition, id record.TopicID, cfg LogConfig) (*Log, error) {
	for _, d := range m.dirs {
		dir := join(d.path, tp.String())
		ok, err := m.cfg.FS.Exists(dir)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		found, err := readTopicID(m.cfg.FS, dir)
		if err != nil {
			return nil, err
		}
		if found != id {
			if err := m.setStray(d, tp, dir); err != nil {
				return nil, err
			}
			continue
		}
		l := newLog(m, d, tp, id, dir, cfg)
		st := d.leftAt(tp)
		st.clean = false
		if err := l.load(st); err != nil {
			l.abandon()
			return nil, err
		}
		m.put(l)
		return l, nil
	}
	return nil, nil
}

// displace closes a log of another topic id and sets its directory aside.
func (m *Manager) displace(l *Log) error {
	d := l.home
	m.mu.Lock()
	delete(m.logs, l.tp)
	m.mu.Unlock()
	aside := join(d.path, asideName(l.tp, strayDirSuffix))
	if err := l.remove(aside); err != nil {
		return err
	}
	m.cfg.Logger.Warn("setting the log of an older topic of the same name aside", "dir", l.dir, "id", l.id.String(), "now", aside)
	d.isGone(l.tp)
	return m.cfg.FS.SyncDir(d.path)
}

// emptiestDir is the log directory with the fewest logs.
func (m *Manager) emptiestDir() *logDir {
	if len(m.dirs) == 1 {
		return m.dirs[0]
	}
	n := make(map[*logDir]int, len(m.dirs))
	for _, l := range m.Logs() {
		n[l.home]++
	}
	best := m.dirs[0]
	for _, d := range m.dirs[1:] {
		if n[d] < n[best] {
			best = d
		}
	}
	return best
}

// makeDir makes the directory of an empty log.
func (m *Manager) makeDir(d *logDir, l *Log) error {
	temp := join(d.path, asideName(l.tp, deleteDirSuffix))
	err := m.fillDir(l, temp)
	if err == nil {
		err = m.cfg.FS.Rename(temp, l.dir)
	}
	if err != nil {
		if e := m.cfg.FS.RemoveAll(temp); e != nil {
			err = errors.Join(err, e) // the next start removes it
		}
		return err
	}
	if err := m.cfg.FS.SyncDir(d.path); err != nil {
		return err
	}
	l.segs.Store(&[]*segment{openSegment(l, &segmentFiles{})})
	return nil
}

// fillDir makes a directory with the files of an empty log.
func (m *Manager) fillDir(l *Log, temp string) error {
	fsys := m.cfg.FS
	if err := fsys.Mkdir(temp); err != nil {
		return err
	}
	for _, name := range []string{segmentName(0, logSuffix), segmentName(0, indexSuffix), segmentName(0, timeIndexSuffix)} {
		if err := writeNew(fsys, join(temp, name), nil, false); err != nil {
			return err
		}
	}
	// A power cut may leave the epochs empty, which means the same.
	if err := writeNew(fsys, join(temp, leaderEpochName), formatCheckpoint(nil), false); err != nil {
		return err
	}
	if err := writeNew(fsys, join(temp, partitionMetadataName), formatTopicID(l.id), true); err != nil {
		return err
	}
	return fsys.SyncDir(temp)
}

// writeNew makes a file in a directory that nobody looks at yet.
func writeNew(fsys vfs.FS, name string, data []byte, sync bool) (err error) {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	if len(data) > 0 {
		if _, err := f.WriteAt(data, 0); err != nil {
			return err
		}
	}
	if sync {
		return f.Sync()
	}
	return nil
}

// Delete removes a partition: its directory is renamed at once, so that a
// crash leaves the partition or none, and unlinked by a worker after
// file.delete.delay.ms. Readers that are under way keep their files. One that
// could not be loaded goes too; one that is not there is no error. Worker
// context.
func (m *Manager) Delete(tp record.TopicPartition) error {
	m.claim(tp)
	defer m.unclaim(tp)
	l := m.Get(tp)
	if l == nil {
		return m.deleteUnloaded(tp)
	}
	d := l.home
	aside := join(d.path, asideName(tp, deleteDirSuffix))
	if err := l.remove(aside); err != nil {
		return fmt.Errorf("deleting %s: %w", l.dir, err)
	}
	m.mu.Lock()
	delete(m.logs, tp)
	m.mu.Unlock()
	d.isGone(tp)
	if err := m.cfg.FS.SyncDir(d.path); err != nil {
		return err
	}
	m.removeLater(m.cfg.Clock.Now()+record.Timestamp(l.Config().FileDeleteDelayMs), []string{aside})
	return nil
}

// deleteUnloaded is Delete of what lies in a directory that was not opened.
func (m *Manager) deleteUnloaded(tp record.TopicPartition) error {
	for _, d := range m.dirs {
		dir := join(d.path, tp.String())
		ok, err := m.cfg.FS.Exists(dir)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		aside := join(d.path, asideName(tp, deleteDirSuffix))
		if err := m.cfg.FS.Rename(dir, aside); err != nil {
			return fmt.Errorf("deleting %s: %w", dir, err)
		}
		d.isGone(tp)
		if err := m.cfg.FS.SyncDir(d.path); err != nil {
			return err
		}
		m.removeLater(m.cfg.Clock.Now()+record.Timestamp(m.cfg.DefaultLogConfig.withDefaults().FileDeleteDelayMs), []string{aside})
	}
	return nil
}

// removeLater has files or directories unlinked by a Tick at or after a time.
func (m *Manager) removeLater(at record.Timestamp, names []string) {
	if len(names) == 0 {
		return
	}
	m.laterMu.Lock()
	defer m.laterMu.Unlock()
	m.later = append(m.later, removal{at, names})
}

// Tick does the timed work that is due: unlinking what was deleted, completing
// rolls that a full disk held up, forgetting producers that expired, closing
// files of logs that are not in use. Call it
// every few seconds from a worker.
func (m *Manager) Tick() {
	now := m.cfg.Clock.Now()
	m.removeDue(now)
	m.retryRolls()
	last := record.Timestamp(m.lastIdle.Load())
	idle := int64(now-last) >= m.cfg.IdleCloseMs
	if idle {
		m.lastIdle.Store(int64(now))
	}
	expire := int64(now)-m.lastExpiry.Load() >= expiryCheckMs
	if expire {
		m.lastExpiry.Store(int64(now))
	}
	if !expire && !idle {
		return
	}
	for _, l := range m.Logs() {
		if expire {
			l.expireProducers(now, m.producerIDExpirationMs.Load())
		}
		if idle && last != 0 {
			l.sweep()
		}
	}
}

// expiryCheckMs is how often producers are looked through for those that
// expired, Kafka's producer.id.expiration.check.interval.ms.
const expiryCheckMs = 10 * 60 * 1000

// retryLater has the rolls of a log completed by the next Tick.
func (m *Manager) retryLater(l *Log) {
	m.laterMu.Lock()
	defer m.laterMu.Unlock()
	m.unrolled = append(m.unrolled, l)
}

func (m *Manager) retryRolls() {
	m.laterMu.Lock()
	logs := m.unrolled
	m.unrolled = nil
	m.laterMu.Unlock()
	for _, l := range logs {
		l.completeRolls()
	}
}

func (m *Manager) removeDue(now record.Timestamp) {
	m.laterMu.Lock()
	var due []string
	kept := m.later[:0]
	for _, r := range m.later {
		if r.at <= now {
			due = append(due, r.names...)
		} else {
			kept = append(kept, r)
		}
	}
	m.later = kept
	m.laterMu.Unlock()
	for _, name := range due {
		if err := m.cfg.FS.RemoveAll(name); err != nil {
			// The next start removes it: its name says what it is.
			m.cfg.Logger.Warn("removing a deleted file failed", "file", name, "err", err)
		}
	}
}
