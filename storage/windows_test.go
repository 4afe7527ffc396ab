package storage

import (
	"fmt"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// A client that lost the answers to all it had in flight sends it again after
// the restart: each of these batches is a repeat, whatever a snapshot keeps.
func TestRepeatsOfAllInFlightAfterRestart(t *testing.T) {
	const producers, batches, records = 3, 12, 2
	for _, stop := range []string{"clean", "killed"} {
		for _, segmentBytes := range []int32{1 << 20, 600} { // the window spans rolls in the second
			t.Run(fmt.Sprintf("%s/%d", stop, segmentBytes), func(t *testing.T) {
				e := newEnv(t, vfs.NewMem(), LogConfig{SegmentBytes: segmentBytes, IndexIntervalBytes: 256})
				l := e.open()
				offsets := map[string]record.Offset{}
				for i := range batches {
					for p := range producers {
						a := mustAppend(t, l, idempotent(1000, record.ProducerID(7+p), 0, record.Sequence(i*records), records))
						offsets[fmt.Sprint(p, i)] = a.BaseOffset
					}
				}
				if stop == "clean" {
					l = e.restart()
				} else {
					l = e.kill(vfs.Crash{Mode: vfs.CrashKeep})
				}
				end := l.EndOffset()
				for i := batches - producerBatches; i < batches; i++ {
					for p := range producers {
						a := appendBatch(l, idempotent(1000, record.ProducerID(7+p), 0, record.Sequence(i*records), records))
						if a.Err != nil || !a.Duplicate || a.BaseOffset != offsets[fmt.Sprint(p, i)] {
							t.Fatalf("batch %d of producer %d sent again: err %v, duplicate %t, offset %d, want a duplicate at %d",
								i, p, a.Err, a.Duplicate, a.BaseOffset, offsets[fmt.Sprint(p, i)])
						}
					}
				}
				if l.EndOffset() != end {
					t.Fatalf("repeats moved the end from %d to %d", end, l.EndOffset())
				}
				for p := range producers {
					mustAppend(t, l, idempotent(1000, record.ProducerID(7+p), 0, batches*records, 1))
				}
			})
		}
	}
}
