package group

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// benchGroup makes a stable group of n members, on the wall clock.
func benchGroup(b *testing.B, l *lab, group string, n int) []string {
	b.Helper()
	ids := make([]string, n)
	joined := make(chan *kmsg.JoinGroupResponse, n)
	for range n {
		q := kmsg.NewPtrJoinGroupRequest()
		q.Version, q.Group, q.ProtocolType = 3, group, "consumer"
		q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 1_000_000, 1_000_000
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Topics = []string{"t"}
		q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: meta.AppendTo(nil)}}
		l.c.JoinGroup(q, labClient, func(r *kmsg.JoinGroupResponse) { joined <- r })
	}
	synced := make(chan *kmsg.SyncGroupResponse, n)
	for i := range n {
		r := <-joined
		if r.ErrorCode != 0 {
			b.Fatal(codeName(r.ErrorCode))
		}
		ids[i] = r.MemberID
		q := kmsg.NewPtrSyncGroupRequest()
		q.Version, q.Group, q.MemberID, q.Generation = 3, group, r.MemberID, r.Generation
		for _, m := range r.Members {
			q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte("a")})
		}
		l.c.SyncGroup(q, labClient, func(r *kmsg.SyncGroupResponse) { synced <- r })
	}
	for range n {
		if r := <-synced; r.ErrorCode != 0 {
			b.Fatal(codeName(r.ErrorCode))
		}
	}
	return ids
}

// benchLab is a lab that has loaded, with a short initial delay.
func benchLab(b *testing.B) *lab {
	l := newLab(b, map[string]int{"t": 16})
	l.settings.InitialRebalanceDelay = 50 * time.Millisecond
	for {
		if s, err := l.c.enter("g"); err == nil {
			s.leave()
			break
		}
		runtime.Gosched()
	}
	b.Cleanup(l.c.Close)
	return l
}

func BenchmarkHeartbeat(b *testing.B) {
	l := benchLab(b)
	ids := benchGroup(b, l, "g", 10)
	q := kmsg.NewPtrHeartbeatRequest()
	q.Version, q.Group, q.Generation = 4, "g", 1
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.MemberID = ids[i%len(ids)]
		if r := l.c.Heartbeat(q, labClient); r.ErrorCode != 0 {
			b.Fatal(codeName(r.ErrorCode))
		}
	}
}

func BenchmarkOffsetCommit(b *testing.B) {
	l := benchLab(b)
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.Generation = 7, "g", -1
	t := kmsg.OffsetCommitRequestTopic{Topic: "t"}
	for p := range int32(10) {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = p, 5
		t.Partitions = append(t.Partitions, part)
	}
	q.Topics = []kmsg.OffsetCommitRequestTopic{t}
	b.ReportAllocs()
	for b.Loop() {
		l.c.OffsetCommit(q, labClient, func(r *kmsg.OffsetCommitResponse) {
			if code := r.Topics[0].Partitions[0].ErrorCode; code != 0 {
				b.Fatal(codeName(code))
			}
		})
		l.log.batches = l.log.batches[:0]
	}
}

// BenchmarkRebalance is the first generation of a group of a thousand, its initial
// delay of 50 ms included.
func BenchmarkRebalance(b *testing.B) {
	l := benchLab(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		benchGroup(b, l, fmt.Sprint("g", i), 1000)
	}
}

// BenchmarkMemory is what a thousand groups of ten members take.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		l := benchLab(b)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 1000 {
			l.settings.InitialRebalanceDelay = 0
			benchGroup(b, l, fmt.Sprint("group-", i), 1)
		}
		l.settings.InitialRebalanceDelay = 50 * time.Millisecond
		benchGroup(b, l, "large", 9000)
		l.log.batches = nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/10000, "bytes/member")
	}
}
