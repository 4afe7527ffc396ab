package loadgen

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
)

const (
	// errorPause is how long a producer rests after a refused batch, so that a
	// closed loop does not spin on errors.
	errorPause = 50_000_000 // ns
	// enumeratedMax bounds the records that are entered as unfinished one by
	// one at the end of a run that fell far behind.
	enumeratedMax = 50_000_000
)

// part is one partition as one producer writes it.
type part struct {
	topic string
	index int32
	// stream is this pair's number in the run, in the stamps.
	stream uint32
	// nextNumber is that of the next record of the stream; nextSequence the
	// idempotent producer's.
	nextNumber   uint64
	nextSequence int32
	open         *batch
	// acked has the numbers that were acknowledged; verify only.
	acked intervals
}

// producer is one connection that sends. A record's way:
//
//	arrivals → open (a batch per partition fills) → sealed (full, or lingered)
//	→ sending (handed to the socket, perhaps in part) and inFlight → answered
//
// Records are pulled from the schedule when there is room for them and not
// before: behind a slow broker the backlog is the schedule itself, and costs no
// memory. Every record keeps its intended time all the same.
type producer struct {
	run  *run
	loop *loopState
	conn *netio.Conn // nil while there is none
	home endpoint

	parts    []*part
	current  int       // the partition that records without keys go to
	arrivals *arrivals // nil in a closed loop
	left     int64     // records still to be made
	keys     *keyPicker
	rng      *rand.Rand
	shapes   int // turns through the loop's shapes

	open, sealed      []*batch
	sending, inFlight []*batch
	sentBytes         int // of sending[0]
	free              []*batch

	timer       netio.Timer
	now         int64 // of this pump
	freedAt     int64 // when a slot became free last
	pausedUntil int64
	correlation int32
	dirty       bool

	producerID    int64
	producerEpoch int16
	needsID       bool

	response wire.ProduceResponse
}

// Run is the timer's: something is due.
func (p *producer) Run(*netio.Loop) { p.loop.markDirty(p) }

func (p *producer) opened(c *netio.Conn) {
	p.conn = c
	p.freedAt = p.run.now()
	p.loop.markDirty(p)
}

func (p *producer) writable() { p.loop.markDirty(p) }

func (p *producer) isDirty() *bool { return &p.dirty }

func (p *producer) endpoint() *endpoint { return &p.home }

// turn does what can be done now; once per turn of the loop.
func (p *producer) turn() {
	if p.conn == nil || !p.loop.started {
		return
	}
	p.now = p.run.now()
	if p.now < 0 {
		p.loop.netLoop.AddTimer(&p.timer, p.run.instant(0))
		return
	}
	for {
		p.pull()
		p.sealLingered()
		if !p.launch() {
			break
		}
	}
	p.flush()
	p.rearm()
}

// slots is how many more requests may be on the way.
func (p *producer) slots() int {
	if p.now < p.pausedUntil {
		return 0
	}
	if p.run.workload.Acks == 0 {
		return p.run.workload.InFlight - len(p.sending)
	}
	return p.run.workload.InFlight - len(p.inFlight)
}

// exhausted says that no more records are to be made.
func (p *producer) exhausted() bool {
	if p.left <= 0 {
		return true
	}
	if p.arrivals == nil {
		return p.now >= p.loop.window.to
	}
	return p.arrivals.head >= p.loop.window.to
}

// pull takes records from the schedule. The batch that fills takes what is due
// within its linger ahead of time, so that one timer per batch is enough.
func (p *producer) pull() {
	if p.arrivals == nil {
		for len(p.sealed) < p.slots() && !p.exhausted() {
			p.makeNow()
		}
		return
	}
	linger := int64(p.run.workload.Linger)
	for len(p.sealed) < p.run.workload.InFlight && !p.exhausted() {
		due := p.arrivals.head
		if len(p.open) > 0 && due > max(p.now, p.open[0].intended[0]+linger) {
			return
		}
		p.add(due)
		p.arrivals.advance()
	}
}

