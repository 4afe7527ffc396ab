package meta

import (
	"maps"
	"slices"
	"strings"

	"github.com/posthouse/posthouse/storage/record"
)

// NoLeader is the leader of a partition that has none.
const NoLeader int32 = -1

// Image is the state of the cluster at one revision. It is immutable: whoever
// holds one may read all of it, maps and slices included, without a lock, and
// must not write. Brokers replace it whole.
type Image struct {
	Revision     Revision
	ClusterID    string // empty until the cluster has one
	ControllerID int32  // -1 while nobody is known to hold the office
	Brokers      []Broker
	Topics       map[string]*Topic
	TopicsByID   map[record.TopicID]*Topic
	Names        []string // of all topics, sorted
	// BrokerConfigs are dynamic configs by broker; BrokerDefaults those of all.
	BrokerConfigs  map[int32]map[string]string
	BrokerDefaults map[string]string
	// GroupConfigs are dynamic configs by group, Quotas limits by entity. Both
	// maps are replaced when anything in them changes, and only then.
	GroupConfigs map[string]map[string]string
	Quotas       map[QuotaEntity]map[string]float64
	// QuotaRevision is that of the last change to Quotas.
	QuotaRevision Revision
	// Features are the feature levels that were set, by name.
	Features map[string]int16
	// Deleted names topics whose directories may still be on disks.
	Deleted map[record.TopicID]string

	brokerVersions map[int32]Version
	versions       map[string]Version // of the few keys that are neither topic nor broker
}

// Broker is one registered broker. Brokers of an Image are sorted by ID.
type Broker struct {
	ID        int32
	Epoch     int64
	Rack      string // empty: none
	Listeners []Endpoint
	Fenced    bool
}

// Endpoint returns the broker's address on the listener called name.
func (b *Broker) Endpoint(name string) (Endpoint, bool) {
	for _, e := range b.Listeners {
		if e.Name == name {
			return e, true
		}
	}
	return Endpoint{}, false
}

// Topic is one topic. Partitions is indexed by partition.
type Topic struct {
	Name       string
	ID         record.TopicID
	Internal   bool
	Partitions []Partition
	Configs    map[string]string // overrides only

	value         TopicValue
	version       Version
	configVersion Version
	states        map[int32]stateEntry // partitions that have a state key
}

type stateEntry struct {
	value   StateValue
	version Version
}

// Stated lists the partitions that have a state key of their own, ascending.
func (t *Topic) Stated() []int32 { return slices.Sorted(maps.Keys(t.states)) }

// Value returns the topic's stored value, to be changed and written back
// guarded by Image.Version(KeyTopic(name)). Its slices are shared: replace
// them, do not write into them.
func (t *Topic) Value() TopicValue { return t.value }

// Partition is one partition's assignment and state.
type Partition struct {
	Leader         int32 // NoLeader: none
	LeaderEpoch    record.LeaderEpoch
	PartitionEpoch int32
	Replicas       []int32
	ISR            []int32
	Adding         []int32
	Removing       []int32
	Offline        []int32 // replicas on brokers that are gone or fenced
	ELR            []int32
	LastKnownELR   []int32
}

// Broker returns the registered broker with this id, or nil.
func (im *Image) Broker(id int32) *Broker {
	i, ok := slices.BinarySearchFunc(im.Brokers, id, func(b Broker, id int32) int { return int(b.ID) - int(id) })
	if !ok {
		return nil
	}
	return &im.Brokers[i]
}

// Adopting says that directories which another cluster wrote are being taken
// over, so that the producer ids in them are not known yet.
func (im *Image) Adopting() bool { return im.versions[KeyAdopting] != 0 }

// Topic returns the topic called name, or nil.
func (im *Image) Topic(name string) *Topic { return im.Topics[name] }

// Partition returns one partition, or nil.
func (im *Image) Partition(tp record.TopicPartition) *Partition {
	t := im.Topics[tp.Topic]
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions) {
		return nil
	}
	return &t.Partitions[tp.Partition]
}

// Version returns the version of the value that the image was built from, for
// use in a Guard; zero when the image knows of no such key.
func (im *Image) Version(key string) Version {
	if name, ok := strings.CutPrefix(key, PrefixTopics); ok {
		if t := im.Topics[name]; t != nil {
			return t.version
		}
		return 0
	}
	if name, ok := strings.CutPrefix(key, PrefixTopicConfigs); ok {
		if t := im.Topics[name]; t != nil {
			return t.configVersion
		}
		return 0
	}
	if id, p, ok := ParseStateKey(key); ok {
		if t := im.TopicsByID[id]; t != nil {
			return t.states[p].version
		}
		return 0
	}
	if text, ok := strings.CutPrefix(key, PrefixBrokers); ok {
		id, _ := parseID(text)
		return im.brokerVersions[id]
	}
	return im.versions[key]
}
