package engine

import (
	"sync"

	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Fetch sessions, KIP-227 (Kafka: FetchSession.scala, FetchManager).
//
//	request                      meaning
//	epoch -1                     sessionless; a session id named with it is closed
//	epoch 0                      full fetch, a session is made if there is room; an
//	                             id named with it is closed first
//	id, epoch > 0                incremental: the request names what changed, the
//	                             answer only partitions with news
//
// A session that is unknown is FETCH_SESSION_ID_NOT_FOUND, another epoch than
// the next one INVALID_FETCH_SESSION_EPOCH, a version that names topics the
// other way FETCH_SESSION_TOPIC_ID_ERROR; all three with session id 0 and no
// partitions. A session that a request leaves empty is closed and the answer is
// sessionless.

// Epochs of KIP-227 (JFetchMetadata).
const (
	initialSessionEpoch int32 = 0
	finalSessionEpoch   int32 = -1
	noSessionID         int32 = 0
)

// nextSessionEpoch follows epoch; it wraps to 1.
func nextSessionEpoch(epoch int32) int32 {
	switch {
	case epoch < 0:
		return finalSessionEpoch
	case epoch == 1<<31-1:
		return 1
	}
	return epoch + 1
}

// sessionKey names a partition inside a session: by topic name or, where the
// session uses topic ids, by id alone.
type sessionKey struct {
	id        record.TopicID
	name      string
	partition int32
}

// sessionPartition is what a session remembers of a partition: what was asked,
// and what the client was last told. All of it is guarded by the session's mutex.
type sessionPartition struct {
	key        sessionKey
	prev, next *sessionPartition // order of service, oldest first

	offset           int64
	maxBytes         int32
	leaderEpoch      int32
	lastFetchedEpoch int32

	highWatermark int64 // last told; -1 makes the next answer name the partition
	logStart      int64 // last told
}

// ask takes over what a request says of the partition.
func (p *sessionPartition) ask(q *wire.FetchPartition) {
	p.offset = q.FetchOffset
	p.maxBytes = q.MaxBytes
	p.leaderEpoch = q.CurrentLeaderEpoch
	p.lastFetchedEpoch = q.LastFetchedEpoch
}

// news reports whether an answer must name the partition, and remembers what it
// tells.
func (p *sessionPartition) news(a *wire.FetchPartitionResponse) bool {
	must := a.RecordsLength > 0 || a.PreferredReadReplica >= 0 || a.DivergingEpoch.Epoch >= 0
	if p.highWatermark != a.HighWatermark {
		p.highWatermark = a.HighWatermark
		must = true
	}
	if p.logStart != a.LogStartOffset {
		p.logStart = a.LogStartOffset
		must = true
	}
	if a.ErrorCode != 0 {
		p.highWatermark = -1 // so that the end of the error is news
		must = true
	}
	return must
}

// fetchSession is one session. Requests of one session come one after the other
// from a sane client, but nothing stops others from sending two at once on two
// connections; hence the mutex, held for moments and never across a wait.
type fetchSession struct {
	id       int32
	follower bool // made by a replica: may evict consumers' sessions
	usesIDs  bool
	created  int64 // ms

	mu         sync.Mutex
	epoch      int32 // of the next request
	partitions map[sessionKey]*sessionPartition
	head, tail *sessionPartition

	// The rest belongs to the cache and is guarded by its mutex.
	lastUsed   int64 // ms
	size       int   // partitions when last touched
	prev, next *fetchSession
}

// push puts a partition at the end of the order.
func (s *fetchSession) push(p *sessionPartition) {
	p.prev, p.next = s.tail, nil
	if s.tail == nil {
		s.head = p
	} else {
		s.tail.next = p
	}
	s.tail = p
}

// unlink takes a partition out of the order.
func (s *fetchSession) unlink(p *sessionPartition) {
	if p.prev == nil {
		s.head = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		s.tail = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
}

// served moves a partition that was sent records to the end of the order, so
// that each gets its turn under the limits of size (KIP-227).
func (s *fetchSession) served(p *sessionPartition) {
	if s.partitions[p.key] == p && s.tail != p {
		s.unlink(p)
		s.push(p)
	}
}

// update applies a request: partitions named are added or changed, forgotten
// ones removed.
func (s *fetchSession) update(req *wire.FetchRequest) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			q := &t.Partitions[j]
			// The conversion of the name in a look-up does not allocate.
			p := s.partitions[sessionKey{id: t.ID, name: string(t.Name), partition: q.Index}]
			if p == nil {
				p = s.add(sessionKey{id: t.ID, name: string(t.Name), partition: q.Index})
			}
			p.ask(q)
		}
	}
	for i := range req.Forgotten {
		t := &req.Forgotten[i]
		for _, index := range t.Partitions {
			if p := s.partitions[sessionKey{id: t.ID, name: string(t.Name), partition: index}]; p != nil {
				delete(s.partitions, p.key)
				s.unlink(p)
			}
		}
	}
}

// add makes a partition of the session that no answer has named yet.
func (s *fetchSession) add(key sessionKey) *sessionPartition {
	p := &sessionPartition{key: key, highWatermark: -1, logStart: -1}
	s.partitions[key] = p
	s.push(p)
	return p
}

// begin checks an incremental request against the session and, where they fit,
// applies it and moves the epoch on. It returns the partitions that the session
// then has; with none, the epoch stays.
func (s *fetchSession) begin(req *wire.FetchRequest, byID bool) (size int, err *kerr.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != req.SessionEpoch {
		return 0, kerr.InvalidFetchSessionEpoch
	}
	if s.usesIDs != byID {
		return 0, kerr.FetchSessionTopicIDError
	}
	s.update(req)
	if len(s.partitions) > 0 {
		s.epoch = nextSessionEpoch(s.epoch)
	}
	return len(s.partitions), nil
}
