package vfs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestDirtyGauge(t *testing.T) {
	vmstat := filepath.Join(t.TempDir(), "vmstat")
	for _, c := range []struct {
		content string
		want    bool
	}{
		{"nr_free_pages 9000\nnr_dirty 749\nnr_dirty_threshold 2000\nnr_dirty_background_threshold 1000\n", false},
		{"nr_free_pages 9000\nnr_dirty 750\nnr_dirty_threshold 2000\nnr_dirty_background_threshold 1000\n", true},
		{"nr_dirty 1\n", true},
		{"", true},
	} {
		if err := os.WriteFile(vmstat, []byte(c.content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := (&DirtyGauge{vmstat: vmstat}).Pressing(); got != c.want {
			t.Errorf("pressing %v with %q", got, c.content)
		}
	}
	if !(&DirtyGauge{vmstat: vmstat + "-missing"}).Pressing() {
		t.Error("not pressing where nothing can be known")
	}
}

// TestDirtyGaugeKeeps checks that looks in quick succession cost one read.
func TestDirtyGaugeKeeps(t *testing.T) {
	g := &DirtyGauge{vmstat: filepath.Join(t.TempDir(), "vmstat")}
	now := int64(1) << 62 // read in the future: as good as just now
	g.readAt.Store(now)
	if g.Pressing() || g.readAt.Load() != now {
		t.Error("the counters were read again")
	}
}

func TestMemoryLimited(t *testing.T) {
	root := t.TempDir()
	for dir, limit := range map[string]string{"a/b": "max", "a/c": "1073741824", "d": "4096", "d/e": "max"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, dir, "memory.max"), []byte(limit+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for group, want := range map[string]bool{"/": false, "/a/b": false, "/a/c": true, "/d/e": true, "/gone": false} {
		if got := memoryLimited(root, fmt.Sprintf("4:memory:/x\n0::%s\n", group)); got != want {
			t.Errorf("%s: limited %v", group, got)
		}
	}
	if !memoryLimited(root, "4:memory:/x\n") || memoryLimited(root, "") {
		t.Error("version 1 alone tells nothing; no groups at all is no limit")
	}
}
