package vfs

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// DirtyGauge tells whether the page cache holds so much that is not written
// yet that the kernel is about to begin by itself (vm.dirty_background_ratio),
// which it does in bursts and a little later by making writers wait.
//
// A process in a memory control group has thresholds of its group's, which no
// file tells: there the gauge always says yes.
type DirtyGauge struct {
	limited  bool
	readAt   atomic.Int64 // Unix ns
	pressing atomic.Bool
	vmstat   string
}

// gaugeInterval is how old an answer may be: the counters are added up over all
// CPUs on each read. A GiB/s makes 50 MiB in that time.
const gaugeInterval = 50 * time.Millisecond

// NewDirtyGauge looks once whether a memory limit holds.
func NewDirtyGauge() *DirtyGauge {
	group, _ := os.ReadFile("/proc/self/cgroup")
	return &DirtyGauge{limited: memoryLimited("/sys/fs/cgroup", string(group)), vmstat: "/proc/vmstat"}
}

// memoryLimited reports whether the process's control group or one above it
// bounds memory. group is /proc/self/cgroup. Limits of version 1 do not concern
// writeback; where there is only that, nothing is known.
func memoryLimited(root, group string) bool {
	_, dir, unified := strings.Cut(group, "0::")
	if !unified {
		return group != ""
	}
	dir, _, _ = strings.Cut(dir, "\n")
	for dir = path.Clean("/" + dir); ; dir = path.Dir(dir) {
		// The root of the hierarchy has no such file.
		limit, err := os.ReadFile(path.Join(root, dir, "memory.max"))
		if err == nil && strings.TrimSpace(string(limit)) != "max" {
			return true
		}
		if dir == "/" {
			return false
		}
	}
}

// Pressing reports whether three quarters of the kernel's threshold are
// reached, or nothing can be known. Any goroutine; it may read a file of the
// kernel's.
func (g *DirtyGauge) Pressing() bool {
	if g.limited {
		return true
	}
	now := time.Now().UnixNano()
	last := g.readAt.Load()
	if now-last < int64(gaugeInterval) || !g.readAt.CompareAndSwap(last, now) {
		return g.pressing.Load()
	}
	data, err := os.ReadFile(g.vmstat)
	dirty, ok1 := vmstatCount(data, "nr_dirty")
	threshold, ok2 := vmstatCount(data, "nr_dirty_background_threshold")
	g.pressing.Store(err != nil || !ok1 || !ok2 || dirty >= threshold/4*3)
	return g.pressing.Load()
}

// vmstatCount is a line "name count".
func vmstatCount(data []byte, name string) (int64, bool) {
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
