//go:build iouring

// Empty: its presence lets uring_probe.go declare functions without a body.
