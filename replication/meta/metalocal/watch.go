package metalocal

import (
	"context"
	"strings"
	"sync"

	"github.com/posthouse/posthouse/replication/meta"
)

const (
	// historyEvents bounds what a late watcher can still catch up on.
	historyEvents = 4096
	// watcherEvents bounds what a slow watcher may fall behind; then its
	// channel is closed.
	watcherEvents = 16384
)

// history remembers the latest events: all with a revision above start.
type history struct {
	start  meta.Revision
	events []meta.Event
}

func (h *history) add(ev meta.Event) {
	if len(h.events) >= 2*historyEvents {
		drop := len(h.events) - historyEvents
		h.start = h.events[drop-1].Revision
		h.events = append([]meta.Event(nil), h.events[drop:]...)
	}
	h.events = append(h.events, ev)
}

// watcher hands events from commits to one channel without making them wait.
type watcher struct {
	prefix string
	out    chan meta.Event

	mu     sync.Mutex
	queue  []meta.Event
	signal chan struct{} // capacity 1
	ended  bool
}

// offer queues what the watcher is after.
func (w *watcher) offer(ev meta.Event) {
	matching := 0
	for _, c := range ev.Changes {
		if strings.HasPrefix(c.Key, w.prefix) {
			matching++
		}
	}
	if matching == 0 {
		return
	}
	if matching < len(ev.Changes) {
		some := make([]meta.Change, 0, matching)
		for _, c := range ev.Changes {
			if strings.HasPrefix(c.Key, w.prefix) {
				some = append(some, c)
			}
		}
		ev.Changes = some
	}
	w.mu.Lock()
	if len(w.queue) >= watcherEvents {
		w.ended = true
	}
	if !w.ended {
		w.queue = append(w.queue, ev)
	}
	w.mu.Unlock()
	w.wake()
}

// end closes the channel once what is queued has been taken or the reader is
// gone.
func (w *watcher) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.wake()
}

func (w *watcher) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// Watch implements meta.Store.
func (s *Store) Watch(ctx context.Context, prefix string, from meta.Revision) (<-chan meta.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &watcher{prefix: prefix, out: make(chan meta.Event), signal: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return nil, meta.ErrClosed
	}
	if from < s.history.start {
		return nil, meta.ErrCompacted
	}
	for _, ev := range s.history.events {
		if ev.Revision > from {
			w.offer(ev)
		}
	}
	s.watchers[w] = struct{}{}
	go s.pump(ctx, w)
	return w.out, nil
}

// pump moves events from the queue to the channel.
func (s *Store) pump(ctx context.Context, w *watcher) {
	defer close(w.out)
	defer func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
	}()
	for {
		w.mu.Lock()
		queue, ended := w.queue, w.ended
		w.queue = nil
		w.mu.Unlock()
		for _, ev := range queue {
			select {
			case w.out <- ev:
			case <-ctx.Done():
				return
			case <-s.closed:
				return
			}
		}
		if ended {
			return
		}
		if len(queue) > 0 {
			continue
		}
		select {
		case <-w.signal:
		case <-ctx.Done():
			return
		case <-s.closed:
			return
		}
	}
}
