package storage

import (
	"sync"

	"golang.org/x/sys/unix"
)

// chunkBytes is the unit in which the indexes of active segments grow: it
// holds 2048 offset entries, the index of 8 MiB of log.
const chunkBytes = 16 << 10

// slabBytes is what is asked of the kernel at a time. Only touched pages cost
// memory.
const slabBytes = 1 << 20

// chunkPool hands out memory outside the Go heap, so that the indexes of
// thousands of partitions give the collector nothing to do. Chunks are reused,
// never returned to the kernel; their number follows the number of partitions
// that are being written.
var chunkPool struct {
	sync.Mutex
	free [][]byte
}

// newChunk gives chunkBytes of memory with any content.
func newChunk() []byte {
	chunkPool.Lock()
	defer chunkPool.Unlock()
	if len(chunkPool.free) == 0 {
		slab, err := unix.Mmap(-1, 0, slabBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			// Out of maps or of address space: the heap serves as well.
			slab = make([]byte, slabBytes)
		}
		for ; len(slab) > 0; slab = slab[chunkBytes:] {
			chunkPool.free = append(chunkPool.free, slab[:chunkBytes:chunkBytes])
		}
	}
	last := len(chunkPool.free) - 1
	c := chunkPool.free[last]
	chunkPool.free = chunkPool.free[:last]
	return c
}

// freeChunks takes chunks back.
func freeChunks(chunks [][]byte) {
	if len(chunks) == 0 {
		return
	}
	for _, c := range chunks {
		poison(c)
	}
	chunkPool.Lock()
	defer chunkPool.Unlock()
	chunkPool.free = append(chunkPool.free, chunks...)
}
