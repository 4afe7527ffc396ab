package engine

import (
	"runtime"
	"sync"

	"github.com/posthouse/posthouse/storage"
)

// checkLane lets a few of the checks that decompress run at a time. A batch of
// 10 KiB may hold 100 MiB: were every worker to open one, the memory would be
// gigabytes, and no worker would be left for files and cold reads.
type checkLane struct {
	workers storage.Executor
	max     int

	mu      sync.Mutex
	running int      // guarded by mu
	queue   []func() // waiting, oldest first; bounded by the requests' memory
}

func newCheckLane(workers storage.Executor) checkLane {
	return checkLane{workers: workers, max: max(2, runtime.GOMAXPROCS(0)/2)}
}

// submit has check run on a worker, now or when an earlier one is done. It
// never blocks.
func (c *checkLane) submit(check func()) {
	c.mu.Lock()
	if c.running == c.max {
		c.queue = append(c.queue, check)
		c.mu.Unlock()
		return
	}
	c.running++
	c.mu.Unlock()
	c.start(check)
}

func (c *checkLane) start(check func()) {
	c.workers.Submit(func() {
		check()
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.running--
			c.mu.Unlock()
			return
		}
		next := c.queue[0]
		c.queue = c.queue[:copy(c.queue, c.queue[1:])]
		c.mu.Unlock()
		c.start(next)
	})
}
