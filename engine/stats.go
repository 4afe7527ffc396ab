package engine

import (
	"reflect"
	"sync"

	"github.com/posthouse/posthouse/engine/metrics"
	"github.com/posthouse/posthouse/engine/quota"
	"github.com/posthouse/posthouse/netio"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const fetchKey = 1

// The fetches of consumers and of followers are counted apart, as in Kafka,
// under keys that no API has.
const (
	consumerFetchKey int16 = 126
	followerFetchKey int16 = 127
)

// followerFetch in Request.State marks the fetch of a follower.
type followerFetch struct{}

// loopStats is what one loop counts; its own, in plain fields. Whoever wants to
// know posts a task to the loop (Engine.LoopStats).
type loopStats struct {
	requests metrics.Requests
	// Requests parked now.
	delayedProduces, delayedFetches int
}

// LoopStats is what the engine has counted on one loop.
type LoopStats struct {
	// Requests are counted by the keys of APIs, and fetches besides by
	// ConsumerFetches and FollowerFetches, where their times are.
	Requests                        metrics.Requests
	DelayedProduces, DelayedFetches int
}

// Keys of LoopStats.Requests beside those of APIs, with Kafka's names for them.
var (
	ConsumerFetches = API{Key: consumerFetchKey, Name: "FetchConsumer"}
	FollowerFetches = API{Key: followerFetchKey, Name: "FetchFollower"}
)

// LoopStats adds to s what was counted on a loop. On that loop's goroutine only.
func (e *Engine) LoopStats(l *netio.Loop, s *LoopStats) {
	lp, ok := l.State.(*loop)
	if !ok {
		return // it had no connection yet
	}
	s.Requests.Add(&lp.stats.requests)
	s.DelayedProduces += lp.stats.delayedProduces
	s.DelayedFetches += lp.stats.delayedFetches
}

// FetchSessions are the fetch sessions and the partitions that they remember
// together. Any goroutine.
func (e *Engine) FetchSessions() (sessions, partitions int) {
	for i := range e.sessions.shards {
		s := &e.sessions.shards[i]
		s.mu.Lock()
		sessions += len(s.sessions)
		partitions += s.partitions
		s.mu.Unlock()
	}
	return sessions, partitions
}

// Throttled is how often and how long clients were held to their quotas. Any
// goroutine.
func (e *Engine) Throttled() quota.Stats { return e.quotas.Stats() }

// Answered implements netio.Observer.
func (e *Engine) Answered(l *netio.Loop, r *netio.Request) {
	lp, ok := l.State.(*loop)
	if !ok {
		return
	}
	key := r.API()
	if key == fetchKey {
		key = consumerFetchKey
		if r.State == (followerFetch{}) {
			key = followerFetchKey
		}
	}
	t := r.Timing()
	lp.stats.requests.Answered(key, t.Total, t.Queued, t.Waited)
}

// mark notes who fetches.
func (lp *loop) mark(r *netio.Request, version int16, follower bool, bytes int) {
	key := consumerFetchKey
	r.State = nil
	if follower {
		key, r.State = followerFetchKey, followerFetch{}
	}
	lp.stats.requests.Began(key, version, bytes)
}

// countErrors counts the error codes of an answer.
func (lp *loop) countErrors(key int16, resp kmsg.Response) {
	planOf(reflect.TypeOf(resp).Elem()).each(reflect.ValueOf(resp).Elem(), func(code int16) {
		lp.stats.requests.Failed(key, code)
	})
}

// errorCodesMax bounds the codes that are taken from one answer.
const errorCodesMax = 10_000

// errorCodes appends the error codes of an answer to dst, without zeros.
func errorCodes(dst []int16, resp kmsg.Response) []int16 {
	planOf(reflect.TypeOf(resp).Elem()).each(reflect.ValueOf(resp).Elem(), func(code int16) {
		if code != 0 && len(dst) < errorCodesMax {
			dst = append(dst, code)
		}
	})
	return dst
}

// errorPlan says where a message has error codes: kmsg has some 90 types of
// answers with codes at several depths, which reflection finds once for each.
type errorPlan struct {
	code  int // index of the field ErrorCode, -1 for none
	lists []errorList
}

// errorList is a field that is an array of messages with error codes.
type errorList struct {
	field int
	plan  *errorPlan
}

var errorPlans sync.Map // reflect.Type → *errorPlan

func planOf(t reflect.Type) *errorPlan {
	if p, ok := errorPlans.Load(t); ok {
		return p.(*errorPlan)
	}
	p := makePlan(t)
	if p == nil {
		p = &errorPlan{code: -1}
	}
	errorPlans.Store(t, p)
	return p
}

// makePlan is nil for a type without any error code.
func makePlan(t reflect.Type) *errorPlan {
	p := &errorPlan{code: -1}
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Name == "ErrorCode" && f.Type.Kind() == reflect.Int16:
			p.code = i
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			if inner := makePlan(f.Type.Elem()); inner != nil {
				p.lists = append(p.lists, errorList{i, inner})
			}
		}
	}
	if p.code < 0 && len(p.lists) == 0 {
		return nil
	}
	return p
}

// each calls fn with every error code of v, zeros included.
func (p *errorPlan) each(v reflect.Value, fn func(int16)) {
	if p.code >= 0 {
		fn(int16(v.Field(p.code).Int()))
	}
	for _, l := range p.lists {
		list := v.Field(l.field)
		for i := range list.Len() {
			l.plan.each(list.Index(i), fn)
		}
	}
}
