package replication

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Partition is one replica of one partition on this node, and the only way to
// its log.
//
// All that decides what a client may do sits in one immutable view behind one
// atomic pointer; all that moves with every append sits in offsetsCell. Reads
// take no lock. Writers are whoever holds the combiner (append.go).
type Partition struct {
	tp     record.TopicPartition
	id     record.TopicID
	nodeID int32

	view     atomic.Pointer[view]
	offsets  offsetsCell
	combiner combiner
	counts   counts
	waiting  atomic.Uint64 // bit i: slot i waits
	wakers   *wakers
	exec     storage.Executor
	control  sync.Mutex // orders exclusive callers; never taken by a loop
}

// state says how far a replica has come.
type state int8

const (
	loading state = iota // its log is not open yet
	ready
	failed  // its log could not be opened or written
	deleted // its topic is gone
)

// view is what a partition is at one moment. Immutable.
type view struct {
	state       state
	log         *storage.Log // nil unless ready
	leader      int32
	leaderEpoch record.LeaderEpoch
	// epochStart is the LEO when this node became leader of leaderEpoch.
	epochStart     record.Offset
	partitionEpoch int32
	isr            []int32
	replicas       []int32
	minISR         int // min.insync.replicas, at most len(replicas)
	isLeader       bool
	config         *TopicConfig
	err            error // why it failed
}

func newPartition(tp record.TopicPartition, id record.TopicID, nodeID int32, w *wakers, exec storage.Executor) *Partition {
	return &Partition{tp: tp, id: id, nodeID: nodeID, wakers: w, exec: exec}
}

// TopicPartition names the partition.
func (p *Partition) TopicPartition() record.TopicPartition { return p.tp }

// TopicID is the topic's id.
func (p *Partition) TopicID() record.TopicID { return p.id }

// Config is the topic's current configuration; never nil.
func (p *Partition) Config() *TopicConfig { return p.view.Load().config }

// LeaderEpoch is the epoch of the current leader.
func (p *Partition) LeaderEpoch() record.LeaderEpoch { return p.view.Load().leaderEpoch }

// Leader is the broker that leads, meta.NoLeader if none, with its epoch, as
// the hints of KIP-951 give them.
func (p *Partition) Leader() (id int32, epoch record.LeaderEpoch) {
	v := p.view.Load()
	return v.leader, v.leaderEpoch
}

// ISR is the committed in-sync set. Do not change it.
func (p *Partition) ISR() []int32 { return p.view.Load().isr }

// Ready says whether the log is open, so that requests can be answered.
func (p *Partition) Ready() bool { return p.view.Load().state == ready }

// Err is why the replica is offline, or nil.
func (p *Partition) Err() error {
	v := p.view.Load()
	if v.state == failed {
		return v.err
	}
	if v.log != nil {
		return v.log.Err()
	}
	return nil
}

// Log is for descriptions, retention and tools; nil while it is not open.
// Produce and fetch go through Append and Read.
func (p *Partition) Log() *storage.Log { return p.view.Load().log }

// Offsets are the current offsets, without a lock. Their order holds.
func (p *Partition) Offsets() Offsets { return p.offsets.load() }

// CheckLeader returns nil when this node leads the partition and the epoch
// that the client knows (record.NoLeaderEpoch: it does not say) is the current
// one. Otherwise NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH (the client's is
// older), UNKNOWN_LEADER_EPOCH (newer), or KAFKA_STORAGE_ERROR (KIP-320).
func (p *Partition) CheckLeader(current record.LeaderEpoch) error {
	return p.view.Load().checkLeader(current)
}

func (v *view) checkLeader(current record.LeaderEpoch) error {
	if v.state == deleted {
		return kerr.UnknownTopicOrPartition
	}
	if current != record.NoLeaderEpoch && current != v.leaderEpoch {
		if current < v.leaderEpoch {
			return kerr.FencedLeaderEpoch
		}
		return kerr.UnknownLeaderEpoch
	}
	if v.state == failed {
		return kerr.KafkaStorageError
	}
	if !v.isLeader || v.state != ready {
		return kerr.NotLeaderForPartition
	}
	return nil
}

// CheckAcked says whether a batch that ends before offset end is acknowledged
// by the whole ISR: done, and NOT_ENOUGH_REPLICAS_AFTER_APPEND if the ISR has
// shrunk below min.insync.replicas since, or NOT_LEADER_OR_FOLLOWER when
// leadership went (Partition.scala, checkEnoughReplicasReachOffset).
func (p *Partition) CheckAcked(end record.Offset) (done bool, err error) {
	v := p.view.Load()
	if err := v.checkLeader(record.NoLeaderEpoch); err != nil {
		return true, err
	}
	if record.Offset(p.offsets.hw.Load()) < end {
		return false, nil
	}
	if len(v.isr) < v.minISR {
		return true, kerr.NotEnoughReplicasAfterAppend
	}
	return true, nil
}

