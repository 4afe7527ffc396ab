package vfs

import (
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// memFile is an open file of a Mem.
type memFile struct {
	mem      *Mem
	node     *node
	name     string
	writable bool
	closed   atomic.Bool
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) FD() int { return -1 }

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, fs.ErrClosed)
	}
	return nil
}

// begin is Mem.begin for a call on an open file.
func (f *memFile) begin(op Op, off, n int64) error {
	if f.closed.Load() {
		return pathError(op.String(), f.name, fs.ErrClosed)
	}
	return f.mem.begin(Call{Op: op, Path: f.name, Offset: off, Length: n})
}

// beginWrite is begin for a call that changes the file.
func (f *memFile) beginWrite(op Op, off, n int64) error {
	if !f.writable {
		return pathError(op.String(), f.name, unix.EBADF)
	}
	if off < 0 || n < 0 {
		return pathError(op.String(), f.name, unix.EINVAL)
	}
	return f.begin(op, off, n)
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) { return f.read(OpRead, p, off) }

func (f *memFile) ReadNowait(p []byte, off int64) (int, error) { return f.read(OpReadNowait, p, off) }

func (f *memFile) read(op Op, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, rangeError(op.String(), f.name, off, unix.EINVAL)
	}
	if err := f.begin(op, off, int64(len(p))); err != nil {
		return 0, err
	}
	defer f.mem.mu.Unlock()
	if f.node.children != nil {
		return 0, pathError(op.String(), f.name, unix.EISDIR)
	}
	n := 0
	if off < f.node.size() {
		n = copy(p, f.node.data[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	return f.write([][]byte{p}, int64(len(p)), off)
}

func (f *memFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	total := int64(0)
	for _, b := range bufs {
		total += int64(len(b))
	}
	return f.write(bufs, total, off)
}

// write is one change of total bytes; a Short fault or a full disk cuts it.
func (f *memFile) write(bufs [][]byte, total, off int64) (int, error) {
	err := f.beginWrite(OpWrite, off, total)
	var short *shortError
	switch {
	case errors.As(err, &short):
		// The call fails, but not before it has written a part.
		f.mem.mu.Lock()
		if f.mem.dead {
			f.mem.mu.Unlock()
			return 0, pathError("write", f.name, ErrCrashed)
		}
	case err != nil:
		return 0, err
	}
	defer f.mem.mu.Unlock()
	allowed := f.mem.room(f.node, off, total)
	if allowed < total {
		err = rangeError("write", f.name, off+allowed, unix.ENOSPC)
	}
	if short != nil {
		allowed = min(allowed, short.n)
		err = rangeError("write", f.name, off+allowed, short.err)
	}
	seq := f.mem.next()
	written := int64(0)
	for _, b := range bufs {
		part := b[:min(int64(len(b)), allowed-written)]
		f.node.write(seq, part, off+written)
		written += int64(len(part))
	}
	f.node.modTime = f.mem.now()
	return int(written), err
}

func (f *memFile) Truncate(size int64) error {
	if err := f.beginWrite(OpTruncate, size, 0); err != nil {
		return err
	}
	defer f.mem.mu.Unlock()
	f.node.truncate(f.mem.next(), size)
	f.node.modTime = f.mem.now()
	return nil
}

func (f *memFile) Sync() error { return f.sync(OpSync) }

func (f *memFile) Datasync() error { return f.sync(OpDatasync) }

func (f *memFile) sync(op Op) error {
	if err := f.begin(op, 0, 0); err != nil {
		if errors.Is(err, fs.ErrClosed) || errors.Is(err, ErrCrashed) {
			return err
		}
		f.mem.mu.Lock()
		defer f.mem.mu.Unlock()
		f.node.syncFailed()
		return err
	}
	defer f.mem.mu.Unlock()
	f.node.sync()
	return nil
}

func (f *memFile) Preallocate(off, n int64) error {
	if err := f.beginWrite(OpPreallocate, off, n); err != nil {
		return err
	}
	defer f.mem.mu.Unlock()
	return f.reserve(off, n)
}

// reserve takes capacity for [off, off+n), all or nothing.
func (f *memFile) reserve(off, n int64) error {
	if n == 0 {
		return pathError("fallocate", f.name, unix.EINVAL)
	}
	if f.mem.room(f.node, off, n) < n {
		return pathError("fallocate", f.name, unix.ENOSPC)
	}
	f.node.reserved = max(f.node.reserved, off+n)
	return nil
}

func (f *memFile) Extend(off, n int64) error {
	if err := f.beginWrite(OpPreallocate, off, n); err != nil {
		return err
	}
	defer f.mem.mu.Unlock()
	if err := f.reserve(off, n); err != nil {
		return err
	}
	f.node.resize(f.mem.next(), max(f.node.size(), off+n))
	return nil
}

// SyncRange makes nothing durable; a crash may keep the pages in any case.
func (f *memFile) SyncRange(off, n int64) error {
	if err := f.begin(OpSyncRange, off, n); err != nil {
		return err
	}
	f.mem.mu.Unlock()
	return nil
}

func (f *memFile) DropBehind(off, n int64) error {
	if err := f.begin(OpDropBehind, off, n); err != nil {
		return err
	}
	f.mem.mu.Unlock()
	return nil
}

func (f *memFile) Size() (int64, error) {
	if err := f.begin(OpStat, 0, 0); err != nil {
		return 0, err
	}
	defer f.mem.mu.Unlock()
	return f.node.size(), nil
}

func (f *memFile) Map(n int64) ([]byte, func() error, error) {
	if err := f.begin(OpMap, 0, n); err != nil {
		return nil, nil, err
	}
	defer f.mem.mu.Unlock()
	if n < 0 || n > f.node.size() {
		return nil, nil, rangeError("mmap", f.name, n, unix.EINVAL)
	}
	return append([]byte(nil), f.node.data[:n]...), func() error { return nil }, nil
}
