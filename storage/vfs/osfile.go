package vfs

import (
	"io"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// osFile is a descriptor and the name for errors. Its methods call the kernel
// and keep no state, so they need no lock; Close while another call runs is
// the caller's fault (storage counts references).
type osFile struct {
	name string
	fd   int
}

// iovMax is the kernel's bound on buffers in one call.
const iovMax = 1024

// iovecs is the kernel's list of buffers. It is pooled, since an array on the
// stack would escape into the system call: one allocation per write.
type iovecs [iovMax]unix.Iovec

var iovecPool = sync.Pool{New: func() any { return new(iovecs) }}

func (f *osFile) Name() string { return f.name }

func (f *osFile) FD() int { return f.fd }

func (f *osFile) Close() error {
	if f.fd < 0 {
		return pathError("close", f.name, unix.EBADF)
	}
	fd := f.fd
	f.fd = -1
	// Linux frees the descriptor even when close fails: never try again.
	return pathError("close", f.name, unix.Close(fd))
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	read := 0
	for read < len(p) {
		n, err := unix.Pread(f.fd, p[read:], off+int64(read))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return read, rangeError("pread", f.name, off+int64(read), err)
		case n == 0:
			return read, io.EOF
		default:
			read += n
		}
	}
	return read, nil
}

func (f *osFile) ReadNowait(p []byte, off int64) (int, error) {
	read := 0
	for read < len(p) {
		n, errno := f.preadNowait(p[read:], off+int64(read))
		switch {
		case errno == unix.EAGAIN:
			return read, ErrWouldBlock
		case errno == unix.EINTR:
		case errno == unix.EOPNOTSUPP || errno == unix.ENOSYS:
			// A file system without the flag (some FUSE ones): only a plain read
			// tells anything.
			n, err := f.ReadAt(p[read:], off+int64(read))
			return read + n, err
		case errno != 0:
			return read, rangeError("preadv2", f.name, off+int64(read), errno)
		case n == 0:
			return read, io.EOF
		default:
			read += n
		}
	}
	return read, nil
}

// preadNowait is one preadv2 with RWF_NOWAIT. It cannot sleep, so it goes to
// the kernel without telling the scheduler.
func (f *osFile) preadNowait(p []byte, off int64) (int, unix.Errno) {
	vec := iovecPool.Get().(*iovecs)
	vec[0].Base = unsafe.SliceData(p)
	vec[0].SetLen(len(p))
	n, _, errno := unix.RawSyscall6(unix.SYS_PREADV2, uintptr(f.fd), uintptr(unsafe.Pointer(vec)), 1,
		uintptr(off), 0, unix.RWF_NOWAIT)
	vec[0].Base = nil
	iovecPool.Put(vec)
	if errno != 0 {
		return 0, unix.Errno(errno)
	}
	return int(n), 0
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	written := 0
	for written < len(p) {
		n, err := unix.Pwrite(f.fd, p[written:], off+int64(written))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return written, rangeError("pwrite", f.name, off+int64(written), err)
		case n == 0:
			return written, rangeError("pwrite", f.name, off+int64(written), io.ErrShortWrite)
		default:
			written += n
		}
	}
	return written, nil
}

func (f *osFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	if len(bufs) == 1 {
		return f.WriteAt(bufs[0], off)
	}
	vec := iovecPool.Get().(*iovecs)
	defer iovecPool.Put(vec)
	written := 0
	skip := 0 // bytes of bufs[0] that an earlier short write took
	for len(bufs) > 0 {
		count := fill(vec, bufs, skip)
		if count == 0 {
			return written, nil
		}
		n, _, errno := unix.Syscall6(unix.SYS_PWRITEV, uintptr(f.fd), uintptr(unsafe.Pointer(vec)), uintptr(count),
			uintptr(off+int64(written)), 0, 0)
		clear(vec[:count])
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return written, rangeError("pwritev", f.name, off+int64(written), errno)
		case n == 0:
			return written, rangeError("pwritev", f.name, off+int64(written), io.ErrShortWrite)
		}
		written += int(n)
		bufs, skip = advance(bufs, skip, int(n))
	}
	return written, nil
}

// fill lists the buffers that are not empty, up to iovMax, without the first
// skip bytes of bufs[0], and returns how many it listed.
func fill(vec *iovecs, bufs [][]byte, skip int) int {
	count := 0
	for _, b := range bufs {
		b = b[skip:]
		skip = 0
		if len(b) == 0 {
			continue
		}
		vec[count].Base = unsafe.SliceData(b)
		vec[count].SetLen(len(b))
		count++
		if count == iovMax {
			break
		}
	}
	return count
}

// advance moves n bytes on behind position skip of bufs[0], over empty buffers
// too.
func advance(bufs [][]byte, skip, n int) ([][]byte, int) {
	skip += n
	for len(bufs) > 0 && skip >= len(bufs[0]) {
		skip -= len(bufs[0])
		bufs = bufs[1:]
	}
	return bufs, skip
}

func (f *osFile) Truncate(size int64) error {
	return pathError("ftruncate", f.name, retry(func() error { return unix.Ftruncate(f.fd, size) }))
}

func (f *osFile) Sync() error {
	return pathError("fsync", f.name, retry(func() error { return unix.Fsync(f.fd) }))
}

func (f *osFile) Datasync() error {
	return pathError("fdatasync", f.name, retry(func() error { return unix.Fdatasync(f.fd) }))
}

func (f *osFile) Preallocate(off, n int64) error {
	err := retry(func() error { return unix.Fallocate(f.fd, unix.FALLOC_FL_KEEP_SIZE, off, n) })
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return nil
	}
	return pathError("fallocate", f.name, err)
}

func (f *osFile) Extend(off, n int64) error {
	err := retry(func() error { return unix.Fallocate(f.fd, 0, off, n) })
	if err != unix.EOPNOTSUPP && err != unix.ENOSYS {
		return pathError("fallocate", f.name, err)
	}
	size, err := f.Size()
	if err != nil || size >= off+n {
		return err
	}
	return f.Truncate(off + n)
}

func (f *osFile) SyncRange(off, n int64) error {
	err := retry(func() error { return unix.SyncFileRange(f.fd, off, n, unix.SYNC_FILE_RANGE_WRITE) })
	return pathError("sync_file_range", f.name, err)
}

func (f *osFile) DropBehind(off, n int64) error {
	err := retry(func() error { return unix.Fadvise(f.fd, off, n, unix.FADV_DONTNEED) })
	return pathError("fadvise", f.name, err)
}

func (f *osFile) Size() (int64, error) {
	var s unix.Stat_t
	if err := retry(func() error { return unix.Fstat(f.fd, &s) }); err != nil {
		return 0, pathError("fstat", f.name, err)
	}
	return s.Size, nil
}

func (f *osFile) Map(n int64) ([]byte, func() error, error) {
	size, err := f.Size()
	if err != nil {
		return nil, nil, err
	}
	if n < 0 || n > size {
		// Reading a mapping behind the end of its file is a SIGBUS.
		return nil, nil, rangeError("mmap", f.name, n, unix.EINVAL)
	}
	if n == 0 {
		return nil, func() error { return nil }, nil
	}
	data, err := unix.Mmap(f.fd, 0, int(n), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, nil, pathError("mmap", f.name, err)
	}
	name := f.name
	return data, func() error { return pathError("munmap", name, unix.Munmap(data)) }, nil
}
