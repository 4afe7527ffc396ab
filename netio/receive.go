package netio

import (
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Receiving by direct calls, once the kernel has said that there is something:
// all that epoll does, and what the ring does for connections that bring bulk.

const (
	// inputTurnBytes is the share of one connection in one turn, for input.
	inputTurnBytes = 256 << 10
	// directBytesMax is the most that one receive into a frame's own buffer
	// asks for. Asking for all of it lets the copy go on while the peer sends.
	directBytesMax = 1 << 20
	// lowWaterMin is the rest of a frame from which on it pays to be woken only
	// when all of it is there.
	lowWaterMin = 32 << 10
	// smallReceiveBytes is how much is asked for where frames are small or
	// nothing is known of them.
	smallReceiveBytes = 64 << 10
	// bulkFrameBytes is from where on a frame's length says how much to ask for.
	bulkFrameBytes = 4 << 10
	// bulkFrames is how many small frames it takes until a connection that
	// brought a larger one counts as one of small frames again.
	bulkFrames = 16
)

// receiveFrom reads until the socket is drained, the connection had its share, or
// it may not receive. A short read means drained: what comes later is a new
// edge. After a hang-up there is none, so then only the end counts.
func (l *Loop) receiveFrom(c *Conn) {
	for share := inputTurnBytes; c.readable && c.mayReceive(); {
		if share <= 0 {
			l.markReady(c)
			return
		}
		var dst []byte
		var ch *chunk
		if c.frame != nil {
			dst = c.promised()
			dst = dst[:min(len(dst), directBytesMax)]
		} else {
			size := c.receiveBytes()
			ch = l.receiveChunk(size)
			dst = ch.mem[ch.pos : ch.pos+size]
		}
		n, errno := receiveNow(c.fd, dst)
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			c.readable = false
			if c.frame != nil {
				// The mark may be from when more was missing than is now.
				setLowWater(c, lowWaterFor(len(dst)))
			}
			continue
		case errno != 0:
			c.readable = false
			l.inputEnded(c, errno)
			return
		case n == 0:
			c.readable = false
			l.inputEnded(c, io.EOF)
			return
		}
		share -= n
		if n < len(dst) && !c.hangUp {
			c.readable = false
		}
		if ch == nil {
			l.filled(c, n)
		} else {
			l.feedChunk(c, ch, n)
		}
		if c.frame == nil {
			setLowWater(c, 1)
		} else if !c.readable {
			setLowWater(c, lowWaterFor(len(c.promised())))
		}
	}
}

// receiveBytes is how much to receive into shared memory when no frame is
// begun: of a large one the head only, of bulk as many whole frames of the last
// one's length as fit, so that a peer that is ahead of us leaves none cut in two.
func (c *Conn) receiveBytes() int {
	switch {
	case c.large:
		return headBytes
	case c.frameBytes >= bulkFrameBytes:
		return receiveBytesMax / c.frameBytes * c.frameBytes
	default:
		return smallReceiveBytes
	}
}

// noteFrame takes the length of a frame, with its prefix, as a sign of what
// comes next.
func (c *Conn) noteFrame(n int) {
	c.frameBytes = n
	c.large = n >= largeFrameBytes
	if n >= bulkFrameBytes {
		c.bulk = bulkFrames
	} else if c.bulk > 0 {
		c.bulk--
	}
}

// setLowWater lets the kernel wake us for the rest of a large frame only when
// all of it is there, and puts things back when it is.
func setLowWater(c *Conn, want int) {
	if want != c.lowWater {
		c.lowWater = want
		_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, want)
	}
}

// lowWaterFor is the mark for a frame of which rest bytes are missing. The
// kernel caps it at what the receive buffer can hold.
func lowWaterFor(rest int) int {
	if rest >= lowWaterMin {
		return rest
	}
	return 1
}

// receiveNow is a raw call: with MSG_DONTWAIT it cannot sleep.
func receiveNow(fd int, p []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
