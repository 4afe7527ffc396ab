// Package vfs is the few file calls that storage makes, as an interface with
// two implementations: [OS], the kernel's files by system calls that do not
// allocate, and [Mem], files in memory that can lose power.
//
// Nothing here interprets what it stores. Errors of the operating system come
// as *fs.PathError that name operation and file, so errors.Is works with
// fs.ErrNotExist, unix.ENOSPC and the like; io.EOF and [ErrWouldBlock] come
// bare, since the hot path compares them.
//
// # What survives
//
// WriteAt and Truncate reach the disk when Sync, Datasync or nothing says so:
// before that a crash may keep, lose, reorder or tear them by pages. The name
// of a created, renamed or removed file is a change of its directory, which
// SyncDir makes durable and Sync of the file does not. Mem models exactly that,
// and no file system promises less.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"time"
)

// ErrWouldBlock is ReadNowait's answer when bytes are not in the page cache: a
// worker must read them.
var ErrWouldBlock = errors.New("vfs: not resident")

// File is an open file. Methods other than Close may be called from several
// goroutines at once; storage orders writes itself.
type File interface {
	io.Closer
	// Name is the path that the file was opened by.
	Name() string
	// FD is the descriptor for sendfile(2), −1 for a file in memory.
	FD() int
	// ReadAt is io.ReaderAt: n < len(p) comes with an error, io.EOF at the end.
	ReadAt(p []byte, off int64) (int, error)
	// ReadNowait reads what is in the page cache and never waits for a disk:
	// n < len(p) comes with ErrWouldBlock or io.EOF.
	ReadNowait(p []byte, off int64) (int, error)
	// WriteAt is io.WriterAt; it resumes short writes. With an error n bytes
	// are written.
	WriteAt(p []byte, off int64) (int, error)
	// WritevAt writes the buffers one behind the other, one pwritev(2) for each
	// 1024 of them, resuming short writes, without allocating. With an error n
	// bytes are written. bufs and its elements are left as they were.
	WritevAt(bufs [][]byte, off int64) (int, error)
	// Truncate cuts or zero-extends the file.
	Truncate(size int64) error
	// Sync makes content and metadata durable (fsync), but not the file's name.
	Sync() error
	// Datasync makes content durable and the size that is needed to read it
	// (fdatasync).
	Datasync() error
	// Preallocate reserves blocks for [off, off+n) and leaves the size alone
	// (fallocate with KEEP_SIZE). Where the file system cannot, it does nothing.
	Preallocate(off, n int64) error
	// Extend reserves blocks for [off, off+n) and grows the file over them; they
	// read as zeros. Where the file system cannot reserve, the file grows sparse.
	Extend(off, n int64) error
	// SyncRange starts writeback of [off, off+n) and does not wait for it. It
	// makes nothing durable.
	SyncRange(off, n int64) error
	// DropBehind drops clean pages of [off, off+n) from the page cache.
	DropBehind(off, n int64) error
	// Size is the file's size in bytes.
	Size() (int64, error)
	// Map maps the first n bytes, 0 ≤ n ≤ size, for reading, populated, until
	// the function that is returned unmaps them; it must be called once, and the
	// file may be closed before. A file in memory gives a copy.
	Map(n int64) (data []byte, unmap func() error, err error)
}

// Entry is what ReadDir and Stat tell of a file.
type Entry struct {
	Name    string // last element of the path
	IsDir   bool
	Size    int64
	ModTime time.Time
}

// FS is a file system. Paths are those of the operating system; relative ones
// start at the working directory.
type FS interface {
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// OpenRead opens an existing file for reading.
	OpenRead(name string) (File, error)
	// Create makes a file for reading and writing, or cuts an existing one to
	// nothing.
	Create(name string) (File, error)
	// ReadFile reads a whole file.
	ReadFile(name string) ([]byte, error)
	// WriteFileAtomic replaces a file so that a crash leaves the old content or
	// the new: name.tmp is written and synced, renamed over name, and the
	// directory synced.
	WriteFileAtomic(name string, data []byte) error
	// Rename moves a file or directory, replacing a file. Durable after SyncDir
	// of both parents.
	Rename(from, to string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes a tree; a missing one is no error.
	RemoveAll(name string) error
	// Mkdir makes a directory.
	Mkdir(name string) error
	// MkdirAll makes a directory and its parents where they are missing.
	MkdirAll(name string) error
	// ReadDir lists a directory sorted by name. Sizes of files that vanish
	// meanwhile are left out with them.
	ReadDir(dir string) ([]Entry, error)
	// Stat describes a file.
	Stat(name string) (Entry, error)
	// Exists reports whether a file or directory is there.
	Exists(name string) (bool, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Lock takes an exclusive lock on a file, which it creates if need be, until
	// the Closer is closed. If another process or this one holds it, the error
	// wraps ErrLocked and names the file.
	Lock(name string) (io.Closer, error)
	// DiskFree gives the bytes an unprivileged process may still use and the
	// size of the file system that holds dir.
	DiskFree(dir string) (free, total int64, err error)
}

// ErrLocked is the cause of a Lock that someone else holds.
var ErrLocked = errors.New("locked by another process")

// tempSuffix marks the file that WriteFileAtomic writes before it renames;
// Kafka's checkpoints use the same.
const tempSuffix = ".tmp"

// writeFileAtomic is FS.WriteFileAtomic over the other calls, the same for
// every implementation.
func writeFileAtomic(fsys FS, name string, data []byte) (err error) {
	temp := name + tempSuffix
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		// The rest of a failed write is of no use; that it cannot be removed
		// either is not worth a second error.
		_ = fsys.Remove(temp)
		return err
	}
	if err := fsys.Rename(temp, name); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// exists is FS.Exists over Stat.
func exists(fsys FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
