package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/posthouse/posthouse/replication/meta"
)

// plan is the writes of one step: groups, each of which is written whole or
// not at all. Groups share transactions while they fit.
type plan struct {
	groups []group
	guards []meta.Guard // of the group being made
	ops    []meta.Op
}

type group struct {
	guards []meta.Guard
	ops    []meta.Op
	done   func(err error) // hears of this group's fate; may be nil
}

// maxTxnBytes keeps a transaction below what every store accepts.
const maxTxnBytes = 512 << 10

// put writes key if it is still as the image shows it.
func (p *plan) put(im *meta.Image, key string, value []byte) {
	p.guards = append(p.guards, meta.Guard{Key: key, Version: im.Version(key)})
	p.ops = append(p.ops, meta.Put(key, value))
}

// remove deletes key if it is still as the image shows it.
func (p *plan) remove(im *meta.Image, key string) {
	if v := im.Version(key); v != 0 {
		p.guards = append(p.guards, meta.Guard{Key: key, Version: v})
		p.ops = append(p.ops, meta.Delete(key))
	}
}

// end closes the group of the writes so far.
func (p *plan) end(done func(err error)) {
	if len(p.ops) > 0 || done != nil {
		p.groups = append(p.groups, group{p.guards, p.ops, done})
	}
	p.guards, p.ops = nil, nil
}

// step decides and writes. decide sees the current image, and is asked again
// when somebody else changed the store meanwhile; nothing of an earlier
// decision has been written then.
func (c *Controller) step(ctx context.Context, decide func(im *meta.Image) (*plan, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for attempt := 1; ; attempt++ {
		if err := c.refresh(ctx); err != nil {
			return err
		}
		p, err := decide(c.image.Load())
		if err != nil || p == nil {
			return err
		}
		p.end(nil)
		written, err := c.write(ctx, p.groups)
		if !errors.Is(err, meta.ErrConflict) || written || attempt == maxAttempts {
			return err
		}
	}
}

// refresh reads the store again after an outcome that is not known. c.mu is
// held.
func (c *Controller) refresh(ctx context.Context) error {
	if c.office == nil {
		return errors.New("controller: not in office")
	}
	if !c.stale {
		return nil
	}
	im, err := meta.Load(ctx, c.cfg.Store)
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	c.stale = false
	c.show(im)
	return nil
}

// write commits groups in order, as many in one transaction as fit. It reports
// whether any was written. A group that fails fails those after it.
func (c *Controller) write(ctx context.Context, groups []group) (written bool, err error) {
	for len(groups) > 0 {
		n, bytes, ops := 0, 0, 0
		for n < len(groups) {
			g := &groups[n]
			size := 0
			for _, op := range g.ops {
				size += len(op.Key) + len(op.Value)
			}
			if n > 0 && (ops+len(g.ops) > meta.MaxTxnOps || bytes+size > maxTxnBytes) {
				break
			}
			n, bytes, ops = n+1, bytes+size, ops+len(g.ops)
		}
		err := c.commit(ctx, groups[:n])
		if errors.Is(err, meta.ErrConflict) && !written {
			return false, err // to be decided anew: nobody is told
		}
		if err != nil {
			for _, g := range groups {
				if g.done != nil {
					g.done(err)
				}
			}
			return written, err
		}
		for _, g := range groups[:n] {
			if g.done != nil {
				g.done(nil)
			}
		}
		written, groups = true, groups[n:]
	}
	return written, nil
}

// commit writes one transaction and moves the image on.
func (c *Controller) commit(ctx context.Context, groups []group) error {
	guards := []meta.Guard{c.office.Guard()}
	var ops []meta.Op
	for _, g := range groups {
		guards, ops = append(guards, g.guards...), append(ops, g.ops...)
	}
	if len(ops) == 0 {
		return nil
	}
	revision, err := c.cfg.Store.Txn(ctx, guards, ops)
	if err != nil {
		c.stale = true
		return fmt.Errorf("controller: %w", err)
	}
	ev := meta.Event{Revision: revision, Changes: make([]meta.Change, len(ops))}
	for i, op := range ops {
		ev.Changes[i] = meta.Change{Entry: meta.Entry{Key: op.Key}, Deleted: op.Delete}
		if !op.Delete {
			ev.Changes[i].Value, ev.Changes[i].Version = op.Value, meta.Version(revision)
		}
	}
	im, err := c.image.Load().Apply(ev)
	if err != nil {
		panic("BUG: controller wrote what it cannot read: " + err.Error())
	}
	c.show(im)
	return nil
}

// show publishes an image.
func (c *Controller) show(im *meta.Image) {
	old := c.image.Swap(im)
	for _, fn := range c.subscribers {
		fn(old, im)
	}
}
