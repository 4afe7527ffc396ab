package netio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// cutterLoop is a loop without a poller, enough for feed and filled.
func cutterLoop(h Handler, maxFrame int32) (*Loop, *Conn) {
	s := &Server{handler: h, config: Config{MaxFrameBytes: maxFrame, OutputBytesMax: 1 << 20, Logger: quietLogger}}
	s.budget.limit = 1 << 40 // counts
	l := &Loop{server: s}
	c := &Conn{loop: l, listener: &listener{name: "fuzz"}}
	return l, c
}

// referenceCut is the cutter as one would write it for a stream in memory.
func referenceCut(stream []byte, maxFrame int32) (frames [][]byte, bad bool) {
	for len(stream) >= 4 {
		n := int32(binary.BigEndian.Uint32(stream))
		if n <= 0 || n > maxFrame {
			return frames, true
		}
		if int(n) > len(stream)-4 {
			return frames, false
		}
		frames = append(frames, stream[4:4+n])
		stream = stream[4+n:]
	}
	return frames, false
}

// deliver hands stream to the cutter in pieces whose sizes come from splits,
// as the pollers do: into a shared chunk, or into the frame that was begun.
func deliver(l *Loop, c *Conn, stream, splits []byte) {
	for i := 0; len(stream) > 0 && c.badInput == nil; i++ {
		n := len(stream)
		direct := false
		if len(splits) > 0 {
			b := splits[i%len(splits)]
			direct = b&1 == 1
			n = min(n, 1+int(b>>1)*int(b>>1))
		}
		if direct && c.frame != nil {
			n = copy(c.rest(), stream[:n])
			l.filled(c, n)
		} else {
			ch := l.receiveChunk(smallReceiveBytes)
			n = copy(ch.mem[ch.pos:ch.pos+smallReceiveBytes], stream[:n])
			l.feedChunk(c, ch, n)
		}
		stream = stream[n:]
	}
}

func FuzzFrameCutter(f *testing.F) {
	seed := func(splits []byte, payloads ...int) {
		var stream []byte
		for i, n := range payloads {
			stream = append(stream, frame(numbered(i, n))...)
		}
		f.Add(stream, splits)
	}
	seed(nil, 8)
	seed([]byte{0}, 8, 9, 10)
	seed([]byte{3, 40}, 100, 2000, 30)
	seed([]byte{255, 1, 7}, 60_000, 9, 9)
	f.Add([]byte{0, 0, 0, 0}, []byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1}, []byte{2})
	f.Add([]byte{0, 1, 0, 1, 5}, []byte{9})
	f.Add([]byte{0, 0, 0, 1, 7, 0, 0}, []byte{})
	f.Fuzz(func(t *testing.T, stream, splits []byte) {
		if len(stream) > 1<<17 {
			return
		}
		const maxFrame = 1 << 16
		want, bad := referenceCut(stream, maxFrame)
		var got [][]byte
		var held []*Request
		h := &testHandler{request: func(_ *Conn, r *Request) {
			got = append(got, bytes.Clone(r.Payload()))
			held = append(held, r)
			if len(held) > 3 { // out of order, some kept over several receives
				last := held[1]
				held = append(held[:1], held[2:]...)
				last.NoReply()
			}
		}}
		l, c := cutterLoop(h, maxFrame)
		l.out.init()
		deliver(l, c, stream, splits)
		if len(got) < min(len(want), unansweredMax/2) || len(got) > len(want) {
			t.Fatalf("%d frames, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("frame %d differs", i)
			}
		}
		var pe *ProtocolError
		if isBad := errors.As(c.badInput, &pe); isBad != bad {
			t.Fatalf("closed for %v, want a bad length: %t", c.badInput, bad)
		}
		for _, r := range held {
			r.NoReply()
		}
		for r := c.next; r != nil; {
			next := r.next
			l.recycle(r)
			r = next
		}
		for r := c.first; r != nil && r.state == requestDone; {
			next := r.next
			l.recycle(r)
			r = next
		}
		if c.frame != nil {
			l.recycle(c.frame)
		}
		if l.liveRequests != 0 || c.held != 0 || l.server.budget.used.Load() != 0 {
			t.Fatalf("left over: %d requests, %d bytes held, %d charged", l.liveRequests, c.held, l.server.budget.used.Load())
		}
		l.freeMemory()
	})
}

// BenchmarkFrameCut measures the cutter alone: small frames received whole.
func BenchmarkFrameCut(b *testing.B) {
	l, c := cutterLoop(&testHandler{request: func(_ *Conn, r *Request) { r.NoReply() }}, 1<<20)
	var stream []byte
	const frames = 64
	for i := range frames {
		stream = append(stream, frame(numbered(i, 200))...)
	}
	b.ReportAllocs()
	for b.Loop() {
		ch := l.receiveChunk(smallReceiveBytes)
		l.feedChunk(c, ch, copy(ch.mem[ch.pos:], stream))
		c.isDirty, l.dirty.head = false, nil
		l.popSent(c)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*frames), "ns/frame")
}

func TestTimers(t *testing.T) {
	rng := seeded(t)
	l := &Loop{}
	var fired []Instant
	timers := make([]*Timer, 500)
	for i := range timers {
		timers[i] = NewTimer(taskFunc(func(*Loop) { fired = append(fired, timers[i].At()) }))
		l.AddTimer(timers[i], Instant(rng.IntN(1000)))
	}
	want := 0
	for i, tm := range timers {
		switch i % 3 {
		case 0:
			if !l.StopTimer(tm) || tm.Active() || l.StopTimer(tm) {
				t.Fatal("stopping a timer")
			}
		case 1:
			l.AddTimer(tm, Instant(rng.IntN(1000)))
			want++
		default:
			want++
		}
	}
	for l.now = 0; l.now <= 1000; l.now += 10 {
		l.runTimers()
		if n := len(fired); n > 0 && fired[n-1] > l.now {
			t.Fatalf("fired %d at %d", fired[n-1], l.now)
		}
	}
	for i := 1; i < len(fired); i++ {
		if fired[i] < fired[i-1] {
			t.Fatalf("fired %d after %d", fired[i], fired[i-1])
		}
	}
	if len(fired) != want {
		t.Fatalf("%d timers fired, want %d", len(fired), want)
	}
}

func TestArena(t *testing.T) {
	rng := seeded(t)
	var a arena
	var held [][]byte
	for range 5000 {
		if len(held) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(held))
			p := held[i]
			if p[0] != p[len(p)-1] {
				t.Fatal("buffers overlap")
			}
			a.put(p)
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
			continue
		}
		n := 1 + rng.IntN(1<<rng.IntN(21))
		p := a.get(n)
		if len(p) < n {
			t.Fatalf("%d bytes, want %d", len(p), n)
		}
		p[0], p[len(p)-1] = byte(n), byte(n)
		held = append(held, p)
	}
	for _, p := range held {
		a.put(p)
	}
	if a.kept > keptBytesMax {
		t.Errorf("%d bytes kept", a.kept)
	}
	a.trim() // learns what lies idle
	a.trim()
	if a.kept != 0 {
		t.Errorf("%d idle bytes kept", a.kept)
	}
	a.close()
}
