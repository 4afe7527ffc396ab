package netio

import (
	"sync"

	"golang.org/x/sys/unix"
)

const (
	coldWorkersMax = 4
	// coldReadBytes is what one trip to a worker makes resident.
	coldReadBytes = 1 << 20
)

// coldRead makes part of a file range resident on a worker and comes back to
// the loop as a task. The request, and with it the range's owner, is kept until
// then, whether the connection lives or not. Pooled per loop.
type coldRead struct {
	request  *Request
	fd       int
	position int64
	length   int64
	// work is the method read, bound once.
	work func()
	next *coldRead
}

// readCold sends r's next length bytes, or as much as one trip takes, to a
// worker.
func (l *Loop) readCold(r *Request, position, length int64) {
	t := l.coldFree
	if t == nil {
		t = new(coldRead)
		t.work = t.read
	} else {
		l.coldFree = t.next
	}
	t.request, t.next = r, nil
	t.fd = r.out.spans[r.out.span].FD
	t.position, t.length = position, min(length, coldReadBytes)
	r.cold = true
	l.coldReads++
	l.stats.coldReads++
	l.server.config.Workers.Submit(t.work)
}

// read runs on the worker. An error is not reported: sendfile meets it again
// and closes the connection.
func (t *coldRead) read() {
	buf := coldBuffers.Get().(*[spanProbeBytes]byte)
	position, length := t.position, t.length
	_ = unix.Fadvise(t.fd, position, 2*length, unix.FADV_WILLNEED)
	for length > 0 {
		n, err := unix.Pread(t.fd, buf[:min(spanProbeBytes, length)], position)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			break
		}
		position += int64(n)
		length -= int64(n)
	}
	coldBuffers.Put(buf)
	t.request.loop.Post(t)
}

// coldBuffers are read into for the side effect.
var coldBuffers = sync.Pool{New: func() any { return new([spanProbeBytes]byte) }}

// Run is back on the loop: what was read goes out without another probe,
// since a page that is taken away at once must not stall the reader for ever.
func (t *coldRead) Run(l *Loop) {
	r := t.request
	l.coldReads--
	r.cold = false
	if r.Alive() {
		r.out.readAhead = r.out.spanSent + t.length
		l.markDirty(r.conn)
	} else {
		l.recycle(r)
	}
	t.request = nil
	t.next = l.coldFree
	l.coldFree = t
}

// workers is the executor of a server that was given none. Its goroutines are
// started on demand and stay until close.
type workers struct {
	mu      sync.Mutex
	work    *sync.Cond
	queue   []func()
	running int
	idle    int
	closed  bool
	done    sync.WaitGroup
}

func newWorkers() *workers {
	w := new(workers)
	w.work = sync.NewCond(&w.mu)
	return w
}

// Submit never blocks.
func (w *workers) Submit(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, f)
	if w.idle == 0 && w.running < coldWorkersMax {
		w.running++
		w.done.Go(w.run)
		return
	}
	w.work.Signal()
}

func (w *workers) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.queue) == 0 {
			if w.closed {
				return
			}
			w.idle++
			w.work.Wait()
			w.idle--
		}
		f := w.queue[0]
		w.queue = w.queue[:copy(w.queue, w.queue[1:])]
		w.mu.Unlock()
		f()
		w.mu.Lock()
	}
}

// close ends the workers; nothing may be submitted any more.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.work.Broadcast()
	w.mu.Unlock()
	w.done.Wait()
}
