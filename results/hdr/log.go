package hdr

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Interval is one line of an interval log.
type Interval struct {
	// Tag tells apart several series in one log; no commas, spaces or line
	// breaks; may be empty.
	Tag        string
	Start, End time.Time
	Histogram  *Histogram
}

// LogWriter writes HdrHistogram's interval log (.hlog), format 1.3. Values are
// microseconds, which its legend says.
type LogWriter struct {
	log *hdrhistogram.HistogramLogWriter
}

// NewLogWriter writes the head of a log that begins at start; each comment is a
// line of it.
func NewLogWriter(w io.Writer, start time.Time, comments ...string) (*LogWriter, error) {
	log := hdrhistogram.NewHistogramLogWriter(w)
	// Whole seconds: the library writes no more of it.
	ms := start.Truncate(time.Second).UnixMilli()
	for _, c := range append(comments, "values in microseconds, Interval_Max in seconds") {
		if strings.ContainsAny(c, "\r\n") {
			return nil, fmt.Errorf("hlog: line break in comment %q", c)
		}
		if err := log.OutputComment(" " + c); err != nil {
			return nil, err
		}
	}
	log.SetBaseTime(ms)
	err := errors.Join(log.OutputLogFormatVersion(), log.OutputStartTime(ms), log.OutputBaseTime(ms), log.OutputLegend())
	return &LogWriter{log: log}, err
}

// Write appends one interval.
func (l *LogWriter) Write(i Interval) error {
	if strings.ContainsAny(i.Tag, ", \r\n") {
		return fmt.Errorf("hlog: tag %q: commas, spaces and line breaks are not allowed", i.Tag)
	}
	h := i.Histogram.Clone()
	h.h.SetTag(i.Tag)
	h.h.SetStartTimeMs(i.Start.UnixMilli())
	h.h.SetEndTimeMs(i.End.UnixMilli())
	return l.log.OutputIntervalHistogram(h.h)
}

// ReadLog reads all intervals of a log.
func ReadLog(r io.Reader) ([]Interval, error) {
	reader := hdrhistogram.NewHistogramLogReader(r)
	var intervals []Interval
	for {
		read, err := reader.NextIntervalHistogram()
		if err != nil {
			return nil, fmt.Errorf("hlog: interval %d: %w", len(intervals), err)
		}
		if read == nil {
			return intervals, nil
		}
		h := New()
		if dropped := h.h.Merge(read); dropped > 0 {
			return nil, fmt.Errorf("hlog: interval %d: %d values outside %d..%d µs", len(intervals), dropped, LowestUs, HighestUs)
		}
		intervals = append(intervals, Interval{
			Tag:       read.Tag(),
			Start:     time.UnixMilli(read.StartTimeMs()),
			End:       time.UnixMilli(read.EndTimeMs()),
			Histogram: h,
		})
	}
}
