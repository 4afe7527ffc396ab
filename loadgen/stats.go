package loadgen

import (
	"golang.org/x/sys/unix"

	"os"
	"strconv"
	"strings"
	"time"

	"github.com/posthouse/posthouse/results/hdr"
)

// lineID is a line while it is counted.
type lineID uint8

const (
	lineAck lineID = iota
	lineE2E
	lineFetch
	lineCatchUp
	lineCount
)

var lineNames = [lineCount]string{LineAck, LineE2E, LineFetch, LineCatchUp}

// counts are what was completed.
type counts struct{ records, bytes, requests, errors int64 }

func (c *counts) add(o *counts) {
	c.records += o.records
	c.bytes += o.bytes
	c.requests += o.requests
	c.errors += o.errors
}

// lineStats counts one line on one loop, or in all.
type lineStats struct {
	// tick is everything since the last collection, total what was completed in
	// the measured part.
	tick, total counts
	unfinished  int64
	errors      map[int16]int64
	// measured has the latencies since the last collection of what was intended
	// in the measured part, outside the others; all adds up measured.
	measured, outside, all *hdr.Histogram
}

func newLineStats() *lineStats {
	return &lineStats{errors: map[int16]int64{}, measured: hdr.New(), outside: hdr.New(), all: hdr.New()}
}

// window is the measured part, half-open, in ns since the run began.
type window struct{ from, to int64 }

func (w window) has(t int64) bool { return t >= w.from && t < w.to }

// count adds what was completed at now.
func (s *lineStats) count(w window, now int64, c counts) {
	s.tick.add(&c)
	if w.has(now) {
		s.total.add(&c)
	}
}

// latency counts n records that were intended at a time and are done now.
func (s *lineStats) latency(w window, intended, now, n int64) {
	us := (now - intended + 500) / 1000
	if w.has(intended) {
		s.measured.RecordN(us, n)
	} else {
		s.outside.RecordN(us, n)
	}
}

// latencies counts records one by one.
func (s *lineStats) latencies(w window, intended []int64, now int64) {
	for i := 0; i < len(intended); {
		// Neighbours are often alike to the microsecond.
		t, n := intended[i], int64(1)
		for i++; i < len(intended) && intended[i]-t < 500 && w.has(intended[i]) == w.has(t); i++ {
			n++
		}
		s.latency(w, t, now, n)
	}
}

// unanswered counts records that were due and have no answer by now.
func (s *lineStats) unanswered(w window, intended, now, n int64) {
	if w.has(intended) && intended < now {
		s.unfinished += n
		s.measured.RecordN((now-intended)/1000, n)
	}
}

func (s *lineStats) failed(w window, now int64, code int16, records int64) {
	s.count(w, now, counts{errors: records})
	s.errors[code] += records
}

// take moves what was counted since the last time into the sums of all loops.
func (s *lineStats) take(into *lineStats, interval *hdr.Histogram) {
	into.tick.add(&s.tick)
	s.tick = counts{}
	into.total.add(&s.total)
	s.total = counts{}
	into.unfinished += s.unfinished
	s.unfinished = 0
	for code, n := range s.errors {
		into.errors[code] += n
	}
	clear(s.errors)
	if s.measured.Count() > 0 {
		interval.Merge(s.measured)
		into.all.Merge(s.measured)
		s.measured.Reset()
	}
	if s.outside.Count() > 0 {
		interval.Merge(s.outside)
		s.outside.Reset()
	}
}

// threadUsage is what the calling thread has used since it began.
type threadUsage struct{ cpu, waited time.Duration }

func (u threadUsage) sub(o threadUsage) threadUsage {
	return threadUsage{u.cpu - o.cpu, u.waited - o.waited}
}

// readThreadUsage must run on the thread in question. The time for which the
// thread was runnable without a core is zero where the kernel does not say.
func readThreadUsage() (u threadUsage) {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &r) == nil {
		u.cpu = time.Duration(unix.TimevalToNsec(r.Utime) + unix.TimevalToNsec(r.Stime))
	}
	text, err := os.ReadFile("/proc/thread-self/schedstat")
	if fields := strings.Fields(string(text)); err == nil && len(fields) >= 2 {
		if ns, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			u.waited = time.Duration(ns)
		}
	}
	return u
}

// processCPU is user and system time of the whole process.
func processCPU() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(unix.TimevalToNsec(r.Utime) + unix.TimevalToNsec(r.Stime))
}
