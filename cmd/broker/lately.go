package broker

import (
	"sync"
	"time"
)

// lately asks for what may hang, such as the room on a disk: on a goroutine of
// its own and never twice at a time. Whoever cannot wait gets what was said last.
type lately[T any] struct {
	ask func() T

	mu     sync.Mutex
	asking chan struct{} // closed when the answer is here; nil while nobody asks
	last   T
}

// get returns the newest answer, waiting for it at most for patience. fresh is
// false for an older one, or none at all.
func (l *lately[T]) get(patience time.Duration) (answer T, fresh bool) {
	l.mu.Lock()
	if l.asking == nil {
		l.asking = make(chan struct{})
		go l.run(l.asking)
	}
	asking := l.asking
	l.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-asking:
		fresh = true
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, fresh
}

func (l *lately[T]) run(done chan struct{}) {
	answer := l.ask()
	l.mu.Lock()
	l.last, l.asking = answer, nil
	l.mu.Unlock()
	close(done)
}
