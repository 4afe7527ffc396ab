// Package group is the group coordinator: consumer groups of both protocols,
// and the offsets that they commit. It knows nothing of connections: a request
// comes in as a kmsg value with a function that takes the answer, and records
// leave through a small interface, [Log].
//
//	engine/groups.go ── JoinGroup, Heartbeat, OffsetCommit, … ──▶ Coordinator
//	                                                                │ hash of the group id
//	      one partition of __consumer_offsets led here ──▶ shard ◀──┘
//	                                                        │ lock, timers, writes
//	                                                      group ── offsets
//	                                                        │
//	                                          classicGroup or consumerGroup
//
// # Steps
//
// Everything that happens to a group is a step under the lock of its shard: a
// request, a timer that fires, an append that is done. A step never waits. What
// it wants written it gives to shard.write, whom it wants answered to
// shard.answer; both take effect when the step has left the lock.
//
// The state is what the log says: records of a write are applied to it when the
// high watermark covers them (a reader never sees an offset that a failover can
// take back), by the same function that replays the log after a start or a
// change of leadership. A write that fails has changed nothing; its step hears
// of it and answers with the error. A step that must not look at a state with
// writes under way waits for them by group.whenIdle. Where the state is more
// than the log (members of a classic group between two generations), it is lost
// with the leadership, as in Kafka, and clients join again.
//
// Writes of a shard are in order: whoever leaves the lock first carries all that
// is pending to the log, the others leave theirs to him.
//
// # Files
//
//	coordinator.go  Config, Coordinator, leadership of shards
//	shard.go        shard: lock, writes, answers, loading; timer.go: deadlines
//	group.go        group, and what the shell asks of a protocol
//	records.go      keys and values of __consumer_offsets, replay
//	offsets.go      committed offsets; commit.go, fetch.go: their requests;
//	                expiry.go: when they go
//	classic*.go     classic groups: Join, Sync, Heartbeat, Leave
//	describe.go     DescribeGroups, ListGroups, DeleteGroups, OffsetDelete
//	consumer*.go    groups of the consumer protocol (KIP-848)
package group
