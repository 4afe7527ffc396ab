//go:build iouring

package netio

var testEngines = []string{EngineEpoll, EngineUring}
