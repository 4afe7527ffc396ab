package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sys/unix"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// atEveryCrash runs work once for each call of it that changes the disk,
// crashes there in every mode, and has check judge what is left.
func atEveryCrash(t *testing.T, prepare func(e *env), work func(e *env), check func(e *env, when string)) {
	t.Helper()
	for _, mode := range crashModes {
		for cut := 0; ; cut++ {
			mem := vfs.NewMem()
			e := newEnv(t, mem, LogConfig{SegmentBytes: 1000, FileDeleteDelayMs: 10})
			if err := e.start(); err != nil {
				t.Fatal(err)
			}
			prepare(e)
			n := 0
			var left *vfs.Mem
			mem.SetHook(func(c vfs.Call) error {
				if !c.Op.Changes() {
					return nil
				}
				if n == cut {
					left = mem.CrashClone(vfs.Crash{Mode: mode, Seed: uint64(cut)})
				}
				n++
				return nil
			})
			work(e)
			mem.SetHook(nil)
			if left == nil {
				break
			}
			after := &env{t: t, fs: left, dir: e.dir, exec: inPlace{}, clock: e.clock, cfg: e.cfg}
			if err := after.start(); err != nil {
				t.Fatalf("%v, cut %d: %v", mode, cut, err)
			}
			check(after, fmt.Sprintf("%v, cut %d", mode, cut))
			if err := after.m.Close(nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func names(t *testing.T, e *env) []string {
	t.Helper()
	entries, err := e.fs.ReadDir(e.dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, x := range entries {
		if x.IsDir {
			out = append(out, x.Name)
		}
	}
	return out
}

func TestCrashInCreate(t *testing.T) {
	atEveryCrash(t, func(*env) {}, func(e *env) {
		if _, err := e.m.Create(testTP, testID, e.cfg); err != nil {
			t.Fatal(err)
		}
	}, func(e *env, when string) {
		if dirs := names(t, e); len(dirs) > 1 || len(dirs) == 1 && dirs[0] != testTP.String() {
			t.Fatalf("%s: %v", when, dirs)
		}
		if e.log != nil && (e.log.TopicID() != testID || e.log.EndOffset() != 0) {
			t.Fatalf("%s: id %v, end %d", when, e.log.TopicID(), e.log.EndOffset())
		}
		l, err := e.m.Create(testTP, testID, e.cfg)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		mustAppend(t, l, batch(1, 1, 10, "x"))
	})
}

func TestCrashInDelete(t *testing.T) {
	atEveryCrash(t, func(e *env) {
		l, err := e.m.Create(testTP, testID, e.cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			mustAppend(t, l, batch(1, 1, 100, fmt.Sprint(i)))
		}
		if err := l.Flush(30); err != nil {
			t.Fatal(err)
		}
	}, func(e *env) {
		if err := e.m.Delete(testTP); err != nil {
			t.Fatal(err)
		}
		e.clock.advance(100)
		e.m.Tick()
	}, func(e *env, when string) {
		if e.log != nil {
			if e.log.EndOffset() != 30 {
				t.Fatalf("%s: end %d", when, e.log.EndOffset())
			}
		} else if dirs := names(t, e); len(dirs) > 0 {
			t.Fatalf("%s: %v", when, dirs)
		}
		// A topic of the same name and another id never shows old records, and a
		// later crash must not take its bytes for durable ones.
		l, err := e.m.Create(testTP, record.TopicID{9}, e.cfg)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		mustAppend(t, l, batch(1, 1, 10, "new"))
		if l = e.kill(vfs.Crash{Mode: vfs.CrashDrop}); l.EndOffset() > 1 || l.Err() != nil || l.TopicID() != (record.TopicID{9}) && l.EndOffset() != 0 {
			t.Fatalf("%s: new topic: id %v, end %d, %v", when, l.TopicID(), l.EndOffset(), l.Err())
		}
	})
}

func TestDeleteKeepsSpans(t *testing.T) {
	e := newEnv(t, vfs.OS(), LogConfig{FileDeleteDelayMs: 1})
	e.dir = t.TempDir()
	l := e.open()
	mustAppend(t, l, batch(1, 3, 100, "old"))
	s, err := l.Read(0, 3, 1<<20, true, false)
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	if err := e.m.Delete(testTP); err != nil {
		t.Fatal(err)
	}
	e.clock.advance(10)
	e.m.Tick()
	if dirs := names(t, e); len(dirs) != 0 {
		t.Fatalf("left: %v", dirs)
	}
	if a := appendBatch(l, batch(1, 1, 10, "late")); a.Err == nil {
		t.Fatal("a deleted log takes appends")
	}
	l2, err := e.m.Create(testTP, record.TopicID{7}, e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l2, batch(1, 1, 100, "new"))
	if b, _, err := record.Split(spanBytes(t, s)); err != nil || b.Count() != 3 || !b.VerifyCRC() {
		t.Fatalf("span of a deleted log: %v, %v", b, err)
	}
	if _, err := l.Read(0, 3, 1<<20, true, false); err == nil {
		t.Fatal("a deleted log opens files of its successor")
	}
	if err := e.m.Close(nil); err != nil {
		t.Fatal(err)
	}
}

func TestStraysAreKept(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{})
	mustAppend(t, e.open(), batch(1, 1, 10, "x"))
	e.stop()
	m, err := OpenManager(ManagerConfig{FS: e.fs, Dirs: []string{e.dir}, NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if m.ClusterID() != "c" {
		t.Fatalf("cluster %q", m.ClusterID())
	}
	err = m.Load(context.Background(), func(f FoundLog) (LogConfig, bool) {
		if f.TP != testTP || f.TopicID != testID {
			t.Errorf("found %+v", f)
		}
		return LogConfig{}, false
	}, nil)
	if err != nil || m.Get(testTP) != nil {
		t.Fatal(err)
	}
	dirs := names(t, e)
	if len(dirs) != 1 || !strings.HasPrefix(dirs[0], "t-0.") || !strings.HasSuffix(dirs[0], strayDirSuffix) {
		t.Fatalf("%v", dirs)
	}
	if found, err := m.Scan(); err != nil || len(found) != 0 {
		t.Fatal(found, err)
	}
	if err := m.Close(nil); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedDirectories(t *testing.T) {
	mem := vfs.NewMem()
	open := func(cluster string, node int32) (*Manager, error) {
		return OpenManager(ManagerConfig{FS: mem, Dirs: []string{testDir}, ClusterID: cluster, NodeID: node})
	}
	m, err := open("", 1)
	if err != nil || m.ClusterID() != "" {
		t.Fatal(err)
	}
	if err := m.SetClusterID("a=b:c"); err != nil {
		t.Fatal(err)
	}
	if _, err := open("a=b:c", 1); !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("locked: %v", err)
	}
	id := m.Dirs()[0].DirectoryID
	if err := m.Close(nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cluster string
		node    int32
		want    []string
	}{
		{"other", 1, []string{metaPropertiesName, "cluster.id", "a=b:c", "other"}},
		{"a=b:c", 2, []string{metaPropertiesName, "node.id", "1", "2"}},
	} {
		_, err := open(c.cluster, c.node)
		if err == nil {
			t.Fatalf("%+v is taken", c)
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
	}
	m, err = open("", 1)
	if err != nil || m.ClusterID() != "a=b:c" || m.Dirs()[0].DirectoryID != id || m.Unclean(testDir) != true {
		t.Fatal(m, err)
	}
	if err := m.Close(nil); err != nil {
		t.Fatal(err)
	}
}

func TestCleanMark(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{})
	mustAppend(t, e.open(), batch(1, 1, 10, "x"))
	if !e.m.Unclean(e.dir) {
		t.Error("a new directory is clean")
	}
	e.stop()
	if err := e.start(); err != nil || e.m.Unclean(e.dir) {
		t.Fatal("not clean after a clean stop", err)
	}
	// A start that was cut short must not cost a recovery, nor hide one.
	e.stop()
	for range 2 {
		m, err := OpenManager(ManagerConfig{FS: e.fs, Dirs: []string{e.dir}, NodeID: 1})
		if err != nil || m.Unclean(e.dir) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := m.Load(ctx, func(FoundLog) (LogConfig, bool) { return e.cfg, true }, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := m.Close(nil); err != nil {
			t.Fatal(err)
		}
	}
	if l := e.open(); l.EndOffset() != 1 {
		t.Fatalf("end %d", l.EndOffset())
	}
	e.kill(vfs.Crash{})
	if !e.m.Unclean(e.dir) {
		t.Error("clean after a kill")
	}
}

// TestCleanStartReadsNothing opens a log after a clean stop and watches what
// is opened.
func TestCleanStartReadsNothing(t *testing.T) {
	mem := vfs.NewMem()
	e := newEnv(t, mem, LogConfig{SegmentBytes: 1000})
	l := e.open()
	for i := range 50 {
		mustAppend(t, l, idempotent(1, 1, 0, record.Sequence(i), 1))
	}
	e.stop()
	mem.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpOpen && (strings.HasSuffix(c.Path, logSuffix) || strings.HasSuffix(c.Path, indexSuffix)) {
			t.Errorf("opens %s", c.Path)
		}
		return nil
	})
	if err := e.start(); err != nil {
		t.Fatal(err)
	}
	mem.SetHook(nil)
	if a := appendBatch(e.log, idempotent(1, 1, 0, 49, 1)); !a.Duplicate {
		t.Fatalf("%+v", a)
	}
}

func TestFailures(t *testing.T) {
	t.Run("full disk at a roll", func(t *testing.T) {
		mem := vfs.NewMem()
		e := newEnv(t, mem, LogConfig{SegmentBytes: 500})
		l := e.open()
		mustAppend(t, l, batch(1, 1, 100, "a"))
		mem.Inject(vfs.Fault{Op: vfs.OpCreate, Err: unix.ENOSPC, Times: -1})
		for i := range 10 { // no next segment: the active one goes on
			mustAppend(t, l, batch(1, 1, 100, fmt.Sprint(i)))
		}
		mem.ClearFaults()
		mustAppend(t, l, batch(1, 1, 100, "b"))
		if n := len(l.Segments()); n < 2 || l.Err() != nil {
			t.Fatalf("%d segments, %v", n, l.Err())
		}
	})
	t.Run("full disk behind a roll", func(t *testing.T) {
		mem := vfs.NewMem()
		e := newEnv(t, mem, LogConfig{SegmentBytes: 500})
		l := e.open()
		mem.Inject(vfs.Fault{Op: vfs.OpCreate, Path: "*.tmp", Err: unix.ENOSPC, Times: -1})
		for i := range 20 {
			mustAppend(t, l, batch(1, 1, 100, fmt.Sprint(i)))
		}
		e.m.Tick()
		if l.RecoveryPoint() != 0 || l.Err() != nil {
			t.Fatalf("recovery point %d, %v", l.RecoveryPoint(), l.Err())
		}
		mem.ClearFaults()
		e.m.Tick()
		if n := len(l.Segments()); n < 2 || l.RecoveryPoint() != l.Segments()[n-1].BaseOffset {
			t.Fatalf("%d segments, recovery point %d", n, l.RecoveryPoint())
		}
	})
	t.Run("failed sync", func(t *testing.T) {
		mem := vfs.NewMem()
		e := newEnv(t, mem, LogConfig{})
		l := e.open()
		mustAppend(t, l, batch(1, 1, 100, "a"))
		mem.Inject(vfs.Fault{Op: vfs.OpDatasync, Err: unix.EIO})
		if err := l.Flush(1); !errors.Is(err, unix.EIO) || l.Err() == nil || l.RecoveryPoint() != 0 {
			t.Fatalf("%v, %v, recovery point %d", err, l.Err(), l.RecoveryPoint())
		}
		if a := appendBatch(l, batch(1, 1, 100, "b")); a.Err == nil {
			t.Fatal("appends go on after a failed sync")
		}
		if got := readAll(t, l, 0, 1000); len(got) != 1 {
			t.Fatalf("reads %v", got)
		}
		if err := e.m.Close(nil); err != nil {
			t.Fatal(err)
		}
		if err := e.start(); err != nil || !e.m.Unclean(e.dir) {
			t.Fatal("a stop after a failed sync is not clean", err)
		}
	})
	t.Run("damage below the recovery point", func(t *testing.T) {
		mem := vfs.NewMem()
		e := newEnv(t, mem, LogConfig{})
		l := e.open()
		for i := range 10 {
			mustAppend(t, l, batch(1, 1, 100, fmt.Sprint(i)))
		}
		if err := l.Flush(10); err != nil {
			t.Fatal(err)
		}
		if err := e.m.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		name := join(l.Dir(), segmentName(0, logSuffix))
		f, err := mem.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xff}, 300); err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil {
			t.Fatal(err)
		}
		l = e.kill(vfs.Crash{})
		var damage *CorruptionError
		if !errors.As(l.Err(), &damage) || damage.File != name || damage.Position > 300 {
			t.Fatalf("%v", l.Err())
		}
		if x, err := e.fs.Stat(name); err != nil || x.Size != size {
			t.Fatalf("cut to %d of %d, %v", x.Size, size, err)
		}
		if l.EndOffset() != 10 {
			t.Fatalf("end %d", l.EndOffset())
		}
		got, err := tryReadAll(l, 0, 1000)
		if !errors.Is(err, kerr.KafkaStorageError) || len(got) == 0 {
			t.Fatalf("%d records, %v", len(got), err)
		}
		if err := l.TruncateSuffix(5); err == nil {
			t.Fatal("a damaged log is truncated")
		}
		if err := e.m.Close(nil); err != nil {
			t.Fatal(err)
		}
		if err := e.start(); err != nil || !e.m.Unclean(e.dir) || e.log.EndOffset() != 10 {
			t.Fatal("damage is forgotten after a stop", err)
		}
	})
}

func TestSetStartOffsetOfADeletedLog(t *testing.T) {
	e := newEnv(t, vfs.NewMem(), LogConfig{})
	l := e.open()
	mustAppend(t, l, batch(e.clock.now, 10, 10, "a"))
	if err := e.m.Delete(testTP); err != nil {
		t.Fatal(err)
	}
	if err := l.SetStartOffset(5); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("SetStartOffset after Delete: %v, want UNKNOWN_TOPIC_OR_PARTITION", err)
	}
}
