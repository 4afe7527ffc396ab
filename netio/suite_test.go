package netio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestEcho(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		h := &testHandler{}
		_, addr := e.start(t, h, nil)
		p := dial(t, addr)
		for i, n := range []int{8, 9, 100, 511, 512, 513, 4096, 65530, 65536, 65537, 70000, 262144, 1 << 20, 5 << 20, 10, 1 << 20, 20} {
			payload := numbered(i, n)
			p.send(payload)
			p.want(payload)
		}
		if h.nEndTurn.Load() == 0 {
			t.Error("EndTurn was never called")
		}
	})
}

// TestBusyPoll spins before it sleeps; the sleep and the spin must both end.
func TestBusyPoll(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		h := &testHandler{request: func(c *Conn, r *Request) {
			if binary.BigEndian.Uint64(r.Payload())%2 == 0 {
				echo(r)
				return
			}
			time.AfterFunc(time.Millisecond, func() { c.Loop().Post(taskFunc(func(*Loop) { echo(r) })) })
		}}
		_, addr := e.start(t, h, func(c *Config) { c.BusyPoll = 200 * time.Microsecond })
		p := dial(t, addr)
		for i := range 100 {
			p.send(numbered(i, 50))
			p.want(numbered(i, 50))
		}
	})
}

func TestManyConnections(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		_, addr := e.start(t, &testHandler{}, nil)
		var wg sync.WaitGroup
		for i := range 16 {
			p := dial(t, addr)
			wg.Go(func() {
				for j := range 60 {
					payload := numbered(i*1000+j, 1+(j*j*97)%9000)
					if _, err := p.Write(frame(payload)); err != nil {
						t.Error(err)
						return
					}
					got, err := p.tryReceive()
					if err != nil || !bytes.Equal(got, payload) {
						t.Errorf("connection %d, reply %d: %d bytes, %v", i, j, len(got), err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestOrderUnderRandomDelay finishes requests from other goroutines in random
// order; the replies must come in order of arrival all the same.
func TestOrderUnderRandomDelay(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		rng := seeded(t)
		delays := make([]time.Duration, 400)
		for i := range delays {
			delays[i] = time.Duration(rng.IntN(3000)) * time.Microsecond
		}
		h := &testHandler{request: func(c *Conn, r *Request) {
			i := binary.BigEndian.Uint64(r.Payload())
			if i%7 == 0 {
				echo(r)
				return
			}
			time.AfterFunc(delays[i%uint64(len(delays))], func() {
				c.Loop().Post(taskFunc(func(*Loop) { echo(r) }))
			})
		}}
		_, addr := e.start(t, h, nil)
		var wg sync.WaitGroup
		for range 4 {
			p := dial(t, addr)
			sizes := make([]int, len(delays))
			for i := range sizes {
				sizes[i] = 8 + rng.IntN(200)
				if rng.IntN(20) == 0 {
					sizes[i] = 8 + rng.IntN(100_000)
				}
			}
			wg.Go(func() {
				for i, n := range sizes {
					if _, err := p.Write(frame(numbered(i, n))); err != nil {
						t.Error(err)
						return
					}
				}
			})
			wg.Go(func() {
				for i, n := range sizes {
					if got, err := p.tryReceive(); err != nil || !bytes.Equal(got, numbered(i, n)) {
						t.Errorf("reply %d wrong: %v", i, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestBarrier checks that a request that is not pipelined starts alone, and
// that nothing starts while it is unanswered.
func TestBarrier(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		var inFlight, most atomic.Int64
		var violations atomic.Int64
		exclusive := func(p []byte) bool { return binary.BigEndian.Uint64(p)%5 == 3 }
		var exclusiveRunning atomic.Bool
		h := &testHandler{
			pipelined: func(p []byte) bool { return !exclusive(p) },
			request: func(c *Conn, r *Request) {
				n := inFlight.Add(1)
				most.Store(max(most.Load(), n))
				alone := exclusive(r.Payload())
				if alone && n != 1 || exclusiveRunning.Load() {
					violations.Add(1)
				}
				exclusiveRunning.Store(alone)
				time.AfterFunc(200*time.Microsecond, func() {
					c.Loop().Post(taskFunc(func(*Loop) {
						if alone {
							exclusiveRunning.Store(false)
						}
						inFlight.Add(-1)
						echo(r)
					}))
				})
			},
		}
		_, addr := e.start(t, h, nil)
		p := dial(t, addr)
		const n = 200
		go func() {
			for i := range n {
				_, _ = p.Write(frame(numbered(i, 32)))
			}
		}()
		for i := range n {
			p.want(numbered(i, 32))
		}
		if violations.Load() != 0 {
			t.Errorf("%d requests started beside an exclusive one", violations.Load())
		}
		if most.Load() < 2 {
			t.Error("no request was ever pipelined")
		}
	})
}

// TestSplitEverywhere delivers two frames cut at every byte.
func TestSplitEverywhere(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		s, addr := e.start(t, &testHandler{}, nil)
		a, b := numbered(1, 13), numbered(2, 9)
		stream := append(frame(a), frame(b)...)
		for cut := 1; cut < len(stream); cut++ {
			p := dial(t, addr)
			before := received(s)
			p.write(stream[:cut])
			waitFor(t, "the first part", func() bool { return received(s) == before+int64(cut) })
			p.write(stream[cut:])
			p.want(a)
			p.want(b)
			_ = p.Close()
		}
		p := dial(t, addr)
		for i := range stream {
			before := received(s)
			p.write(stream[i : i+1])
			waitFor(t, "one byte", func() bool { return received(s) == before+1 })
		}
		p.want(a)
		p.want(b)
	})
}

func received(s *Server) (n int64) {
	for _, l := range s.Loops() {
		n += l.BytesReceived()
	}
	return n
}

func TestBadLengths(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		for _, size := range []uint32{0, 0xffffffff, 0x80000000, 100_001, 0x7fffffff} {
			h := &testHandler{}
			_, addr := e.start(t, h, func(c *Config) { c.MaxFrameBytes = 100_000 })
			p := dial(t, addr)
			good := numbered(7, 50)
			p.write(binary.BigEndian.AppendUint32(frame(good), size))
			p.want(good) // what came before is answered
			p.wantClosed()
			var pe *ProtocolError
			if err := h.closedWith(t, 1); !errors.As(err, &pe) {
				t.Errorf("length %#x: closed for %v, want a ProtocolError", size, err)
			}
			// The largest frame allowed still passes.
			p = dial(t, addr)
			p.send(numbered(1, 100_000))
			p.want(numbered(1, 100_000))
		}
	})
}

func TestHalfClose(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		h := &testHandler{request: func(c *Conn, r *Request) {
			time.AfterFunc(20*time.Millisecond, func() { c.Loop().Post(taskFunc(func(*Loop) { echo(r) })) })
		}}
		_, addr := e.start(t, h, nil)
		p := dial(t, addr)
		p.send(numbered(1, 100), numbered(2, 200_000))
		p.write([]byte{0, 0, 1}) // half a frame's head is dropped
		if err := p.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		p.want(numbered(1, 100))
		p.want(numbered(2, 200_000))
		p.wantClosed()
		if err := h.closedWith(t, 1); !errors.Is(err, ErrPeerClosed) {
			t.Errorf("closed for %v", err)
		}
	})
}

// TestSlowReader floods a peer that does not read: the server must stop
// reading instead of piling up replies, and deliver all of them later.
func TestSlowReader(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		const replyBytes, outputMax = 100_000, 1 << 20
		var owed atomic.Int64
		h := &testHandler{request: func(c *Conn, r *Request) {
			r.Out().Buf = append(r.Out().Buf, make([]byte, replyBytes)...)
			binary.BigEndian.PutUint64(r.Out().Buf, binary.BigEndian.Uint64(r.Payload()))
			r.Done()
			owed.Store(max(owed.Load(), c.owed))
		}}
		_, addr := e.start(t, h, func(c *Config) { c.OutputBytesMax = outputMax })
		p := dial(t, addr)
		const n = 2000
		sent := make(chan error, 1)
		go func() {
			for i := range n {
				if _, err := p.Write(frame(numbered(i, 2000))); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		waitFor(t, "the flood to stop", func() bool {
			before := h.nRequests.Load()
			time.Sleep(50 * time.Millisecond)
			return before > 0 && h.nRequests.Load() == before
		})
		if got := h.nRequests.Load(); got == n {
			t.Fatal("every request was read though no reply was taken")
		}
		for i := range n {
			b := p.receive()
			if len(b) != replyBytes || binary.BigEndian.Uint64(b) != uint64(i) {
				t.Fatalf("reply %d: %d bytes, number %d", i, len(b), binary.BigEndian.Uint64(b))
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		// One receive's worth of requests may be answered beyond the bound.
		if limit := int64(outputMax + (4*receiveBytesMax/2000+backlogMax)*replyBytes); owed.Load() > limit {
			t.Errorf("%d bytes of replies were owed at once, want at most %d", owed.Load(), limit)
		}
	})
}

func TestSlowWriter(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		_, addr := e.start(t, &testHandler{}, func(c *Config) { c.IdleTimeout = 500 * time.Millisecond })
		p := dial(t, addr)
		payload := numbered(3, 400_000)
		stream := frame(payload)
		// Slower than the idle timeout in total, never silent for that long.
		for len(stream) > 0 {
			n := min(len(stream), 10_000)
			p.write(stream[:n])
			stream = stream[n:]
			time.Sleep(20 * time.Millisecond)
		}
		p.want(payload)
	})
}

func TestRequestMemory(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		const limit, frameBytes, conns, each = 1 << 20, 300_000, 6, 5
		var mu sync.Mutex
		var parked []*Request
		var most atomic.Int64
		var s *Server
		h := &testHandler{}
		h.request = func(_ *Conn, r *Request) {
			mu.Lock()
			parked = append(parked, r)
			most.Store(max(most.Load(), s.RequestMemory()))
			mu.Unlock()
		}
		var addr string
		ready := make(chan struct{})
		hh := h.request
		h.request = func(c *Conn, r *Request) { <-ready; hh(c, r) }
		s, addr = e.start(t, h, func(c *Config) { c.RequestMemoryBytes = limit })
		close(ready)
		peers := make([]*peer, conns)
		for i := range peers {
			peers[i] = dial(t, addr)
			go func() {
				for j := range each {
					_, _ = peers[i].Write(frame(numbered(j, frameBytes)))
				}
			}()
		}
		answered := 0
		for answered < conns*each {
			// Let as much in as will come, then answer all of it.
			waitFor(t, "requests", func() bool { mu.Lock(); defer mu.Unlock(); return len(parked) > 0 })
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			batch := parked
			parked = nil
			mu.Unlock()
			answered += len(batch)
			for _, r := range batch {
				r.loop.Post(taskFunc(func(*Loop) { echo(r) }))
			}
		}
		for _, p := range peers {
			for j := range each {
				p.want(numbered(j, frameBytes))
			}
		}
		if bound := int64(limit + e.loops*2*frameBytes); most.Load() > bound {
			t.Errorf("request memory reached %d, want at most %d", most.Load(), bound)
		}
		waitFor(t, "memory to be released", func() bool { return s.RequestMemory() == 0 })
		// A frame larger than the whole bound passes when nothing else is held.
		p := dial(t, addr)
		big := numbered(9, 3*limit)
		go func() { _, _ = p.Write(frame(big)) }()
		waitFor(t, "the large request", func() bool { mu.Lock(); defer mu.Unlock(); return len(parked) == 1 })
		parked[0].loop.Post(taskFunc(func(*Loop) { echo(parked[0]) }))
		p.want(big)
	})
}

func TestIdleTimeout(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		release := make(chan *Request, 1)
		h := &testHandler{request: func(_ *Conn, r *Request) {
			if len(r.Payload()) == 99 {
				release <- r
				return
			}
			echo(r)
		}}
		_, addr := e.start(t, h, func(c *Config) { c.IdleTimeout = 500 * time.Millisecond })
		idle, busy, parked := dial(t, addr), dial(t, addr), dial(t, addr)
		parked.send(numbered(5, 99))
		start := time.Now()
		for time.Since(start) < 1200*time.Millisecond {
			busy.send(numbered(1, 10))
			busy.want(numbered(1, 10))
			time.Sleep(20 * time.Millisecond)
		}
		idle.wantClosed()
		if err := h.closedWith(t, 1); !errors.Is(err, ErrIdle) {
			t.Errorf("closed for %v", err)
		}
		r := <-release
		r.loop.Post(taskFunc(func(*Loop) { echo(r) }))
		parked.want(numbered(5, 99))
	})
}

func TestNoReplyAndFail(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		bad := errors.New("bad request")
		h := &testHandler{request: func(c *Conn, r *Request) {
			switch i := binary.BigEndian.Uint64(r.Payload()); {
			case i == 90:
				time.AfterFunc(5*time.Millisecond, func() { c.Loop().Post(taskFunc(func(*Loop) { r.Fail(bad) })) })
			case i%3 == 1:
				r.NoReply()
			case i%3 == 2:
				time.AfterFunc(time.Millisecond, func() { c.Loop().Post(taskFunc(func(*Loop) { echo(r) })) })
			default:
				echo(r)
			}
		}}
		_, addr := e.start(t, h, nil)
		p := dial(t, addr)
		for i := range 100 {
			p.send(numbered(i, 20))
		}
		for i := range 90 {
			if i%3 != 1 {
				p.want(numbered(i, 20))
			}
		}
		p.wantClosed()
		if err := h.closedWith(t, 1); !errors.Is(err, bad) {
			t.Errorf("closed for %v", err)
		}
	})
}

