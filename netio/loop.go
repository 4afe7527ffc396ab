package netio

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// clockStart is the zero of Instant.
var clockStart = time.Now()

// Task is work for a loop; see [Loop.Post].
type Task interface{ Run(l *Loop) }

// Loop is one event loop: a goroutine locked to its thread, the connections
// that were dealt to it, their memory and their timers. Everything in it
// belongs to that goroutine save the mailbox.
//
// A mailbox of two slices behind a mutex was taken over a lock-free list of
// intrusive nodes: a task needs no node, order is kept, and the lock is held
// for an append. A loop cannot sleep on it for longer than that.
type Loop struct {
	// State is the handler's own, per loop.
	State any

	server *Server
	index  int
	poll   poller

	now    Instant
	wallMs int64
	timers timerHeap
	// yielded is when the loop last gave way to other goroutines.
	yielded Instant

	// active says that the handler was given something to do this turn.
	active bool
	// draining says that shutdown began.
	draining bool
	// cutOff says that it may take no longer.
	cutOff bool

	conns  connTable
	ready  connList // work left over: input, or waiting requests, or output
	dirty  connList // replies finished this turn, or a close asked for
	hungry []*Conn  // stopped for want of request memory

	arena       arena
	receive     *chunk
	freeChunks  *chunk
	nFreeChunks int
	requests    *Request // free list
	nRequests   int
	// liveRequests counts those taken from the pool and not yet given back.
	liveRequests int
	out          output

	// bytesReceived and turns feed tests and metrics.
	bytesReceived atomic.Int64
	turns         atomic.Int64
	stats         loopStats

	trimTimer  Timer
	watchTimer Timer
	// watchedAt is when frames were last looked at for whether they stall.
	watchedAt Instant
	// coldReads counts workers' reads under way.
	coldReads int
	coldFree  *coldRead

	mail mailbox
	done chan struct{}
}

// mailbox holds what other goroutines post.
type mailbox struct {
	mu    sync.Mutex
	tasks []Task
	spare []Task // owned by the loop, swapped with tasks
	// ended says that nobody reads this any more.
	ended bool
	// asleep is set before the loop looks at tasks a last time and sleeps;
	// whoever clears it wakes the loop, so a burst of posts costs one wake-up.
	asleep atomic.Bool
}

const (
	trimInterval = 10 * time.Second
	// yieldInterval stays below the 10 ms of the scheduler's time slice.
	yieldInterval = 8 * time.Millisecond
	// freeRequestsMax bounds the pool of Requests of one loop.
	freeRequestsMax = 4096
	// keptReplyBytes bounds the reply buffer that a pooled Request keeps.
	keptReplyBytes = 32 << 10
)

// Index is the loop's number, from zero.
func (l *Loop) Index() int { return l.index }

// Now is the time at which this turn began. Loop goroutine only.
func (l *Loop) Now() Instant { return l.now }

// NowMs is the wall clock at which this turn began, in Unix milliseconds.
// Loop goroutine only.
func (l *Loop) NowMs() int64 { return l.wallMs }

// Post runs t on the loop, after those posted before it. Any goroutine; no
// allocation; wakes the loop only if it sleeps. A loop that has ended drops it.
func (l *Loop) Post(t Task) {
	m := &l.mail
	m.mu.Lock()
	if !m.ended {
		m.tasks = append(m.tasks, t)
	}
	m.mu.Unlock()
	if m.asleep.Load() && m.asleep.CompareAndSwap(true, false) {
		// Under the lock, so that the descriptor is not another's by now. The
		// write cannot sleep.
		m.mu.Lock()
		if !m.ended {
			l.poll.wake()
		}
		m.mu.Unlock()
	}
}

func (l *Loop) posted() bool {
	l.mail.mu.Lock()
	defer l.mail.mu.Unlock()
	return len(l.mail.tasks) > 0
}

