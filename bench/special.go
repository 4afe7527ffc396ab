package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/posthouse/posthouse/results"
	"github.com/posthouse/posthouse/results/hdr"
)

const (
	idleTime     = 5 * time.Second
	idleDialers  = 16
	startRepeats = 5
	// LineConnect and LineStart are what the specials measure.
	LineConnect = "connect" // dial → first answer
	LineStart   = "start"   // fork → first answer
)

// errIdle says that connections did not stay.
var errIdle = errors.New("connections were closed while they were idle")

// special does a workload that is no load.
func (s *session) special(ctx context.Context, w *Workload, c *Contender) (*results.Run, error) {
	switch w.Special {
	case IdleConnections:
		return s.idle(ctx, c)
	case StartUp:
		return s.startUps(ctx, c)
	case GroupLoad:
		return s.groupLoad(ctx, w, c)
	}
	panic("BUG: special workload " + string(w.Special))
}

// idle opens connections, each of which asks once, and then leaves them alone:
// the usage is that of the time afterwards, its peak of memory with all of them.
func (s *session) idle(ctx context.Context, c *Contender) (*results.Run, error) {
	before, err := ProcessMemory(c.PID())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	conns, latencies, err := openConnections(ctx, c.Address, idleCount)
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	opened := time.Since(began)
	time.Sleep(time.Second) // what opening them leaves to be done
	m := startMeter(c.PID(), time.Now())
	start := time.Now()
	select {
	case <-time.After(idleTime):
	case <-ctx.Done():
	}
	m.end()
	used, series, err := m.result()
	if err != nil {
		return nil, err
	}
	run := &results.Run{
		StartedAt: start, DurationMs: time.Since(start).Milliseconds(), Series: series, Usage: &used,
		Workload: results.Workload{Mode: string(IdleConnections)},
		Lines: []results.Line{{Name: LineConnect, Records: int64(len(conns)), Requests: int64(len(conns)),
			RecordsPerSec: float64(len(conns)) / opened.Seconds()}},
	}
	run.Lines[0].SetHistogram(latencies)
	run.Series = append(run.Series, results.Series{Name: "rss-per-connection", Unit: "bytes",
		Points: []results.Point{{idleTime.Seconds(), float64(max(0, used.PeakRSSBytes-before.RSS)) / float64(len(conns))}}})
	for i, conn := range conns {
		if err := stillOpen(conn); err != nil {
			return run, fmt.Errorf("%w: number %d: %w", errIdle, i, err)
		}
	}
	return run, ctx.Err()
}

// openConnections opens n connections and asks each for ApiVersions once.
func openConnections(ctx context.Context, address string, n int) ([]net.Conn, *hdr.Histogram, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var mu sync.Mutex
	var conns []net.Conn
	var failure error
	latencies := hdr.New()
	var wg sync.WaitGroup
	for worker := range idleDialers {
		wg.Go(func() {
			for i := worker; i < n; i += idleDialers {
				began := time.Now()
				conn, err := dialAndAsk(ctx, address)
				mu.Lock()
				if err == nil {
					conns = append(conns, conn)
					latencies.RecordDuration(time.Since(began))
				} else if failure == nil {
					failure = fmt.Errorf("connection %d of %d: %w", i, n, err)
				}
				stop := failure != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	return conns, latencies, failure
}

func dialAndAsk(ctx context.Context, address string) (net.Conn, error) {
	raw, err := DialRaw(ctx, address)
	if err != nil {
		return nil, err
	}
	if _, err := raw.Do(kmsg.NewPtrApiVersionsRequest()); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	// The socket alone: the reader's buffer would be the client's memory.
	return raw.Conn, raw.SetDeadline(time.Time{})
}

// stillOpen is an error if the peer has closed the connection.
func stillOpen(conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return err
	}
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); err != nil && (!errors.As(err, &timeout) || !timeout.Timeout()) {
		return err
	}
	return nil
}

// startUps starts a second process of the contender on fresh data, several
// times, and stops it.
func (s *session) startUps(ctx context.Context, c *Contender) (*results.Run, error) {
	// The one that serves rests meanwhile.
	if err := c.pause(); err != nil {
		return nil, err
	}
	latencies := hdr.New()
	start := time.Now()
	var used results.Usage
	for i := range startRepeats {
		twin := *c
		dir := filepath.Join(s.work, fmt.Sprintf("start-%d-%d", s.done, i))
		if err := twin.launch(ctx, dir); err != nil {
			return nil, err
		}
		latencies.RecordDuration(twin.Ready)
		cpu, err := ProcessCPU(twin.PID())
		memory, memoryErr := ProcessMemory(twin.PID())
		if err := errors.Join(err, memoryErr, twin.Stop()); err != nil {
			return nil, err
		}
		used.ServerCPUSeconds += cpu.Total().Seconds()
		used.PeakRSSBytes = max(used.PeakRSSBytes, memory.PeakRSS)
	}
	run := &results.Run{
		StartedAt: start, DurationMs: time.Since(start).Milliseconds(), Usage: &used,
		Workload: results.Workload{Mode: string(StartUp)},
		Lines:    []results.Line{{Name: LineStart, Records: startRepeats, Requests: startRepeats}},
	}
	used.Derive(startRepeats, 0)
	run.Lines[0].SetHistogram(latencies)
	return run, nil
}
