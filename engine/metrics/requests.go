package metrics

import (
	"maps"
	"time"
)

const (
	// apiKeysMax bounds the API keys that are counted.
	apiKeysMax = 128
	// versionsMax bounds the versions of an API that are counted apart; the last
	// stands for all above.
	versionsMax = 24
)

// Requests is what one loop counts of the requests that it answers, by API. It
// belongs to that loop: no field is atomic, and after the first request of an
// API counting allocates nothing. The zero Requests is empty.
type Requests struct {
	apis [apiKeysMax]*requestCounts
	// errors counts error codes that answers carried, by API key and code; made
	// with the first one.
	errors map[APIError]uint64
}

// APIError is an error code in answers of one API.
type APIError struct{ Key, Code int16 }

// requestCounts is what is counted of one API while requests come. Most of them
// neither queue nor wait: those are counted in one histogram, of which the four
// that are shown are made later. Four for each request cost three times as much.
type requestCounts struct {
	versions [versionsMax]uint64
	bytes    uint64
	// prompt has the requests that were all local time.
	prompt                      Histogram
	total, queue, local, remote Histogram // of the others
}

// RequestCounts is what was counted of one API. The four times are those of
// Kafka's RequestMetrics: Total is from arrival to the last byte of the answer,
// Queue before the handler began, Remote waiting for others (replicas, records,
// members), Local the rest.
type RequestCounts struct {
	Versions                    [versionsMax]uint64
	Bytes                       uint64 // of requests, without their length prefixes
	Total, Queue, Local, Remote Histogram
}

// of returns the counts of an API, nil for a key out of range.
func (r *Requests) of(key int16) *requestCounts {
	if uint16(key) >= apiKeysMax {
		return nil
	}
	if r.apis[key] == nil {
		r.apis[key] = new(requestCounts)
	}
	return r.apis[key]
}

// Began counts a request of so many bytes.
func (r *Requests) Began(key, version int16, bytes int) {
	if c := r.of(key); c != nil {
		c.versions[min(uint16(version), versionsMax-1)]++
		c.bytes += uint64(bytes)
	}
}

// Answered counts how long a request took.
func (r *Requests) Answered(key int16, total, queued, waited time.Duration) {
	c := r.of(key)
	if c == nil {
		return
	}
	if queued == 0 && waited == 0 {
		c.prompt.Observe(total)
		return
	}
	c.total.Observe(total)
	c.queue.Observe(queued)
	c.remote.Observe(waited)
	c.local.Observe(total - queued - waited)
}

// Failed counts an error code of an answer; 0, no error, is not counted. An
// answer may carry many, one for each of its partitions.
func (r *Requests) Failed(key, code int16) {
	if code == 0 {
		return
	}
	if r.errors == nil {
		r.errors = make(map[APIError]uint64)
	}
	r.errors[APIError{key, code}]++
}

// Add puts what another loop has counted on top.
func (r *Requests) Add(o *Requests) {
	for key, from := range o.apis {
		if from == nil {
			continue
		}
		c := r.of(int16(key))
		for v, n := range from.versions {
			c.versions[v] += n
		}
		c.bytes += from.bytes
		c.prompt.Add(&from.prompt)
		c.total.Add(&from.total)
		c.queue.Add(&from.queue)
		c.local.Add(&from.local)
		c.remote.Add(&from.remote)
	}
	for e, n := range o.errors {
		if r.errors == nil {
			r.errors = make(map[APIError]uint64)
		}
		r.errors[e] += n
	}
}

// API is what was counted of one API, nil if nothing was.
func (r *Requests) API(key int16) *RequestCounts {
	if uint16(key) >= apiKeysMax || r.apis[key] == nil {
		return nil
	}
	c := r.apis[key]
	out := &RequestCounts{Versions: c.versions, Bytes: c.bytes, Total: c.total, Queue: c.queue, Local: c.local, Remote: c.remote}
	out.Total.Add(&c.prompt)
	out.Local.Add(&c.prompt)
	out.Queue.counts[0] += c.prompt.Count()
	out.Remote.counts[0] += c.prompt.Count()
	return out
}

// Errors are the error codes that were counted.
func (r *Requests) Errors() map[APIError]uint64 { return maps.Clone(r.errors) }
