package loadgen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/results/hdr"
)

const (
	// donePoll is how often a run that is bounded by records looks whether it
	// is over.
	donePoll = 10 * time.Millisecond
	// clientShareMax is the share of a core from which on a loop of ours may be
	// what limits the rate.
	clientShareMax = 0.7
	// rateShareMin is how much of the asked rate counts as reached.
	rateShareMin = 0.98
	// latenessMax is the p99 of our own lateness from which on the schedule
	// counts as not kept, behindMax the backlog at the end of the run.
	latenessMax = 2 * time.Millisecond
	behindMax   = 50 * time.Millisecond
)

// measure runs the schedule to its end and makes the outcome.
func (r *run) measure(ctx context.Context) (*Outcome, error) {
	r.begin()
	measured := r.start.Add(time.Duration(r.workload.Warmup))
	if r.opts.Started != nil {
		r.opts.Started(r.start, measured)
	}
	var usage clientMeter
	failure := r.untilEnd(ctx, &usage)
	to := min(r.now(), int64(r.workload.Duration))
	r.onEach(func(s *loopState) { s.window.to = min(s.window.to, to) })
	client := usage.stop(r)
	if r.sinceTick() > time.Second/2 {
		r.collect(true)
	}
	if r.opts.Measured != nil {
		r.opts.Measured(time.Now())
	}
	behind := r.behindNow(to)
	if failure == nil {
		failure = r.drain()
	}
	r.ending.Store(true)
	r.cancel()
	r.helpers.Wait()
	now := r.now()
	r.onEach(func(s *loopState) {
		for _, p := range s.producers {
			p.giveUp(now)
		}
	})
	r.collect(false)
	r.server.Close()
	if err := r.deleteTopics(); err != nil && failure == nil {
		failure = err
	}
	o := r.outcome(window{int64(r.workload.Warmup), to}, client, behind, failure)
	if o.Interrupted = ctx.Err() != nil; o.Interrupted {
		o.warn(WarnInterrupted, "stopped after %v of %v%s", time.Duration(to).Round(time.Millisecond), r.workload.Duration, o.nothingMeasured())
	}
	if failure == nil {
		failure = o.verdict(r)
	}
	if failure != nil {
		o.Failure = strings.ReplaceAll(failure.Error(), "\n", "; ")
		o.warn(WarnFailed, "%s", o.Failure)
	}
	return o, failure
}

// begin sets the start of the schedule and wakes everything.
func (r *run) begin() {
	r.start = time.Now().Add(startDelay)
	r.startInstant.Store(int64(netio.InstantOf(r.start)))
	r.onEach(func(s *loopState) {
		s.started = true
		for _, p := range s.producers {
			s.markDirty(p)
		}
		for _, c := range s.consumers {
			s.markDirty(c)
		}
	})
}

// untilEnd lets the schedule run, collects once a second, and returns why it
// ended early, if it failed.
func (r *run) untilEnd(ctx context.Context, usage *clientMeter) error {
	end := time.NewTimer(time.Until(r.start.Add(time.Duration(r.workload.Duration))))
	warm := time.NewTimer(time.Until(r.start.Add(time.Duration(r.workload.Warmup))))
	second := time.NewTimer(time.Until(r.start.Add(time.Second)))
	defer end.Stop()
	defer warm.Stop()
	defer second.Stop()
	var done <-chan time.Time
	if r.workload.Records > 0 {
		t := time.NewTicker(donePoll)
		defer t.Stop()
		done = t.C
	}
	for n := 1; ; {
		select {
		case <-ctx.Done():
			return nil
		case err := <-r.failure:
			return err
		case <-end.C:
			return nil
		case <-warm.C:
			usage.start(r)
		case <-done:
			if r.allDone() {
				return nil
			}
		case <-second.C:
			r.collect(true)
			n++
			second.Reset(time.Until(r.start.Add(time.Duration(n) * time.Second)))
		}
	}
}

// allDone says that a run bounded by records has had them.
func (r *run) allDone() bool {
	if !r.workload.produces() {
		var read int64
		for _, t := range r.ticks {
			for _, l := range t.Lines {
				if l.Name == LineFetch {
					read += l.Records
				}
			}
		}
		var mu sync.Mutex
		r.onEach(func(s *loopState) {
			mu.Lock()
			defer mu.Unlock()
			read += s.lines[lineFetch].tick.records
		})
		return read >= r.workload.Records
	}
	return r.all(func(s *loopState) bool {
		return !slices.ContainsFunc(s.producers, func(p *producer) bool { return !p.idle() })
	})
}

// all reports whether f holds on every loop.
func (r *run) all(f func(s *loopState) bool) bool {
	var mu sync.Mutex
	every := true
	r.onEach(func(s *loopState) {
		if !f(s) {
			mu.Lock()
			every = false
			mu.Unlock()
		}
	})
	return every
}

func (r *run) behindNow(now int64) int64 {
	var mu sync.Mutex
	var behind int64
	r.onEach(func(s *loopState) {
		for _, p := range s.producers {
			b := p.behind(now)
			mu.Lock()
			behind = max(behind, b)
			mu.Unlock()
		}
	})
	return behind
}

