package broker

import (
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
)

// effectiveConfig is the broker's configuration with the cluster's dynamic
// configs on top. Everybody who asks under the same dynamic configs gets the
// same pointer, so that users can tell by it whether anything changed.
type effectiveConfig struct {
	static *config.Broker
	logger *slog.Logger
	last   atomic.Pointer[effectiveUnder]
	making sync.Mutex // one at a time builds what last is set to
}

// effectiveUnder is a configuration and the dynamic configs that made it.
type effectiveUnder struct {
	defaults, own map[string]string
	broker        *config.Broker
}

func (u *effectiveUnder) madeBy(defaults, own map[string]string) bool {
	return u != nil && maps.Equal(u.defaults, defaults) && maps.Equal(u.own, own)
}

// under returns the configuration under an image. Dynamic configs that this
// version cannot read (a newer one wrote them) leave the static ones in force;
// the controller refuses such values from clients.
func (e *effectiveConfig) under(image *meta.Image) *config.Broker {
	defaults, own := image.BrokerDefaults, image.BrokerConfigs[e.static.NodeID]
	if len(defaults) == 0 && len(own) == 0 {
		return e.static
	}
	if last := e.last.Load(); last.madeBy(defaults, own) {
		return last.broker
	}
	e.making.Lock()
	defer e.making.Unlock()
	if last := e.last.Load(); last.madeBy(defaults, own) {
		return last.broker
	}
	broker, err := e.static.WithDynamic(defaults, own)
	if err != nil {
		e.logger.Error("dynamic configs of this broker cannot be used: those of its file are in force", "err", err)
		broker = e.static
	}
	e.last.Store(&effectiveUnder{defaults: defaults, own: own, broker: broker})
	return broker
}
