package netio

import "time"

// Instant is a point of a loop's monotonic clock, in nanoseconds since an
// arbitrary start common to all loops of the process.
type Instant int64

// ClockNow is the loops' clock now, for other goroutines.
func ClockNow() Instant { return Instant(time.Since(clockStart)) }

// Timer runs a task on its loop at a given time. It is a node of the loop's
// heap, meant to be embedded in what it serves: setting and stopping one
// allocates nothing. Owned by one loop's goroutine.
type Timer struct {
	// Task is run when the timer is due; it may set the timer again.
	Task Task
	at   Instant
	// index is the place in the heap plus one; zero is unset.
	index int32
}

// NewTimer returns an unset timer for task.
func NewTimer(task Task) *Timer { return &Timer{Task: task} }

// Active reports whether the timer is set.
func (t *Timer) Active() bool { return t.index != 0 }

// At is when the timer is due, if it is active.
func (t *Timer) At() Instant { return t.at }

// timerHeap is a 4-ary heap of timers ordered by due time: shallower than a
// binary one, and one cache line holds the four children.
type timerHeap []*Timer

func (h timerHeap) set(i int, t *Timer) {
	h[i] = t
	t.index = int32(i) + 1
}

func (h *timerHeap) push(t *Timer) {
	*h = append(*h, t)
	h.up(len(*h)-1, t)
}

func (h timerHeap) up(i int, t *Timer) {
	for i > 0 {
		parent := (i - 1) / 4
		if h[parent].at <= t.at {
			break
		}
		h.set(i, h[parent])
		i = parent
	}
	h.set(i, t)
}

func (h timerHeap) down(i int, t *Timer) {
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].at < h[least].at {
				least = c
			}
		}
		if t.at <= h[least].at {
			break
		}
		h.set(i, h[least])
		i = least
	}
	h.set(i, t)
}

func (h *timerHeap) remove(t *Timer) {
	i := int(t.index) - 1
	t.index = 0
	n := len(*h) - 1
	last := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	if last == t {
		return
	}
	if i > 0 && (*h)[(i-1)/4].at > last.at {
		h.up(i, last)
		return
	}
	h.down(i, last)
}

// AddTimer sets t to run at the given time, moving it if it is set already.
// Loop goroutine only.
func (l *Loop) AddTimer(t *Timer, at Instant) {
	if t.index != 0 {
		l.timers.remove(t)
	}
	t.at = at
	l.timers.push(t)
}

// StopTimer unsets t and reports whether it was set. Loop goroutine only.
func (l *Loop) StopTimer(t *Timer) bool {
	if t.index == 0 {
		return false
	}
	l.timers.remove(t)
	return true
}

// runTimers runs what is due, at most what was due when it began.
func (l *Loop) runTimers() {
	for len(l.timers) > 0 && l.timers[0].at <= l.now {
		t := l.timers[0]
		l.timers.remove(t)
		l.active = true
		t.Task.Run(l)
	}
}