func (l *Loop) runPosted() {
	l.mail.mu.Lock()
	tasks := l.mail.tasks
	l.mail.tasks = l.mail.spare[:0]
	l.mail.mu.Unlock()
	for i, t := range tasks {
		tasks[i] = nil
		l.active = true
		t.Run(l)
	}
	l.mail.spare = tasks
}

func (l *Loop) readClock() {
	t := time.Now()
	l.now = Instant(t.Sub(clockStart))
	l.wallMs = t.UnixMilli()
}

// run is the loop's goroutine. The poller was made by setup on it, since a
// ring with a single issuer belongs to its thread.
func (l *Loop) run(setup func(*Loop) error, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(l.done)
	if err := setup(l); err != nil {
		started <- err
		return
	}
	l.readClock()
	l.stats.began = l.now
	l.trimTimer.Task = trimTask{}
	l.watchTimer.Task = watchFramesTask{}
	l.AddTimer(&l.trimTimer, l.now+Instant(trimInterval))
	started <- nil
	for !l.draining || l.coldReads > 0 || l.conns.used > 0 {
		l.turn()
	}
	l.mail.mu.Lock()
	l.mail.ended = true
	l.mail.mu.Unlock()
	l.poll.close()
	l.freeMemory()
}

func (l *Loop) turn() {
	if err := l.wait(); err != nil {
		// The poller is unusable: nothing sensible can go on.
		panic("netio: poller failed: " + err.Error())
	}
	l.turns.Add(1)
	l.runReady()
	l.runPosted()
	l.runTimers()
	if l.active {
		l.active = false
		l.server.handler.EndTurn(l)
	}
	l.runDirty()
}

// wait sleeps until something happens, if nothing is left to do.
func (l *Loop) wait() error {
	if l.active || !l.ready.empty() || !l.dirty.empty() {
		err := l.poll.wait(0)
		l.readClock()
		return err
	}
	if spin := l.server.config.BusyPoll; spin > 0 {
		if done, err := l.spin(spin); done || err != nil {
			return err
		}
	}
	l.yield()
	d := time.Duration(-1)
	if len(l.timers) > 0 {
		l.readClock()
		d = max(0, time.Duration(l.timers[0].at-l.now))
	}
	l.mail.asleep.Store(true)
	if d != 0 && l.posted() {
		d = 0
	}
	err := l.poll.wait(d)
	l.awake()
	return err
}

// yield starts a new time slice of the Go scheduler before a sleep, now and
// then. A locked goroutine that never yields has the same slice for ever; once
// that is 10 ms old the runtime's monitor takes the processor away from every
// system call that it sees the loop in, and after each time looks again every
// 20 µs. Under a load of lone requests that was an eighth of the server's CPU.
func (l *Loop) yield() {
	if l.now-l.yielded >= Instant(yieldInterval) {
		l.yielded = l.now
		runtime.Gosched()
	}
}

// spin polls for at most d without sleeping and reports whether there is work.
func (l *Loop) spin(d time.Duration) (bool, error) {
	start := l.now
	for {
		before := l.bytesReceived.Load()
		if err := l.poll.wait(0); err != nil {
			return false, err
		}
		l.readClock()
		due := len(l.timers) > 0 && l.timers[0].at <= l.now
		if due || l.active || !l.ready.empty() || !l.dirty.empty() || l.bytesReceived.Load() != before || l.posted() {
			return true, nil
		}
		if time.Duration(l.now-start) >= d {
			return false, nil
		}
	}
}

// runReady continues what the last turn left over, and nothing that is added
// meanwhile, so that every connection gets its share.
func (l *Loop) runReady() {
	for c := l.ready.take(); c != nil; {
		next := c.readyNext
		c.readyNext, c.isReady = nil, false
		if !c.closed {
			l.admit(c)
			l.poll.resume(c)
			l.markDirty(c)
		}
		c = next
	}
}

// runDirty sends what was finished and closes what is to be closed.
func (l *Loop) runDirty() {
	l.stats.sentAt = 0
	for c := l.dirty.take(); c != nil; {
		next := c.dirtyNext
		c.dirtyNext, c.isDirty = nil, false
		l.settle(c)
		c = next
	}
}

