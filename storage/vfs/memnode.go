package vfs

import (
	"bytes"
	"maps"
	"time"
)

// pageSize is the unit in which unsynced data reaches the disk, sectorSize the
// one that a power cut leaves whole.
const (
	pageSize   = 4096
	sectorSize = 512
)

// node is a file or directory: what the process sees, and what of it a disk
// would not have yet. Mem.mu guards it.
//
// A file's unsynced writes are kept page by page, each page with its content at
// the last sync and the changes since, so that a crash can give each page any
// state that it went through. Sizes are kept likewise.
type node struct {
	modTime time.Time

	// Files.
	data        []byte
	durableSize int64
	reserved    int64            // end of what Preallocate has reserved
	pages       map[int64]*dirty // by page number: those changed since the last sync
	sizes       []sizeChange     // since the last sync, in order

	// Directories; children is nil for a file.
	children map[string]*node
	durable  map[string]*node // as the last SyncDir left it
	pending  []dirOp          // since then, in order
}

// dirty is a page with unsynced changes.
type dirty struct {
	base    []byte // content at the last sync, cut where the file ended
	changes []change
	// lost is set by a failed sync: the kernel takes the page for clean after
	// that, so only a new write to it can make it durable.
	lost bool
}

// change is one write within a page.
type change struct {
	seq  uint64
	off  int // in the page
	data []byte
}

type sizeChange struct {
	seq  uint64
	size int64
}

// dirOp is one change of a directory: it takes a name away, gives a name to a
// node, or both at once.
type dirOp struct {
	seq          uint64
	unlink, link string
	node         *node
}

func newFile(t time.Time) *node { return &node{modTime: t, pages: map[int64]*dirty{}} }

func newDir() *node { return &node{children: map[string]*node{}, durable: map[string]*node{}} }

func (n *node) size() int64 { return int64(len(n.data)) }

func (n *node) entry(name string) Entry {
	return Entry{Name: name, IsDir: n.children != nil, Size: n.size(), ModTime: n.modTime}
}

func (n *node) used(seen map[*node]bool) int64 {
	if seen[n] {
		return 0
	}
	seen[n] = true
	sum := max(n.size(), n.reserved)
	for _, child := range n.children {
		sum += child.used(seen)
	}
	return sum
}

// apply puts one change into a name table.
func (op dirOp) apply(children map[string]*node) {
	if op.unlink != "" {
		delete(children, op.unlink)
	}
	if op.link != "" {
		children[op.link] = op.node
	}
}

func (n *node) change(op dirOp) {
	op.apply(n.children)
	n.pending = append(n.pending, op)
}

func (n *node) syncDir() {
	n.durable = maps.Clone(n.children)
	n.pending = nil
}

func (n *node) syncAll() {
	if n.children == nil {
		clear(n.pages)
		n.sizes, n.durableSize = nil, n.size()
		return
	}
	n.syncDir()
	for _, child := range n.children {
		child.syncAll()
	}
}

// write changes the file; p is copied.
func (n *node) write(seq uint64, p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	n.note(seq, append([]byte(nil), p...), off)
	n.resize(seq, max(n.size(), off+int64(len(p))))
	copy(n.data[off:], p)
}

// truncate changes the size; what is cut off reads as zeros if the file grows
// again.
func (n *node) truncate(seq uint64, size int64) {
	if size < n.size() {
		n.noteZeros(seq, size)
		clear(n.data[size:])
		n.reserved = min(n.reserved, size)
	}
	n.resize(seq, size)
}

func (n *node) resize(seq uint64, size int64) {
	if size == n.size() {
		return
	}
	if size <= int64(cap(n.data)) {
		n.data = n.data[:size] // behind the end there are zeros
	} else {
		n.data = append(n.data, make([]byte, size-n.size())...)
	}
	n.sizes = append(n.sizes, sizeChange{seq: seq, size: size})
}

// note records a write of p at off, page by page, before it is done.
func (n *node) note(seq uint64, p []byte, off int64) {
	for len(p) > 0 {
		number, start := off/pageSize, int(off%pageSize)
		part := p[:min(len(p), pageSize-start)]
		d := n.pages[number]
		if d == nil {
			d = &dirty{}
			if from := number * pageSize; from < n.size() {
				d.base = append(d.base, n.data[from:min(from+pageSize, n.size())]...)
			}
			n.pages[number] = d
		}
		d.changes = append(d.changes, change{seq: seq, off: start, data: part})
		d.lost = false
		p, off = p[len(part):], off+int64(len(part))
	}
}

// noteZeros records that the file is zeros from off on, before it is done.
// Clean pages that are zeros already, the preallocated rest of a segment, are
// passed over.
func (n *node) noteZeros(seq uint64, off int64) {
	var zeros [pageSize]byte
	for off < n.size() {
		end := min((off/pageSize+1)*pageSize, n.size())
		if n.pages[off/pageSize] != nil || !bytes.Equal(n.data[off:end], zeros[:end-off]) {
			n.note(seq, make([]byte, end-off), off)
		}
		off = end
	}
}

// sync makes the content durable, except what a failed sync has lost.
func (n *node) sync() {
	for number, d := range n.pages {
		if !d.lost {
			delete(n.pages, number)
		}
	}
	n.sizes, n.durableSize = nil, n.size()
}

// syncFailed is what an error of fsync(2) means on Linux: the pages count as
// clean, whatever the disk has of them.
func (n *node) syncFailed() {
	for _, d := range n.pages {
		d.lost = true
	}
}
