package config

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Load builds the node's configuration from the properties of a file (and of
// the environment, see [FromEnvironment]) and from overrides, which win. nil is
// no property. Warnings are single lines: unknown keys by name, keys without
// effect, controller listeners that are not opened. A bad value is an [*Error].
func Load(properties, overrides map[string]string) (b *Broker, warnings []string, err error) {
	static := maps.Clone(properties)
	if static == nil {
		static = make(map[string]string)
	}
	maps.Copy(static, overrides)
	b, err = build(static, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	return b, b.warnings(), nil
}

// WithDynamic returns the configuration with the dynamic configs of the cluster
// (broker "") and of this broker on top of the static ones. Keys that cannot be
// changed at run time are ignored, as is a synonym of lower rank.
func (b *Broker) WithDynamic(cluster, own map[string]string) (*Broker, error) {
	return build(b.static, dynamicOnly(cluster), dynamicOnly(own))
}

// dynamicOnly leaves out what cannot be changed at run time.
func dynamicOnly(configs map[string]string) map[string]string {
	kept := make(map[string]string, len(configs))
	for key, value := range configs {
		if def := brokerDefs.get(key); def == nil || def.Update != ReadOnly {
			kept[key] = value
		}
	}
	return kept
}

// build parses all sources into a new Broker.
func build(static, cluster, own map[string]string) (*Broker, error) {
	b := &Broker{static: static, cluster: cluster, own: own}
	for _, name := range brokerDefs.names {
		def := brokerDefs.get(name)
		for _, source := range [...]map[string]string{static, cluster, own} {
			if raw, ok := source[name]; ok {
				if _, err := def.Parse(raw); err != nil {
					return nil, err
				}
			}
		}
		if v := b.value(name); !v.Null && def.apply != nil {
			def.apply(b, v)
		}
	}
	for _, step := range [...]func(*Broker) error{setIdentity, setDirs, setTopicDefaults, setLimits, checkConsumers, setListeners, setHTTP} {
		if err := step(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// raw returns the text of a key in the source that wins, and that source.
func (b *Broker) raw(name string) (string, Source) {
	for _, s := range b.sources() {
		if raw, ok := s.values[name]; ok {
			return raw, s.source
		}
	}
	return "", SourceDefault
}

// value returns the effective value of a broker key that is defined. Values
// were checked by build.
func (b *Broker) value(name string) Value {
	def := brokerDefs.get(name)
	if raw, source := b.raw(name); source != SourceDefault {
		if v, err := def.Parse(raw); err == nil {
			return v
		}
	}
	return def.DefaultValue()
}

// isSet reports whether a key has a value that is no default.
func (b *Broker) isSet(name string) bool {
	_, source := b.raw(name)
	return source != SourceDefault
}

func setIdentity(b *Broker) error {
	id := b.value("broker.id")
	if id.Null || id.Int == -1 {
		return nil
	}
	if b.isSet("node.id") && int32(id.Int) != b.NodeID {
		return refuse("broker.id", id.String(), "You must set `node.id` to the same value as `broker.id`, it is %d", b.NodeID)
	}
	if id.Int < 0 {
		return refuse("broker.id", id.String(), "Value must be at least 0")
	}
	b.NodeID = int32(id.Int)
	return nil
}

func setDirs(b *Broker) error {
	key := "log.dirs"
	dirs := b.value(key)
	if dirs.Null {
		key = "log.dir"
		dirs = b.value(key)
	}
	if len(dirs.List) == 0 {
		return refuse(key, dirs.String(), "At least one log directory must be defined via log.dirs or log.dir.")
	}
	for i, dir := range dirs.List {
		if dir == "" {
			return refuse(key, dirs.String(), "a directory must not be empty")
		}
		clean := filepath.Clean(dir)
		if slices.Contains(b.LogDirs, clean) {
			return refuse(key, dirs.String(), "directory %s is named twice", dirs.List[i])
		}
		b.LogDirs = append(b.LogDirs, clean)
	}
	if b.Meta.Dir == "" {
		b.Meta.Dir = filepath.Join(b.LogDirs[0], "__meta")
	}
	return nil
}

// setTopicDefaults fills TopicDefaults from the broker keys behind each topic
// key, source by source and within a source in order of the synonyms.
func setTopicDefaults(b *Broker) error {
	for _, name := range topicDefs.names {
		def := topicDefs.get(name)
		v := b.topicDefault(&def.Definition)
		if v.Null {
			continue
		}
		if def.check.fail != nil {
			if bad := def.check.fail(name, v); bad != nil {
				bad.Key = def.Synonyms[0].Name
				return bad
			}
		}
		def.apply(&b.TopicDefaults, v)
	}
	b.TopicDefaults.ValidateCompressed = b.LogValidateCompressed
	return b.TopicDefaults.validate()
}

// synonymValue returns the value that the broker keys behind a topic key give
// it, in the topic key's unit; false where none is set.
func (b *Broker) synonymValue(def *Definition) (Value, bool) {
	for _, s := range b.sources() {
		for _, synonym := range def.Synonyms {
			raw, ok := s.values[synonym.Name]
			if !ok {
				continue
			}
			v, err := brokerDefs.get(synonym.Name).Parse(raw)
			if err != nil {
				continue // build has checked all of them
			}
			return scaled(def, v, synonym), true
		}
	}
	return Value{}, false
}

// scaled turns a broker key's value into the unit and type of the topic key in
// front of it. A retention time below zero is -1, no limit.
func scaled(def *Definition, v Value, synonym Synonym) Value {
	if def.Type != Long {
		return v
	}
	v.Type = Long
	if def.Name == "retention.ms" && v.Int < 0 {
		v.Int = -1
		return v
	}
	if v.Int > math.MaxInt64/synonym.Scale {
		v.Int = math.MaxInt64
	} else {
		v.Int *= synonym.Scale
	}
	return v
}

func setLimits(b *Broker) error {
	if b.TopicDefaults.RetentionMs == 0 {
		for _, name := range []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"} {
			if b.isSet(name) {
				return refuse(name, "0", "must be unlimited (-1) or, greater than or equal to 1")
			}
		}
	}
	if b.QueuedMaxRequestBytes <= 0 {
		b.QueuedMaxRequestBytes = -1
	} else if b.QueuedMaxRequestBytes < int64(b.SocketRequestMaxBytes) {
		if b.isSet("queued.max.request.bytes") {
			return refuse("queued.max.request.bytes", b.value("queued.max.request.bytes").String(),
				"must be larger or equal to socket.request.max.bytes, which is %d", b.SocketRequestMaxBytes)
		}
		b.QueuedMaxRequestBytes = int64(b.SocketRequestMaxBytes)
	}
	if b.MaxConnectionsPerIP == 0 && len(b.MaxConnectionsOverrides) == 0 {
		return refuse("max.connections.per.ip", "0", "can be set to zero only if max.connections.per.ip.overrides is set")
	}
	for _, name := range []string{"socket.send.buffer.bytes", "socket.receive.buffer.bytes"} {
		if v := b.value(name); v.Int < -1 {
			return refuse(name, v.String(), "Value must be at least -1")
		}
	}
	if b.Netio.Loops == 0 {
		b.Netio.Loops = int32(min(63, max(1, cores/2)))
	}
	return nil
}

// warnings states what was read and has no effect, one line each.
func (b *Broker) warnings() []string {
	var lines, withoutEffect []string
	for _, key := range slices.Sorted(maps.Keys(b.static)) {
		def := brokerDefs.get(key)
		switch {
		case def == nil && inFamily(key):
			withoutEffect = append(withoutEffect, key)
		case def == nil:
			lines = append(lines, unknownKey(key))
		case key == "authorizer.class.name":
			if b.value(key).Str != "" {
				lines = append(lines, key+" has no effect yet: every client may do everything")
			}
		case def.Inert && b.value(key).String() != def.Default:
			withoutEffect = append(withoutEffect, key)
		}
	}
	for _, name := range b.ControllerListeners {
		lines = append(lines, fmt.Sprintf("listener %s belongs to Kafka's controller and is not opened: this broker needs none", name))
	}
	if !slices.Contains(b.value("process.roles").List, "broker") {
		lines = append(lines, "process.roles does not contain broker; this node serves clients all the same")
	}
	if len(withoutEffect) > 0 {
		lines = append(lines, "accepted and kept, without effect in this version: "+strings.Join(withoutEffect, ", "))
	}
	return lines
}

// environmentPrefix begins the environment variables that set keys.
const environmentPrefix = "POSTHOUSE_"

// FromEnvironment returns the keys set by environment variables ("NAME=value",
// as os.Environ gives them): POSTHOUSE_LOG_DIRS is log.dirs. In a name _ stands
// for a dot, __ for a dash and ___ for an underscore, as in Kafka's images. The
// variables that Kubernetes makes for a service named posthouse are left out,
// and so is any whose lower-case name is in reserved.
func FromEnvironment(environ []string, reserved ...string) map[string]string {
	properties := make(map[string]string)
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		name, prefixed := strings.CutPrefix(name, environmentPrefix)
		if !ok || !prefixed || name == "" || fromKubernetes(name) || slices.Contains(reserved, strings.ToLower(name)) {
			continue
		}
		key := strings.NewReplacer("___", "_", "__", "-", "_", ".").Replace(strings.ToLower(name))
		properties[key] = value
	}
	return properties
}

// fromKubernetes recognises SERVICE_HOST, SERVICE_PORT, SERVICE_PORT_KAFKA,
// PORT, PORT_9092_TCP_ADDR and their like.
func fromKubernetes(name string) bool {
	return name == "SERVICE_HOST" || name == "PORT" || strings.HasPrefix(name, "SERVICE_PORT") || strings.HasPrefix(name, "PORT_")
}

// cores is how many processors this process may use, a container's CPU quota
// included; taken before the command raises GOMAXPROCS for its loops.
var cores = runtime.GOMAXPROCS(0)

// hostname is the name a listener without a host is advertised by.
var hostname = os.Hostname
