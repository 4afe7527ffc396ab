package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// crashes are the states that a disk may be in, over some seeds.
func crashes(m *Mem, mode CrashMode, seeds uint64) []*Mem {
	var after []*Mem
	for seed := range seeds {
		after = append(after, m.CrashClone(Crash{Mode: mode, Seed: seed}))
	}
	return after
}

// describe is a file system as text: names in order, with what files hold.
func describe(t *testing.T, m *Mem, dir string) string {
	t.Helper()
	list, err := m.ReadDir(dir)
	must(t, err)
	var s strings.Builder
	for _, e := range list {
		if e.IsDir {
			fmt.Fprintf(&s, "%s/{%s} ", e.Name, describe(t, m, dir+"/"+e.Name))
			continue
		}
		data, err := m.ReadFile(dir + "/" + e.Name)
		must(t, err)
		fmt.Fprintf(&s, "%s=%s ", e.Name, strings.ReplaceAll(string(data), "\x00", "."))
	}
	return strings.TrimSpace(s.String())
}

// states are the distinct descriptions of what a crash may leave.
func states(t *testing.T, m *Mem, mode CrashMode) []string {
	t.Helper()
	var all []string
	for _, after := range crashes(m, mode, 200) {
		all = append(all, describe(t, after, "/"))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestMemCrashNames(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/a", "A")
	must(t, f.Sync())
	for mode, want := range map[CrashMode][]string{
		CrashKeep: {"a=A"}, CrashDrop: {""}, CrashTear: {"", "a=A"}, CrashReorder: {"", "a=A"},
	} {
		if got := states(t, m, mode); !slices.Equal(got, want) {
			t.Errorf("%v: a created file without SyncDir: %q, want %q", mode, got, want)
		}
	}
	must(t, m.SyncDir("/"))
	must(t, m.Rename("/a", "/b"))
	for mode, want := range map[CrashMode][]string{
		CrashKeep: {"b=A"}, CrashDrop: {"a=A"}, CrashTear: {"a=A", "b=A"}, CrashReorder: {"a=A", "b=A"},
	} {
		if got := states(t, m, mode); !slices.Equal(got, want) {
			t.Errorf("%v: a renamed file without SyncDir: %q, want %q", mode, got, want)
		}
	}
	must(t, m.SyncDir("/"))
	must(t, m.Remove("/b"))
	if got := states(t, m, CrashReorder); !slices.Equal(got, []string{"", "b=A"}) {
		t.Errorf("a removed file without SyncDir: %q", got)
	}
}

func TestMemCrashContent(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/f", "old")
	m.SyncAll()
	_, err := f.WriteAt([]byte("NEWER"), 0)
	must(t, err)
	for mode, want := range map[CrashMode][]string{
		CrashKeep: {"f=NEWER"}, CrashDrop: {"f=old"},
		CrashTear:    {"f=NEWER", "f=old", "f=old.."},
		CrashReorder: {"f=NEW", "f=NEWER", "f=old", "f=old.."},
	} {
		if got := states(t, m, mode); !slices.Equal(got, want) {
			t.Errorf("%v: %q, want %q", mode, got, want)
		}
	}
	must(t, f.Datasync())
	for _, mode := range []CrashMode{CrashKeep, CrashDrop, CrashTear, CrashReorder} {
		if got := states(t, m, mode); !slices.Equal(got, []string{"f=NEWER"}) {
			t.Errorf("%v after a sync: %q", mode, got)
		}
	}
}

// TestMemCrashPages sees pages come out of order and torn at sectors, never in
// a state they were not in.
func TestMemCrashPages(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/f", "")
	m.SyncAll()
	for _, c := range "abc" {
		_, err := f.WriteAt(bytes.Repeat([]byte{byte(c)}, 3*pageSize), 0)
		must(t, err)
	}
	outOfOrder, torn := false, false
	for _, after := range crashes(m, CrashReorder, 300) {
		data, err := after.ReadFile("/f")
		must(t, err)
		if len(data) != 0 && len(data) != 3*pageSize {
			t.Fatalf("size %d", len(data))
		}
		for len(data) > 0 {
			page := data[:pageSize]
			data = data[pageSize:]
			for s := 0; s < pageSize; s += sectorSize {
				sector := page[s : s+sectorSize]
				if !bytes.Equal(sector, bytes.Repeat(sector[:1], sectorSize)) {
					t.Fatal("torn inside a sector")
				}
			}
			torn = torn || page[0] != page[pageSize-1]
			outOfOrder = outOfOrder || len(data) > 0 && page[0] < data[0]
		}
	}
	if !outOfOrder || !torn {
		t.Fatalf("no crash was out of order (%v) or torn (%v)", outOfOrder, torn)
	}
}

// TestMemCrashTruncated sees what was cut off come back behind a new write, as
// it can on ext4, unless the cut was synced.
func TestMemCrashTruncated(t *testing.T) {
	for _, synced := range []bool{false, true} {
		m := NewMem()
		f := put(t, m, "/f", strings.Repeat("A", pageSize)+strings.Repeat("C", pageSize))
		m.SyncAll()
		must(t, f.Truncate(0))
		if synced {
			must(t, f.Sync())
		}
		_, err := f.WriteAt(bytes.Repeat([]byte("B"), pageSize), 0)
		must(t, err)
		revived := false
		for _, after := range crashes(m, CrashReorder, 200) {
			data, err := after.ReadFile("/f")
			must(t, err)
			revived = revived || len(data) > pageSize && data[0] == 'B' && data[pageSize] == 'C'
		}
		if revived == synced {
			t.Errorf("synced %v: the cut page came back %v", synced, revived)
		}
	}
}

func TestMemCrashIsFinal(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/f", "x")
	_, err := m.Lock("/.lock")
	must(t, err)
	after := m.Crash(Crash{Mode: CrashKeep})
	_, err = f.WriteAt([]byte("y"), 0)
	wantErr(t, err, ErrCrashed)
	wantErr(t, f.Sync(), ErrCrashed)
	_, err = m.Open("/f")
	wantErr(t, err, ErrCrashed)
	wantContent(t, after, "/f", "x")
	l, err := after.Lock("/.lock")
	must(t, err)
	must(t, l.Close())
	if got := states(t, after, CrashDrop); !slices.Equal(got, []string{".lock= f=x"}) {
		t.Fatalf("after a crash not everything is durable: %q", got)
	}
}

// TestMemAtomicWrite cuts the power before every call of WriteFileAtomic: the
// file holds the old content or the new, whatever the disk did.
func TestMemAtomicWrite(t *testing.T) {
	m := NewMem()
	must(t, m.WriteFileAtomic("/f", []byte("old")))
	m.SetHook(func(c Call) error {
		for _, mode := range []CrashMode{CrashKeep, CrashDrop, CrashTear, CrashReorder} {
			for _, after := range crashes(m, mode, 20) {
				data, err := after.ReadFile("/f")
				if err != nil || string(data) != "old" && string(data) != "new" {
					t.Fatalf("%v before call %d, %v: %q, %v", mode, c.N, c.Op, data, err)
				}
			}
		}
		return nil
	})
	must(t, m.WriteFileAtomic("/f", []byte("new")))
	m.SetHook(nil)
	for _, mode := range []CrashMode{CrashDrop, CrashTear, CrashReorder} {
		for _, after := range crashes(m, mode, 20) {
			wantContent(t, after, "/f", "new")
		}
	}
}

func TestMemSameSeedSameDisk(t *testing.T) {
	m := NewMem()
	for i := range 20 {
		put(t, m, fmt.Sprintf("/%02d", i), strings.Repeat("x", i*700))
	}
	for _, mode := range []CrashMode{CrashTear, CrashReorder} {
		a := describe(t, m.CrashClone(Crash{Mode: mode, Seed: 7}), "/")
		if b := describe(t, m.CrashClone(Crash{Mode: mode, Seed: 7}), "/"); a != b {
			t.Errorf("%v: %q and %q", mode, a, b)
		}
	}
}

func TestMemFaults(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/00.log", "")
	m.Inject(Fault{Op: OpWrite, Path: "*.log", Skip: 1, Err: unix.EIO})
	m.Inject(Fault{Op: OpSync, Times: -1, Err: unix.EIO})
	_, err := f.WriteAt([]byte("a"), 0)
	must(t, err)
	n, err := f.WriteAt([]byte("b"), 1)
	wantErr(t, err, unix.EIO)
	if n != 0 {
		t.Fatalf("wrote %d", n)
	}
	var pathErr *fs.PathError
	if !errors.As(err, &pathErr) || pathErr.Path != "/00.log" {
		t.Fatalf("error %v does not name the file", err)
	}
	_, err = f.WriteAt([]byte("c"), 1)
	must(t, err)
	for range 2 {
		wantErr(t, f.Sync(), unix.EIO)
	}
	m.ClearFaults()
	m.Inject(Fault{Op: OpWrite, Err: unix.ENOSPC, Short: 3})
	n, err = f.WritevAt([][]byte{[]byte("de"), []byte("fg")}, 2)
	wantErr(t, err, unix.ENOSPC)
	if n != 3 {
		t.Fatalf("short write of %d", n)
	}
	wantContent(t, m, "/00.log", "acdef")
	m.SetHook(func(c Call) error {
		if c.Op == OpReadNowait {
			return ErrWouldBlock
		}
		return nil
	})
	if _, err := f.ReadNowait(make([]byte, 1), 0); err != ErrWouldBlock {
		t.Fatalf("hook's error came as %v", err)
	}
}

// TestMemFailedSync: after fsync has failed the pages count as clean, so the
// next fsync succeeds without making them durable.
func TestMemFailedSync(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/f", "old")
	m.SyncAll()
	_, err := f.WriteAt([]byte("new"), 0)
	must(t, err)
	m.Inject(Fault{Op: OpSync, Err: unix.EIO})
	wantErr(t, f.Sync(), unix.EIO)
	must(t, f.Sync())
	if got := states(t, m, CrashDrop); !slices.Equal(got, []string{"f=old"}) {
		t.Fatalf("a failed sync's page became durable: %q", got)
	}
	_, err = f.WriteAt([]byte("new"), 0)
	must(t, err)
	must(t, f.Sync())
	if got := states(t, m, CrashDrop); !slices.Equal(got, []string{"f=new"}) {
		t.Fatalf("written again and synced: %q", got)
	}
}

func TestMemCapacity(t *testing.T) {
	m := NewMem()
	m.SetCapacity(100)
	f := put(t, m, "/f", strings.Repeat("x", 60))
	g, err := m.Create("/g")
	must(t, err)
	wantErr(t, g.Preallocate(0, 50), unix.ENOSPC)
	must(t, g.Preallocate(0, 30))
	n, err := f.WriteAt(bytes.Repeat([]byte("y"), 20), 60)
	wantErr(t, err, unix.ENOSPC)
	if n != 10 {
		t.Fatalf("wrote %d where 10 bytes fit", n)
	}
	_, err = f.WriteAt(bytes.Repeat([]byte("z"), 70), 0)
	must(t, err)
	_, err = g.WriteAt(bytes.Repeat([]byte("g"), 30), 0)
	must(t, err)
	if free, total, err := m.DiskFree("/"); free != 0 || total != 100 || err != nil {
		t.Fatalf("free %d of %d, %v", free, total, err)
	}
	must(t, m.Remove("/g"))
	if free, _, err := m.DiskFree("/"); free != 30 || err != nil {
		t.Fatalf("free %d after a removal, %v", free, err)
	}
}

// TestMemConcurrent is for the race detector: calls of several goroutines, and
// the power cut among them.
func TestMemConcurrent(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/f", "")
	var done sync.WaitGroup
	for i := range 4 {
		done.Go(func() {
			for j := range 200 {
				_, err := f.WriteAt([]byte{byte(i)}, int64(j))
				if err == nil {
					_, err = f.ReadAt(make([]byte, 1), int64(j))
				}
				if err == nil && j%10 == 0 {
					err = errors.Join(f.Sync(), m.WriteFileAtomic(fmt.Sprintf("/c%d", i), []byte("x")))
				}
				if err != nil && !errors.Is(err, ErrCrashed) {
					t.Error(err)
				}
			}
		})
	}
	for seed := range uint64(20) {
		describe(t, m.CrashClone(Crash{Mode: CrashReorder, Seed: seed}), "/")
	}
	m.Crash(Crash{})
	done.Wait()
}
