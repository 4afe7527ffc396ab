package loadgen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthouse/posthouse/netio"
)

// reconnectPause is between two attempts.
const reconnectPause = 100 * time.Millisecond

// onLoopOf runs f on a peer's loop and waits. Not from a loop.
func (r *run) onLoopOf(p peer, f func()) {
	done := make(chan struct{})
	r.loops[p.endpoint().loop].netLoop.Post(onLoop(func(*netio.Loop) {
		defer close(done)
		f()
	}))
	<-done
}

// reconnect makes a lost connection again, to whoever leads its partitions by
// now, and ends the run when that takes too long.
func (r *run) reconnect(p peer, reason error) {
	deadline := time.Now().Add(time.Duration(r.workload.Reconnect))
	for {
		if pause(r.background, reconnectPause) != nil {
			return
		}
		err := r.tryReconnect(p)
		if err == nil {
			r.broken.Add(-1)
			r.reconnects.Add(1)
			return
		}
		if r.background.Err() != nil {
			return
		}
		if time.Now().After(deadline) {
			e := p.endpoint()
			r.fail(fmt.Errorf("%s %d lost its connection (%s) and found no other within %v: %w",
				e.what, e.number, plain(reason), r.workload.Reconnect, err))
			return
		}
	}
}

func (r *run) tryReconnect(p peer) error {
	ctx, cancel := context.WithTimeout(r.background, dialTimeout)
	defer cancel()
	c, err := dialControl(ctx, append([]string{p.endpoint().address}, r.opts.Bootstrap...), r.opts.ClientID)
	if err != nil {
		return err
	}
	defer c.close()
	address, err := c.leaderOf(ctx, p.endpoint().places)
	if err != nil {
		return err
	}
	var needsID bool
	producer, isProducer := p.(*producer)
	if isProducer {
		r.onLoopOf(p, func() { needsID = producer.needsID })
	}
	if needsID {
		id, epoch, err := c.initProducerID(ctx)
		if err != nil {
			return err
		}
		r.onLoopOf(p, func() { producer.renew(id, epoch) })
	}
	r.onLoopOf(p, func() { p.endpoint().address = address })
	return r.dial(ctx, p)
}

// leaderOf is the address of the one broker that leads all the partitions.
func (c *control) leaderOf(ctx context.Context, places []placeKey) (string, error) {
	var topics []string
	for _, p := range places {
		if len(topics) == 0 || topics[len(topics)-1] != p.topic {
			topics = append(topics, p.topic)
		}
	}
	cl, err := c.metadata(ctx, topics)
	if err != nil {
		return "", err
	}
	leader := int32(-1)
	for i, p := range places {
		leaders := cl.topics[p.topic].leaders
		if int(p.partition) >= len(leaders) || leaders[p.partition] < 0 {
			return "", fmt.Errorf("%s-%d has no leader", p.topic, p.partition)
		}
		if i > 0 && leaders[p.partition] != leader {
			return "", errors.New("its partitions are led by different brokers now: use as many connections as partitions")
		}
		leader = leaders[p.partition]
	}
	return cl.addresses[leader], nil
}

// wantOffsets finds a consumer's place again when its offset is outside the
// log. On its loop.
func (r *run) wantOffsets(c *consumer) {
	r.helpers.Go(func() {
		deadline := time.Now().Add(time.Duration(r.workload.Reconnect))
		for {
			err := r.clampOffsets(c)
			if err == nil || r.background.Err() != nil {
				return
			}
			if time.Now().After(deadline) {
				r.fail(fmt.Errorf("consumer %d is outside the log: %w", c.home.number, err))
				return
			}
			_ = pause(r.background, reconnectPause)
		}
	})
}

func (r *run) clampOffsets(c *consumer) error {
	ctx, cancel := context.WithTimeout(r.background, answerTimeout)
	defer cancel()
	ctl, err := dialControlOne(ctx, c.home.address, r.opts.ClientID)
	if err != nil {
		return err
	}
	defer ctl.close()
	earliest, err := ctl.listOffsets(ctx, c.home.places, positionEarliest)
	if err != nil {
		return err
	}
	latest, err := ctl.listOffsets(ctx, c.home.places, positionLatest)
	if err != nil {
		return err
	}
	r.onLoopOf(c, func() {
		for _, p := range c.parts {
			p.begin = max(p.begin, earliest[p.place])
			if within := min(max(p.offset, p.begin), latest[p.place]); within != p.offset {
				p.offset, p.changed = within, true
			}
		}
		c.outOfRange = false
		c.loop.markDirty(c)
	})
	return nil
}
