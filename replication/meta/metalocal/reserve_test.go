package metalocal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFileHasRoom looks at the blocks of the file: a store that was opened must
// take a good many writes without asking a full disk for space.
func TestFileHasRoom(t *testing.T) {
	dir := t.TempDir()
	probe, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	if err := unix.Fallocate(int(probe.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20); err != nil {
		t.Skipf("this file system reserves no space: %v", err)
	}
	path := filepath.Join(dir, "meta.db")
	allocated := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	s := open(t, path)
	before := allocated()
	if before < reserveBytes {
		t.Fatalf("%d bytes are allocated, want at least %d", before, reserveBytes)
	}
	for i := range 20 {
		put(t, s, fmt.Sprint("k", i), strings.Repeat("x", 4000))
	}
	if after := allocated(); after != before {
		t.Errorf("twenty writes took blocks: %d before, %d after", before, after)
	}
}
