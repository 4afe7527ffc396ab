package netio

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// timings records what an Observer hears.
type timings struct {
	mu   sync.Mutex
	seen []Timing
	apis []int16
}

func (o *timings) Answered(_ *Loop, r *Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen, o.apis = append(o.seen, r.Timing()), append(o.apis, r.API())
}

func (o *timings) wait(t *testing.T, n int) []Timing {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d answered requests", n), func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.seen) >= n
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]Timing(nil), o.seen...)
}

func statsOf(l *Loop) (s LoopStats) {
	onLoop(l, func() { s = l.Stats() })
	return s
}

// TestTiming parks the first of two requests: the second is queued for as long.
func TestTiming(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		const parked = 20 * time.Millisecond
		o := &timings{}
		h := &testHandler{pipelined: func([]byte) bool { return false }}
		h.request = func(c *Conn, r *Request) {
			if r.Payload()[7] != 1 {
				echo(r)
				return
			}
			r.Park()
			c.Loop().AddTimer(NewTimer(taskFunc(func(*Loop) {
				r.Unpark()
				echo(r)
			})), c.Loop().Now()+Instant(parked))
		}
		s, addr := e.start(t, h, func(c *Config) { c.Observer, c.Loops = o, 1 })
		p := dial(t, addr)
		p.send(numbered(1, 20), numbered(2, 20))
		p.want(numbered(1, 20))
		p.want(numbered(2, 20))
		seen := o.wait(t, 2)
		first, second := seen[0], seen[1]
		if first.Waited < parked || first.Total < first.Waited || first.Queued != 0 {
			t.Errorf("the parked request took %+v", first)
		}
		if second.Queued < parked || second.Waited != 0 || second.Total < second.Queued {
			t.Errorf("the one behind it took %+v", second)
		}
		if st := statsOf(s.loops[0]); st.Waiting != 0 || st.Unanswered != 0 || st.Unsent != 0 {
			t.Errorf("nothing is under way, the loop says %+v", st)
		}
	})
}

// TestLoopStats counts bytes, connections and where requests are.
func TestLoopStats(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		held := make(chan *Request, 1)
		h := &testHandler{pipelined: func([]byte) bool { return false }}
		h.request = func(_ *Conn, r *Request) { held <- r }
		s, addr := e.start(t, h, func(c *Config) { c.Loops, c.MaxConnectionsPerIP = 1, 1 })
		l := s.loops[0]
		p := dial(t, addr)
		p.send(numbered(1, 20), numbered(2, 20), numbered(3, 20))
		r := <-held
		waitFor(t, "two requests behind the first", func() bool { return statsOf(l).Waiting == 2 })
		dial(t, addr).wantClosed()
		st := statsOf(l)
		if st.Unanswered != 1 || st.Connections != 1 || st.BytesReceived != 3*24 {
			t.Errorf("one of three requests is answered late, the loop says %+v", st)
		}
		onLoop(l, func() { echo(r) })
		p.want(numbered(1, 20))
		<-held
		waitFor(t, "the reply's bytes", func() bool { return statsOf(l).BytesSent == 24 })
		_ = p.Close()
		waitFor(t, "the end of the connection", func() bool { return statsOf(l).Connections == 0 || statsOf(l).Waiting == 1 })
		if ls := s.ListenerStats()[0]; ls.Opened != 1 || ls.Refused != 1 || ls.Name != "PLAINTEXT" {
			t.Errorf("the listener says %+v", ls)
		}
	})
}

// TestStatsOfClosedConnection closes a connection with requests in every place.
func TestStatsOfClosedConnection(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		h := &testHandler{pipelined: func([]byte) bool { return true }}
		var first *Request
		h.request = func(c *Conn, r *Request) {
			switch r.Payload()[7] {
			case 1:
				first = r
			case 2:
				echo(r) // waits for the first
			default:
				c.Close(errors.New("asked for"))
			}
		}
		s, addr := e.start(t, h, func(c *Config) { c.Loops = 1 })
		p := dial(t, addr)
		p.send(numbered(1, 20), numbered(2, 20), numbered(3, 20), numbered(4, 20))
		p.wantClosed()
		waitFor(t, "the close", func() bool { return statsOf(s.loops[0]).Closed[ClosedHandler] == 1 })
		onLoop(s.loops[0], func() { first.NoReply() })
		st := statsOf(s.loops[0])
		if st.Waiting != 0 || st.Unanswered != 0 || st.Unsent != 0 {
			t.Errorf("the only connection is closed, the loop says %+v", st)
		}
		waitFor(t, "the listener's count", func() bool { return s.ListenerStats()[0].Closed == 1 })
	})
}

// TestLoopSleeps wants an idle loop to say so.
func TestLoopSleeps(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		s, _ := e.start(t, &testHandler{}, func(c *Config) { c.Loops = 1 })
		before := statsOf(s.loops[0])
		const rest = 50 * time.Millisecond
		time.Sleep(rest)
		after := statsOf(s.loops[0])
		if idle := after.Idle - before.Idle; idle < rest/2 {
			t.Errorf("idle for %v of %v", idle, rest)
		}
		if after.WakeUps <= before.WakeUps || after.Busy < before.Busy {
			t.Errorf("before %+v, after %+v", before, after)
		}
	})
}

func TestCloseCauses(t *testing.T) {
	for _, c := range []struct {
		reason error
		want   CloseCause
	}{
		{ErrPeerClosed, ClosedByPeer}, {unix.ECONNRESET, ClosedByPeer}, {io.EOF, ClosedByPeer},
		{ErrIdle, ClosedIdle}, {ErrShutdown, ClosedShutdown}, {ErrServerClosed, ClosedShutdown},
		{&ProtocolError{Reason: "x"}, ClosedProtocol},
		{ErrTruncated, ClosedIO}, {fmt.Errorf("send: %w", unix.EIO), ClosedIO},
		{errors.New("handler"), ClosedHandler},
	} {
		if got := closeCauseOf(c.reason); got != c.want {
			t.Errorf("%v counts as %v, want %v", c.reason, got, c.want)
		}
	}
}
