package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// memFreeTarget is how much memory may be free before a measurement. A
	// guest's free memory is taken back by the host within seconds; touching it
	// again costs 2.3 s/GiB, more than all else that a broker does, and hides
	// every difference. On any busy host the page cache has filled it.
	memFreeTarget = 400 << 20
	// fillStep is small so that the kernel reclaims clean pages as it goes and
	// no reader of large chunks is killed for lack of memory.
	fillStep = 1 << 20
)

// Machine is the state of the machine that measurements need and that is put
// back at the end.
type Machine struct {
	fillPath   string
	fillOffset int64
	congestion string // what was set before
}

// PrepareMachine sets the same congestion control for every contender's
// sockets (BBR cripples loopback, cubic does not) and makes the sparse file
// that fills the page cache. It needs root. Close undoes both.
func PrepareMachine(dir string) (*Machine, error) {
	before, err := os.ReadFile(congestionPath)
	if err != nil {
		return nil, err
	}
	m := &Machine{fillPath: filepath.Join(dir, "fill"), congestion: strings.TrimSpace(string(before))}
	if err := os.WriteFile(congestionPath, []byte("cubic"), 0); err != nil {
		return nil, fmt.Errorf("congestion control: %w", err)
	}
	f, err := os.Create(m.fillPath)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	defer f.Close()
	// Sparse: the file has no blocks, reading it fills pages with zeros.
	if err := f.Truncate(4 << 40); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

const congestionPath = "/proc/sys/net/ipv4/tcp_congestion_control"

// Close puts the congestion control back and removes the file, whose pages go
// with it.
func (m *Machine) Close() error {
	return errors.Join(os.WriteFile(congestionPath, []byte(m.congestion), 0), os.Remove(m.fillPath))
}

// UseUpFreeMemory writes dirty pages back and then fills the page cache with
// clean pages until less than 400 MiB of memory is free, or until reading on
// no longer lowers it: then a memory control group is at its limit, and what is
// written from now on recycles the group's own pages, which is what a
// measurement needs. It returns what is free then. Deleting files frees memory
// again: call it before each run.
func (m *Machine) UseUpFreeMemory(ctx context.Context) (free int64, err error) {
	syscall.Sync()
	f, err := os.Open(m.fillPath)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	total, err := meminfo("MemTotal")
	if err != nil {
		return 0, err
	}
	buf := make([]byte, fillStep)
	const stretch, progress = 512 << 20, 32 << 20 // less progress in a stretch is none
	stretchFree := int64(1 << 62)
	for read := int64(0); read < 2*total; read += fillStep {
		if free, err = freeMemory(); err != nil || free < memFreeTarget {
			return free, err
		}
		if read%stretch == 0 {
			if stretchFree-free < progress {
				return free, nil
			}
			stretchFree = free
		}
		if err := ctx.Err(); err != nil {
			return free, err
		}
		if _, err := f.ReadAt(buf, m.fillOffset); err != nil {
			return free, fmt.Errorf("fill the page cache: %w", err)
		}
		m.fillOffset += fillStep
	}
	return free, fmt.Errorf("still %d MiB of memory free after reading twice the machine's memory", free>>20)
}

// freeMemory is the free memory, in bytes, that files are written into. Where
// the Normal zone is most of the memory the kernel recycles the page cache in it
// before it falls back on the low zones (alloc_flags_nofragment in mm/page_alloc.c),
// so that up to 3 GiB of DMA32 stay free for ever, and do not count.
func freeMemory() (int64, error) {
	if data, err := os.ReadFile("/proc/zoneinfo"); err == nil {
		if free, ok := normalFree(string(data)); ok {
			return free, nil
		}
	}
	return meminfo("MemFree")
}

// normalFree is the free memory of the Normal and Movable zones in bytes; not ok
// where they are less than half of all memory.
func normalFree(zoneinfo string) (free int64, ok bool) {
	var zone string
	var normal, all int64
	for line := range strings.Lines(zoneinfo) {
		f := strings.Fields(line)
		if len(f) == 4 && f[0] == "Node" && f[2] == "zone" {
			zone = f[3]
		}
		counted := zone == "Normal" || zone == "Movable"
		var pages int64
		switch {
		case len(f) == 3 && f[0] == "pages" && f[1] == "free" && counted:
			if _, err := fmt.Sscan(f[2], &pages); err != nil {
				return 0, false
			}
			free += pages
		case len(f) == 2 && f[0] == "managed":
			if _, err := fmt.Sscan(f[1], &pages); err != nil {
				return 0, false
			}
			all += pages
			if counted {
				normal += pages
			}
		}
	}
	return free * int64(os.Getpagesize()), normal > all/2
}

// meminfo is a line of /proc/meminfo in bytes.
func meminfo(key string) (int64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	values, err := parseKiB(data, key)
	if err != nil {
		return 0, fmt.Errorf("/proc/meminfo: %w", err)
	}
	return values[0], nil
}
