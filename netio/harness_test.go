package netio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds every wait of the tests.
const patience = 20 * time.Second

// env is one combination of engine and number of loops.
type env struct {
	engine string
	loops  int
}

// eachEngine runs test for every engine with 1, 2 and 4 loops.
func eachEngine(t *testing.T, test func(t *testing.T, e env)) {
	t.Helper()
	for _, engine := range testEngines {
		for _, loops := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s/%d", engine, loops), func(t *testing.T) { test(t, env{engine, loops}) })
		}
	}
}

// eachEngineOnce is for what does not depend on the number of loops.
func eachEngineOnce(t *testing.T, test func(t *testing.T, e env)) {
	t.Helper()
	for _, engine := range testEngines {
		t.Run(engine, func(t *testing.T) { test(t, env{engine, 2}) })
	}
}

// testHandler answers with the payload, unless told otherwise.
type testHandler struct {
	pipelined func(payload []byte) bool
	request   func(c *Conn, r *Request)
	opened    func(c *Conn)
	endTurn   func(l *Loop)
	drain     func(l *Loop)

	nOpened, nClosed, nRequests, nEndTurn atomic.Int64

	mu      sync.Mutex
	reasons []error
}

func (h *testHandler) Opened(c *Conn) {
	h.nOpened.Add(1)
	if h.opened != nil {
		h.opened(c)
	}
}

func (h *testHandler) Pipelined(payload []byte) bool {
	return h.pipelined == nil || h.pipelined(payload)
}

func (h *testHandler) Request(c *Conn, r *Request) {
	h.nRequests.Add(1)
	if h.request != nil {
		h.request(c, r)
		return
	}
	echo(r)
}

func (h *testHandler) EndTurn(l *Loop) {
	h.nEndTurn.Add(1)
	if h.endTurn != nil {
		h.endTurn(l)
	}
}

func (h *testHandler) Drain(l *Loop) {
	if h.drain != nil {
		h.drain(l)
	}
}

func (h *testHandler) Closed(_ *Conn, reason error) {
	h.nClosed.Add(1)
	h.mu.Lock()
	h.reasons = append(h.reasons, reason)
	h.mu.Unlock()
}

// closedWith waits for the n-th close and returns its reason.
func (h *testHandler) closedWith(t *testing.T, n int) error {
	t.Helper()
	waitFor(t, "a close", func() bool { return h.nClosed.Load() >= int64(n) })
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reasons[n-1]
}

func echo(r *Request) {
	out := r.Out()
	out.Buf = append(out.Buf, r.Payload()...)
	r.Done()
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}

var quietLogger = slog.New(slog.NewTextHandler(io.Discard, nil))

// start runs a server with one listener on loopback and returns its address.
func (e env) start(t testing.TB, h Handler, change func(*Config)) (*Server, string) {
	t.Helper()
	cfg := Config{Engine: e.engine, Loops: e.loops, LoopbackCongestion: "cubic", Logger: quietLogger}
	if change != nil {
		change(&cfg)
	}
	s, err := NewServer(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if name, _ := s.Engine(); name != e.engine {
		t.Fatalf("engine %s runs, want %s", name, e.engine)
	}
	addr, err := s.Listen("PLAINTEXT", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return s, addr.String()
}

// peer is a blocking client.
type peer struct {
	net.Conn
	t   testing.TB
	buf []byte
}

func dial(t testing.TB, addr string) *peer {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &peer{Conn: c, t: t}
}

func frame(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func (p *peer) send(payloads ...[]byte) {
	p.t.Helper()
	var b []byte
	for _, payload := range payloads {
		b = append(b, frame(payload)...)
	}
	p.write(b)
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatalf("client write: %v", err)
	}
}

// receive returns the next reply; it is valid until the next call.
func (p *peer) receive() []byte {
	p.t.Helper()
	b, err := p.tryReceive()
	if err != nil {
		p.t.Fatalf("client read: %v", err)
	}
	return b
}

func (p *peer) tryReceive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if cap(p.buf) < n {
		p.buf = make([]byte, n)
	}
	p.buf = p.buf[:n]
	_, err := io.ReadFull(p, p.buf)
	return p.buf, err
}

func (p *peer) want(payload []byte) {
	p.t.Helper()
	if got := p.receive(); !bytes.Equal(got, payload) {
		p.t.Fatalf("reply of %d bytes %.40x…, want %d bytes %.40x…", len(got), got, len(payload), payload)
	}
}

// wantClosed expects the end of the stream and no byte before it.
func (p *peer) wantClosed() {
	p.t.Helper()
	if b, err := p.tryReceive(); err == nil {
		p.t.Fatalf("reply of %d bytes, want a closed connection", len(b))
	} else if os.IsTimeout(err) {
		p.t.Fatal("connection still open")
	}
}

// numbered makes a payload of n bytes that begins with i.
func numbered(i, n int) []byte {
	p := make([]byte, max(n, 8))
	for j := range p {
		p[j] = byte(i + j*7)
	}
	binary.BigEndian.PutUint64(p, uint64(i))
	return p
}

// seeded returns a source of randomness whose seed is in the test's log.
func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("NETIO_TEST_SEED"); v != "" {
		if _, err := fmt.Sscan(v, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("NETIO_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// taskFunc posts a closure; tests only, it allocates.
type taskFunc func(l *Loop)

func (f taskFunc) Run(l *Loop) { f(l) }

// onLoop runs f on l and waits for it.
func onLoop(l *Loop, f func()) {
	done := make(chan struct{})
	l.Post(taskFunc(func(*Loop) { f(); close(done) }))
	select {
	case <-done:
	case <-l.done:
	}
}
