package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestConformance holds every implementation to the same behaviour.
func TestConformance(t *testing.T) {
	implementations := []struct {
		name string
		open func(t *testing.T) (FS, string)
	}{
		{"os", func(t *testing.T) (FS, string) { return OS(), t.TempDir() }},
		{"mem", func(t *testing.T) (FS, string) {
			m := NewMem()
			must(t, m.MkdirAll("/some/where"))
			return m, "/some/where"
		}},
	}
	tests := []struct {
		name string
		run  func(t *testing.T, fsys FS, dir string)
	}{
		{"names", testNames}, {"files", testFiles}, {"vectored", testVectored}, {"random", testRandom},
		{"truncate", testTruncate}, {"allocate", testAllocate}, {"map", testMap}, {"atomic", testAtomic},
		{"locks", testLocks}, {"readonly", testReadOnly}, {"unlinked", testUnlinked}, {"errors", testErrors},
	}
	for _, impl := range implementations {
		for _, test := range tests {
			t.Run(impl.name+"/"+test.name, func(t *testing.T) {
				fsys, dir := impl.open(t)
				test.run(t, fsys, dir)
			})
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// put writes a file without syncing it.
func put(t *testing.T, fsys FS, name string, data string) File {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	n, err := f.WriteAt([]byte(data), 0)
	must(t, err)
	if n != len(data) {
		t.Fatalf("wrote %d of %d", n, len(data))
	}
	return f
}

func wantContent(t *testing.T, fsys FS, name, want string) {
	t.Helper()
	got, err := fsys.ReadFile(name)
	must(t, err)
	if string(got) != want {
		t.Fatalf("%s holds %q, want %q", name, got, want)
	}
}

func testNames(t *testing.T, fsys FS, dir string) {
	p := func(name string) string { return filepath.Join(dir, name) }
	must(t, fsys.MkdirAll(p("a/b/c")))
	must(t, fsys.MkdirAll(p("a/b/c")))
	wantErr(t, fsys.Mkdir(p("a")), fs.ErrExist)
	wantErr(t, fsys.Mkdir(p("no/parent")), fs.ErrNotExist)
	must(t, put(t, fsys, p("a/2"), "two").Close())
	must(t, put(t, fsys, p("a/1"), "one!").Close())
	list, err := fsys.ReadDir(p("a"))
	must(t, err)
	if len(list) != 3 || list[0].Name != "1" || list[0].Size != 4 || list[0].IsDir || list[1].Name != "2" ||
		list[2].Name != "b" || !list[2].IsDir || list[0].ModTime.IsZero() {
		t.Fatalf("list %+v", list)
	}
	must(t, fsys.Rename(p("a/1"), p("a/2")))
	wantContent(t, fsys, p("a/2"), "one!")
	must(t, fsys.Rename(p("a"), p("z")))
	wantContent(t, fsys, p("z/2"), "one!")
	must(t, fsys.Rename(p("z/2"), p("z/b/c/3")))
	wantContent(t, fsys, p("z/b/c/3"), "one!")
	wantErr(t, fsys.Rename(p("none"), p("other")), fs.ErrNotExist)
	wantErr(t, fsys.Remove(p("z")), unix.ENOTEMPTY)
	wantErr(t, fsys.Remove(p("none")), fs.ErrNotExist)
	e, err := fsys.Stat(p("z/b/c/3"))
	must(t, err)
	if e.Name != "3" || e.Size != 4 || e.IsDir {
		t.Fatalf("stat %+v", e)
	}
	must(t, fsys.SyncDir(p("z")))
	wantErr(t, fsys.SyncDir(p("none")), fs.ErrNotExist)
	must(t, fsys.RemoveAll(p("z")))
	must(t, fsys.RemoveAll(p("z")))
	for name, want := range map[string]bool{"z": false, "": true} {
		got, err := fsys.Exists(p(name))
		must(t, err)
		if got != want {
			t.Fatalf("exists %q: %v", name, got)
		}
	}
	free, total, err := fsys.DiskFree(dir)
	must(t, err)
	if free <= 0 || total < free {
		t.Fatalf("free %d of %d", free, total)
	}
}

func testFiles(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	f := put(t, fsys, name, "0123456789")
	if f.Name() != name {
		t.Fatalf("name %q", f.Name())
	}
	p := make([]byte, 4)
	for _, read := range []func([]byte, int64) (int, error){f.ReadAt, f.ReadNowait} {
		n, err := read(p, 3)
		must(t, err)
		if n != 4 || string(p) != "3456" {
			t.Fatalf("read %d %q", n, p)
		}
		if n, err = read(p, 8); n != 2 || err != io.EOF || string(p[:2]) != "89" {
			t.Fatalf("read at the end: %d %v", n, err)
		}
		if n, err = read(p, 100); n != 0 || err != io.EOF {
			t.Fatalf("read behind the end: %d %v", n, err)
		}
	}
	_, err := f.WriteAt([]byte("ab"), 12)
	must(t, err)
	wantContent(t, fsys, name, "0123456789\x00\x00ab")
	must(t, f.Sync())
	must(t, f.Datasync())
	must(t, f.SyncRange(0, 4))
	must(t, f.DropBehind(0, 4))
	must(t, f.Close())
	if f.Close() == nil {
		t.Fatal("closed twice")
	}
	f, err = fsys.Create(name)
	must(t, err)
	if size, err := f.Size(); err != nil || size != 0 {
		t.Fatalf("created over a file: %d, %v", size, err)
	}
	must(t, f.Close())
}

func testVectored(t *testing.T, fsys FS, dir string) {
	f := put(t, fsys, filepath.Join(dir, "f"), "")
	defer f.Close()
	for _, count := range []int{0, 1, 2, 3, iovMax - 1, iovMax, iovMax + 1, 3*iovMax + 7} {
		var bufs [][]byte
		var want []byte
		for i := range count {
			b := bytes.Repeat([]byte{byte('a' + i%26)}, i%5)
			bufs = append(bufs, b)
			want = append(want, b...)
		}
		must(t, f.Truncate(0))
		n, err := f.WritevAt(bufs, 5)
		must(t, err)
		got := make([]byte, len(want))
		if _, err := f.ReadAt(got, 5); err != nil || n != len(want) || !bytes.Equal(got, want) {
			t.Fatalf("%d buffers: wrote %d of %d, %v", count, n, len(want), err)
		}
		if len(bufs) != count || count > 3 && len(bufs[3]) != 3 {
			t.Fatal("buffers were changed")
		}
	}
}

// testRandom compares a file with a slice under random calls.
func testRandom(t *testing.T, fsys FS, dir string) {
	f := put(t, fsys, filepath.Join(dir, "f"), "")
	defer f.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var model []byte
	for range 300 {
		switch rng.IntN(5) {
		case 0:
			n := rng.IntN(3 * pageSize)
			must(t, f.Truncate(int64(n)))
			model = append(model, make([]byte, max(n-len(model), 0))...)[:n]
		case 1:
			must(t, f.Sync())
		default:
			off := rng.IntN(3 * pageSize)
			p := bytes.Repeat([]byte{byte(rng.IntN(256))}, 1+rng.IntN(2*pageSize))
			_, err := f.WritevAt([][]byte{p[:1], p[1:]}, int64(off))
			must(t, err)
			model = append(model, make([]byte, max(off+len(p)-len(model), 0))...)
			copy(model[off:], p)
		}
		size, err := f.Size()
		must(t, err)
		got := make([]byte, size)
		if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, model) {
			t.Fatalf("file of %d bytes differs from its model of %d: %v", size, len(model), err)
		}
	}
}

func testTruncate(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	f := put(t, fsys, name, "0123456789")
	defer f.Close()
	must(t, f.Truncate(4))
	must(t, f.Truncate(6))
	wantContent(t, fsys, name, "0123\x00\x00")
	must(t, f.Truncate(0))
	if size, err := f.Size(); err != nil || size != 0 {
		t.Fatalf("size %d, %v", size, err)
	}
}

func testAllocate(t *testing.T, fsys FS, dir string) {
	f := put(t, fsys, filepath.Join(dir, "f"), "0123")
	defer f.Close()
	must(t, f.Preallocate(0, 1<<16))
	if size, err := f.Size(); err != nil || size != 4 {
		t.Fatalf("Preallocate changed the size to %d, %v", size, err)
	}
	must(t, f.Extend(0, 1<<16))
	if size, err := f.Size(); err != nil || size != 1<<16 {
		t.Fatalf("Extend left the size at %d, %v", size, err)
	}
	p := make([]byte, 1<<16)
	_, err := f.ReadAt(p, 0)
	must(t, err)
	if string(p[:4]) != "0123" || !bytes.Equal(p[4:], make([]byte, 1<<16-4)) {
		t.Fatal("extended by something else than zeros")
	}
	must(t, f.Extend(0, 8))
	if size, err := f.Size(); err != nil || size != 1<<16 {
		t.Fatalf("Extend inside changed the size to %d, %v", size, err)
	}
}

func testMap(t *testing.T, fsys FS, dir string) {
	f := put(t, fsys, filepath.Join(dir, "f"), "0123456789")
	data, unmap, err := f.Map(7)
	must(t, err)
	empty, unmapEmpty, err := f.Map(0)
	must(t, err)
	if _, _, err := f.Map(11); err == nil {
		t.Fatal("mapped behind the end")
	}
	must(t, f.Close())
	if string(data) != "0123456" || len(empty) != 0 {
		t.Fatalf("mapped %q and %q", data, empty)
	}
	must(t, unmap())
	must(t, unmapEmpty())
}

func testAtomic(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "checkpoint")
	for _, content := range []string{"first", "", "the second is longer"} {
		must(t, fsys.WriteFileAtomic(name, []byte(content)))
		wantContent(t, fsys, name, content)
	}
	list, err := fsys.ReadDir(dir)
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("left behind: %+v", list)
	}
	if err := fsys.WriteFileAtomic(filepath.Join(dir, "none", "x"), nil); err == nil {
		t.Fatal("wrote into a missing directory")
	}
}

