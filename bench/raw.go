package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// RawConn is one connection that speaks the protocol by hand: for requests that
// no client would send, and for load whose own cost must be small.
type RawConn struct {
	net.Conn
	reader      *bufio.Reader
	correlation int32
	scratch     []byte
}

// DialRaw connects. Every later call fails once ctx's deadline is over.
func DialRaw(ctx context.Context, addr string) (*RawConn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return &RawConn{Conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// Do sends one request in the version that it holds and reads its response.
func (c *RawConn) Do(req kmsg.Request) (kmsg.Response, error) {
	c.correlation++
	c.scratch = AppendFrame(c.scratch[:0], req, c.correlation)
	if _, err := c.Write(c.scratch); err != nil {
		return nil, err
	}
	payload, err := c.ReadFrame()
	if err != nil {
		return nil, fmt.Errorf("response to %s v%d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return ParseResponse(req, c.correlation, payload)
}

// ReadFrame reads one response without its length prefix.
func (c *RawConn) ReadFrame() ([]byte, error) { return c.readFrameInto(nil) }

// ParseResponse checks the header of a response and reads its body.
func ParseResponse(req kmsg.Request, correlation int32, payload []byte) (kmsg.Response, error) {
	if got := int32(binary.BigEndian.Uint32(payload)); got != correlation {
		return nil, fmt.Errorf("response with correlation id %d to request %d", got, correlation)
	}
	body := payload[4:]
	// ApiVersions is answered with header v0 whatever its version (KIP-511).
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 || body[0] != 0 {
			return nil, fmt.Errorf("response header with tags: % x", body[:min(len(body), 8)])
		}
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("response to %s v%d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp, nil
}

// AppendFrame appends a whole request frame, length prefix included.
func AppendFrame(dst []byte, req kmsg.Request, correlation int32) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.Key()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.GetVersion()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	const clientID = "bench"
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(clientID)))
	dst = append(dst, clientID...)
	if req.IsFlexible() {
		dst = append(dst, 0) // no tagged fields
	}
	dst = req.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// WaitAnswer asks for ApiVersions, again each interval, until the broker
// answers without error.
func WaitAnswer(ctx context.Context, addr string, interval time.Duration) error {
	for {
		err := askVersions(ctx, addr)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return fmt.Errorf("no answer from %s: %w (last: %w)", addr, ctx.Err(), err)
		}
	}
}

func askVersions(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := DialRaw(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := conn.Do(kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return err
	}
	if code := resp.(*kmsg.ApiVersionsResponse).ErrorCode; code != 0 {
		return fmt.Errorf("ApiVersions: error %d", code)
	}
	return nil
}
