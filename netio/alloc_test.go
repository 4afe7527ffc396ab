package netio

import (
	"encoding/binary"
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// rawPeer is a client that allocates nothing: blocking system calls on
// buffers of its own.
type rawPeer struct {
	fd        int
	out, in   []byte
	perRound  int
	replySize int
}

func newRawPeer(t testing.TB, addr string, payload, depth int) *rawPeer {
	t.Helper()
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fd := connectMany(t, tcp, 1)[0]
	t.Cleanup(func() { _ = unix.Close(fd) })
	p := &rawPeer{fd: fd, perRound: depth, replySize: 4 + payload}
	for i := range depth {
		p.out = append(p.out, frame(numbered(i, payload))...)
	}
	p.in = make([]byte, len(p.out))
	return p
}

// round sends depth requests at once and reads all replies.
func (p *rawPeer) round() error {
	for b := p.out; len(b) > 0; {
		n, err := unix.Write(p.fd, b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return p.collect(len(p.in))
}

func (p *rawPeer) collect(n int) error {
	for got := 0; got < n; {
		m, err := unix.Read(p.fd, p.in[got:n])
		if err == unix.EINTR {
			continue
		}
		if err != nil || m == 0 {
			return fmt.Errorf("after %d of %d bytes: %w", got, n, err)
		}
		got += m
	}
	return nil
}

// posting completes requests from another goroutine without allocating.
type posting struct {
	todo chan *Request
	pool chan *finish
}

type finish struct {
	r    *Request
	from *posting
}

func (f *finish) Run(*Loop) {
	r := f.r
	f.from.pool <- f
	echo(r)
}

func newPosting(t testing.TB) *posting {
	p := &posting{todo: make(chan *Request, 1024), pool: make(chan *finish, 1024)}
	for range cap(p.pool) {
		p.pool <- &finish{from: p}
	}
	go func() {
		for r := range p.todo {
			f := <-p.pool
			f.r = r
			r.loop.Post(f)
		}
	}()
	t.Cleanup(func() { close(p.todo) })
	return p
}

// TestNoAllocations is the promise that a request costs no garbage.
func TestNoAllocations(t *testing.T) {
	for _, engine := range testEngines {
		for _, c := range []struct {
			name           string
			payload, depth int
			posted, ranges bool
		}{
			{name: "small", payload: 100, depth: 1},
			{name: "pipelined", payload: 100, depth: 64},
			{name: "split", payload: 9000, depth: 16},
			{name: "large", payload: 300_000, depth: 1},
			{name: "posted", payload: 100, depth: 16, posted: true},
			{name: "ranges", payload: 8, depth: 8, ranges: true},
		} {
			t.Run(engine+"/"+c.name, func(t *testing.T) {
				f, content := testFile(t, 100_000)
				ps := newPosting(t)
				h := &testHandler{}
				// A large reply would not be kept in the pool, so the size of
				// the request is answered instead.
				h.request = func(_ *Conn, r *Request) {
					switch {
					case c.posted:
						ps.todo <- r
					case c.ranges:
						r.Out().Buf = append(r.Out().Buf, r.Payload()...)
						r.Out().Splice(FileRange{FD: int(f.Fd()), Length: int64(len(content))})
						r.Done()
					case len(r.Payload()) > 20_000:
						r.Out().Buf = binary.BigEndian.AppendUint64(r.Out().Buf, uint64(len(r.Payload())))
						r.Done()
					default:
						echo(r)
					}
				}
				_, addr := env{engine, 1}.start(t, h, nil)
				p := newRawPeer(t, addr, c.payload, c.depth)
				switch {
				case c.ranges:
					p.in = make([]byte, c.depth*(12+len(content)))
				case c.payload > 20_000:
					p.in = make([]byte, c.depth*12)
				}
				var err error
				round := func() {
					if e := p.round(); e != nil {
						err = e
					}
				}
				for range 200 {
					round()
				}
				// A collection that happens to run costs a few objects of the
				// runtime's, so the least of a few measurements counts.
				least := testing.AllocsPerRun(200, round)
				for range 4 {
					least = min(least, testing.AllocsPerRun(200, round))
				}
				if err != nil {
					t.Fatal(err)
				}
				if least != 0 {
					t.Errorf("%v allocations per round of %d requests", least, c.depth)
				}
			})
		}
	}
}

// BenchmarkEcho measures the network layer alone over loopback, client
// included.
func BenchmarkEcho(b *testing.B) {
	for _, engine := range testEngines {
		for _, c := range []struct{ payload, depth int }{{100, 1}, {100, 64}, {1000, 64}, {16_000, 8}} {
			b.Run(fmt.Sprintf("%s/%dB/deep=%d", engine, c.payload, c.depth), func(b *testing.B) {
				_, addr := env{engine, 1}.start(b, &testHandler{}, nil)
				benchmarkRounds(b, newRawPeer(b, addr, c.payload, c.depth))
			})
		}
	}
}

// BenchmarkReceive measures frames that are acknowledged with a few bytes.
func BenchmarkReceive(b *testing.B) {
	h := &testHandler{request: func(_ *Conn, r *Request) {
		r.Out().Buf = append(r.Out().Buf, r.Payload()[:8]...)
		r.Done()
	}}
	for _, engine := range testEngines {
		for _, payload := range []int{64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKiB", engine, payload>>10), func(b *testing.B) {
				_, addr := env{engine, 1}.start(b, h, nil)
				p := newRawPeer(b, addr, payload, 1)
				p.in = make([]byte, 12)
				b.SetBytes(int64(payload))
				benchmarkRounds(b, p)
			})
		}
	}
}

// BenchmarkFileRange measures hot spans sent with sendfile.
func BenchmarkFileRange(b *testing.B) {
	f, content := testFile(b, 1<<20)
	h := &testHandler{request: func(_ *Conn, r *Request) {
		r.Out().Buf = append(r.Out().Buf, make([]byte, 80)...)
		r.Out().Splice(FileRange{FD: int(f.Fd()), Length: int64(len(content))})
		r.Done()
	}}
	for _, engine := range testEngines {
		b.Run(engine+"/1024KiB", func(b *testing.B) {
			_, addr := env{engine, 1}.start(b, h, nil)
			p := newRawPeer(b, addr, 8, 1)
			p.in = make([]byte, 84+len(content))
			b.SetBytes(int64(len(content)))
			benchmarkRounds(b, p)
		})
	}
}

func benchmarkRounds(b *testing.B, p *rawPeer) {
	for range 100 {
		if err := p.round(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	rounds := 0
	for b.Loop() {
		if err := p.round(); err != nil {
			b.Fatal(err)
		}
		rounds++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*p.perRound), "ns/request")
}
