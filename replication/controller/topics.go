package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// CreateTopics creates topics, each whole or not at all; one that is refused
// does not keep the others from being made (ReplicationControlManager.java).
// With validateOnly nothing is written. Directories follow the image.
func (c *Controller) CreateTopics(ctx context.Context, specs []meta.TopicSpec, validateOnly bool) []meta.TopicResult {
	topics := make([]*meta.Topic, len(specs))
	errs := newOutcomes(len(specs))
	err := c.step(ctx, func(im *meta.Image) (*plan, error) {
		p := &plan{}
		taken := collisionsOf(im)
		made := map[string]bool{}
		place := newPlacer(im, c.random)
		for i, spec := range specs {
			id := c.topicID()
			parts, err := c.planTopic(im, spec, taken, made, place)
			if errs[i] = err; err != nil {
				continue
			}
			errs[i] = errUndecided
			made[spec.Name] = true
			taken.add(spec.Name)
			v := meta.TopicValue{ID: id.String(), Partitions: parts}
			topics[i] = im.Preview(spec.Name, id, v, spec.Configs)
			if !validateOnly {
				planCreation(im, p, spec.Name, v, spec.Configs)
				p.end(func(err error) { errs[i] = err })
			}
		}
		return p, nil
	})
	errs.settle(err)
	results := make([]meta.TopicResult, len(specs))
	for i := range specs {
		results[i] = meta.TopicResult{Topic: topics[i], Err: errs[i]}
		if errs[i] != nil {
			results[i].Topic = nil
		} else if !validateOnly {
			c.cfg.Logger.Info("topic created", "topic", specs[i].Name, "id", topics[i].ID.String(), "partitions", len(topics[i].Partitions))
		}
	}
	return results
}

func planCreation(im *meta.Image, p *plan, name string, v meta.TopicValue, configs map[string]string) {
	p.put(im, meta.KeyTopic(name), meta.Encode(&v))
	if len(configs) > 0 {
		p.put(im, meta.KeyTopicConfig(name), meta.Encode(&meta.ConfigValue{Values: configs}))
	}
}

// outcomes are the answers to the parts of one request.
type outcomes []error

// errUndecided marks a part that was planned and whose write told nothing yet.
var errUndecided = errors.New("controller: undecided")

func newOutcomes(n int) outcomes {
	o := make(outcomes, n)
	for i := range o {
		o[i] = errUndecided
	}
	return o
}

// settle gives the step's own outcome to the parts that are still undecided.
func (o outcomes) settle(err error) {
	for i := range o {
		if o[i] == errUndecided {
			o[i] = err
		}
	}
}

