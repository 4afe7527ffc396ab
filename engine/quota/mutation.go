package quota

// Mutations is the controller mutation quota of one request (KIP-599). It is
// not safe for concurrent use. A nil one has no limit.
type Mutations struct {
	manager *Manager
	client  Client
	nowMs   func() int64

	throttleMs, atMs int64
}

// Mutations returns the quota for a request of a client; nil if there is none.
func (m *Manager) Mutations(user, clientID string, nowMs func() int64) *Mutations {
	if !m.Active(Mutation) {
		return nil
	}
	q := &Mutations{manager: m, nowMs: nowMs}
	m.Identify(&q.client, user, []byte(clientID), nowMs())
	if q.client.sensors[Mutation] == nil {
		return nil
	}
	return q
}

// Take records that n partitions are to be created or deleted. A strict quota
// answers false, and records nothing, once it is exhausted; the operation that
// exhausts it passes, however large. A permissive one always lets pass, and
// throttles (ControllerMutationQuotaManager).
func (q *Mutations) Take(n int, strict bool) bool {
	if q == nil {
		return true
	}
	nowMs := q.nowMs()
	s := q.manager.live(&q.client, Mutation, nowMs)
	if s == nil {
		return true
	}
	defer s.mu.Unlock()
	s.lastMs = nowMs
	if strict {
		if ms := s.bucket.deficit(s.window, s.limit, nowMs); ms > 0 {
			q.throttleMs, q.atMs = ms, nowMs
			return false
		}
	}
	s.bucket.take(s.window, s.limit, float64(n), nowMs)
	if !strict {
		if ms := s.bucket.deficit(s.window, s.limit, nowMs); ms > 0 {
			q.throttleMs, q.atMs = ms, nowMs
		}
	}
	return true
}

// ThrottleMs returns for how long the client is to be throttled from now on.
func (q *Mutations) ThrottleMs() int64 {
	if q == nil || q.throttleMs == 0 {
		return 0
	}
	return max(0, q.throttleMs-(q.nowMs()-q.atMs))
}
