package engine

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/engine/group"
	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// The partitions of the offsets topic, as the group coordinator needs them: it is
// told which of them this node leads, and appends to and reads from those.

// groupSlot is the waker slot of the group coordinator; loops have those below.
const groupSlot = replication.MaxSlots - 1

// groupLog implements group.Log over this node's replicas.
type groupLog struct {
	replicas    *replication.Manager
	workers     storage.Executor
	coordinator *group.Coordinator

	partitions atomic.Pointer[map[int32]*groupPartition]
}

// groupPartition is one replica of a partition of the offsets topic.
type groupPartition struct {
	log       *groupLog
	partition *replication.Partition
	index     int32

	looking atomic.Bool  // look is on its way
	led     atomic.Int64 // the epoch that the coordinator was told of; -1: none
	leading sync.Mutex   // one look at leadership at a time

	mu      sync.Mutex
	waiting []*groupAppend // appended, and the high watermark has not come; guarded by mu
	telling bool           // somebody is completing them; guarded by mu
	left    atomic.Int32   // length of waiting
}

// notLed is led of a partition that another node leads.
const notLed = -1

// imageChanged follows the offsets topic. Calls come one at a time, after the
// replicas have been told.
func (g *groupLog) imageChanged(im *meta.Image) {
	topic := im.Topics[group.OffsetsTopic]
	old := *g.partitions.Load()
	next := make(map[int32]*groupPartition, len(old))
	changed := false
	if topic != nil {
		for i := range topic.Partitions {
			index := int32(i)
			p := g.replicas.Get(record.TopicPartition{Topic: group.OffsetsTopic, Partition: index})
			if p == nil {
				continue
			}
			if gp := old[index]; gp != nil && gp.partition == p {
				next[index] = gp
				continue
			}
			gp := &groupPartition{log: g, partition: p, index: index}
			gp.led.Store(notLed)
			next[index], changed = gp, true
		}
	}
	if !changed && len(next) == len(old) {
		return
	}
	g.partitions.Store(&next)
	for index, gp := range old {
		if next[index] != gp {
			gp.partition.Unwait(groupSlot)
			gp.look()
		}
	}
	for index, gp := range next {
		if old[index] != gp {
			gp.partition.Wait(groupSlot, g)
			gp.notify()
		}
	}
}

// PartitionAdvanced implements replication.Waker. The bit stays set: most calls
// are the coordinator's own appends, and find nothing to do.
func (g *groupLog) PartitionAdvanced(p *replication.Partition) {
	gp := (*g.partitions.Load())[p.TopicPartition().Partition]
	if gp != nil && gp.partition == p && (gp.left.Load() > 0 || gp.leads() != gp.led.Load()) {
		gp.notify()
	}
}

// notify has a worker look.
func (gp *groupPartition) notify() {
	if gp.looking.CompareAndSwap(false, true) {
		gp.log.workers.Submit(gp.look)
	}
}

// leads is the epoch in which this node leads the partition, with its log open;
// notLed if it does not.
func (gp *groupPartition) leads() int64 {
	epoch := gp.partition.LeaderEpoch()
	if gp.partition.CheckLeader(epoch) != nil || (*gp.log.partitions.Load())[gp.index] != gp {
		return notLed
	}
	return int64(epoch)
}

// look tells the coordinator of a change of leadership, and completes appends.
func (gp *groupPartition) look() {
	gp.looking.Store(false)
	gp.leading.Lock()
	if epoch := gp.leads(); epoch != gp.led.Load() {
		gp.led.Store(epoch)
		if epoch == notLed {
			gp.log.coordinator.Resign(gp.index)
		} else {
			gp.log.coordinator.Lead(gp.index, record.LeaderEpoch(epoch))
		}
	}
	gp.leading.Unlock()
	gp.tell()
}

// groupAppend is a batch of the coordinator's on its way.
type groupAppend struct {
	replication.Append
	to   *groupPartition
	done func(error)
	// state says who calls done: the goroutine that appends, if the outcome is
	// there before it is back.
	state atomic.Int32
}

// The states of a groupAppend.
const (
	groupAppending int32 = iota // Partition.Append has not returned
	groupReturned               // it has, without the outcome
	groupOutcome                // the outcome is there
)