// drain waits for what is on the way, and in e2e and verify until consumers
// have read everything.
func (r *run) drain() error {
	patience := time.Duration(r.workload.Drain)
	if r.workload.Mode == ModeVerify {
		patience += time.Duration(r.workload.Reconnect)
	}
	ctx, cancel := context.WithTimeout(r.background, patience)
	defer cancel()
	if err := r.await(ctx, func(s *loopState) bool {
		for _, p := range s.producers {
			s.markDirty(p)
			if !p.idle() {
				return false
			}
		}
		return true
	}); err != nil || !r.workload.stamped() {
		return r.drainFailure(err)
	}
	for {
		err := r.setEnds(ctx)
		if err == nil {
			break
		}
		if r.workload.Mode != ModeVerify || ctx.Err() != nil || pause(ctx, 100*time.Millisecond) != nil {
			return r.drainFailure(err)
		}
	}
	err := r.await(ctx, func(s *loopState) bool {
		return !slices.ContainsFunc(s.consumers, func(c *consumer) bool { return !c.atEnd() })
	})
	if r.workload.Mode == ModeVerify && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the consumers did not reach the end of the log within %v", patience)
	}
	return r.drainFailure(err)
}

// drainFailure says whether an end of the wait is a failure: that the time is
// over is not, the outcome tells of what is unfinished.
func (r *run) drainFailure(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && r.workload.Mode != ModeVerify {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("the broker did not answer everything before the end of the drain")
	}
	return err
}

// setEnds tells consumers how far there is to read.
func (r *run) setEnds(ctx context.Context) error {
	offsets, err := r.askOffsets(ctx, lineFetch, positionLatest)
	if err != nil {
		return err
	}
	r.onEach(func(s *loopState) {
		for _, c := range s.consumers {
			for _, p := range c.parts {
				if c.line == lineFetch {
					p.end = offsets[p.place]
				}
			}
		}
	})
	return nil
}

// await polls until done holds on every loop.
func (r *run) await(ctx context.Context, done func(s *loopState) bool) error {
	for next := time.Now().Add(time.Second); !r.all(done); {
		select {
		case err := <-r.failure:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(drainPoll):
		}
		if time.Now().After(next) {
			r.collect(true)
			next = next.Add(time.Second)
		}
	}
	return nil
}

// collect takes what the loops have counted and, if it is a whole second's,
// makes a tick of it.
func (r *run) collect(tick bool) {
	var mu sync.Mutex
	var interval [lineCount]*hdr.Histogram
	for i := range interval {
		interval[i] = hdr.New()
	}
	now := r.now()
	t := Tick{Elapsed: time.Duration(now), Warmup: now <= int64(r.workload.Warmup), BrokenConnections: int(r.broken.Load())}
	r.onEach(func(s *loopState) {
		mu.Lock()
		defer mu.Unlock()
		for i, l := range s.lines {
			l.take(r.sums[i], interval[i])
		}
		r.lateness.Merge(s.lateness)
		s.lateness.Reset()
		for _, p := range s.producers {
			t.Behind = max(t.Behind, time.Duration(p.behind(now)))
		}
	})
	for i, sum := range r.sums {
		c := sum.tick
		sum.tick = counts{}
		t.Errors += c.errors
		if !r.shows(lineID(i)) {
			continue
		}
		h := interval[i]
		t.Lines = append(t.Lines, TickLine{
			Name: lineNames[i], Records: c.records, Bytes: c.bytes,
			P50: h.At(50), P99: h.At(99), Max: h.Max(), Histogram: h,
		})
	}
	r.ticks = append(r.ticks, t)
	if tick && r.opts.Progress != nil {
		r.opts.Progress(t)
	}
}

// sinceTick is the time since the last tick.
func (r *run) sinceTick() time.Duration {
	since := time.Duration(r.now())
	if n := len(r.ticks); n > 0 {
		since -= r.ticks[n-1].Elapsed
	}
	return since
}

// shows says whether a line belongs to the workload.
func (r *run) shows(line lineID) bool {
	switch w := &r.workload; line {
	case lineAck:
		return w.produces()
	case lineE2E:
		return w.stamped()
	case lineFetch:
		return w.Consumers > 0
	default:
		return w.CatchUp > 0
	}
}

// clientMeter measures what the client itself uses in the measured part.
type clientMeter struct {
	began time.Time
	cpu   time.Duration
}

func (m *clientMeter) start(r *run) {
	m.began, m.cpu = time.Now(), processCPU()
	r.onEach(func(s *loopState) { s.usage = readThreadUsage() })
}

func (m *clientMeter) stop(r *run) ClientUsage {
	engine, _ := r.server.Engine()
	u := ClientUsage{Engine: engine, Loops: len(r.loops)}
	if m.began.IsZero() {
		return u
	}
	wall := time.Since(m.began)
	u.CPUSeconds = (processCPU() - m.cpu).Seconds()
	var mu sync.Mutex
	r.onEach(func(s *loopState) {
		used := readThreadUsage().sub(s.usage)
		mu.Lock()
		defer mu.Unlock()
		if share := used.cpu.Seconds() / wall.Seconds(); share > u.LoopShare {
			u.LoopShare = share
			u.LoopWait = used.waited.Seconds() / wall.Seconds()
		}
	})
	return u
}
