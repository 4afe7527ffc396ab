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
	apis [apiKeysMax]*RequestCounts
	// errors counts error codes that answers carried, by API key and code; made
	// with the first one.
	errors map[APIError]uint64
}

// APIError is an error code in answers of one API.
type APIError struct{ Key, Code int16 }

// RequestCounts is what is counted of one API. The four times are those of
// Kafka's RequestMetrics: Total is from arrival to the last byte of the answer,
// Queue before the handler began, Remote waiting for others (replicas, records,
// members), Local the rest.
type RequestCounts struct {
	Versions                    [versionsMax]uint64
	Bytes                       uint64 // of requests, without their length prefixes
	Total, Queue, Local, Remote Histogram
}

// of returns the counts of an API, nil for a key out of range.
func (r *Requests) of(key int16) *RequestCounts {
	if uint16(key) >= apiKeysMax {
		return nil
	}
	if r.apis[key] == nil {
		r.apis[key] = new(RequestCounts)
	}
	return r.apis[key]
}

// Began counts a request of so many bytes.
func (r *Requests) Began(key, version int16, bytes int) {
	if c := r.of(key); c != nil {
		c.Versions[min(uint16(version), versionsMax-1)]++
		c.Bytes += uint64(bytes)
	}
}

// Answered counts how long a request took.
func (r *Requests) Answered(key int16, total, queued, waited time.Duration) {
	if c := r.of(key); c != nil {
		c.Total.Observe(total)
		c.Queue.Observe(queued)
		c.Remote.Observe(waited)
		c.Local.Observe(total - queued - waited)
	}
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
		for v, n := range from.Versions {
			c.Versions[v] += n
		}
		c.Bytes += from.Bytes
		c.Total.Add(&from.Total)
		c.Queue.Add(&from.Queue)
		c.Local.Add(&from.Local)
		c.Remote.Add(&from.Remote)
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
	if uint16(key) >= apiKeysMax {
		return nil
	}
	return r.apis[key]
}

// Errors are the error codes that were counted.
func (r *Requests) Errors() map[APIError]uint64 { return maps.Clone(r.errors) }
