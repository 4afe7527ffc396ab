package meta_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/replication/meta/metalocal"
	"github.com/posthouse/posthouse/storage/record"
)

// TestImageByDeltas writes at random and checks that the image that follows the
// events is the one that a broker would load, and that no image ever changes
// once it has been given out.
func TestImageByDeltas(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx := context.Background()
	s, err := metalocal.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	events, err := s.Watch(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	im := meta.EmptyImage()
	ids := map[string]record.TopicID{}
	for range 400 {
		frozen, before := im, fmt.Sprintf("%+v", dump(im))
		if _, err := s.Txn(ctx, nil, randomOps(random, im, ids)); err != nil {
			t.Fatal(err)
		}
		if im, err = im.Apply(<-events); err != nil {
			t.Fatal(err)
		}
		if after := fmt.Sprintf("%+v", dump(frozen)); after != before {
			t.Fatalf("an image changed:\n%s\n%s", before, after)
		}
		loaded, err := meta.Load(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(dump(im), dump(loaded)) {
			for i, got := range dump(im) {
				if want := dump(loaded)[i]; !reflect.DeepEqual(got, want) {
					t.Fatalf("part %d by events:\n%+v\nloaded:\n%+v", i, got, want)
				}
			}
		}
		checkImage(t, im, s)
	}
}

// dump is an image's contents without what is only kept for deltas.
func dump(im *meta.Image) []any {
	type topic struct {
		Name       string
		ID         record.TopicID
		Partitions []meta.Partition
		Configs    map[string]string
		Stated     []int32
	}
	topics := map[string]topic{}
	for name, t := range im.Topics {
		topics[name] = topic{t.Name, t.ID, t.Partitions, t.Configs, append([]int32{}, t.Stated()...)}
	}
	return []any{
		im.Revision, im.ClusterID, im.ControllerID, append([]meta.Broker{}, im.Brokers...), topics,
		append([]string{}, im.Names...), im.BrokerConfigs, im.BrokerDefaults, im.Deleted,
	}
}

// checkImage checks what holds of every image.
func checkImage(t *testing.T, im *meta.Image, s meta.Store) {
	t.Helper()
	if len(im.Names) != len(im.Topics) || len(im.TopicsByID) != len(im.Topics) || !slices.IsSorted(im.Names) {
		t.Fatalf("%d names, %d topics, %d ids", len(im.Names), len(im.Topics), len(im.TopicsByID))
	}
	entries, _, err := s.List(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if v := im.Version(e.Key); v != e.Version && !orphan(im, e.Key) {
			t.Fatalf("version of %q is %d in the image, %d in the store", e.Key, v, e.Version)
		}
	}
}

// orphan says whether a key belongs to a topic that does not exist.
func orphan(im *meta.Image, key string) bool {
	if id, _, ok := meta.ParseStateKey(key); ok {
		return im.TopicsByID[id] == nil
	}
	if name, ok := strings.CutPrefix(key, meta.PrefixTopicConfigs); ok {
		return im.Topics[name] == nil
	}
	return strings.HasPrefix(key, meta.PrefixDeleted) // not guarded by the image's version
}

func randomOps(random *rand.Rand, im *meta.Image, ids map[string]record.TopicID) []meta.Op {
	// A transaction that changes nothing is no event: let each change something.
	ops := map[string]meta.Op{"tick": meta.Put("tick", nil)}
	add := func(op meta.Op) { ops[op.Key] = op }
	for range 1 + random.IntN(4) {
		name := fmt.Sprintf("t%d", random.IntN(6))
		broker := random.Int32N(4)
		values := &meta.ConfigValue{Values: map[string]string{"k": fmt.Sprint(random.IntN(10))}}
		switch random.IntN(10) {
		case 0, 1:
			if im.Topics[name] == nil || random.IntN(4) == 0 {
				ids[name] = record.NewTopicID()
			}
			v := &meta.TopicValue{ID: ids[name].String()}
			for range 1 + random.IntN(4) {
				v.Partitions = append(v.Partitions, meta.AssignmentValue{Replicas: []int32{broker, broker + 1}})
			}
			add(meta.Put(meta.KeyTopic(name), meta.Encode(v)))
		case 2:
			add(meta.Delete(meta.KeyTopic(name)))
			add(meta.Delete(meta.KeyTopicConfig(name)))
			add(meta.Put(meta.KeyDeleted(ids[name]), meta.Encode(&meta.DeletedValue{Name: name})))
		case 3:
			if im.Topics[name] != nil {
				add(meta.Put(meta.KeyTopicConfig(name), meta.Encode(values)))
			}
		case 4:
			if t := im.Topics[name]; t != nil {
				add(meta.Put(meta.KeyState(t.ID, 0), meta.Encode(&meta.StateValue{Leader: broker, Epoch: random.Int32N(9), ISR: []int32{broker}})))
			}
		case 5:
			if t := im.Topics[name]; t != nil {
				add(meta.Delete(meta.KeyState(t.ID, 0)))
			}
		case 6:
			add(meta.Put(meta.KeyBroker(broker), meta.Encode(&meta.BrokerValue{Epoch: random.Int64N(99), Rack: "r"})))
		case 7:
			add(meta.Delete(meta.KeyBroker(broker)))
		case 8:
			add(meta.Put(meta.KeyBrokerConfig(broker), meta.Encode(values)))
			add(meta.Put(meta.KeyBrokerDefault, meta.Encode(values)))
		case 9:
			add(meta.Put(meta.KeyCluster, meta.Encode(&meta.ClusterValue{ID: fmt.Sprint(broker)})))
			add(meta.Delete(meta.KeyBrokerConfig(broker)))
		}
	}
	for i := range 6 {
		// A deleted topic's configs go with it.
		name := fmt.Sprintf("t%d", i)
		if ops[meta.KeyTopic(name)].Delete {
			add(meta.Delete(meta.KeyTopicConfig(name)))
		}
	}
	out := make([]meta.Op, 0, len(ops))
	for _, op := range ops {
		out = append(out, op)
	}
	// A topic and what belongs to an earlier one of its name do not mix in one
	// transaction of the controller either.
	for _, op := range out {
		if name, ok := strings.CutPrefix(op.Key, meta.PrefixTopics); ok {
			out = slices.DeleteFunc(out, func(o meta.Op) bool {
				return o.Key != op.Key && (o.Key == meta.KeyTopicConfig(name) && !o.Delete ||
					im.Topics[name] != nil && strings.HasPrefix(o.Key, meta.PrefixStates))
			})
		}
	}
	return out
}

func TestImageRefusesWhatItCannotRead(t *testing.T) {
	for _, e := range []meta.Entry{
		{Key: meta.KeyTopic("t"), Value: []byte(`{"v":2,"id":"x"}`)},
		{Key: meta.KeyTopic("t"), Value: []byte(`{"id":"x"}`)},
		{Key: meta.KeyTopic("t"), Value: []byte(`{"v":1,"id":"not an id"}`)},
		{Key: meta.KeyTopic("t"), Value: []byte(`{"v":1`)},
		{Key: meta.KeyBroker(1), Value: []byte(`[]`)},
		{Key: meta.PrefixBrokers + "one", Value: meta.Encode(&meta.BrokerValue{})},
		{Key: meta.PrefixStates + "x/0", Value: meta.Encode(&meta.StateValue{})},
		{Key: meta.KeyBrokerDefault, Value: []byte(`{"v":1,"values":3}`)},
	} {
		_, err := meta.EmptyImage().Apply(meta.Event{Revision: 1, Changes: []meta.Change{{Entry: e}}})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", e.Key)) {
			t.Errorf("%s = %s: error is %v", e.Key, e.Value, err)
		}
	}
}

func TestStateKeys(t *testing.T) {
	id := record.NewTopicID()
	key := meta.KeyState(id, 17)
	if got, p, ok := meta.ParseStateKey(key); !ok || got != id || p != 17 {
		t.Fatalf("%q is read as %v %d %v", key, got, p, ok)
	}
	for _, bad := range []string{"", "states/", "states/x/1", key + "x", "states/" + id.String(), "states/" + id.String() + "/-1", "states/" + id.String() + "/01"} {
		if _, _, ok := meta.ParseStateKey(bad); ok {
			t.Errorf("%q is taken for a state's key", bad)
		}
	}
}

// BenchmarkApply is one topic's creation on a broker with 10,000.
func BenchmarkApply(b *testing.B) {
	im := meta.EmptyImage()
	ev := meta.Event{}
	for i := range 10000 {
		ev.Changes = append(ev.Changes, topicChange(fmt.Sprintf("topic-%d", i)))
	}
	im, err := im.Apply(ev)
	if err != nil {
		b.Fatal(err)
	}
	c := topicChange("one more")
	for b.Loop() {
		if _, err := im.Apply(meta.Event{Changes: []meta.Change{c}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad is the start of a broker with 10,000 topics.
func BenchmarkLoad(b *testing.B) {
	ev := meta.Event{}
	for i := range 10000 {
		ev.Changes = append(ev.Changes, topicChange(fmt.Sprintf("topic-%d", i)))
	}
	for b.Loop() {
		if _, err := meta.EmptyImage().Apply(ev); err != nil {
			b.Fatal(err)
		}
	}
}

func topicChange(name string) meta.Change {
	v := &meta.TopicValue{ID: record.NewTopicID().String(), Partitions: []meta.AssignmentValue{{Replicas: []int32{1}}}}
	return meta.Change{Entry: meta.Entry{Key: meta.KeyTopic(name), Value: meta.Encode(v), Version: 1}}
}
