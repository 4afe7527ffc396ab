// Package replication stands between the engine and the logs.
//
// [Partition] is the only way to a log: it holds the role, the leader epoch,
// the ISR and the offsets that clients may see, and it decides whether an
// append or a read may happen at all. [Manager] (Kafka's ReplicaManager) keeps
// the partitions of this node in step with the cluster's [meta.Image].
//
// Nothing here starts a goroutine: work that may sleep is handed to the
// injected storage.Executor, and time comes from a storage.Clock.
//
//	doc.go         this page
//	partition.go   Partition, its immutable view, role changes
//	append.go      the combiner: how concurrent loops share one log
//	offsets.go     logStart ≤ LSO ≤ HW ≤ LEO and the one setter
//	wait.go        who is woken when offsets move
//	read.go        Fetch
//	list.go        ListOffsets, epochs, DeleteRecords
//	config.go      a topic's configs as the log and the validator need them
//	index.go       the lock-free index of the hot path
//	manager.go     Manager, apply.go its changes, load.go its start, dirs.go its descriptions
package replication
