package broker

import (
	"net/netip"
	"sync"
	"time"

	"github.com/posthouse/posthouse/engine/admin"
	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/engine/quota"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/replication/meta"
)

// newQuotas makes the quotas that the engine and the listeners share.
func newQuotas(c *config.Broker) *quota.Manager {
	return quota.New(quota.Settings{
		Samples: c.Quotas.Samples, WindowSeconds: c.Quotas.WindowSeconds,
		MutationSamples: c.Quotas.MutationSamples, MutationWindowSeconds: c.Quotas.MutationWindowSeconds,
		ResolveHost: admin.ResolveHost,
	})
}

// limits keeps what the listeners allow as the dynamic configs say.
type limits struct {
	mu sync.Mutex
	in *config.Broker // that are in force; guarded by mu
}

// follow puts the limits under an image into force if they are others. It is
// called for every image, in order.
func (b *Broker) follow(_, next *meta.Image) {
	b.limits.mu.Lock()
	defer b.limits.mu.Unlock()
	c := b.effective.under(next)
	if b.net == nil || c == b.limits.in {
		return
	}
	b.limits.in = c
	b.storage.SetProducerIDExpiration(int64(c.ProducerIDExpirationMs))
	b.quotas.SetConnectionRate(c.Quotas.ConnectionRate)
	overrides := make(map[netip.Addr]int, len(c.MaxConnectionsOverrides))
	for host, n := range c.MaxConnectionsOverrides {
		for _, addr := range admin.ResolveHost(host) {
			overrides[addr.Unmap()] = int(n)
		}
	}
	b.net.SetLimits(netio.Limits{
		Connections:    connectionsMax(c.MaxConnections, b.logger),
		PerIP:          int(c.MaxConnectionsPerIP),
		PerIPOverrides: overrides,
		Admit:          b.admit,
	})
}

// admit is asked about each new connection.
func (b *Broker) admit(_ string, peer netip.Addr) (pause, hold time.Duration) {
	pauseMs, holdMs := b.quotas.Connection(peer, int64(netio.ClockNow())/int64(time.Millisecond))
	return time.Duration(pauseMs) * time.Millisecond, time.Duration(holdMs) * time.Millisecond
}
