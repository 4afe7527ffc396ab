package storage

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/storage/vfs"
)

// entryTable is the body of an index: fixed-size entries in order, either in
// memory outside the Go heap (the active segment's, written behind) or in a
// file that is mapped for reading while it is used (a sealed segment's).
//
// One goroutine appends (it holds the log's appender lock); any number look
// up. An entry is written before the count that covers it is published.
type entryTable struct {
	size int // bytes of an entry
	fs   vfs.FS
	path string

	// mu guards which memory holds the entries, never their content. It is
	// held for memory accesses only, never across a system call.
	mu     sync.RWMutex
	inFile bool     // the file is complete; chunks is nil
	chunks [][]byte // entries while they are in memory
	mapped []byte   // the file, once someone looked something up
	unmap  func() error

	n       atomic.Int32 // entries
	written int32        // entries known to be in the file; guarded by writeMu
	durable bool         // what is in the file was synced; guarded by writeMu
	writeMu sync.Mutex   // serialises workers that write the file
	mapMu   sync.Mutex   // serialises workers that map the file; guards retired
	retired bool         // released: the path may soon belong to another log
	used    atomic.Bool  // since the last sweep
}

// count is the number of entries.
func (t *entryTable) count() int { return int(t.n.Load()) }

func (t *entryTable) perChunk() int { return chunkBytes / t.size }

// at is entry i of memory that the caller holds mu for, or is the appender of.
func (t *entryTable) at(i int) []byte {
	if t.inFile {
		return t.mapped[i*t.size : (i+1)*t.size]
	}
	per := t.perChunk()
	o := i % per * t.size
	return t.chunks[i/per][o : o+t.size]
}

// next is the room for the entry after the last; publish makes it visible.
// Appender only, in memory only.
func (t *entryTable) next() []byte {
	n := t.count()
	if n == len(t.chunks)*t.perChunk() {
		c := newChunk()
		t.mu.Lock()
		t.chunks = append(t.chunks, c)
		t.mu.Unlock()
	}
	return t.at(n)
}

func (t *entryTable) publish() { t.n.Add(1) }

// search calls less on ever fewer entries and gives the number of leading
// entries for which it is true (they come first). found is called with the
// last of those, if there is one. A file that is not mapped is mapped, or with
// nowait is vfs.ErrWouldBlock.
func (t *entryTable) search(nowait bool, key int64, keyOf func([]byte) int64, found func([]byte)) (int, error) {
	if t.count() == 0 {
		return 0, nil
	}
	t.mu.RLock()
	for t.inFile && t.mapped == nil {
		t.mu.RUnlock()
		if nowait {
			return 0, vfs.ErrWouldBlock
		}
		if err := t.mapFile(); err != nil {
			return 0, err
		}
		t.mu.RLock()
	}
	defer t.mu.RUnlock()
	if !t.used.Load() {
		t.used.Store(true)
	}
	lo, hi := 0, t.count()
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if keyOf(t.at(mid)) <= key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo > 0 {
		found(t.at(lo - 1))
	}
	return lo, nil
}

// each calls fn on the entries from first on until it returns false.
func (t *entryTable) each(first int, fn func(i int, e []byte) bool) error {
	if first >= t.count() {
		return nil
	}
	t.mu.RLock()
	for t.inFile && t.mapped == nil {
		t.mu.RUnlock()
		if err := t.mapFile(); err != nil {
			return err
		}
		t.mu.RLock()
	}
	defer t.mu.RUnlock()
	for i, n := first, t.count(); i < n; i++ {
		if !fn(i, t.at(i)) {
			return nil
		}
	}
	return nil
}

// mapFile maps the file; worker context.
func (t *entryTable) mapFile() error {
	t.mapMu.Lock()
	defer t.mapMu.Unlock()
	t.mu.RLock()
	need := t.inFile && t.mapped == nil
	t.mu.RUnlock()
	if !need {
		return nil
	}
	if t.retired {
		return errClosed
	}
	f, err := t.fs.OpenRead(t.path)
	if err != nil {
		return err
	}
	want := int64(t.count()) * int64(t.size)
	size, err := f.Size()
	if err == nil && size < want {
		err = corrupt(t.path, size, "index of %d bytes has become %d", want, size)
	}
	var data []byte
	var unmap func() error
	if err == nil {
		data, unmap, err = f.Map(want)
	}
	if closeErr := f.Close(); err == nil && closeErr != nil {
		err = errors.Join(closeErr, unmap())
	}
	if err != nil {
		return err
	}
	t.mu.Lock()
	if t.inFile { // else the appender has taken the entries to memory meanwhile
		t.mapped, t.unmap, unmap = data, unmap, nil
	}
	t.mu.Unlock()
	if unmap != nil {
		return unmap()
	}
	return nil
}

