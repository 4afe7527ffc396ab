package netio

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// closeLogPerSecond bounds the lines about broken connections: one bad client
// in a loop must not fill the disk.
const closeLogPerSecond = 10

// closeLog writes one line per connection closed for cause.
type closeLog struct {
	logger *slog.Logger
	mu     sync.Mutex
	second int64
	lines  int
	// dropped counts lines left out since the last one written.
	dropped int
}

// allow takes one line from this second's share.
func (g *closeLog) allow() (dropped int, ok bool) {
	now := time.Now().Unix()
	g.mu.Lock()
	defer g.mu.Unlock()
	if now != g.second {
		g.second, g.lines = now, 0
	}
	if g.lines >= closeLogPerSecond {
		g.dropped++
		return 0, false
	}
	g.lines++
	dropped, g.dropped = g.dropped, 0
	return dropped, true
}

// quietReason reports whether a connection that ends so is everyday.
func quietReason(reason error) bool {
	return reason == nil || errors.Is(reason, ErrPeerClosed) || errors.Is(reason, ErrIdle) ||
		errors.Is(reason, ErrShutdown) || errors.Is(reason, ErrServerClosed) || errors.Is(reason, io.EOF) ||
		errors.Is(reason, unix.ECONNRESET) || errors.Is(reason, unix.EPIPE)
}

// closed logs that c ends for reason. api and version are those of the request
// at fault or -1.
func (g *closeLog) closed(c *Conn, reason error, api, version int16) {
	if quietReason(reason) {
		return
	}
	dropped, ok := g.allow()
	if !ok {
		return
	}
	var pe *ProtocolError
	if errors.As(reason, &pe) && pe.API >= 0 {
		api, version = pe.API, pe.Version
	}
	args := []any{"peer", c.remote.String(), "listener", c.Listener(), "api", api, "version", version, "reason", reason.Error()}
	if dropped > 0 {
		args = append(args, "lines_left_out", dropped)
	}
	g.logger.Warn("connection closed", args...)
}

// refused logs that a connection was not taken, or could not be.
func (g *closeLog) refused(message string, args ...any) {
	if dropped, ok := g.allow(); ok {
		if dropped > 0 {
			args = append(args, "lines_left_out", dropped)
		}
		g.logger.Warn(message, args...)
	}
}

// peekAPI reads the API key and version that a request's payload begins with.
func peekAPI(payload []byte) (api, version int16) {
	if len(payload) < 4 {
		return -1, -1
	}
	return int16(binary.BigEndian.Uint16(payload)), int16(binary.BigEndian.Uint16(payload[2:]))
}
