package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/engine/group"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests of consumer groups: the way between connections and engine/group.
//
// The coordinator never waits, so its requests run on the loop. What it answers
// later (a JoinGroup that waits for other members, a commit that waits for
// replicas) parks without a goroutine: the answer comes back as a task of the
// loop. Requests too large to be decoded on a loop run on a goroutine, as do the
// lists of everything.

// groups is the coordinator of this node and what belongs to it.
type groups struct {
	*group.Coordinator
	log      groupLog
	settings atomic.Pointer[groupSettings]

	following sync.Mutex // one image at a time
	revision  meta.Revision
}

// groupSettings are the coordinator's settings under one configuration.
type groupSettings struct {
	broker   *config.Broker
	settings group.Settings
}

// newGroups makes the coordinator of an engine.
func newGroups(e *Engine) *groups {
	g := &groups{log: groupLog{replicas: e.config.Replicas, workers: e.config.Workers}}
	g.log.partitions.Store(&map[int32]*groupPartition{})
	g.Coordinator = group.New(group.Config{
		NodeID:      e.config.NodeID,
		Image:       e.config.Image,
		Log:         &g.log,
		Settings:    func() *group.Settings { return g.under(e.config.Admin.Broker()) },
		GroupConfig: e.groupConfig,
		Executor:    e.config.Workers,
		Logger:      e.log,
	})
	g.log.coordinator = g.Coordinator
	return g
}

// under are the settings under a configuration, which is the same pointer while
// nothing changes.
func (g *groups) under(b *config.Broker) *group.Settings {
	if s := g.settings.Load(); s != nil && s.broker == b {
		return &s.settings
	}
	ms := func(n int32) time.Duration { return time.Duration(n) * time.Millisecond }
	c := &b.Consumers
	s := &groupSettings{broker: b, settings: group.Settings{
		InitialRebalanceDelay:  ms(b.GroupInitialRebalanceDelayMs),
		MinSessionTimeout:      ms(b.GroupMinSessionTimeoutMs),
		MaxSessionTimeout:      ms(b.GroupMaxSessionTimeoutMs),
		MaxSize:                int(b.GroupMaxSize),
		OffsetMetadataMaxBytes: int(b.OffsetMetadataMaxBytes),
		OffsetsRetention:       time.Duration(b.OffsetsRetentionMinutes) * time.Minute,
		ExpiryInterval:         time.Duration(b.OffsetsRetentionCheckMs) * time.Millisecond,
		CommitTimeout:          ms(b.OffsetsCommitTimeoutMs),
		Codec:                  record.Codec(b.OffsetsTopicCodec),
		BatchBytesMax:          int(b.TopicDefaults.MaxMessageBytes),

		ConsumerEnabled:              slices.Contains(c.Protocols, "consumer"),
		ConsumerHeartbeatInterval:    ms(c.HeartbeatIntervalMs),
		ConsumerSessionTimeout:       ms(c.SessionTimeoutMs),
		ConsumerAssignmentInterval:   ms(c.AssignmentIntervalMs),
		ConsumerMaxSize:              int(c.MaxSize),
		ConsumerAssignors:            c.Assignors,
		ConsumerMigration:            strings.ToLower(c.MigrationPolicy),
		ConsumerRegexRefreshInterval: ms(c.RegexRefreshIntervalMs),
	}}
	g.settings.Store(s)
	return &s.settings
}

// groupConfig is what is set for a group; zero where nothing is.
func (e *Engine) groupConfig(id string) group.GroupConfig {
	overrides := e.image().GroupConfigs[id]
	if len(overrides) == 0 {
		return group.GroupConfig{}
	}
	ms := func(n int32) time.Duration { return time.Duration(n) * time.Millisecond }
	c := e.config.Admin.Broker().Group(overrides)
	interval := ms(c.ConsumerAssignmentIntervalMs)
	return group.GroupConfig{
		ConsumerHeartbeatInterval:  ms(c.ConsumerHeartbeatIntervalMs),
		ConsumerSessionTimeout:     ms(c.ConsumerSessionTimeoutMs),
		ConsumerAssignmentInterval: &interval,
	}
}

// Groups is the group coordinator of this node.
func (e *Engine) Groups() *group.Coordinator { return e.groups.Coordinator }

// ImageChanged follows the cluster's state: which partitions of the offsets topic
// are led here, and which topics are gone. It is called after the replicas have
// been told, for every image and once more when they know their partitions.
func (e *Engine) ImageChanged(_, next *meta.Image) {
	g := e.groups
	g.following.Lock()
	defer g.following.Unlock()
	if next.Revision < g.revision {
		next = e.image()
	}
	g.revision = next.Revision
	if next.QuotaRevision != e.quotaRevision {
		e.quotas.Update(next.Quotas)
		e.quotaRevision = next.QuotaRevision
	}
	g.log.imageChanged(next)
	g.Coordinator.ImageChanged(next)
}

