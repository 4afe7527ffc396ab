package vfs

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
)

// ErrCrashed is the cause of every error of a Mem after its Crash.
var ErrCrashed = errors.New("vfs: the power is off")

// CrashMode is what a power cut does to changes that were not synced.
type CrashMode int8

const (
	// CrashKeep loses nothing, as when only the process dies.
	CrashKeep CrashMode = iota
	// CrashDrop loses every change that was not synced.
	CrashDrop
	// CrashTear keeps the changes up to a moment and loses the later ones; the
	// write of that moment is torn at a sector.
	CrashTear
	// CrashReorder decides for each page, size and name by itself how far along
	// its changes the disk got; a write may be torn at a sector. Names change
	// back independently of each other, but no change survives one before it of
	// the same name.
	CrashReorder
)

var crashModeNames = [...]string{"keep", "drop", "tear", "reorder"}

func (c CrashMode) String() string { return crashModeNames[c] }

// Crash is how the power is cut. The same seed gives the same disk.
type Crash struct {
	Mode CrashMode
	Seed uint64
}

// Crash cuts the power: it returns the file system as the next start finds it,
// all of it durable, without locks, faults and hooks. Every later call on m or
// its files fails with ErrCrashed.
func (m *Mem) Crash(c Crash) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	return m.clone(c)
}

// CrashClone returns what Crash would and lets m live on.
func (m *Mem) CrashClone(c Crash) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clone(c)
}

func (m *Mem) clone(c Crash) *Mem {
	k := &crasher{mode: c.Mode, rng: rand.New(rand.NewPCG(c.Seed, uint64(c.Mode))), seen: map[*node]*node{}}
	k.cut = k.rng.Uint64N(m.seq + 1)
	after := NewMem()
	after.root = k.node(m.root)
	after.capacity, after.now = m.capacity, m.now
	return after
}

// crasher builds the nodes that survive.
type crasher struct {
	mode CrashMode
	rng  *rand.Rand
	cut  uint64 // CrashTear: changes numbered above it are lost, this one is torn
	seen map[*node]*node
}

// node copies a node as the disk has it. It goes over names and pages in
// order, so that a seed means the same each time.
func (k *crasher) node(n *node) *node {
	if after := k.seen[n]; after != nil {
		return after
	}
	if n.children == nil {
		after := newFile(n.modTime)
		k.seen[n] = after
		after.data = k.content(n)
		after.durableSize = after.size()
		return after
	}
	after := newDir()
	k.seen[n] = after
	names := k.names(n)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		after.children[name] = k.node(names[name])
	}
	after.syncDir()
	return after
}

// names is what a directory holds.
func (k *crasher) names(n *node) map[string]*node {
	if k.mode == CrashKeep {
		return n.children
	}
	names := maps.Clone(n.durable)
	lost := map[string]bool{}
	for _, op := range n.pending {
		keep := false
		switch k.mode {
		case CrashTear:
			keep = op.seq <= k.cut
		case CrashReorder:
			keep = k.rng.IntN(2) == 0
		}
		if keep && !lost[op.unlink] && !lost[op.link] {
			op.apply(names)
			continue
		}
		if op.unlink != "" {
			lost[op.unlink] = true
		}
		if op.link != "" {
			lost[op.link] = true
		}
	}
	return names
}

// content is what a file holds.
func (k *crasher) content(n *node) []byte {
	if k.mode == CrashKeep {
		return slices.Clone(n.data)
	}
	size := k.size(n)
	out := make([]byte, size)
	copy(out, n.data)
	for _, number := range slices.Sorted(maps.Keys(n.pages)) {
		page := k.page(n.pages[number])
		if from := number * pageSize; from < size {
			copy(out[from:], page)
		}
	}
	return out
}

// size is the size that the disk has of a file.
func (k *crasher) size(n *node) int64 {
	switch k.mode {
	case CrashTear:
		size := n.durableSize
		for _, s := range n.sizes {
			if s.seq <= k.cut {
				size = s.size
			}
		}
		return size
	case CrashReorder:
		if i := k.rng.IntN(len(n.sizes) + 1); i > 0 {
			return n.sizes[i-1].size
		}
	}
	return n.durableSize
}

// page is what the disk has of a page.
func (k *crasher) page(d *dirty) []byte {
	page := make([]byte, pageSize)
	copy(page, d.base)
	whole, torn := k.reached(d.changes)
	for _, c := range d.changes[:whole] {
		copy(page[c.off:], c.data)
	}
	if torn && whole < len(d.changes) {
		c := d.changes[whole]
		// A power cut leaves sectors whole: some at the front are new.
		end := k.rng.IntN(pageSize/sectorSize) * sectorSize
		if end > c.off {
			copy(page[c.off:end], c.data)
		}
	}
	return page
}

// reached is how many changes of a page the disk has, and whether it has a part
// of the next.
func (k *crasher) reached(changes []change) (whole int, torn bool) {
	switch k.mode {
	case CrashTear:
		for whole < len(changes) && changes[whole].seq < k.cut {
			whole++
		}
		return whole, whole < len(changes) && changes[whole].seq == k.cut
	case CrashReorder:
		return k.rng.IntN(len(changes) + 1), k.rng.IntN(2) == 0
	}
	return 0, false
}
