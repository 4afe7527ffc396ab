//go:build !iouring

package broker

import (
	"strings"
	"testing"
	"time"
)

// TestEngineNotBuiltIn asks for io_uring in a build without it.
func TestEngineNotBuiltIn(t *testing.T) {
	dir := t.TempDir()
	opts, _ := options(t, dir, "netio.engine=io_uring")
	before := held(t)
	b, err := Start(within(t, 10*time.Second), opts)
	if err == nil {
		stop(t, b)
		t.Fatal("the node started")
	}
	if !strings.Contains(err.Error(), "io_uring") || !strings.Contains(err.Error(), "iouring") {
		t.Errorf("error %q does not name the engine and the build tag", err)
	}
	wantHeld(t, before)
}
