//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// committedOffsets are the offsets of a group by partition of a topic; those
// that it has not are missing.
func committedOffsets(t *testing.T, addr, group, topic string) map[int32]int64 {
	t.Helper()
	cl := newClient(t, addr)
	defer cl.Close()
	found, err := kadm.NewClient(cl).FetchOffsets(within(t, 30*time.Second), group)
	if err != nil {
		t.Fatalf("offsets of %s: %v", group, err)
	}
	offsets := map[int32]int64{}
	for p, o := range found[topic] {
		if o.Err != nil {
			t.Fatalf("offset of %s for %s-%d: %v", group, topic, p, o.Err)
		}
		offsets[p] = o.At
	}
	return offsets
}
