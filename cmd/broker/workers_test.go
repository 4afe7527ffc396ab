package broker

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWorkersRunEverythingWithinTheirBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		workers := NewWorkers(3)
		var running, peak, ran atomic.Int32
		for range 100 {
			workers.Submit(func() {
				now := running.Add(1)
				for seen := peak.Load(); now > seen && !peak.CompareAndSwap(seen, now); seen = peak.Load() {
				}
				time.Sleep(time.Millisecond)
				running.Add(-1)
				ran.Add(1)
			})
		}
		workers.Close()
		if ran.Load() != 100 || peak.Load() != 3 {
			t.Fatalf("ran %d tasks with at most %d at once, want 100 with 3", ran.Load(), peak.Load())
		}
	})
}

func TestWorkersEndWhenIdleAndStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		workers := NewWorkers(4)
		for range 3 {
			var wg sync.WaitGroup
			wg.Add(8)
			for range 8 {
				workers.Submit(func() { time.Sleep(time.Second); wg.Done() })
			}
			wg.Wait()
			time.Sleep(workerIdle + time.Second)
			workers.mu.Lock()
			alive := workers.alive
			workers.mu.Unlock()
			if alive != 0 {
				t.Fatalf("%d workers alive after their idle time, want 0", alive)
			}
		}
		workers.Close()
		late := false
		workers.Submit(func() { late = true })
		if !late {
			t.Fatal("a task submitted after Close did not run")
		}
	})
}
