// Package bench measures brokers against each other on one machine, and
// starts them for whoever needs one as a process of its own.
//
//   - process.go, proc.go: a child process with its output, its stop bounded in
//     time, its CPU time and memory read from /proc.
//   - broker.go, kafka.go: Posthouse and Apache Kafka as such children, started
//     with the same keys, ready when they answer a client.
//   - raw.go, frames.go: a client that speaks the protocol over one blocking
//     socket, with prebuilt frames, so that its own cost is small and known.
//   - machine.go: the state of the machine that a figure needs to mean
//     anything (no free memory, the same congestion control for all).
//   - stats.go: median, minimum and maximum of rounds.
//   - usage.go: what a run uses, of the server, the client and the machine.
//   - matrix.go: the workloads, and what the broker is to reach in each.
//   - contender.go, session.go, turn.go, special.go: `posthouse bench`: start
//     the contenders, have them take turns, keep each run in the results schema.
//   - goals.go: ratios held against the goals, and against recorded ones.
//   - limit.go, limit/: the limit, a C program that does only the least that a
//     broker must; its sources travel with this package and are built on use.
//
// Rules that every comparison here keeps: rounds interleave (A B A B), the
// contender that is not measured is stopped by SIGSTOP, each is charged its own
// user and system time, the client's time is printed beside it, both run on the
// same file system with the same durability.
package bench
