//go:build !iouring

package netio

// testEngines are the engines that this build must be able to run.
var testEngines = []string{EngineEpoll}
