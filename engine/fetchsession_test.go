package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// inSession makes a fetch of a session without partitions.
func inSession(version int16, id, epoch int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MinBytes, req.MaxBytes = version, 1, 1<<20
	req.SessionID, req.SessionEpoch = id, epoch
	return req
}

// named lists the partitions of an answer.
func named(resp *kmsg.FetchResponse) (partitions []int32) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			partitions = append(partitions, p.Partition)
		}
	}
	return partitions
}

func TestFetchSession(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 2})
	b.createTopic("t", 3, nil)
	c := b.dial()
	ask := func(c *client, req *kmsg.FetchRequest) *kmsg.FetchResponse { return c.ask(req).(*kmsg.FetchResponse) }

	first := inSession(12, 0, 0)
	for p := range int32(3) {
		addFetch(first, "t", p, 0, 1<<20)
	}
	resp := ask(c, first)
	id := resp.SessionID
	if id == 0 || !slices.Equal(named(resp), []int32{0, 1, 2}) {
		t.Fatalf("first answer: %+v", resp)
	}

	// Nothing new: an answer without partitions.
	if resp = ask(c, inSession(12, id, 1)); resp.ErrorCode != 0 || resp.SessionID != id || len(resp.Topics) != 0 {
		t.Fatalf("nothing new: %+v", resp)
	}
	// On another connection, and loop: one partition has news.
	c = b.dial()
	c.produce("t", 1, "a")
	if resp = ask(c, inSession(12, id, 2)); !slices.Equal(named(resp), []int32{1}) || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Fatalf("news: %+v", resp)
	}
	// Served partitions go to the end of the order.
	c.produce("t", 2, "b")
	if resp = ask(c, inSession(12, id, 3)); !slices.Equal(named(resp), []int32{2, 1}) {
		t.Fatalf("order: %v", named(resp))
	}
	// The consumer moves on; a partition is forgotten.
	next := inSession(12, id, 4)
	addFetch(next, "t", 1, 1, 1<<20)
	addFetch(next, "t", 2, 1, 1<<20)
	next.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{0}}}
	if resp = ask(c, next); len(resp.Topics) != 0 {
		t.Fatalf("nothing new: %+v", resp)
	}
	c.produce("t", 0, "forgotten")
	if resp = ask(c, inSession(12, id, 5)); len(resp.Topics) != 0 {
		t.Fatalf("a forgotten partition: %+v", resp)
	}
	// An error is told, and its end.
	wrong := inSession(12, id, 6)
	addFetch(wrong, "t", 1, 99, 1<<20)
	if resp = ask(c, wrong); !slices.Equal(named(resp), []int32{1}) || resp.Topics[0].Partitions[0].ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Fatalf("error: %+v", resp)
	}
	right := inSession(12, id, 7)
	addFetch(right, "t", 1, 1, 1<<20)
	if resp = ask(c, right); !slices.Equal(named(resp), []int32{1}) || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("end of an error: %+v", resp)
	}

	// Refusals carry session id 0 and no partitions.
	for _, tc := range []struct {
		name string
		req  *kmsg.FetchRequest
		want *kerr.Error
	}{
		{"unknown session", inSession(12, id^1, 8), kerr.FetchSessionIDNotFound},
		{"epoch again", inSession(12, id, 7), kerr.InvalidFetchSessionEpoch},
		{"epoch too far", inSession(12, id, 9), kerr.InvalidFetchSessionEpoch},
		{"by topic id", inSession(13, id, 8), kerr.FetchSessionTopicIDError},
	} {
		if resp := ask(c, tc.req); resp.ErrorCode != tc.want.Code || resp.SessionID != 0 || len(resp.Topics) != 0 {
			t.Errorf("%s: %+v", tc.name, resp)
		}
	}
	// All forgotten: the session ends.
	last := inSession(12, id, 8)
	last.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{1, 2}}}
	if resp = ask(c, last); resp.ErrorCode != 0 || resp.SessionID != 0 {
		t.Fatalf("all forgotten: %+v", resp)
	}
	if resp = ask(c, inSession(12, id, 9)); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Fatalf("after the end: %+v", resp)
	}
}

