package netio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMaxConnections(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		s, addr := e.start(t, &testHandler{}, func(c *Config) { c.MaxConnections = 3 })
		var peers []*peer
		for i := range 3 {
			p := dial(t, addr)
			p.send(numbered(i, 20))
			p.want(numbered(i, 20))
			peers = append(peers, p)
		}
		// The fourth waits in the listen queue until there is a place.
		fourth := dial(t, addr)
		fourth.send(numbered(4, 20))
		_ = fourth.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := fourth.tryReceive(); !os.IsTimeout(err) {
			t.Fatalf("the fourth of three connections got an answer: %v", err)
		}
		_ = fourth.SetReadDeadline(time.Now().Add(patience))
		_ = peers[1].Close()
		fourth.want(numbered(4, 20))
		if n := s.Connections(); n != 3 {
			t.Errorf("%d connections, want 3", n)
		}
	})
}

func TestMaxConnectionsPerIP(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		h := &testHandler{}
		_, addr := e.start(t, h, func(c *Config) { c.MaxConnectionsPerIP = 2 })
		a, b := dial(t, addr), dial(t, addr)
		for _, p := range []*peer{a, b} {
			p.send(numbered(1, 20))
			p.want(numbered(1, 20))
		}
		dial(t, addr).wantClosed()
		// Another address has a share of its own.
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: patience}
		c, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		other := &peer{Conn: c, t: t}
		defer func() { _ = c.Close() }()
		other.send(numbered(2, 20))
		other.want(numbered(2, 20))
		_ = a.Close()
		_ = h.closedWith(t, 1)
		again := dial(t, addr)
		again.send(numbered(3, 20))
		again.want(numbered(3, 20))
	})
}

// TestSetLimits changes the limits of a server that runs.
func TestSetLimits(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		h := &testHandler{}
		s, addr := e.start(t, h, func(c *Config) { c.MaxConnections = 1 })
		works := func(p *peer) {
			t.Helper()
			p.send(numbered(1, 20))
			p.want(numbered(1, 20))
		}
		works(dial(t, addr))
		second := dial(t, addr)
		second.send(numbered(2, 20))
		_ = second.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
		if _, err := second.tryReceive(); !os.IsTimeout(err) {
			t.Fatalf("the second of one connection got an answer: %v", err)
		}
		_ = second.SetReadDeadline(time.Now().Add(patience))
		// It is accepted when the limit rises, without anybody leaving.
		s.SetLimits(Limits{Connections: math.MaxInt, PerIP: 2})
		second.want(numbered(2, 20))
		dial(t, addr).wantClosed()
		home := netip.MustParseAddr("127.0.0.1")
		s.SetLimits(Limits{Connections: math.MaxInt, PerIP: 0, PerIPOverrides: map[netip.Addr]int{home: 3}})
		third := dial(t, addr)
		works(third)
		dial(t, addr).wantClosed()
		works(second)
	})
}

// TestAdmission holds a connection and pauses a listener as Admit says.
func TestAdmission(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		h := &testHandler{}
		s, addr := e.start(t, h, nil)
		const pause = 150 * time.Millisecond
		var asked atomic.Int32
		s.SetLimits(Limits{Connections: math.MaxInt, PerIP: math.MaxInt, Admit: func(listener string, peer netip.Addr) (time.Duration, time.Duration) {
			if listener != "PLAINTEXT" || peer != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("asked about %s of %s", peer, listener)
			}
			switch asked.Add(1) {
			case 1:
				return 0, pause // held
			case 2:
				return pause, 0 // served, the next wait
			}
			return 0, 0
		}})
		begin := time.Now()
		dial(t, addr).wantClosed()
		if took := time.Since(begin); took < pause {
			t.Errorf("a held connection was closed after %v", took)
		}
		if n := h.nOpened.Load(); n != 0 {
			t.Errorf("%d connections were opened", n)
		}
		begin = time.Now()
		for range 2 {
			p := dial(t, addr)
			p.send(numbered(1, 20))
			p.want(numbered(1, 20))
		}
		if took := time.Since(begin); took < pause {
			t.Errorf("the next was served after %v", took)
		}
		// What is held at a stop ends with it.
		s.SetLimits(Limits{Connections: math.MaxInt, PerIP: math.MaxInt, Admit: func(string, netip.Addr) (time.Duration, time.Duration) {
			asked.Add(1)
			return 0, time.Hour
		}})
		last := dial(t, addr)
		before := asked.Load()
		waitFor(t, "the question", func() bool { return asked.Load() > before || asked.Load() >= 4 })
		s.Close()
		last.wantClosed()
	})
}

