package netio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// largeFrameBytes is from where on a frame counts as large: the frame
	// after it is expected to be large as well, and only its head is received
	// into shared memory.
	largeFrameBytes = receiveBytesMax / 2
	// headBytes is the receive in which a large frame's length is looked for.
	headBytes = 512
)

// feed cuts frames from bytes that were received into shared memory and starts
// their requests. What is left of a frame that is not whole moves to a buffer
// of its own, so nothing refers to data but the frames that lie in it.
func (l *Loop) feed(c *Conn, ch *chunk, data []byte) {
	l.bytesReceived.Add(int64(len(data)))
	c.lastActive = l.now
	if err := l.cut(c, ch, data); err != nil {
		c.badInput = err
	}
	l.admit(c)
	l.markDirty(c)
}

// feedChunk feeds the n bytes received at ch.pos. The place is used again if
// no frame was left lying there.
func (l *Loop) feedChunk(c *Conn, ch *chunk, n int) {
	data := ch.mem[ch.pos : ch.pos+n]
	// Held over the call, since a handler that ends its request at once would
	// otherwise make the chunk start over under the frames behind it.
	ch.refs++
	ch.pos += n
	l.feed(c, ch, data)
	l.releaseChunk(ch)
}

// cut is the frame cutter proper.
func (l *Loop) cut(c *Conn, ch *chunk, data []byte) error {
	for len(data) > 0 {
		if c.frame != nil {
			n := copy(c.frame.payload[c.got:], data)
			data = data[n:]
			l.progress(c, n)
			continue
		}
		if c.headLen > 0 || len(data) < prefixBytes {
			n := copy(c.head[c.headLen:], data)
			c.headLen += n
			data = data[n:]
			if c.headLen < prefixBytes {
				return nil
			}
		} else {
			copy(c.head[:], data)
			data = data[prefixBytes:]
		}
		c.headLen = 0
		size := int32(binary.BigEndian.Uint32(c.head[:]))
		if size <= 0 || size > l.server.config.MaxFrameBytes {
			return frameSizeError(size, l.server.config.MaxFrameBytes)
		}
		n := int(size)
		r := l.newRequest(c)
		c.held += int64(n)
		c.noteFrame(prefixBytes + n)
		if n <= len(data) {
			r.payload, r.chunk = data[:n:n], ch
			ch.refs++
			data = data[n:]
			c.push(r)
			continue
		}
		r.own = l.arena.get(payloadOffset + n)
		r.payload = r.own[payloadOffset : payloadOffset+n : payloadOffset+n]
		c.frame, c.got = r, 0
		c.gotWatched, c.waitLooks = -1, 0
		l.promise(r)
		l.progress(c, copy(r.payload, data))
		return nil
	}
	return nil
}

func frameSizeError(size, largest int32) error {
	return &ProtocolError{API: -1, Version: -1, Reason: fmt.Sprintf("frame length %d, want 1..%d%s", size, largest, foreign(uint32(size)))}
}

// rest is where the frame that was begun goes on, promised the part of it that
// there is request memory for. Once mayReceive has said yes the latter is not
// empty.
func (c *Conn) rest() []byte     { return c.frame.payload[c.got:] }
func (c *Conn) promised() []byte { return c.frame.payload[c.got:c.frame.charged] }

// filled says that n bytes were received into c.rest().
func (l *Loop) filled(c *Conn, n int) {
	l.bytesReceived.Add(int64(n))
	c.lastActive = l.now
	if l.progress(c, n) {
		l.admit(c)
		l.markDirty(c)
	}
}

// progress counts n more bytes of the frame that was begun and reports whether
// that completed it.
func (l *Loop) progress(c *Conn, n int) bool {
	c.got += n
	r := c.frame
	if over := c.got - r.charged; over > 0 {
		// It came with what lay before it, in shared memory.
		r.charged += over
		l.server.budget.charge(over)
	}
	if c.got < len(r.payload) {
		return false
	}
	c.frame, c.got = nil, 0
	c.push(r)
	return true
}

// inputEnded says that the peer sends no more (io.EOF), or that the connection
// broke. After a half-close what was asked is still answered.
func (l *Loop) inputEnded(c *Conn, err error) {
	c.ended = true
	if !errors.Is(err, io.EOF) {
		c.Close(err)
	}
	l.markDirty(c)
}

// writable says that the socket takes output again.
func (l *Loop) writable(c *Conn) {
	c.full = false
	l.markDirty(c)
	if c.onWritable != nil && !c.closed {
		l.active = true
		c.onWritable.Writable(c)
	}
}

// httpVerbs are how a request of HTTP may begin; "PRI " is HTTP/2.
var httpVerbs = []string{"GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "PATC", "CONN", "PRI "}

// foreign says which other protocol a peer speaks whose first four bytes are no
// length of a frame; "" if it is none that is often met by mistake.
func foreign(first uint32) string {
	b := binary.BigEndian.AppendUint32(nil, first)
	switch {
	case slices.Contains(httpVerbs, string(b)):
		return ": the peer speaks HTTP, and this is a listener for Kafka's protocol"
	case b[0] == 0x16 && b[1] == 0x03:
		return ": the peer speaks TLS, and this listener does not"
	}
	return ""
}
