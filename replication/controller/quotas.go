package controller

import (
	"context"
	"maps"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// AlterGroupConfigs sets and removes configs of a group in one write. The
// values are the caller's to check: the group need not exist.
func (c *Controller) AlterGroupConfigs(ctx context.Context, group string, set map[string]string, remove []string) error {
	return c.step(ctx, func(im *meta.Image) (*plan, error) {
		next := altered(im.GroupConfigs[group], set, remove)
		return planConfigs(im, meta.KeyGroupConfig(group), next), nil
	})
}

// AlterQuotas applies alterations of client quotas, each of another entity, all
// of them in one write (ClientQuotaControlManager.java). The limits are the
// caller's to check.
func (c *Controller) AlterQuotas(ctx context.Context, alterations []meta.QuotaAlteration) error {
	if len(alterations) > meta.MaxTxnOps {
		return record.Errorf(kerr.PolicyViolation, "Unable to perform excessively large batch operation: %d quota entities, at most %d in one request.", len(alterations), meta.MaxTxnOps)
	}
	return c.step(ctx, func(im *meta.Image) (*plan, error) {
		p := &plan{}
		for _, a := range alterations {
			current := im.Quotas[a.Entity]
			next := make(map[string]float64, len(current)+len(a.Set))
			maps.Copy(next, current)
			for _, key := range a.Remove {
				delete(next, key)
			}
			maps.Copy(next, a.Set)
			switch {
			case maps.Equal(next, current):
			case len(next) == 0:
				p.remove(im, meta.KeyQuota(a.Entity))
			default:
				p.put(im, meta.KeyQuota(a.Entity), meta.Encode(&meta.QuotaValue{Values: next}))
			}
		}
		return p, nil
	})
}

// UpdateFeatures sets feature levels in one write; which are allowed is the
// caller's to know.
func (c *Controller) UpdateFeatures(ctx context.Context, levels map[string]int16) error {
	return c.step(ctx, func(im *meta.Image) (*plan, error) {
		next := maps.Clone(im.Features)
		maps.Copy(next, levels)
		p := &plan{}
		if !maps.Equal(next, im.Features) {
			p.put(im, meta.KeyFeatures, meta.Encode(&meta.FeaturesValue{Levels: next}))
		}
		return p, nil
	})
}
