package netio

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestChaos mixes what the other tests look at one by one, under small bounds:
// frames of all sizes, answers in any order from loops, timers and other
// goroutines, barriers, mutes, file ranges hot and cold, slow readers, peers
// that vanish, and connections closed by the server. Whatever arrives must be
// the right bytes in the right order, nothing may stall, nothing may be left.
func TestChaos(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		rng := seeded(t)
		f, content := testFile(t, 1<<20)
		var owner countingReleaser
		var ranges atomic.Int64
		answer := func(r *Request) {
			p := r.Payload()
			out := r.Out()
			out.Buf = append(out.Buf, p[:min(len(p), 4096)]...)
			if p[8]%5 == 0 {
				n := int64(binary.BigEndian.Uint16(p[9:])) * 8
				ranges.Add(1)
				out.Splice(FileRange{FD: int(f.Fd()), Position: n, Length: n, Owner: &owner})
				out.Buf = append(out.Buf, p[:8]...)
			}
			r.Done()
		}
		h := &testHandler{pipelined: func(p []byte) bool { return p[8]%3 != 0 }}
		h.request = func(c *Conn, r *Request) {
			switch b := r.Payload()[8]; {
			case b%7 == 1:
				c.Mute(time.Duration(b%4) * time.Millisecond)
				answer(r)
			case b%7 == 2:
				time.AfterFunc(time.Duration(b)*10*time.Microsecond, func() {
					c.Loop().Post(taskFunc(func(*Loop) { answer(r) }))
				})
			case b%7 == 3:
				timer := NewTimer(taskFunc(func(*Loop) { answer(r) }))
				c.Loop().AddTimer(timer, c.Loop().Now()+Instant(time.Duration(b)*5*time.Microsecond))
			default:
				answer(r)
			}
		}
		s, addr := e.start(t, h, func(c *Config) {
			c.RequestMemoryBytes = 400_000
			c.OutputBytesMax = 100_000
			c.IdleTimeout = time.Minute
		})
		var wg sync.WaitGroup
		const peers = 12
		for i := range peers {
			source := rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
			wg.Go(func() { chaosPeer(t, addr, source, content) })
		}
		evictor := time.NewTicker(20 * time.Millisecond)
		defer evictor.Stop()
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-evictor.C:
				evict(t, f)
			}
		}
		waitFor(t, "the connections to end", func() bool { return s.Connections() == 0 })
		// The handler still ends what it holds of connections that are gone.
		waitFor(t, "requests and slots to be given back", func() bool {
			left := 0
			for _, l := range s.Loops() {
				onLoop(l, func() { left += l.liveRequests + l.conns.used })
			}
			return left == 0
		})
		if n := s.RequestMemory(); n != 0 {
			t.Errorf("%d bytes of request memory left", n)
		}
		if owner.n.Load() != ranges.Load() {
			t.Errorf("%d of %d ranges released", owner.n.Load(), ranges.Load())
		}
	})
}

// chaosPeer runs a few connections, one after the other.
func chaosPeer(t *testing.T, addr string, rng *rand.Rand, content []byte) {
	for range 3 {
		p := dial(t, addr)
		n := 20 + rng.IntN(60)
		payloads := make([][]byte, n)
		for i := range payloads {
			payloads[i] = numbered(i, 12+rng.IntN(1<<rng.IntN(18)))
			payloads[i][8] = byte(rng.IntN(256))
		}
		leaveAfter := n
		if rng.IntN(3) == 0 {
			leaveAfter = rng.IntN(n)
		}
		writer := make(chan struct{})
		go func() {
			defer close(writer)
			for _, payload := range payloads {
				if _, err := p.Write(frame(payload)); err != nil {
					return
				}
			}
		}()
		for i := range leaveAfter {
			if i%16 == 0 {
				time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
			}
			got, err := p.tryReceive()
			if err != nil {
				t.Errorf("reply %d of %d: %v", i, n, err)
				break
			}
			if want := chaosReply(payloads[i], content); !bytes.Equal(got, want) {
				t.Errorf("reply %d of %d: %d bytes, want %d", i, n, len(got), len(want))
				break
			}
		}
		_ = p.Close()
		<-writer
	}
}

func chaosReply(p, content []byte) []byte {
	want := bytes.Clone(p[:min(len(p), 4096)])
	if p[8]%5 == 0 {
		n := int(binary.BigEndian.Uint16(p[9:])) * 8
		want = append(want, content[n:2*n]...)
		want = append(want, p[:8]...)
	}
	return want
}
