package meta

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/posthouse/posthouse/storage/record"
)

// EmptyImage is the image of a store that holds nothing.
func EmptyImage() *Image {
	return &Image{
		ControllerID:   -1,
		Topics:         map[string]*Topic{},
		TopicsByID:     map[record.TopicID]*Topic{},
		BrokerConfigs:  map[int32]map[string]string{},
		BrokerDefaults: map[string]string{},
		GroupConfigs:   map[string]map[string]string{},
		Quotas:         map[QuotaEntity]map[string]float64{},
		Features:       map[string]int16{},
		Deleted:        map[record.TopicID]string{},
		brokerVersions: map[int32]Version{},
		versions:       map[string]Version{},
	}
}

// Load reads the whole store into an image. Watch(ctx, "", image.Revision)
// gives the events to Apply to it.
func Load(ctx context.Context, s Store) (*Image, error) {
	entries, revision, err := s.List(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("meta: reading the store: %w", err)
	}
	changes := make([]Change, len(entries))
	for i, e := range entries {
		changes[i].Entry = e
	}
	return EmptyImage().Apply(Event{Revision: revision, Changes: changes})
}

// Apply returns the image that follows im by one event; im stays as it is.
// Keys that the image does not show (life signs, counters) only move the
// revision. States and configs of topics that do not exist are passed over.
func (im *Image) Apply(ev Event) (*Image, error) {
	d := delta{old: im, im: *im, touched: map[string]*Topic{}, created: map[record.TopicID]*Topic{}}
	d.im.Revision = ev.Revision
	// Topics first: within a list their states and configs sort before them.
	for _, c := range ev.Changes {
		if name, ok := strings.CutPrefix(c.Key, PrefixTopics); ok {
			if err := d.topic(name, c); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range ev.Changes {
		if err := d.other(c); err != nil {
			return nil, err
		}
	}
	d.finish()
	return &d.im, nil
}

// delta builds one image from another, cloning each map when first written.
type delta struct {
	old *Image
	im  Image
	// touched holds private copies of topics that change, nil for deleted ones.
	touched        map[string]*Topic
	created        map[record.TopicID]*Topic // the touched ones that old has not
	brokersChanged bool
}

func (d *delta) topic(name string, c Change) error {
	if c.Deleted {
		d.touched[name] = nil
		return nil
	}
	var v TopicValue
	if err := Decode(c.Entry, &v); err != nil {
		return err
	}
	id, err := record.ParseTopicID(v.ID)
	if err != nil {
		return fmt.Errorf("meta: value of %q: %w", c.Key, err)
	}
	t := &Topic{Name: name, ID: id, Internal: IsInternal(name), Configs: map[string]string{}}
	old := d.old.Topics[name]
	if old != nil && old.ID == id {
		*t = *old
	} else {
		d.created[id] = t
	}
	if old != nil {
		t.Configs, t.configVersion = old.Configs, old.configVersion // they go by name
	}
	t.value, t.version = v, c.Version
	d.touched[name] = t
	return nil
}

// writable returns the private copy of a topic, nil when there is no such topic.
func (d *delta) writable(name string) *Topic {
	if t, ok := d.touched[name]; ok {
		return t
	}
	old := d.old.Topics[name]
	if old == nil {
		return nil
	}
	t := *old
	d.touched[name] = &t
	return &t
}

func (d *delta) byID(id record.TopicID) *Topic {
	if old := d.old.TopicsByID[id]; old != nil {
		if t := d.writable(old.Name); t != nil && t.ID == id {
			return t
		}
		return nil
	}
	return d.created[id]
}

func (d *delta) other(c Change) error {
	switch {
	case strings.HasPrefix(c.Key, PrefixTopics):
		return nil
	case strings.HasPrefix(c.Key, PrefixStates):
		return d.state(c)
	case strings.HasPrefix(c.Key, PrefixTopicConfigs):
		t := d.writable(c.Key[len(PrefixTopicConfigs):])
		values, err := decodeConfigs(c)
		if err != nil || t == nil {
			return err
		}
		t.Configs, t.configVersion = values, c.Version
		return nil
	case strings.HasPrefix(c.Key, PrefixBrokers):
		return d.broker(c)
	case strings.HasPrefix(c.Key, PrefixDeleted):
		return d.deleted(c)
	}
	d.im.versions = maps.Clone(d.im.versions)
	d.im.versions[c.Key] = c.Version
	if c.Deleted {
		delete(d.im.versions, c.Key)
	}
	return d.single(c)
}

// single handles the keys of which there are few.
func (d *delta) single(c Change) error {
	switch {
	case c.Key == KeyCluster:
		d.im.ClusterID = ""
		if c.Deleted {
			return nil
		}
		var v ClusterValue
		if err := Decode(c.Entry, &v); err != nil {
			return err
		}
		d.im.ClusterID = v.ID
	case c.Key == KeyBrokerDefault:
		values, err := decodeConfigs(c)
		if err != nil {
			return err
		}
		d.im.BrokerDefaults = values
	case strings.HasPrefix(c.Key, PrefixBrokerConfigs):
		id, ok := parseID(c.Key[len(PrefixBrokerConfigs):])
		if !ok {
			return fmt.Errorf("meta: key %q names no broker", c.Key)
		}
		values, err := decodeConfigs(c)
		if err != nil {
			return err
		}
		d.im.BrokerConfigs = maps.Clone(d.im.BrokerConfigs)
		d.im.BrokerConfigs[id] = values
		if c.Deleted {
			delete(d.im.BrokerConfigs, id)
		}
	case strings.HasPrefix(c.Key, PrefixGroupConfigs):
		return d.groupConfigs(c)
	case strings.HasPrefix(c.Key, PrefixQuotas):
		return d.quotas(c)
	case c.Key == KeyFeatures:
		v := FeaturesValue{Levels: map[string]int16{}}
		if !c.Deleted {
			if err := Decode(c.Entry, &v); err != nil {
				return err
			}
		}
		d.im.Features = v.Levels
	case c.Key == PrefixOffices+OfficeController:
		d.im.ControllerID = -1
		if id, err := strconv.ParseInt(string(c.Value), 10, 32); err == nil && !c.Deleted {
			d.im.ControllerID = int32(id)
		}
	}
	return nil
}

func (d *delta) groupConfigs(c Change) error {
	group, err := ParseGroupConfigKey(c.Key)
	if err != nil {
		return err
	}
	values, err := decodeConfigs(c)
	if err != nil {
		return err
	}
	d.im.GroupConfigs = maps.Clone(d.im.GroupConfigs)
	d.im.GroupConfigs[group] = values
	if c.Deleted {
		delete(d.im.GroupConfigs, group)
	}
	return nil
}

func (d *delta) quotas(c Change) error {
	entity, err := ParseQuotaKey(c.Key)
	if err != nil {
		return err
	}
	d.im.Quotas, d.im.QuotaRevision = maps.Clone(d.im.Quotas), d.im.Revision
	if c.Deleted {
		delete(d.im.Quotas, entity)
		return nil
	}
	var v QuotaValue
	if err := Decode(c.Entry, &v); err != nil {
		return err
	}
	d.im.Quotas[entity] = v.Values
	return nil
}

func decodeConfigs(c Change) (map[string]string, error) {
	if c.Deleted {
		return map[string]string{}, nil
	}
	var v ConfigValue
	if err := Decode(c.Entry, &v); err != nil {
		return nil, err
	}
	if v.Values == nil {
		v.Values = map[string]string{}
	}
	return v.Values, nil
}

func (d *delta) state(c Change) error {
	id, p, ok := ParseStateKey(c.Key)
	if !ok {
		return fmt.Errorf("meta: key %q names no partition", c.Key)
	}
	t := d.byID(id)
	if t == nil {
		return nil
	}
	states := maps.Clone(t.states)
	if states == nil {
		states = map[int32]stateEntry{}
	}
	if c.Deleted {
		delete(states, p)
	} else {
		e := stateEntry{version: c.Version}
		if err := Decode(c.Entry, &e.value); err != nil {
			return err
		}
		states[p] = e
	}
	t.states = states
	return nil
}

func (d *delta) broker(c Change) error {
	id, ok := parseID(c.Key[len(PrefixBrokers):])
	if !ok {
		return fmt.Errorf("meta: key %q names no broker", c.Key)
	}
	d.brokersChanged = true
	d.im.brokerVersions = maps.Clone(d.im.brokerVersions)
	d.im.Brokers = slices.DeleteFunc(slices.Clone(d.im.Brokers), func(b Broker) bool { return b.ID == id })
	if c.Deleted {
		delete(d.im.brokerVersions, id)
		return nil
	}
	var v BrokerValue
	if err := Decode(c.Entry, &v); err != nil {
		return err
	}
	d.im.brokerVersions[id] = c.Version
	d.im.Brokers = append(d.im.Brokers, Broker{ID: id, Epoch: v.Epoch, Rack: v.Rack, Listeners: v.Listeners, Fenced: v.Fenced})
	slices.SortFunc(d.im.Brokers, func(a, b Broker) int { return int(a.ID) - int(b.ID) })
	return nil
}

func (d *delta) deleted(c Change) error {
	id, err := record.ParseTopicID(c.Key[len(PrefixDeleted):])
	if err != nil {
		return fmt.Errorf("meta: key %q: %w", c.Key, err)
	}
	d.im.Deleted = maps.Clone(d.im.Deleted)
	if c.Deleted {
		delete(d.im.Deleted, id)
		return nil
	}
	var v DeletedValue
	if err := Decode(c.Entry, &v); err != nil {
		return err
	}
	d.im.Deleted[id] = v.Name
	return nil
}

// finish rebuilds what the changes have touched.
func (d *delta) finish() {
	if d.brokersChanged {
		for name := range d.old.Topics {
			d.writable(name)
		}
	}
	if len(d.touched) == 0 {
		return
	}
	d.im.Topics, d.im.TopicsByID = maps.Clone(d.im.Topics), maps.Clone(d.im.TopicsByID)
	var gone, fresh []string
	for name, t := range d.touched {
		if old := d.old.Topics[name]; old != nil {
			delete(d.im.TopicsByID, old.ID)
		}
		if t == nil {
			delete(d.im.Topics, name)
			gone = append(gone, name)
			continue
		}
		if d.old.Topics[name] == nil {
			fresh = append(fresh, name)
		}
		t.Partitions = d.im.partitions(t)
		d.im.Topics[name], d.im.TopicsByID[t.ID] = t, t
	}
	d.im.Names = renamed(d.im.Names, gone, fresh)
}

// renamed returns sorted names without those that are gone, with the fresh ones
// merged in.
func renamed(names, gone, fresh []string) []string {
	if len(gone) == 0 && len(fresh) == 0 {
		return names
	}
	slices.Sort(gone)
	slices.Sort(fresh)
	out := make([]string, 0, len(names)+len(fresh))
	for _, name := range names {
		for len(fresh) > 0 && fresh[0] < name {
			out, fresh = append(out, fresh[0]), fresh[1:]
		}
		if _, drop := slices.BinarySearch(gone, name); !drop {
			out = append(out, name)
		}
	}
	return append(out, fresh...)
}

// Preview is the topic that the image would show if it were created with these
// values.
func (im *Image) Preview(name string, id record.TopicID, v TopicValue, configs map[string]string) *Topic {
	t := &Topic{Name: name, ID: id, Internal: IsInternal(name), Configs: configs, value: v}
	t.Partitions = im.partitions(t)
	return t
}

// partitions renders a topic's stored values.
func (im *Image) partitions(t *Topic) []Partition {
	out := make([]Partition, len(t.value.Partitions))
	for i, a := range t.value.Partitions {
		p := &out[i]
		*p = Partition{Leader: NoLeader, Replicas: a.Replicas, ISR: a.ISR, Adding: a.Adding, Removing: a.Removing}
		if p.ISR == nil {
			p.ISR = a.Replicas
		}
		if a.Leader != nil {
			p.Leader = *a.Leader
		} else if len(a.Replicas) > 0 {
			p.Leader = a.Replicas[0]
		}
		if s, ok := t.states[int32(i)]; ok {
			v := s.value
			p.Leader, p.LeaderEpoch, p.PartitionEpoch = v.Leader, record.LeaderEpoch(v.Epoch), v.Change
			p.ISR, p.ELR, p.LastKnownELR = v.ISR, v.ELR, v.LastKnownELR
		}
		for _, r := range a.Replicas {
			if b := im.Broker(r); b == nil || b.Fenced {
				p.Offline = append(p.Offline, r)
			}
		}
	}
	return out
}
