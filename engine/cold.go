package engine

import (
	"fmt"

	"github.com/posthouse/posthouse/engine/admin"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The cold path: messages that kmsg decodes and encodes, answered on a goroutine
// of their own. A connection has one such request at a time, since none of them
// is pipelined, which bounds the goroutines by the connections.

// coldRequestBytesMax bounds a request that is decoded into Go values: one byte
// on the wire can be ten or more in memory. No client comes near it; Produce
// and Fetch, which do, are decoded in place.
const coldRequestBytesMax = 16 << 20

// coldOp is one request on the cold path.
type coldOp struct {
	answer
	engine *Engine
	api    *API
	client admin.Client

	out    []byte // header and body of the answer
	failed error  // or why the connection is closed
}

// decode reads the body into a kmsg value; nil after closing the connection of a
// client whose body is malformed.
func (k *call) decode(into kmsg.Request) bool {
	if len(k.header.Body) > coldRequestBytesMax {
		k.fail(fmt.Sprintf("request of %d bytes", len(k.header.Body)))
		return false
	}
	into.SetVersion(k.header.Version)
	if err := into.ReadFrom(k.header.Body); err != nil {
		k.fail("malformed body: " + err.Error())
		return false
	}
	return true
}

// client is who asks, as handlers need to know it.
func (k *call) client() admin.Client {
	c := k.conn.net
	return admin.Client{
		ClientID: string(k.header.ClientID),
		Listener: c.Listener(),
		Version:  k.header.Version,
		Peer:     c.RemoteAddr(),
	}
}

// reply answers with a kmsg value.
func (k *call) reply(resp kmsg.Response) {
	k.taken = true
	a := k.answer()
	a.begin()
	resp.SetVersion(a.version)
	out := a.req.Out()
	out.Buf = resp.AppendTo(out.Buf)
	a.req.Done()
}

// cold starts a request on the cold path.
func (lp *loop) cold(k *call) {
	req := kmsg.RequestForKey(k.header.Key)
	if !k.decode(req) {
		return
	}
	lp.offLoop(k, func(op *coldOp) kmsg.Response {
		return op.api.offLoop(lp.engine.ctx, lp.engine, req, op.client)
	})
}

// offLoop runs handle on a goroutine and answers with what it returns.
func (lp *loop) offLoop(k *call, handle func(*coldOp) kmsg.Response) {
	op := &coldOp{answer: k.answer(), engine: lp.engine, api: k.api, client: k.client()}
	k.taken = true
	go op.run(lp.net, handle)
}

func (op *coldOp) run(l *netio.Loop, handle func(*coldOp) kmsg.Response) {
	defer l.Post(op)
	defer func() {
		if v := recover(); v != nil {
			op.engine.logPanic(op.req, v)
			op.failed = errPanic
		}
	}()
	resp := handle(op)
	resp.SetVersion(op.version)
	op.out = wire.AppendResponseHeader(nil, op.key, op.version, op.correlationID, flexible(op.key, op.version))
	op.out = resp.AppendTo(op.out)
}

// Run implements netio.Task: the answer is back on the loop.
func (op *coldOp) Run(*netio.Loop) {
	if op.failed != nil {
		op.req.Fail(op.failed)
		return
	}
	op.req.Out().Buf = op.out
	op.req.Done()
}
