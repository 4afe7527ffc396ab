package netio

import "fmt"

// choice is which poller runs, and why that one.
type choice struct {
	name, reason string
	setup        func(*Loop) error
}

// choose is the one place where the engine is chosen.
func choose(engine string) (choice, error) {
	epoll := choice{name: EngineEpoll, reason: "asked for", setup: func(l *Loop) (err error) {
		l.poll, err = newEpoll(l)
		return err
	}}
	if engine == EngineEpoll {
		return epoll, nil
	}
	err := uringUsable()
	if err == nil {
		uring := choice{name: EngineUring, reason: "asked for", setup: setupUring}
		if engine == EngineAuto {
			uring.reason = "the kernel offers all that is needed"
		}
		return uring, nil
	}
	if engine == EngineUring {
		return choice{}, fmt.Errorf("netio: io_uring cannot be used: %w", err)
	}
	epoll.reason = "io_uring cannot be used: " + err.Error()
	return epoll, nil
}
