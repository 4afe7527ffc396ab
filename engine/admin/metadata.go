package admin

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Metadata serves v0–v13: where the leaders are. Asked for no topics it tells of
// all (v0: an empty list, from v1: null) or of none (from v1: an empty list).
// v10 tells topic ids, v12 takes them. A topic that does not exist is created
// if the broker's auto.create.topics.enable and the client agree (before v4 a
// client always does); its first answer is UNKNOWN_TOPIC_OR_PARTITION all the
// same, as with Kafka, and the client asks again. Brokers are those with an
// address on the asking listener, and a leader that is not among them is none
// (KafkaApis.handleTopicMetadataRequest, KRaftMetadataCache).
func (h *Handlers) Metadata(ctx context.Context, req *kmsg.MetadataRequest, cl Client) *kmsg.MetadataResponse {
	return h.metadata(ctx, h.Image(), req, cl)
}

// MetadataAtHand is Metadata on an event loop: nil where the answer takes longer
// than that of partitionsMax partitions, or a topic may have to be created.
func (h *Handlers) MetadataAtHand(ctx context.Context, req *kmsg.MetadataRequest, cl Client, partitionsMax int) *kmsg.MetadataResponse {
	im := h.Image()
	if !atHand(im, req, partitionsMax) {
		return nil
	}
	return h.metadata(ctx, im, req, cl)
}

func (h *Handlers) metadata(ctx context.Context, im *meta.Image, req *kmsg.MetadataRequest, cl Client) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = req.Version
	resp.ControllerID = -1
	resp.AuthorizedOperations = notAsked
	if code := checkMetadata(req); code != nil {
		for _, t := range req.Topics {
			out := kmsg.NewMetadataResponseTopic()
			out.ErrorCode, out.Topic, out.TopicID = code.Code, nameOrEmpty(t.Topic), t.TopicID
			out.AuthorizedOperations = notAsked
			resp.Topics = append(resp.Topics, out)
		}
		return resp
	}

	answers := h.metadataTopics(ctx, im, req, allTopics(req))
	if latest := h.Image(); latest != im {
		im = latest // something was created: the brokers and topics below are of one image
	}
	view := view{im: im, listener: cl.Listener, version: req.Version}
	resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(answers))
	for _, a := range answers {
		out := view.topic(a)
		out.AuthorizedOperations = operations(req.Version >= 8 && req.IncludeTopicAuthorizedOperations, topicOperations)
		resp.Topics = append(resp.Topics, out)
	}
	nodes := liveBrokers(im, cl.Listener)
	resp.ControllerID = controllerID(im, nodes)
	resp.ClusterID = &im.ClusterID
	resp.AuthorizedOperations = operations(req.Version >= 8 && req.Version <= 10 && req.IncludeClusterAuthorizedOperations, clusterOperations)
	resp.Brokers = make([]kmsg.MetadataResponseBroker, 0, len(nodes))
	for _, n := range nodes {
		out := kmsg.NewMetadataResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack = n.ID, n.Host, n.Port, rack(n.Broker)
		resp.Brokers = append(resp.Brokers, out)
	}
	return resp
}

// atHand says whether all topics of a request are in the image, with at most
// partitionsMax topics and partitions together.
func atHand(im *meta.Image, req *kmsg.MetadataRequest, partitionsMax int) bool {
	if allTopics(req) {
		for _, name := range im.Names {
			if partitionsMax -= 1 + len(im.Topics[name].Partitions); partitionsMax < 0 {
				return false
			}
		}
		return true
	}
	for i := range req.Topics {
		t := im.TopicsByID[req.Topics[i].TopicID]
		if name := req.Topics[i].Topic; name != nil {
			if t = im.Topics[*name]; t == nil {
				return false // it may be created
			}
		}
		if partitionsMax--; t != nil {
			partitionsMax -= len(t.Partitions)
		}
		if partitionsMax < 0 {
			return false
		}
	}
	return true
}

// allTopics says that a request asks for whatever topics there are.
func allTopics(req *kmsg.MetadataRequest) bool {
	return req.Topics == nil || req.Version == 0 && len(req.Topics) == 0
}

// checkMetadata refuses topics without a name, and with an id where ids are not
// yet taken. Kafka answers every topic of such a request with the error.
func checkMetadata(req *kmsg.MetadataRequest) *kerr.Error {
	var zero [16]byte
	for _, t := range req.Topics {
		if t.Topic == nil && (req.Version < 12 || t.TopicID == zero) || t.TopicID != zero && req.Version < 12 {
			return kerr.InvalidRequest
		}
	}
	return nil
}

