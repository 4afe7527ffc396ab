package vfs

import (
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Mem is a file system in memory that knows what a disk would have of it, so
// that a test can cut the power: see Crash. It can fail chosen calls (Inject,
// SetHook) and be of bounded size (SetCapacity).
//
// Paths are cleaned and start at the root whether or not they begin with a
// slash. A new Mem has an empty root directory, which is all that is durable.
type Mem struct {
	mu       sync.Mutex
	root     *node
	seq      uint64 // of the last change, in the order they were made
	dead     bool   // the power is off; every call fails
	locks    map[string]bool
	capacity int64
	now      func() time.Time
	faults   []*Fault
	hook     func(Call) error
	calls    int64
}

// defaultCapacity is what DiskFree tells where SetCapacity has not been called.
const defaultCapacity = 1 << 40

// NewMem makes an empty file system.
func NewMem() *Mem {
	return &Mem{root: newDir(), locks: map[string]bool{}, capacity: defaultCapacity, now: time.Now}
}

// SetCapacity bounds the sum of file sizes and reservations; a write beyond it
// fails with ENOSPC after what still fits.
func (m *Mem) SetCapacity(total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = total
}

// SetNow sets the clock of modification times.
func (m *Mem) SetNow(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}

// begin passes a call by hook and faults and, if they let it, takes the lock.
func (m *Mem) begin(c Call) error {
	if err := m.intercept(c); err != nil {
		return err
	}
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		return pathError(c.Op.String(), c.Path, ErrCrashed)
	}
	return nil
}

// clean is the path from the root, without its slash; the root is "".
func clean(name string) string {
	return strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
}

// find walks to a node; nil if it is not there.
func (m *Mem) find(name string) *node {
	n := m.root
	for part := range strings.SplitSeq(clean(name), "/") {
		if part == "" {
			continue
		}
		if n = n.children[part]; n == nil {
			return nil
		}
	}
	return n
}

// parent walks to the directory that holds name.
func (m *Mem) parent(op, name string) (dir *node, base string, err error) {
	p := clean(name)
	if p == "" {
		return nil, "", pathError(op, name, unix.EBUSY)
	}
	i := strings.LastIndexByte(p, '/')
	dir = m.find(p[:max(i, 0)])
	if dir == nil {
		return nil, "", pathError(op, name, fs.ErrNotExist)
	}
	if dir.children == nil {
		return nil, "", pathError(op, name, unix.ENOTDIR)
	}
	return dir, p[i+1:], nil
}

// next numbers a change.
func (m *Mem) next() uint64 {
	m.seq++
	return m.seq
}

// used is the bytes taken; its cost does not matter to tests.
func (m *Mem) used() int64 { return m.root.used(map[*node]bool{}) }

// Open is FS.Open.
func (m *Mem) Open(name string) (File, error) { return m.open(name, true) }

// OpenRead is FS.OpenRead.
func (m *Mem) OpenRead(name string) (File, error) { return m.open(name, false) }

func (m *Mem) open(name string, writable bool) (File, error) {
	if err := m.begin(Call{Op: OpOpen, Path: name}); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	n := m.find(name)
	switch {
	case n == nil:
		return nil, pathError("open", name, fs.ErrNotExist)
	case n.children != nil && writable:
		return nil, pathError("open", name, unix.EISDIR)
	}
	return &memFile{mem: m, node: n, name: name, writable: writable}, nil
}

// Create is FS.Create.
func (m *Mem) Create(name string) (File, error) {
	if err := m.begin(Call{Op: OpCreate, Path: name}); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	dir, base, err := m.parent("open", name)
	if err != nil {
		return nil, err
	}
	n := dir.children[base]
	switch {
	case n == nil:
		n = newFile(m.now())
		dir.change(dirOp{seq: m.next(), link: base, node: n})
	case n.children != nil:
		return nil, pathError("open", name, unix.EISDIR)
	default:
		n.truncate(m.next(), 0)
		n.modTime = m.now()
	}
	return &memFile{mem: m, node: n, name: name, writable: true}, nil
}

// ReadFile is FS.ReadFile.
func (m *Mem) ReadFile(name string) ([]byte, error) {
	f, err := m.OpenRead(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return data, f.Close()
}

// WriteFileAtomic is FS.WriteFileAtomic.
func (m *Mem) WriteFileAtomic(name string, data []byte) error {
	return writeFileAtomic(m, name, data)
}

// Rename is FS.Rename. Within one directory it is atomic; between two, a crash
// may leave both names or neither, as the two SyncDir decide.
func (m *Mem) Rename(from, to string) error {
	if err := m.begin(Call{Op: OpRename, Path: from, To: to}); err != nil {
		return err
	}
	defer m.mu.Unlock()
	fromDir, fromBase, err := m.parent("rename", from)
	if err != nil {
		return err
	}
	toDir, toBase, err := m.parent("rename", to)
	if err != nil {
		return err
	}
	n := fromDir.children[fromBase]
	if n == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	if old := toDir.children[toBase]; old != nil && old != n {
		if err := replaceable(n, old); err != nil {
			return pathError("rename", to, err)
		}
	}
	if fromDir == toDir {
		if fromBase != toBase {
			fromDir.change(dirOp{seq: m.next(), unlink: fromBase, link: toBase, node: n})
		}
		return nil
	}
	toDir.change(dirOp{seq: m.next(), link: toBase, node: n})
	fromDir.change(dirOp{seq: m.next(), unlink: fromBase})
	return nil
}

// replaceable tells why a rename may not replace old, as rename(2) does.
func replaceable(n, old *node) error {
	switch {
	case n.children != nil && old.children == nil:
		return unix.ENOTDIR
	case n.children == nil && old.children != nil:
		return unix.EISDIR
	case len(old.children) > 0:
		return unix.ENOTEMPTY
	}
	return nil
}

// Remove is FS.Remove. Open files stay usable.
func (m *Mem) Remove(name string) error {
	if err := m.begin(Call{Op: OpRemove, Path: name}); err != nil {
		return err
	}
	defer m.mu.Unlock()
	dir, base, err := m.parent("remove", name)
	if err != nil {
		return err
	}
	n := dir.children[base]
	switch {
	case n == nil:
		return pathError("remove", name, fs.ErrNotExist)
	case len(n.children) > 0:
		return pathError("remove", name, unix.ENOTEMPTY)
	}
	dir.change(dirOp{seq: m.next(), unlink: base})
	return nil
}

// RemoveAll is FS.RemoveAll: one Remove for each file, children first.
func (m *Mem) RemoveAll(name string) error {
	for _, child := range m.childNames(name) {
		if err := m.RemoveAll(path.Join(name, child)); err != nil {
			return err
		}
	}
	if ok, err := m.Exists(name); err != nil || !ok {
		return err
	}
	return m.Remove(name)
}

func (m *Mem) childNames(name string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(n.children))
}

