package netio

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// WritableHandler is what a [Handler] also is where its connections use
// [Conn.Send].
type WritableHandler interface {
	// Writable says that a socket that was full takes bytes again.
	Writable(c *Conn)
}

// dialledListener stands for the listener of connections that were dialled.
var dialledListener = &listener{name: "dialled"}

// Dial connects to address, "host:port", and hands the connection to a loop.
// It blocks the caller, not a loop; the handler's Opened follows on the loop,
// with c.State already set to state. Not while the server shuts down.
//
// On a dialled connection the frames are responses: they come to
// [Handler.Request] like requests, and the handler ends each with NoReply.
// Handler.Pipelined must say true for them. Requests go out by [Conn.Send].
func (s *Server) Dial(ctx context.Context, address string, loop int, state any) (*Conn, error) {
	if s.stopping.Load() {
		return nil, ErrServerClosed
	}
	d := net.Dialer{ControlContext: s.dialCongestion}
	std, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	fd, remote, err := takeSocket(std.(*net.TCPConn))
	if err != nil {
		return nil, fmt.Errorf("netio: dial %s: %w", address, err)
	}
	if !s.countConn(remote.Addr()) {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("netio: dial %s: too many connections to this address", address)
	}
	s.tuneSocket(fd)
	c := &Conn{State: state, loop: s.loops[loop], listener: dialledListener, remote: remote, id: s.nextID.Add(1), fd: fd, lowWater: 1}
	c.onWritable, _ = s.handler.(WritableHandler)
	c.loop.Post((*openTask)(c))
	return c, nil
}

// dialCongestion sets the congestion control of a socket that is about to
// connect to a loopback address: before, for setCongestion's reason.
func (s *Server) dialCongestion(_ context.Context, _, address string, raw syscall.RawConn) error {
	peer, err := netip.ParseAddrPort(address)
	if name := s.config.LoopbackCongestion; err == nil && name != "" && peer.Addr().Unmap().IsLoopback() {
		return raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
		})
	}
	return nil
}

// takeSocket takes the socket out of the hands of package net. It stays
// non-blocking.
func takeSocket(std *net.TCPConn) (fd int, remote netip.AddrPort, err error) {
	defer std.Close()
	raw, err := std.SyscallConn()
	if err != nil {
		return -1, remote, err
	}
	controlErr := raw.Control(func(original uintptr) {
		fd, err = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	})
	if controlErr != nil {
		return -1, remote, controlErr
	}
	remote = std.RemoteAddr().(*net.TCPAddr).AddrPort()
	return fd, netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port()), err
}

// Send sends the pieces, one behind the other, as far as the socket takes them
// now, and returns how many bytes that was. What is left is the caller's, who
// goes on when the handler's Writable is called ([WritableHandler]). After an
// error the connection is about to be closed. The pieces are not kept.
//
// Only for dialled connections: replies know nothing of it. Loop goroutine
// only.
func (c *Conn) Send(pieces [][]byte) (n int, err error) {
	if c.closed || c.closeReason != nil {
		return 0, ErrServerClosed
	}
	l := c.loop
	for !c.full {
		if !l.out.gatherFrom(pieces, n) {
			break
		}
		sent, err := l.out.send(c.fd, false)
		switch {
		case err == nil:
		case err == unix.EAGAIN:
			c.full = true
			l.poll.awaitWritable(c)
		case err == unix.EINTR:
		default:
			c.ended = true
			c.Close(err)
			return n, err
		}
		n += sent
	}
	return n, nil
}

// gatherFrom collects what follows the first skip bytes of the pieces, at most
// one send's worth, and reports whether there is anything.
func (o *output) gatherFrom(pieces [][]byte, skip int) bool {
	o.reset()
	for _, p := range pieces {
		if skip >= len(p) {
			skip -= len(p)
			continue
		}
		if !o.add(p[skip:]) || o.total >= sendBytesMax {
			break
		}
		skip = 0
	}
	return o.total > 0
}

// InstantOf is t, which must have a monotonic reading, on the loops' clock.
func InstantOf(t time.Time) Instant { return Instant(t.Sub(clockStart)) }
