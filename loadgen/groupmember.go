package loadgen

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/posthouse/posthouse/netio"
)

// The versions that members speak: the last without compact fields, so that a
// frame that is sent again and again can be patched.
const (
	joinVersion      = 5
	syncVersion      = 3
	heartbeatVersion = 3
	commitVersion    = 7
	leaveVersion     = 1
)

// asked is a request of a member without an answer yet.
type asked struct {
	key      int16
	intended netio.Instant
}

// member is one member of a group: a connection and what the protocol needs. It
// belongs to its loop.
//
//	joining → syncing → stable ─heartbeats, commits─▶ (rebalance) → joining
type member struct {
	run    *groupRun
	group  *loadedGroup
	loop   *groupLoop
	conn   *netio.Conn
	number int // in the run
	place  int // in the group

	id         string
	generation int32
	stable     bool
	leaving    bool // for good
	gone       bool // has left for good
	restarting bool
	joinBegan  netio.Instant // of the first JoinGroup
	joinedOnce bool

	asked       []asked // in order
	correlation int32
	out         []byte // not yet taken by the socket

	// Frames of the current generation; the correlation id is patched.
	heartbeat, commit []byte
	beatAt            netio.Instant // when the next heartbeat is intended
	beatTimer         netio.Timer
	commitAt          netio.Instant
	commitTimer       netio.Timer
	retryTimer        netio.Timer
}

func newMember(r *groupRun, g *loadedGroup, number, place int) *member {
	m := &member{run: r, group: g, number: number, place: place}
	m.beatTimer.Task = onLoop(func(*netio.Loop) { m.beat() })
	m.commitTimer.Task = onLoop(func(*netio.Loop) { m.commitDue() })
	m.retryTimer.Task = onLoop(func(*netio.Loop) { m.join() })
	return m
}

// groupHandler hands what comes from the network to the members.
type groupHandler struct{}

func (groupHandler) Opened(c *netio.Conn) {
	m := c.State.(*member)
	m.conn, m.loop = c, c.Loop().State.(*groupLoop)
	m.joinBegan = m.now()
	m.join()
}

func (groupHandler) Pipelined([]byte) bool { return true }

func (groupHandler) Request(c *netio.Conn, r *netio.Request) {
	c.State.(*member).answered(r.Payload())
	r.NoReply()
}

func (groupHandler) EndTurn(*netio.Loop) {}

func (groupHandler) Drain(*netio.Loop) {}

func (groupHandler) Writable(c *netio.Conn) { c.State.(*member).flush() }

func (groupHandler) Closed(c *netio.Conn, reason error) {
	m := c.State.(*member)
	m.conn = nil
	m.loop.net.StopTimer(&m.beatTimer)
	m.loop.net.StopTimer(&m.commitTimer)
	m.loop.net.StopTimer(&m.retryTimer)
	m.run.fail(fmt.Errorf("member %d lost its connection: %s", m.number, plain(reason)))
}

func (m *member) now() netio.Instant { return netio.InstantOf(time.Now()) }

// send sends one request.
func (m *member) send(req kmsg.Request, version int16) {
	req.SetVersion(version)
	m.correlation++
	m.sendFrame(m.loop.format.AppendRequest(nil, req, m.correlation), req.Key(), m.now())
}

func (m *member) sendFrame(frame []byte, key int16, intended netio.Instant) {
	if m.conn == nil {
		return
	}
	m.asked = append(m.asked, asked{key, intended})
	m.out = append(m.out, frame...)
	m.flush()
}

// again sends a frame once more under a new correlation id.
func (m *member) again(frame []byte, key int16, intended netio.Instant) {
	m.correlation++
	binary.BigEndian.PutUint32(frame[8:], uint32(m.correlation))
	m.sendFrame(frame, key, intended)
}

func (m *member) flush() {
	if m.conn == nil || len(m.out) == 0 {
		return
	}
	n, err := m.conn.Send([][]byte{m.out})
	if err == nil {
		m.out = m.out[:copy(m.out, m.out[n:])]
	}
}

// answered takes an answer; the head is a length's 4 bytes shorter than a frame.
func (m *member) answered(payload []byte) {
	if len(m.asked) == 0 || len(payload) < 4 {
		m.run.fail(fmt.Errorf("member %d got an answer that it did not ask for", m.number))
		return
	}
	a := m.asked[0]
	m.asked = m.asked[:copy(m.asked, m.asked[1:])]
	body := payload[4:]
	switch kmsg.Key(a.key) {
	case kmsg.JoinGroup:
		m.joined(body)
	case kmsg.SyncGroup:
		m.synced(body)
	case kmsg.Heartbeat:
		m.beaten(body, a.intended)
	case kmsg.OffsetCommit:
		m.committed(body, a.intended)
	case kmsg.LeaveGroup:
		m.left()
	}
}

