package loadgen

import (
	"testing"
	"time"
)

// BenchmarkClient is what the client can drive and what it costs, against a
// server that only answers. CPU is the client's loop alone: both run in this
// process, each on a thread of its own.
func BenchmarkClient(b *testing.B) {
	for _, c := range []struct {
		name                  string
		connections, inFlight int
		batch, size, records  int
	}{
		{"1 record of 100 B, 64 connections", 64, 5, 1, 100, 1},
		{"16 KiB, 8 connections", 8, 5, 16 << 10, 1024, 0},
		{"64 KiB, 4 connections", 4, 5, 64 << 10, 1024, 0},
		{"1 MiB, 4 connections", 4, 5, 1 << 20, 1024, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			fake := &fakeBroker{partitions: 8}
			address := startFake(b, netioEngine, fake)
			w := DefaultWorkload(ModeProduce)
			w.Connections, w.InFlight, w.BatchBytes, w.Record = c.connections, c.inFlight, Bytes(c.batch), Fixed(c.size)
			w.BatchRecords = c.records
			w.Duration, w.Warmup = Duration(2*time.Second), Duration(500*time.Millisecond)
			for range b.N {
				o, err := Run(within(b, time.Minute), Options{Bootstrap: []string{address}, Workload: w, Loops: 1, LoopbackCongestion: "cubic"})
				if err != nil {
					b.Fatal(err)
				}
				l := o.Line(LineAck)
				cpu := o.Client.LoopShare * o.Measured.Seconds()
				b.ReportMetric(l.RecordsPerSec, "records/s")
				b.ReportMetric(l.MiBPerSec, "MiB/s")
				b.ReportMetric(cpu*1e6/float64(l.Requests), "cpu-µs/batch")
				b.ReportMetric(100*o.Client.LoopShare, "%core")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
