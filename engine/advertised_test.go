package engine

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthouse/posthouse/replication/meta"
)

// safeBuffer is a log that a test can read.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) count(s string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.buf.String(), s)
}

// TestAForeignAddressIsWarnedOfOnce lets clients come in by an address that is
// not the advertised one.
func TestAForeignAddressIsWarnedOfOnce(t *testing.T) {
	log := &safeBuffer{}
	b := startBroker(t, brokerOptions{logger: slog.New(slog.NewTextHandler(log, nil))})
	const line = "not the advertised one"
	checkAgain := func() {
		b.engine.advertised.mu.Lock()
		clear(b.engine.advertised.next)
		b.engine.advertised.mu.Unlock()
	}
	var lookups atomic.Int32
	b.engine.advertised.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		defer lookups.Add(1)
		a, err := netip.ParseAddr(host)
		return []netip.Addr{a}, err
	}
	for looks := int32(1); looks <= 2; looks++ {
		checkAgain()
		b.dial().versions()
		// A look that is under way would see the image that comes next.
		for deadline := time.Now().Add(clientTimeout); lookups.Load() < looks; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nobody looked")
			}
		}
	}
	if n := log.count(line); n != 0 {
		t.Fatalf("%d warnings for the advertised address", n)
	}
	im := *b.control.Image()
	im.Brokers = []meta.Broker{{ID: testNode, Listeners: []meta.Endpoint{{Name: "PLAINTEXT", Host: "127.0.0.77", Port: b.port, Protocol: "PLAINTEXT"}}}}
	b.shown.Store(&im)
	checkAgain()
	for range 3 {
		b.dial().versions()
	}
	for deadline := time.Now().Add(clientTimeout); log.count(line) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no warning")
		}
	}
	b.dial().versions()
	if n := log.count(line); n != 1 || log.count("advertised=127.0.0.77:") != 1 {
		t.Errorf("%d warnings", n)
	}
}

// versions makes sure that the connection is open at the broker.
func (c *client) versions() {
	c.Helper()
	describeVersions(c, 4, "a", "1", nil)
}
