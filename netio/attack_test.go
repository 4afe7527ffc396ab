package netio

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// TestAnnouncedFrames has many peers announce large frames and send hardly
// anything of them: an honest one must get its share of request memory.
func TestAnnouncedFrames(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		const limit, liars = 2 * frameStepBytes, 40
		h := &testHandler{}
		s, addr := e.start(t, h, func(c *Config) { c.RequestMemoryBytes = limit })
		for range liars {
			p := dial(t, addr)
			head := binary.BigEndian.AppendUint32(nil, 90<<20)
			p.write(append(head, 0, 3, 0, 1, 0))
		}
		waitFor(t, "memory to be used up", func() bool { return s.RequestMemory() >= limit })
		p := dial(t, addr)
		start := time.Now()
		small, large := numbered(1, 100), numbered(2, limit/2)
		p.write(frame(small))
		p.want(small)
		go func() { _, _ = p.Write(frame(large)) }()
		p.want(large)
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("answered after %v", d)
		}
		var pe *ProtocolError
		if err := h.closedWith(t, 1); !errors.As(err, &pe) || pe.API != 3 || pe.Version != 1 {
			t.Errorf("a liar was closed for %v", err)
		}
		if most := s.RequestMemory(); most > limit+2*frameStepBytes {
			t.Errorf("request memory stands at %d", most)
		}
	})
}

// TestStalledFrames has peers really send as much as there is memory, then
// stop in the middle of their frames.
func TestStalledFrames(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		const limit, peers = 2 * frameStepBytes, 60
		s, addr := e.start(t, &testHandler{}, func(c *Config) { c.RequestMemoryBytes = limit })
		part := binary.BigEndian.AppendUint32(make([]byte, 0, 3*tightStepBytes), 90<<20)
		part = append(part, make([]byte, 2*tightStepBytes)...)
		for range peers {
			p := dial(t, addr)
			go func() { _, _ = p.Write(part) }()
		}
		waitFor(t, "memory to be used up", func() bool { return s.RequestMemory() >= limit })
		p := dial(t, addr)
		for i := range 2 {
			large := numbered(i, limit/2)
			start := time.Now()
			go func() { _, _ = p.Write(frame(large)) }()
			p.want(large)
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("answered after %v", d)
			}
		}
	})
}

// TestLargeFramesTogether has frames in flight that need more memory than
// there is, all of them from honest peers: none may be closed or wait for ever.
func TestLargeFramesTogether(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		const limit, frameBytes, conns = 2 * frameStepBytes, 2*frameStepBytes + 12345, 8
		var most atomic.Int64
		var s *Server
		ready := make(chan struct{})
		h := &testHandler{}
		h.request = func(_ *Conn, r *Request) {
			<-ready
			most.Store(max(most.Load(), s.RequestMemory()))
			echo(r)
		}
		var addr string
		s, addr = e.start(t, h, func(c *Config) { c.RequestMemoryBytes = limit })
		close(ready)
		done := make(chan []byte, conns)
		for i := range conns {
			p := dial(t, addr)
			go func() { _, _ = p.Write(frame(numbered(i, frameBytes))) }()
			go func() { done <- p.receive() }()
		}
		for range conns {
			if b := <-done; len(b) != frameBytes {
				t.Fatalf("an answer of %d bytes, want %d", len(b), frameBytes)
			}
		}
		if n := h.nClosed.Load(); n > 0 {
			t.Errorf("%d connections were closed", n)
		}
		if bound := int64(limit + frameBytes + e.loops*frameStepBytes + conns*4*receiveBytesMax); most.Load() > bound {
			t.Errorf("request memory reached %d, want at most %d", most.Load(), bound)
		}
		waitFor(t, "memory to be released", func() bool { return s.RequestMemory() == 0 })
	})
}

// TestUnreadRepliesAreFew floods requests without reading an answer: neither
// large answers nor very many small ones may pile up.
func TestUnreadRepliesAreFew(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		for _, replyBytes := range []int{20, 100_000} {
			var unsent, count atomic.Int64
			h := &testHandler{
				pipelined: func(p []byte) bool { return replyBytes == 20 },
				request: func(c *Conn, r *Request) {
					r.Out().Buf = append(r.Out().Buf, make([]byte, replyBytes)...)
					r.Done()
					unsent.Store(max(unsent.Load(), c.unsent))
					n := int64(0)
					for r := c.first; r != nil; r = r.next {
						n++
					}
					count.Store(max(count.Load(), n))
				},
			}
			_, addr := e.start(t, h, func(c *Config) { c.SendBufferBytes = 32 << 10 })
			p := dial(t, addr)
			go func() {
				flood := make([]byte, 0, 100*24)
				for range 100 {
					flood = append(flood, frame(numbered(1, 20))...)
				}
				for range 20_000 {
					if _, err := p.Write(flood); err != nil {
						return
					}
				}
			}()
			waitFor(t, "the flood to stop", func() bool {
				before := h.nRequests.Load()
				time.Sleep(50 * time.Millisecond)
				return before > 0 && h.nRequests.Load() == before
			})
			if bound := int64(unsentBytesMax + replyBytes + 2*requestBytes); unsent.Load() > bound {
				t.Errorf("replies of %d: %d bytes unsent, want at most %d", replyBytes, unsent.Load(), bound)
			}
			if bound := int64(unansweredMax + backlogMax + receiveBytesMax/24); count.Load() > bound {
				t.Errorf("replies of %d: %d requests on the connection, want at most %d", replyBytes, count.Load(), bound)
			}
		}
	})
}

// TestGarbageBehindRequests sends requests, answered late, and garbage behind
// them: the answers come before the end, as from Kafka, which reads one request
// at a time.
func TestGarbageBehindRequests(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		h := &testHandler{pipelined: func([]byte) bool { return false }}
		h.request = func(_ *Conn, r *Request) {
			time.AfterFunc(20*time.Millisecond, func() { r.loop.Post(taskFunc(func(*Loop) { echo(r) })) })
		}
		_, addr := e.start(t, h, nil)
		p := dial(t, addr)
		var stream []byte
		for i := range 3 {
			stream = append(stream, frame(numbered(i, 100))...)
		}
		p.write(append(stream, 0xff, 0xff, 0xff, 0xff, 1, 2, 3))
		for i := range 3 {
			p.want(numbered(i, 100))
		}
		var pe *ProtocolError
		if err := h.closedWith(t, 1); !errors.As(err, &pe) {
			t.Errorf("closed for %v, want a protocol error", err)
		}
	})
}