func testLocks(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, ".lock")
	l, err := fsys.Lock(name)
	must(t, err)
	_, err = fsys.Lock(name)
	wantErr(t, err, ErrLocked)
	var pathErr *fs.PathError
	if !errors.As(err, &pathErr) || pathErr.Path != name {
		t.Fatalf("error %v does not name the file", err)
	}
	must(t, l.Close())
	l, err = fsys.Lock(name)
	must(t, err)
	must(t, l.Close())
}

func testReadOnly(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	must(t, put(t, fsys, name, "0123").Close())
	f, err := fsys.OpenRead(name)
	must(t, err)
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("wrote to a file opened for reading")
	}
	must(t, f.Close())
	f, err = fsys.Open(name)
	must(t, err)
	_, err = f.WriteAt([]byte("x"), 1)
	must(t, err)
	must(t, f.Close())
	wantContent(t, fsys, name, "0x23")
}

// testUnlinked reads and writes a file whose name is gone, as a consumer of a
// deleted segment does.
func testUnlinked(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "f")
	f := put(t, fsys, name, "0123")
	must(t, fsys.Remove(name))
	_, err := f.WriteAt([]byte("45"), 4)
	must(t, err)
	p := make([]byte, 6)
	_, err = f.ReadAt(p, 0)
	must(t, err)
	if string(p) != "012345" {
		t.Fatalf("read %q", p)
	}
	must(t, f.Close())
}

func testErrors(t *testing.T, fsys FS, dir string) {
	name := filepath.Join(dir, "none")
	_, err := fsys.Open(name)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.OpenRead(name)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.ReadFile(name)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Stat(name)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.ReadDir(name)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Create(filepath.Join(name, "f"))
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Open(dir)
	wantErr(t, err, unix.EISDIR)
	must(t, put(t, fsys, filepath.Join(dir, "f"), "").Close())
	_, err = fsys.ReadDir(filepath.Join(dir, "f"))
	wantErr(t, err, unix.ENOTDIR)
	if err := fsys.MkdirAll(filepath.Join(dir, "f", "g")); err == nil {
		t.Fatal("made a directory inside a file")
	}
}
