//go:build iouring

package netio

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWaitByEpoll runs the ring as on kernels before 6.15, where a wait inside
// io_uring_enter would count as iowait.
func TestWaitByEpoll(t *testing.T) {
	waitByEpoll.Store(true)
	defer waitByEpoll.Store(false)
	h := &testHandler{request: func(c *Conn, r *Request) {
		time.AfterFunc(time.Millisecond, func() { c.Loop().Post(taskFunc(func(*Loop) { echo(r) })) })
	}}
	s, addr := env{EngineUring, 2}.start(t, h, func(c *Config) { c.IdleTimeout = 500 * time.Millisecond })
	if s.Loops()[0].poll.(*uringPoller).epollFD < 0 {
		t.Fatal("the ring is not waited for by epoll")
	}
	p := dial(t, addr)
	for i, n := range []int{8, 100, 70_000, 1 << 20, 30} {
		p.send(numbered(i, n), numbered(i+1, 20))
		p.want(numbered(i, n))
		p.want(numbered(i+1, 20))
	}
	p.wantClosed() // the timer ends a sleep as well
	if err := h.closedWith(t, 1); !errors.Is(err, ErrIdle) {
		t.Errorf("closed for %v", err)
	}
}

// TestNoIowait checks that idle rings do not show as tasks that wait for a
// disk, which is what top calls iowait.
func TestNoIowait(t *testing.T) {
	h := &testHandler{}
	_, addr := env{EngineUring, 4}.start(t, h, nil)
	// The kernel's count of operations in flight is too coarse to notice a few.
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	const conns = 2000
	raiseDescriptors(t, 2*conns+200)
	for _, fd := range connectMany(t, tcp, conns) {
		defer func() { _ = unix.Close(fd) }()
	}
	waitFor(t, "all to be open", func() bool { return h.nOpened.Load() == conns })
	least := 1 << 30
	for range 100 {
		least = min(least, blockedTasks(t))
		time.Sleep(5 * time.Millisecond)
	}
	if least >= 4 {
		t.Errorf("%d tasks wait for I/O all the time", least)
	}
}

// blockedTasks is procs_blocked of /proc/stat.
func blockedTasks(t *testing.T) int {
	t.Helper()
	f, err := os.Open("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if rest, ok := strings.CutPrefix(sc.Text(), "procs_blocked "); ok {
			n := 0
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no procs_blocked in /proc/stat")
	return 0
}

// TestBuffersHeld parks more small requests than there are provided buffers:
// more must be made, and given back.
func TestBuffersHeld(t *testing.T) {
	const conns = 3 * buffersBase
	var parked [conns]*Request
	var n atomic.Int64
	h := &testHandler{request: func(_ *Conn, r *Request) { parked[n.Add(1)-1] = r }}
	s, addr := env{EngineUring, 1}.start(t, h, func(c *Config) { c.RequestMemoryBytes = 1 << 30 })
	l := s.Loops()[0]
	var peers []*peer
	for i := range conns {
		p := dial(t, addr)
		p.send(numbered(i, 40))
		waitFor(t, "the request", func() bool { return n.Load() == int64(i+1) })
		peers = append(peers, p)
	}
	onLoop(l, func() {
		if b := &l.poll.(*uringPoller).buffers; b.made < conns {
			t.Errorf("%d buffers made for %d held", b.made, conns)
		}
		for _, r := range parked {
			echo(r)
		}
	})
	for i, p := range peers {
		p.want(numbered(i, 40))
	}
	onLoop(l, func() {
		if b := &l.poll.(*uringPoller).buffers; b.made > 2*buffersBase || b.offered == 0 {
			t.Errorf("%d buffers made, %d offered after all were released", b.made, b.offered)
		}
	})
}

// TestFallbackAtLoop fails a ring after the probe went well.
func TestFallbackAtLoop(t *testing.T) {
	if err := uringUsable(); err != nil {
		t.Fatal(err)
	}
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	low := lim
	low.Cur = uint64(openDescriptors(t)) + 1 // a ring fits, its eventfd does not
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	_, err := NewServer(Config{Engine: EngineUring, Loops: 2, Logger: quietLogger}, &testHandler{})
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &lim)
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("two loops without descriptors: %v", err)
	}
}
