package engine

import (
	"time"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/storage/record"
)

// loop is the engine's side of one netio.Loop: scratch that each request
// reuses, the appends of the turn, and the requests that wait. All of it but
// inbox belongs to the loop's goroutine.
type loop struct {
	engine *Engine
	net    *netio.Loop
	index  int
	call   call
	stats  loopStats

	inbox     inbox
	inboxTask inboxTask
	draining  bool // shutdown began: nothing parks any more

	// produce.go
	chains          []chain
	chainOf         map[*replication.Partition]int
	owed            []*replication.Partition // left with appends by this loop, see flush
	freeProduce     *produceOp
	freeProduces    int // length of the list
	produceResponse wire.ProduceResponse

	// fetch.go
	freeFetch     *fetchOp
	freeFetches   int // length of the list
	fetchRequest  wire.FetchRequest
	asked         map[*replication.Partition]int // place in the request being listed
	fetchResponse wire.FetchResponse
	aborted       []wire.AbortedTransaction // of the answer being built

	// delayed.go
	waitPoints map[*replication.Partition]*waitPoint
	freePoints *waitPoint
	waking     waitPoint

	endpoints []wire.NodeEndpoint // leader hints of the answer being built
}

// chain is the appends of one turn to one partition, in order of arrival.
type chain struct {
	partition  *replication.Partition
	head, tail *replication.Append
}

func newLoop(e *Engine, l *netio.Loop) *loop {
	lp := &loop{
		engine:     e,
		net:        l,
		index:      l.Index(),
		chainOf:    make(map[*replication.Partition]int),
		asked:      make(map[*replication.Partition]int),
		waitPoints: make(map[*replication.Partition]*waitPoint),
	}
	lp.call.loop = lp
	lp.inboxTask.loop = lp
	lp.waking.init()
	return lp
}

// endTurn writes what the turn has gathered, one append per partition, and then
// answers whatever that, or another loop, has completed. Answering can start
// requests that were held back, hence the loop.
func (lp *loop) endTurn() {
	lp.inbox.look()
	lp.payOwed()
	for {
		lp.flush()
		advanced, produced, ok := lp.inbox.take()
		if !ok {
			return
		}
		for _, op := range produced {
			lp.produced(op)
		}
		for _, p := range advanced {
			lp.advance(p)
		}
	}
}

// payOwed goes on with partitions that earlier turns have left to this one.
func (lp *loop) payOwed() {
	owed := lp.owed
	lp.owed = lp.owed[:0]
	for i, p := range owed {
		owed[i] = nil
		if p.Drain() {
			lp.owe(p)
		}
	}
}

// owe notes a partition whose queue this loop has worked on for long enough,
// and asks for another turn.
func (lp *loop) owe(p *replication.Partition) {
	for lp.draining && p.Drain() {
		// No turn may follow: the broker stops, and nothing new comes.
	}
	if !lp.draining {
		lp.owed = append(lp.owed, p)
		lp.inbox.post(lp)
	}
}

// flush hands the turn's chains to their partitions.
func (lp *loop) flush() {
	for i := range lp.chains {
		c := lp.chains[i]
		lp.chains[i] = chain{}
		if c.partition.Append(c.head) {
			lp.owe(c.partition)
		}
	}
	if len(lp.chains) > 0 {
		lp.chains = lp.chains[:0]
		clear(lp.chainOf)
	}
}

// drain answers every parked request with what there is.
func (lp *loop) drain() {
	lp.draining = true
	lp.payOwed()
	for _, w := range lp.waitPoints {
		for !w.empty() {
			w.root.next.waiter.expire()
		}
	}
}

// lookup finds a partition by topic name or id. The error says why it is not on
// this node.
func (lp *loop) lookup(byID bool, name []byte, id record.TopicID, index int32) (*replication.Partition, error) {
	var p *replication.Partition
	if byID {
		p = lp.engine.config.Replicas.LookupID(id, index)
	} else {
		p = lp.engine.config.Replicas.Lookup(name, index)
	}
	if p == nil {
		return nil, lp.engine.unknownPartition(byID, name, id, index)
	}
	return p, nil
}

// after is the instant d after the beginning of the turn.
func (lp *loop) after(d time.Duration) netio.Instant { return lp.net.Now() + netio.Instant(d) }
