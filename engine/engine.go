package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync/atomic"

	"github.com/posthouse/posthouse/engine/admin"
	"github.com/posthouse/posthouse/engine/quota"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage"
)

// Defaults of Config, those of Kafka.
const (
	defaultFetchMaxBytes     int32 = 55 << 20
	defaultFetchSessionSlots       = 1000
)

// Config is what an Engine is built from. All collaborators are required.
type Config struct {
	NodeID int32
	// Replicas are the partitions of this node.
	Replicas *replication.Manager
	// Image returns the current state of the cluster; never nil, never blocks.
	Image func() *meta.Image
	// AllocateProducerIDs reserves the ids [first, first+count) for this node
	// for ever. It may block.
	AllocateProducerIDs func(context.Context) (first, count int64, err error)
	// Admin serves the cold APIs.
	Admin *admin.Handlers
	// Workers runs what may sleep; Submit never blocks.
	Workers storage.Executor
	// Quotas are those of clients. Default: none.
	Quotas *quota.Manager
	// Logger defaults to slog.Default().
	Logger *slog.Logger

	// FetchMaxBytes bounds what one fetch of a consumer may ask for
	// (fetch.max.bytes). Default 55 MiB.
	FetchMaxBytes int32
	// FetchSessionSlots bounds the fetch sessions
	// (max.incremental.fetch.session.cache.slots). Default 1000.
	FetchSessionSlots int
}

// Engine answers requests. It implements netio.Handler: all its methods are
// called by the loops of one netio.Server.
type Engine struct {
	config            Config
	log               *slog.Logger
	apiVersionsBodies atomic.Pointer[apiVersionsBodies] // nil until asked for
	sessions          *sessionCache
	quotas            *quota.Manager
	advertised        advertised
	producerIDs       producerIDs
	checks            checkLane
	groups            *groups
	complained        atomic.Int64  // second of the last complaint
	quotaRevision     meta.Revision // of the quotas in force; guarded by groups.following

	// ctx ends when the engine is closed; cold requests carry it.
	ctx    context.Context
	cancel context.CancelFunc
}

