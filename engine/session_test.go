package engine

import (
	"testing"

	"github.com/posthouse/posthouse/netio/wire"
	"github.com/twmb/franz-go/pkg/kerr"
)

// fetchOf makes a request of one topic's partitions at the given offsets.
func fetchOf(epoch int32, topic string, offsets map[int32]int64) *wire.FetchRequest {
	req := &wire.FetchRequest{SessionEpoch: epoch, Topics: []wire.FetchTopic{{Name: []byte(topic)}}}
	for p := range int32(64) {
		if o, ok := offsets[p]; ok {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, wire.FetchPartition{Index: p, FetchOffset: o, MaxBytes: 1 << 20})
		}
	}
	return req
}

func order(s *fetchSession) (partitions []int32) {
	for p := s.head; p != nil; p = p.next {
		partitions = append(partitions, p.key.partition)
	}
	return partitions
}

func equal(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestSessionUpdateAddsChangesForgets(t *testing.T) {
	c := newSessionCache(10)
	s := c.create(false, false, 3, 0)
	s.update(fetchOf(0, "t", map[int32]int64{0: 10, 1: 11, 2: 12}))
	if got := order(s); !equal(got, []int32{0, 1, 2}) {
		t.Fatalf("order %v", got)
	}

	req := fetchOf(1, "t", map[int32]int64{1: 21, 5: 25})
	req.Forgotten = []wire.ForgottenTopic{{Name: []byte("t"), Partitions: []int32{0, 9}}}
	size, err := s.begin(req, false)
	if err != nil || size != 3 {
		t.Fatalf("begin: %d, %v", size, err)
	}
	if got := order(s); !equal(got, []int32{1, 2, 5}) {
		t.Fatalf("order %v", got)
	}
	if o := s.head.offset; o != 21 {
		t.Fatalf("offset %d", o)
	}
	if s.epoch != 2 {
		t.Fatalf("epoch %d", s.epoch)
	}

	s.served(s.head) // partition 1
	if got := order(s); !equal(got, []int32{2, 5, 1}) {
		t.Fatalf("order after serving %v", got)
	}
}

func TestSessionRefusals(t *testing.T) {
	c := newSessionCache(10)
	s := c.create(false, true, 1, 0)
	s.update(fetchOf(0, "", map[int32]int64{0: 1}))
	for _, tc := range []struct {
		name  string
		epoch int32
		byID  bool
		want  *kerr.Error
	}{
		{"epoch of the past", 0, true, kerr.InvalidFetchSessionEpoch},
		{"epoch of the future", 7, true, kerr.InvalidFetchSessionEpoch},
		{"by name in a session by id", 1, false, kerr.FetchSessionTopicIDError},
		{"fits", 1, true, nil},
		{"again", 1, true, kerr.InvalidFetchSessionEpoch},
		{"the next", 2, true, nil},
	} {
		if _, err := s.begin(fetchOf(tc.epoch, "", nil), tc.byID); err != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestSessionNews(t *testing.T) {
	told := wire.FetchPartitionResponse{HighWatermark: 5, LogStartOffset: 1, PreferredReadReplica: -1, DivergingEpoch: wire.EpochEndOffset{Epoch: -1, EndOffset: -1}}
	with := func(change func(*wire.FetchPartitionResponse)) *wire.FetchPartitionResponse {
		a := told
		change(&a)
		return &a
	}
	for _, tc := range []struct {
		name string
		a    *wire.FetchPartitionResponse
		want bool
	}{
		{"nothing changed", with(func(*wire.FetchPartitionResponse) {}), false},
		{"records", with(func(a *wire.FetchPartitionResponse) { a.RecordsLength = 10 }), true},
		{"high watermark", with(func(a *wire.FetchPartitionResponse) { a.HighWatermark = 6 }), true},
		{"last stable offset alone", with(func(a *wire.FetchPartitionResponse) { a.LastStableOffset = 6 }), false},
		{"log start", with(func(a *wire.FetchPartitionResponse) { a.LogStartOffset = 2 }), true},
		{"preferred replica", with(func(a *wire.FetchPartitionResponse) { a.PreferredReadReplica = 3 }), true},
		{"diverging epoch", with(func(a *wire.FetchPartitionResponse) { a.DivergingEpoch.Epoch = 0 }), true},
		{"error", with(func(a *wire.FetchPartitionResponse) { a.ErrorCode = 3 }), true},
	} {
		p := &sessionPartition{highWatermark: 5, logStart: 1}
		if got := p.news(tc.a); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
		if tc.a.ErrorCode == 0 && p.news(with(func(a *wire.FetchPartitionResponse) {
			a.HighWatermark, a.LogStartOffset = tc.a.HighWatermark, tc.a.LogStartOffset
		})) {
			t.Errorf("%s: told twice", tc.name)
		}
	}
	p := &sessionPartition{highWatermark: 5, logStart: 1}
	p.news(with(func(a *wire.FetchPartitionResponse) { a.ErrorCode = 3 }))
	if !p.news(&told) {
		t.Error("the end of an error is no news")
	}
}

func TestSessionCacheEviction(t *testing.T) {
	const old = sessionEviction + 1
	type made struct {
		follower bool
		size     int
		created  int64
		lastUsed int64
	}
	for _, tc := range []struct {
		name     string
		there    []made // fills the cache
		follower bool
		size     int
		now      int64
		evicts   int // index in there, -1: no session is made
	}{
		{"young sessions stay", []made{{size: 1}, {size: 1}}, false, 9, 10, -1},
		{"unused too long", []made{{size: 5, lastUsed: 50}, {size: 1, lastUsed: old + 40}}, false, 1, old + 60, 0},
		{"old and smaller", []made{{size: 5, lastUsed: old}, {size: 3, lastUsed: old}}, false, 4, old + 1, 1},
		{"old and as large", []made{{size: 5, lastUsed: old}, {size: 4, lastUsed: old}}, false, 4, old + 1, -1},
		{"young, smaller, against a follower", []made{{size: 5}, {size: 3}}, true, 1, 10, 1},
		{"follower keeps its own", []made{{follower: true, size: 1}, {follower: true, size: 2}}, true, 9, 10, -1},
		{"consumer against an old follower", []made{{follower: true, size: 1, lastUsed: old}, {follower: true, size: 2, lastUsed: old}}, false, 9, old + 1, -1},
		{"follower against a smaller old follower", []made{{follower: true, size: 1, lastUsed: old}, {follower: true, size: 2, lastUsed: old}}, true, 2, old + 1, 0},
	} {
		c := newSessionCache(len(tc.there))
		var sessions []*fetchSession
		for _, m := range tc.there {
			s := c.create(m.follower, false, m.size, m.created)
			c.touch(s, m.size, m.lastUsed)
			sessions = append(sessions, s)
		}
		s := c.create(tc.follower, false, tc.size, tc.now)
		if (s == nil) != (tc.evicts < 0) {
			t.Errorf("%s: made %v", tc.name, s != nil)
		}
		for i, v := range sessions {
			if gone := c.get(v.id) == nil; gone != (i == tc.evicts) {
				t.Errorf("%s: session %d gone is %v", tc.name, i, gone)
			}
		}
	}
}

func TestSessionCacheIsBoundedByPartitions(t *testing.T) {
	c := newSessionCache(4)
	if c.create(false, false, sessionPartitionsMax+1, 0) != nil {
		t.Fatal("a session beyond all bounds was made")
	}
	s := c.create(false, false, 10, 0)
	if !c.touch(s, sessionPartitionsMax, 1) || c.get(s.id) != s {
		t.Fatal("the session was dropped at the bound")
	}
	if c.touch(s, sessionPartitionsMax+1, 2) || c.get(s.id) != nil {
		t.Fatal("the session outgrew the bound")
	}
	if n := c.shards[0].partitions; n != 0 {
		t.Fatalf("%d partitions left in the count", n)
	}
}

func TestNextSessionEpoch(t *testing.T) {
	for epoch, want := range map[int32]int32{-1: -1, 0: 1, 1: 2, 1<<31 - 1: 1} {
		if got := nextSessionEpoch(epoch); got != want {
			t.Errorf("after %d: %d", epoch, got)
		}
	}
}
