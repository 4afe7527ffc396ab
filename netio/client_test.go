package netio

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// clientHandler is a handler of dialled connections: it keeps a window of
// numbered requests on the way and checks the echoes.
type clientHandler struct {
	testHandler
	t      *testing.T
	total  int
	window int
	size   func(i int) int
	done   chan struct{}
	// full counts how often the socket took less than it was given.
	full int

	sent, received int
	rest           []byte // of a request that the socket did not take whole
}

func (h *clientHandler) Opened(c *Conn) {
	h.nOpened.Add(1)
	h.pump(c)
}

func (h *clientHandler) Writable(c *Conn) { h.pump(c) }

func (h *clientHandler) Pipelined([]byte) bool { return true }

func (h *clientHandler) Request(c *Conn, r *Request) {
	if want := numbered(h.received, h.size(h.received)); !bytes.Equal(r.Payload(), want) {
		h.t.Errorf("response %d differs: %d bytes, want %d", h.received, len(r.Payload()), len(want))
	}
	h.received++
	r.NoReply()
	if h.received == h.total {
		close(h.done)
		return
	}
	h.pump(c)
}

// pump sends while the window and the socket allow.
func (h *clientHandler) pump(c *Conn) {
	for len(h.rest) > 0 || h.sent < h.total && h.sent-h.received < h.window {
		var pieces [][]byte
		if len(h.rest) > 0 {
			pieces = [][]byte{h.rest}
		} else {
			payload := numbered(h.sent, h.size(h.sent))
			prefix := binary.BigEndian.AppendUint32(nil, uint32(len(payload)))
			pieces = [][]byte{prefix, payload[:len(payload)/2], payload[len(payload)/2:]}
			h.sent++
		}
		n, err := c.Send(pieces)
		if err != nil {
			h.t.Errorf("send: %v", err)
			return
		}
		if h.rest = bytes.Join(pieces, nil)[n:]; len(h.rest) > 0 {
			h.full++
			return
		}
	}
}

// TestDial exchanges requests with an echo server of the same engine, with
// sizes below and above every threshold.
func TestDial(t *testing.T) {
	eachEngine(t, func(t *testing.T, e env) {
		_, address := e.start(t, &testHandler{}, nil)
		h := &clientHandler{t: t, total: 300, window: 5, done: make(chan struct{}), size: func(i int) int {
			if i%50 == 7 {
				return 3 << 20
			}
			return 8 + (i*i*31)%70_000
		}}
		client, err := NewServer(Config{Engine: e.engine, Loops: e.loops, LoopbackCongestion: "cubic", Logger: quietLogger}, h)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := client.Dial(t.Context(), address, e.loops-1, "mine")
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-h.done:
		case <-time.After(patience):
			t.Fatal("no end of the exchange")
		}
		if c.State != "mine" || c.Listener() != "dialled" || c.RemoteAddr().String() != address {
			t.Errorf("connection: state %v, listener %q, remote %v", c.State, c.Listener(), c.RemoteAddr())
		}
		if client.Connections() != 1 {
			t.Errorf("%d connections, want 1", client.Connections())
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := client.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if h.nClosed.Load() != 1 {
			t.Errorf("closed %d times, want once", h.nClosed.Load())
		}
		if _, err := client.Dial(ctx, address, 0, nil); err == nil {
			t.Error("dialled after the end")
		}
	})
}

// TestDialBackPressure sends to a peer that does not read for a while: the
// socket fills, and Writable brings the rest over.
func TestDialBackPressure(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		const total, size = 40, 1 << 20
		h := &clientHandler{t: t, total: total, window: total, size: func(int) int { return size }, done: make(chan struct{})}
		client, err := NewServer(Config{Engine: e.engine, LoopbackCongestion: "cubic", Logger: quietLogger}, h)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := client.Dial(t.Context(), ln.Addr().String(), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		peer, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "a full socket", func() (full bool) {
			onLoop(c.Loop(), func() { full = h.full > 0 })
			return full
		})
		_ = peer.SetDeadline(time.Now().Add(patience))
		frame := make([]byte, prefixBytes+size)
		for i := range total {
			if _, err := io.ReadFull(peer, frame); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(frame[prefixBytes:], numbered(i, size)) {
				t.Fatalf("request %d arrived changed", i)
			}
		}
		// The peer's end is the connection's end.
		_ = peer.Close()
		if reason := h.closedWith(t, 1); reason == nil {
			t.Error("closed without a reason")
		}
	})
}

func TestDialRefused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close()
	client, err := NewServer(Config{Engine: EngineEpoll, Logger: quietLogger}, &testHandler{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Dial(t.Context(), address, 0, nil); err == nil {
		t.Fatal("dialled a port that nobody listens on")
	}
	if client.Connections() != 0 {
		t.Fatalf("%d connections, want none", client.Connections())
	}
}