func TestMute(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		const pause = 150 * time.Millisecond
		h := &testHandler{request: func(c *Conn, r *Request) {
			if len(r.Payload()) == 33 {
				c.Mute(pause)
			}
			echo(r)
		}}
		_, addr := e.start(t, h, nil)
		p := dial(t, addr)
		start := time.Now()
		p.send(numbered(1, 33), numbered(2, 34))
		p.want(numbered(1, 33))
		if d := time.Since(start); d > pause {
			t.Errorf("the reply that muted took %v", d)
		}
		p.want(numbered(2, 34))
		if d := time.Since(start); d < pause {
			t.Errorf("muted for %v only, want %v", d, pause)
		}
	})
}

func TestConnClose(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		why := errors.New("enough")
		h := &testHandler{}
		h.request = func(c *Conn, r *Request) {
			last := binary.BigEndian.Uint64(r.Payload()) == 2
			echo(r)
			if last {
				c.Close(why)
			}
		}
		_, addr := e.start(t, h, nil)
		p := dial(t, addr)
		p.send(numbered(1, 10), numbered(2, 10), numbered(3, 10))
		p.want(numbered(1, 10))
		p.want(numbered(2, 10))
		p.wantClosed()
		if err := h.closedWith(t, 1); !errors.Is(err, why) {
			t.Errorf("closed for %v", err)
		}
	})
}

