package controller

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// producerIDBlock is how many producer ids one write to the store sets aside
// (ProducerIdsBlock.java).
const producerIDBlock = 1000

// AllocateProducerIDs sets a block of producer ids aside for the caller: first
// to first+count-1. The store remembers it before it is returned, so no id is
// given out twice, whatever crashes; ids of a block that was not used up are
// lost. COORDINATOR_LOAD_IN_PROGRESS while directories are being adopted.
func (c *Controller) AllocateProducerIDs(ctx context.Context) (first, count int64, err error) {
	err = c.step(ctx, func(im *meta.Image) (*plan, error) {
		if im.Adopting() {
			return nil, kerr.CoordinatorLoadInProgress
		}
		next, version, err := c.counter(ctx, meta.KeyProducerIDs, 0)
		if err != nil {
			return nil, err
		}
		if next > math.MaxInt64-producerIDBlock {
			return nil, fmt.Errorf("controller: producer ids are used up at %d", next)
		}
		first = next
		return planCounter(meta.KeyProducerIDs, version, next+producerIDBlock), nil
	})
	if err != nil {
		return 0, 0, err
	}
	return first, producerIDBlock, nil
}

// ReserveProducerIDs makes sure that no id up to and including highest is given
// out: logs that were adopted know those ids. It ends the adoption.
func (c *Controller) ReserveProducerIDs(ctx context.Context, highest record.ProducerID) error {
	return c.step(ctx, func(im *meta.Image) (*plan, error) {
		next, version, err := c.counter(ctx, meta.KeyProducerIDs, 0)
		if err != nil {
			return nil, err
		}
		p := planCounter(meta.KeyProducerIDs, version, max(next, int64(highest)+1))
		p.remove(im, meta.KeyAdopting)
		return p, nil
	})
}

func planCounter(key string, version meta.Version, next int64) *plan {
	return &plan{
		guards: []meta.Guard{{Key: key, Version: version}},
		ops:    []meta.Op{meta.Put(key, meta.Encode(&meta.CounterValue{Next: next}))},
	}
}

// producerIDs is the block that this node is handing out from: [next, end).
type producerIDs struct {
	mu        sync.Mutex
	next, end int64
}

// NextProducerID gives out one producer id. It writes to the store once in a
// block.
func (c *Controller) NextProducerID(ctx context.Context) (record.ProducerID, error) {
	b := &c.producerIDs
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next >= b.end {
		first, count, err := c.AllocateProducerIDs(ctx)
		if err != nil {
			return record.NoProducerID, err
		}
		b.next, b.end = first, first+count
	}
	id := b.next
	b.next++
	return record.ProducerID(id), nil
}
