package engine

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// sessionEviction is how long a session must be unused to be thrown out by any
// other, and how old it must be to be thrown out by a larger one (Kafka:
// FETCH_SESSION_EVICTION_MS).
const sessionEviction int64 = 120_000

// sessionPartitionsMax bounds the partitions that all sessions together
// remember: slots alone would let a few clients with huge requests take all
// memory. Beyond it no session is made, which is legal (session id 0).
const sessionPartitionsMax = 1 << 20

// sessionShardsMax is the number of locks that the sessions are spread over
// (Kafka has 8 too); a small cache has one.
const sessionShardsMax = 8

// sessionCache holds the sessions of all connections, at most as many as
// max.incremental.fetch.session.cache.slots. A session outlives its connection:
// the client goes on with it on another one.
type sessionCache struct {
	shards []sessionShard
	turn   atomic.Uint32 // the shard of the next new session
}

// sessionShard is one part of the cache; the session's id says which.
type sessionShard struct {
	mu         sync.Mutex
	slots      int
	limit      int // of partitions
	sessions   map[int32]*fetchSession
	oldest     *fetchSession // list by last use; guarded by mu
	newest     *fetchSession
	partitions int // sum of the sizes; guarded by mu
}

func newSessionCache(slots int) *sessionCache {
	n := sessionShardsMax
	if slots < 8*sessionShardsMax {
		n = 1
	}
	c := &sessionCache{shards: make([]sessionShard, n)}
	for i := range c.shards {
		s := &c.shards[i]
		s.slots = slots / n
		if i < slots%n {
			s.slots++
		}
		s.limit = sessionPartitionsMax / n
		s.sessions = make(map[int32]*fetchSession)
	}
	return c
}

func (c *sessionCache) shard(id int32) *sessionShard {
	return &c.shards[uint32(id)%uint32(len(c.shards))]
}

// get returns a session, nil if there is none of that id.
func (c *sessionCache) get(id int32) *fetchSession {
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

// remove closes a session.
func (c *sessionCache) remove(id int32) {
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.sessions[id]; session != nil {
		s.drop(session)
	}
}

// touch notes a use of a session. It reports false and closes the session if it
// has grown beyond what all may hold together.
func (c *sessionCache) touch(session *fetchSession, size int, now int64) bool {
	s := c.shard(session.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[session.id] != session {
		return true // thrown out a moment ago; this request is still served
	}
	s.unlink(session)
	session.lastUsed = now
	s.push(session)
	s.partitions += size - session.size
	session.size = size
	if s.partitions > s.limit {
		s.drop(session)
		return false
	}
	return true
}

// create puts a new session of size partitions into the cache if there is room
// or another gives way, and returns nil otherwise. It is not filled yet.
//
// A session gives way to a new one if it was unused for sessionEviction; else
// the smallest one does, consumers' before followers', if it is smaller than the
// new one and either older than sessionEviction or a consumer's facing a
// follower (FetchSessionCacheShard.tryEvict).
func (c *sessionCache) create(follower, usesIDs bool, size int, now int64) *fetchSession {
	turn := c.turn.Add(1) % uint32(len(c.shards))
	s := &c.shards[turn]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.partitions+size > s.limit {
		return nil
	}
	if len(s.sessions) >= s.slots && !s.evict(follower, size, now) {
		return nil
	}
	session := &fetchSession{
		id: c.newID(s, turn), follower: follower, usesIDs: usesIDs, created: now,
		epoch:      nextSessionEpoch(initialSessionEpoch),
		partitions: make(map[sessionKey]*sessionPartition, size),
		lastUsed:   now, size: size,
	}
	s.sessions[session.id] = session
	s.push(session)
	s.partitions += size
	return session
}

// newID draws an id of this shard that is free, positive and hard to guess.
func (c *sessionCache) newID(s *sessionShard, turn uint32) int32 {
	n := uint32(len(c.shards))
	for {
		id := int32(rand.Uint32N(1<<31/n)*n + turn)
		if id != noSessionID && s.sessions[id] == nil {
			return id
		}
	}
}

// evict makes room for a session of size partitions; false if none gives way.
func (s *sessionShard) evict(follower bool, size int, now int64) bool {
	if s.oldest == nil {
		return false
	}
	if now-s.oldest.lastUsed > sessionEviction {
		s.drop(s.oldest)
		return true
	}
	var least *fetchSession
	for v := s.oldest; v != nil; v = v.next {
		// Followers' sessions may push out young ones of consumers.
		if now-v.created <= sessionEviction && (!follower || v.follower) {
			continue
		}
		if least == nil || v.worthLess(least) {
			least = v
		}
	}
	if least == nil || (least.follower && !follower) || (least.follower == follower && least.size >= size) {
		return false
	}
	s.drop(least)
	return true
}

// worthLess orders sessions by what they are worth keeping for.
func (v *fetchSession) worthLess(than *fetchSession) bool {
	if v.follower != than.follower {
		return than.follower
	}
	if v.size != than.size {
		return v.size < than.size
	}
	return v.id < than.id
}

// drop takes a session out; requests that hold it end with it.
func (s *sessionShard) drop(v *fetchSession) {
	delete(s.sessions, v.id)
	s.unlink(v)
	s.partitions -= v.size
}

func (s *sessionShard) push(v *fetchSession) {
	v.prev, v.next = s.newest, nil
	if s.newest == nil {
		s.oldest = v
	} else {
		s.newest.next = v
	}
	s.newest = v
}

func (s *sessionShard) unlink(v *fetchSession) {
	if v.prev == nil {
		s.oldest = v.next
	} else {
		v.prev.next = v.next
	}
	if v.next == nil {
		s.newest = v.prev
	} else {
		v.next.prev = v.prev
	}
	v.prev, v.next = nil, nil
}
