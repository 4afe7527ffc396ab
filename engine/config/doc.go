// Package config knows Kafka's configuration: every topic and broker key that
// this broker accepts, with its type, default, allowed values, documentation
// and the chain of synonyms behind it; the parsers of server.properties and of
// the environment; and the two typed results that the rest of the program
// reads, [Broker] and [Topic].
//
// Values have five sources, first wins: a topic's own override, the broker's
// dynamic config, the cluster-wide dynamic config, the static config
// (--override, environment, server.properties) and the default. Synonyms
// (log.retention.ms, .minutes, .hours) are tried in order within each source.
//
// Nothing here reads a clock, opens a socket or touches a directory. An unknown
// key is a warning; a known key with a bad value is an [Error], whose one line
// names the key, the value and what is allowed.
package config