// groupClient is who asks, as groups know it.
func (k *call) groupClient() group.Client {
	return group.Client{
		ClientID: string(k.header.ClientID),
		Host:     "/" + k.conn.net.RemoteAddr().Addr().Unmap().String(),
		Version:  k.header.Version,
	}
}

// groupOp is a request that the coordinator answers when it can.
type groupOp struct {
	waiterLinks
	answer
	loop  *loop
	resp  kmsg.Response
	state atomic.Int32
	over  bool // the connection has closed; the loop's own
}

// The states of a groupOp.
const (
	groupAsking   int32 = iota // the coordinator's method has not returned
	groupParked                // it has, and the answer has yet to come
	groupAnswered              // the answer is there
)

// byGroups serves an API by a method of the coordinator that takes a function for
// the answer.
func byGroups[Q kmsg.Request, R kmsg.Response](handle func(*group.Coordinator, Q, group.Client, func(R))) func(*loop, *call) {
	return func(lp *loop, k *call) {
		req := kmsg.RequestForKey(k.header.Key)
		op := &groupOp{answer: k.answer(), loop: lp}
		op.conn = k.conn
		client := k.groupClient()
		ask := func() { handle(lp.engine.groups.Coordinator, req.(Q), client, func(r R) { op.done(r) }) }
		if !k.small() {
			body, api := k.header.Body, k.api
			k.taken = true
			op.park()
			go op.ask(req, body, api, ask)
			return
		}
		if !k.decode(req) {
			return
		}
		k.taken = true
		ask()
		if !op.state.CompareAndSwap(groupAsking, groupParked) {
			op.reply()
			return
		}
		op.req.ReleasePayload()
		op.park()
	}
}

// ask decodes and asks on a goroutine.
func (op *groupOp) ask(req kmsg.Request, body []byte, api *API, ask func()) {
	op.state.Store(groupParked)
	if err := decodeCold(req, op.version, body); err != nil {
		op.loop.net.Post(&groupFailure{op: op, err: &netio.ProtocolError{API: api.Key, Version: op.version, Reason: err.Error()}})
		return
	}
	defer func() {
		if v := recover(); v != nil {
			op.loop.engine.logPanic(op.req, v)
			op.loop.net.Post(&groupFailure{op: op, err: errPanic})
		}
	}()
	ask()
}

// done hears of the answer, on any goroutine.
func (op *groupOp) done(resp kmsg.Response) {
	op.resp = resp
	if op.state.Swap(groupAnswered) == groupParked {
		op.loop.net.Post(op)
	}
}

// park lets the request wait.
func (op *groupOp) park() {
	op.conn.parked.add(op)
	op.req.Park()
}

// Run implements netio.Task: the answer of a parked request has come.
func (op *groupOp) Run(*netio.Loop) {
	if op.over {
		return
	}
	op.conn.parked.remove(op)
	op.req.Unpark()
	op.reply()
}

func (op *groupOp) reply() {
	op.begin()
	op.resp.SetVersion(op.version)
	op.loop.throttle(op.conn, op.resp)
	out := op.req.Out()
	out.Buf = op.resp.AppendTo(out.Buf)
	op.loop.countErrors(op.key, op.resp)
	op.req.Done()
}

func (op *groupOp) links() *waiterLinks        { return &op.waiterLinks }
func (op *groupOp) netRequest() *netio.Request { return op.req }

// advanced implements waiter; no partition is waited for.
func (op *groupOp) advanced(int) {}

// expire implements waiter; the coordinator has the timers.
func (op *groupOp) expire() {}

// abandon implements waiter: the member lives on until its timeout, the answer is
// dropped.
func (op *groupOp) abandon() {
	op.conn.parked.remove(op)
	op.over = true
	op.req.NoReply()
}

// groupFailure closes the connection of a request that could not be asked.
type groupFailure struct {
	op  *groupOp
	err error
}

// Run implements netio.Task.
func (f *groupFailure) Run(*netio.Loop) {
	if op := f.op; !op.over {
		op.conn.parked.remove(op)
		op.over = true
		op.req.Fail(f.err)
	}
}

// atOnce serves an API by a method of the coordinator that has the answer at hand:
// on the loop if the request is small, else on a goroutine.
func atOnce[Q kmsg.Request, R kmsg.Response](handle func(*group.Coordinator, Q, group.Client) R) func(*loop, *call) {
	return func(lp *loop, k *call) {
		req := kmsg.RequestForKey(k.header.Key)
		client := k.groupClient()
		if !k.small() {
			lp.offLoop(k, req, func(op *coldOp, req kmsg.Request) kmsg.Response {
				return handle(op.engine.groups.Coordinator, req.(Q), client)
			})
			return
		}
		if k.decode(req) {
			k.reply(handle(lp.engine.groups.Coordinator, req.(Q), client))
		}
	}
}

