package broker

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// refusal is a start that must fail.
type refusal struct {
	name string
	// sabotage spoils a directory in which a node ran before, and returns
	// overrides for the start and what undoes it.
	sabotage func(t *testing.T, dir string) (overrides []string, undo func())
	want     []string // what the error must name; DIR stands for the directory
}

var refusals = []refusal{
	{"directory in use", func(t *testing.T, dir string) ([]string, func()) {
		b := start(t, dir)
		return nil, func() { stop(t, b) }
	}, []string{"DIR/.lock"}},
	{"another node's directory", func(t *testing.T, dir string) ([]string, func()) {
		return []string{"node.id=7"}, func() {}
	}, []string{"DIR/meta.properties", "node.id", "1", "7"}},
	{"another cluster's directory", func(t *testing.T, dir string) ([]string, func()) {
		return nil, replaceIn(t, filepath.Join(dir, "meta.properties"), "cluster.id=", "cluster.id=elsewhere#")
	}, []string{"cluster.id=elsewhere"}},
	{"two clusters' directories", func(t *testing.T, dir string) ([]string, func()) {
		other := t.TempDir()
		stop(t, start(t, other))
		return []string{"log.dirs=" + dir + "," + other}, func() {}
	}, []string{"meta.properties", "cluster.id="}},
	{"damaged meta.properties", func(t *testing.T, dir string) ([]string, func()) {
		return nil, replaceIn(t, filepath.Join(dir, "meta.properties"), "node.id=", "node.id=one")
	}, []string{"DIR/meta.properties", "node.id=\"one1\""}},
	{"damaged store", func(t *testing.T, dir string) ([]string, func()) {
		return nil, overwrite(t, filepath.Join(dir, "__meta", "meta.db"), []byte(strings.Repeat("not a store ", 4096)))
	}, []string{"DIR/__meta/meta.db"}},
	{"store cut short", func(t *testing.T, dir string) ([]string, func()) {
		path := filepath.Join(dir, "__meta", "meta.db")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return nil, overwrite(t, path, data[:len(data)/2])
	}, []string{"DIR/__meta/meta.db"}},
	{"store in another log directory", func(t *testing.T, dir string) ([]string, func()) {
		return []string{"log.dirs=" + filepath.Join(t.TempDir(), "first") + "," + dir}, func() {}
	}, []string{"DIR/__meta holds a metadata store", "meta.dir is", "/first/__meta"}},
	{"store beside meta.dir", func(t *testing.T, dir string) ([]string, func()) {
		return []string{"meta.dir=" + t.TempDir()}, func() {}
	}, []string{"DIR/__meta holds a metadata store", "meta.dir is"}},
	{"file in place of the directory", func(t *testing.T, dir string) ([]string, func()) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"log.dirs=" + file}, func() {}
	}, []string{"log directory", "/file"}},
	{"directory that cannot be made", func(t *testing.T, dir string) ([]string, func()) {
		return []string{"log.dirs=/proc/posthouse"}, func() {}
	}, []string{"log directory", "/proc/posthouse"}},
	{"port in use", func(t *testing.T, dir string) ([]string, func()) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return []string{"listeners=PLAINTEXT://" + ln.Addr().String()}, func() { ln.Close() }
	}, []string{"listener PLAINTEXT", "127.0.0.1:", "address already in use"}},
	{"second port in use", func(t *testing.T, dir string) ([]string, func()) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return []string{"listeners=A://127.0.0.1:0,B://" + ln.Addr().String(),
			"listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"}, func() { ln.Close() }
	}, []string{"listener B", "address already in use"}},
	{"address of another machine", func(t *testing.T, dir string) ([]string, func()) {
		return []string{"listeners=PLAINTEXT://192.0.2.1:0"}, func() {}
	}, []string{"listener PLAINTEXT", "192.0.2.1"}},
}

// TestRefused starts nodes that cannot start. Each is refused by one line that
// says why, gives back all it took, and leaves the directory as it was: with
// its clean mark, or without.
func TestRefused(t *testing.T) {
	for _, clean := range []bool{true, false} {
		name := "clean"
		if !clean {
			name = "unclean"
		}
		t.Run(name, func(t *testing.T) {
			for _, r := range refusals {
				t.Run(r.name, func(t *testing.T) { checkRefused(t, r, clean) })
			}
		})
	}
}

func checkRefused(t *testing.T, r refusal, clean bool) {
	dir := t.TempDir()
	b := start(t, dir)
	produce(t, b, "kept", 0, 10)
	stop(t, b)
	if !clean {
		if err := os.Remove(filepath.Join(dir, cleanMark)); err != nil {
			t.Fatal(err)
		}
	}
	overrides, undo := r.sabotage(t, dir)
	marked := exists(dir, cleanMark)
	opts, _ := options(t, dir, overrides...)
	before := held(t)
	b, err := Start(within(t, 10*time.Second), opts)
	if err == nil {
		stop(t, b)
		t.Fatal("the node started")
	}
	t.Log(err)
	for _, want := range r.want {
		if want = strings.ReplaceAll(want, "DIR", dir); !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error of several lines: %q", err)
	}
	wantHeld(t, before)
	if exists(dir, cleanMark) != marked {
		t.Errorf("clean mark: %v, before the start %v", !marked, marked)
	}
	undo()
	b = start(t, dir)
	consume(t, b, "kept", 10)
	stop(t, b)
}

// TestStartCancelled ends a start by its context.
func TestStartCancelled(t *testing.T) {
	dir := t.TempDir()
	before := held(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	opts, _ := options(t, dir)
	if b, err := Start(ctx, opts); err == nil {
		stop(t, b)
		t.Fatal("a cancelled start succeeded")
	}
	wantHeld(t, before)
	stop(t, start(t, dir))
}

// overwrite replaces a file's bytes; the returned function brings them back.
func overwrite(t *testing.T, path string, data []byte) (undo func()) {
	t.Helper()
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(data)
	return func() { write(old) }
}

func replaceIn(t *testing.T, path, old, with string) (undo func()) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		t.Fatalf("%s has no %q: %s", path, old, data)
	}
	return overwrite(t, path, []byte(strings.Replace(string(data), old, with, 1)))
}
