package controller

import (
	"slices"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
)

func TestAdoptTopics(t *testing.T) {
	f := newFixture(t)
	a, b, c := record.NewTopicID(), record.NewTopicID(), record.NewTopicID()
	at := func(topic string, partition int32, id record.TopicID) storage.FoundLog {
		tp := record.TopicPartition{Topic: topic, Partition: partition}
		return storage.FoundLog{Dir: "/d/" + tp.String(), TP: tp, TopicID: id}
	}
	found := []storage.FoundLog{at("a", 0, a), at("a", 3, a), at("b", 1, b), at("mixed", 0, b), at("mixed", 1, c),
		at("no-id", 0, record.TopicID{}), at("huge", 2_000_000_000, c), at("bad name", 0, c)}
	if err := f.AdoptTopics(f.ctx, found, map[string]map[string]string{"a": {"retention.ms": "x"}}); err == nil || !strings.Contains(err.Error(), "topic a") {
		t.Fatalf("error is %v", err)
	}
	f.ok(f.AdoptTopics(f.ctx, nil, nil))
	f.ok(f.AdoptTopics(f.ctx, found, map[string]map[string]string{"a": {"retention.ms": "1"}}))
	im := f.Image()
	if !slices.Equal(im.Names, []string{"a", "b"}) || im.Topics["a"].ID != a || len(im.Topics["a"].Partitions) != 4 || len(im.Topics["b"].Partitions) != 2 || im.Topics["a"].Configs["retention.ms"] != "1" {
		t.Fatalf("adopted %+v", summary(im))
	}
	// A crash stops it half way: the next start goes on.
	f.kill()
	f.start("")
	f.ok(f.AdoptTopics(f.ctx, append(found, at("late", 0, c)), nil))
	f.ok(f.ReserveProducerIDs(f.ctx, record.NoProducerID))
	if !slices.Equal(f.Image().Names, []string{"a", "b", "late"}) || f.Image().Adopting() {
		t.Fatalf("adopted %v", f.Image().Names)
	}
	f.ok(f.AdoptTopics(f.ctx, append(found, at("too-late", 0, c)), nil))
	if f.Image().Topics["too-late"] != nil {
		t.Fatal("adopted into a store that is not empty")
	}
	f.same()
}
