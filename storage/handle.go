package storage

import (
	"sync"
	"sync/atomic"

	"github.com/posthouse/posthouse/storage/vfs"
)

// handle is an open segment file and the number of its users: its lazyFile,
// the appender, every span. The last one to go has the file closed by a
// worker, since closing an unlinked file frees its blocks, some 65 ms a GiB.
type handle struct {
	file vfs.File
	refs atomic.Int32
	exec Executor
}

// tryRef takes a reference, unless the last one is gone.
func (h *handle) tryRef() bool {
	for {
		n := h.refs.Load()
		if n == 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release gives a reference back.
func (h *handle) release() {
	n := h.refs.Add(-1)
	if n < 0 {
		panic("BUG: segment file released more often than taken")
	}
	if n == 0 {
		// What a read-only close or one after a sync could report has been
		// reported by then; nobody is left to act on it.
		h.exec.Submit(func() { _ = h.file.Close() })
	}
}

// lazyFile opens its file when someone needs it and forgets it when idle.
type lazyFile struct {
	fs   vfs.FS
	exec Executor

	open   atomic.Pointer[handle] // nil while closed
	opened sync.Mutex             // held by workers: guards opening and path
	path   string
	used   atomic.Bool // since the last sweep
}

func newLazyFile(fsys vfs.FS, exec Executor, path string) *lazyFile {
	return &lazyFile{fs: fsys, exec: exec, path: path}
}

// adopt takes over an open file.
func (z *lazyFile) adopt(f vfs.File) {
	h := &handle{file: f, exec: z.exec}
	h.refs.Store(1)
	z.used.Store(true)
	z.open.Store(h)
}

// acquire gives the open file with a reference for the caller. With nowait a
// closed one is vfs.ErrWouldBlock.
func (z *lazyFile) acquire(nowait bool) (*handle, error) {
	if !z.used.Load() {
		z.used.Store(true)
	}
	for {
		if h := z.open.Load(); h != nil {
			if h.tryRef() {
				return h, nil
			}
			continue
		}
		if nowait {
			return nil, vfs.ErrWouldBlock
		}
		if err := z.reopen(); err != nil {
			return nil, err
		}
	}
}

func (z *lazyFile) reopen() error {
	z.opened.Lock()
	defer z.opened.Unlock()
	if z.open.Load() != nil {
		return nil
	}
	if z.path == "" {
		return errClosed
	}
	f, err := z.fs.Open(z.path)
	if err != nil {
		return err
	}
	z.adopt(f)
	return nil
}

// rename moves the file, unless it is there; worker context.
func (z *lazyFile) rename(to string) error {
	z.opened.Lock()
	defer z.opened.Unlock()
	if z.path == to || z.path == "" {
		return nil
	}
	if err := z.fs.Rename(z.path, to); err != nil {
		return err
	}
	z.path = to
	return nil
}

func (z *lazyFile) name() string {
	z.opened.Lock()
	defer z.opened.Unlock()
	return z.path
}

// retire closes the file for good: its path may soon belong to another log.
func (z *lazyFile) retire() {
	z.opened.Lock()
	z.path = ""
	z.opened.Unlock()
	z.drop()
}

// drop closes the file once its other users are gone.
func (z *lazyFile) drop() {
	if h := z.open.Swap(nil); h != nil {
		h.release()
	}
}

// sweep drops a file that nobody acquired since the last sweep.
func (z *lazyFile) sweep() {
	if !z.used.Swap(false) {
		z.drop()
	}
}
