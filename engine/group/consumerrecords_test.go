package group

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/posthouse/posthouse/engine/group/assignor"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kbin"
)

// sampleMembers are members with and without everything.
func sampleMembers() []memberState {
	text := func(s string) *string { return &s }
	bare := newMemberState("bare")
	bare.assigned, bare.revoking = owned{}, owned{}
	full := memberState{
		id: "full", instance: text("i"), rack: text("r"), clientID: "client", host: "/127.0.0.1",
		topics: []string{"a", "b"}, regex: "x.*", rebalanceTimeoutMs: 5, assignor: text("range"),
		classic: &classicSide{sessionTimeoutMs: 9, protocols: []joinProtocol{{Name: "range", Metadata: []byte{0, 1}}, {Name: "sticky", Metadata: []byte{}}}},
		epoch:   7, previousEpoch: 6, state: memberUnrevoked,
		assigned: owned{
			{topic: record.TopicID{1}, partitions: []int32{0, 2}, epochs: []int32{3, 7}},
			{topic: record.TopicID{2}, partitions: []int32{9}, epochs: []int32{0}},
		},
		revoking: owned{{topic: record.TopicID{1}, partitions: []int32{1}, epochs: []int32{2}}},
	}
	return []memberState{bare, full}
}

// sampleRecords are the records of a consumer group, of every kind.
func sampleRecords() []kv {
	g := &group{id: "g"}
	c := newConsumerGroup(g)
	all := []kv{
		{key: consumerKey(keyConsumerMetadata, "g"), value: groupEpochValue(7, -5)},
		{key: consumerKey(keyConsumerMetadata, "g"), value: groupEpochValue(7, 0)},
		{key: consumerKey(keyConsumerTargetMetadata, "g"), value: targetEpochValue(6, 1234)},
		{key: consumerKey(keyConsumerTargetMember, "g", "full"), value: targetValue(sampleMembers()[1].assigned.assignment())},
		{key: consumerKey(keyConsumerRegularExpression, "g", "x.*"), value: regexValue(&resolvedRegex{topics: []string{"x", "xy"}, version: 3, timestampMs: 4})},
	}
	for _, m := range sampleMembers() {
		all = append(all, c.memberRecord(&m), c.currentRecord(&m))
	}
	return all
}

// TestMemberRecordRoundTrip: what is written of a member is read as it was.
func TestMemberRecordRoundTrip(t *testing.T) {
	for _, m := range sampleMembers() {
		got := newMemberState(m.id)
		for _, half := range []struct {
			value []byte
			read  func(*kbin.Reader, *memberState)
		}{{memberValue(&m), readMember}, {currentValue(&m), readCurrent}} {
			r, err := consumerReader(half.value)
			if err != nil {
				t.Fatal(err)
			}
			if half.read(r, &got); !r.Ok() || len(r.Src) != 0 {
				t.Errorf("%s: %d bytes are left, ok %t", m.id, len(r.Src), r.Ok())
			}
		}
		if !got.sameSide(&m) || !got.sameAssignment(&m) {
			t.Errorf("wrote %+v, read %+v", m, got)
		}
	}
}

// TestConsumerValuesCutShort: no prefix of a value is taken for a value, and a
// record that is refused changes nothing.
func TestConsumerValuesCutShort(t *testing.T) {
	c := newLab(t, nil).c
	for _, r := range sampleRecords() {
		for n := range len(r.value) {
			s := newShard(c, 0, 1)
			if err := s.replay(r.key, r.value[:n:n]); err == nil {
				t.Errorf("%d of %d bytes of a value of kind %d are accepted", n, len(r.value), r.key[1])
			}
			if len(s.groups) != 0 {
				t.Errorf("a refused record of kind %d makes a group", r.key[1])
			}
		}
	}
}

