package engine

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthouse/posthouse/netio/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// panicWatch is a slog.Handler that notes panics of handlers.
type panicWatch struct{ seen atomic.Pointer[string] }

func (p *panicWatch) Enabled(context.Context, slog.Level) bool { return true }
func (p *panicWatch) WithAttrs([]slog.Attr) slog.Handler       { return p }
func (p *panicWatch) WithGroup(string) slog.Handler            { return p }
func (p *panicWatch) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panic") {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
		p.seen.Store(&text)
	}
	return nil
}

// FuzzRequest sends any bytes as the body of a request of any API and version:
// an answer or the end of the connection comes, never a panic.
func FuzzRequest(f *testing.F) {
	watch := new(panicWatch)
	b := startBroker(f, brokerOptions{memory: true, logger: newLogger(watch)})
	id := b.createTopic("t", 2, nil)
	for i := range apis {
		for v := apis[i].Min; v <= apis[i].Max; v++ {
			req := kmsg.RequestForKey(apis[i].Key)
			req.SetVersion(v)
			f.Add(apis[i].Key, v, req.AppendTo(nil))
		}
	}
	for v := int16(3); v <= 12; v++ {
		f.Add(int16(0), v, produceTo(v, -1, "t", 0, batchOf("a", "b")).AppendTo(nil))
	}
	for v := int16(4); v <= 18; v++ {
		req := fetchFrom(v, "t", 0, 0, 5)
		req.Topics[0].TopicID = id
		f.Add(int16(1), v, req.AppendTo(nil))
	}
	f.Add(int16(18), int16(99), []byte{0, 1, 2})
	f.Add(int16(-1), int16(0), []byte(nil))
	f.Add(int16(500), int16(3), []byte("abc"))
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		conn, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		frame := wire.AppendRequestHeader(make([]byte, 4), key, version, 7, nil, flexible(key, version))
		frame = append(frame, body...)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		conn.Write(frame)
		conn.(*net.TCPConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		var answer [4096]byte
		for n := 1; n > 0 && err == nil; {
			n, err = conn.Read(answer[:])
		}
		if p := watch.seen.Swap(nil); p != nil {
			t.Fatal(*p)
		}
	})
}

func newLogger(h slog.Handler) *slog.Logger { return slog.New(h) }