// New returns an engine ready to be given to netio.NewServer.
func New(config Config) *Engine {
	if config.FetchMaxBytes <= 0 {
		config.FetchMaxBytes = defaultFetchMaxBytes
	}
	if config.FetchSessionSlots <= 0 {
		config.FetchSessionSlots = defaultFetchSessionSlots
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.Quotas == nil {
		config.Quotas = quota.New(quota.Settings{})
	}
	e := &Engine{
		config:   config,
		quotas:   config.Quotas,
		log:      config.Logger,
		sessions: newSessionCache(config.FetchSessionSlots),
		checks:   newCheckLane(config.Workers),
	}
	e.producerIDs.allocate = config.AllocateProducerIDs
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.groups = newGroups(e)
	return e
}

// Close cancels the cold requests that are under way, and gives the groups up.
func (e *Engine) Close() {
	e.cancel()
	e.groups.Close()
}

// image is the current state of the cluster.
func (e *Engine) image() *meta.Image { return e.config.Image() }

// conn is what the engine keeps of a connection.
type conn struct {
	net  *netio.Conn
	loop *loop
	// stalled counts produce requests whose batches are with a worker; while
	// there are any, later produce requests queue up here, so that the log sees
	// the connection's batches in order.
	stalled int
	queue   []*netio.Request
	// parked lists the requests that wait for partitions, to be let go when the
	// connection closes.
	parked waiterList

	quota      quota.Client
	mutedUntil netio.Instant // by a quota
}

// Opened implements netio.Handler.
func (e *Engine) Opened(c *netio.Conn) {
	c.State = &conn{net: c, loop: e.loopOf(c.Loop())}
	e.opened(c)
}

// loopOf returns the engine's side of a loop, made on first use.
func (e *Engine) loopOf(l *netio.Loop) *loop {
	if lp, ok := l.State.(*loop); ok {
		return lp
	}
	lp := newLoop(e, l)
	l.State = lp
	return lp
}

// Pipelined implements netio.Handler.
func (e *Engine) Pipelined(payload []byte) bool {
	if len(payload) < 2 {
		return false
	}
	api := lookupAPI(int16(payload[0])<<8 | int16(payload[1]))
	return api != nil && api.Pipelined
}

// Request implements netio.Handler.
func (e *Engine) Request(nc *netio.Conn, r *netio.Request) {
	c := nc.State.(*conn)
	if c.stalled > 0 {
		// Only pipelined requests get here while others are unanswered.
		c.queue = append(c.queue, r)
		return
	}
	c.loop.dispatch(c, r)
}

// EndTurn implements netio.Handler.
func (e *Engine) EndTurn(l *netio.Loop) {
	if lp, ok := l.State.(*loop); ok {
		lp.endTurn()
	}
}

// Drain implements netio.Handler: parked requests are answered with what there
// is, as if their time had come; members of groups are sent elsewhere.
func (e *Engine) Drain(l *netio.Loop) {
	e.groups.Close()
	if lp, ok := l.State.(*loop); ok {
		lp.drain()
	}
}

// Closed implements netio.Handler.
func (e *Engine) Closed(nc *netio.Conn, _ error) {
	c := nc.State.(*conn)
	for w := c.parked.head; w != nil; w = c.parked.head {
		w.abandon()
	}
	for i, r := range c.queue {
		c.queue[i] = nil
		r.NoReply()
	}
	c.queue = c.queue[:0]
}

// call is one request while its handler runs. It is the loop's scratch: a
// handler that answers later copies what it needs.
type call struct {
	loop   *loop
	conn   *conn
	req    *netio.Request
	api    *API
	header wire.RequestHeader
	// taken says that the request has found an owner that will end it; until
	// then a panic of the handler does.
	taken bool
	// began is when the request's time began to count, zero if no quota asks;
	// exempt says that it does not count after all.
	began  netio.Instant
	exempt bool
}

// dispatch starts a request.
func (lp *loop) dispatch(c *conn, r *netio.Request) {
	k := &lp.call
	k.conn, k.req, k.api, k.taken = c, r, nil, false
	defer lp.recoverHandler(r)
	var err error
	k.header, err = wire.ParseRequestHeader(r.Payload(), flexible)
	if err != nil {
		k.fail(err.Error())
		return
	}
	k.api = lookupAPI(k.header.Key)
	lp.stats.requests.Began(k.header.Key, k.header.Version, len(r.Payload()))
	if lp.engine.quotas.Any() {
		k.meter()
		defer k.metered()
	}
	switch {
	case k.api == nil:
		k.fail("unknown or unsupported API key")
	case (k.header.Version < k.api.Min || k.header.Version > k.api.Max) && k.header.Key != apiVersionsKey:
		k.fail(fmt.Sprintf("%s version is not in %d–%d", k.api.Name, k.api.Min, k.api.Max))
	case k.api.onLoop != nil:
		k.api.onLoop(lp, k)
	default:
		lp.cold(k)
	}
}

// recoverHandler ends the request whose handler panicked, and its connection
// with it; everybody else goes on.
func (lp *loop) recoverHandler(r *netio.Request) {
	if v := recover(); v != nil {
		lp.engine.logPanic(r, v)
		if lp.call.taken {
			// Where the request stands is not known: its memory is the price.
			lp.call.conn.net.Close(errPanic)
			return
		}
		r.Fail(errPanic)
	}
}

// recoverPanic is recoverHandler for requests that have an owner.
func (lp *loop) recoverPanic(r *netio.Request) {
	if v := recover(); v != nil {
		lp.engine.logPanic(r, v)
		if c := r.Conn(); c != nil { // nil if it was answered
			c.Close(errPanic)
		}
	}
}

var errPanic = errors.New("engine: a request handler panicked")

// logPanic logs a panic with its stack.
func (e *Engine) logPanic(r *netio.Request, v any) {
	var peer netip.AddrPort
	if c := r.Conn(); c != nil {
		peer = c.RemoteAddr()
	}
	e.log.Error("panic in a request handler", "peer", peer, "panic", v, "stack", string(debug.Stack()))
}

// fail closes the connection, once earlier replies are out, for a fault of the
// client's.
func (k *call) fail(reason string) {
	k.taken = true
	k.req.Fail(&netio.ProtocolError{API: k.header.Key, Version: k.header.Version, Reason: reason})
}

// replyBody answers with a body rendered before.
func (k *call) replyBody(body []byte) {
	k.taken = true
	a := k.answer()
	a.begin()
	k.loop.mute(k.conn, quota.Request, 0, k.loop.requestThrottle(k.conn))
	out := a.req.Out()
	out.Buf = append(out.Buf, body...)
	a.req.Done()
}

// answer is what is needed to answer a request after its call is over.
type answer struct {
	req           *netio.Request
	correlationID int32
	key, version  int16
}

func (k *call) answer() answer {
	return answer{req: k.req, correlationID: k.header.CorrelationID, key: k.header.Key, version: k.header.Version}
}

// begin puts the response header into the reply.
func (a *answer) begin() {
	out := a.req.Out()
	out.Buf = wire.AppendResponseHeader(out.Buf[:0], a.key, a.version, a.correlationID, flexible(a.key, a.version))
}
