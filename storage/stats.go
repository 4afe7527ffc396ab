package storage

import (
	"sync/atomic"
	"time"
)

// Stats is what went wrong with logs since the start.
type Stats struct {
	// AppendFailures are writes that failed or came short and were cut back.
	AppendFailures uint64
	// LogFailures are logs that were taken offline for appends.
	LogFailures uint64
}

// managerCounts counts what Stats tells; on ways that are rare.
type managerCounts struct{ appendFailures, logFailures atomic.Uint64 }

// Stats returns the current counts. Any goroutine.
func (m *Manager) Stats() Stats {
	return Stats{AppendFailures: m.counts.appendFailures.Load(), LogFailures: m.counts.logFailures.Load()}
}

// SegmentCount is the number of segments. Lock-free.
func (l *Log) SegmentCount() int { return len(l.list()) }

// ProducerCount is the number of producer ids that the log remembers. Lock-free.
func (l *Log) ProducerCount() int { return int(l.producers.count.Load()) }

// timeFlush begins to time a flush; done ends it.
func (m *Manager) timeFlush() (done func()) {
	if m.cfg.OnFlush == nil {
		return func() {}
	}
	begun := time.Now()
	return func() { m.cfg.OnFlush(time.Since(begun)) }
}
