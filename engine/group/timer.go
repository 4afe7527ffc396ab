package group

import (
	"container/heap"
	"time"
)

// timer is a deadline of a shard: of a member's session, of a rebalance. A
// member that sends heartbeats moves its deadline on all the time, so that costs
// one store: the heap keeps the place of an earlier deadline, and looks again
// when that comes.
type timer struct {
	fire     func() // under the shard's lock
	deadline instant
	at       instant // place in the heap, never after deadline
	index    int     // in the heap plus one; 0: not armed
}

// timerHeap is the armed timers, earliest first.
type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	*h = append(*h, t)
	t.index = len(*h)
}

func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = 0
	return t
}

// armed says that the timer will fire.
func (t *timer) armed() bool { return t.index != 0 }

// arm lets t fire d from now; one that is armed already moves there.
func (s *shard) arm(t *timer, d time.Duration) {
	t.deadline = s.coordinator.now() + instant(d)
	switch {
	case t.index == 0:
		t.at = t.deadline
		heap.Push(&s.timers, t)
	case t.deadline < t.at:
		t.at = t.deadline
		heap.Fix(&s.timers, t.index-1)
	}
}

// disarm stops t.
func (s *shard) disarm(t *timer) {
	if t.index != 0 {
		heap.Remove(&s.timers, t.index-1)
	}
}

// wind makes sure that the clock calls when the first timer is due. It is the
// end of every step.
func (s *shard) wind() {
	if len(s.timers) == 0 {
		return
	}
	first := s.timers[0].at
	if s.alarm != nil {
		if s.alarmAt <= first {
			return
		}
		s.alarm.Stop()
	}
	s.alarmAt = first
	d := max(0, time.Duration(first-s.coordinator.now()))
	s.alarm = s.coordinator.config.AfterFunc(d, func() { s.ring(first) })
}

// ring fires what is due.
func (s *shard) ring(at instant) {
	s.mu.Lock()
	if s.state != shardActive || s.alarmAt != at {
		s.mu.Unlock()
		return
	}
	s.alarm = nil
	now := s.coordinator.now()
	for len(s.timers) > 0 && s.timers[0].at <= now {
		t := s.timers[0]
		if t.deadline > now {
			t.at = t.deadline
			heap.Fix(&s.timers, 0)
			continue
		}
		heap.Pop(&s.timers)
		t.fire()
	}
	s.leave()
}
