// Package engine answers Kafka requests. It stands between the network (netio)
// and the partitions (replication), and it is the only place where a span of a
// log becomes bytes on a connection. This page is the one to read first.
//
//	clients ══TCP══▶ netio.Loop ×N            one goroutine each, locked to a thread
//	                   │  frames, in order of arrival
//	                   ▼
//	  Engine.Request ─ table.go ─┬─ on the loop: Produce, Fetch, ListOffsets, Metadata, …
//	                   ▲         └─ off the loop: kmsg → engine/admin → kmsg (cold.go)
//	                   │                │
//	  answers, spans   │                ▼
//	  by sendfile      │        replication.Partition ── combiner ── storage.Log ── segments
//	                   │                │
//	                   │                │ PartitionAdvanced: the high watermark moved
//	  Engine.EndTurn ◀─┴── loop.inbox ◀─┘ (from any goroutine; one wake-up for many)
//
// # A Produce
//
// A loop hands in a frame. produce.go decodes it in place: names and batches
// are slices of the frame. Each batch is checked by record.Policy, before any
// lock: structure, CRC, timestamps, keys. The good ones are linked into the
// chain of their partition, and that is all that happens for now: other requests
// of this turn, of other connections too, add to the same chains.
//
// When the turn has handed in everything, EndTurn gives each chain to
// Partition.Append. The partition's combiner writes all of it, and what other
// loops have queued, with one pwritev, moves the log end and the high watermark,
// and reports each append (AppendDone), maybe on another loop. The last report
// of a request puts it into the inbox of its own loop, which answers it: in this
// very turn if it was that loop that wrote. With acks=all, a request whose high
// watermark has not come yet parks.
//
// A batch that must be decompressed or compressed to be checked goes to a worker.
// Until it is back, later produce requests of its connection queue behind it.
//
// # A Fetch
//
// fetch.go decodes the request, finds the session (KIP-227) and lists the
// partitions. Each is read in order: a read is a look-up that yields a span (file,
// position, length), never bytes. If min_bytes are there, or waiting makes no
// sense, the answer is encoded with the spans spliced in, and the network sends
// them with sendfile. Otherwise the request parks.
//
// A parked request holds offsets only. It is linked to its partitions' wait
// points on this loop, and the loop is registered with the partitions as waker.
// When a partition moves, it lands in the loop's inbox; the loop looks at what
// waits for it; who has enough reads again and is answered. Loop timers end the
// rest. A look-up that would have to wait for the disk goes on on a worker and
// comes back.
//
// # Files
//
//	engine.go         Config, Engine, dispatch of a request, panics
//	table.go          the table of APIs: versions, where each runs, its handler
//	apiversions.go    ApiVersions, rendered from the table
//	loop.go           what each loop keeps; the end of a turn
//	produce.go        Produce; delayedproduce.go: while acks=all waits
//	fetch.go          Fetch; delayedfetch.go: while it waits; fetchresponse.go: the answer
//	session.go        fetch sessions; sessioncache.go: the bounded cache of them
//	delayed.go        parking and waking, the inbox of a loop
//	listoffsets.go    ListOffsets, OffsetForLeaderEpoch
//	producerid.go     InitProducerId
//	cold.go           requests that leave the loop
//	throttle.go       quotas: what counts, and who is muted
//	advertised.go     a warning where clients are sent elsewhere
//	errors.go         from errors to codes, messages and leader hints
//	stats.go          what each loop counts, for metrics (engine/metrics)
//
// engine/admin holds the handlers of cold requests, engine/config Kafka's
// configuration keys.
//
// # What is not obvious
//
//   - Everything in loop, and every request, belongs to one goroutine. The inbox
//     and AppendDone are the only doors from outside; a worker has a request to
//     itself between Submit and Post.
//   - Only Produce is pipelined. Other requests wait until all earlier ones of
//     their connection are answered, which is Kafka's order; a parked fetch holds
//     up its connection, as in Kafka.
//   - The order that loses no wake-up: set the partition's bit, look once more,
//     sleep. The notification clears the bit, so that a busy partition costs a
//     busy loop one look; whoever still waits sets it again before looking.
//   - Requests that wait, and their arrays, are pooled for each loop; their
//     partitions' slots must not move while a combiner or a wait point points to
//     them, so the arrays are sized before they are filled.
//   - A request outlives its connection: netio says so (Alive is false) and takes
//     its end in silence. Closed lets parked requests go; those with a worker end
//     when they come back.
//   - A panic in a handler closes that connection and logs the stack. Its
//     partitions are not harmed: appends are reported one by one.
package engine
