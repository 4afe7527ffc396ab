package hdr

// Recorder is what one event loop records into: counts of the current interval,
// taken off from time to time, and of everything so far. Record touches one
// histogram only.
type Recorder struct {
	interval *Histogram
	total    *Histogram
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder { return &Recorder{interval: New(), total: New()} }

// Record counts one latency, in microseconds.
func (r *Recorder) Record(us int64) { r.interval.Record(us) }

// RecordN counts a latency n times.
func (r *Recorder) RecordN(us, n int64) { r.interval.RecordN(us, n) }

// TakeInterval adds the interval's counts to into (which may be nil) and to the
// total, and begins a new interval.
func (r *Recorder) TakeInterval(into *Histogram) {
	if r.interval.Count() == 0 {
		return
	}
	if into != nil {
		into.Merge(r.interval)
	}
	r.total.Merge(r.interval)
	r.interval.Reset()
}

// TakeTotal ends the interval and adds all counts so far to into.
func (r *Recorder) TakeTotal(into *Histogram) {
	r.TakeInterval(nil)
	into.Merge(r.total)
}
