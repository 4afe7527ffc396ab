package admin

import (
	"context"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotaKey describes a quota: the largest value, and whether it may be a
// fraction (QuotaConfig.java).
type quotaKey struct {
	typeName string
	most     float64
	fraction bool
}

var (
	clientQuotaKeys = map[string]quotaKey{
		"producer_byte_rate":       {"LONG", math.MaxInt64, false},
		"consumer_byte_rate":       {"LONG", math.MaxInt64, false},
		"request_percentage":       {"DOUBLE", math.Inf(1), true},
		"controller_mutation_rate": {"DOUBLE", math.Inf(1), true},
	}
	ipQuotaKeys = map[string]quotaKey{"connection_creation_rate": {"INT", math.MaxInt32, false}}
)

// AlterClientQuotas serves v0–v1 (KIP-546; ClientQuotaControlManager.java): sets
// and removes the quotas of entities, each whole or not at all, all that are
// good in one write. They hold at once.
func (h *Handlers) AlterClientQuotas(ctx context.Context, req *kmsg.AlterClientQuotasRequest, cl Client) *kmsg.AlterClientQuotasResponse {
	resp := kmsg.NewPtrAlterClientQuotasResponse()
	resp.Version = req.Version
	im := h.Image()
	var good []meta.QuotaAlteration
	var slots []int // of good, in resp.Entries
	answered := make(map[string]int)
	for i := range req.Entries {
		e := &req.Entries[i]
		parts := mergeEntity(e.Entity)
		name := entityText(parts)
		slot, again := answered[name]
		if !again {
			slot = len(resp.Entries)
			answered[name] = slot
			out := kmsg.NewAlterClientQuotasResponseEntry()
			for _, p := range parts {
				o := kmsg.NewAlterClientQuotasResponseEntryEntity()
				o.Type, o.Name = p.Type, p.Name
				out.Entity = append(out.Entity, o)
			}
			resp.Entries = append(resp.Entries, out)
		}
		a, err := h.quotaAlteration(im, parts, e.Ops)
		if again || duplicateOps(e.Ops) {
			err = fail(kerr.InvalidRequest, "Ignoring duplicate entity ClientQuotaEntity(entries={%s})", name)
		}
		if err == nil {
			good, slots = append(good, a), append(slots, slot)
		}
		resp.Entries[slot].ErrorCode, resp.Entries[slot].ErrorMessage = h.answer("AlterClientQuotas", err)
	}
	if len(good) == 0 || req.ValidateOnly {
		return resp
	}
	err := h.Controller.AlterQuotas(ctx, good)
	for i, slot := range slots {
		if err != nil {
			resp.Entries[slot].ErrorCode, resp.Entries[slot].ErrorMessage = h.answer("AlterClientQuotas", err)
			continue
		}
		h.quotaChanged(cl, im, &good[i])
	}
	return resp
}

func (h *Handlers) quotaChanged(cl Client, im *meta.Image, a *meta.QuotaAlteration) {
	before := im.Quotas[a.Entity]
	for _, key := range slices.Sorted(maps.Keys(a.Set)) {
		h.changed(cl, "quota of "+a.Entity.String(), key, shown(before, key), a.Set[key])
	}
	for _, key := range a.Remove {
		if _, ok := before[key]; ok {
			h.changed(cl, "quota of "+a.Entity.String(), key, before[key], nil)
		}
	}
}

// mergeEntity keeps of a type that is named twice the last, as Kafka's map does.
func mergeEntity(parts []kmsg.AlterClientQuotasRequestEntryEntity) []kmsg.AlterClientQuotasRequestEntryEntity {
	var merged []kmsg.AlterClientQuotasRequestEntryEntity
	for _, p := range parts {
		if i := slices.IndexFunc(merged, func(m kmsg.AlterClientQuotasRequestEntryEntity) bool { return m.Type == p.Type }); i >= 0 {
			merged[i] = p
		} else {
			merged = append(merged, p)
		}
	}
	return merged
}

// entityText renders an entity as Kafka's messages do.
func entityText(parts []kmsg.AlterClientQuotasRequestEntryEntity) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Type + "=null"
		if p.Name != nil {
			texts[i] = p.Type + "=" + *p.Name
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

func duplicateOps(ops []kmsg.AlterClientQuotasRequestEntryOp) bool {
	seen := make(map[string]struct{}, len(ops))
	for i := range ops {
		seen[ops[i].Key] = struct{}{}
	}
	return len(seen) < len(ops)
}

// quotaAlteration checks one entry and turns it into what the controller takes.
func (h *Handlers) quotaAlteration(im *meta.Image, parts []kmsg.AlterClientQuotasRequestEntryEntity, ops []kmsg.AlterClientQuotasRequestEntryOp) (meta.QuotaAlteration, error) {
	a := meta.QuotaAlteration{Set: make(map[string]float64)}
	if len(parts) == 0 {
		return a, fail(kerr.InvalidRequest, "Invalid empty client quota entity")
	}
	for _, p := range parts {
		part := a.Entity.Part(p.Type)
		switch {
		case part == nil:
			return a, fail(kerr.InvalidRequest, "Unhandled client quota entity type: %s", p.Type)
		case p.Name == nil:
			*part = meta.DefaultQuota
		case *p.Name == "":
			return a, fail(kerr.InvalidRequest, "Empty %s not supported", p.Type)
		default:
			*part = meta.ExactQuota(*p.Name)
		}
	}
	keys := clientQuotaKeys
	if ip := a.Entity.IP; ip.Match != meta.QuotaAbsent {
		keys = ipQuotaKeys
		if len(parts) > 1 {
			return a, fail(kerr.InvalidRequest, "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
		}
		if ip.Match == meta.QuotaExact && len(ResolveHost(ip.Name)) == 0 {
			return a, fail(kerr.InvalidRequest, "%s is not a valid IP or resolvable host.", ip.Name)
		}
	}
	for i := range ops {
		op := &ops[i]
		if op.Remove {
			a.Remove = append(a.Remove, op.Key)
			continue
		}
		if err := checkQuota(keys, op.Key, op.Value); err != nil {
			return a, err
		}
		a.Set[op.Key] = op.Value
	}
	return a, nil
}

func checkQuota(keys map[string]quotaKey, key string, value float64) error {
	def, ok := keys[key]
	switch {
	case !ok:
		return fail(kerr.InvalidRequest, "Invalid configuration key %s", key)
	case !(value > 0):
		return fail(kerr.InvalidRequest, "Quota %s must be greater than 0", key)
	case value > def.most:
		article := "a "
		if def.typeName == "INT" {
			article = "an "
		}
		return fail(kerr.InvalidRequest, "Proposed value for %s is too large for %s%s.", key, article, def.typeName)
	case !def.fraction && math.Mod(value, 1) > 1e-6:
		return fail(kerr.InvalidRequest, "%s cannot be a fractional value.", key)
	case math.IsInf(value, 0):
		return fail(kerr.InvalidRequest, "Quota %s must be a number", key)
	}
	return nil
}

// ResolveHost finds the addresses that a quota of an address names; none if it
// is neither an address nor a host that is known. It may take a moment.
func ResolveHost(name string) []netip.Addr {
	if addr, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{addr}
	}
	ctx, cancel := context.WithTimeout(context.Background(), hostWait)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil
	}
	return addrs
}

// The match types of DescribeClientQuotas.
const (
	matchExact     = kmsg.QuotasMatchType(0)
	matchDefault   = kmsg.QuotasMatchType(1)
	matchSpecified = kmsg.QuotasMatchType(2)
)

// DescribeClientQuotas serves v0–v1 (KIP-546; ClientQuotasImage.java): the
// entities that match every component; with strict those that have no other
// part.
func (h *Handlers) DescribeClientQuotas(_ context.Context, req *kmsg.DescribeClientQuotasRequest, _ Client) *kmsg.DescribeClientQuotasResponse {
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	resp.Version = req.Version
	if err := checkQuotaFilter(req.Components); err != nil {
		resp.ErrorCode, resp.ErrorMessage = h.answer("DescribeClientQuotas", err)
		return resp
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	quotas := h.Image().Quotas
	entities := slices.SortedFunc(maps.Keys(quotas), func(a, b meta.QuotaEntity) int { return strings.Compare(meta.KeyQuota(a), meta.KeyQuota(b)) })
	for _, entity := range entities {
		if !matches(entity, req.Components, req.Strict) {
			continue
		}
		out := kmsg.NewDescribeClientQuotasResponseEntry()
		for _, kind := range [...]string{meta.QuotaUser, meta.QuotaClientID, meta.QuotaIP} {
			part := entity.Part(kind)
			if part.Match == meta.QuotaAbsent {
				continue
			}
			o := kmsg.NewDescribeClientQuotasResponseEntryEntity()
			o.Type = kind
			if part.Match == meta.QuotaExact {
				o.Name = &part.Name
			}
			out.Entity = append(out.Entity, o)
		}
		for _, key := range slices.Sorted(maps.Keys(quotas[entity])) {
			v := kmsg.NewDescribeClientQuotasResponseEntryValue()
			v.Key, v.Value = key, quotas[entity][key]
			out.Values = append(out.Values, v)
		}
		resp.Entries = append(resp.Entries, out)
	}
	return resp
}

func checkQuotaFilter(components []kmsg.DescribeClientQuotasRequestComponent) error {
	seen := make(map[string]struct{}, len(components))
	for i := range components {
		c := &components[i]
		_, twice := seen[c.EntityType]
		seen[c.EntityType] = struct{}{}
		switch {
		case c.EntityType == "":
			return fail(kerr.InvalidRequest, "Invalid empty entity type.")
		case twice:
			return fail(kerr.InvalidRequest, "Entity type %s cannot appear more than once in the filter.", c.EntityType)
		case new(meta.QuotaEntity).Part(c.EntityType) == nil:
			return fail(kerr.UnsupportedVersion, "Unsupported entity type %s", c.EntityType)
		case c.MatchType == matchExact && c.Match == nil:
			return fail(kerr.InvalidRequest, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
		case c.MatchType == matchDefault && c.Match != nil:
			return fail(kerr.InvalidRequest, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
		case c.MatchType == matchSpecified && c.Match != nil:
			return fail(kerr.InvalidRequest, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
		case c.MatchType < matchExact || c.MatchType > matchSpecified:
			return fail(kerr.InvalidRequest, "Unknown match type %d", int8(c.MatchType))
		}
	}
	if _, ip := seen[meta.QuotaIP]; ip && len(seen) > 1 {
		return fail(kerr.InvalidRequest, "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.")
	}
	return nil
}

// matches reports whether an entity has a part for every component.
func matches(entity meta.QuotaEntity, components []kmsg.DescribeClientQuotasRequestComponent, strict bool) bool {
	for i := range components {
		c := &components[i]
		part := *entity.Part(c.EntityType)
		switch {
		case part.Match == meta.QuotaAbsent,
			c.MatchType == matchExact && part != meta.ExactQuota(*c.Match),
			c.MatchType == matchDefault && part != meta.DefaultQuota:
			return false
		}
	}
	if !strict {
		return true
	}
	parts := 0
	for _, kind := range [...]string{meta.QuotaUser, meta.QuotaClientID, meta.QuotaIP} {
		if entity.Part(kind).Match != meta.QuotaAbsent {
			parts++
		}
	}
	return parts == len(components)
}
