package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const plaintext = "PLAINTEXT"

// protocols are Kafka's security protocols, and the listener names that stand
// for themselves.
var protocols = []string{plaintext, "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

// Listener is one entry of listeners or advertised.listeners.
type Listener struct {
	Name     string // upper case
	Protocol string // PLAINTEXT
	Host     string // without brackets; empty: every interface
	Port     int32  // 0..65535; 0: chosen by the system
}

// Address returns host:port, as net.Listen takes it.
func (l Listener) Address() string {
	return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
}

// String returns NAME://host:port.
func (l Listener) String() string { return l.Name + "://" + l.Address() }

// Advertise returns the advertised listeners with the ports that the system
// chose (bound, by listener name) in place of 0.
func (b *Broker) Advertise(bound map[string]int32) []Listener {
	advertised := slices.Clone(b.AdvertisedListeners)
	for i := range advertised {
		if advertised[i].Port == 0 {
			advertised[i].Port = bound[advertised[i].Name]
		}
	}
	return advertised
}

var listenerForm = regexp.MustCompile(`^([A-Za-z0-9_.-]+)://(?:\[([0-9A-Fa-f:.%A-Za-z0-9_-]+)\]|([0-9A-Za-z._%-]*)):([0-9]+)$`)

// parseListeners reads a list of NAME://host:port.
func parseListeners(key string, v Value) ([]Listener, error) {
	bad := func(format string, args ...any) error {
		return refuse(key, v.String(), format, args...)
	}
	if len(v.List) == 0 {
		return nil, bad("at least one NAME://host:port is needed")
	}
	var listeners []Listener
	for _, entry := range v.List {
		m := listenerForm.FindStringSubmatch(entry)
		if m == nil {
			return nil, bad("%q is not NAME://host:port (an IPv6 address stands in brackets)", entry)
		}
		port, err := strconv.ParseInt(m[4], 10, 32)
		if err != nil || port > 65535 {
			return nil, bad("the port of %q must be between 0 and 65535", entry)
		}
		l := Listener{Name: strings.ToUpper(m[1]), Host: m[2] + m[3], Port: int32(port)}
		if m[2] != "" && !strings.Contains(m[2], ":") {
			return nil, bad("%q has no IPv6 address in its brackets", entry)
		}
		if slices.ContainsFunc(listeners, func(o Listener) bool { return o.Name == l.Name }) {
			return nil, bad("Each listener must have a different name: %s is there twice", l.Name)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// parseProtocolMap reads listener.security.protocol.map.
func parseProtocolMap(v Value) (map[string]string, error) {
	protocolOf := make(map[string]string)
	for _, entry := range SplitList(v.Str) {
		name, protocol, ok := strings.Cut(entry, ":")
		name, protocol = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(protocol))
		if !ok || name == "" || !slices.Contains(protocols, protocol) {
			return nil, refuse("listener.security.protocol.map", v.Str, "%q must be NAME:PROTOCOL with one of %s", entry, strings.Join(protocols, ", "))
		}
		protocolOf[name] = protocol
	}
	return protocolOf, nil
}

// setListeners reads the listeners and what clients are told of them.
func setListeners(b *Broker) error {
	protocolOf, err := parseProtocolMap(b.value("listener.security.protocol.map"))
	if err != nil {
		return err
	}
	all, err := parseListeners("listeners", b.value("listeners"))
	if err != nil {
		return err
	}
	var controllers []string
	for _, name := range b.value("controller.listener.names").List {
		controllers = append(controllers, strings.ToUpper(name))
	}
	for _, l := range all {
		if slices.Contains(controllers, l.Name) {
			b.ControllerListeners = append(b.ControllerListeners, l.Name)
			continue
		}
		l.Protocol = protocolOf[l.Name]
		if l.Protocol != plaintext {
			reason := fmt.Sprintf("listener %s uses %s, and only PLAINTEXT is served by this version", l.Name, l.Protocol)
			if l.Protocol == "" {
				reason = fmt.Sprintf("No security protocol defined for listener %s: name it in listener.security.protocol.map", l.Name)
			}
			return refuse("listeners", b.value("listeners").String(), "%s", reason)
		}
		b.Listeners = append(b.Listeners, l)
	}
	if len(b.Listeners) == 0 {
		return refuse("listeners", b.value("listeners").String(), "There must be at least one broker advertised listener. Perhaps all listeners appear in controller.listener.names?")
	}
	if err := checkPorts(b); err != nil {
		return err
	}
	if err := setAdvertised(b, controllers); err != nil {
		return err
	}
	return setInterBroker(b)
}

// checkPorts refuses two listeners on one port, unless one has an IPv4 address
// and the other an IPv6 one.
func checkPorts(b *Broker) error {
	for i, l := range b.Listeners {
		for _, o := range b.Listeners[:i] {
			if l.Port == 0 || l.Port != o.Port {
				continue
			}
			a, c := net.ParseIP(l.Host), net.ParseIP(o.Host)
			if a == nil || c == nil || (a.To4() == nil) == (c.To4() == nil) {
				return refuse("listeners", b.value("listeners").String(), "Each listener must have a different port unless exactly one listener has an IPv4 address and the other IPv6 address: %s and %s", o.Name, l.Name)
			}
		}
	}
	return nil
}

// setAdvertised reads advertised.listeners, or takes listeners in its place.
func setAdvertised(b *Broker, controllers []string) error {
	key := "advertised.listeners"
	v := b.value(key)
	advertised := b.Listeners
	if !v.Null {
		var err error
		if advertised, err = parseListeners(key, v); err != nil {
			return err
		}
	} else {
		v = b.value("listeners")
	}
	for _, l := range b.Listeners {
		i := slices.IndexFunc(advertised, func(a Listener) bool { return a.Name == l.Name })
		if i < 0 {
			continue
		}
		a := advertised[i]
		a.Protocol = l.Protocol
		if a.Host == "" {
			name, err := hostname()
			if err != nil {
				return refuse(key, v.String(), "listener %s needs a host, and this machine's name is not known: %v", a.Name, err)
			}
			a.Host = name
		}
		if ip := net.ParseIP(a.Host); ip != nil && ip.IsUnspecified() {
			if b.value(key).Null {
				// The user set listeners alone: name what is missing.
				return refuse("listeners", v.String(), "clients cannot connect to %s: set %s to the address that they use, for instance %s=%s://broker.example:%d",
					a.Host, key, key, a.Name, a.Port)
			}
			return refuse(key, v.String(), "%s cannot use the nonroutable meta-address %s. Use a routable IP address.", key, a.Host)
		}
		b.AdvertisedListeners = append(b.AdvertisedListeners, a)
	}
	for _, a := range advertised {
		if !slices.Contains(controllers, a.Name) && !slices.ContainsFunc(b.Listeners, func(l Listener) bool { return l.Name == a.Name }) {
			return refuse(key, v.String(), "listener names must be equal to or a subset of the ones defined in listeners, and %s is not", a.Name)
		}
	}
	if len(b.AdvertisedListeners) == 0 {
		return refuse(key, v.String(), "There must be at least one broker advertised listener.")
	}
	return nil
}

// setInterBroker finds the listener that brokers use among themselves.
func setInterBroker(b *Broker) error {
	v := b.value("inter.broker.listener.name")
	b.InterBrokerListener = strings.ToUpper(v.Str)
	if v.Null {
		b.InterBrokerListener = b.value("security.inter.broker.protocol").Str
	} else if b.isSet("security.inter.broker.protocol") {
		return refuse("inter.broker.listener.name", v.Str, "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
	}
	names := make([]string, len(b.AdvertisedListeners))
	for i, l := range b.AdvertisedListeners {
		names[i] = l.Name
	}
	if slices.Contains(names, b.InterBrokerListener) {
		return nil
	}
	if v.Null {
		b.InterBrokerListener = names[0] // a lone node talks to nobody
		return nil
	}
	return refuse("inter.broker.listener.name", v.Str, "must be a listener name defined in advertised.listeners: %s", strings.Join(names, ", "))
}
