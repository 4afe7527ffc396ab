package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOSAllocations holds the calls of the hot path to no allocation.
func TestOSAllocations(t *testing.T) {
	f := put(t, OS(), filepath.Join(t.TempDir(), "f"), "0123456789")
	defer f.Close()
	p := make([]byte, 8)
	bufs := [][]byte{p[:2], p[2:3], p[3:]}
	calls := map[string]func(){
		"ReadAt":     func() { _, _ = f.ReadAt(p, 0) },
		"ReadNowait": func() { _, _ = f.ReadNowait(p, 0) },
		"WriteAt":    func() { _, _ = f.WriteAt(p, 0) },
		"WritevAt":   func() { _, _ = f.WritevAt(bufs, 0) },
		"SyncRange":  func() { _ = f.SyncRange(0, 8) },
	}
	for name, call := range calls {
		// The pool may be emptied by a collection in between; an average below
		// one is that and not the call.
		if n := testing.AllocsPerRun(200, call); n >= 1 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// TestOSNowait sees ErrWouldBlock for pages that were dropped, or the bytes
// where the file system keeps them in memory.
func TestOSNowait(t *testing.T) {
	f := put(t, OS(), filepath.Join(t.TempDir(), "f"), "")
	defer f.Close()
	const size = 8 << 20
	_, err := f.WriteAt(make([]byte, size), 0)
	must(t, err)
	must(t, f.Sync())
	must(t, f.DropBehind(0, size))
	p := make([]byte, 1)
	n, err := f.ReadNowait(p, size-1)
	if err != nil && err != ErrWouldBlock || err == nil && n != 1 {
		t.Fatalf("read %d, %v", n, err)
	}
	if _, err := f.ReadAt(p, size-1); err != nil {
		t.Fatal(err)
	}
	if n, err := f.ReadNowait(p, size-1); n != 1 || err != nil {
		t.Fatalf("just read, yet %d, %v", n, err)
	}
}

// TestOSLockAgainstJava takes the lock that Java's FileChannel.lock takes and
// expects ours to be refused.
func TestOSLockAgainstJava(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	other, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	defer other.Close()
	l := unix.Flock_t{Type: unix.F_WRLCK}
	must(t, unix.FcntlFlock(other.Fd(), unix.F_OFD_SETLK, &l))
	_, err = OS().Lock(name)
	wantErr(t, err, ErrLocked)
}

// TestOSFullDevice sees ENOSPC with its position, from the device that is
// always full.
func TestOSFullDevice(t *testing.T) {
	f, err := OS().Open("/dev/full")
	if err != nil {
		// A sandbox without the device has nothing to test against.
		t.Logf("no /dev/full: %v", err)
		return
	}
	defer f.Close()
	_, err = f.WritevAt([][]byte{{1}, {2}}, 0)
	wantErr(t, err, unix.ENOSPC)
	_, err = f.WriteAt([]byte{1}, 0)
	wantErr(t, err, unix.ENOSPC)
}

func BenchmarkOSWritev(b *testing.B) {
	f, err := OS().Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	bufs := [][]byte{make([]byte, 100), make([]byte, 100), make([]byte, 100), make([]byte, 100)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.WritevAt(bufs, 0); err != nil {
			b.Fatal(err)
		}
	}
}
