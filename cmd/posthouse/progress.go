package main

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// progressInterval is the least time between two lines of one progress.
const progressInterval = time.Second

// progress turns counts into log lines: one a second, and one at the end if
// there was one before or always asks for it. Work that ends at once is not
// worth a line.
type progress struct {
	logger *slog.Logger
	what   string
	begun  time.Time
	always bool
	last   atomic.Int64 // ns after begun of the last line
}

// report says that done of total steps are done. Any goroutine.
func (p *progress) report(done, total int) {
	now := int64(time.Since(p.begun))
	last := p.last.Load()
	finished := done == total && (p.always || last > 0)
	if !finished && now-last < int64(progressInterval) || !p.last.CompareAndSwap(last, now) {
		return
	}
	p.logger.Info(p.what, "done", done, "total", total, "percent", 100*done/max(total, 1), "seconds", int(now/int64(time.Second)))
}
