package netio

import "fmt"

// choice is which poller runs, and why that one.
type choice struct {
	name, reason string
	setup        func(*Loop) error
}

func epollChoice(reason string) choice {
	return choice{name: EngineEpoll, reason: reason, setup: setupEpoll}
}

// choose is the one place where the engine is chosen.
func choose(engine string) (choice, error) {
	if engine == EngineEpoll {
		return epollChoice("asked for"), nil
	}
	err := uringUsable()
	switch {
	case err == nil && engine == EngineUring:
		return choice{name: EngineUring, reason: "asked for", setup: setupUring}, nil
	case err == nil:
		return choice{name: EngineUring, reason: "the kernel offers all that is needed", setup: setupUring}, nil
	case engine == EngineUring:
		return choice{}, fmt.Errorf("netio: io_uring cannot be used: %w", err)
	default:
		return epollChoice("io_uring cannot be used: " + err.Error()), nil
	}
}

// ChooseEngine tells which engine a server asked for engine would run on, here
// and now, and why; an error where it would not start.
func ChooseEngine(engine string) (name, reason string, err error) {
	c, err := choose(engine)
	return c.name, c.reason, err
}
