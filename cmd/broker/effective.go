package broker

import (
	"maps"
	"sync/atomic"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
)

// effectiveConfig is the broker's configuration with the cluster's dynamic
// configs on top. Everybody who asks under the same dynamic configs gets the
// same pointer, so that users can tell by it whether anything changed.
type effectiveConfig struct {
	static *config.Broker
	last   atomic.Pointer[effectiveUnder]
}

// effectiveUnder is a configuration and the dynamic configs that made it.
type effectiveUnder struct {
	defaults, own map[string]string
	broker        *config.Broker
}

// under returns the configuration under an image. Dynamic configs that this
// version cannot read (a newer one wrote them) leave the static ones in force;
// the controller refuses such values from clients.
func (e *effectiveConfig) under(image *meta.Image) *config.Broker {
	defaults, own := image.BrokerDefaults, image.BrokerConfigs[e.static.NodeID]
	if len(defaults) == 0 && len(own) == 0 {
		return e.static
	}
	if last := e.last.Load(); last != nil && maps.Equal(last.defaults, defaults) && maps.Equal(last.own, own) {
		return last.broker
	}
	broker, err := e.static.WithDynamic(defaults, own)
	if err != nil {
		broker = e.static
	}
	e.last.Store(&effectiveUnder{defaults: defaults, own: own, broker: broker})
	return broker
}
