package storage

import (
	"testing"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// TestWriteback appends past many steps: while nothing presses no page is
// written early; then the log catches up by bounded steps, each byte once.
func TestWriteback(t *testing.T) {
	mem := vfs.NewMem()
	pressing := false
	e := newEnv(t, mem, LogConfig{MaxMessageBytes: 2 << 20})
	e.mcfg.DirtyPressing = func() bool { return pressing }
	l := e.open()
	var begun int64
	mem.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpSyncRange {
			if c.Offset != begun || c.Length > writebackMax {
				t.Errorf("[%d, +%d) is written after %d", c.Offset, c.Length, begun)
			}
			begun += c.Length
		}
		return nil
	})
	appendMiB := func(n int) {
		for i := range n {
			mustAppend(t, l, batch(record.Timestamp(i), 1, 1<<20, "w"))
		}
	}
	appendMiB(50)
	if begun != 0 {
		t.Errorf("%d bytes were written early", begun)
	}
	pressing = true
	appendMiB(50)
	size := l.active().size.Load()
	if behind := size - begun; behind < 0 || behind > 2*writebackStep {
		t.Errorf("%d of %d bytes are not being written", behind, size)
	}
	mem.SetHook(nil)
	e.stop()
}