// answered is a topic of a Metadata request: either it exists in the image the
// response is made from, or code says what else.
type answered struct {
	name *string // nil: unknown id
	id   record.TopicID
	code *kerr.Error
}

// metadataTopics settles which topics are answered: each once, in the order of
// the request. If any is asked for by id, only ids count. What is created on
// demand is answered as it is then: Kafka says UNKNOWN_TOPIC_OR_PARTITION while
// it creates, but here the answer has waited for the topic already, and a client
// that takes the error for the present state (kafka-go's groups) would be wrong.
// The first to ask after a deletion still gets the error: who has just deleted a
// topic means to see that it is gone.
func (h *Handlers) metadataTopics(ctx context.Context, im *meta.Image, req *kmsg.MetadataRequest, all bool) []answered {
	if all {
		out := make([]answered, len(im.Names))
		for i := range im.Names {
			out[i] = answered{name: &im.Names[i]}
		}
		return out
	}
	out := make([]answered, 0, len(req.Topics))
	byID := slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != [16]byte{} })
	if byID {
		seen := make(map[record.TopicID]struct{}, len(req.Topics))
		for _, t := range req.Topics {
			id := record.TopicID(t.TopicID)
			if _, twice := seen[id]; twice || id == (record.TopicID{}) {
				continue
			}
			seen[id] = struct{}{}
			if known := im.TopicsByID[id]; known != nil {
				out = append(out, answered{name: &known.Name})
			} else {
				out = append(out, answered{id: id, code: kerr.UnknownTopicID})
			}
		}
		return out
	}
	create := h.Broker().AutoCreateTopics && (req.AllowAutoTopicCreation || req.Version < 4)
	seen := make(map[string]struct{}, len(req.Topics))
	var missing []string
	for _, t := range req.Topics {
		if _, twice := seen[*t.Topic]; twice {
			continue
		}
		seen[*t.Topic] = struct{}{}
		a := answered{name: t.Topic}
		if im.Topics[*t.Topic] == nil {
			a.code = kerr.UnknownTopicOrPartition
			if meta.InvalidTopicName(*t.Topic) != "" {
				a.code = kerr.InvalidTopicException
			} else {
				missing = append(missing, *t.Topic)
			}
		}
		out = append(out, a)
	}
	if create && len(missing) > 0 {
		failed := h.autoCreate(ctx, missing)
		made := h.Image()
		for i := range out {
			if code := failed[*out[i].name]; code != nil {
				out[i].code = code
			} else if made.Topics[*out[i].name] != nil && !h.deleted.take(*out[i].name) {
				out[i].code = nil
			}
		}
	}
	return out
}

// autoCreate creates topics with the broker's defaults, each by one caller at a
// time, and returns the codes of those that cannot be. It creates no more at
// once than CreateTopics would.
func (h *Handlers) autoCreate(ctx context.Context, names []string) map[string]*kerr.Error {
	var specs []meta.TopicSpec
	partitions := int64(0)
	for _, name := range names {
		if name == meta.ClusterMetadataTopic {
			continue
		}
		spec := h.defaultSpec(name)
		if partitions += int64(spec.Partitions); partitions > maxPartitionsPerRequest {
			break
		}
		if _, busy := h.creating.LoadOrStore(name, nil); !busy {
			specs = append(specs, spec)
		}
	}
	if len(specs) == 0 {
		return nil
	}
	defer func() {
		for _, spec := range specs {
			h.creating.Delete(spec.Name)
		}
	}()
	failed := make(map[string]*kerr.Error)
	var made []string
	for i, result := range h.Controller.CreateTopics(ctx, specs, false) {
		var code *kerr.Error
		if result.Err == nil || errors.Is(result.Err, kerr.TopicAlreadyExists) {
			made = append(made, specs[i].Name)
			continue
		}
		if !errors.As(result.Err, &code) {
			code = kerr.UnknownServerError
		}
		h.Logger.Warn("topic not created on demand", "topic", specs[i].Name, "error", result.Err)
		failed[specs[i].Name] = code
	}
	h.waitReady(ctx, made)
	return failed
}

// CreateInternalTopic creates an internal topic of Kafka's with the broker's
// settings for it, and waits until it can be used. Whether it exists then, the
// image says.
func (h *Handlers) CreateInternalTopic(ctx context.Context, name string) {
	h.autoCreate(ctx, []string{name})
}