func (l *Loop) markDirty(c *Conn) {
	if !c.isDirty && !c.closed {
		c.isDirty = true
		c.dirtyNext = l.dirty.head
		l.dirty.head = c
	}
}

func (l *Loop) markReady(c *Conn) {
	if !c.isReady && !c.closed {
		c.isReady = true
		c.readyNext = l.ready.head
		l.ready.head = c
	}
}

// connList is a stack of connections, linked through a field of theirs.
type connList struct{ head *Conn }

func (s *connList) empty() bool { return s.head == nil }

func (s *connList) take() *Conn {
	c := s.head
	s.head = nil
	return c
}

// trimTask gives memory back that a burst needed once.
type trimTask struct{}

func (trimTask) Run(l *Loop) {
	l.arena.trim()
	l.AddTimer(&l.trimTimer, l.now+Instant(trimInterval))
}

// newRequest takes a Request from the pool.
func (l *Loop) newRequest(c *Conn) *Request {
	r := l.requests
	if r == nil {
		r = &Request{loop: l}
	} else {
		l.requests = r.next
		l.nRequests--
		r.next = nil
	}
	r.conn = c
	l.liveRequests++
	return r
}

// recycle ends a Request: whatever it holds is given back.
func (l *Loop) recycle(r *Request) {
	if r.cold {
		// A worker reads for it; coldRead.Run comes back here.
		return
	}
	r.ReleasePayload()
	r.out.Reset()
	if cap(r.out.Buf) > keptReplyBytes {
		r.out.Buf = nil
	}
	r.conn, r.failed = nil, nil
	r.state, r.pipelined, r.silent, r.peeked = requestFree, false, false, false
	r.dead.Store(false)
	l.liveRequests--
	if l.nRequests < freeRequestsMax {
		r.next = l.requests
		l.requests = r
		l.nRequests++
	}
}

// receiveChunk returns the chunk to receive into, with room for n bytes.
func (l *Loop) receiveChunk(n int) *chunk {
	ch := l.receive
	if ch != nil {
		if ch.refs == 0 {
			ch.pos = 0
		}
		if len(ch.mem)-ch.pos >= n {
			return ch
		}
		ch.retired, ch.charged = true, true
		l.server.budget.charge(len(ch.mem))
	}
	if ch = l.freeChunks; ch != nil {
		l.freeChunks = ch.next
		l.nFreeChunks--
		ch.next = nil
	} else {
		ch = &chunk{mem: mapMemory(chunkBytes)}
	}
	ch.pos, ch.retired = 0, false
	l.receive = ch
	return ch
}

// releaseChunk drops one reference.
func (l *Loop) releaseChunk(ch *chunk) {
	ch.refs--
	if ch.refs < 0 {
		panic("BUG: netio: receive chunk released too often")
	}
	if ch.refs > 0 {
		return
	}
	if ch.home != nil {
		ch.home.takeBack()
		return
	}
	if !ch.retired {
		return
	}
	if ch.charged {
		ch.charged = false
		l.server.budget.release(len(ch.mem))
	}
	mangle(ch.mem)
	if l.nFreeChunks >= chunkFreeMax {
		unmapMemory(ch.mem)
		return
	}
	ch.next = l.freeChunks
	l.freeChunks = ch
	l.nFreeChunks++
}

// freeMemory unmaps all that the loop holds, at its end. While a handler still
// has a request its bytes stay mapped: the process is about to end anyway.
func (l *Loop) freeMemory() {
	l.out.close()
	if l.liveRequests > 0 {
		return
	}
	for ch := l.freeChunks; ch != nil; ch = ch.next {
		unmapMemory(ch.mem)
	}
	if l.receive != nil {
		unmapMemory(l.receive.mem)
	}
	l.freeChunks, l.receive = nil, nil
	l.arena.close()
}
