package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// counter reads a counter's key, first when it does not exist.
func (c *Controller) counter(ctx context.Context, key string, first int64) (int64, meta.Version, error) {
	e, err := c.cfg.Store.Get(ctx, key)
	if errors.Is(err, meta.ErrNotFound) {
		return first, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("controller: %w", err)
	}
	var v meta.CounterValue
	if err := meta.Decode(e, &v); err != nil {
		return 0, 0, err
	}
	return v.Next, e.Version, nil
}

// RegisterBroker writes a broker's registration with a new epoch, which is
// higher than all that any broker ever had: what an earlier run of it still
// sends is fenced by that.
func (c *Controller) RegisterBroker(ctx context.Context, b meta.Broker) error {
	return c.step(ctx, func(im *meta.Image) (*plan, error) {
		p := &plan{}
		return p, c.planRegistration(ctx, im, p, b)
	})
}

func (c *Controller) planRegistration(ctx context.Context, im *meta.Image, p *plan, b meta.Broker) error {
	epoch, version, err := c.counter(ctx, meta.KeyBrokerEpochs, 1)
	if err != nil {
		return err
	}
	p.guards = append(p.guards, meta.Guard{Key: meta.KeyBrokerEpochs, Version: version})
	p.ops = append(p.ops, meta.Put(meta.KeyBrokerEpochs, meta.Encode(&meta.CounterValue{Next: epoch + 1})))
	p.put(im, meta.KeyBroker(b.ID), meta.Encode(&meta.BrokerValue{
		Epoch: epoch, Rack: b.Rack, Listeners: b.Listeners, Fenced: b.Fenced,
	}))
	return nil
}

// BumpLeaderEpochs gives each partition its next leader epoch, its leader
// unchanged: after an unclean stop records may be gone, and clients must see
// that the log is not the one they knew (KIP-320). Partitions that do not
// exist are passed over. It returns the image that holds the new epochs.
func (c *Controller) BumpLeaderEpochs(ctx context.Context, tps []record.TopicPartition) (*meta.Image, error) {
	return c.moveEpochs(ctx, tps, func(part *meta.Partition, _ record.TopicPartition) record.LeaderEpoch {
		return part.LeaderEpoch + 1
	})
}

// RaiseLeaderEpochs gives each partition at least the leader epoch named.
func (c *Controller) RaiseLeaderEpochs(ctx context.Context, floors map[record.TopicPartition]record.LeaderEpoch) (*meta.Image, error) {
	tps := make([]record.TopicPartition, 0, len(floors))
	for tp := range floors {
		tps = append(tps, tp)
	}
	return c.moveEpochs(ctx, tps, func(_ *meta.Partition, tp record.TopicPartition) record.LeaderEpoch { return floors[tp] })
}

func (c *Controller) moveEpochs(ctx context.Context, tps []record.TopicPartition, to func(*meta.Partition, record.TopicPartition) record.LeaderEpoch) (*meta.Image, error) {
	tps = slices.Clone(tps)
	slices.SortFunc(tps, compareTPs)
	tps = slices.Compact(tps)
	err := c.step(ctx, func(im *meta.Image) (*plan, error) {
		p := &plan{}
		for _, tp := range tps {
			part := im.Partition(tp)
			if part == nil {
				continue
			}
			epoch := to(part, tp)
			if epoch <= part.LeaderEpoch {
				continue
			}
			t := im.Topics[tp.Topic]
			p.put(im, meta.KeyState(t.ID, tp.Partition), meta.Encode(&meta.StateValue{
				Leader: part.Leader, Epoch: int32(epoch), Change: part.PartitionEpoch + 1,
				ISR: part.ISR, ELR: part.ELR, LastKnownELR: part.LastKnownELR,
			}))
			p.end(nil)
		}
		return p, nil
	})
	return c.Image(), err
}

// AlterBrokerConfigs sets and removes dynamic configs of one broker, or with
// broker -1 those of all brokers, in one write. What the broker's
// configuration does not accept is INVALID_CONFIG.
func (c *Controller) AlterBrokerConfigs(ctx context.Context, broker int32, set map[string]string, remove []string) error {
	return c.step(ctx, func(im *meta.Image) (*plan, error) {
		key, current := meta.KeyBrokerDefault, im.BrokerDefaults
		if broker >= 0 {
			key, current = meta.KeyBrokerConfig(broker), im.BrokerConfigs[broker]
		}
		next := altered(current, set, remove)
		defaults, own := im.BrokerDefaults, next
		if broker < 0 {
			defaults, own = next, im.BrokerConfigs[c.cfg.NodeID]
		}
		if _, err := c.cfg.Broker(im).WithDynamic(defaults, own); err != nil {
			return nil, &record.Error{Kerr: kerr.InvalidConfig, Message: err.Error()}
		}
		return planConfigs(im, key, next), nil
	})
}

// altered applies an alteration to a copy.
func altered(current, set map[string]string, remove []string) map[string]string {
	next := make(map[string]string, len(current)+len(set))
	maps.Copy(next, current)
	for _, key := range remove {
		delete(next, key)
	}
	maps.Copy(next, set)
	return next
}

// planConfigs writes a resource's overrides; none means no key.
func planConfigs(im *meta.Image, key string, values map[string]string) *plan {
	p := &plan{}
	if len(values) == 0 {
		p.remove(im, key)
	} else {
		p.put(im, key, meta.Encode(&meta.ConfigValue{Values: values}))
	}
	return p
}