// Append implements group.Log.
func (g *groupLog) Append(partition int32, epoch record.LeaderEpoch, batch record.Batch, done func(error)) {
	gp := (*g.partitions.Load())[partition]
	if gp == nil || gp.leads() != int64(epoch) {
		done(kerr.NotLeaderForPartition)
		return
	}
	a := &groupAppend{to: gp, done: done}
	a.Batch, a.RequiredAcks, a.Done = batch, -1, a
	// The epoch may end before it is written, and the log be scanned for the next.
	a.Fenced, a.LeaderEpoch = true, epoch
	if gp.partition.Append(&a.Append) {
		// Others' appends are left, and it may be a loop that has brought this one.
		g.workers.Submit(func() {
			for gp.partition.Drain() {
			}
		})
	}
	if !a.state.CompareAndSwap(groupAppending, groupReturned) {
		a.appended()
	}
}

// AppendDone implements replication.AppendDone.
func (a *groupAppend) AppendDone(*replication.Append) {
	if a.state.Swap(groupOutcome) == groupReturned {
		a.appended()
	}
}

// appended passes the outcome on, or waits for the high watermark. It is called
// in the order of the appends.
func (a *groupAppend) appended() {
	gp := a.to
	gp.mu.Lock()
	gp.waiting = append(gp.waiting, a)
	gp.left.Store(int32(len(gp.waiting)))
	gp.mu.Unlock()
	gp.tell()
}

// tell completes the appends that the high watermark covers, oldest first.
func (gp *groupPartition) tell() {
	gp.mu.Lock()
	if gp.telling {
		gp.mu.Unlock()
		return // whoever it is looks once more
	}
	gp.telling = true
	for len(gp.waiting) > 0 {
		a := gp.waiting[0]
		err := a.Err
		if err == nil {
			var acked bool
			if acked, err = gp.partition.CheckAcked(a.LastOffset + 1); !acked {
				break
			}
		}
		gp.waiting[0] = nil
		gp.waiting = gp.waiting[1:]
		gp.left.Store(int32(len(gp.waiting)))
		gp.mu.Unlock()
		a.done(err)
		gp.mu.Lock()
	}
	gp.telling = false
	gp.mu.Unlock()
}

// scanBytes is how much of a log is read at once while it is loaded.
const scanBytes = 1 << 20

// Scan implements group.Log.
func (g *groupLog) Scan(ctx context.Context, partition int32, epoch record.LeaderEpoch, fn func(record.Batch) error) error {
	gp := (*g.partitions.Load())[partition]
	if gp == nil {
		return kerr.NotLeaderForPartition
	}
	offsets := gp.partition.Offsets()
	var buf []byte
	for at := offsets.LogStart; at < offsets.LEO; {
		if err := ctx.Err(); err != nil {
			return err
		}
		res, err := gp.partition.Read(replication.ReadParams{
			Offset: at, MaxBytes: scanBytes, MinOne: true, Replica: true,
			CurrentLeaderEpoch: epoch, LastFetchedEpoch: record.NoLeaderEpoch,
		})
		if err != nil {
			return fmt.Errorf("reading %s at %d: %w", gp.partition.TopicPartition(), at, err)
		}
		if res.Span == nil {
			return nil
		}
		if n := int(res.Span.Length()); cap(buf) < n {
			buf = make([]byte, n)
		}
		buf = buf[:res.Span.Length()]
		_, err = res.Span.ReadAt(buf, 0)
		res.Span.Release()
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading %s at %d: %w", gp.partition.TopicPartition(), at, err)
		}
		if at, err = scanBatches(buf, at, offsets.LEO, fn); err != nil {
			return err
		}
	}
	return nil
}

// scanBatches calls fn for the whole batches in p that do not end before offset
// from and begin before to, and returns where to go on.
func scanBatches(p []byte, from, to record.Offset, fn func(record.Batch) error) (record.Offset, error) {
	next := from
	for {
		b, rest, err := record.Split(p)
		if err != nil || b.BaseOffset() >= to {
			break // the last one may be cut
		}
		p = rest
		if b.NextOffset() <= from {
			continue
		}
		if err := fn(b); err != nil {
			return next, err
		}
		next = b.NextOffset()
	}
	if next == from {
		return next, fmt.Errorf("no whole batch at offset %d", from)
	}
	return next, nil
}
