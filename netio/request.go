package netio

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
)

type requestState uint8

const (
	requestFree     requestState = iota
	requestWaiting               // cut, not yet handed to the handler
	requestAdmitted              // the handler has it
	requestDone                  // answered, not yet sent
)

// Request is one frame and the slot of its answer. It is pooled per loop:
// whoever was given it ends it exactly once with Done, NoReply or Fail and
// does not touch it afterwards. Replies leave in the order in which their
// requests arrived, whatever order they are finished in.
//
// All methods but Payload, Alive and Conn belong to the loop's goroutine;
// work done elsewhere comes back by [Loop.Post].
type Request struct {
	// State is the handler's own, kept when the Request is recycled so that it
	// can hold pooled per-request state.
	State any

	conn    *Conn
	loop    *Loop
	payload []byte
	// Exactly one of chunk and own is set while the payload is held.
	chunk *chunk
	own   []byte
	// charged is how much of own counts as request memory.
	charged int

	// arrived is when all of it was there, admitted when the handler was given
	// it, parked when it last began to wait for others; waited is how long it
	// did in all. Each is the beginning of the turn in which it happened.
	arrived, admitted, parked, waited Instant

	out    Reply
	failed error
	next   *Request // the connection's FIFO, or the loop's free list

	dead      atomic.Bool
	state     requestState
	pipelined bool
	silent    bool // ended by NoReply
	cold      bool // a worker is reading for its reply
	peeked    bool // pipelined, api and version are set
	api       int16
	version   int16
}

// Conn is the connection that the request came by.
func (r *Request) Conn() *Conn { return r.conn }

// Payload is the frame without its length prefix. The bytes may be changed;
// they are valid until ReleasePayload or the end of the request.
func (r *Request) Payload() []byte { return r.payload }

// Alive is false once the connection is closed: nobody waits for the answer.
// Any goroutine.
func (r *Request) Alive() bool { return !r.dead.Load() }

// Out is the reply to fill in before Done.
func (r *Request) Out() *Reply { return &r.out }

// ReleasePayload gives the frame's memory back before the reply is ready; a
// request that is parked should do so.
func (r *Request) ReleasePayload() {
	if r.payload == nil {
		return
	}
	n := len(r.payload)
	r.payload = nil
	r.conn.held -= int64(n)
	if r.own != nil {
		r.loop.server.budget.release(r.charged)
		r.loop.server.budget.endTurn(r)
		r.loop.arena.put(r.own)
		r.own, r.charged = nil, 0
		return
	}
	r.loop.releaseChunk(r.chunk)
	r.chunk = nil
}

// Done says that the reply is complete. It goes out at the end of the turn,
// after those of earlier requests.
func (r *Request) Done() {
	if r.state != requestAdmitted {
		panic(fmt.Sprintf("BUG: netio: Done on a request in state %d", r.state))
	}
	total := int64(len(r.out.Buf))
	for i := range r.out.spans {
		total += r.out.spans[i].Length
	}
	if total > math.MaxInt32 {
		panic(fmt.Sprintf("BUG: netio: reply of %d bytes", total))
	}
	binary.BigEndian.PutUint32(r.out.prefix[:], uint32(total))
	r.end(total + prefixBytes)
}

// NoReply ends a request that gets no answer at all (acks=0).
func (r *Request) NoReply() {
	if r.state != requestAdmitted {
		panic(fmt.Sprintf("BUG: netio: NoReply on a request in state %d", r.state))
	}
	r.silent = true
	r.end(0)
}

// Fail closes the connection, for the given reason, once the replies to
// earlier requests are out. Later requests are not started.
func (r *Request) Fail(reason error) {
	if r.state != requestAdmitted {
		panic(fmt.Sprintf("BUG: netio: Fail on a request in state %d", r.state))
	}
	if reason == nil {
		panic("BUG: netio: Fail without a reason")
	}
	r.failed = reason
	r.conn.failing = true
	r.end(0)
}

// end marks the request as answered with outBytes to send.
func (r *Request) end(outBytes int64) {
	r.ReleasePayload()
	r.state = requestDone
	if r.dead.Load() {
		r.loop.recycle(r)
		return
	}
	c := r.conn
	c.unanswered--
	r.loop.stats.unanswered--
	r.loop.stats.unsent++
	c.owed += outBytes
	c.unsent += requestBytes
	if !r.silent && r.failed == nil {
		c.unsent += prefixBytes + int64(len(r.out.Buf))
	}
	r.loop.markDirty(c)
}
