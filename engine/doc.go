// Package engine answers Kafka requests: it is the only place where a log span
// becomes bytes on a connection.
package engine
