package engine

import (
	"fmt"

	"github.com/posthouse/posthouse/engine/admin"
	"github.com/posthouse/posthouse/engine/quota"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The cold path: messages that kmsg decodes and encodes, answered on a goroutine
// of their own. A connection has one such request at a time, since none of them
// is pipelined, which bounds the goroutines by the connections.

const (
	// coldRequestBytesMax bounds a request that is decoded into Go values: one
	// byte on the wire can be ten or more in memory. No client comes near it;
	// Produce and Fetch, which do, are decoded in place.
	coldRequestBytesMax = 16 << 20
	// loopRequestBytesMax bounds those that may be decoded and answered on the
	// loop: some hundred partitions.
	loopRequestBytesMax = 16 << 10
	// loopMetadataPartitionsMax bounds the partitions (and topics) of a Metadata
	// answer that is made on the loop. Round trips over loopback: one partition
	// 90 µs by a goroutine, 55 on the loop; 128 partitions 150 and 45.
	loopMetadataPartitionsMax = 256
)

// coldOp is one request on the cold path.
type coldOp struct {
	answer
	engine *Engine
	api    *API
	client admin.Client
	conn   *conn
	body   []byte // of the frame

	out    []byte  // header and body of the answer
	errors []int16 // codes in it
	failed error   // or why the connection is closed

	requestMs, mutationMs int64 // for which the client is throttled
}

// decodeCold reads a body into a kmsg value. An error is the client's fault.
func decodeCold(into kmsg.Request, version int16, body []byte) error {
	if len(body) > coldRequestBytesMax {
		return fmt.Errorf("request of %d bytes", len(body))
	}
	into.SetVersion(version)
	if err := into.ReadFrom(body); err != nil {
		return fmt.Errorf("malformed body: %w", err)
	}
	return nil
}

// decode is decodeCold on the loop; it closes the connection of a client at
// fault and reports false.
func (k *call) decode(into kmsg.Request) bool {
	if err := decodeCold(into, k.header.Version, k.header.Body); err != nil {
		k.fail(err.Error())
		return false
	}
	return true
}

// small says that the request may be decoded and answered on the loop.
func (k *call) small() bool { return len(k.header.Body) <= loopRequestBytesMax }

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
	k.loop.throttle(k.conn, resp)
	out := a.req.Out()
	out.Buf = resp.AppendTo(out.Buf)
	k.loop.countErrors(a.key, resp)
	a.req.Done()
}

// metadata answers what is small and at hand on the loop; a topic that does not
// exist, and a long answer, leave it.
func (lp *loop) metadata(k *call) {
	if !k.small() {
		lp.cold(k)
		return
	}
	req := kmsg.NewPtrMetadataRequest()
	if !k.decode(req) {
		return
	}
	e := lp.engine
	if resp := e.config.Admin.MetadataAtHand(e.ctx, req, k.client(), loopMetadataPartitionsMax); resp != nil {
		k.reply(resp)
		return
	}
	lp.cold(k)
}

// cold starts a request on the cold path.
func (lp *loop) cold(k *call) {
	lp.offLoop(k, kmsg.RequestForKey(k.header.Key), func(op *coldOp, req kmsg.Request) kmsg.Response {
		return op.api.offLoop(op.engine.ctx, op.engine, req, op.client)
	})
}

// offLoop decodes the request into req, and answers it by handle, on a
// goroutine.
func (lp *loop) offLoop(k *call, req kmsg.Request, handle func(*coldOp, kmsg.Request) kmsg.Response) {
	op := &coldOp{answer: k.answer(), engine: lp.engine, api: k.api, client: k.client(), body: k.header.Body}
	k.taken = true
	if q := lp.engine.quotas.Mutations(quota.Anonymous, op.client.ClientID, clockMs); q != nil {
		op.client.Mutations = q
	}
	op.conn = k.conn
	go op.run(lp.net, req, handle)
}

func (op *coldOp) run(l *netio.Loop, req kmsg.Request, handle func(*coldOp, kmsg.Request) kmsg.Response) {
	defer l.Post(op)
	defer func() {
		if v := recover(); v != nil {
			op.engine.logPanic(op.req, v)
			op.failed = errPanic
		}
	}()
	if err := decodeCold(req, op.version, op.body); err != nil {
		op.failed = &netio.ProtocolError{API: op.key, Version: op.version, Reason: err.Error()}
		return
	}
	began := netio.ClockNow()
	resp := handle(op, req)
	resp.SetVersion(op.version)
	op.throttle(began, resp)
	op.out = wire.AppendResponseHeader(nil, op.key, op.version, op.correlationID, flexible(op.key, op.version))
	op.out = resp.AppendTo(op.out)
	op.errors = errorCodes(op.errors, resp)
	if len(op.out) > answerBytesMax {
		op.out, op.failed = nil, fmt.Errorf("engine: the answer to %s has %d bytes", op.api.Name, len(op.out))
	}
}

// Run implements netio.Task: the answer is back on the loop.
func (op *coldOp) Run(l *netio.Loop) {
	requests := &op.engine.loopOf(l).stats.requests
	for _, code := range op.errors {
		requests.Failed(op.key, code)
	}
	if op.failed != nil {
		op.req.Fail(op.failed)
		return
	}
	op.engine.loopOf(l).mute(op.conn, quota.Mutation, op.mutationMs, op.requestMs)
	op.req.Out().Buf = op.out
	op.req.Done()
}
