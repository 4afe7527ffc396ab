//go:build iouring

package netio

import (
	"time"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

const (
	ringEntries = 4096

	// Tags of user data beyond those of epoll.
	kindReceive = 3
	kindOutput  = 4
	kindCancel  = 5
	kindIgnore  = 6
)

// uringPoller receives by the ring where requests are small: one multishot
// receive per connection into provided buffers. Where they are not it polls by
// the ring and receives by direct calls as epoll does, see bulk. Sends are
// direct system calls as well, and so are sendfile and accept, for which the
// ring polls.
//
// A multishot receive cannot be held back at once, only cancelled. What it
// brings until then is kept in Conn.ring.pending, unseen by the frame cutter,
// so that the bounds on memory and the order of things are those of epoll.
//
// giouring is used for setting up, mapping, the queues and the registration of
// the buffer ring. Not used are its Prepare functions (they leave old bits
// behind, some pass a pointer to a pointer), its submit and wait functions
// (EINTR, success with an empty queue, no way to pass IORING_ENTER_NO_IOWAIT)
// and its batch peek (it may report the whole slice).
type uringPoller struct {
	loop   *Loop
	ring   *giouring.Ring
	wakeFD int
	// epollFD is slept on where the kernel would count a wait inside
	// io_uring_enter as iowait; -1 where it can be told not to.
	epollFD int
	// busy says that the last wait found something, so the next one is tried
	// without sleeping, as a raw call.
	busy bool
	// inFlight counts operations whose last completion is still to come.
	inFlight int

	buffers  provided
	starving []*Conn
	// watching is set for listeners, by index, whose poll is armed.
	watching []bool

	wait64 waitArg
	// onCompletion is the method complete, bound once.
	onCompletion func(*giouring.CompletionQueueEvent)
	seen         uint32
}

// waitArg is struct io_uring_getevents_arg with the time it points to.
type waitArg struct {
	sigmask     uint64
	sigmaskSize uint32
	minWaitUsec uint32
	timespec    uint64
	limit       unix.Timespec
}

const waitArgBytes = 24

// setupUring runs on the loop's own thread: a ring with SINGLE_ISSUER belongs
// to the thread that made it.
func setupUring(l *Loop) error {
	p, err := newUring(l, kernelFeatures()&featNoIowait == 0 || waitByEpoll.Load())
	if err != nil {
		return err
	}
	l.poll = p
	return nil
}

func newUring(l *Loop, byEpoll bool) (*uringPoller, error) {
	p := &uringPoller{loop: l, ring: giouring.NewRing(), wakeFD: -1, epollFD: -1}
	p.onCompletion = p.complete
	if err := p.ring.QueueInit(ringEntries, setupFlags); err != nil {
		return nil, err
	}
	err := p.buffers.init(p)
	if err == nil {
		p.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	}
	if err == nil {
		if byEpoll {
			err = p.initEpoll()
		} else {
			p.armWake()
		}
	}
	if err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// initEpoll has completions signal the wake-up's eventfd, and epoll watch
// that. The ring's own descriptor would not do: with deferred task work nobody
// who polls it is woken.
func (p *uringPoller) initEpoll() (err error) {
	if _, err = p.ring.RegisterEventFd(p.wakeFD); err != nil {
		return err
	}
	if p.epollFD, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	return unix.EpollCtl(p.epollFD, unix.EPOLL_CTL_ADD, p.wakeFD, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET})
}

func (p *uringPoller) release() {
	for _, fd := range []int{p.wakeFD, p.epollFD} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	p.ring.QueueExit()
	p.buffers.close()
}

// close ends what is armed before the ring goes, so that the kernel has let go
// of sockets and buffers when it returns rather than some milliseconds later.
func (p *uringPoller) close() {
	sqe := p.entry(opAsyncCancel, -1, eventData(kindIgnore, 0, 0))
	sqe.OpcodeFlags = cancelAny | cancelAll
	for deadline := time.Now().Add(time.Second); p.inFlight > 0 && time.Now().Before(deadline); {
		if p.enter(0, true) != nil {
			break
		}
		p.reap()
		if p.inFlight > 0 {
			time.Sleep(100 * time.Microsecond)
		}
	}
	p.release()
}

// entry takes the next submission entry, zeroed, and counts it as in flight.
func (p *uringPoller) entry(op uint8, fd int, data uint64) *giouring.SubmissionQueueEntry {
	sqe := p.ring.GetSQE()
	for sqe == nil {
		// Full. Completions are not taken here, so nothing is dispatched in the
		// middle of a dispatch.
		p.handOver()
		sqe = p.ring.GetSQE()
	}
	*sqe = giouring.SubmissionQueueEntry{OpCode: op, Fd: int32(fd), UserData: data}
	p.inFlight++
	return sqe
}

// enter submits without sleeping; with events, deferred work runs as well.
func (p *uringPoller) enter(flags uintptr, events bool) error {
	n := flushSQ(p.ring)
	if events {
		flags |= enterGetEvents
	} else if n == 0 {
		return nil
	}
	_, _, errno := unix.RawSyscall6(sysEnter, uintptr(p.ring.RingFd()), uintptr(n), 0, flags, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// enterWait submits and sleeps until there is a completion or d is over.
func (p *uringPoller) enterWait(d time.Duration) error {
	n := flushSQ(p.ring)
	w := &p.wait64
	w.timespec = 0
	if d > 0 {
		w.limit = unix.NsecToTimespec(int64(d))
		w.timespec = uint64(uintptr(unsafe.Pointer(&w.limit)))
	}
	_, _, errno := unix.Syscall6(sysEnter, uintptr(p.ring.RingFd()), uintptr(n), 1,
		enterGetEvents|enterExtArg|enterNoIowait, uintptr(unsafe.Pointer(w)), waitArgBytes)
	if errno != 0 && errno != unix.ETIME {
		return errno
	}
	return nil
}

// epollWait sleeps on the eventfd instead.
func (p *uringPoller) epollWait(d time.Duration) error {
	if err := p.enter(0, true); err != nil {
		return err
	}
	if p.ring.CQReady() > 0 {
		return nil
	}
	var events [1]unix.EpollEvent
	if _, err := unix.EpollWait(p.epollFD, events[:], milliseconds(d)); err != nil {
		return err
	}
	return p.enter(0, true)
}

func (p *uringPoller) wait(d time.Duration) error {
	p.feedStarving()
	var err error
	if d == 0 || p.busy || p.ring.CQReady() > 0 {
		err = p.enter(0, true)
	}
	if err == nil && d != 0 && p.ring.CQReady() == 0 {
		p.loop.goesToSleep()
		if p.epollFD >= 0 {
			err = p.epollWait(d)
		} else {
			err = p.enterWait(d)
		}
	}
	switch err {
	case nil, unix.EINTR, unix.EAGAIN, unix.EBUSY:
		// Too many completions not yet taken, or too little memory for a
		// moment: take what is there and try again.
	default:
		return err
	}
	p.busy = p.ring.CQReady() > 0
	if p.busy {
		p.loop.awake()
		p.reap()
	}
	return nil
}

// reap dispatches the completions that are there.
func (p *uringPoller) reap() {
	p.seen = 0
	p.ring.ForEachCQE(p.onCompletion)
	p.ring.CQAdvance(p.seen)
}

func (p *uringPoller) complete(cqe *giouring.CompletionQueueEvent) {
	p.seen++
	more := cqe.Flags&cqeMore != 0
	if !more {
		p.inFlight--
	}
	l := p.loop
	kind, gen, slot := splitEventData(cqe.UserData)
	switch kind {
	case kindReceive:
		if c := l.conns.lookup(slot, gen); c != nil {
			p.received(c, cqe.Res, cqe.Flags)
		}
	case kindOutput:
		if c := l.conns.lookup(slot, gen); c != nil {
			c.ring.polling = false
			if c.closed {
				p.forgetIfIdle(c)
			} else {
				l.writable(c)
			}
		}
	case kindListen:
		p.watching[slot] = false
		if cqe.Res >= 0 {
			l.server.acceptReady(l, int(slot))
		}
		if ln := l.server.listenerAt(int(slot)); ln.watched {
			p.pollListener(ln)
		}
	case kindWake:
		if !more && cqe.Res >= 0 {
			p.armWake()
		}
	case kindCancel:
		if c := l.conns.lookup(slot, gen); c != nil && cqe.Res < 0 {
			p.cancelMissed(c)
		}
	}
}

// armWake polls the eventfd for as long as the loop lives. Each write is an
// event of its own, so the counter need never be read.
func (p *uringPoller) armWake() {
	sqe := p.entry(opPollAdd, p.wakeFD, eventData(kindWake, 0, 0))
	sqe.Len = pollAddMulti
	sqe.OpcodeFlags = unix.POLLIN
}

func (p *uringPoller) wake() { writeEventFD(p.wakeFD) }

func (p *uringPoller) watch(ln *listener, on bool) error {
	for len(p.watching) <= ln.index {
		p.watching = append(p.watching, false)
	}
	if on {
		p.pollListener(ln)
	} else if p.watching[ln.index] {
		p.cancel(eventData(kindListen, 0, uint32(ln.index)), eventData(kindIgnore, 0, 0))
		p.handOver()
	}
	return nil
}

// handOver submits everything. It comes before a descriptor is closed: an
// entry that is still here names it by number, and the number is soon
// another's.
func (p *uringPoller) handOver() {
	for p.ring.SQReady() > 0 {
		switch err := p.enter(0, false); err {
		case nil, unix.EINTR, unix.EAGAIN, unix.EBUSY:
		default:
			panic("netio: io_uring_enter: " + err.Error())
		}
	}
}

// pollListener polls once: armed anew after each accept, it sees what is left.
func (p *uringPoller) pollListener(ln *listener) {
	if p.watching[ln.index] {
		return
	}
	p.watching[ln.index] = true
	sqe := p.entry(opPollAdd, ln.fd, eventData(kindListen, 0, uint32(ln.index)))
	sqe.OpcodeFlags = unix.POLLIN
}

// cancel ends the operation with the user data target.
func (p *uringPoller) cancel(target, own uint64) {
	sqe := p.entry(opAsyncCancel, -1, own)
	sqe.Addr = target
}

func (p *uringPoller) add(c *Conn) error {
	p.arm(c)
	return nil
}

func (p *uringPoller) awaitWritable(c *Conn) {
	if c.ring.polling {
		return
	}
	c.ring.polling = true
	sqe := p.entry(opPollAdd, c.fd, eventData(kindOutput, c.gen, c.slot))
	sqe.OpcodeFlags = unix.POLLOUT
}

func (p *uringPoller) remove(c *Conn) {
	for _, in := range c.ring.pending {
		p.loop.server.budget.unhold(providedBytes)
		p.loop.releaseChunk(in.chunk)
	}
	c.ring.pending = nil
	p.cancelReceive(c)
	if c.ring.polling {
		p.cancel(eventData(kindOutput, c.gen, c.slot), eventData(kindIgnore, 0, 0))
	}
	if c.ring.receiving != 0 || c.ring.polling {
		p.handOver()
	}
	_ = unix.Close(c.fd)
	p.forgetIfIdle(c)
}

func (p *uringPoller) forgetIfIdle(c *Conn) {
	if c.ring.receiving == 0 && !c.ring.polling {
		p.loop.forget(c)
	}
}
