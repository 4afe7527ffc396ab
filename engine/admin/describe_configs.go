package admin

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topicResource         = kmsg.ConfigResourceTypeTopic
	brokerResource        = kmsg.ConfigResourceTypeBroker
	loggerResource        = kmsg.ConfigResourceTypeBrokerLogger
	clientMetricsResource = kmsg.ConfigResourceTypeClientMetrics
	groupResource         = kmsg.ConfigResourceTypeGroupConfig
)

// known reports whether Kafka knows a type of resource.
func known(t kmsg.ConfigResourceType) bool {
	switch t {
	case topicResource, brokerResource, loggerResource, clientMetricsResource, groupResource:
		return true
	}
	return false
}

// repeatsMax bounds the resources that a request may name more than once: an
// answer has a thousand times the bytes of its question.
const repeatsMax = 100

// DescribeConfigs serves v1–v4: the effective configs of topics, of this broker
// (by its id) and of all brokers (an empty name: the dynamic ones alone), each
// with its source; with the synonyms behind it and, from v3, type and
// documentation where asked (KIP-226, KIP-569). Values of sensitive keys are
// null. No list of keys, or an empty one, is all of them; keys that do not exist
// are left out. A request with a type of resource that Kafka does not know is
// refused as a whole, as there (ConfigHelper.scala). A resource that is named
// again is answered again, but not beyond repeatsMax.
func (h *Handlers) DescribeConfigs(_ context.Context, req *kmsg.DescribeConfigsRequest, _ Client) *kmsg.DescribeConfigsResponse {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.Version = req.Version
	unknownType := slices.ContainsFunc(req.Resources, func(r kmsg.DescribeConfigsRequestResource) bool { return !known(r.ResourceType) })
	broker := h.Broker()
	seen := make(map[resource]struct{}, len(req.Resources))
	for i := range req.Resources {
		r := &req.Resources[i]
		if _, again := seen[resource{r.ResourceType, r.ResourceName}]; again && i >= repeatsMax {
			continue
		}
		seen[resource{r.ResourceType, r.ResourceName}] = struct{}{}
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		var entries []config.Entry
		err := error(kerr.InvalidRequest)
		if !unknownType {
			entries, err = h.describeResource(broker, r)
		}
		out.ErrorCode, out.ErrorMessage = h.answer("DescribeConfigs", err)
		if err == nil || plain(err) && !unknownType {
			out.ErrorMessage = new(string) // Kafka's schema has "" here
		}
		for i := range entries {
			e := &entries[i]
			if len(r.ConfigNames) == 0 || slices.Contains(r.ConfigNames, e.Name) {
				out.Configs = append(out.Configs, renderEntry(e, r.ResourceType, req))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// describeResource lists the configs of one resource.
func (h *Handlers) describeResource(broker *config.Broker, r *kmsg.DescribeConfigsRequestResource) ([]config.Entry, error) {
	switch r.ResourceType {
	case topicResource:
		if reason := meta.InvalidTopicName(r.ResourceName); reason != "" {
			return nil, fail(kerr.InvalidTopicException, "%s", reason)
		}
		t := h.Image().Topics[r.ResourceName]
		if t == nil {
			return nil, kerr.UnknownTopicOrPartition
		}
		return broker.DescribeTopic(t.Configs), nil
	case brokerResource:
		if r.ResourceName == "" {
			return broker.DescribeClusterDefaults(), nil
		}
		if err := h.thisBroker(r.ResourceName, "Unexpected broker id, expected %d or empty string, but received %s"); err != nil {
			return nil, err
		}
		return broker.Describe(), nil
	case loggerResource:
		return h.describeLoggers(r.ResourceName)
	case groupResource:
		if r.ResourceName == "" {
			return nil, fail(kerr.InvalidRequest, "Group name must not be empty")
		}
		return broker.DescribeGroup(h.Image().GroupConfigs[r.ResourceName]), nil
	}
	return nil, fail(kerr.InvalidRequest, "Unsupported resource type: CLIENT_METRICS")
}

// resources lists the names that have configs of a type.
func (h *Handlers) resources(im *meta.Image, kind kmsg.ConfigResourceType) (names []string) {
	switch kind {
	case topicResource:
		return im.Names
	case groupResource:
		return slices.Sorted(maps.Keys(im.GroupConfigs))
	case brokerResource, loggerResource:
		for i := range im.Brokers {
			names = append(names, strconv.Itoa(int(im.Brokers[i].ID)))
		}
	}
	return names
}

// thisBroker checks that a resource's name is this broker's id.
func (h *Handlers) thisBroker(name, unexpected string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return fail(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", name)
	}
	if int32(id) != h.NodeID {
		return fail(kerr.InvalidRequest, unexpected, h.NodeID, name)
	}
	return nil
}

// renderEntry renders one config of a resource.
func renderEntry(e *config.Entry, resource kmsg.ConfigResourceType, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ReadOnly, out.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive
	out.Source = kmsg.ConfigSource(e.Source)
	if req.IncludeSynonyms {
		for _, s := range e.Synonyms {
			o := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			o.Name, o.Value, o.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
			out.ConfigSynonyms = append(out.ConfigSynonyms, o)
		}
	}
	if resource == loggerResource {
		out.Documentation = new(string)
		return out
	}
	if e.Definition != nil {
		out.ConfigType = kmsg.ConfigType(e.Definition.Type)
		if req.IncludeDocumentation {
			out.Documentation = &e.Definition.Doc
		}
	}
	return out
}
