package storage

import (
	"bytes"
	"slices"
	"testing"

	"github.com/posthouse/posthouse/storage/vfs"
)

// TestReadBehindABadIndex reads through offset indexes that were overwritten
// while the log was closed in order: what they say is not believed.
func TestReadBehindABadIndex(t *testing.T) {
	for _, filler := range []byte{0x01, 0x7f, 0x80, 0xff} {
		e := newEnv(t, vfs.NewMem(), LogConfig{IndexIntervalBytes: 100})
		l := e.open()
		for range 20 {
			mustAppend(t, l, batch(e.clock.now, 5, 50, "a"))
		}
		want := readAll(t, l, 0, 1000)
		e.stop()
		name := join(l.dir, segmentName(0, indexSuffix))
		old, err := e.fs.ReadFile(name)
		if err != nil || len(old) == 0 {
			t.Fatalf("index of %d bytes, %v", len(old), err)
		}
		if err := e.fs.WriteFileAtomic(name, bytes.Repeat([]byte{filler}, len(old))); err != nil {
			t.Fatal(err)
		}
		l = e.open()
		for i, w := range want {
			got := readAll(t, l, w.offset, 1000)
			if !slices.Equal(got, want[i:]) {
				t.Fatalf("filler %#x: %d records from offset %d on, want %d", filler, len(got), w.offset, len(want)-i)
			}
		}
	}
}