// makeNow fills a batch in a closed loop, at once where it has a shape.
func (p *producer) makeNow() {
	if !p.run.shaped {
		p.add(p.now)
		return
	}
	b := p.begin(p.parts[p.current])
	b.count = int(min(int64(len(b.shape.ends)-1), p.left))
	b.intended = append(b.intended, p.now)
	p.left -= int64(b.count)
	p.seal(b, p.now)
}

// add puts a record into its partition's batch.
func (p *producer) add(due int64) {
	where := p.parts[p.current]
	keyBytes, key := -1, int64(0)
	if p.keys != nil {
		key, keyBytes = p.keys.next(), p.keys.bytes
		where = p.parts[scatter(key, len(p.parts))]
	}
	b := where.open
	p.left--
	if p.run.shaped {
		if b == nil {
			b = p.begin(where)
		}
		b.intended = append(b.intended, due)
		b.count++
		if b.count == len(b.shape.ends)-1 || p.left == 0 {
			p.seal(b, due)
		}
		return
	}
	valueBytes := p.run.workload.Record.draw(p.rng)
	l := &p.run.limits
	if b != nil && !l.fits(b.count, b.bytes, recordSize(b.count, keyBytes, valueBytes)) {
		p.seal(b, due)
		if p.keys == nil {
			where = p.parts[p.current]
		}
		b = nil
	}
	if b == nil {
		b = p.begin(where)
	}
	b.bytes += recordSize(b.count, keyBytes, valueBytes)
	b.count++
	b.sizes = append(b.sizes, valueBytes)
	if p.keys != nil {
		b.keys = append(b.keys, key)
	}
	if p.arrivals != nil || len(b.intended) == 0 {
		b.intended = append(b.intended, due)
	}
	// Full where a record of this size would not fit any more.
	if !l.fits(b.count, b.bytes, recordSize(b.count, keyBytes, valueBytes)) || p.left == 0 {
		p.seal(b, due)
	}
}

// begin opens a batch.
func (p *producer) begin(where *part) *batch {
	var b *batch
	if n := len(p.free); n > 0 {
		b = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		b = &batch{sequence: -1}
	}
	b.part = where
	if p.run.shaped {
		b.shape = p.loop.shapes[p.shapes%len(p.loop.shapes)]
		p.shapes++
	}
	where.open = b
	p.open = append(p.open, b)
	return b
}

// seal ends a batch: it waits for its turn from ready on.
func (p *producer) seal(b *batch, ready int64) {
	for i := range p.open {
		if p.open[i] == b {
			p.open = append(p.open[:i], p.open[i+1:]...)
			break
		}
	}
	where := b.part
	where.open = nil
	if p.keys == nil {
		p.current = (p.current + 1) % len(p.parts)
	}
	if p.arrivals == nil {
		b.intended[0] = p.now
	}
	b.ready = ready
	b.number = where.nextNumber
	where.nextNumber += uint64(b.count)
	if p.run.workload.Idempotent {
		p.giveSequence(b)
	}
	p.sealed = append(p.sealed, b)
}

// giveSequence numbers a batch for the idempotent producer; the numbers wrap.
func (p *producer) giveSequence(b *batch) {
	b.sequence = b.part.nextSequence
	b.part.nextSequence = int32((int64(b.sequence) + int64(b.count)) & math.MaxInt32)
}

// sealLingered ends batches that have waited long enough, while they could
// leave: behind a slow broker they rather fill.
func (p *producer) sealLingered() {
	if p.arrivals == nil {
		return
	}
	for len(p.open) > 0 && len(p.sealed) < p.slots() {
		ready := p.open[0].intended[0] + int64(p.run.workload.Linger)
		if ready > p.now {
			return
		}
		p.seal(p.open[0], ready)
	}
}

// launch moves sealed batches on and reports whether there was one.
func (p *producer) launch() (any bool) {
	for len(p.sealed) > 0 && p.slots() > 0 && p.sealed[0].ready <= p.now {
		b := p.sealed[0]
		p.sealed = popFront(p.sealed)
		p.correlation++
		b.correlation = p.correlation
		p.loop.encoder.encode(b, p, p.loop.netLoop.NowMs())
		if p.arrivals != nil {
			p.loop.lateness.Record((p.now - max(b.ready, p.freedAt, p.pausedUntil)) / 1000)
		}
		b.sent = p.now
		p.sending = append(p.sending, b)
		if p.run.workload.Acks != 0 {
			p.inFlight = append(p.inFlight, b)
		}
		any = true
	}
	return any
}

