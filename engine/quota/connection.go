package quota

import (
	"math"
	"net/netip"
	"sync"

	"github.com/posthouse/posthouse/replication/meta"
)

// addresses are the rates of new connections: of the node, and of addresses.
type addresses struct {
	window window

	mu       sync.Mutex
	node     float64 // connections a second; 0: no limit; guarded by mu
	rate     rate    // of the node; guarded by mu
	exact    map[netip.Addr]float64
	fallback float64 // of addresses that are not in exact; 0: no limit
	rates    map[netip.Addr]*addressRate
	sweptMs  int64
}

type addressRate struct {
	rate   rate
	lastMs int64
}

func (a *addresses) init(w window) {
	a.window, a.rate, a.rates = w, newRate(w), make(map[netip.Addr]*addressRate)
}

// update takes over the quotas of addresses. Hosts are looked up once, now.
func (a *addresses) update(quotas map[meta.QuotaEntity]map[string]float64, resolve func(string) []netip.Addr) {
	exact, fallback := make(map[netip.Addr]float64), 0.0
	for entity, values := range quotas {
		limit := values[connectionKey]
		if limit <= 0 {
			continue
		}
		switch entity.IP.Match {
		case meta.QuotaDefault:
			fallback = limit
		case meta.QuotaExact:
			if addr, err := netip.ParseAddr(entity.IP.Name); err == nil {
				exact[addr.Unmap()] = limit
			} else if resolve != nil {
				for _, addr := range resolve(entity.IP.Name) {
					exact[addr.Unmap()] = limit
				}
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.exact, a.fallback = exact, fallback
}

// SetConnectionRate limits the new connections of the whole node, a second
// (max.connection.creation.rate); math.MaxInt32 is no limit.
func (m *Manager) SetConnectionRate(perSecond int32) {
	m.addresses.mu.Lock()
	defer m.addresses.mu.Unlock()
	m.addresses.node = 0
	if perSecond != math.MaxInt32 {
		m.addresses.node = max(float64(perSecond), 1e-9)
	}
}

// Connection records a new connection and returns, in milliseconds, for how long
// no further one of anybody is to be accepted, and for how long this one is to
// be held before it is closed unserved, because its address has had its share;
// both at most one window (SocketServer.ConnectionQuotas).
func (m *Manager) Connection(addr netip.Addr, nowMs int64) (pauseMs, holdMs int64) {
	a := &m.addresses
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.node > 0 {
		a.rate.record(a.window, 1, nowMs)
		pauseMs = min(a.rate.excess(a.window, a.node, nowMs), a.window.windowMs)
	}
	limit, ok := a.exact[addr]
	if !ok {
		limit = a.fallback
	}
	if limit > 0 {
		r := a.of(addr, nowMs)
		r.rate.record(a.window, 1, nowMs)
		if holdMs = min(r.rate.excess(a.window, limit, nowMs), a.window.windowMs); holdMs > 0 {
			r.rate.record(a.window, -1, nowMs)
		}
		r.lastMs = nowMs
	}
	if throttled := max(pauseMs, holdMs); throttled > 0 {
		m.Throttled(kinds, throttled)
	}
	return pauseMs, holdMs
}

// of returns the measurement of an address. mu is held.
func (a *addresses) of(addr netip.Addr, nowMs int64) *addressRate {
	r := a.rates[addr]
	if r == nil {
		a.sweep(nowMs)
		r = &addressRate{rate: newRate(a.window)}
		a.rates[addr] = r
	}
	return r
}

// sweep forgets addresses that have been silent for long. mu is held.
func (a *addresses) sweep(nowMs int64) {
	if len(a.rates) < sweepFrom || nowMs-a.sweptMs < a.window.windowMs {
		return
	}
	a.sweptMs = nowMs
	for addr, r := range a.rates {
		if nowMs-r.lastMs > int64(a.window.samples+1)*a.window.windowMs {
			delete(a.rates, addr)
		}
	}
}
