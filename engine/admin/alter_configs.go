package admin

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// change is one resource of an AlterConfigs or IncrementalAlterConfigs request.
type change struct {
	kind        kmsg.ConfigResourceType
	name        string
	entries     []changedKey
	incremental bool
}

// changedKey is one key of a change. AlterConfigs knows only set.
type changedKey struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

const (
	opSet      = kmsg.IncrementalAlterConfigOpSet
	opDelete   = kmsg.IncrementalAlterConfigOpDelete
	opAppend   = kmsg.IncrementalAlterConfigOpAppend
	opSubtract = kmsg.IncrementalAlterConfigOpSubtract
)

// AlterConfigs serves v0–v2: replaces all overrides of topics and all dynamic
// configs of brokers by those given (deprecated by KIP-339, still sent).
func (h *Handlers) AlterConfigs(ctx context.Context, req *kmsg.AlterConfigsRequest, cl Client) *kmsg.AlterConfigsResponse {
	resp := kmsg.NewPtrAlterConfigsResponse()
	resp.Version = req.Version
	changes := make([]change, len(req.Resources))
	for i := range req.Resources {
		r := &req.Resources[i]
		changes[i] = change{kind: r.ResourceType, name: r.ResourceName}
		for _, c := range r.Configs {
			changes[i].entries = append(changes[i].entries, changedKey{c.Name, opSet, c.Value})
		}
	}
	for i, err := range h.alterAll(ctx, cl, changes, req.ValidateOnly) {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = changes[i].kind, changes[i].name
		out.ErrorCode, out.ErrorMessage = h.answer("AlterConfigs", err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// IncrementalAlterConfigs serves v0–v1: sets and deletes keys, and appends to and
// subtracts from those that are lists (KIP-339). A resource changes whole or not
// at all; resources are independent. Keys of a broker that cannot be changed at
// run time are refused.
func (h *Handlers) IncrementalAlterConfigs(ctx context.Context, req *kmsg.IncrementalAlterConfigsRequest, cl Client) *kmsg.IncrementalAlterConfigsResponse {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.Version = req.Version
	changes := make([]change, len(req.Resources))
	for i := range req.Resources {
		r := &req.Resources[i]
		changes[i] = change{kind: r.ResourceType, name: r.ResourceName, incremental: true}
		for _, c := range r.Configs {
			changes[i].entries = append(changes[i].entries, changedKey{c.Name, c.Op, c.Value})
		}
	}
	for i, err := range h.alterAll(ctx, cl, changes, req.ValidateOnly) {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = changes[i].kind, changes[i].name
		out.ErrorCode, out.ErrorMessage = h.answer("IncrementalAlterConfigs", err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// resource names what has configs.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// alterAll carries out the changes of a request and returns one error each. A
// resource that appears twice is refused wherever it does.
func (h *Handlers) alterAll(ctx context.Context, cl Client, changes []change, validateOnly bool) []error {
	counts := make(map[resource]int, len(changes))
	for i := range changes {
		counts[resource{changes[i].kind, changes[i].name}]++
	}
	errs := make([]error, len(changes))
	for i := range changes {
		c := &changes[i]
		if counts[resource{c.kind, c.name}] > 1 {
			errs[i] = fail(kerr.InvalidRequest, "Each resource must appear at most once.")
			continue
		}
		if errs[i] = c.check(); errs[i] == nil {
			errs[i] = h.alter(ctx, cl, c, validateOnly)
		}
	}
	return errs
}

// check refuses what no resource may have (ConfigAdminManager.preprocess).
func (c *change) check() error {
	seen := make(map[string]struct{}, len(c.entries))
	var nulls []string
	for _, e := range c.entries {
		if _, twice := seen[e.name]; twice {
			return fail(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[e.name] = struct{}{}
		if e.value == nil && e.op != opDelete {
			nulls = append(nulls, e.name)
		}
	}
	if len(nulls) > 0 {
		return fail(kerr.InvalidRequest, "Null value not supported for : %s", strings.Join(nulls, ", "))
	}
	return nil
}

// alter carries out one change.
func (h *Handlers) alter(ctx context.Context, cl Client, c *change, validateOnly bool) error {
	h.altering.Lock()
	defer h.altering.Unlock()
	switch {
	case c.kind == topicResource:
		return h.alterTopic(ctx, cl, c, validateOnly)
	case c.kind == brokerResource:
		return h.alterBroker(ctx, cl, c, validateOnly)
	case c.kind == groupResource:
		return h.alterGroup(ctx, cl, c, validateOnly)
	case c.kind == loggerResource && c.incremental:
		return h.alterLoggers(cl, c, validateOnly)
	case c.kind == clientMetricsResource:
		return fail(kerr.InvalidRequest, "Unsupported resource type: CLIENT_METRICS")
	}
	return fail(kerr.InvalidRequest, "Unknown resource type %d", int8(c.kind))
}

// configsChanged logs the difference between two sets of values of a resource.
func (h *Handlers) configsChanged(cl Client, resource string, current, set map[string]string, remove []string, define func(string) *config.Definition) {
	hide := func(key string, value any) any {
		if def := define(key); value != nil && (def == nil || def.Sensitive()) {
			return "[hidden]"
		}
		return value
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		h.changed(cl, resource, key, hide(key, shown(current, key)), hide(key, set[key]))
	}
	for _, key := range remove {
		h.changed(cl, resource, key, hide(key, shown(current, key)), nil)
	}
}

// alterGroup changes the configs of a group, which need not exist.
func (h *Handlers) alterGroup(ctx context.Context, cl Client, c *change, validateOnly bool) error {
	if c.name == "" {
		return fail(kerr.InvalidRequest, "Default group resources are not allowed.")
	}
	current := h.Image().GroupConfigs[c.name]
	next, err := c.apply(current, config.GroupDefinition, notList)
	if err != nil {
		return err
	}
	if err := h.Broker().CheckGroup(next); err != nil {
		return err
	}
	set, remove := difference(current, next)
	if validateOnly || len(set) == 0 && len(remove) == 0 {
		return nil
	}
	if err := h.Controller.AlterGroupConfigs(ctx, c.name, set, remove); err != nil {
		return err
	}
	h.configsChanged(cl, "group "+c.name, current, set, remove, config.GroupDefinition)
	return nil
}

// notList refuses to append to or subtract from what is no list.
func notList(op, key string, _ bool) error {
	return fail(kerr.InvalidConfig, "Can't %s to key %s because its type is not LIST.", op, key)
}

// alterTopic checks in Kafka's order: the operations, the name, the resulting
// values, and only then whether there is such a topic.
func (h *Handlers) alterTopic(ctx context.Context, cl Client, c *change, validateOnly bool) error {
	t := h.Image().Topics[c.name]
	var current map[string]string
	if t != nil {
		current = t.Configs
	}
	next, err := c.apply(current, config.TopicDefinition, notList)
	switch {
	case err != nil:
		return err
	case c.name == "":
		return fail(kerr.InvalidRequest, "Default topic resources are not allowed.")
	case meta.InvalidTopicName(c.name) != "":
		return fail(kerr.InvalidTopicException, "%s", meta.InvalidTopicName(c.name))
	}
	if _, err := config.ParseTopic(next, h.Broker()); err != nil {
		return err
	}
	if t == nil {
		return fail(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", c.name)
	}
	set, remove := difference(current, next)
	if err := checkMinISR(set, replicasOf(t)); err != nil {
		return err
	}
	if validateOnly || len(set) == 0 && len(remove) == 0 {
		return nil
	}
	if err := h.Controller.AlterTopicConfigs(ctx, c.name, set, remove); err != nil {
		return err
	}
	h.configsChanged(cl, "topic "+c.name, current, set, remove, config.TopicDefinition)
	return nil
}

// allBrokers stands for the dynamic configs of every broker.
const allBrokers int32 = -1

// alterBroker changes this broker's dynamic configs, or with an empty name those
// of all. Kafka answers values that are not allowed with INVALID_REQUEST here
// (KAFKA-13609).
func (h *Handlers) alterBroker(ctx context.Context, cl Client, c *change, validateOnly bool) error {
	im, id := h.Image(), allBrokers
	current := im.BrokerDefaults
	if c.name != "" {
		n, err := strconv.ParseInt(c.name, 10, 32)
		if err != nil {
			return fail(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", c.name)
		}
		if int32(n) != h.NodeID {
			return fail(kerr.InvalidRequest, "Unexpected broker id, expected %d, but received %s", h.NodeID, c.name)
		}
		id = h.NodeID
		current = im.BrokerConfigs[id]
	}
	next, err := c.apply(current, config.BrokerDefinition, func(op, key string, defined bool) error {
		if !defined {
			return fail(kerr.InvalidConfig, "Unknown config name: %s", key)
		}
		return fail(kerr.InvalidConfig, "Config value %s is not allowed for config key: %s", strings.ToLower(op), key)
	})
	if err != nil {
		return err
	}
	if err := checkDynamic(next, id == allBrokers); err != nil {
		return err
	}
	defaults, own := im.BrokerDefaults, im.BrokerConfigs[h.NodeID]
	if id == allBrokers {
		defaults = next
	} else {
		own = next
	}
	if _, err := h.Broker().WithDynamic(defaults, own); err != nil {
		return fail(kerr.InvalidRequest, "%v", err)
	}
	set, remove := difference(current, next)
	if validateOnly || len(set) == 0 && len(remove) == 0 {
		return nil
	}
	if err := h.Controller.AlterBrokerConfigs(ctx, id, set, remove); err != nil {
		return err
	}
	resource := "all brokers"
	if id != allBrokers {
		resource = "broker " + c.name
	}
	h.configsChanged(cl, resource, current, set, remove, config.BrokerDefinition)
	return nil
}

// checkDynamic refuses keys that need a restart, values that are not allowed
// and, for all brokers together, keys that are one broker's own
// (DynamicBrokerConfig.validateConfigs). Keys nobody defines pass.
func checkDynamic(next map[string]string, forAll bool) error {
	var fixed, single []string
	keys := slices.Sorted(maps.Keys(next))
	for _, key := range keys {
		if def := config.BrokerDefinition(key); def == nil {
			continue
		} else if def.Update == config.ReadOnly {
			fixed = append(fixed, key)
		} else if def.Update == config.PerBroker {
			single = append(single, key)
		}
	}
	if len(fixed) > 0 {
		return fail(kerr.InvalidRequest, "Cannot update these configs dynamically: [%s]", strings.Join(fixed, ", "))
	}
	for _, key := range keys {
		if def := config.BrokerDefinition(key); def != nil {
			if _, err := def.Parse(next[key]); err != nil {
				return fail(kerr.InvalidRequest, "%v", err)
			}
		}
	}
	if forAll && len(single) > 0 {
		return fail(kerr.InvalidRequest, "Cannot update these configs at default cluster level, broker id must be specified: [%s]", strings.Join(single, ", "))
	}
	return nil
}

// apply works out the values of a resource after a change. A list that has no
// value yet starts from the key's default. notList makes the error for an
// APPEND or SUBTRACT of another type.
func (c *change) apply(current map[string]string, define func(string) *config.Definition, notList func(op, key string, defined bool) error) (map[string]string, error) {
	next := make(map[string]string, len(current)+len(c.entries))
	if c.incremental {
		maps.Copy(next, current)
	}
	for _, e := range c.entries {
		switch e.op {
		case opSet:
			next[e.name] = *e.value
		case opDelete:
			delete(next, e.name)
		case opAppend, opSubtract:
			def := define(e.name)
			if def == nil || def.Type != config.List {
				name := "APPEND"
				if e.op == opSubtract {
					name = "SUBTRACT"
				}
				return nil, notList(name, e.name, def != nil)
			}
			value, ok := next[e.name]
			if !ok {
				value = def.Default
			}
			next[e.name] = alterList(value, *e.value, e.op == opAppend)
		default:
			return nil, fail(kerr.InvalidRequest, "Unknown operations type %d", int8(e.op))
		}
		if err := checkLength(e.name, next[e.name]); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// alterList adds the elements of change that list has not, or takes each out
// once. Empty elements count for nothing. Both may be as long as a request.
func alterList(list, change string, add bool) string {
	var elements []string
	times := make(map[string]int) // in elements
	for s := range strings.SplitSeq(list, ",") {
		if s != "" {
			elements = append(elements, s)
			times[s]++
		}
	}
	if add {
		for s := range strings.SplitSeq(change, ",") {
			if s != "" && times[s] == 0 {
				elements = append(elements, s)
				times[s]++
			}
		}
		return strings.Join(elements, ",")
	}
	out := make(map[string]int)
	for s := range strings.SplitSeq(change, ",") {
		out[s]++
	}
	elements = slices.DeleteFunc(elements, func(s string) bool {
		out[s]--
		return out[s] >= 0
	})
	return strings.Join(elements, ",")
}

// difference states what leads from one set of values to another.
func difference(from, to map[string]string) (set map[string]string, remove []string) {
	set = make(map[string]string)
	for key, value := range to {
		if old, ok := from[key]; !ok || old != value {
			set[key] = value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if _, ok := to[key]; !ok {
			remove = append(remove, key)
		}
	}
	return set, remove
}