func TestListeners(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		var mu sync.Mutex
		names := map[string]int{}
		h := &testHandler{opened: func(c *Conn) {
			mu.Lock()
			defer mu.Unlock()
			names[fmt.Sprintf("%s v4=%t local=%t", c.Listener(), c.RemoteAddr().Addr().Is4(), c.LocalAddr().Addr().IsLoopback())]++
		}}
		s, first := e.start(t, h, nil)
		open := map[string]string{}
		for name, address := range map[string]string{"SIX": "[::1]:0", "ANY": ":0", "NAME": "localhost:0"} {
			a, err := s.Listen(name, address)
			if err != nil {
				t.Fatal(err)
			}
			open[name] = a.String()
		}
		_, anyPort, _ := net.SplitHostPort(open["ANY"])
		for _, addr := range []string{first, open["SIX"], open["NAME"], "127.0.0.1:" + anyPort, "[::1]:" + anyPort} {
			p := dial(t, addr)
			p.send(numbered(1, 30))
			p.want(numbered(1, 30))
		}
		mu.Lock()
		defer mu.Unlock()
		want := map[string]int{
			"PLAINTEXT v4=true local=true": 1, "SIX v4=false local=true": 1, "NAME v4=true local=true": 1,
			"ANY v4=true local=true": 1, "ANY v4=false local=true": 1,
		}
		if fmt.Sprint(names) != fmt.Sprint(want) {
			t.Errorf("opened %v, want %v", names, want)
		}
		if _, err := s.Listen("TWICE", first); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), first) {
			t.Errorf("second listener on one port: %v", err)
		}
		for _, bad := range []string{"nonsense", "host:99999", "127.0.0.1:x"} {
			if _, err := s.Listen("BAD", bad); err == nil {
				t.Errorf("listening on %q succeeded", bad)
			}
		}
	})
}

// TestDescriptorsUsedUp runs out of descriptors: accepting must rest without
// spinning and go on by itself.
func TestDescriptorsUsedUp(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		s, addr := e.start(t, &testHandler{}, nil)
		first := dial(t, addr)
		first.send(numbered(1, 20))
		first.want(numbered(1, 20))
		raw, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Close(raw) }()
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		var old unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
		low := old
		low.Cur = uint64(openDescriptors(t)) - 1
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
			t.Fatal(err)
		}
		restore := sync.OnceFunc(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
		defer restore()
		sa := &unix.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(tcp.IP.To4())}
		if err := unix.Connect(raw, sa); err != nil {
			t.Fatal(err)
		}
		turns := s.Loops()[0].Turns()
		time.Sleep(250 * time.Millisecond)
		if n := s.Loops()[0].Turns() - turns; n > 50 {
			t.Errorf("the loop made %d turns in 250 ms without descriptors", n)
		}
		first.send(numbered(2, 20)) // the others are served meanwhile
		first.want(numbered(2, 20))
		restore()
		payload := numbered(3, 20)
		if _, err := unix.Write(raw, frame(payload)); err != nil {
			t.Fatal(err)
		}
		_ = unix.SetsockoptTimeval(raw, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
		got := make([]byte, 4+len(payload))
		if n, err := unix.Read(raw, got); err != nil || n != len(got) {
			t.Fatalf("answer after the shortage: %d bytes, %v", n, err)
		}
	})
}

