package netio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	listenBacklog = 4096
	// acceptsPerTurn bounds how long a burst of new connections keeps a loop.
	acceptsPerTurn = 64
	// acceptPause is how long accepting rests when descriptors or memory are
	// used up: the listener stays readable, so going on would spin.
	acceptPause = 100 * time.Millisecond
	// bindPatience covers the moment for which a killed process's ring, torn
	// down asynchronously, keeps the port bound.
	bindPatience = 500 * time.Millisecond
)

// listener is one listening socket. Loop 0 watches it and deals the
// connections out.
type listener struct {
	name    string
	fd      int
	index   int
	address netip.AddrPort
	// These belong to loop 0. complained is when a failing accept was last
	// logged.
	watched    bool
	pause      Timer
	complained Instant
	counts     listenerCounts
	// congestion is the host's TCP_CONGESTION where the socket itself has
	// another one; see setCongestion.
	congestion string
}

// listen binds address, "host:port". An empty host is all addresses, IPv6 and
// IPv4 in one socket where the host has IPv6.
func listen(address string, receiveBuffer int) (fd int, bound netip.AddrPort, err error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return -1, bound, fmt.Errorf("netio: listen on %q: %w", address, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return -1, bound, fmt.Errorf("netio: listen on %q: port: %w", address, err)
	}
	if host == "" {
		fd, err = listenSocket(netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)), false, receiveBuffer)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
			fd, err = listenSocket(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port)), false, receiveBuffer)
		}
	} else {
		var addrs []netip.Addr
		if addrs, err = net.DefaultResolver.LookupNetIP(context.Background(), "ip", host); err == nil {
			addr := addrs[0]
			for _, a := range addrs {
				// As Java and most clients do, prefer IPv4 for a name that has both.
				if a.Unmap().Is4() {
					addr = a.Unmap()
					break
				}
			}
			// "::" means every address of either family, as it does in Java.
			fd, err = listenSocket(netip.AddrPortFrom(addr, uint16(port)), !addr.IsUnspecified(), receiveBuffer)
		}
	}
	if err != nil {
		return -1, bound, fmt.Errorf("netio: listen on %q: %w", address, err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		_ = unix.Close(fd)
		return -1, bound, fmt.Errorf("netio: listen on %q: %w", address, err)
	}
	return fd, addrPort(sa), nil
}

func listenSocket(addr netip.AddrPort, v6only bool, receiveBuffer int) (int, error) {
	family := unix.AF_INET
	if addr.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if family == unix.AF_INET6 {
		only := 0
		if v6only {
			only = 1
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only)
	}
	if receiveBuffer > 0 {
		// Before listen, so that the window scale offered fits it.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	for deadline := time.Now().Add(bindPatience); ; time.Sleep(5 * time.Millisecond) {
		err = unix.Bind(fd, sockaddr(addr))
		if !errors.Is(err, unix.EADDRINUSE) || time.Now().After(deadline) {
			break
		}
	}
	if err == nil {
		err = unix.Listen(fd, listenBacklog)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	sa := &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
	if zone := a.Addr().Zone(); zone != "" {
		if ifi, err := net.InterfaceByName(zone); err == nil {
			sa.ZoneId = uint32(ifi.Index)
		}
	}
	return sa
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// watchListener begins or ends to accept from ln. Loop 0 only.
func (s *Server) watchListener(l *Loop, ln *listener, on bool) {
	if ln.watched == on || on && s.stopping.Load() {
		return
	}
	if err := l.poll.watch(ln, on); err != nil {
		s.closeLog.refused("listener cannot be watched", "listener", ln.name, "err", err)
		return
	}
	ln.watched = on
}

// acceptReady takes waiting connections. Loop 0 only.
func (s *Server) acceptReady(l *Loop, index int) {
	ln := s.listenerAt(index)
	if ln == nil || !ln.watched {
		return
	}
	for range acceptsPerTurn {
		if s.full() {
			s.watchListener(l, ln, false)
			// A connection that ended before the listener was unwatched
			// resumed nothing.
			if !s.full() {
				s.watchListener(l, ln, true)
			}
			return
		}
		fd, sa, err := unix.Accept4(ln.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			if peer := addrPort(sa); s.admit(l, ln, fd, peer) {
				s.accepted(ln, fd, peer)
			}
			if !ln.watched {
				return
			}
		case errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.EPROTO):
		default:
			s.acceptFailed(l, ln, err)
			s.watchListener(l, ln, false)
			l.AddTimer(&ln.pause, l.now+Instant(acceptPause))
			return
		}
	}
}

// acceptComplaint is the least time between two lines about one listener that
// cannot accept: it is tried ten times a second.
const acceptComplaint = 30 * time.Second

// acceptFailed says, now and then, why connections wait and what to do.
func (s *Server) acceptFailed(l *Loop, ln *listener, err error) {
	ln.counts.failed.Add(1)
	if ln.complained != 0 && l.now-ln.complained < Instant(acceptComplaint) {
		return
	}
	ln.complained = l.now
	hint := "connections wait until it works again"
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		hint += ": raise the limit of open files (ulimit -n, LimitNOFILE), or set max.connections below it"
	}
	s.closeLog.refused("cannot accept connections", "listener", ln.name, "err", err, "hint", hint)
}

