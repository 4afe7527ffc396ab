package broker

import (
	"context"
	"time"

	"github.com/posthouse/posthouse/engine"
	"github.com/posthouse/posthouse/netio"
)

// loopReport is what one event loop says of itself.
type loopReport struct {
	index  int
	net    netio.LoopStats
	engine engine.LoopStats
}

// loopVisit is posted to a loop, which fills in the report: what a loop counts
// is its own plain memory.
type loopVisit struct {
	report *loopReport
	engine *engine.Engine
	done   chan<- *loopReport // with room for all loops: Run never waits
}

// Run implements netio.Task.
func (v *loopVisit) Run(l *netio.Loop) {
	v.report.index, v.report.net = l.Index(), l.Stats()
	v.engine.LoopStats(l, &v.report.engine)
	v.done <- v.report
}

// visitLoops asks every event loop for a report. The answer is by loop, nil for
// those that had none to give in time: they are stuck, or have ended.
func (b *Broker) visitLoops(ctx context.Context, patience time.Duration) []*loopReport {
	loops := b.net.Loops()
	done := make(chan *loopReport, len(loops))
	for _, l := range loops {
		l.Post(&loopVisit{report: new(loopReport), engine: b.engine, done: done})
	}
	reports := make([]*loopReport, len(loops))
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for range loops {
		select {
		case r := <-done:
			reports[r.index] = r
		case <-timer.C:
			return reports
		case <-ctx.Done():
			return reports
		}
	}
	return reports
}