func popFront(q []*batch) []*batch {
	n := copy(q, q[1:])
	q[n] = nil
	return q[:n]
}

// flush gives the socket what it takes.
func (p *producer) flush() {
	if len(p.sending) == 0 {
		return
	}
	tail := p.loop.encoder.tail()
	pieces := p.loop.pieces[:0]
	for _, b := range p.sending {
		pieces = append(pieces, b.head, b.body, tail)
	}
	p.loop.pieces = pieces
	for skip := p.sentBytes; skip > 0; {
		n := min(skip, len(pieces[0]))
		pieces[0] = pieces[0][n:]
		if skip -= n; len(pieces[0]) == 0 {
			pieces = pieces[1:]
		}
	}
	n, err := p.conn.Send(pieces)
	if err != nil {
		return // closed follows
	}
	n += p.sentBytes
	for len(p.sending) > 0 {
		b := p.sending[0]
		size := b.wireBytes() + len(tail)
		if n < size {
			break
		}
		n -= size
		p.sending = popFront(p.sending)
		if p.run.workload.Acks == 0 {
			p.finished(b, p.run.now())
		}
	}
	p.sentBytes = n
	if p.run.workload.Acks == 0 && p.arrivals == nil && len(p.sending) == 0 && !p.exhausted() {
		p.loop.netLoop.Post(p) // nothing will come back to wake us
	}
}

// rearm sets the timer to when the next batch is ready.
func (p *producer) rearm() {
	next := int64(never)
	if p.now < p.pausedUntil {
		next = p.pausedUntil
	} else if p.slots() > 0 {
		if len(p.sealed) > 0 {
			next = p.sealed[0].ready
		}
		if len(p.open) > 0 && p.arrivals != nil {
			next = min(next, p.open[0].intended[0]+int64(p.run.workload.Linger))
		}
	}
	if next == never {
		p.loop.netLoop.StopTimer(&p.timer)
		return
	}
	p.loop.netLoop.AddTimer(&p.timer, p.run.instant(next))
}

// frame takes a response.
func (p *producer) frame(payload []byte) {
	now := p.run.now()
	version := p.loop.encoder.version
	correlation, body, err := wire.ParseResponseHeader(payload, wire.KeyProduce, version >= produceFlexible)
	if err == nil {
		err = p.response.Decode(version, body)
	}
	switch {
	case err != nil:
	case len(p.inFlight) == 0 || p.inFlight[0].correlation != correlation:
		err = fmt.Errorf("response %d is not the one that is due", correlation)
	case len(p.response.Topics) != 1 || len(p.response.Topics[0].Partitions) != 1:
		err = fmt.Errorf("response names %d topics", len(p.response.Topics))
	}
	if err != nil {
		p.conn.Close(fmt.Errorf("bad Produce response: %w", err))
		return
	}
	b := p.inFlight[0]
	if len(p.inFlight) == p.run.workload.InFlight {
		p.freedAt = now
	}
	p.loop.markDirty(p)
	if code := p.response.Topics[0].Partitions[0].ErrorCode; code != 0 {
		p.refused(b, code, now)
		return
	}
	p.inFlight = popFront(p.inFlight)
	p.finished(b, now)
}

// finished counts a batch as done.
func (p *producer) finished(b *batch, now int64) {
	s, w := p.loop.lines[lineAck], p.loop.window
	n := int64(b.count)
	s.count(w, now, counts{records: n, bytes: int64(b.wireBytes()), requests: 1})
	if len(b.intended) == b.count {
		s.latencies(w, b.intended, now)
	} else {
		s.latency(w, b.intended[0], now, n)
	}
	p.countDue(b)
	if p.run.workload.Mode == ModeVerify {
		b.part.acked.add(b.number, b.number+uint64(b.count))
	}
	p.recycle(b)
}

