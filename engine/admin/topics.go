package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxPartitionsPerRequest bounds what one request may create, as in Kafka
// (ReplicationControlManager.MAX_PARTITIONS_PER_BATCH).
const maxPartitionsPerRequest = 10000

// withTimeout gives a request the time that its client waits; zero or less is
// no bound of its own.
func withTimeout(ctx context.Context, ms int32) (context.Context, context.CancelFunc) {
	if ms <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
}

// CreateTopics serves v2–v7: each topic by itself, -1 for the broker's defaults
// (KIP-464), validateOnly, and from v5 the configs, partitions and replicas of
// what was made (KIP-525). A name that appears twice is refused and answered
// once, after the others, as in Kafka (ControllerApis.createTopics).
func (h *Handlers) CreateTopics(ctx context.Context, req *kmsg.CreateTopicsRequest, cl Client) *kmsg.CreateTopicsResponse {
	ctx, cancel := withTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = req.Version
	if h.tooManyPartitions(req.Topics) {
		for i := range req.Topics {
			h.refuseTopic(resp, req.Topics[i].Topic, fail(kerr.PolicyViolation, "Excessively large number of partitions per request."))
		}
		return resp
	}
	counts := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		counts[req.Topics[i].Topic]++
	}
	// Slots keep the order of the request; the specs that pass go to the
	// controller together.
	var specs []meta.TopicSpec
	var slots []int
	var last []string // duplicates, and the topic nobody may create
	deferred := make(map[string]bool)
	for i := range req.Topics {
		t := &req.Topics[i]
		if counts[t.Topic] > 1 || t.Topic == meta.ClusterMetadataTopic {
			if !deferred[t.Topic] {
				deferred[t.Topic] = true
				last = append(last, t.Topic)
			}
			continue
		}
		spec, err := h.topicSpec(t)
		h.refuseTopic(resp, t.Topic, err)
		if err == nil {
			slots = append(slots, len(resp.Topics)-1)
			specs = append(specs, spec)
		}
	}
	if len(specs) > 0 {
		var made []string
		for i, result := range h.createTopics(ctx, cl, specs, req.ValidateOnly) {
			h.createdTopic(&resp.Topics[slots[i]], specs[i], result)
			if result.Err == nil && !req.ValidateOnly {
				made = append(made, specs[i].Name)
			}
		}
		h.waitReady(ctx, made)
	}
	for _, name := range last {
		if counts[name] > 1 {
			h.refuseTopic(resp, name, fail(kerr.InvalidRequest, "Duplicate topic name."))
		} else {
			h.refuseTopic(resp, name, fail(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", name))
		}
	}
	return resp
}

// The first versions whose answers may say THROTTLING_QUOTA_EXCEEDED (KIP-599);
// older clients are throttled and get what they asked for.
const (
	createTopicsStrict     = 6
	createPartitionsStrict = 3
	deleteTopicsStrict     = 5
)

var errThrottled = fail(kerr.ThrottlingQuotaExceeded, "The throttling quota has been exceeded.")

// createTopics has the controller create topics, as far as the client's quota of
// partitions goes. What is refused for another reason takes nothing of it.
func (h *Handlers) createTopics(ctx context.Context, cl Client, specs []meta.TopicSpec, validateOnly bool) []meta.TopicResult {
	if cl.Mutations == nil {
		return h.Controller.CreateTopics(ctx, specs, validateOnly)
	}
	results := h.Controller.CreateTopics(ctx, specs, true)
	var paid []meta.TopicSpec
	var slots []int
	for i := range results {
		if results[i].Err != nil {
			continue
		}
		if !cl.Mutations.Take(len(results[i].Topic.Partitions), cl.Version >= createTopicsStrict) {
			results[i] = meta.TopicResult{Err: errThrottled}
			continue
		}
		paid, slots = append(paid, specs[i]), append(slots, i)
	}
	if validateOnly || len(paid) == 0 {
		return results
	}
	for i, result := range h.Controller.CreateTopics(ctx, paid, false) {
		results[slots[i]] = result
	}
	return results
}

// createPartitions is that for the partitions of one topic.
func (h *Handlers) createPartitions(ctx context.Context, cl Client, t *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	placed := replicaLists(t.Assignment)
	before := 0
	if known := h.Image().Topics[t.Topic]; known != nil {
		before = len(known.Partitions)
	}
	if cl.Mutations != nil {
		if err := h.Controller.CreatePartitions(ctx, t.Topic, t.Count, placed, true); err != nil {
			return err
		}
		if !cl.Mutations.Take(int(t.Count)-before, cl.Version >= createPartitionsStrict) {
			return errThrottled
		}
	}
	err := h.Controller.CreatePartitions(ctx, t.Topic, t.Count, placed, validateOnly)
	if err == nil && !validateOnly {
		h.changed(cl, "topic "+t.Topic, "partitions", before, t.Count)
	}
	return err
}

// refuseTopic appends a topic's answer: an error, or nil for one to be filled.
func (h *Handlers) refuseTopic(resp *kmsg.CreateTopicsResponse, name string, err error) {
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic, out.NumPartitions, out.ReplicationFactor = name, -1, -1
	out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	out.ErrorCode, out.ErrorMessage = h.answer("CreateTopics", err)
	resp.Topics = append(resp.Topics, out)
}

// tooManyPartitions adds up what a request asks for.
func (h *Handlers) tooManyPartitions(topics []kmsg.CreateTopicsRequestTopic) bool {
	total := int64(0)
	for i := range topics {
		t := &topics[i]
		switch {
		case len(t.ReplicaAssignment) > 0:
			total += int64(len(t.ReplicaAssignment))
		case t.NumPartitions == -1:
			total += int64(h.Broker().NumPartitions)
		case t.NumPartitions > 0:
			total += int64(t.NumPartitions)
		}
	}
	return total > maxPartitionsPerRequest
}

// topicSpec turns a topic of the request into what the controller takes. The
// rest of the checks are the controller's; a config that is given twice has its
// last value.
func (h *Handlers) topicSpec(t *kmsg.CreateTopicsRequestTopic) (meta.TopicSpec, error) {
	spec := meta.TopicSpec{Name: t.Topic, Partitions: t.NumPartitions, ReplicationFactor: t.ReplicationFactor}
	if reason := meta.InvalidTopicName(t.Topic); reason != "" {
		return spec, fail(kerr.InvalidTopicException, "%s", reason)
	}
	var nulls []string
	for i := range t.Configs {
		c := &t.Configs[i]
		if c.Value == nil {
			nulls = append(nulls, c.Name)
			continue
		}
		if err := checkLength(c.Name, *c.Value); err != nil {
			return spec, err
		}
		if spec.Configs == nil {
			spec.Configs = make(map[string]string, len(t.Configs))
		}
		spec.Configs[c.Name] = *c.Value
	}
	if h.Image().Topics[t.Topic] != nil { // before anything said of its configs
		return spec, fail(kerr.TopicAlreadyExists, "Topic '%s' already exists.", t.Topic)
	}
	if len(nulls) > 0 {
		return spec, fail(kerr.InvalidConfig, "Null value not supported for topic configs: %s", strings.Join(nulls, ","))
	}
	for i := range t.ReplicaAssignment {
		a := &t.ReplicaAssignment[i]
		if spec.Assignment == nil {
			spec.Assignment = make(map[int32][]int32, len(t.ReplicaAssignment))
		}
		if _, twice := spec.Assignment[a.Partition]; twice {
			return spec, fail(kerr.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		spec.Assignment[a.Partition] = a.Replicas
	}
	return spec, checkMinISR(spec.Configs, h.replicasAsked(&spec))
}

// createdTopic fills in what the controller made of a spec.
func (h *Handlers) createdTopic(out *kmsg.CreateTopicsResponseTopic, spec meta.TopicSpec, result meta.TopicResult) {
	if result.Err != nil {
		out.ErrorCode, out.ErrorMessage = h.answer("CreateTopics", result.Err)
		return
	}
	out.TopicID = result.Topic.ID
	out.NumPartitions = int32(len(result.Topic.Partitions))
	if len(result.Topic.Partitions) > 0 {
		out.ReplicationFactor = int16(len(result.Topic.Partitions[0].Replicas))
	}
	values := h.Broker().TopicValues(spec.Configs)
	out.Configs = make([]kmsg.CreateTopicsResponseTopicConfig, len(values))
	for i, e := range values {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.Source = e.Name, e.Value, int8(e.Source)
		out.Configs[i] = c
	}
}

// CreatePartitions serves v0–v3: more partitions for topics, each by itself,
// placed by the controller or by hand.
func (h *Handlers) CreatePartitions(ctx context.Context, req *kmsg.CreatePartitionsRequest, cl Client) *kmsg.CreatePartitionsResponse {
	ctx, cancel := withTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	resp := kmsg.NewPtrCreatePartitionsResponse()
	resp.Version = req.Version
	counts := make(map[string]int, len(req.Topics))
	additional := int64(0)
	im := h.Image()
	for i := range req.Topics {
		t := &req.Topics[i]
		counts[t.Topic]++
		if known := im.Topics[t.Topic]; known != nil {
			additional += max(0, int64(t.Count)-int64(len(known.Partitions)))
		}
	}
	answered := make(map[string]struct{}, len(req.Topics))
	var grown []string
	for i := range req.Topics {
		t := &req.Topics[i]
		if _, twice := answered[t.Topic]; twice {
			continue
		}
		answered[t.Topic] = struct{}{}
		var err error
		switch {
		case counts[t.Topic] > 1:
			err = fail(kerr.InvalidRequest, "Duplicate topic name.")
		case additional > maxPartitionsPerRequest:
			err = fail(kerr.PolicyViolation, "Excessively large number of additional partitions per request.")
		default:
			err = h.createPartitions(ctx, cl, t, req.ValidateOnly)
		}
		if err == nil && !req.ValidateOnly {
			grown = append(grown, t.Topic)
		}
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = t.Topic
		out.ErrorCode, out.ErrorMessage = h.answer("CreatePartitions", err)
		if plain(err) {
			out.ErrorMessage = nil // an exception without a text, in Kafka
		}
		resp.Topics = append(resp.Topics, out)
	}
	h.waitReady(ctx, grown)
	return resp
}

// plain reports whether an error is a code and nothing else.
func plain(err error) bool {
	var texted *record.Error
	var coded *kerr.Error
	return !errors.As(err, &texted) && errors.As(err, &coded)
}

// replicaLists keeps null apart from empty.
func replicaLists(assignment []kmsg.CreatePartitionsRequestTopicAssignment) [][]int32 {
	if assignment == nil {
		return nil
	}
	lists := make([][]int32, len(assignment))
	for i := range assignment {
		lists[i] = assignment[i].Replicas
	}
	return lists
}