func openDescriptors(t testing.TB) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// raiseDescriptors makes room for want descriptors, or as many as the hard
// limit allows, and returns how many there may be.
func raiseDescriptors(t *testing.T, want uint64) uint64 {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	lim := unix.Rlimit{Cur: min(want, old.Max), Max: old.Max}
	if lim.Cur > old.Cur {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
		return lim.Cur
	}
	return old.Cur
}

// TestIdleConnections holds 10,000 connections (fewer if the hard limit on
// descriptors is too low for both ends) and checks that they cost little.
func TestIdleConnections(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		allowed := raiseDescriptors(t, 20_400)
		want := 10_000
		if testing.Short() {
			want = 2000
		}
		n := min(want, (int(allowed)-openDescriptors(t)-50)/2)
		t.Logf("%d connections", n)
		h := &testHandler{}
		s, addr := e.start(t, h, func(c *Config) { c.IdleTimeout = time.Hour })
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		before := heapInUse()
		fds := connectMany(t, tcp, n)
		defer func() {
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
		}()
		waitFor(t, "all to be open", func() bool { return h.nOpened.Load() == int64(n) })
		if per := (heapInUse() - before) / int64(n); per > 1024 {
			t.Errorf("an idle connection costs %d bytes of heap", per)
		} else {
			t.Logf("an idle connection costs %d bytes of heap", per)
		}
		// Every hundredth is served among the idle ones.
		payload := frame(numbered(5, 30))
		got := make([]byte, len(payload))
		for i := 0; i < n; i += 100 {
			if _, err := unix.Write(fds[i], payload); err != nil {
				t.Fatal(err)
			}
			if m, err := unix.Read(fds[i], got); err != nil || m != len(got) {
				t.Fatalf("connection %d: %d bytes, %v", i, m, err)
			}
		}
		turns := int64(0)
		for _, l := range s.Loops() {
			turns -= l.Turns()
		}
		time.Sleep(200 * time.Millisecond)
		for _, l := range s.Loops() {
			turns += l.Turns()
		}
		if turns > 20 {
			t.Errorf("idle loops made %d turns in 200 ms", turns)
		}
	})
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// connectMany opens n client sockets without the Go runtime's poller.
func connectMany(t testing.TB, addr *net.TCPAddr, n int) []int {
	t.Helper()
	sa := &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}
	fds := make([]int, 0, n)
	for range n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
		_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)})
		if err := unix.Connect(fd, sa); err != nil {
			t.Fatal(err)
		}
	}
	return fds
}

// TestNoLeaks opens, uses and closes 10,000 connections in every way there is.
func TestNoLeaks(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)
		h := &testHandler{request: func(c *Conn, r *Request) {
			if r.Payload()[7]%4 == 3 {
				r.Fail(errors.New("refused"))
				return
			}
			echo(r)
		}}
		s, addr := e.start(t, h, nil)
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		const each = 100
		rounds := 100
		if testing.Short() {
			rounds = 15
		}
		for round := range rounds {
			fds := connectMany(t, tcp, each)
			for i, fd := range fds {
				switch i % 5 {
				case 0, 3:
					_, _ = unix.Write(fd, frame(numbered(i, 40)))
				case 1: // half a frame
					_, _ = unix.Write(fd, frame(numbered(i, 40))[:20])
				case 2: // part of a large frame
					_, _ = unix.Write(fd, frame(numbered(i, 300_000))[:1000])
				}
				if i%2 == 0 { // a reset instead of an orderly end
					_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
				}
				_ = unix.Close(fd)
			}
			want := int64((round + 1) * each)
			waitFor(t, "the round to be over", func() bool { return h.nClosed.Load() == want })
		}
		if s.Connections() != 0 {
			t.Errorf("%d connections counted", s.Connections())
		}
		for _, l := range s.Loops() {
			onLoop(l, func() {
				if l.conns.used != 0 || l.liveRequests != 0 {
					t.Errorf("loop %d: %d connections, %d requests left", l.index, l.conns.used, l.liveRequests)
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		waitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
		if n := openDescriptors(t); n > descriptors {
			t.Errorf("%d descriptors open, %d before", n, descriptors)
		}
	})
}
