package netio

import (
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// iovecsMax bounds the pieces of one send.
	iovecsMax = 128
	// scratchBytes is the room for what is copied together before a send.
	scratchBytes = 64 << 10
	// copyBytesMax is up to where a piece is copied next to its neighbours: one
	// run of bytes is cheaper for the kernel than many small pieces.
	copyBytesMax = 4 << 10
	// sendBytesMax bounds one send, so that a reply is not gathered again and
	// again for a slow reader.
	sendBytesMax = 512 << 10
	// turnBytesMax is the share of one connection in one turn, for output.
	turnBytesMax = 1 << 20
	// spanStepBytes is how much of a file is sent at a time. Of the limit
	// program's throughput and CPU, 8 readers by 1 MiB, 7 interleaved rounds:
	// 256 KiB a time 0.89 and 1.29, 1 MiB 1.03 and 1.05.
	spanStepBytes = 1 << 20
	// spanProbeBytes is how much of it one probe answers for.
	spanProbeBytes = 256 << 10
)

// output is what a loop gathers a send in. Nothing outlives the send: what the
// socket did not take is gathered again from the requests.
type output struct {
	iovecs  [iovecsMax]unix.Iovec
	n       int
	scratch []byte // off the heap; its length is what is used
	total   int
	header  unix.Msghdr
	offset  int64
	probe   [1]byte
	iovec   unix.Iovec
}

func (o *output) init() { o.scratch = mapMemory(scratchBytes)[:0] }

func (o *output) close() {
	unmapMemory(o.scratch[:scratchBytes])
	o.scratch = nil
}

func (o *output) reset() { o.n, o.total, o.scratch = 0, 0, o.scratch[:0] }

// add puts p behind what is gathered and reports whether there was room.
func (o *output) add(p []byte) bool {
	if len(p) == 0 {
		return true
	}
	if len(p) <= copyBytesMax && cap(o.scratch)-len(o.scratch) >= len(p) {
		start := len(o.scratch)
		o.scratch = append(o.scratch, p...)
		p = o.scratch[start:]
		if o.n > 0 {
			last := &o.iovecs[o.n-1]
			end := uintptr(unsafe.Pointer(last.Base)) + uintptr(last.Len)
			if end == uintptr(unsafe.Pointer(&p[0])) {
				last.Len += uint64(len(p))
				o.total += len(p)
				return true
			}
		}
	}
	if o.n == iovecsMax {
		return false
	}
	o.iovecs[o.n] = unix.Iovec{Base: &p[0], Len: uint64(len(p))}
	o.n++
	o.total += len(p)
	return true
}

// gather collects the bytes that go next on c, up to the first file range,
// and reports whether such a range follows.
func (o *output) gather(c *Conn) (more bool) {
	o.reset()
	for r := c.first; r != nil && r.state == requestDone && r.failed == nil; r = r.next {
		if r.silent {
			continue
		}
		prefix, body := r.out.run()
		if !o.add(prefix) || !o.add(body) {
			return false
		}
		if r.out.span < len(r.out.spans) {
			return true
		}
		if o.total >= sendBytesMax {
			return false
		}
	}
	return false
}

// flush sends finished replies until the socket is full, the connection had
// its share, or the next reply is not finished.
func (l *Loop) flush(c *Conn) {
	for share := turnBytesMax; !c.full && c.closeReasonIsSoft(); {
		l.popSent(c)
		r := c.first
		if r == nil || r.state != requestDone || r.cold {
			return
		}
		if r.failed != nil {
			c.Close(r.failed)
			return
		}
		if share <= 0 {
			l.markReady(c)
			return
		}
		n, err := l.sendSome(c, r)
		switch {
		case err == nil:
		case err == unix.EAGAIN:
			c.full = true
			l.poll.awaitWritable(c)
		case err == unix.EINTR:
		default:
			c.ended = true
			c.closeReason = err
			return
		}
		if n > 0 {
			share -= n
			c.lastActive = l.now
			l.stats.bytesSent += int64(n)
		}
	}
}

// closeReasonIsSoft reports whether replies still go out: they do not on a
// connection that is broken.
func (c *Conn) closeReasonIsSoft() bool { return c.closeReason == nil || !c.ended }

// popSent takes the requests that need no more off the head of the list.
func (l *Loop) popSent(c *Conn) {
	for r := c.first; r != nil && r.state == requestDone && r.failed == nil; r = c.first {
		if !r.silent && !r.out.complete() {
			return
		}
		c.pop()
		l.answered(r)
		l.recycle(r)
	}
}

