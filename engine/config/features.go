package config

// Feature is a feature of KIP-584: a part of the protocol that the whole cluster
// uses at one level. Level 0 is off.
type Feature struct {
	Name     string
	Min, Max int16 // levels that this version serves
	// Level is the one in force where none was set. Clients switch protocol on
	// it, so it is raised with the implementation and not before.
	Level int16
	// Fixed features have the release's level and no other.
	Fixed bool
}

// Features are those that this version serves, by name. metadata.version is
// Kafka 4.4's range, kept for tools that read it as the release; kraft.version
// stands for a raft quorum of which there is none.
var Features = []Feature{
	{Name: "group.version", Min: 0, Max: 1, Level: 1},
	{Name: "kraft.version", Min: 0, Max: 1, Fixed: true},
	{Name: "metadata.version", Min: 7, Max: 33, Level: 33, Fixed: true},
}

// FeatureNamed returns a feature, nil if there is no such.
func FeatureNamed(name string) *Feature {
	for i := range Features {
		if Features[i].Name == name {
			return &Features[i]
		}
	}
	return nil
}

// In returns the feature's level in force, given those that were set.
func (f *Feature) In(set map[string]int16) int16 {
	if level, ok := set[f.Name]; ok && !f.Fixed {
		return min(level, f.Max)
	}
	return f.Level
}

// FeatureLevel is the level in force of the feature called name.
func FeatureLevel(name string, set map[string]int16) int16 { return FeatureNamed(name).In(set) }
