package engine

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/posthouse/posthouse/netio"
)

// A client that came in by an address which is not the advertised one is told to
// connect to another, which it may not reach: what costs most people the first
// hour. advertised says so, once an hour for each listener.
type advertised struct {
	mu   sync.Mutex
	next map[string]netio.Instant // by listener: when to look again
	// lookup finds a host's addresses; nil is the system's.
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

const (
	advertisedCheckEvery = netio.Instant(time.Minute)
	advertisedSaidEvery  = netio.Instant(time.Hour)
	advertisedLookupMax  = 5 * time.Second
)

// opened looks at a new connection, now and then.
func (e *Engine) opened(c *netio.Conn) {
	a, now := &e.advertised, c.Loop().Now()
	a.mu.Lock()
	due := now >= a.next[c.Listener()]
	if due {
		if a.next == nil {
			a.next = make(map[string]netio.Instant)
		}
		a.next[c.Listener()] = now + advertisedCheckEvery
	}
	a.mu.Unlock()
	if due {
		listener, local, peer := c.Listener(), c.LocalAddr(), c.RemoteAddr()
		go e.checkAdvertised(listener, local, peer, now)
	}
}

// checkAdvertised compares the address a client came in by with the advertised
// one. It may wait for a name server.
func (e *Engine) checkAdvertised(listener string, local, peer netip.AddrPort, now netio.Instant) {
	self := e.image().Broker(e.config.NodeID)
	if self == nil || !local.IsValid() {
		return
	}
	end, ok := self.Endpoint(listener)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, advertisedLookupMax)
	defer cancel()
	lookup := e.advertised.lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	addrs, err := lookup(ctx, end.Host)
	if err == nil && slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Unmap() == local.Addr().Unmap() }) && int32(local.Port()) == end.Port {
		return
	}
	if ctx.Err() != nil && e.ctx.Err() != nil {
		return // the broker stops
	}
	e.advertised.mu.Lock()
	said := e.advertised.next[listener] > now+advertisedCheckEvery // or will be by a later look
	if !said {
		e.advertised.next[listener] = now + advertisedSaidEvery
	}
	e.advertised.mu.Unlock()
	if said {
		return
	}
	e.log.Warn("a client came in by an address that is not the advertised one, to which it is sent next: if it cannot go on, set advertised.listeners",
		"listener", listener, "by", local.String(), "advertised", net.JoinHostPort(end.Host, strconv.Itoa(int(end.Port))), "peer", peer.String(), "err", err)
}
