// Package quota measures what clients use and says for how long one that uses
// more than its quota is to be left alone (KIP-13, KIP-124, KIP-219, KIP-599,
// KIP-612).
//
// It knows neither connections nor requests: a caller records bytes, time or
// mutations for a user and client id and is told a throttle time; it then
// answers at once and stops reading from the connection for that long. Clocks
// are the caller's, in milliseconds, so that all of it is tested without
// waiting.
//
// Without any quota a record costs one atomic load. With one, the connection's
// [Client] remembers the measurement it is part of, and a record is a lock that
// is held for the sum of eleven numbers. Nothing is allocated after a client's
// first record.
package quota

import (
	"cmp"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/replication/meta"
)

// Kind is what a quota limits.
type Kind uint8

// The kinds that users and client ids have; addresses have connection rates,
// see [Manager.Connection].
const (
	Produce  Kind = iota // request bytes a second
	Fetch                // record bytes a second
	Request              // percent of a processor
	Mutation             // partitions created or deleted a second
	kinds
)

// keys are the quota keys of the protocol, by kind.
var keys = [kinds]string{Produce: "producer_byte_rate", Fetch: "consumer_byte_rate", Request: "request_percentage", Mutation: "controller_mutation_rate"}

// String is the key that the protocol has for the kind.
func (k Kind) String() string { return keys[k] }

// connectionKey is the quota key of an address.
const connectionKey = "connection_creation_rate"

// Anonymous is the user of a connection that did not say who it is.
const Anonymous = "ANONYMOUS"

// Settings are how rates are measured. Zero values are Kafka's defaults.
type Settings struct {
	Samples, WindowSeconds                 int // quota.window.*: 11 of 1 s
	MutationSamples, MutationWindowSeconds int // controller.quota.window.*: 11 of 1 s
	// ResolveHost finds the addresses of a host that a quota names; nil finds
	// none. It may take a moment.
	ResolveHost func(name string) []netip.Addr
}

// Manager holds all quotas of a node. It is safe for concurrent use.
type Manager struct {
	window, mutations window
	resolveHost       func(string) []netip.Addr

	set        atomic.Uint32 // bit k: a quota of kind k exists
	generation atomic.Uint64 // one more with each change of limits

	mu        sync.Mutex
	limits    limits                // guarded by mu; never written to once set
	sensors   map[sensorKey]*sensor // guarded by mu
	sweptMs   int64                 // guarded by mu
	throttled [kinds + 1]throttles  // the last is of connections
	addresses addresses
}

type sensorKey struct {
	kind Kind
	tags tags
}

// throttles count for metrics.
type throttles struct{ times, milliseconds atomic.Int64 }

// Throttled is how often clients were throttled and for how long in sum.
type Throttled struct{ Times, Milliseconds int64 }

// Stats is a snapshot for metrics.
type Stats struct{ Produce, Fetch, Request, Mutation, Connection Throttled }

// Stats returns how much was throttled since the start. Any goroutine.
func (m *Manager) Stats() Stats {
	read := func(i Kind) Throttled {
		return Throttled{m.throttled[i].times.Load(), m.throttled[i].milliseconds.Load()}
	}
	return Stats{read(Produce), read(Fetch), read(Request), read(Mutation), read(kinds)}
}

// New returns a manager without quotas.
func New(s Settings) *Manager {
	windowOf := func(samples, seconds int) window {
		return window{cmp.Or(samples, 11), int64(cmp.Or(seconds, 1)) * 1000}
	}
	m := &Manager{
		window:      windowOf(s.Samples, s.WindowSeconds),
		mutations:   windowOf(s.MutationSamples, s.MutationWindowSeconds),
		resolveHost: s.ResolveHost,
		sensors:     make(map[sensorKey]*sensor),
	}
	m.addresses.init(m.window)
	return m
}

// Update puts quotas into force in place of those before. What was measured
// stays, so that a client over its old quota is over a lower one too.
func (m *Manager) Update(quotas map[meta.QuotaEntity]map[string]float64) {
	next := make(limits, len(quotas))
	set := uint32(0)
	for entity, values := range quotas {
		var l [kinds]float64
		for kind, key := range keys {
			if v := values[key]; v > 0 && entity.IP.Match == meta.QuotaAbsent {
				l[kind] = v
				set |= 1 << kind
			}
		}
		next[entity] = l
	}
	m.addresses.update(quotas, m.resolveHost)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limits = next
	for key, s := range m.sensors {
		limit, ok := next.ofTags(key.kind, key.tags)
		s.mu.Lock()
		s.limit, s.dead = limit, !ok
		s.mu.Unlock()
		if !ok {
			delete(m.sensors, key)
		}
	}
	// In this order: who sees the new generation must not keep the old set.
	m.set.Store(set)
	m.generation.Add(1)
}

