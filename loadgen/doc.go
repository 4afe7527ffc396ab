// Package loadgen makes load for a Kafka-compatible broker and measures it.
//
// It speaks the protocol from event loops of its own ([netio] dialling out), so
// that the client costs a fraction of the broker. Latencies count from the time
// at which a record was due to be sent, not from when it could be: a broker
// that stalls shows in the percentiles of every record that was due meanwhile.
package loadgen