// join sends a JoinGroup, unless the member is about to leave.
func (m *member) join() {
	m.stable = false
	m.loop.net.StopTimer(&m.beatTimer)
	if m.leaving || m.conn == nil {
		return
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = m.group.id, m.id, "consumer"
	req.SessionTimeoutMillis = int32(time.Duration(m.run.work.Session).Milliseconds())
	req.RebalanceTimeoutMillis = int32(time.Duration(m.run.work.Rebalance).Milliseconds())
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Topics = []string{m.run.work.Topic}
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", metadata.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	m.send(req, joinVersion)
}

// retry joins after a pause.
func (m *member) retry() {
	m.stable = false
	m.loop.net.AddTimer(&m.retryTimer, m.now()+netio.Instant(retryPause))
}

// refused reacts to an error in an answer. Those of a rebalance are everyday;
// false is for the others, which are counted.
func (m *member) refused(line groupLineID, code int16) (everyday bool) {
	switch err := kerr.ErrorForCode(code); err {
	case kerr.RebalanceInProgress, kerr.IllegalGeneration:
		if m.stable {
			m.join()
		}
		return true
	case kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.CoordinatorNotAvailable:
		m.retry()
		return true
	case kerr.UnknownMemberID:
		if m.restarting || m.leaving {
			return true
		}
		m.id = ""
		m.join()
	}
	c := &m.loop.lines[line]
	c.errors++
	c.byCode[code]++
	return false
}

func (m *member) joined(body []byte) {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.SetVersion(joinVersion)
	if err := resp.ReadFrom(body); err != nil {
		m.run.fail(fmt.Errorf("JoinGroup: %w", err))
		return
	}
	switch {
	case resp.ErrorCode == kerr.MemberIDRequired.Code:
		m.id = resp.MemberID
		m.join()
		return
	case resp.ErrorCode != 0:
		if !m.refused(groupJoin, resp.ErrorCode) {
			m.retry()
		}
		return
	}
	m.id, m.generation = resp.MemberID, resp.Generation
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.Generation, req.MemberID = m.group.id, m.generation, m.id
	if resp.LeaderID == m.id {
		req.GroupAssignment = m.assign(resp.Members)
	}
	m.send(req, syncVersion)
}

// assign gives one partition to each member.
func (m *member) assign(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	var all []kmsg.SyncGroupRequestGroupAssignment
	for i, to := range members {
		topic := kmsg.NewConsumerMemberAssignmentTopic()
		topic.Topic, topic.Partitions = m.run.work.Topic, []int32{int32(i)}
		assignment := kmsg.NewConsumerMemberAssignment()
		assignment.Topics = append(assignment.Topics, topic)
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = to.MemberID, assignment.AppendTo(nil)
		all = append(all, a)
	}
	return all
}

func (m *member) synced(body []byte) {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.SetVersion(syncVersion)
	if err := resp.ReadFrom(body); err != nil {
		m.run.fail(fmt.Errorf("SyncGroup: %w", err))
		return
	}
	if resp.ErrorCode != 0 {
		if resp.ErrorCode == kerr.RebalanceInProgress.Code {
			m.join()
		} else if !m.refused(groupJoin, resp.ErrorCode) {
			m.retry()
		}
		return
	}
	var assignment kmsg.ConsumerMemberAssignment
	if err := assignment.ReadFrom(resp.MemberAssignment); err != nil || len(assignment.Topics) == 0 {
		m.run.fail(fmt.Errorf("member %d was assigned nothing: %w", m.number, err))
		return
	}
	m.becomeStable(assignment.Topics[0].Partitions[0])
}

// becomeStable begins to heartbeat in a new generation.
func (m *member) becomeStable(partition int32) {
	m.stable, m.restarting = true, false
	now := m.now()
	if !m.joinedOnce {
		m.joinedOnce = true
		m.count(groupJoin, m.joinBegan, now)
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.Generation, beat.MemberID = m.group.id, m.generation, m.id
	beat.SetVersion(heartbeatVersion)
	m.heartbeat = m.loop.format.AppendRequest(m.heartbeat[:0], beat, 0)
	if m.run.work.CommitRate > 0 || m.run.work.CommitClosed {
		m.commit = m.commitFrame(partition)
	}
	// Members that become stable together do not beat together.
	every := netio.Instant(m.run.work.Heartbeat)
	m.beatAt = now + netio.Instant(m.loop.random.Int64N(int64(every)))
	m.loop.net.AddTimer(&m.beatTimer, m.beatAt)
	m.tellGroup(now)
}

func (m *member) commitFrame(partition int32) []byte {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch = partition, int64(m.number), -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = m.run.work.Topic, append(topic.Partitions, p)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.MemberID = m.group.id, m.generation, m.id
	req.Topics = append(req.Topics, topic)
	req.SetVersion(commitVersion)
	return m.loop.format.AppendRequest(m.commit[:0], req, 0)
}

// tellGroup notes that this member is stable; the last one ends a rebalance.
func (m *member) tellGroup(now netio.Instant) {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.generation > g.generation {
		g.generation, g.stable = m.generation, 0
	}
	if m.generation < g.generation {
		return
	}
	if g.stable++; g.stable < m.run.work.Members {
		return
	}
	if !g.complete {
		g.complete = true
		if m.run.unstable.Add(-1) == 0 {
			close(m.run.formed)
		}
	}
	if g.restarted != 0 {
		m.count(groupRebalance, g.restarted, now)
		g.restarted = 0
		first := m.run.members[m.number-m.place]
		first.loop.net.Post(onLoop(func(*netio.Loop) { first.restart() }))
	}
}

// count counts what was intended at a time, if that is in the measured part;
// joins come before it.
func (m *member) count(line groupLineID, intended, now netio.Instant) {
	if t := int64(intended); line != groupJoin && (t < m.run.from.Load() || t >= m.run.to.Load()) {
		return
	}
	c := &m.loop.lines[line]
	c.requests++
	c.latencies.Record(int64(now-intended+500) / 1000)
}

// beat sends the heartbeat that is due.
func (m *member) beat() {
	if !m.stable || m.leaving {
		return
	}
	m.again(m.heartbeat, int16(kmsg.Heartbeat), m.beatAt)
	m.beatAt += netio.Instant(m.run.work.Heartbeat)
	m.loop.net.AddTimer(&m.beatTimer, m.beatAt)
}

// beaten takes the answer: throttle time, error code.
func (m *member) beaten(body []byte, intended netio.Instant) {
	if len(body) < 6 {
		m.run.fail(fmt.Errorf("answer to Heartbeat of %d bytes", len(body)))
		return
	}
	if code := int16(binary.BigEndian.Uint16(body[4:])); code != 0 {
		m.refused(groupHeartbeat, code)
		return
	}
	m.count(groupHeartbeat, intended, m.now())
}

// commitDue sends the commit that is due.
func (m *member) commitDue() {
	if m.leaving || m.conn == nil {
		return
	}
	if m.stable {
		intended := m.commitAt
		if m.run.work.CommitClosed {
			intended = m.now()
		}
		m.again(m.commit, int16(kmsg.OffsetCommit), intended)
	}
	if rate := m.run.work.CommitRate; rate > 0 {
		m.commitAt += netio.Instant(float64(time.Second) / rate * float64(len(m.run.members)))
		m.loop.net.AddTimer(&m.commitTimer, m.commitAt)
	} else if !m.stable {
		m.loop.net.AddTimer(&m.commitTimer, m.now()+netio.Instant(retryPause))
	}
}

// committed takes the answer for one partition, whose error code comes last.
func (m *member) committed(body []byte, intended netio.Instant) {
	code := int16(binary.BigEndian.Uint16(body[len(body)-2:]))
	if code != 0 {
		m.refused(groupCommit, code)
	} else {
		m.count(groupCommit, intended, m.now())
	}
	if m.run.work.CommitClosed {
		if code != 0 {
			m.loop.net.AddTimer(&m.commitTimer, m.now()+netio.Instant(retryPause))
			return
		}
		m.commitDue()
	}
}

// startLoad begins what is measured beside heartbeats.
func (s *groupLoop) startLoad() {
	for _, m := range s.members() {
		if m.run.work.CommitClosed {
			m.commitDue()
		} else if rate := m.run.work.CommitRate; rate > 0 {
			every := float64(time.Second) / rate
			m.commitAt = m.now() + netio.Instant(every*float64(m.number))
			s.net.AddTimer(&m.commitTimer, m.commitAt)
		}
		if m.run.work.Restarts && m.place == 0 {
			m.restart()
		}
	}
}

// restart leaves and joins again, as a process does that is replaced.
func (m *member) restart() {
	if m.run.ending.Load() || m.leaving || m.conn == nil {
		return
	}
	m.group.mu.Lock()
	m.group.restarted = m.now()
	m.group.mu.Unlock()
	m.stable, m.restarting = false, true
	m.loop.net.StopTimer(&m.beatTimer)
	m.leave()
	m.id = ""
}

func (m *member) leave() {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = m.group.id, m.id
	m.send(req, leaveVersion)
}

// left goes on after a LeaveGroup.
func (m *member) left() {
	if !m.leaving {
		m.join()
		return
	}
	if !m.gone {
		m.gone = true
		if m.run.left.Add(-1) == 0 {
			close(m.run.gone)
		}
	}
}

// leaveAll has every member leave for good.
func (s *groupLoop) leaveAll() {
	for _, m := range s.members() {
		m.leaving = true
		s.net.StopTimer(&m.beatTimer)
		s.net.StopTimer(&m.commitTimer)
		s.net.StopTimer(&m.retryTimer)
		if waits := slices.ContainsFunc(m.asked, func(a asked) bool { return kmsg.Key(a.key) == kmsg.JoinGroup }); m.conn == nil || waits || m.id == "" {
			// It waits in a rebalance, in which what it sent would wait too.
			m.left()
			continue
		}
		m.leave()
	}
}

// members are those of this loop.
func (s *groupLoop) members() []*member {
	var own []*member
	for _, m := range s.run.members {
		if m.loop == s {
			own = append(own, m)
		}
	}
	return own
}