// Mkdir is FS.Mkdir.
func (m *Mem) Mkdir(name string) error {
	if err := m.begin(Call{Op: OpMkdir, Path: name}); err != nil {
		return err
	}
	defer m.mu.Unlock()
	dir, base, err := m.parent("mkdir", name)
	if err != nil {
		return err
	}
	if dir.children[base] != nil {
		return pathError("mkdir", name, fs.ErrExist)
	}
	dir.change(dirOp{seq: m.next(), link: base, node: newDir()})
	return nil
}

// MkdirAll is FS.MkdirAll.
func (m *Mem) MkdirAll(name string) error {
	p := clean(name)
	for i := range len(p) + 1 {
		if i < len(p) && p[i] != '/' || i == 0 {
			continue
		}
		prefix := "/" + p[:i]
		e, err := m.Stat(prefix)
		switch {
		case err == nil && !e.IsDir:
			return pathError("mkdir", prefix, unix.ENOTDIR)
		case err == nil:
			continue
		}
		if err := m.Mkdir(prefix); err != nil {
			return err
		}
	}
	return nil
}

// ReadDir is FS.ReadDir.
func (m *Mem) ReadDir(dir string) ([]Entry, error) {
	if err := m.begin(Call{Op: OpReadDir, Path: dir}); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	n := m.find(dir)
	switch {
	case n == nil:
		return nil, pathError("open", dir, fs.ErrNotExist)
	case n.children == nil:
		return nil, pathError("readdirent", dir, unix.ENOTDIR)
	}
	entries := make([]Entry, 0, len(n.children))
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		entries = append(entries, n.children[name].entry(name))
	}
	return entries, nil
}

// Stat is FS.Stat.
func (m *Mem) Stat(name string) (Entry, error) {
	if err := m.begin(Call{Op: OpStat, Path: name}); err != nil {
		return Entry{}, err
	}
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil {
		return Entry{}, pathError("stat", name, fs.ErrNotExist)
	}
	return n.entry(path.Base("/" + clean(name))), nil
}

// Exists is FS.Exists.
func (m *Mem) Exists(name string) (bool, error) { return exists(m, name) }

// SyncDir is FS.SyncDir: the names that the directory holds now are durable,
// what is in those files is not thereby.
func (m *Mem) SyncDir(dir string) error {
	if err := m.begin(Call{Op: OpSyncDir, Path: dir}); err != nil {
		return err
	}
	defer m.mu.Unlock()
	n := m.find(dir)
	switch {
	case n == nil:
		return pathError("open", dir, fs.ErrNotExist)
	case n.children == nil:
		return pathError("open", dir, unix.ENOTDIR)
	}
	n.syncDir()
	return nil
}

// SyncAll makes everything durable, as a long enough wait does.
func (m *Mem) SyncAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.root.syncAll()
}

// Lock is FS.Lock. Locks do not survive a crash, the lock's file may.
func (m *Mem) Lock(name string) (io.Closer, error) {
	if err := m.begin(Call{Op: OpLock, Path: name}); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	dir, base, err := m.parent("open", name)
	if err != nil {
		return nil, err
	}
	p := clean(name)
	if m.locks[p] {
		return nil, pathError("lock", name, ErrLocked)
	}
	if dir.children[base] == nil {
		dir.change(dirOp{seq: m.next(), link: base, node: newFile(m.now())})
	}
	m.locks[p] = true
	return &memLock{mem: m, path: p}, nil
}

type memLock struct {
	mem  *Mem
	path string
	once sync.Once
}

func (l *memLock) Close() error {
	l.once.Do(func() {
		l.mem.mu.Lock()
		defer l.mem.mu.Unlock()
		delete(l.mem.locks, l.path)
	})
	return nil
}

// DiskFree is FS.DiskFree.
func (m *Mem) DiskFree(dir string) (free, total int64, err error) {
	if err := m.begin(Call{Op: OpStat, Path: dir}); err != nil {
		return 0, 0, err
	}
	defer m.mu.Unlock()
	if m.find(dir) == nil {
		return 0, 0, pathError("statfs", dir, fs.ErrNotExist)
	}
	return max(m.capacity-m.used(), 0), m.capacity, nil
}

// room is how many of the n bytes at off of a file still fit the capacity.
func (m *Mem) room(file *node, off, n int64) int64 {
	if m.capacity == defaultCapacity {
		return n
	}
	free := max(m.capacity-m.used(), 0)
	taken := max(file.size(), file.reserved)
	if free > math.MaxInt64-taken {
		return n
	}
	return min(n, max(taken+free-off, 0))
}

var _ FS = (*Mem)(nil)
