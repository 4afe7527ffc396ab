//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
)

// kcat returns the path of kcat, which it installs from Debian when it runs as
// root.
func kcat(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("kcat"); err == nil {
		return path
	}
	if os.Getuid() != 0 {
		t.Fatal("kcat is not installed, and only root can (apt-get install kcat)")
	}
	run(t, 3*time.Minute, exec.Command("apt-get", "update", "-qq"))
	install := exec.Command("apt-get", "install", "-y", "-qq", "--no-install-recommends", "kcat")
	install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	run(t, 5*time.Minute, install)
	path, err := exec.LookPath("kcat")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// pythonWith returns the interpreter of a virtual environment with the given
// packages, made once per set of them.
func pythonWith(t *testing.T, packages ...string) string {
	t.Helper()
	cache, err := bench.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(strings.Join(packages, " ")))
	dir := filepath.Join(cache, "venv-"+hex.EncodeToString(sum[:6]))
	python := filepath.Join(dir, "bin", "python")
	installed := filepath.Join(dir, "installed")
	if _, err := os.Stat(installed); err == nil {
		return python
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	run(t, 2*time.Minute, exec.Command("python3", "-m", "venv", dir))
	run(t, 5*time.Minute, exec.Command(python, append([]string{"-m", "pip", "install", "-q"}, packages...)...))
	if err := os.WriteFile(installed, []byte(strings.Join(packages, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	return python
}

// sarama builds the program under testdata/sarama, which is a module of its
// own, and returns its path.
var saramaOnce sync.Mutex

func sarama(t *testing.T) string {
	t.Helper()
	saramaOnce.Lock()
	defer saramaOnce.Unlock()
	cache, err := bench.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(cache, "sarama-client")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Dir = filepath.Join("testdata", "sarama")
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	run(t, 5*time.Minute, build)
	return bin
}

// javaTool runs one of Kafka's tools to its end and returns what it printed.
func javaTool(t *testing.T, limit time.Duration, class string, args ...string) string {
	t.Helper()
	return run(t, limit, javaCommand(t, bench.ToolFlags, class, args...))
}

func javaCommand(t *testing.T, flags []string, class string, args ...string) *exec.Cmd {
	t.Helper()
	cmd, err := bench.JavaCommand(within(t, 10*time.Minute), flags, class, args...)
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}
