package group

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzReplay feeds the loader any key and value: it may refuse them, and must
// neither panic nor make a state whose own records read differently.
func FuzzReplay(f *testing.F) {
	o := offset{offset: 7, leaderEpoch: 3, metadata: "note", commitMs: 1, expireMs: -1}
	r := offsetRecord("g", "t", 1, &o)
	f.Add(r.key, r.value)
	f.Add(r.key, []byte(nil))
	o.expireMs = 9
	r = offsetRecord("g", "t", 1, &o)
	f.Add(r.key, r.value)
	o.expireMs, o.topicID = -1, record.TopicID{1}
	r = offsetRecord("g", "t", 1, &o)
	f.Add(r.key, r.value)
	f.Add(groupKey("g"), []byte(nil))
	protocol, leader := "range", "m"
	for version := range int16(5) {
		v := kmsg.GroupMetadataValue{
			Version: version, ProtocolType: "consumer", Generation: 3, Protocol: &protocol, Leader: &leader,
			Members: []kmsg.GroupMetadataValueMember{{
				MemberID: "m", InstanceID: &leader, ClientID: "c", ClientHost: "/h", RebalanceTimeoutMillis: -1, SessionTimeoutMillis: 9,
				Subscription: []byte{0, 0, 0, 0, 0, 1, 0, 1, 't'}, Assignment: []byte("a"),
			}},
		}
		f.Add(groupKey("g"), v.AppendTo(nil))
	}
	for kind := range byte(20) {
		f.Add([]byte{0, kind, 0, 1, 'g', 0, 1, 'm'}, []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	}
	for _, r := range sampleRecords() {
		f.Add(r.key, r.value)
		f.Add(r.key, []byte(nil))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if len(value) == 0 {
			value = nil
		}
		c := newLab(t, nil).c
		first := newShard(c, 0, 1)
		if first.replay(key, value) != nil {
			return
		}
		second := newShard(c, 0, 1)
		for _, r := range recordsOf(first) {
			if err := second.replay(r.key, r.value); err != nil {
				t.Fatalf("a record of the loaded state is refused: %v", err)
			}
		}
		a, b := recordsOf(first), recordsOf(second)
		if fmt.Sprintf("%q", a) != fmt.Sprintf("%q", b) {
			t.Errorf("loaded %q, written and loaded again %q", a, b)
		}
		c.Close()
	})
}

// recordsOf writes what a shard holds.
func recordsOf(s *shard) []kv {
	var all []kv
	for _, g := range s.sorted() {
		g.offsets.each(func(topic string, partition int32, o *offset) {
			all = append(all, offsetRecord(g.id, topic, partition, o))
		})
		switch c := g.protocol.(type) {
		case *classicGroup:
			all = append(all, c.record((*classicMember).current))
		case *consumerGroup:
			all = c.all(all)
			for _, id := range slices.Sorted(maps.Keys(c.targets)) {
				if c.members[id] == nil {
					all = append(all, kv{key: consumerKey(keyConsumerTargetMember, g.id, id), value: targetValue(c.targets[id])})
				}
			}
			for _, x := range slices.Sorted(maps.Keys(c.regexes)) {
				all = append(all, kv{key: consumerKey(keyConsumerRegularExpression, g.id, x), value: regexValue(c.regexes[x])})
			}
		}
	}
	for i := range all {
		all[i].value = bytes.Clone(all[i].value)
	}
	return all
}
