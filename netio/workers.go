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
// the loop. The range's owner is held by the request until then, whether the
// connection lives or not. Pooled per server.
type coldRead struct {
	request  *Request
	loop     *Loop
	fd       int
	position int64
	length   int64
	next     *coldRead
}

// readCold sends r's next length bytes, or as much as one trip takes, to a
// worker. r.cold keeps the request and its range until the worker is done.
func (l *Loop) readCold(r *Request, position, length int64) {
	r.cold = true
	l.coldReads++
	s := &r.out.spans[r.out.span]
	l.server.workers.submit(r, s.FD, position, min(length, coldReadBytes))
}

// Run is back on the loop: what was read goes out without another probe,
// since a page that is taken away at once must not stall the reader for ever.
func (t *coldRead) Run(l *Loop) {
	r, n := t.request, t.length
	l.server.workers.free(t)
	l.coldReads--
	r.cold = false
	if !r.Alive() {
		l.recycle(r)
		return
	}
	r.out.readAhead = r.out.spanSent + n
	l.markDirty(r.conn)
}

// workers is a small pool that reads cold pages. Its goroutines are started on
// demand and stay; submitting never blocks.
type workers struct {
	mu      sync.Mutex
	work    *sync.Cond
	first   *coldRead
	last    *coldRead
	spare   *coldRead
	running int
	idle    int
	closed  bool
	done    sync.WaitGroup
}

func (w *workers) init() { w.work = sync.NewCond(&w.mu) }

func (w *workers) submit(r *Request, fd int, position, length int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.spare
	if t == nil {
		t = new(coldRead)
	} else {
		w.spare = t.next
	}
	*t = coldRead{request: r, loop: r.loop, fd: fd, position: position, length: length}
	if w.last == nil {
		w.first = t
	} else {
		w.last.next = t
	}
	w.last = t
	if w.idle == 0 && w.running < coldWorkersMax {
		w.running++
		w.done.Go(w.run)
		return
	}
	w.work.Signal()
}

func (w *workers) free(t *coldRead) {
	w.mu.Lock()
	*t = coldRead{next: w.spare}
	w.spare = t
	w.mu.Unlock()
}

func (w *workers) run() {
	buf := mapMemory(spanStepBytes)
	defer unmapMemory(buf)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for w.first == nil {
			if w.closed {
				return
			}
			w.idle++
			w.work.Wait()
			w.idle--
		}
		t := w.first
		w.first = t.next
		if w.first == nil {
			w.last = nil
		}
		t.next = nil
		w.mu.Unlock()
		readThrough(buf, t.fd, t.position, t.length)
		t.loop.Post(t)
		w.mu.Lock()
	}
}

// readThrough reads for the side effect. An error is not reported: sendfile
// meets it again and closes the connection.
func readThrough(buf []byte, fd int, position, length int64) {
	_ = unix.Fadvise(fd, position, 2*length, unix.FADV_WILLNEED)
	for length > 0 {
		n, err := unix.Pread(fd, buf[:min(int64(len(buf)), length)], position)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return
		}
		position += int64(n)
		length -= int64(n)
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