// Active reports whether there is a quota of a kind at all.
func (m *Manager) Active(k Kind) bool { return m.set.Load()&(1<<k) != 0 }

// Any reports whether there is a quota of users or client ids at all.
func (m *Manager) Any() bool { return m.set.Load() != 0 }

// Client is one connection's way to its measurements. It belongs to one
// goroutine; its zero value is ready.
type Client struct {
	generation uint64
	user, id   string
	sensors    [kinds]*sensor
}

// Identify says whose requests follow on the connection. It costs a comparison
// unless they are another's, or quotas have changed.
func (m *Manager) Identify(c *Client, user string, clientID []byte, nowMs int64) {
	generation := m.generation.Load()
	if c.generation == generation && c.id == string(clientID) && c.user == user {
		return
	}
	*c = Client{generation: generation, user: user, id: string(clientID)}
	for k := range kinds {
		c.sensors[k] = m.sensor(k, user, c.id, nowMs)
	}
}

// sensor returns the measurement that a client is part of, nil if no quota of
// the kind holds it.
func (m *Manager) sensor(kind Kind, user, clientID string, nowMs int64) *sensor {
	if !m.Active(kind) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	limit, shared, ok := m.limits.resolve(kind, user, clientID)
	if !ok {
		return nil
	}
	key := sensorKey{kind, shared}
	s := m.sensors[key]
	if s == nil {
		w := m.window
		if kind == Mutation {
			w = m.mutations
		}
		m.sweep(nowMs)
		s = &sensor{window: w, limit: limit, rate: newRate(w), lastMs: nowMs}
		m.sensors[key] = s
	}
	return s
}

// sweepFrom is how many measurements there may be before idle ones are looked
// for: client ids are the clients' to choose.
const sweepFrom = 1000

// sweep forgets measurements of clients that were silent for so long that
// nothing they did counts any more. mu is held.
func (m *Manager) sweep(nowMs int64) {
	if len(m.sensors) < sweepFrom || nowMs-m.sweptMs < m.window.windowMs {
		return
	}
	m.sweptMs = nowMs
	for key, s := range m.sensors {
		s.mu.Lock()
		if nowMs-s.lastMs > int64(s.window.samples+1)*s.window.windowMs {
			s.dead = true
			delete(m.sensors, key)
		}
		s.mu.Unlock()
	}
}

// live returns the client's measurement of a kind, locked; nil if it has no
// quota.
func (m *Manager) live(c *Client, k Kind, nowMs int64) *sensor {
	s := c.sensors[k]
	if s == nil {
		return nil
	}
	if s.mu.Lock(); s.dead {
		s.mu.Unlock()
		if s = m.sensor(k, c.user, c.id, nowMs); s == nil {
			c.sensors[k] = nil
			return nil
		}
		c.sensors[k] = s
		s.mu.Lock()
	}
	return s
}

// Record adds a value and returns for how many milliseconds the client is to be
// throttled. Request time is throttled for one window at most
// (ClientRequestQuotaManager).
func (m *Manager) Record(c *Client, k Kind, value float64, nowMs int64) int64 {
	s := m.live(c, k, nowMs)
	if s == nil {
		return 0
	}
	defer s.mu.Unlock()
	s.rate.record(s.window, value, nowMs)
	s.lastMs = nowMs
	ms := s.rate.excess(s.window, s.limit, nowMs)
	if k == Request {
		ms = min(ms, s.window.windowMs)
	}
	return ms
}

// Note adds a value for which the client is not throttled now; a negative one
// takes a value back.
func (m *Manager) Note(c *Client, k Kind, value float64, nowMs int64) {
	if s := m.live(c, k, nowMs); s != nil {
		s.rate.record(s.window, value, nowMs)
		s.lastMs = nowMs
		s.mu.Unlock()
	}
}

// Throttled counts a client that is throttled for ms because of kind k.
func (m *Manager) Throttled(k Kind, ms int64) {
	m.throttled[k].times.Add(1)
	m.throttled[k].milliseconds.Add(ms)
}

// Most returns the largest value that is not throttled for certain: what all
// full windows together may have (ClientQuotaManager.getMaxValueInQuotaWindow).
// False if there is no limit.
func (m *Manager) Most(c *Client, k Kind, nowMs int64) (float64, bool) {
	s := m.live(c, k, nowMs)
	if s == nil {
		return 0, false
	}
	defer s.mu.Unlock()
	return s.limit * float64(s.window.samples-1) * float64(s.window.windowMs) / 1000, true
}

// sensor is one measurement: of a client, or of all that share a quota.
type sensor struct {
	window window

	// mu guards the following; it is held for a few additions.
	mu     sync.Mutex
	limit  float64
	rate   rate
	bucket bucket
	lastMs int64
	dead   bool // no longer in Manager.sensors: look again
}
