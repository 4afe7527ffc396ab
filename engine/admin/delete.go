package admin

import (
	"context"
	"sync"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteTopics serves v1–v6: topics by name, or from v6 by id (KIP-516). A name
// or id that appears twice is refused, as is a name beside its own id
// (ControllerApis.deleteTopics). Directories are renamed at once; their files
// go after file.delete.delay.ms.
func (h *Handlers) DeleteTopics(ctx context.Context, req *kmsg.DeleteTopicsRequest, cl Client) *kmsg.DeleteTopicsResponse {
	ctx, cancel := withTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	d := deletion{h: h, client: cl, im: h.Image(), resp: kmsg.NewPtrDeleteTopicsResponse(), byName: map[string]int{}, byID: map[record.TopicID]int{}, answered: map[any]bool{}}
	d.resp.Version = req.Version
	topics := req.Topics
	if req.Version < 6 {
		topics = make([]kmsg.DeleteTopicsRequestTopic, len(req.TopicNames))
		for i := range req.TopicNames {
			topics[i] = kmsg.NewDeleteTopicsRequestTopic()
			topics[i].Topic = &req.TopicNames[i]
		}
	}
	if !h.Broker().DeleteTopicEnable {
		code := kerr.TopicDeletionDisabled
		if req.Version < 3 {
			code = kerr.InvalidRequest
		}
		for i := range topics {
			d.add(topics[i].Topic, topics[i].TopicID, code)
			d.resp.Topics[i].ErrorMessage = nil // Kafka gives the code alone
		}
		return d.resp
	}
	for i := range topics {
		switch t := &topics[i]; {
		case t.Topic == nil:
			d.byID[t.TopicID]++
		case t.TopicID == [16]byte{}:
			d.byName[*t.Topic]++
		}
	}
	for i := range topics {
		d.take(topics[i].Topic, topics[i].TopicID)
	}
	if len(d.ids) > 0 {
		for i, err := range h.Controller.DeleteTopics(ctx, d.ids) {
			out := &d.resp.Topics[d.slots[i]]
			out.ErrorCode, out.ErrorMessage = h.answer("DeleteTopics", err)
			if t := d.im.TopicsByID[d.ids[i]]; err == nil && t != nil {
				h.deleted.add(t.Name)
			}
		}
	}
	return d.resp
}

// deletion sorts the topics of one request into answers and work.
type deletion struct {
	h      *Handlers
	client Client
	im     *meta.Image
	resp   *kmsg.DeleteTopicsResponse
	byName map[string]int         // how often each name is in the request without an id
	byID   map[record.TopicID]int // and each id without a name
	// answered holds the duplicate names and ids that have their one answer.
	answered map[any]bool
	ids      []record.TopicID // to delete
	slots    []int            // of ids in resp.Topics
}

// add appends an answer; a nil error stands until the controller has answered.
func (d *deletion) add(name *string, id record.TopicID, err error) {
	out := kmsg.NewDeleteTopicsResponseTopic()
	out.Topic, out.TopicID = name, id
	out.ErrorCode, out.ErrorMessage = d.h.answer("DeleteTopics", err)
	d.resp.Topics = append(d.resp.Topics, out)
}

// take decides about one topic of the request.
func (d *deletion) take(name *string, id record.TopicID) {
	none := record.TopicID{}
	switch {
	case name != nil && id != none:
		d.add(name, id, fail(kerr.InvalidRequest, "You may not specify both topic name and topic id."))
	case name != nil:
		d.takeName(name)
	case id == none:
		d.add(nil, none, fail(kerr.InvalidRequest, "Neither topic name nor id were specified."))
	case d.byID[id] > 1:
		if !d.answered[id] {
			d.answered[id] = true
			d.add(nil, id, fail(kerr.InvalidRequest, "Duplicate topic id."))
		}
	default:
		if t := d.im.TopicsByID[id]; t == nil {
			d.add(nil, id, kerr.UnknownTopicID)
		} else if d.byName[t.Name] != 1 { // else the name's answer is for both
			d.remove(t)
		}
	}
}

// takeName decides about a topic given by name alone.
func (d *deletion) takeName(name *string) {
	t := d.im.Topics[*name]
	switch {
	case d.byName[*name] > 1:
		if !d.answered[*name] {
			d.answered[*name] = true
			d.add(name, record.TopicID{}, fail(kerr.InvalidRequest, "Duplicate topic name."))
		}
	case t == nil:
		d.add(name, record.TopicID{}, kerr.UnknownTopicOrPartition)
	case d.byID[t.ID] > 0:
		d.add(name, t.ID, fail(kerr.InvalidRequest, "The provided topic name maps to an ID that was already supplied."))
	default:
		d.remove(t)
	}
}

// remove leaves a topic to the controller, unless the client's quota is used up.
func (d *deletion) remove(t *meta.Topic) {
	if q := d.client.Mutations; q != nil && !q.Take(len(t.Partitions), d.client.Version >= deleteTopicsStrict) {
		d.add(&t.Name, t.ID, errThrottled)
		return
	}
	d.add(&t.Name, t.ID, nil)
	d.ids = append(d.ids, t.ID)
	d.slots = append(d.slots, len(d.resp.Topics)-1)
}

// deletedNames remembers topics that were deleted here until they are asked for.
type deletedNames struct {
	mu    sync.Mutex
	names map[string]struct{} // guarded by mu; forgotten when there are too many
}

func (d *deletedNames) add(name string) {
	const most = 1000
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil || len(d.names) >= most {
		d.names = make(map[string]struct{})
	}
	d.names[name] = struct{}{}
}

// take says whether the name was there, and forgets it.
func (d *deletedNames) take(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, found := d.names[name]
	delete(d.names, name)
	return found
}
