package storage

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// closers is how many logs are closed at once: each waits for a few syncs, and
// those of several logs share the journal's commits.
const closers = 8

// Close makes all logs durable, trims their files, writes producer snapshots,
// checkpoints and, where everything went well, the clean mark, and unlocks the
// directories. progress is called after each log, from any goroutine but never
// twice at once. No log takes appends from here on. A directory whose logs were
// not all loaded stays as clean as it was found.
func (m *Manager) Close(progress func(done, total int)) error {
	m.removeDue(math.MaxInt64)
	logs := m.Logs()
	var mu sync.Mutex // guards what follows
	failed := map[*logDir]bool{}
	var errs []error
	done := 0
	queue := make(chan *Log, len(logs))
	for _, l := range logs {
		queue <- l
	}
	close(queue)
	var wg sync.WaitGroup
	for range min(closers, len(logs)) {
		wg.Go(func() {
			for l := range queue {
				err := l.close()
				mu.Lock()
				if err != nil {
					errs = append(errs, fmt.Errorf("closing %s: %w", l.dir, err))
				}
				if err != nil || l.Err() != nil {
					failed[l.home] = true // its recovery has work to do
				}
				if done++; progress != nil {
					progress(done, len(logs))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, d := range m.dirs {
		errs = append(errs, m.leave(d, failed[d]))
	}
	return errors.Join(append(errs, m.unlock())...)
}

// leave writes what the next start goes by.
func (m *Manager) leave(d *logDir, failed bool) error {
	if d.state == unread {
		return nil
	}
	if err := m.checkpointDir(d); err != nil {
		return err
	}
	switch {
	case failed:
		return nil
	case d.state == complete:
		return writeCleanMark(m.cfg.FS, d.path, true)
	case d.clean:
		return writeCleanMark(m.cfg.FS, d.path, d.trusted)
	}
	return nil
}
