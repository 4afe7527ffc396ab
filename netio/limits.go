package netio

import (
	"math"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Limits bound the connections of a server; math.MaxInt is no limit. They may
// change while it runs, see [Server.SetLimits].
type Limits struct {
	// Connections bounds those of the server; while it is reached new ones wait
	// in the listen queue.
	Connections int
	// PerIP bounds those of one address, unless it is in PerIPOverrides; more
	// are closed at once.
	PerIP          int
	PerIPOverrides map[netip.Addr]int
	// Admit, if set, is asked about each new connection, on one loop: for pause
	// no more are accepted; one with a hold is not served but kept open for that
	// long and then closed, so that its peer does not come back at once. It must
	// not block.
	Admit func(listener string, peer netip.Addr) (pause, hold time.Duration)
}

// perIP is the bound of an address.
func (l *Limits) perIP(addr netip.Addr) int {
	if n, ok := l.PerIPOverrides[addr]; ok {
		return n
	}
	return l.PerIP
}

// limitsOf are the limits that a configuration begins with.
func limitsOf(c *Config) *Limits {
	l := &Limits{Connections: c.MaxConnections, PerIP: c.MaxConnectionsPerIP}
	if l.Connections <= 0 {
		l.Connections = math.MaxInt
	}
	if l.PerIP <= 0 {
		l.PerIP = math.MaxInt
	}
	return l
}

// SetLimits puts limits into force. Connections that are open stay, as in
// Kafka; those that waited for a place are accepted if there are more now. Any
// goroutine.
func (s *Server) SetLimits(l Limits) {
	s.limits.Store(&l)
	s.loops[0].Post(acceptAgain{s})
}

// full reports whether the bound on connections is reached.
func (s *Server) full() bool { return s.connections.Load() >= int64(s.limits.Load().Connections) }

// countConn admits one connection, unless its address has its share.
func (s *Server) countConn(addr netip.Addr) bool {
	s.perIPMu.Lock()
	defer s.perIPMu.Unlock()
	if s.perIP[addr] >= s.limits.Load().perIP(addr) {
		return false
	}
	s.perIP[addr]++
	s.connections.Add(1)
	return true
}

// connClosed gives a connection's place back.
func (s *Server) connClosed(c *Conn) {
	c.listener.counts.closed.Add(1)
	addr := c.remote.Addr()
	s.perIPMu.Lock()
	if s.perIP[addr]--; s.perIP[addr] <= 0 {
		delete(s.perIP, addr)
	}
	s.perIPMu.Unlock()
	// Acceptors rest at the bound only; the bound may have moved meanwhile.
	if n := s.connections.Add(-1); n == int64(s.limits.Load().Connections)-1 {
		s.loops[0].Post(acceptAgain{s})
	}
}

// heldMax bounds the descriptors of connections that are held unserved; beyond
// it they are closed at once.
const heldMax = 256

// heldConn is a connection that is not served. It belongs to loop 0.
type heldConn struct {
	server *Server
	fd     int
	timer  Timer
}

// Run implements Task: the time is over.
func (h *heldConn) Run(*Loop) {
	_ = unix.Close(h.fd)
	delete(h.server.held, h)
}

// admit asks about a new connection and reports whether it is to be served; if
// not, its descriptor is taken care of. Loop 0 only.
func (s *Server) admit(l *Loop, ln *listener, fd int, peer netip.AddrPort) bool {
	ask := s.limits.Load().Admit
	if ask == nil {
		return true
	}
	pause, hold := ask(ln.name, peer.Addr())
	if pause > 0 {
		for i := 0; ; i++ {
			ln := s.listenerAt(i)
			if ln == nil {
				break
			}
			s.watchListener(l, ln, false)
			l.AddTimer(&ln.pause, l.now+Instant(pause))
		}
	}
	if hold <= 0 {
		return true
	}
	ln.counts.refused.Add(1)
	s.closeLog.refused("connection refused", "peer", peer.String(), "listener", ln.name,
		"reason", "too many new connections from this address", "held_ms", hold.Milliseconds())
	if len(s.held) >= heldMax {
		_ = unix.Close(fd)
		return false
	}
	h := &heldConn{server: s, fd: fd}
	h.timer.Task = h
	s.held[h] = struct{}{}
	l.AddTimer(&h.timer, l.now+Instant(hold))
	return false
}

// closeHeld ends what is held. Loop 0 only.
func (s *Server) closeHeld(l *Loop) {
	for h := range s.held {
		l.StopTimer(&h.timer)
		h.Run(l)
	}
}
