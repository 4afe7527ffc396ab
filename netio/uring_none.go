//go:build !iouring

package netio

import "errors"

var errNotBuiltIn = errors.New("not built in (build with -tags iouring -ldflags=-checklinkname=0)")

func uringUsable() error { return errNotBuiltIn }

func setupUring(*Loop) error { return errNotBuiltIn }

func builtInUring() []string { return nil }

// rings is what io_uring keeps for a connection.
type rings struct{}