// defaultSpec is the topic that asking for a name creates
// (AutoTopicCreationManager.creatableTopic).
func (h *Handlers) defaultSpec(name string) meta.TopicSpec {
	b := h.Broker()
	switch name {
	case meta.OffsetsTopic:
		return meta.TopicSpec{Name: name, Partitions: b.OffsetsTopicPartitions, ReplicationFactor: b.OffsetsTopicReplication, Configs: map[string]string{
			"cleanup.policy":   "compact",
			"compression.type": "producer",
			"segment.bytes":    itoa(b.OffsetsTopicSegmentBytes),
		}}
	case meta.TransactionTopic:
		return meta.TopicSpec{Name: name, Partitions: b.TransactionTopicPartitions, ReplicationFactor: b.TransactionTopicReplication, Configs: map[string]string{
			"cleanup.policy":                 "compact",
			"compression.type":               "uncompressed",
			"min.insync.replicas":            itoa(b.TransactionTopicMinISR),
			"segment.bytes":                  itoa(b.TransactionTopicSegmentBytes),
			"unclean.leader.election.enable": "false",
		}}
	}
	return meta.TopicSpec{Name: name, Partitions: b.NumPartitions, ReplicationFactor: b.DefaultReplicationFactor}
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }

// view renders topics of one image for one listener and Metadata version.
type view struct {
	im       *meta.Image
	listener string
	version  int16
}

// topic renders one answer.
func (v view) topic(a answered) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = a.name, a.id
	if a.name != nil {
		out.IsInternal = meta.IsInternal(*a.name)
	}
	if a.code != nil {
		out.ErrorCode = a.code.Code
		return out
	}
	t := v.im.Topics[*a.name]
	if t == nil { // deleted since
		out.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return out
	}
	out.TopicID, out.IsInternal = t.ID, t.Internal
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		out.Partitions[i] = v.partition(int32(i), &t.Partitions[i])
	}
	return out
}

// partition renders one partition. v0 leaves replicas out that cannot be
// reached and says so; v6 tells a missing listener from a missing leader.
func (v view) partition(i int32, p *meta.Partition) kmsg.MetadataResponseTopicPartition {
	out := kmsg.NewMetadataResponseTopicPartition()
	out.Partition, out.LeaderEpoch = i, int32(p.LeaderEpoch)
	out.Replicas, out.ISR = p.Replicas, p.ISR
	if v.version == 0 {
		out.Replicas, out.ISR = v.reachable(p.Replicas), v.reachable(p.ISR)
	}
	out.OfflineReplicas = v.offline(p)
	switch leader := v.im.Broker(p.Leader); {
	case leader == nil:
		out.Leader, out.ErrorCode = meta.NoLeader, kerr.LeaderNotAvailable.Code
	case !v.live(leader):
		out.Leader, out.ErrorCode = meta.NoLeader, kerr.LeaderNotAvailable.Code
		if v.version >= 6 {
			out.ErrorCode = kerr.ListenerNotFound.Code
		}
	case len(out.Replicas) < len(p.Replicas) || len(out.ISR) < len(p.ISR):
		out.Leader, out.ErrorCode = p.Leader, kerr.ReplicaNotAvailable.Code
	default:
		out.Leader = p.Leader
	}
	return out
}

// live reports whether a broker serves this view's listener.
func (v view) live(b *meta.Broker) bool {
	_, ok := b.Endpoint(v.listener)
	return ok && !b.Fenced
}

// reachable leaves out the brokers that this view's listener cannot reach.
func (v view) reachable(ids []int32) []int32 {
	out := make([]int32, 0, len(ids))
	for _, id := range ids {
		if b := v.im.Broker(id); b != nil && v.live(b) {
			out = append(out, id)
		}
	}
	return out
}

// offline returns the replicas on brokers that are gone, fenced or not on this
// listener, and those in a failed log directory.
func (v view) offline(p *meta.Partition) []int32 {
	out := p.Offline
	for _, id := range p.Replicas {
		if b := v.im.Broker(id); (b == nil || !v.live(b)) && !slices.Contains(out, id) {
			out = append(slices.Clip(out), id)
		}
	}
	return out
}

// nameOrEmpty is what Kafka answers where a name is missing.
func nameOrEmpty(name *string) *string {
	if name == nil {
		return new(string)
	}
	return name
}
