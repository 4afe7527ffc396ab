package meta

import (
	"encoding/json"
	"fmt"
)

// Values are JSON objects with a version field "v". A reader accepts its own
// version and lower ones; a higher one is an error that names the key, so that
// an old broker never misreads what a newer one wrote. Fields may be added
// without a new version when an old reader may ignore them.
const schemaVersion = 1

// ClusterValue is the value of KeyCluster.
type ClusterValue struct {
	V         int    `json:"v"`
	ID        string `json:"id"`
	CreatedMs int64  `json:"createdMs"`
}

// CounterValue is the value of KeyBrokerEpochs and KeyProducerIDs.
type CounterValue struct {
	V    int   `json:"v"`
	Next int64 `json:"next"`
}

// BrokerValue is the value of KeyBroker.
type BrokerValue struct {
	V         int        `json:"v"`
	Epoch     int64      `json:"epoch"`
	Rack      string     `json:"rack,omitempty"`
	Listeners []Endpoint `json:"listeners"`
	Fenced    bool       `json:"fenced,omitempty"`
}

// Endpoint is one advertised listener of a broker. Protocol is Kafka's name of
// its security protocol, e.g. PLAINTEXT.
type Endpoint struct {
	Name     string `json:"name"`
	Host     string `json:"host"`
	Port     int32  `json:"port"`
	Protocol string `json:"protocol"`
}

// TopicValue is the value of KeyTopic. Partitions is indexed by partition.
type TopicValue struct {
	V          int               `json:"v"`
	ID         string            `json:"id"`
	Partitions []AssignmentValue `json:"partitions"`
}

// AssignmentValue is where one partition lives. Leader and ISR are those it was
// created with; a StateValue replaces them. Leader nil stands for the first
// replica and ISR nil for all of them, which keeps wide topics small.
type AssignmentValue struct {
	Replicas []int32 `json:"r"`
	Adding   []int32 `json:"add,omitempty"`
	Removing []int32 `json:"rm,omitempty"`
	Leader   *int32  `json:"l,omitempty"`
	ISR      []int32 `json:"isr,omitempty"`
}

// StateValue is the value of KeyState: what moves without the assignment.
type StateValue struct {
	V            int     `json:"v"`
	Leader       int32   `json:"leader"`
	Epoch        int32   `json:"epoch"`
	Change       int32   `json:"change"` // Kafka's partition epoch: one more with every write
	ISR          []int32 `json:"isr"`
	ELR          []int32 `json:"elr,omitempty"`
	LastKnownELR []int32 `json:"lastElr,omitempty"`
}

// ConfigValue is the value of the configs/ keys: overrides by name, as text.
type ConfigValue struct {
	V      int               `json:"v"`
	Values map[string]string `json:"values"`
}

// QuotaValue is the value of KeyQuota: limits by quota key, none of them empty.
type QuotaValue struct {
	V      int                `json:"v"`
	Values map[string]float64 `json:"values"`
}

// FeaturesValue is the value of KeyFeatures: the levels that UpdateFeatures has
// set, by feature; 0 switches a feature off. What is not named has the level of
// the release that runs.
type FeaturesValue struct {
	V      int              `json:"v"`
	Levels map[string]int16 `json:"levels"`
}

// DeletedValue is the value of KeyDeleted.
type DeletedValue struct {
	V    int    `json:"v"`
	Name string `json:"name"`
	AtMs int64  `json:"atMs"`
}

func (v *ClusterValue) version() *int  { return &v.V }
func (v *CounterValue) version() *int  { return &v.V }
func (v *BrokerValue) version() *int   { return &v.V }
func (v *TopicValue) version() *int    { return &v.V }
func (v *StateValue) version() *int    { return &v.V }
func (v *ConfigValue) version() *int   { return &v.V }
func (v *QuotaValue) version() *int    { return &v.V }
func (v *FeaturesValue) version() *int { return &v.V }
func (v *DeletedValue) version() *int  { return &v.V }

// Value is one of the value types of this package.
type Value interface{ version() *int }

// Encode renders a value with its schema version set.
func Encode(value Value) []byte {
	*value.version() = schemaVersion
	b, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("BUG: meta.Encode of %T: %v", value, err))
	}
	return b
}

// Decode parses the value of e into out. Its errors name the key.
func Decode(e Entry, out Value) error {
	err := json.Unmarshal(e.Value, out)
	if v := *out.version(); v > schemaVersion || (err == nil && v < 1) {
		return fmt.Errorf("meta: value of %q has version %d, this broker reads 1 to %d", e.Key, v, schemaVersion)
	}
	if err != nil {
		return fmt.Errorf("meta: value of %q is not readable: %w", e.Key, err)
	}
	return nil
}
