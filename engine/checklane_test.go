package engine

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCheckLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lane := newCheckLane(new(goExecutor))
		var running, most atomic.Int32
		var done sync.WaitGroup
		for range 50 {
			done.Add(1)
			lane.submit(func() {
				defer done.Done()
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Second)
				running.Add(-1)
			})
		}
		done.Wait()
		if got := int(most.Load()); got != lane.max {
			t.Errorf("%d checks ran at once, want %d", got, lane.max)
		}
		synctest.Wait()
		if lane.running != 0 {
			t.Errorf("%d checks are left", lane.running)
		}
	})
}
