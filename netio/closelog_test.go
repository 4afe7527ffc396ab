package netio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// lockedBuffer is a log that several loops may write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestCloseLog checks that a connection closed for cause leaves one line with
// peer, API, version and reason, that an orderly end leaves none, and that a
// storm of bad clients is rate-limited.
func TestCloseLog(t *testing.T) {
	eachEngineOnce(t, func(t *testing.T, e env) {
		h := &testHandler{request: func(_ *Conn, r *Request) {
			switch p := r.Payload(); p[4] {
			case 1:
				r.Fail(&ProtocolError{API: 7, Version: 1, Reason: "no such thing"})
			case 2:
				r.Fail(errors.New("not decoded"))
			default:
				echo(r)
			}
		}}
		var log lockedBuffer
		_, addr := e.start(t, h, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		request := func(api, version uint16, kind byte) []byte {
			return append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, api), version), kind, 0, 0, 0)
		}
		lines := func() int { return strings.Count(log.String(), "connection closed") }
		for i, want := range []string{
			`api=7 version=1 reason="protocol error: api 7 version 1: no such thing"`,
			`api=3 version=12 reason="not decoded"`,
		} {
			p := dial(t, addr)
			p.send(request(3, 12, byte(i+1)))
			p.wantClosed()
			_ = h.closedWith(t, i+1)
			if got := log.String(); !strings.Contains(got, want) || !strings.Contains(got, "peer="+p.LocalAddr().String()) {
				t.Errorf("log lacks %s of %s:\n%s", want, p.LocalAddr(), got)
			}
			if lines() != i+1 {
				t.Errorf("%d lines, want %d:\n%s", lines(), i+1, log.String())
			}
		}
		p := dial(t, addr)
		p.send(request(3, 12, 0))
		p.want(request(3, 12, 0))
		_ = p.Close()
		_ = h.closedWith(t, 3)
		if lines() != 2 {
			t.Errorf("an orderly end was logged:\n%s", log.String())
		}
		const storm = 200
		for i := range storm {
			p := dial(t, addr)
			p.send(request(3, 12, 2))
			_ = h.closedWith(t, 4+i)
			_ = p.Close()
		}
		// The storm may straddle a few seconds on a busy machine.
		if n := lines(); n < 5 || n > storm/2 {
			t.Errorf("%d lines for %d bad clients", n, storm)
		}
	})
}
