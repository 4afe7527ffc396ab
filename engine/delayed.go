package engine

import (
	"sync"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/replication"
)

// Delayed requests: a Produce with acks=all that waits for the high watermark,
// a Fetch that waits for bytes (Kafka's purgatory). They hold offsets, never
// record bytes, and stay on the loop of their connection.
//
// A request parks by adding a waitNode for each of its partitions to that
// partition's waitPoint on its loop. The loop is the partition's waker: when a
// partition moves, on whatever goroutine, it is noted in the loop's inbox, and
// the loop looks at the requests that wait for it. The order that loses no news
// is: set the bit (Partition.Wait), look once more, sleep.
//
// A wake-up is one-shot: the notification takes the loop off the partition's
// list, and the loop asks again if requests are still waiting. A partition that
// moves a thousand times while a loop is busy costs it one look.

// waiter is a request that can be parked.
type waiter interface {
	// advanced looks at partition part of the request again.
	advanced(part int)
	// expire answers with what there is: time is up, or the broker stops.
	expire()
	// abandon lets go of the request, whose connection is closed.
	abandon()
	links() *waiterLinks
	netRequest() *netio.Request
}

// waiterLinks make a waiter a node of its connection's and its loop's list.
type waiterLinks struct {
	conn       *conn
	prev, next waiter
	parked     bool
}

// waiterList is the doubly linked list of a connection's parked requests.
type waiterList struct{ head waiter }

func (l *waiterList) add(w waiter) {
	links := w.links()
	links.parked = true
	links.prev, links.next = nil, l.head
	if l.head != nil {
		l.head.links().prev = w
	}
	l.head = w
}

func (l *waiterList) remove(w waiter) {
	links := w.links()
	if !links.parked {
		return
	}
	if links.prev == nil {
		l.head = links.next
	} else {
		links.prev.links().next = links.next
	}
	if links.next != nil {
		links.next.links().prev = links.prev
	}
	links.prev, links.next, links.parked = nil, nil, false
}

// waitNode is one partition of a parked request. It is part of the request's
// own memory and is in at most one waitPoint.
type waitNode struct {
	prev, next *waitNode
	point      *waitPoint // nil while it waits for nothing
	waiter     waiter
	part       int
}

// unlink takes the node out of whatever list it is in.
func (n *waitNode) unlink() {
	if n.point == nil {
		return
	}
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next, n.point = nil, nil, nil
}

// waitPoint is where the requests of one loop wait for one partition: a circular
// list through its root.
type waitPoint struct {
	partition *replication.Partition
	root      waitNode
	free      *waitPoint // next on the loop's free list
}

func (w *waitPoint) init() { w.root.prev, w.root.next = &w.root, &w.root }

func (w *waitPoint) empty() bool { return w.root.next == &w.root }

func (w *waitPoint) push(n *waitNode) {
	n.point = w
	n.prev, n.next = w.root.prev, &w.root
	n.prev.next, w.root.prev = n, n
}

// wait links a node to a partition and asks to be woken. The caller then looks
// at the partition once more.
func (lp *loop) wait(n *waitNode, p *replication.Partition) {
	w := lp.waitPoints[p]
	if w == nil {
		if w = lp.freePoints; w != nil {
			lp.freePoints, w.free = w.free, nil
		} else {
			w = new(waitPoint)
			w.init()
		}
		w.partition = p
		lp.waitPoints[p] = w
	}
	w.push(n)
	p.Wait(lp.index, lp)
}

// advance looks at the requests that wait for a partition that has moved.
func (lp *loop) advance(p *replication.Partition) {
	w := lp.waitPoints[p]
	if w == nil {
		return
	}
	if !w.empty() {
		p.Wait(lp.index, lp) // again, before looking
		// Answering a request may unlink any node of this list: work it off
		// through a second list until that is empty.
		waking := &lp.waking
		waking.root.next, waking.root.prev = w.root.next, w.root.prev
		waking.root.next.prev, waking.root.prev.next = &waking.root, &waking.root
		w.init()
		for n := waking.root.next; n != &waking.root; n = waking.root.next {
			n.unlink()
			w.push(n)
			lp.wake(n)
		}
	}
	if w.empty() {
		p.Unwait(lp.index)
		lp.forget(w)
	}
}

// wake lets a parked request look at one of its partitions.
func (lp *loop) wake(n *waitNode) {
	defer lp.recoverPanic(n.waiter.netRequest())
	n.waiter.advanced(n.part)
}

// forget drops an empty waitPoint, so that a deleted partition is not kept.
func (lp *loop) forget(w *waitPoint) {
	delete(lp.waitPoints, w.partition)
	w.partition = nil
	w.free, lp.freePoints = lp.freePoints, w
}

// PartitionAdvanced implements replication.Waker. It runs on any goroutine.
func (lp *loop) PartitionAdvanced(p *replication.Partition) {
	p.Unwait(lp.index)
	lp.inbox.add(lp, p, nil)
}

// inbox is what other goroutines have for a loop. Appending to it is all they
// do: the lock is held for a few instructions.
type inbox struct {
	mu       sync.Mutex
	advanced []*replication.Partition // guarded by mu
	produced []*produceOp             // all appends done; guarded by mu
	looking  bool                     // the loop will look before it sleeps; guarded by mu
	posted   bool                     // a task that looks is on its way; guarded by mu

	// What the loop took last; its own.
	spareAdvanced []*replication.Partition
	spareProduced []*produceOp
}

// add notes a partition or a request, whichever is not nil, and makes sure that
// the loop looks.
func (b *inbox) add(lp *loop, p *replication.Partition, op *produceOp) {
	b.mu.Lock()
	if p != nil {
		b.advanced = append(b.advanced, p)
	} else {
		b.produced = append(b.produced, op)
	}
	post := !b.looking && !b.posted
	if post {
		b.posted = true
	}
	b.mu.Unlock()
	if post {
		lp.net.Post(&lp.inboxTask)
	}
}

// post makes sure that another turn follows, though there is nothing in the inbox.
func (b *inbox) post(lp *loop) {
	b.mu.Lock()
	post := !b.posted
	b.posted = true
	b.mu.Unlock()
	if post {
		lp.net.Post(&lp.inboxTask)
	}
}

// look says that the loop is about to look: nothing need be posted until take
// has found nothing.
func (b *inbox) look() {
	b.mu.Lock()
	b.looking = true
	b.mu.Unlock()
}

// take empties the inbox; false, and the end of looking, if there is nothing.
// The slices are valid until the next take.
func (b *inbox) take() (advanced []*replication.Partition, produced []*produceOp, ok bool) {
	clear(b.spareAdvanced)
	clear(b.spareProduced)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.advanced) == 0 && len(b.produced) == 0 {
		b.looking = false
		return nil, nil, false
	}
	advanced, produced = b.advanced, b.produced
	b.advanced, b.produced = b.spareAdvanced[:0], b.spareProduced[:0]
	b.spareAdvanced, b.spareProduced = advanced, produced
	return advanced, produced, true
}

// inboxTask wakes a loop for its inbox; EndTurn does the work.
type inboxTask struct{ loop *loop }

// Run implements netio.Task.
func (t *inboxTask) Run(*netio.Loop) {
	b := &t.loop.inbox
	b.mu.Lock()
	b.posted = false
	b.mu.Unlock()
}
