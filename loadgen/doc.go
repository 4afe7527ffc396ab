// Package loadgen makes load for a Kafka-compatible broker and measures it.
//
// It speaks the protocol from event loops of its own ([netio] dialling out), so
// that the client costs little: making a batch of 16 KiB takes 0.3 µs, 3 µs where
// its records are marked; the rest is the kernel's send, which on loopback is
// billed for the receiver's side too (BenchmarkClient). Latencies count from the time at which a record was due to be sent,
// not from when it could be: a broker that stalls shows in the percentiles of
// every record that was due meanwhile, and what was still unanswered at the end
// is entered with the time that it had waited.
//
// # The way through
//
//	workload.go, values.go, validate.go   what to do, and whether it makes sense
//	control.go, plan.go                   setting up: topics, leaders, who gets which partition
//	run.go                                connections, loops, start
//	loop.go                               what the peers of one loop share
//	schedule.go, keys.go                  when records are due, and with which keys
//	producer.go, batch.go, record.go,     a batch from schedule to acknowledgement;
//	frames.go, crc.go                     its bytes
//	consumer.go                           fetch sessions, and what is read in a batch
//	stats.go, measure.go, judge.go        counting, the clock of a run, warnings
//	verify.go, reconnect.go               content checks, across restarts
//	findmax.go                            the highest rate that holds a bound
//	outcome.go, result.go, export.go      what comes out
//
// # What is whose
//
// Producers, consumers and all counts belong to their loop's goroutine. A run's
// own goroutine looks at them through tasks that it posts (run.onEach), and
// reads them directly only once the loops have ended.
package loadgen
