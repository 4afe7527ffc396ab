package metalocal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/replication/meta/metatest"
)

func TestMemory(t *testing.T) {
	metatest.Run(t, func(*testing.T) metatest.Target {
		return metatest.Target{
			Open:     func(t *testing.T) meta.Store { return open(t, "") },
			Patience: 10 * time.Second,
		}
	})
}

func TestFile(t *testing.T) {
	metatest.Run(t, func(t *testing.T) metatest.Target {
		path := filepath.Join(t.TempDir(), "made", "by", "open", "meta.db")
		return metatest.Target{
			Open:     func(t *testing.T) meta.Store { return open(t, path) },
			Durable:  true,
			Patience: 10 * time.Second,
		}
	})
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *Store, key, value string) {
	t.Helper()
	if _, err := s.Txn(context.Background(), nil, []meta.Op{meta.Put(key, []byte(value))}); err != nil {
		t.Fatal(err)
	}
}

func TestLockedFileNamesItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	s := open(t, path)
	if s.Path() != path {
		t.Fatalf("path is %q", s.Path())
	}
	start := time.Now()
	_, err := Open(path)
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "in use by another process") {
		t.Fatalf("error is %v", err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Fatalf("took %v to say so", d)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestFileIsSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	s := open(t, path)
	put(t, s, "cluster", "x")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 128<<10 {
		t.Fatalf("an almost empty store takes %d bytes", info.Size())
	}
}

// TestDamage damages a file in every way that a disk or a person does: opening
// it either says which file is damaged, or finds what was written.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "meta.db")
	s := open(t, path)
	want := map[string]string{}
	for i := range 200 {
		key := fmt.Sprintf("topics/%03d", i)
		want[key] = strings.Repeat(fmt.Sprint(i), 50)
		put(t, s, key, want[key])
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	rounds := 300
	if testing.Short() {
		rounds = 60
	}
	for round := range rounds {
		bad := bytes.Clone(good)
		switch how := random.IntN(4); how {
		case 0:
			bad = bad[:random.IntN(len(bad))]
			if len(bad) == 0 {
				continue // an empty file is a new store
			}
		case 1:
			bad[random.IntN(len(bad))] ^= byte(1 + random.IntN(255))
		case 2:
			page := 4096 * random.IntN(len(bad)/4096)
			clear(bad[page : page+4096])
		case 3:
			for i := 4096 * random.IntN(len(bad)/4096); i < len(bad); i++ {
				bad[i] = byte(random.IntN(256))
			}
		}
		name := filepath.Join(dir, fmt.Sprintf("bad-%d.db", round))
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		checkDamaged(t, name, want, fmt.Sprintf("seed %d round %d", seed, round))
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

func checkDamaged(t *testing.T, name string, want map[string]string, what string) {
	t.Helper()
	s, err := Open(name)
	if err != nil {
		if !strings.Contains(err.Error(), name) {
			t.Fatalf("%s: error does not name the file: %v", what, err)
		}
		return
	}
	defer s.Close()
	entries, _, err := s.List(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	// bbolt falls back to the transaction before when the last one is damaged.
	if len(entries) < len(want)-1 {
		t.Fatalf("%s: %d of %d entries are missing without a word", what, len(want)-len(entries), len(want))
	}
	for _, e := range entries {
		if want[e.Key] != string(e.Value) {
			t.Fatalf("%s: %q has the value %q, which was never written", what, e.Key, e.Value)
		}
	}
}

// TestCutFileIsLetGo cuts a file so that bbolt panics while it opens it: neither
// descriptor nor lock may stay behind.
func TestCutFileIsLetGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	s := open(t, path)
	for i := range 50 {
		put(t, s, fmt.Sprint(i), strings.Repeat("x", 5000))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{len(whole) / 2, 10000, 4096, 100} {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err := Open(path)
			if err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Fatalf("cut to %d bytes: error is %v", size, err)
			}
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestErrorsOfTheSystemAreNotDamage(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "meta.db"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(dir, "meta.db"))
	if err == nil || strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "meta.db") {
		t.Fatalf("error is %v", err)
	}
}

func TestForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	if err := os.WriteFile(path, []byte("server.properties, perhaps"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("error is %v", err)
	}
}

// TestRevisionsOutliveEphemeralWrites writes nothing durable for long.
func TestRevisionsOutliveEphemeralWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	s := open(t, path)
	put(t, s, "k", "1")
	s.revision = s.durable + revisionGap - 2
	var last meta.Version
	for range 5 {
		r, err := s.Register(context.Background(), "live/1", nil, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		last = r.Entry().Version
		if err := r.Revoke(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if s.revision <= meta.Revision(last) {
		t.Fatalf("store begins at revision %d, %d was used", s.revision, last)
	}
}

func TestWatchFromLongAgo(t *testing.T) {
	s := open(t, "")
	for i := range 3 * historyEvents {
		put(t, s, "k", fmt.Sprint(i))
	}
	if _, err := s.Watch(context.Background(), "", 1); !errors.Is(err, meta.ErrCompacted) {
		t.Fatalf("error is %v", err)
	}
	if _, err := s.Watch(context.Background(), "", s.revision-historyEvents/2); err != nil {
		t.Fatal(err)
	}
}

// TestFailedWrite fails a write by closing the database under the
// store: nothing may be shown that is not in the file.
func TestFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	s := open(t, path)
	put(t, s, "k", "1")
	if err := s.file.db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Txn(context.Background(), nil, []meta.Op{meta.Put("k", []byte("2"))}); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("error is %v", err)
	}
	if _, err := s.Get(context.Background(), "k"); !errors.Is(err, meta.ErrClosed) {
		t.Fatalf("a store that cannot read its file answers %v", err)
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "meta.db")
	for b.Loop() {
		s, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTxn(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "meta.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		if _, err := s.Txn(context.Background(), nil, []meta.Op{meta.Put("k", []byte("v"))}); err != nil {
			b.Fatal(err)
		}
	}
}