// planTopic checks a spec and places its replicas.
func (c *Controller) planTopic(im *meta.Image, spec meta.TopicSpec, taken collisions, made map[string]bool, place *placer) ([]meta.AssignmentValue, error) {
	if reason := meta.InvalidTopicName(spec.Name); reason != "" {
		return nil, &record.Error{Kerr: kerr.InvalidTopicException, Message: reason}
	}
	if spec.Name == meta.ClusterMetadataTopic {
		return nil, record.Errorf(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", spec.Name)
	}
	if im.Topics[spec.Name] != nil || made[spec.Name] {
		return nil, record.Errorf(kerr.TopicAlreadyExists, "Topic '%s' already exists.", spec.Name)
	}
	if err := taken.check(spec.Name); err != nil {
		return nil, err
	}
	broker := c.cfg.Broker(im)
	if _, err := config.ParseTopic(spec.Configs, broker); err != nil {
		return nil, &record.Error{Kerr: kerr.InvalidConfig, Message: err.Error()}
	}
	if len(spec.Assignment) > 0 {
		return manual(im, spec)
	}
	return automatic(im, spec, broker, place)
}

// automatic places a topic by its partition and replica counts.
func automatic(im *meta.Image, spec meta.TopicSpec, broker *config.Broker, place *placer) ([]meta.AssignmentValue, error) {
	replicas, partitions := int(spec.ReplicationFactor), int(spec.Partitions)
	if replicas < -1 || replicas == 0 {
		return nil, record.Errorf(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	}
	if partitions < -1 || partitions == 0 {
		return nil, record.Errorf(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	if replicas == -1 {
		replicas = int(broker.DefaultReplicationFactor)
	}
	if partitions == -1 {
		partitions = int(broker.NumPartitions)
	}
	if partitions > maxPartitions {
		// Kafka fails such a request as a whole, by the size of its records.
		return nil, record.Errorf(kerr.PolicyViolation, "Unable to perform excessively large batch operation: %d partitions, at most %d in one request.", partitions, maxPartitions)
	}
	placed, err := place.place(partitions, replicas)
	if err != nil {
		return nil, record.Errorf(kerr.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): %s", replicas, message(err))
	}
	out := make([]meta.AssignmentValue, len(placed))
	for i, r := range placed {
		out[i] = assignment(im, r)
	}
	return out, nil
}

// maxPartitions bounds one request (QuorumController.MAX_RECORDS_PER_USER_OP).
const maxPartitions = 10000

// message is what the client sees of a refusal, without the code's own text.
func message(err error) string {
	var e *record.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// assignment makes a partition's value: the first live replica leads, the live
// ones are the ISR.
func assignment(im *meta.Image, replicas []int32) meta.AssignmentValue {
	a := meta.AssignmentValue{Replicas: replicas}
	live := liveOf(im, replicas)
	if len(live) < len(replicas) {
		a.ISR = live
		if len(live) > 0 && live[0] != replicas[0] {
			a.Leader = &live[0]
		}
	}
	return a
}

func liveOf(im *meta.Image, replicas []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(replicas), func(id int32) bool {
		b := im.Broker(id)
		return b == nil || b.Fenced
	})
}

// manual takes a topic's placement from the request.
func manual(im *meta.Image, spec meta.TopicSpec) ([]meta.AssignmentValue, error) {
	if spec.ReplicationFactor != -1 {
		return nil, record.Errorf(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if spec.Partitions != -1 {
		return nil, record.Errorf(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	replicas := 0
	out := make([]meta.AssignmentValue, 0, len(spec.Assignment))
	for i, partition := range slices.Sorted(maps.Keys(spec.Assignment)) {
		ids := spec.Assignment[partition]
		if err := checkManual(im, partition, ids, replicas); err != nil {
			return nil, err
		}
		if int(partition) != i {
			return nil, record.Errorf(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		replicas = len(ids)
		out = append(out, assignment(im, slices.Clone(ids)))
	}
	return out, nil
}

// checkManual checks one partition placed by hand; replicas, unless 0, is how
// many it must have.
func checkManual(im *meta.Image, partition int32, ids []int32, replicas int) error {
	if len(ids) == 0 {
		return record.Errorf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(ids))
	for i, id := range sorted {
		if im.Broker(id) == nil {
			return record.Errorf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
		if i > 0 && sorted[i-1] == id {
			return record.Errorf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.", id)
		}
	}
	if replicas != 0 && len(ids) != replicas {
		return record.Errorf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).", len(ids), replicas)
	}
	if len(liveOf(im, ids)) == 0 {
		return record.Errorf(kerr.InvalidReplicaAssignment, "All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", partition)
	}
	return nil
}

// CreatePartitions grows a topic to count partitions. assignment places the new
// ones by hand, in order; nil leaves it to the controller.
func (c *Controller) CreatePartitions(ctx context.Context, topic string, count int32, assignment [][]int32, validateOnly bool) error {
	return c.step(ctx, func(im *meta.Image) (*plan, error) {
		v, err := c.planGrowth(im, topic, int(count), assignment)
		if err != nil || validateOnly {
			return nil, err
		}
		p := &plan{}
		p.put(im, meta.KeyTopic(topic), meta.Encode(v))
		return p, nil
	})
}

func (c *Controller) planGrowth(im *meta.Image, topic string, want int, placed [][]int32) (*meta.TopicValue, error) {
	t := im.Topics[topic]
	if t == nil {
		return nil, kerr.UnknownTopicOrPartition
	}
	have := len(t.Partitions)
	switch {
	case want == have:
		return nil, record.Errorf(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case want < have:
		return nil, record.Errorf(kerr.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", topic, have, want)
	case placed != nil && len(placed) != want-have:
		return nil, record.Errorf(kerr.InvalidReplicaAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", want-have, len(placed))
	case want-have > maxPartitions:
		return nil, record.Errorf(kerr.PolicyViolation, "Unable to perform excessively large batch operation: %d partitions, at most %d in one request.", want-have, maxPartitions)
	}
	replicas := len(t.Partitions[0].Replicas)
	if placed == nil {
		var err error
		if placed, err = newPlacer(im, c.random).place(want-have, replicas); err != nil {
			return nil, err
		}
	} else {
		for i, ids := range placed {
			if err := checkManual(im, int32(have+i), ids, replicas); err != nil {
				return nil, err
			}
		}
	}
	v := t.Value()
	v.Partitions = slices.Clone(v.Partitions)
	for _, ids := range placed {
		v.Partitions = append(v.Partitions, assignment(im, slices.Clone(ids)))
	}
	return &v, nil
}

// AlterTopicConfigs sets and removes a topic's overrides in one write.
// UNKNOWN_TOPIC_OR_PARTITION, or INVALID_CONFIG with the parser's text.
func (c *Controller) AlterTopicConfigs(ctx context.Context, topic string, set map[string]string, remove []string) error {
	return c.step(ctx, func(im *meta.Image) (*plan, error) {
		t := im.Topics[topic]
		if t == nil {
			return nil, record.Errorf(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", topic)
		}
		next := altered(t.Configs, set, remove)
		if _, err := config.ParseTopic(next, c.cfg.Broker(im)); err != nil {
			return nil, &record.Error{Kerr: kerr.InvalidConfig, Message: err.Error()}
		}
		p := planConfigs(im, meta.KeyTopicConfig(topic), next)
		p.guards = append(p.guards, meta.Guard{Key: meta.KeyTopic(topic), Version: im.Version(meta.KeyTopic(topic))})
		return p, nil
	})
}

// DeleteTopics deletes topics by id, each with its configs and states in one
// write. The id is remembered until its directories are surely gone.
// UNKNOWN_TOPIC_ID for one that is not there.
func (c *Controller) DeleteTopics(ctx context.Context, ids []record.TopicID) []error {
	errs := newOutcomes(len(ids))
	topics := make([]*meta.Topic, len(ids))
	err := c.step(ctx, func(im *meta.Image) (*plan, error) {
		p := &plan{}
		gone := map[record.TopicID]bool{}
		for i, id := range ids {
			t := im.TopicsByID[id]
			if t == nil || gone[id] {
				errs[i] = kerr.UnknownTopicID
				continue
			}
			errs[i], topics[i], gone[id] = errUndecided, t, true
			c.planDeletion(im, p, t)
			p.end(func(err error) { errs[i] = err })
		}
		return p, nil
	})
	errs.settle(err)
	for i, err := range errs {
		if err == nil {
			c.cfg.Logger.Info("topic deleted", "topic", topics[i].Name, "id", topics[i].ID.String(), "partitions", len(topics[i].Partitions))
		}
	}
	if err == nil && c.nowMs()-c.sweptMs.Load() > sweepIntervalMs {
		if err := c.sweepLeftovers(ctx); err != nil {
			c.cfg.Logger.Warn("leftovers of deleted topics stay in the store for now", "err", err)
		}
	}
	return errs
}

func (c *Controller) planDeletion(im *meta.Image, p *plan, t *meta.Topic) {
	p.remove(im, meta.KeyTopic(t.Name))
	p.remove(im, meta.KeyTopicConfig(t.Name))
	p.put(im, meta.KeyDeleted(t.ID), meta.Encode(&meta.DeletedValue{Name: t.Name, AtMs: c.nowMs()}))
	for _, partition := range t.Stated() {
		if len(p.ops) == meta.MaxTxnOps/2 {
			return // the rest goes by sweepLeftovers: nothing reads states of an id that no topic has
		}
		p.remove(im, meta.KeyState(t.ID, partition))
	}
}

const (
	// deletedMemoryMs is how long a deleted topic's id is remembered, so that a
	// node that was down finds out that its directories may go.
	deletedMemoryMs = 24 * 3600 * 1000
	// sweepIntervalMs is the time between two looks for leftovers.
	sweepIntervalMs = 3600 * 1000
)

// sweepLeftovers removes partition states whose topic is gone, and forgets
// topics that were deleted long ago.
func (c *Controller) sweepLeftovers(ctx context.Context) error {
	c.sweptMs.Store(c.nowMs())
	states, _, err := c.cfg.Store.List(ctx, meta.PrefixStates)
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	deleted, _, err := c.cfg.Store.List(ctx, meta.PrefixDeleted)
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	return c.step(ctx, func(im *meta.Image) (*plan, error) {
		p := &plan{}
		drop := func(e meta.Entry) {
			p.guards = append(p.guards, meta.Guard{Key: e.Key, Version: e.Version})
			p.ops = append(p.ops, meta.Delete(e.Key))
			p.end(nil)
		}
		for _, e := range states {
			if id, _, ok := meta.ParseStateKey(e.Key); ok && im.TopicsByID[id] == nil {
				drop(e)
			}
		}
		for _, e := range deleted {
			var v meta.DeletedValue
			if err := meta.Decode(e, &v); err != nil {
				return nil, err
			}
			if c.nowMs()-v.AtMs > deletedMemoryMs {
				drop(e)
			}
		}
		return p, nil
	})
}

func compareTPs(a, b record.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
