package loadgen

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/storage/record"
)

// fetchPause is how long a consumer rests after an error.
const fetchPause = 100_000_000 // ns

// readPart is one partition as a consumer reads it.
type readPart struct {
	place  placeKey
	offset int64 // of the next record
	begin  int64 // where it began, and begins again
	// end is where it may stop, or -1 while that is not known.
	end int64
	// highWatermark is what the last answer said, or -1.
	highWatermark int64
	// changed says that a fetch session has not heard of offset yet.
	changed bool
}

// consumer is one connection that fetches, with one request on the way, as
// Kafka's own consumer has it, in an incremental fetch session where the broker
// gives one (KIP-227).
type consumer struct {
	run  *run
	loop *loopState
	conn *netio.Conn
	home endpoint

	line   lineID
	rewind bool
	parts  []*readPart // by topic, then partition
	find   map[string][]*readPart

	request   wire.FetchRequest
	response  wire.FetchResponse
	session   int32
	epoch     int32
	out, rest []byte
	pieces    [1][]byte

	fetching    bool
	sent        int64
	correlation int32
	timer       netio.Timer
	pausedUntil int64
	dirty       bool
	// outOfRange asks for new offsets.
	outOfRange bool

	// What verify found; streams by number.
	streams          []*received
	corrupt, foreign int64

	// onValue is the method value, bound once.
	onValue func(offset record.Offset, value []byte)
	// Of the batch that is read: where, from which offset on, when.
	from record.Offset
	now  int64
	seen int64 // values of this run in it
}

func newConsumer(r *run, line lineID, rewind bool, places []placeKey) *consumer {
	c := &consumer{run: r, line: line, rewind: rewind, find: map[string][]*readPart{}}
	c.onValue = c.value
	for _, place := range places {
		part := &readPart{place: place, end: -1, highWatermark: -1, changed: true}
		c.parts = append(c.parts, part)
		byIndex := c.find[place.topic]
		for len(byIndex) <= int(place.partition) {
			byIndex = append(byIndex, nil)
		}
		byIndex[place.partition] = part
		c.find[place.topic] = byIndex
	}
	if r.workload.Mode == ModeVerify {
		c.streams = make([]*received, r.streams)
	}
	return c
}

func (c *consumer) Run(*netio.Loop) { c.loop.markDirty(c) }

func (c *consumer) opened(conn *netio.Conn) {
	c.conn = conn
	c.session, c.epoch, c.fetching, c.rest = 0, 0, false, nil
	c.loop.markDirty(c)
}

func (c *consumer) writable() { c.loop.markDirty(c) }

func (c *consumer) isDirty() *bool { return &c.dirty }

func (c *consumer) endpoint() *endpoint { return &c.home }

// turn sends the next request.
func (c *consumer) turn() {
	if c.conn == nil || !c.loop.started || c.outOfRange {
		return
	}
	now := c.run.now()
	if now < c.pausedUntil {
		c.loop.netLoop.AddTimer(&c.timer, c.run.instant(c.pausedUntil))
		return
	}
	if !c.fetching {
		c.fetching = true
		c.sent = now
		c.rest = c.appendRequest()
	}
	if len(c.rest) > 0 {
		c.pieces[0] = c.rest
		n, _ := c.conn.Send(c.pieces[:])
		c.rest = c.rest[n:]
	}
}

// appendRequest makes the frame of the next request.
func (c *consumer) appendRequest() []byte {
	f := &c.run.workload.Fetch
	version := c.run.fetchVersion
	c.correlation++
	dst := append(c.out[:0], 0, 0, 0, 0)
	dst = wire.AppendRequestHeader(dst, wire.KeyFetch, version, c.correlation, []byte(c.run.opts.ClientID), version >= fetchFlexible)
	req := &c.request
	req.ReplicaID, req.SessionID, req.SessionEpoch = -1, c.session, c.epoch
	req.MaxWaitMs, req.MinBytes, req.MaxBytes = int32(int64(f.Wait)/1e6), int32(f.MinBytes), int32(f.MaxBytes)
	req.Topics = req.Topics[:0]
	topic := ""
	for _, p := range c.parts {
		if c.epoch > 0 && !p.changed {
			continue
		}
		p.changed = false
		if len(req.Topics) == 0 || topic != p.place.topic {
			topic = p.place.topic
			req.Topics = addTopic(req.Topics, topic)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, wire.FetchPartition{
			Index: p.place.partition, CurrentLeaderEpoch: -1, FetchOffset: p.offset, LastFetchedEpoch: -1,
			LogStartOffset: -1, MaxBytes: int32(f.PartitionBytes), HighWatermark: wire.NoHighWatermark,
		})
	}
	dst = req.Append(dst, version)
	putFrameLength(dst)
	c.out = dst
	return dst
}

// addTopic appends a topic, with the arrays of the one that was in its place.
func addTopic(topics []wire.FetchTopic, name string) []wire.FetchTopic {
	if len(topics) < cap(topics) {
		topics = topics[:len(topics)+1]
	} else {
		topics = append(topics, wire.FetchTopic{})
	}
	t := &topics[len(topics)-1]
	t.Name = append(t.Name[:0], name...)
	t.Partitions = t.Partitions[:0]
	return topics
}

