package config

import (
	"maps"
	"slices"
)

// Entry is a key with its effective value and where that comes from.
type Entry struct {
	Name       string
	Value      *string // nil: no value, or one that is never shown
	Source     Source
	Definition *Definition // nil: nobody defines the key
	ReadOnly   bool
	Sensitive  bool
	Synonyms   []SynonymValue
}

// SynonymValue is one of the settings an effective value is taken from, the
// first being the one that wins.
type SynonymValue struct {
	Name   string
	Value  *string
	Source Source
}

// DescribeTopic lists every topic key for a topic with the given overrides, in
// order of name. Internal keys appear where they are set (ConfigHelper.scala).
func (b *Broker) DescribeTopic(overrides map[string]string) []Entry {
	entries := make([]Entry, 0, len(topicDefs.names))
	for _, name := range topicDefs.names {
		def := &topicDefs.get(name).Definition
		raw, overridden := overrides[name]
		if def.Internal && !overridden {
			continue
		}
		value := b.topicDefault(def).String()
		e := Entry{Name: name, Value: &value, Source: SourceDefault, Definition: def}
		if overridden {
			value = raw
			if v, err := def.Parse(raw); err == nil {
				value = v.String()
			}
			e.Synonyms = append(e.Synonyms, SynonymValue{name, &value, SourceTopic})
		}
		if len(def.Synonyms) > 0 {
			e.Synonyms = append(e.Synonyms, b.synonyms(def.Synonyms[0].Name)...)
		}
		if len(e.Synonyms) > 0 {
			e.Source = e.Synonyms[0].Source
		}
		entries = append(entries, e)
	}
	return entries
}

// TopicValues lists every topic key as CreateTopics tells it: an override as it
// was given, else the default in the topic key's unit with its true source
// (KafkaConfigSchema.resolveEffectiveTopicConfig). Values are never sensitive.
func (b *Broker) TopicValues(overrides map[string]string) []Entry {
	entries := make([]Entry, 0, len(topicDefs.names))
	for _, name := range topicDefs.names {
		def := &topicDefs.get(name).Definition
		raw, overridden := overrides[name]
		if def.Internal && !overridden {
			continue
		}
		e := Entry{Name: name, Value: &raw, Source: SourceTopic, Definition: def}
		if !overridden {
			value := b.topicDefault(def).String()
			e.Value, e.Source = &value, b.synonymSource(def)
		}
		entries = append(entries, e)
	}
	return entries
}

// topicDefault is the value of a topic key without override.
func (b *Broker) topicDefault(def *Definition) Value {
	if v, ok := b.synonymValue(def); ok {
		return v
	}
	return def.DefaultValue()
}

// synonymSource is the source that [Broker.topicDefault] takes a value from.
func (b *Broker) synonymSource(def *Definition) Source {
	for _, s := range b.sources() {
		for _, synonym := range def.Synonyms {
			if _, ok := s.values[synonym.Name]; ok {
				return s.source
			}
		}
	}
	return SourceDefault
}

// Describe lists every broker key that is not internal, and every other key
// that is set, in order of name.
func (b *Broker) Describe() []Entry {
	names := make(map[string]struct{}, len(brokerDefs.names))
	for _, name := range brokerDefs.names {
		if !brokerDefs.get(name).Internal {
			names[name] = struct{}{}
		}
	}
	for _, s := range b.sources() {
		for name := range s.values {
			names[name] = struct{}{}
		}
	}
	entries := make([]Entry, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		entries = append(entries, b.describe(name, b.synonyms(name)))
	}
	return entries
}

// DescribeClusterDefaults lists the dynamic configs of all brokers.
func (b *Broker) DescribeClusterDefaults() []Entry {
	entries := make([]Entry, 0, len(b.cluster))
	for _, name := range slices.Sorted(maps.Keys(b.cluster)) {
		synonyms := slices.DeleteFunc(b.synonyms(name), func(s SynonymValue) bool { return s.Source != SourceDynamicDefault })
		e := b.describe(name, synonyms)
		if raw := b.cluster[name]; !e.Sensitive {
			e.Value = &raw
		}
		entries = append(entries, e)
	}
	return entries
}

// describe makes the entry of a broker key. A key that nobody defines is
// treated as sensitive, since it may be anything.
func (b *Broker) describe(name string, synonyms []SynonymValue) Entry {
	e := Entry{Name: name, Source: SourceDefault, ReadOnly: true, Sensitive: true, Synonyms: synonyms}
	if len(synonyms) > 0 {
		e.Source = synonyms[0].Source
	}
	if def := BrokerDefinition(name); def != nil {
		e.Definition, e.ReadOnly, e.Sensitive = def, def.Update == ReadOnly, def.Sensitive()
		if v := b.value(name); !v.Null && !e.Sensitive {
			value := v.String()
			e.Value = &value
		}
	}
	return e
}

// source is one of the maps that hold what is set, with its number.
type source struct {
	values map[string]string
	source Source
}

// sources returns what is set, first wins.
func (b *Broker) sources() [3]source {
	return [...]source{{b.own, SourceDynamicBroker}, {b.cluster, SourceDynamicDefault}, {b.static, SourceStatic}}
}

// synonyms lists the settings behind a broker key: source by source, within a
// source in order of the chain. As in Kafka (ConfigHelper.configSynonyms), what
// stands before the first setting of the key itself is left out, so that a key
// that is set nowhere has none though others of its chain are.
func (b *Broker) synonyms(name string) []SynonymValue {
	names := []string{name}
	sensitive := true
	if def := BrokerDefinition(name); def != nil {
		sensitive = def.Sensitive()
		if len(def.Synonyms) > 0 {
			names = names[:0]
			for _, s := range def.Synonyms {
				names = append(names, s.Name)
			}
		}
	}
	var all []SynonymValue
	add := func(name, value string, from Source) {
		s := SynonymValue{Name: name, Source: from}
		if !sensitive {
			s.Value = &value
		}
		all = append(all, s)
	}
	for _, s := range b.sources() {
		for _, n := range names {
			if raw, ok := s.values[n]; ok {
				add(n, raw, s.source)
			}
		}
	}
	for _, n := range names {
		if def := BrokerDefinition(n); def != nil && !def.Null {
			add(n, def.DefaultValue().String(), SourceDefault)
		}
	}
	first := slices.IndexFunc(all, func(s SynonymValue) bool { return s.Name == name })
	if first < 0 {
		return nil
	}
	return all[first:]
}