// TestShutdown has requests in flight: those that are answered in time arrive,
// the parked ones are answered by Drain, and nothing new is accepted.
func TestShutdown(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		type state struct{ parked []*Request }
		h := &testHandler{}
		h.request = func(c *Conn, r *Request) {
			if binary.BigEndian.Uint64(r.Payload())%2 == 0 {
				time.AfterFunc(30*time.Millisecond, func() { c.Loop().Post(taskFunc(func(*Loop) { echo(r) })) })
				return
			}
			if c.Loop().State == nil {
				c.Loop().State = &state{}
			}
			s := c.Loop().State.(*state)
			s.parked = append(s.parked, r)
		}
		h.drain = func(l *Loop) {
			if s, ok := l.State.(*state); ok {
				for _, r := range s.parked {
					echo(r)
				}
			}
		}
		s, addr := e.start(t, h, nil)
		var peers []*peer
		for i := range 8 {
			p := dial(t, addr)
			p.send(numbered(2*i, 1000), numbered(2*i+1, 1000))
			peers = append(peers, p)
		}
		waitFor(t, "the requests", func() bool { return h.nRequests.Load() == 16 })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		for i, p := range peers {
			p.want(numbered(2*i, 1000))
			p.want(numbered(2*i+1, 1000))
			p.wantClosed()
		}
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			_ = c.Close()
			t.Error("accepted a connection after shutdown")
		}
		if h.nClosed.Load() != 8 {
			t.Errorf("%d connections closed, want 8", h.nClosed.Load())
		}
	})
}

// TestShutdownCutOff has requests that are never answered.
func TestShutdownCutOff(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		var dead atomic.Int64
		var held []*Request
		var mu sync.Mutex
		h := &testHandler{request: func(_ *Conn, r *Request) { mu.Lock(); held = append(held, r); mu.Unlock() }}
		s, addr := e.start(t, h, nil)
		p := dial(t, addr)
		p.send(numbered(1, 10), numbered(2, 100_000))
		waitFor(t, "the requests", func() bool { return h.nRequests.Load() == 2 })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("shutdown: %v", err)
		}
		if _, err := io.ReadAll(p); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Logf("client: %v", err)
		}
		for _, r := range held {
			if !r.Alive() {
				dead.Add(1)
			}
			if r.Payload()[7] == 0 { // still readable
				t.Error("payload lost")
			}
		}
		if dead.Load() != 2 {
			t.Errorf("%d requests dead, want 2", dead.Load())
		}
	})
}