// acceptAgain watches every listener again after a pause or a full house.
type acceptAgain struct{ server *Server }

func (t acceptAgain) Run(l *Loop) {
	if t.server.full() {
		return
	}
	for i := 0; ; i++ {
		ln := t.server.listenerAt(i)
		if ln == nil {
			return
		}
		if !ln.pause.Active() {
			t.server.watchListener(l, ln, true)
		}
	}
}

// accepted sets up a connection and deals it to the next loop.
func (s *Server) accepted(ln *listener, fd int, remote netip.AddrPort) {
	if s.stopping.Load() || !s.countConn(remote.Addr()) {
		_ = unix.Close(fd)
		if !s.stopping.Load() {
			ln.counts.refused.Add(1)
			s.closeLog.refused("connection refused", "peer", remote.String(), "listener", ln.name,
				"reason", "too many connections from this address")
		}
		return
	}
	ln.counts.opened.Add(1)
	s.tuneSocket(fd)
	if ln.congestion != "" && !remote.Addr().IsLoopback() {
		_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, ln.congestion)
	}
	id := s.nextID.Add(1)
	l := s.loops[int(id)%len(s.loops)]
	c := &Conn{loop: l, listener: ln, remote: remote, id: id, fd: fd, lowWater: 1}
	l.Post((*openTask)(c))
}

// setCongestion gives a listening socket the congestion control that loopback
// peers are to have, for its connections to begin with; the others get the
// host's back. A connection that began under BBR and is switched afterwards
// goes on being paced by a timer for each segment, which was a sixth of the CPU
// of plain reads. What the host does not know is left.
func (ln *listener) setCongestion(name string) {
	before, err := unix.GetsockoptString(ln.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if name == "" || err != nil || before == name {
		return
	}
	if unix.SetsockoptString(ln.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name) == nil {
		ln.congestion = before
	}
}

// tuneSocket sets the options of a new connection. None is worth refusing it.
func (s *Server) tuneSocket(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	if n := s.config.SendBufferBytes; n > 0 {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, n)
	}
}

// openTask is a connection's first turn on its loop.
type openTask Conn

func (t *openTask) Run(l *Loop) {
	c := (*Conn)(t)
	s := l.server
	if l.draining {
		_ = unix.Close(c.fd)
		s.connClosed(c)
		return
	}
	l.conns.insert(c)
	if err := l.poll.add(c); err != nil {
		s.closeLog.refused("connection refused", "peer", c.remote.String(), "listener", c.Listener(), "reason", err.Error())
		_ = unix.Close(c.fd)
		l.conns.release(c)
		s.connClosed(c)
		return
	}
	c.lastActive = l.now
	if s.config.IdleTimeout > 0 {
		c.idleTimer.Task = (*idleTask)(c)
		l.AddTimer(&c.idleTimer, l.now+Instant(s.config.IdleTimeout))
	}
	s.handler.Opened(c)
}
