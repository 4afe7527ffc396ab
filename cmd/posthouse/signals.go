package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how soon after the first a second signal counts as the same
// one: timeout(1) and process managers signal the process and then its group,
// and two presses of Ctrl-C are further apart.
const sameSignal = 200 * time.Millisecond

// untilSignal returns a context that ends with the first signal to stop. The
// second one ends the process, whatever it is at. release undoes it.
//
// SIGHUP stops as in Kafka, unless nohup has the process ignore it. SIGPIPE is
// ignored: a log reader that went away is no reason for a broker to die.
func untilSignal(parent context.Context, logger *slog.Logger) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(parent)
	stops := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) {
		stops = append(stops, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, stops...)
	signal.Ignore(syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first.IsZero():
					first = time.Now()
					logger.Info("stopping", "signal", s.String())
					cancel()
				case time.Since(first) > sameSignal:
					logger.Error("second signal: stopping at once, the next start will recover", "signal", s.String())
					os.Exit(1)
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}
