package netio

import (
	"context"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// congestionOf is the congestion control of a loop's only connection.
func congestionOf(t *testing.T, s *Server) string {
	t.Helper()
	name := make(chan string, 1)
	s.loops[0].Post(taskFunc(func(l *Loop) {
		got := ""
		for _, c := range l.conns.slots {
			if c != nil {
				got, _ = unix.GetsockoptString(c.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
			}
		}
		name <- got
	}))
	return <-name
}

// hostAddress is an address of this host that is not loopback's, "" without one.
func hostAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return ""
}

// TestLoopbackCongestion: a loopback peer's connection, accepted or dialled,
// has the configured congestion control, any other the host's.
func TestLoopbackCongestion(t *testing.T) {
	const other = "reno" // every kernel has it
	eachEngineOnce(t, func(t *testing.T, e env) {
		use := func(cfg *Config) { cfg.Loops, cfg.LoopbackCongestion = 1, other }
		s, address := e.start(t, &testHandler{}, use)
		client, _ := e.start(t, &testHandler{}, use)
		if _, err := client.Dial(context.Background(), address, 0, nil); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the connection", func() bool { return s.Connections() == 1 && congestionOf(t, s) != "" })
		for name, side := range map[string]*Server{"accepted": s, "dialled": client} {
			if got := congestionOf(t, side); got != other {
				t.Errorf("%s: %q, want %q", name, got, other)
			}
		}
		host := hostAddress()
		if host == "" {
			t.Log("no other address than loopback's")
			return
		}
		outside, _ := e.start(t, &testHandler{}, use)
		addr, err := outside.Listen("OUTSIDE", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		peer := dial(t, addr.String())
		want := ""
		raw, err := peer.Conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			want, _ = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the connection", func() bool { return outside.Connections() == 1 && congestionOf(t, outside) != "" })
		if got := congestionOf(t, outside); got != want {
			t.Errorf("not from loopback: %q, want %q", got, want)
		}
	})
}
