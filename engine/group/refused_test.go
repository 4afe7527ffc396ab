package group

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// An append that is refused as leadership has gone overtakes those that wait for
// the high watermark.
func TestAppendRefusedBeforeAnEarlierOneIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, map[string]int{"a": 1})
		l.settle()
		var codes []int16
		commit := func(offset int64) {
			q := kmsg.NewPtrOffsetCommitRequest()
			q.Version, q.Group, q.Generation = 8, "g", -1
			q.Topics = []kmsg.OffsetCommitRequestTopic{{
				Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: offset}},
			}}
			l.c.OffsetCommit(q, labClient, func(r *kmsg.OffsetCommitResponse) {
				codes = append(codes, r.Topics[0].Partitions[0].ErrorCode)
			})
		}
		l.log.hold = true
		commit(1)
		l.log.hold, l.log.fail = false, kerr.NotLeaderForPartition
		commit(2)
		l.log.fail = nil
		l.log.release()
		if len(codes) != 2 || codes[0] != kerr.NotCoordinator.Code || codes[1] != 0 {
			t.Errorf("answered %v", codes)
		}
		if o, _ := (*l.c.shards.Load())[0].group("g").offsets.get("a", 0); o.offset != 1 {
			t.Errorf("committed %d, want 1", o.offset)
		}
		l.c.Close()
	})
}

// A member id is made of the client id or the instance id and a UUID: a name that
// leaves no room for that in the group's record is refused before anything is
// written.
func TestNamesThatNoRecordHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, map[string]int{"a": 1})
		l.settle()
		join := func(clientID string, instance *string) int16 {
			q := kmsg.NewPtrJoinGroupRequest()
			q.Version, q.Group, q.ProtocolType, q.InstanceID = 9, "g", "consumer", instance
			q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 10000, 10000
			q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
			code := int16(-1000)
			l.c.JoinGroup(q, Client{ClientID: clientID, Host: "/h"}, func(r *kmsg.JoinGroupResponse) { code = r.ErrorCode })
			return code
		}
		fits := strings.Repeat("x", stringMax-1-uuidBytes)
		long := fits + "x"
		if code := join(fits, nil); code != kerr.MemberIDRequired.Code {
			t.Errorf("the longest client id: %d", code)
		}
		if code := join(long, nil); code <= 0 || code == kerr.MemberIDRequired.Code {
			t.Errorf("a client id that is too long: %d", code)
		}
		if code := join("c", &long); code <= 0 {
			t.Errorf("an instance id that is too long: %d", code)
		}
		l.c.Close()
	})
}
