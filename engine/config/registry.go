package config

import (
	"fmt"
	"slices"
	"strings"
)

// registry finds definitions by name and lists them in order of name.
type registry[D any] struct {
	byName map[string]*D
	names  []string
}

func (r *registry[D]) get(name string) *D { return r.byName[name] }

// newRegistry indexes tables; a name that is defined twice is a bug.
func newRegistry[D any](name func(*D) string, tables ...[]D) registry[D] {
	r := registry[D]{byName: make(map[string]*D)}
	for _, table := range tables {
		for i := range table {
			n := name(&table[i])
			if _, twice := r.byName[n]; twice {
				panic("BUG: config key defined twice: " + n)
			}
			r.byName[n] = &table[i]
			r.names = append(r.names, n)
		}
	}
	slices.Sort(r.names)
	return r
}

var (
	topicDefs  = newRegistry(func(d *topicDef) string { return d.Name }, topicTable)
	brokerDefs = newRegistry(func(d *brokerDef) string { return d.Name }, networkTable, httpTable, logTable, clusterTable, groupsTable, quotaTable, inertTable)
)

// TopicDefinition returns the definition of a topic key, nil if unknown.
func TopicDefinition(name string) *Definition {
	if def := topicDefs.get(name); def != nil {
		return &def.Definition
	}
	return nil
}

// BrokerDefinition returns the definition of a broker key, nil if unknown.
func BrokerDefinition(name string) *Definition {
	if def := brokerDefs.get(name); def != nil {
		return &def.Definition
	}
	return nil
}

// TopicNames returns the names of all topic keys in order.
func TopicNames() []string { return slices.Clone(topicDefs.names) }

// BrokerNames returns the names of all broker keys in order.
func BrokerNames() []string { return slices.Clone(brokerDefs.names) }

// inFamily reports whether a key belongs to one of Kafka's families without
// effect here.
func inFamily(key string) bool {
	return slices.ContainsFunc(inertFamilies, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// unknownKey is the warning for a broker key that nobody defines.
func unknownKey(key string) string {
	if topicDefs.get(key) != nil {
		if synonyms := topicDefs.get(key).Synonyms; len(synonyms) > 0 {
			return fmt.Sprintf("unknown key %s is ignored: it is a topic config, its default for all topics is %s", key, synonyms[0].Name)
		}
	}
	if near := nearest(key, brokerDefs.names); near != "" {
		return fmt.Sprintf("unknown key %s is ignored (did you mean %s?)", key, near)
	}
	return fmt.Sprintf("unknown key %s is ignored", key)
}

// nearest returns the name with the least edit distance from key, if that is
// small for a key of this length.
func nearest(key string, names []string) string {
	best, bestDistance := "", 1+min(3, len(key)/5)
	for _, name := range names {
		if d := editDistance(key, name, bestDistance); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements between a and
// b; it gives up with limit once there are that many.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
			least = min(least, row[j])
		}
		if least >= limit {
			return limit
		}
	}
	return row[len(b)]
}