// bytesBetween copies entries [first, last) out; worker context.
func (t *entryTable) bytesBetween(first, last int) []byte {
	out := make([]byte, 0, (last-first)*t.size)
	t.mu.RLock()
	defer t.mu.RUnlock()
	for i := first; i < last; i++ {
		out = append(out, t.at(i)...)
	}
	return out
}

// writeBehind brings the file up to the published entries and leaves it sized
// to them; with sync also durable. Worker context. The table stays where it is.
func (t *entryTable) writeBehind(sync bool) (err error) {
	t.writeMu.Lock()
	defer t.writeMu.Unlock()
	inFile := !t.inMemory()
	if inFile && (!sync || t.durable) {
		return nil
	}
	f, err := t.fs.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) && !inFile {
		t.written = 0
		f, err = t.fs.Create(t.path)
	}
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	if !inFile {
		t.durable = false
		n := int32(t.count())
		if data := t.bytesBetween(int(t.written), int(n)); len(data) > 0 {
			if _, err := f.WriteAt(data, int64(t.written)*int64(t.size)); err != nil {
				return err
			}
		}
		if err := f.Truncate(int64(n) * int64(t.size)); err != nil {
			return err
		}
		t.written = n
	}
	if sync {
		if err := f.Sync(); err != nil {
			return err
		}
		t.durable = true
	}
	return nil
}

// seal writes the rest and lets the file stand for the memory.
func (t *entryTable) seal() error {
	if err := t.writeBehind(true); err != nil {
		return err
	}
	t.handOver()
	return nil
}

// inMemory says whether entries can be added.
func (t *entryTable) inMemory() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return !t.inFile
}

// complete says whether the file holds all entries; false also while a worker
// is writing it.
func (t *entryTable) complete() bool {
	if !t.writeMu.TryLock() {
		return false
	}
	defer t.writeMu.Unlock()
	return t.written == t.n.Load()
}

// handOver lets the file, which holds all entries, stand for the memory.
func (t *entryTable) handOver() {
	t.mu.Lock()
	chunks := t.chunks
	t.chunks, t.inFile = nil, true
	t.mu.Unlock()
	freeChunks(chunks)
}

// unseal brings the entries of the file back to memory, as the active
// segment's are. Worker context, or the first append after a start.
func (t *entryTable) unseal() error {
	if t.inMemory() {
		return nil
	}
	n, per := t.count(), t.perChunk()
	var chunks [][]byte
	err := t.each(0, func(i int, e []byte) bool {
		if i%per == 0 {
			chunks = append(chunks, newChunk())
		}
		copy(chunks[i/per][i%per*t.size:], e)
		return true
	})
	if err != nil {
		freeChunks(chunks)
		return err
	}
	t.writeMu.Lock()
	t.written = int32(n)
	t.writeMu.Unlock()
	t.mu.Lock()
	unmap := t.unmap
	t.chunks, t.inFile, t.mapped, t.unmap = chunks, false, nil, nil
	t.mu.Unlock()
	if unmap != nil {
		return unmap()
	}
	return nil
}

// copyOf is a table in memory with the first n entries.
func (t *entryTable) copyOf(n int) (*entryTable, error) {
	c := &entryTable{size: t.size, fs: t.fs, path: t.path}
	err := t.each(0, func(i int, e []byte) bool {
		if i >= n {
			return false
		}
		copy(c.next(), e)
		c.publish()
		return true
	})
	return c, err
}

// release gives the memory or the map back, for good.
func (t *entryTable) release() {
	t.mapMu.Lock()
	t.retired = true
	t.mapMu.Unlock()
	t.mu.Lock()
	chunks, unmap := t.chunks, t.unmap
	t.chunks, t.mapped, t.unmap, t.inFile = nil, nil, nil, true
	t.n.Store(0)
	t.mu.Unlock()
	freeChunks(chunks)
	if unmap != nil {
		// A map that cannot be undone is a leak of address space, no more.
		_ = unmap()
	}
}

// sweep unmaps a file that nobody used since the last sweep.
func (t *entryTable) sweep() {
	if t.used.Swap(false) {
		return
	}
	t.mu.Lock()
	unmap := t.unmap
	t.mapped, t.unmap = nil, nil
	t.mu.Unlock()
	if unmap != nil {
		_ = unmap() // as in release
	}
}
