package record

import (
	"bytes"
	"fmt"
	"testing"
)

const testNow Timestamp = 1_700_000_000_000

// filled builds a batch of about size bytes from records with values of
// valueSize bytes, a key each where keyed, timestamps a millisecond apart.
func filled(size, valueSize int, keyed bool) Batch {
	b := NewBuilder()
	value := bytes.Repeat([]byte("v"), valueSize)
	for i := 0; ; i++ {
		var key []byte
		if keyed {
			key = fmt.Appendf(nil, "key-%06d", i)
		}
		b.Add(testNow+Timestamp(i/10), key, value)
		if b.Len()+valueSize > size {
			return b.Build(None)
		}
	}
}

type benchShape struct {
	name  string
	batch Batch
}

// benchShapes are the batches that a broker sees most, and the worst of them.
var benchShapes = []benchShape{
	{"1x100B", filled(0, 100, false)},
	{"16KiB/1KiB", filled(16<<10, 1<<10, false)},
	{"16KiB/100B", filled(16<<10, 100, false)},
	{"16KiB/100B-keyed", filled(16<<10, 100, true)},
	{"16KiB/10B", filled(16<<10, 10, false)},
	{"1MiB/100B", filled(1<<20, 100, false)},
	{"1MiB/1KiB", filled(1<<20, 1<<10, false)},
}

func BenchmarkCheck(b *testing.B) {
	for _, s := range benchShapes {
		b.Run(s.name, func(b *testing.B) {
			p := DefaultPolicy()
			p.Now = testNow
			b.SetBytes(int64(len(s.batch)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Check(s.batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.batch.Count()), "ns/record")
		})
	}
}

func BenchmarkVerifyCRC(b *testing.B) {
	for _, s := range benchShapes {
		b.Run(s.name, func(b *testing.B) {
			b.SetBytes(int64(len(s.batch)))
			for b.Loop() {
				if !s.batch.VerifyCRC() {
					b.Fatal("CRC")
				}
			}
		})
	}
}
