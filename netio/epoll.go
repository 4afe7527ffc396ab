package netio

import (
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	epollEventsMax = 256
	// Tags of event data: kind in the top byte, then generation, then slot.
	kindConn   = 0
	kindListen = 1
	kindWake   = 2
)

func eventData(kind uint8, gen, slot uint32) uint64 {
	return uint64(kind)<<56 | uint64(gen&genMask)<<32 | uint64(slot)
}

func splitEventData(d uint64) (kind uint8, gen, slot uint32) {
	return uint8(d >> 56), uint32(d>>32) & genMask, uint32(d)
}

// epollPoller watches every socket once, edge-triggered, for input and output
// together: after that a connection costs no epoll_ctl, muted or not, full or
// not. What the edge said is kept in Conn.readable and Conn.full.
type epollPoller struct {
	loop   *Loop
	fd     int
	wakeFD int
	// busy says that the last wait found something, so the next one is tried
	// without sleeping, as a raw call.
	busy bool
	// coarse says that sleeps are in milliseconds.
	coarse bool
	limit  unix.Timespec
	events [epollEventsMax]unix.EpollEvent
}

func setupEpoll(l *Loop) error {
	p, err := newEpoll(l)
	if err != nil {
		return err
	}
	l.poll = p
	return nil
}

func newEpoll(l *Loop) (*epollPoller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wakeFD, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	p := &epollPoller{loop: l, fd: fd, wakeFD: wakeFD}
	// Edge-triggered, so that the counter need never be read.
	if err := p.control(unix.EPOLL_CTL_ADD, wakeFD, unix.EPOLLIN|unix.EPOLLET, eventData(kindWake, 0, 0)); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *epollPoller) control(op, fd int, events uint32, data uint64) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(uint32(data)), Pad: int32(uint32(data >> 32))}
	return unix.EpollCtl(p.fd, op, fd, &ev)
}

func (p *epollPoller) close() {
	_ = unix.Close(p.wakeFD)
	_ = unix.Close(p.fd)
}

func (p *epollPoller) add(c *Conn) error {
	return p.control(unix.EPOLL_CTL_ADD, c.fd, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET,
		eventData(kindConn, c.gen, c.slot))
}

func (p *epollPoller) remove(c *Conn) {
	_ = unix.Close(c.fd) // leaves the epoll set by itself
	p.loop.forget(c)
}

func (p *epollPoller) watch(ln *listener, on bool) error {
	if !on {
		return p.control(unix.EPOLL_CTL_DEL, ln.fd, 0, 0)
	}
	return p.control(unix.EPOLL_CTL_ADD, ln.fd, unix.EPOLLIN, eventData(kindListen, 0, uint32(ln.index)))
}

// awaitWritable needs nothing: the send that met a full socket armed the edge.
func (p *epollPoller) awaitWritable(*Conn) {}

func (p *epollPoller) wake() { writeEventFD(p.wakeFD) }

func writeEventFD(fd int) {
	one := uint64(1)
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
}

func (p *epollPoller) inputChanged(c *Conn) {
	if c.readable && !c.isReady && c.mayReceive() {
		p.loop.markReady(c)
	}
}

func (p *epollPoller) resume(c *Conn) {
	if c.readable {
		p.loop.receiveFrom(c)
	}
}

func (p *epollPoller) wait(d time.Duration) error {
	n := 0
	if d == 0 || p.busy {
		r, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
			epollEventsMax, 0, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return errno
		}
		if errno == 0 {
			n = int(r)
		}
	}
	p.busy = n > 0
	if n == 0 && d != 0 {
		p.loop.goesToSleep()
		var err error
		if n, err = p.sleep(d); err != nil && err != unix.EINTR {
			return err
		}
		p.busy = n > 0
	}
	if n > 0 {
		p.loop.awake()
	}
	for i := range n {
		p.dispatch(&p.events[i])
	}
	return nil
}

// sleep waits to the nanosecond where the kernel can (Linux 5.11): rounding up
// to milliseconds would make every timer of a quiet loop late.
func (p *epollPoller) sleep(d time.Duration) (int, error) {
	if d < 0 || p.coarse {
		return unix.EpollWait(p.fd, p.events[:], milliseconds(d))
	}
	p.limit = unix.NsecToTimespec(int64(d))
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
		epollEventsMax, uintptr(unsafe.Pointer(&p.limit)), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.ENOSYS, unix.EPERM: // EPERM where a filter does not know the call
		p.coarse = true
		return unix.EpollWait(p.fd, p.events[:], milliseconds(d))
	}
	return 0, errno
}

// milliseconds rounds up; negative is without end.
func milliseconds(d time.Duration) int {
	if d < 0 {
		return -1
	}
	return int(min((d+time.Millisecond-1)/time.Millisecond, math.MaxInt32))
}

func (p *epollPoller) dispatch(ev *unix.EpollEvent) {
	l := p.loop
	kind, gen, slot := splitEventData(uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32)
	switch kind {
	case kindConn:
		c := l.conns.lookup(slot, gen)
		if c == nil || c.closed {
			return
		}
		if ev.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			c.hangUp, c.readable = true, true
		}
		if ev.Events&unix.EPOLLOUT != 0 && c.full {
			l.writable(c)
		}
		if ev.Events&unix.EPOLLIN != 0 {
			c.readable = true
		}
		if c.readable && !c.isReady {
			p.loop.receiveFrom(c)
		}
	case kindListen:
		l.server.acceptReady(l, int(slot))
	case kindWake:
	}
}