// sendSome makes one send: of gathered bytes, or of a step of the file range
// at the head.
func (l *Loop) sendSome(c *Conn, r *Request) (int, error) {
	o := &l.out
	more := o.gather(c)
	if o.total == 0 {
		return l.sendRange(c, r)
	}
	n, err := o.send(c.fd, more)
	if n > 0 {
		c.owed -= int64(n)
		c.unsent -= int64(n)
		left := n
		for r := c.first; left > 0; r = r.next {
			if !r.silent {
				left = r.out.advance(left)
			}
		}
	}
	return n, err
}

// advance counts n bytes as sent, as far as they are this reply's up to its
// next range, and returns the rest.
func (p *Reply) advance(n int) int {
	prefix, body := p.run()
	take := min(n, len(prefix)+len(body))
	p.sent += take
	return n - take
}

// send is a raw call: with MSG_DONTWAIT it cannot sleep.
func (o *output) send(fd int, more bool) (int, error) {
	flags := unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
	if more {
		flags |= unix.MSG_MORE
	}
	var n uintptr
	var errno unix.Errno
	if o.n == 1 {
		n, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(o.iovecs[0].Base)),
			uintptr(o.iovecs[0].Len), uintptr(flags), 0, 0)
	} else {
		o.header.Iov = &o.iovecs[0]
		o.header.Iovlen = uint64(o.n)
		n, _, errno = unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&o.header)), uintptr(flags))
	}
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// sendRange sends a step of the file range at the head of r's reply. What is
// not in the page cache goes to a worker, and the connection waits for it.
func (l *Loop) sendRange(c *Conn, r *Request) (int, error) {
	p := &r.out
	s := &p.spans[p.span]
	step := min(s.Length-p.spanSent, spanStepBytes)
	position := s.Position + p.spanSent
	var n int
	var err error
	if s.FD < 0 {
		n, err = l.sendCopied(c, s.Source, position, step)
	} else {
		if ahead := p.readAhead - p.spanSent; ahead > 0 {
			step = min(step, ahead)
		} else {
			step = l.out.residentBytes(s.FD, position, step)
		}
		if step == 0 {
			if p.spanSent == 0 {
				// What was sent with MSG_MORE must not wait for the disk: setting
				// the option again pushes it out.
				_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
			}
			l.readCold(r, position, s.Length-p.spanSent)
			return 0, nil
		}
		l.out.offset = position
		// A real system call: the page may be gone again, and then it sleeps.
		n, err = unix.Sendfile(c.fd, s.FD, &l.out.offset, int(step))
		if err == nil && n == 0 {
			err = ErrTruncated
		}
	}
	if n > 0 {
		c.owed -= int64(n)
		p.spanSent += int64(n)
		if p.spanSent == s.Length {
			owner := s.Owner
			p.span++
			p.spanSent, p.readAhead = 0, 0
			if owner != nil {
				owner.Release()
			}
		}
	}
	return n, err
}

// sendCopied is for files without a descriptor.
func (l *Loop) sendCopied(c *Conn, src io.ReaderAt, position, step int64) (int, error) {
	o := &l.out
	o.reset()
	buf := o.scratch[:min(step, scratchBytes)]
	n, err := src.ReadAt(buf, position)
	if n < len(buf) {
		if err == nil || err == io.EOF {
			err = ErrTruncated
		}
		return 0, err
	}
	o.iovecs[0] = unix.Iovec{Base: &buf[0], Len: uint64(n)}
	o.n = 1
	return o.send(c.fd, false)
}

// residentBytes is how many of the n bytes at position are in the page cache,
// as far as probes tell.
func (o *output) residentBytes(fd int, position, n int64) int64 {
	for have := int64(0); have < n; have += spanProbeBytes {
		if !o.resident(fd, position+min(have+spanProbeBytes, n)-1) {
			return have
		}
	}
	return n
}

// resident reports whether the page that holds the byte at position is in the
// page cache: RWF_NOWAIT is the only truth, cachestat counts reads in flight.
// A file system that cannot tell counts as resident.
func (o *output) resident(fd int, position int64) bool {
	o.iovec = unix.Iovec{Base: &o.probe[0], Len: 1}
	_, _, errno := unix.RawSyscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&o.iovec)), 1,
		uintptr(position), 0, unix.RWF_NOWAIT)
	return errno != unix.EAGAIN
}
