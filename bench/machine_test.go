package bench

import (
	"os"
	"testing"
)

func TestFreeMemoryIsThatOfTheNormalZone(t *testing.T) {
	const big = `Node 0, zone    DMA32
  pages free     768214
        managed  772807
Node 0, zone   Normal
  pages free     5000
        managed  5394266
Node 1, zone   Normal
  pages free     7000
        managed  5394266
`
	if free, ok := normalFree(big); !ok || free != 12000*int64(os.Getpagesize()) {
		t.Errorf("free %d, %v: want that of 12000 pages", free, ok)
	}
	const small = `Node 0, zone    DMA32
  pages free     768214
        managed  772807
Node 0, zone   Normal
  pages free     5000
        managed  10000
`
	if _, ok := normalFree(small); ok {
		t.Error("a Normal zone of a few MiB was taken for the machine's memory")
	}
}