// offLoopAlways is atOnce for answers that may be long.
func offLoopAlways[Q kmsg.Request, R kmsg.Response](handle func(*group.Coordinator, Q, group.Client) R) func(*loop, *call) {
	return func(lp *loop, k *call) {
		client := k.groupClient()
		lp.offLoop(k, kmsg.RequestForKey(k.header.Key), func(op *coldOp, req kmsg.Request) kmsg.Response {
			return handle(op.engine.groups.Coordinator, req.(Q), client)
		})
	}
}

// findCoordinator serves v0–v6: who coordinates a group. The offsets topic is
// made for the first group that asks (KafkaApis.getCoordinator).
func (lp *loop) findCoordinator(k *call) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	if !k.small() || lp.engine.image().Topics[group.OffsetsTopic] == nil {
		lp.offLoop(k, req, func(op *coldOp, q kmsg.Request) kmsg.Response {
			e, req := op.engine, q.(*kmsg.FindCoordinatorRequest)
			if req.CoordinatorType == groupCoordinator && e.image().Topics[group.OffsetsTopic] == nil {
				e.config.Admin.CreateInternalTopic(e.ctx, group.OffsetsTopic)
				e.waitGroupsLoaded(req.CoordinatorKey, req.CoordinatorKeys)
			}
			return e.findCoordinator(req, op.client.Listener)
		})
		return
	}
	if k.decode(req) {
		k.reply(lp.engine.findCoordinator(req, k.conn.net.Listener()))
	}
}

// Kinds of coordinators (FindCoordinatorRequest.CoordinatorType).
const (
	groupCoordinator = 0
	txnCoordinator   = 1
	shareCoordinator = 2
)

// groupsLoadWait bounds how long the first group of a cluster waits until the
// partitions of the new offsets topic are loaded, on workers.
const groupsLoadWait = time.Second

// waitGroupsLoaded waits until findCoordinator can answer for the groups. It
// may sleep.
func (e *Engine) waitGroupsLoaded(name string, names []string) {
	topic := e.image().Topics[group.OffsetsTopic]
	if topic == nil || len(topic.Partitions) == 0 {
		return
	}
	deadline := time.Now().Add(groupsLoadWait)
	for _, name := range append(names[:len(names):len(names)], name) {
		p := group.PartitionFor(name, len(topic.Partitions))
		for topic.Partitions[p].Leader == e.config.NodeID && !e.groups.Serves(p) && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
	}
}

func (e *Engine) findCoordinator(q *kmsg.FindCoordinatorRequest, listener string) *kmsg.FindCoordinatorResponse {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if q.Version < 4 {
		c := e.coordinatorOf(q.CoordinatorType, q.CoordinatorKey, listener)
		if c.ErrorCode == 0 {
			*c.ErrorMessage = "NONE" // as Kafka says it, Errors.NONE
		}
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = c.ErrorCode, c.ErrorMessage, c.NodeID, c.Host, c.Port
		return resp
	}
	resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, len(q.CoordinatorKeys))
	for i, key := range q.CoordinatorKeys {
		resp.Coordinators[i] = e.coordinatorOf(q.CoordinatorType, key, listener)
		if q.CoordinatorType == shareCoordinator {
			resp.Coordinators[i].ErrorMessage = new(string) // Kafka refuses its keys without a word
		}
	}
	return resp
}

// coordinatorOf finds the coordinator of one key.
func (e *Engine) coordinatorOf(kind int8, key, listener string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key, out.NodeID, out.Port, out.ErrorMessage = key, -1, -1, new(string)
	fail := func(err *kerr.Error) kmsg.FindCoordinatorResponseCoordinator {
		out.ErrorCode, out.ErrorMessage = err.Code, &err.Description
		return out
	}
	switch kind {
	case groupCoordinator:
	case txnCoordinator:
		return fail(kerr.CoordinatorNotAvailable) // there are no transactions
	default:
		return fail(kerr.InvalidRequest)
	}
	im := e.image()
	topic := im.Topics[group.OffsetsTopic]
	if topic == nil || len(topic.Partitions) == 0 {
		return fail(kerr.CoordinatorNotAvailable)
	}
	p := group.PartitionFor(key, len(topic.Partitions))
	leader := im.Broker(topic.Partitions[p].Leader)
	// A partition that this node is still loading is not offered: kafka-go's Conn
	// asks for the coordinator until there is one, and then tries nothing again.
	if leader == nil || leader.Fenced || leader.ID == e.config.NodeID && !e.groups.Serves(p) {
		return fail(kerr.CoordinatorNotAvailable)
	}
	at, ok := leader.Endpoint(listener)
	if !ok {
		return fail(kerr.CoordinatorNotAvailable)
	}
	out.NodeID, out.Host, out.Port = leader.ID, at.Host, at.Port
	return out
}