// publish moves the offsets to what the log says now. Only the holder of the
// combiner calls it. It returns whether anything moved.
func (p *Partition) publish(v *view) bool {
	o := p.offsets.load()
	o.LEO = v.log.EndOffset()
	if v.isLeader && o.LEO < o.HW {
		panic(fmt.Sprintf("BUG: log of %s ends at %d, below its high watermark %d", p.tp, o.LEO, o.HW))
	}
	o.LogStart = v.log.StartOffset()
	if v.isLeader && len(v.isr) >= v.minISR && len(v.isr) == 1 && v.isr[0] == p.nodeID {
		// The lone member of the ISR: what it has, the ISR has. Below min ISR
		// the high watermark stands still even for acks=1 (KIP-966).
		o.HW = o.LEO
	}
	o.HW = min(max(o.HW, o.LogStart), o.LEO)
	v.log.OnHighWatermark(o.HW)
	o.LSO = o.HW
	if first, ok := v.log.FirstUnstableOffset(); ok {
		o.LSO = min(max(first, o.LogStart), o.HW)
	}
	return p.offsets.set(o)
}

// Refresh publishes what the log did on its own: retention moves its start.
// Worker context.
func (p *Partition) Refresh() {
	p.exclusive(func() {
		if v := p.view.Load(); v.log != nil && v.state == ready && p.publish(v) {
			p.wake()
		}
	})
}

// describe fills a view from what the cluster says of the partition.
func (v *view) describe(nodeID int32, part *meta.Partition, cfg *TopicConfig) {
	v.leader, v.leaderEpoch, v.partitionEpoch = part.Leader, part.LeaderEpoch, part.PartitionEpoch
	v.isr, v.replicas = part.ISR, part.Replicas
	v.isLeader = part.Leader == nodeID
	v.config = cfg
	v.minISR = min(int(cfg.MinInSyncReplicas), len(part.Replicas))
}

// prepare sets the first view, before the log is open.
func (p *Partition) prepare(part *meta.Partition, cfg *TopicConfig) {
	v := &view{state: loading}
	v.describe(p.nodeID, part, cfg)
	p.view.Store(v)
}

// open gives the partition its log and starts to serve. Worker context.
func (p *Partition) open(log *storage.Log) {
	p.exclusive(func() {
		old := p.view.Load()
		if old.state == deleted || old.state == ready {
			return
		}
		next := *old
		next.state, next.log, next.err = ready, log, nil
		start := log.StartOffset()
		hw := min(max(log.CheckpointedHighWatermark(), start), log.EndOffset())
		p.offsets.set(Offsets{LogStart: start, LSO: start, HW: hw, LEO: log.EndOffset()})
		p.install(old, &next)
	})
}

// fail takes the replica offline: its log could not be opened.
func (p *Partition) fail(cause error) {
	p.exclusive(func() {
		next := *p.view.Load()
		if next.state == deleted {
			return
		}
		next.state, next.log, next.err = failed, nil, cause
		p.view.Store(&next)
		p.wake()
	})
}

// change applies what the cluster says now: leadership, ISR, configs. An older
// state than the one at hand is passed over. Worker context.
func (p *Partition) change(part *meta.Partition, cfg *TopicConfig) {
	p.exclusive(func() {
		old := p.view.Load()
		if old.state == deleted || part.LeaderEpoch < old.leaderEpoch ||
			(part.LeaderEpoch == old.leaderEpoch && part.PartitionEpoch < old.partitionEpoch) {
			return
		}
		next := *old
		next.describe(p.nodeID, part, cfg)
		p.install(old, &next)
	})
}

// install makes next the view. The combiner is held.
//
// A new leadership is not written to the leader epoch checkpoint here, as Kafka
// does: the first append under it does that in the log, and until then
// endOffsetForEpoch answers as if it were there. After an unclean stop a node
// would otherwise sync one small file for each of its partitions.
func (p *Partition) install(old, next *view) {
	if next.state == ready {
		if next.config != old.config || old.log == nil {
			next.log.SetConfig(next.config.Log)
		}
		if next.isLeader && (old.log == nil || !old.isLeader || old.leaderEpoch != next.leaderEpoch) {
			next.epochStart = next.log.EndOffset()
		}
	}
	p.view.Store(next)
	if next.state == ready {
		p.publish(next)
	}
	p.wake()
}

// stop lets the log go before it is closed: clients are sent elsewhere.
func (p *Partition) stop() {
	p.exclusive(func() {
		next := *p.view.Load()
		if next.state != ready {
			return
		}
		next.state, next.log = loading, nil
		p.view.Store(&next)
		p.wake()
	})
}

// remove ends the partition: its topic is gone. What is queued is refused.
func (p *Partition) remove() {
	p.exclusive(func() {
		next := *p.view.Load()
		next.state, next.log = deleted, nil
		p.view.Store(&next)
		p.wake()
	})
}