func TestFetchSessionCloses(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	id := b.createTopic("t", 1, nil)
	c := b.dial()
	open := func(old int32) int32 {
		req := inSession(13, old, 0)
		addFetch(req, "", 0, 0, 1<<20)
		req.Topics[0].TopicID = id
		return c.ask(req).(*kmsg.FetchResponse).SessionID
	}
	first := open(0)
	second := open(first) // a full fetch ends the session it names
	if first == 0 || second == 0 || first == second {
		t.Fatalf("sessions %d and %d", first, second)
	}
	if resp := c.ask(inSession(13, first, 1)).(*kmsg.FetchResponse); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Fatalf("%+v", resp)
	}
	end := inSession(13, second, -1) // sessionless, and ends it
	addFetch(end, "", 0, 0, 1<<20)
	end.Topics[0].TopicID = id
	if resp := c.ask(end).(*kmsg.FetchResponse); resp.SessionID != 0 || len(named(resp)) != 1 {
		t.Fatalf("%+v", resp)
	}
	if resp := c.ask(inSession(13, second, 1)).(*kmsg.FetchResponse); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Fatalf("%+v", resp)
	}
}

// TestFetchSessionFairness: with a limit for one batch, the partitions of a
// session take turns.
func TestFetchSessionFairness(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 3, nil)
	c := b.dial()
	first := inSession(11, 0, 0)
	first.MaxBytes = 100
	for p := range int32(3) {
		c.produce("t", p, strings.Repeat("x", 500))
		addFetch(first, "t", p, 0, 1<<20)
	}
	resp := c.ask(first).(*kmsg.FetchResponse)
	var served []int32
	for epoch := int32(1); epoch < 7; epoch++ {
		req := inSession(11, resp.SessionID, epoch)
		req.MaxBytes = 100
		for _, p := range c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions {
			if len(p.RecordBatches) > 0 {
				served = append(served, p.Partition)
			}
		}
	}
	// The first answer, which made the session, served partition 0 and kept
	// the order of the request.
	if !slices.Equal(served, []int32{0, 1, 2, 0, 1, 2}) {
		t.Fatalf("served %v", served)
	}
}

// TestFetchSessionOfARecreatedTopic: by id, the old one becomes unknown; by
// name, the new topic is served.
func TestFetchSessionOfARecreatedTopic(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	old := b.createTopic("t", 1, nil)
	c := b.dial()
	byName, byID := inSession(12, 0, 0), inSession(13, 0, 0)
	addFetch(byName, "t", 0, 0, 1<<20)
	addFetch(byID, "", 0, 0, 1<<20)
	byID.Topics[0].TopicID = old
	name, id := c.ask(byName).(*kmsg.FetchResponse).SessionID, c.ask(byID).(*kmsg.FetchResponse).SessionID
	b.deleteTopic("t")
	b.createTopic("t", 1, nil)
	c.produce("t", 0, "new")
	if p := c.fetched(inSession(12, name, 1)); p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Fatalf("by name: %+v", p)
	}
	if p := c.fetched(inSession(13, id, 1)); p.ErrorCode != kerr.UnknownTopicID.Code {
		t.Fatalf("by id: %+v", p)
	}
}

func TestFetchSessionSlots(t *testing.T) {
	b := startBroker(t, brokerOptions{properties: map[string]string{"max.incremental.fetch.session.cache.slots": "2"}})
	b.createTopic("t", 1, nil)
	c := b.dial()
	var ids []int32
	for range 3 {
		req := inSession(12, 0, 0)
		addFetch(req, "t", 0, 0, 1<<20)
		resp := c.ask(req).(*kmsg.FetchResponse)
		if len(named(resp)) != 1 {
			t.Fatalf("%+v", resp)
		}
		ids = append(ids, resp.SessionID)
	}
	if ids[0] == 0 || ids[1] == 0 || ids[2] != 0 {
		t.Fatalf("sessions %v", ids)
	}
}
