package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	fileMode = 0o644
	dirMode  = 0o755
)

type osFS struct{}

// OS is the operating system's files.
func OS() FS { return osFS{} }

func (osFS) Open(name string) (File, error) {
	return openFile(name, unix.O_RDWR)
}

func (osFS) OpenRead(name string) (File, error) {
	return openFile(name, unix.O_RDONLY)
}

func (osFS) Create(name string) (File, error) {
	return openFile(name, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
}

func openFile(name string, flags int) (File, error) {
	fd, err := openFD(name, flags)
	if err != nil {
		return nil, err
	}
	return &osFile{name: name, fd: fd}, nil
}

// openFD bypasses os.File: it would add a finalizer and the runtime's poller to
// a descriptor whose life storage already counts.
func openFD(name string, flags int) (int, error) {
	for {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, fileMode)
		if err == unix.EINTR {
			continue
		}
		return fd, pathError("open", name, err)
	}
}

func (osFS) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }

func (o osFS) WriteFileAtomic(name string, data []byte) error {
	return writeFileAtomic(o, name, data)
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) RemoveAll(name string) error { return os.RemoveAll(name) }

func (osFS) Mkdir(name string) error { return os.Mkdir(name, dirMode) }

func (osFS) MkdirAll(name string) error { return os.MkdirAll(name, dirMode) }

func (osFS) ReadDir(dir string) ([]Entry, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(list))
	for _, d := range list {
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, entryOf(info))
	}
	return entries, nil
}

func (osFS) Stat(name string) (Entry, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Entry{}, err
	}
	return entryOf(info), nil
}

func entryOf(info fs.FileInfo) Entry {
	return Entry{Name: info.Name(), IsDir: info.IsDir(), Size: info.Size(), ModTime: info.ModTime()}
}

func (o osFS) Exists(name string) (bool, error) { return exists(o, name) }

func (osFS) SyncDir(dir string) error {
	fd, err := openFD(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	err = pathError("fsync", dir, retry(func() error { return unix.Fsync(fd) }))
	if closeErr := unix.Close(fd); err == nil {
		err = pathError("close", dir, closeErr)
	}
	return err
}

// Lock takes both kinds of lock: flock(2), which other tools look at, and a
// POSIX write lock on the open file description, which is what Java's
// FileChannel.lock conflicts with, so that Apache Kafka and this broker keep
// each other out of a directory.
func (osFS) Lock(name string) (io.Closer, error) {
	fd, err := openFD(name, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	err = retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
		err = retry(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l) })
	}
	if err == nil {
		return &osFile{name: name, fd: fd}, nil
	}
	// The descriptor was only good for the lock; its close cannot lose data.
	_ = unix.Close(fd)
	if err == unix.EAGAIN || err == unix.EACCES {
		err = ErrLocked
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
}

func (osFS) DiskFree(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &s) }); err != nil {
		return 0, 0, pathError("statfs", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// pathError names operation and file; a nil error stays nil.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// rangeError also names the position, which tells a torn disk from a bad call.
func rangeError(op, name string, off int64, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("at byte %d: %w", off, err)}
}

var _ FS = osFS{}
