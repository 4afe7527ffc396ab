package meta

import (
	"fmt"
	"net/url"
	"strings"
)

// QuotaName is one part of a quota's entity: a user, a client id or an address,
// named or the default of all that have no quota of their own. The zero value
// is no such part.
type QuotaName struct {
	Match QuotaMatch
	Name  string // with QuotaExact
}

// QuotaMatch says what a part of an entity matches.
type QuotaMatch uint8

// The matches.
const (
	QuotaAbsent  QuotaMatch = iota // the entity has no such part
	QuotaExact                     // one name
	QuotaDefault                   // all that are not named
)

// ExactQuota is the part for one name.
func ExactQuota(name string) QuotaName { return QuotaName{QuotaExact, name} }

// DefaultQuota is the part for all that are not named.
var DefaultQuota = QuotaName{Match: QuotaDefault}

// QuotaEntity is whom a client quota holds (ClientQuotaEntity.java): a user, a
// client id, both, or an address.
type QuotaEntity struct{ User, ClientID, IP QuotaName }

// The types of a quota's entity, as the protocol names them.
const (
	QuotaUser     = "user"
	QuotaClientID = "client-id"
	QuotaIP       = "ip"
)

// Part returns the part of a type, nil if there is no such type.
func (e *QuotaEntity) Part(kind string) *QuotaName {
	switch kind {
	case QuotaUser:
		return &e.User
	case QuotaClientID:
		return &e.ClientID
	case QuotaIP:
		return &e.IP
	}
	return nil
}

// quotaKinds are the types in the order in which keys hold them.
var quotaKinds = [...]string{QuotaUser, QuotaClientID, QuotaIP}

// String renders the entity for people: user=alice client-id=<default>.
func (e QuotaEntity) String() string {
	var parts []string
	for _, kind := range quotaKinds {
		switch n := e.Part(kind); n.Match {
		case QuotaExact:
			parts = append(parts, kind+"="+n.Name)
		case QuotaDefault:
			parts = append(parts, kind+"=<default>")
		}
	}
	return strings.Join(parts, " ")
}

// KeyQuota is where an entity's quotas are kept: quotas/user=alice/client-id,
// where a type without a name is the default.
func KeyQuota(e QuotaEntity) string {
	parts := []string{strings.TrimSuffix(PrefixQuotas, "/")}
	for _, kind := range quotaKinds {
		switch n := e.Part(kind); n.Match {
		case QuotaExact:
			parts = append(parts, kind+"="+url.QueryEscape(n.Name))
		case QuotaDefault:
			parts = append(parts, kind)
		}
	}
	return strings.Join(parts, "/")
}

// ParseQuotaKey is the inverse of KeyQuota.
func ParseQuotaKey(key string) (QuotaEntity, error) {
	var e QuotaEntity
	rest, ok := strings.CutPrefix(key, PrefixQuotas)
	if !ok {
		return e, fmt.Errorf("meta: key %q names no quota", key)
	}
	for text := range strings.SplitSeq(rest, "/") {
		kind, name, named := strings.Cut(text, "=")
		part := e.Part(kind)
		if part == nil || part.Match != QuotaAbsent {
			return e, fmt.Errorf("meta: key %q names no quota", key)
		}
		*part = DefaultQuota
		if named {
			name, err := url.QueryUnescape(name)
			if err != nil {
				return e, fmt.Errorf("meta: key %q names no quota: %w", key, err)
			}
			*part = ExactQuota(name)
		}
	}
	return e, nil
}

// KeyGroupConfig is where the configs of a group are kept. A group's id may be
// any text, so it is escaped, and prefixed: some stores take no element "..".
func KeyGroupConfig(group string) string { return PrefixGroupConfigs + "=" + url.QueryEscape(group) }

// ParseGroupConfigKey is the inverse of KeyGroupConfig.
func ParseGroupConfigKey(key string) (group string, err error) {
	escaped, ok := strings.CutPrefix(key, PrefixGroupConfigs+"=")
	if group, err = url.QueryUnescape(escaped); !ok || err != nil || group == "" {
		return "", fmt.Errorf("meta: key %q names no group", key)
	}
	return group, nil
}
