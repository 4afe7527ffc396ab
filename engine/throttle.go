package engine

import (
	"time"

	"github.com/posthouse/posthouse/engine/quota"
	"github.com/posthouse/posthouse/netio"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Quotas as requests meet them (KIP-13, KIP-124, KIP-219). Whoever is over a
// quota is answered at once, with the throttle time, and then its connection is
// not read for that long: the loop goes on, a timer ends it. Clients below the
// version that says "I throttle myself" are treated alike, as in Kafka.
//
//   - Produce counts the bytes of requests when they are answered, acks=0 too.
//   - Fetch counts the bytes of records; what would break the quota is not sent,
//     and the answer is empty. What one fetch may ask for is bounded by what the
//     windows hold, so that it can be answered at all.
//   - Request time is what handlers take, on the loop or on a goroutine, noted
//     after the request: the next answer is throttled by it. Produce with acks=0
//     and fetches of brokers are exempt.
//   - Mutations are taken by engine/admin; see quota.Mutations.
//
// Without quotas all this is one atomic load a request.

// nowMs is the loop's clock as quotas have it.
func (lp *loop) nowMs() int64 { return int64(lp.net.Now() / netio.Instant(time.Millisecond)) }

// clockMs is that clock on any goroutine.
func clockMs() int64 { return int64(netio.ClockNow() / netio.Instant(time.Millisecond)) }

// percent is a time as a share of one processor in a second.
func percent(d netio.Instant) float64 { return float64(d) * 100 / float64(time.Second) }

// meter begins a request of a client that quotas may hold.
func (k *call) meter() {
	lp := k.loop
	m := lp.engine.quotas
	k.exempt, k.began = false, 0
	m.Identify(&k.conn.quota, quota.Anonymous, k.header.ClientID, lp.nowMs())
	if m.Active(quota.Request) {
		k.began = netio.ClockNow()
	}
}

// metered notes the time that a request took on the loop.
func (k *call) metered() {
	if k.began != 0 && !k.exempt {
		k.loop.engine.quotas.Note(&k.conn.quota, quota.Request, percent(netio.ClockNow()-k.began), k.loop.nowMs())
	}
}

// mute leaves a connection alone for the longest of its throttle times, in
// milliseconds, and returns that.
func (lp *loop) mute(c *conn, kind quota.Kind, ms int64, requestMs int64) int32 {
	if requestMs > ms {
		kind, ms = quota.Request, requestMs
	}
	if ms <= 0 {
		return 0
	}
	lp.engine.quotas.Throttled(kind, ms)
	until := lp.net.Now() + netio.Instant(ms)*netio.Instant(time.Millisecond)
	if until > c.mutedUntil { // an earlier throttle may last longer
		c.mutedUntil = until
		c.net.Mute(time.Duration(ms) * time.Millisecond)
	}
	return int32(ms)
}

// requestThrottle returns for how long the request quota throttles the client.
func (lp *loop) requestThrottle(c *conn) int64 {
	if m := lp.engine.quotas; m.Active(quota.Request) {
		return m.Record(&c.quota, quota.Request, 0, lp.nowMs())
	}
	return 0
}

// throttle puts the throttle time of the request quota into an answer and mutes
// the connection.
func (lp *loop) throttle(c *conn, resp kmsg.Response) {
	if ms := lp.mute(c, quota.Request, 0, lp.requestThrottle(c)); ms > 0 {
		setThrottle(resp, ms)
	}
}

func setThrottle(resp kmsg.Response, ms int32) {
	if r, ok := resp.(kmsg.SetThrottleResponse); ok {
		r.SetThrottle(ms)
	}
}

// throttle counts a Produce and returns its throttle time.
func (op *produceOp) throttle() int32 {
	lp, m := op.loop, op.loop.engine.quotas
	if !m.Any() {
		return 0
	}
	ms, requestMs := int64(0), int64(0)
	if m.Active(quota.Produce) {
		ms = m.Record(&op.conn.quota, quota.Produce, float64(op.frameBytes), lp.nowMs())
	}
	if op.request.Acks != 0 {
		requestMs = lp.requestThrottle(op.conn)
	}
	return lp.mute(op.conn, quota.Produce, ms, requestMs)
}

// bound keeps a consumer's fetch within what its quota can ever let pass.
func (op *fetchOp) bound() {
	if m := op.loop.engine.quotas; m.Active(quota.Fetch) && !op.isReplica() {
		if most, ok := m.Most(&op.conn.quota, quota.Fetch, op.loop.nowMs()); ok && most < float64(op.maxBytes) {
			op.maxBytes = int32(most)
		}
	}
}

// throttle counts a consumer's Fetch and returns its throttle time; a fetch that
// is throttled counts no bytes, since it sends none.
func (op *fetchOp) throttle() int32 {
	lp, m := op.loop, op.loop.engine.quotas
	if !m.Any() || op.isReplica() {
		return 0
	}
	ms, now := int64(0), lp.nowMs()
	if m.Active(quota.Fetch) {
		ms = m.Record(&op.conn.quota, quota.Fetch, float64(op.bytes), now)
	}
	throttled := lp.mute(op.conn, quota.Fetch, ms, lp.requestThrottle(op.conn))
	if throttled > 0 && m.Active(quota.Fetch) {
		m.Note(&op.conn.quota, quota.Fetch, -float64(op.bytes), now)
	}
	return throttled
}

// throttle is that of a cold request, on its goroutine: of the time since began
// and of the partitions it created or deleted.
func (op *coldOp) throttle(began netio.Instant, resp kmsg.Response) {
	m := op.engine.quotas
	if !m.Any() {
		return
	}
	if m.Active(quota.Request) {
		var c quota.Client
		now := clockMs()
		m.Identify(&c, quota.Anonymous, []byte(op.client.ClientID), now)
		op.requestMs = m.Record(&c, quota.Request, percent(netio.ClockNow()-began), now)
	}
	if q := op.client.Mutations; q != nil {
		op.mutationMs = q.ThrottleMs()
	}
	if ms := max(op.requestMs, op.mutationMs); ms > 0 {
		setThrottle(resp, int32(ms))
	}
}