// countDue notes when the records were due that consumers must have seen by the
// end.
func (p *producer) countDue(b *batch) {
	if p.run.workload.Mode != ModeE2E {
		return
	}
	if len(b.intended) < b.count {
		countSecond(&p.loop.dueBySecond, b.intended[0], int64(b.count))
		return
	}
	for _, t := range b.intended {
		countSecond(&p.loop.dueBySecond, t, 1)
	}
}

// refused takes a batch that the broker answered with an error. Verify sends
// it again, over a new connection, where the broker says that it may; all
// others count it and go on.
func (p *producer) refused(b *batch, code int16, now int64) {
	p.loop.lines[lineAck].failed(p.loop.window, now, code, int64(b.count))
	if p.run.workload.Mode == ModeVerify {
		err := codeError(code)
		if p.run.workload.Idempotent {
			p.needsID = p.needsID || wantsNewID(code)
			if retriable(code) || p.needsID {
				p.conn.Close(err)
				return
			}
		}
		p.run.problem("producer %d, %s-%d: records %d to %d refused: %v", p.home.number, b.part.topic, b.part.index,
			b.number, b.number+uint64(b.count)-1, err)
	}
	p.inFlight = popFront(p.inFlight)
	p.recycle(b)
	p.pausedUntil = now + errorPause
}

func (p *producer) recycle(b *batch) {
	b.reset()
	p.free = append(p.free, b)
}

// closed has the connection lost. What was on the way is sent again by an
// idempotent producer; of another's nobody knows whether it arrived.
func (p *producer) closed(reason error) {
	p.conn = nil
	p.loop.netLoop.StopTimer(&p.timer)
	if p.run.workload.Mode != ModeVerify {
		p.run.lost(p, reason)
		return
	}
	p.sentBytes = 0
	p.sending = p.sending[:0]
	if p.run.workload.Idempotent {
		p.sealed = append(p.inFlight, p.sealed...)
		p.inFlight = nil
	} else {
		for _, b := range p.inFlight {
			p.recycle(b)
		}
		p.inFlight = p.inFlight[:0]
	}
	p.run.lost(p, reason)
}

// renew gives an idempotent producer another identity: its sequences begin
// anew, also those of the batches that are to be sent again.
func (p *producer) renew(id int64, epoch int16) {
	p.producerID, p.producerEpoch, p.needsID = id, epoch, false
	for _, part := range p.parts {
		part.nextSequence = 0
	}
	for _, b := range p.sealed {
		p.giveSequence(b)
	}
}

// idle says that the producer has nothing more to do.
func (p *producer) idle() bool {
	p.now = p.run.now()
	waiting := len(p.sealed) + len(p.sending) + len(p.inFlight)
	if p.arrivals != nil {
		waiting += len(p.open)
	}
	return waiting == 0 && p.exhausted()
}

// behind is how long the oldest record that is due has waited to be sent.
func (p *producer) behind(now int64) int64 {
	oldest := int64(never)
	switch {
	case p.arrivals == nil:
		return 0
	case len(p.sealed) > 0:
		oldest = p.sealed[0].intended[0]
	case len(p.open) > 0:
		oldest = p.open[0].intended[0]
	case !p.exhausted():
		oldest = p.arrivals.head
	}
	return max(0, now-oldest)
}

// giveUp counts what was due and has no answer.
func (p *producer) giveUp(now int64) {
	s, w := p.loop.lines[lineAck], p.loop.window
	queues := [][]*batch{p.inFlight, p.sealed}
	if p.arrivals != nil {
		queues = append(queues, p.open)
	}
	if p.run.workload.Acks == 0 {
		queues = append(queues, p.sending)
	}
	for _, q := range queues {
		for _, b := range q {
			p.countDue(b)
			if len(b.intended) == b.count {
				for _, t := range b.intended {
					s.unanswered(w, t, now, 1)
				}
			} else {
				s.unanswered(w, b.intended[0], now, int64(b.count))
			}
		}
	}
	if p.arrivals == nil || p.left <= 0 {
		return
	}
	for n := 0; p.arrivals.head < min(now, w.to) && n < enumeratedMax; n++ {
		s.unanswered(w, p.arrivals.head, now, 1)
		if p.run.workload.Mode == ModeE2E {
			countSecond(&p.loop.dueBySecond, p.arrivals.head, 1)
		}
		p.arrivals.advance()
	}
}
