// Package storage is the log: partitions as directories of segment files in
// Apache Kafka's own formats, what surrounds them (indexes, producer
// snapshots, leader epochs, checkpoints), and the recovery of all that.
//
// FORMAT.md draws the bytes and tells a segment's life. The types carry the
// design: [Log] says who may append, read and remove, and in which order things
// become visible; [Manager] holds the logs of a node; recovery.go says what an
// unclean stop may have left and what is made of it; prepare.go how the next
// segment and the blocks ahead of an append come to be there before they are
// needed.
//
// # Where things are
//
//	manager*.go, checkpoint.go   the log directories: locks, identity, load, create, delete, checkpoints, clean stop
//	log.go                       a log's offsets and segments
//	append.go, roll.go           the write path, and the change to the next segment
//	prepare.go                   the next segment, reserved blocks
//	writeback.go                 dirty pages before the kernel's threshold
//	read.go, span.go, ring.go    the read path: from an offset to a range of a file
//	segment.go, handle.go        a segment, its file and who holds it open
//	entrytable.go, *index.go     the offset, time and transaction index
//	producerstate.go, snapshot.go, transactions.go   idempotent and transactional producers (KIP-98)
//	epochs.go                    which leader wrote what (KIP-101)
//	flush.go, startoffset.go     durability, closing, deletion of records, truncation
//	recover.go, recovery.go, logdir.go   opening a log, cleanly or not
//
// # Rules
//
// Nothing here starts a goroutine of its own: work that may sleep goes to the
// [Executor], timed work waits for [Manager.Tick] and [Manager.Checkpoint].
// AppendAsLeader and Read are for event loops: they allocate nothing in the
// steady state, and what they cannot do without sleeping they hand on or refuse
// with vfs.ErrWouldBlock. The exceptions are the write itself, and an append to
// a log that is Cold, which opens its files and so is one for a worker.
// Everything else belongs to workers and says so.
package storage
