package broker

import (
	"sync"
	"time"
)

// workerIdle is how long a worker without work lives on before its goroutine
// ends, so that a quiet broker keeps no threads for bursts of the past.
const workerIdle = 5 * time.Second

// Workers runs what must not run on an event loop: file creation and
// deletion, syncs, cold reads, decompression, cold requests. Submit never
// blocks: the queue has no bound of its own, since each task belongs to a
// request or a log whose memory is bounded already; what is bounded is the
// number of goroutines, and with it the number of threads asleep in system
// calls.
//
// Tasks start in the order of their submission and may end in any.
type Workers struct {
	max int

	mu     sync.Mutex
	queue  []func() // tasks not yet started, oldest first; guarded by mu
	alive  int      // worker goroutines; guarded by mu
	idle   int      // of these, how many wait for a task; guarded by mu
	closed bool     // guarded by mu
	wake   sync.Cond
	done   sync.WaitGroup
}

// NewWorkers returns a pool of at most max goroutines, none of which runs yet.
func NewWorkers(max int) *Workers {
	w := &Workers{max: max}
	w.wake.L = &w.mu
	return w
}

// Submit queues task. After Close it runs task on the caller, so that a late
// release of a file still happens.
func (w *Workers) Submit(task func()) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		task()
		return
	}
	w.queue = append(w.queue, task)
	switch {
	case w.idle >= len(w.queue):
		w.wake.Signal()
	case w.alive < w.max:
		w.alive++
		w.done.Add(1)
		go w.run()
	}
	w.mu.Unlock()
}

// Close ends the pool once its queue is empty and waits for that.
func (w *Workers) Close() {
	w.mu.Lock()
	w.closed = true
	w.wake.Broadcast()
	w.mu.Unlock()
	w.done.Wait()
}

func (w *Workers) run() {
	defer w.done.Done()
	for {
		task := w.next()
		if task == nil {
			return
		}
		task()
	}
}

// next waits for a task; nil ends the calling worker.
func (w *Workers) next() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 && !w.closed {
		expired := false
		timer := time.AfterFunc(workerIdle, func() {
			w.mu.Lock()
			expired = true
			w.wake.Broadcast()
			w.mu.Unlock()
		})
		w.idle++
		for len(w.queue) == 0 && !w.closed && !expired {
			w.wake.Wait()
		}
		w.idle--
		timer.Stop()
	}
	if len(w.queue) == 0 {
		w.alive--
		return nil
	}
	task := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	return task
}