// TestConsumerRecordsRefused: what no coordinator writes.
func TestConsumerRecordsRefused(t *testing.T) {
	topic := record.TopicID{1}
	current := func(parts ...owned) []byte {
		m := newMemberState("m")
		m.assigned = slices.Concat(parts...)
		return currentValue(&m)
	}
	one := func(p ...int32) owned {
		return owned{{topic: topic, partitions: p, epochs: make([]int32, len(p))}}
	}
	target := func(p ...int32) []byte {
		return targetValue(assignor.Assignment{{Topic: topic, Partitions: p}})
	}
	noProtocol := newMemberState("m")
	noProtocol.classic = &classicSide{}
	for name, r := range map[string]struct {
		kind  uint16
		value []byte
	}{
		"a negative partition":             {keyConsumerCurrentAssignment, current(one(-1))},
		"a huge partition":                 {keyConsumerCurrentAssignment, current(one(partitionsMax))},
		"a partition twice":                {keyConsumerCurrentAssignment, current(one(3, 1, 3))},
		"a topic twice":                    {keyConsumerCurrentAssignment, current(one(1), one(2))},
		"a negative partition in a target": {keyConsumerTargetMember, target(-7)},
		"a huge partition in a target":     {keyConsumerTargetMember, target(1 << 30)},
		"a classic member of no protocol":  {keyConsumerMember, memberValue(&noProtocol)},
		"a later version":                  {keyConsumerMetadata, kbin.AppendInt16(nil, 1)},
	} {
		s := newShard(newLab(t, nil).c, 0, 1)
		key := consumerKey(r.kind, "g", "m")
		if r.kind == keyConsumerMetadata {
			key = consumerKey(r.kind, "g")
		}
		if err := s.replay(key, r.value); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestLoadPassesOver: a record that cannot be read is left out of the load, and
// the rest of the partition is served.
func TestLoadPassesOver(t *testing.T) {
	c := newLab(t, nil).c
	s := newShard(c, 0, 1)
	bad := kv{key: consumerKey(keyConsumerMetadata, "bad"), value: []byte{0}}
	o := offset{offset: 5, leaderEpoch: 1, expireMs: -1}
	records := []kv{offsetRecord("g", "t", 0, &o), bad, {key: []byte{1}, value: []byte{1}}, {key: []byte{0, 99}, value: []byte{1}}, offsetRecord("g", "t", 1, &o)}
	skipped, err := s.loadBatch(buildBatch(1, []*write{{records: records}}, record.None), 1)
	if err != nil || skipped != 2 {
		t.Errorf("%d records are passed over (%v), want 2: one of an unknown kind is not an error", skipped, err)
	}
	for p := range int32(2) {
		if got, ok := s.create("g").offsets.get("t", p); !ok || !reflect.DeepEqual(got, o) {
			t.Errorf("partition %d: %+v", p, got)
		}
	}
	if s.groups["bad"] != nil {
		t.Error("a record that cannot be read makes a group")
	}
}

// FuzzConsumerValue reads any value of any kind: what is accepted is written back
// to what reads the same.
func FuzzConsumerValue(f *testing.F) {
	for _, r := range sampleRecords() {
		f.Add(r.key[1], r.value)
	}
	f.Fuzz(func(t *testing.T, kind byte, value []byte) {
		first, ok := rewritten(kind, value)
		if !ok {
			return
		}
		second, ok := rewritten(kind, first)
		if !ok || !bytes.Equal(first, second) {
			t.Errorf("kind %d: %x, written again %x (%t)", kind, first, second, ok)
		}
	})
}

// rewritten reads a value and writes it.
func rewritten(kind byte, value []byte) ([]byte, bool) {
	r, err := consumerReader(value)
	if err != nil {
		return nil, false
	}
	m := newMemberState("m")
	var out []byte
	switch uint16(kind) {
	case keyConsumerMetadata:
		out = groupEpochValue(readGroupEpoch(r))
	case keyConsumerTargetMetadata:
		out = targetEpochValue(readTargetEpoch(r))
	case keyConsumerTargetMember:
		out = targetValue(readTarget(r))
	case keyConsumerMember:
		readMember(r, &m)
		if m.classic != nil && len(m.classic.protocols) == 0 {
			return nil, false
		}
		out = memberValue(&m)
	case keyConsumerCurrentAssignment:
		readCurrent(r, &m)
		out = currentValue(&m)
	case keyConsumerRegularExpression:
		out = regexValue(readRegex(r))
	default:
		return nil, false
	}
	return out, r.Ok()
}
