package quota

import "math"

// window is how a rate is sampled: samples of windowMs each, the last of them
// still filling (quota.window.num, quota.window.size.seconds).
type window struct {
	samples  int
	windowMs int64
}

// rate is Kafka's Rate over a SampledStat (SampledStat.java, Rate.java): sums in
// time windows, divided by the time that the kept windows span.
//
// A window begins with the first value after the last one was full, so time
// without values makes none. One window more is kept than is monitored, because
// the oldest may have begun before the span and reach into it.
type rate struct {
	samples []sample
	current int
}

// sample is one window: when it began, its last value's time, the sum.
type sample struct {
	startMs, lastMs int64
	sum             float64
}

// newRate returns a rate with room for all the windows it will ever have.
func newRate(w window) rate { return rate{samples: make([]sample, 0, w.samples+1)} }

func (r *rate) record(w window, value float64, nowMs int64) {
	if len(r.samples) == 0 {
		r.samples = append(r.samples, sample{startMs: nowMs, lastMs: nowMs})
	}
	s := &r.samples[r.current]
	if nowMs-s.startMs >= w.windowMs {
		r.current = (r.current + 1) % (w.samples + 1)
		if r.current == len(r.samples) {
			r.samples = append(r.samples, sample{})
		}
		s = &r.samples[r.current]
		*s = sample{startMs: nowMs}
	}
	s.sum += value
	s.lastMs = nowMs
}

// measure returns the rate a second and the milliseconds it was measured over.
// Fewer windows than are monitored count as if the others had been empty.
func (r *rate) measure(w window, nowMs int64) (perSecond float64, spanMs int64) {
	oldest, sum := nowMs, 0.0
	for i := range r.samples {
		s := &r.samples[i]
		if nowMs-s.lastMs >= int64(w.samples)*w.windowMs {
			*s = sample{startMs: nowMs, lastMs: nowMs}
		}
		oldest = min(oldest, s.startMs)
		sum += s.sum
	}
	spanMs = nowMs - oldest
	if full, least := spanMs/w.windowMs, int64(w.samples-1); full < least {
		spanMs += (least - full) * w.windowMs
	}
	spanMs = max(spanMs, 1)
	return sum / (float64(spanMs) / 1000), spanMs
}

// excess returns how long no value may come until the rate is within limit
// again, in milliseconds; zero if it is: of a rate O over W and a limit T, the X
// of O·W/(W+X) = T (QuotaUtils.throttleTime).
func (r *rate) excess(w window, limit float64, nowMs int64) int64 {
	perSecond, spanMs := r.measure(w, nowMs)
	if perSecond <= limit {
		return 0
	}
	return milliseconds((perSecond - limit) / limit * float64(spanMs))
}

// milliseconds rounds as Java's Math.round does, and keeps to what an answer's
// throttle time can say.
func milliseconds(f float64) int64 {
	return int64(math.Min(math.Floor(f+0.5), math.MaxInt32))
}

// bucket is Kafka's TokenBucket: it fills at the quota's rate up to what all
// windows together would let pass, and may be overdrawn (KIP-599).
type bucket struct {
	tokens float64
	lastMs int64
	filled bool // once: a new bucket is full
}

func (b *bucket) refill(w window, limit float64, nowMs int64) {
	burst := float64(w.samples) * float64(w.windowMs) / 1000 * limit
	if !b.filled {
		b.tokens, b.filled = burst, true
	}
	b.tokens = math.Min(burst, b.tokens+limit*float64(nowMs-b.lastMs)/1000)
	b.lastMs = nowMs
}

// take takes tokens, though there may be too few.
func (b *bucket) take(w window, limit, tokens float64, nowMs int64) {
	b.refill(w, limit, nowMs)
	b.tokens -= tokens
}

// deficit returns how long it takes until the bucket is not overdrawn, in
// milliseconds; zero if it is not.
func (b *bucket) deficit(w window, limit float64, nowMs int64) int64 {
	b.refill(w, limit, nowMs)
	if b.tokens >= 0 {
		return 0
	}
	return milliseconds(-b.tokens / limit * 1000)
}