// frame takes a response.
func (c *consumer) frame(payload []byte) {
	c.now = c.run.now()
	version := c.run.fetchVersion
	correlation, body, err := wire.ParseResponseHeader(payload, wire.KeyFetch, version >= fetchFlexible)
	if err == nil && correlation != c.correlation {
		err = fmt.Errorf("response %d is not the one that is due", correlation)
	}
	if err == nil {
		err = c.response.Decode(version, body)
	}
	if err != nil {
		c.conn.Close(fmt.Errorf("bad Fetch response: %w", err))
		return
	}
	c.fetching = false
	c.loop.markDirty(c)
	s, w := c.loop.lines[c.line], c.loop.window
	if code := c.response.ErrorCode; code != 0 {
		c.sessionError(code)
		return
	}
	if c.session = c.response.SessionID; c.session != 0 {
		c.epoch++
	}
	s.latency(w, c.sent, c.now, 1)
	s.count(w, c.now, counts{requests: 1})
	for i := range c.response.Topics {
		t := &c.response.Topics[i]
		byIndex := c.find[string(t.Name)]
		for j := range t.Partitions {
			answer := &t.Partitions[j]
			if int(answer.Index) >= len(byIndex) || answer.Index < 0 || byIndex[answer.Index] == nil {
				c.conn.Close(fmt.Errorf("bad Fetch response: %s-%d was not asked for", t.Name, answer.Index))
				return
			}
			c.partition(byIndex[answer.Index], answer)
		}
	}
	if c.rewind {
		c.beginAgain()
	}
}

// sessionError begins a new session where the broker forgot ours.
func (c *consumer) sessionError(code int16) {
	err := kerr.ErrorForCode(code)
	if errors.Is(err, kerr.FetchSessionIDNotFound) || errors.Is(err, kerr.InvalidFetchSessionEpoch) {
		c.session, c.epoch = 0, 0
		return
	}
	c.failed(code)
}

// failed counts an error and rests.
func (c *consumer) failed(code int16) {
	c.loop.lines[c.line].failed(c.loop.window, c.now, code, 1)
	if c.run.workload.Mode == ModeVerify && retriable(code) {
		// Over a new connection, to whoever leads by then.
		c.conn.Close(codeError(code))
		return
	}
	c.pausedUntil = c.now + fetchPause
}

// partition takes one partition's answer.
func (c *consumer) partition(p *readPart, answer *wire.FetchPartitionResponse) {
	if answer.ErrorCode != 0 {
		p.changed = true
		if errors.Is(codeError(answer.ErrorCode), kerr.OffsetOutOfRange) {
			c.loop.lines[c.line].failed(c.loop.window, c.now, answer.ErrorCode, 1)
			c.run.problem("%s-%d: offset %d is out of range", p.place.topic, p.place.partition, p.offset)
			c.outOfRange = true
			c.run.wantOffsets(c)
			return
		}
		c.failed(answer.ErrorCode)
		return
	}
	p.highWatermark = answer.HighWatermark
	s, w := c.loop.lines[c.line], c.loop.window
	var done counts
	for rest := answer.Records; len(rest) > 0; {
		b, behind, err := record.Split(rest)
		if err != nil {
			if !errors.Is(err, record.ErrShort) {
				c.conn.Close(fmt.Errorf("%s-%d: fetched at %d: %w", p.place.topic, p.place.partition, p.offset, err))
			}
			break
		}
		rest = behind
		if int64(b.NextOffset()) <= p.offset {
			continue
		}
		done.records += int64(b.Count())
		done.bytes += int64(len(b))
		c.batch(p, b)
		p.offset = int64(b.NextOffset())
		p.changed = true
	}
	s.count(w, c.now, done)
}

// batch looks into one batch as far as the mode asks for it.
func (c *consumer) batch(p *readPart, b record.Batch) {
	verify := c.run.workload.Mode == ModeVerify
	if (verify || c.run.workload.Fetch.CheckCRC) && !b.VerifyCRC() {
		c.corrupted(p, b, "wrong checksum")
		return
	}
	if !c.run.workload.stamped() || c.line != lineFetch || b.Attributes().Control() {
		return
	}
	c.from, c.seen = record.Offset(p.offset), 0
	if err := eachValue(b, c.onValue); err != nil {
		c.corrupted(p, b, err.Error())
		return
	}
	c.loop.lines[lineE2E].count(c.loop.window, c.now, counts{records: c.seen, bytes: int64(len(b)), requests: 1})
}

func (c *consumer) corrupted(p *readPart, b record.Batch, what string) {
	c.corrupt += int64(b.Count())
	c.run.problem("%s-%d: batch at offset %d: %s", p.place.topic, p.place.partition, b.BaseOffset(), what)
}

// value takes one record.
func (c *consumer) value(offset record.Offset, value []byte) {
	if offset < c.from {
		return
	}
	s, ours := readStamp(value, c.run.id)
	if !ours {
		c.foreign++
		return
	}
	c.seen++
	c.loop.lines[lineE2E].latency(c.loop.window, s.intended, c.now, 1)
	countSecond(&c.loop.receivedBySecond, s.intended, 1)
	if c.streams == nil {
		return
	}
	if !intact(value) || int(s.stream) >= len(c.streams) {
		c.corrupt++
		c.run.problem("value at offset %d: wrong checksum", offset)
		return
	}
	if c.streams[s.stream] == nil {
		c.streams[s.stream] = &received{}
	}
	c.streams[s.stream].take(s.number)
}

// beginAgain goes back to the start once everything is read.
func (c *consumer) beginAgain() {
	for _, p := range c.parts {
		if p.highWatermark < 0 || p.offset < p.highWatermark {
			return
		}
	}
	for _, p := range c.parts {
		if p.offset > p.begin {
			p.offset, p.changed = p.begin, true
		}
	}
}

// closed has the connection lost.
func (c *consumer) closed(reason error) {
	c.conn = nil
	c.loop.netLoop.StopTimer(&c.timer)
	for _, p := range c.parts {
		p.changed = true
	}
	c.run.lost(c, reason)
}

// atEnd says that everything up to the ends that are set is read.
func (c *consumer) atEnd() bool {
	for _, p := range c.parts {
		if p.end >= 0 && p.offset < p.end {
			return false
		}
	}
	return true
}
