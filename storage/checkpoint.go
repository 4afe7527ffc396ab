package storage

import (
	"errors"
	"fmt"

	"github.com/posthouse/posthouse/storage/record"
)

// Checkpoint writes the recovery points, log starts and high watermarks of all
// logs. With CheckpointFlushBytes it first syncs the logs that have more than
// that to lose. Worker context; call it every minute or so.
func (m *Manager) Checkpoint() error {
	var errs []error
	if limit := m.cfg.CheckpointFlushBytes; limit > 0 {
		for _, l := range m.Logs() {
			if l.unflushedBytes() <= limit {
				continue
			}
			if err := l.Flush(l.EndOffset()); err != nil && !errors.Is(err, errClosed) {
				errs = append(errs, err)
			}
		}
	}
	for _, d := range m.dirs {
		errs = append(errs, m.checkpointDir(d))
	}
	return errors.Join(errs...)
}

// checkpointDir writes the three checkpoints of a log directory.
func (m *Manager) checkpointDir(d *logDir) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	return m.writeCheckpoints(d, recoveryPointName, logStartName, replicationName)
}

// writeCheckpoints writes checkpoints by name. The caller holds d.writing. An
// entry of a log that could not be loaded is kept as it was.
func (m *Manager) writeCheckpoints(d *logDir, names ...string) error {
	logs := m.logsIn(d)
	for _, name := range names {
		offsets := map[record.TopicPartition]record.Offset{}
		for tp, o := range m.unloaded(d, name) {
			offsets[tp] = o
		}
		for _, l := range logs {
			if o, ok := l.checkpointed(name); ok {
				offsets[l.tp] = o
			}
		}
		if err := m.cfg.FS.WriteFileAtomic(join(d.path, name), formatOffsets(offsets)); err != nil {
			return fmt.Errorf("writing %s: %w", join(d.path, name), err)
		}
	}
	if len(names) == 3 {
		clear(d.stale)
	}
	return nil
}

// unloaded gives the entries of partitions that are on disk but were not or
// not yet loaded.
func (m *Manager) unloaded(d *logDir, name string) map[record.TopicPartition]record.Offset {
	from := map[string]map[record.TopicPartition]record.Offset{
		recoveryPointName: d.recovery, logStartName: d.start, replicationName: d.replication}[name]
	out := map[record.TopicPartition]record.Offset{}
	for tp, o := range from {
		if m.Get(tp) == nil {
			out[tp] = o
		}
	}
	return out
}

// checkpointed is what a checkpoint says of a log. As in Kafka the start is
// named only where it differs from the first segment's.
func (l *Log) checkpointed(name string) (record.Offset, bool) {
	switch name {
	case recoveryPointName:
		return l.RecoveryPoint(), true
	case logStartName:
		return l.StartOffset(), l.StartOffset() > l.list()[0].base
	default:
		return l.HighWatermark(), true
	}
}

func (m *Manager) logsIn(d *logDir) []*Log {
	var out []*Log
	for _, l := range m.Logs() {
		if l.home == d {
			out = append(out, l)
		}
	}
	return out
}

// forget makes sure that no checkpoint names a partition that is about to be
// made anew.
func (m *Manager) forget(d *logDir, tp record.TopicPartition) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	if !d.stale[tp] {
		return nil
	}
	return m.writeCheckpoints(d, recoveryPointName, logStartName, replicationName)
}

// leftAt is what the checkpoints said of a partition at the start.
func (d *logDir) leftAt(tp record.TopicPartition) loadState {
	d.writing.Lock()
	defer d.writing.Unlock()
	at, known := d.recovery[tp]
	return loadState{clean: d.clean, trusted: d.trusted && known,
		recoveryPoint: at, logStart: d.start[tp], highWatermark: d.replication[tp]}
}

// isGone notes that a partition is no longer in the directory under its name.
func (d *logDir) isGone(tp record.TopicPartition) {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.markGone(tp)
}

// markGone is isGone for who holds writing.
func (d *logDir) markGone(tp record.TopicPartition) {
	delete(d.recovery, tp)
	delete(d.start, tp)
	delete(d.replication, tp)
	d.stale[tp] = true
}

// checkpointRecovery makes a recovery point durable that went down.
func (m *Manager) checkpointRecovery(l *Log) error {
	d := l.home
	d.writing.Lock()
	defer d.writing.Unlock()
	return m.writeCheckpoints(d, recoveryPointName, replicationName)
}

// checkpointStart makes a log's new start durable. Calls that come while the
// file is being written share the next write: DeleteRecords comes for many
// partitions at once.
func (m *Manager) checkpointStart(l *Log) error {
	d := l.home
	d.startMu.Lock()
	if d.startRunning {
		done := make(chan error, 1)
		d.startWaiting = append(d.startWaiting, done)
		d.startMu.Unlock()
		return <-done
	}
	d.startRunning = true
	d.startMu.Unlock()
	err := m.writeStarts(d)
	for {
		d.startMu.Lock()
		waiting := d.startWaiting
		d.startWaiting = nil
		if len(waiting) == 0 {
			d.startRunning = false
			d.startMu.Unlock()
			return err
		}
		d.startMu.Unlock()
		next := m.writeStarts(d)
		for _, w := range waiting {
			w <- next
		}
	}
}

func (m *Manager) writeStarts(d *logDir) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	return m.writeCheckpoints(d, logStartName)
}
