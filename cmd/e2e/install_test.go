//go:build e2e

package e2e

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
)

// installed returns the path of a program, which it installs from Debian when
// it is missing and the tests run as root.
func installed(t *testing.T, program, pkg string) string {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	if os.Getuid() != 0 {
		t.Fatalf("%s is not installed, and only root can (apt-get install %s)", program, pkg)
	}
	run(t, 3*time.Minute, exec.Command("apt-get", "update", "-qq"))
	install := exec.Command("apt-get", "install", "-y", "-qq", "--no-install-recommends", pkg)
	install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	run(t, 8*time.Minute, install)
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func kcat(t *testing.T) string { return installed(t, "kcat", "kcat") }
func node(t *testing.T) string { return installed(t, "node", "nodejs") }

// nodeModules returns the directory with kafkajs, made once.
func nodeModules(t *testing.T) string {
	t.Helper()
	const kafkajs = "kafkajs@2.2.4"
	cache, err := bench.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, kafkajs)
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "kafkajs", "package.json")); err == nil {
		return modules
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, 3*time.Minute, exec.Command(installed(t, "npm", "npm"), "install", "--no-audit", "--no-fund", "--prefix", dir, kafkajs))
	return modules
}

// oldKafkaPython returns an interpreter with kafka-python 2.0.2. It carries a
// six that Python 3.12 no longer loads: the real one satisfies its imports on
// any version.
func oldKafkaPython(t *testing.T) string {
	return pythonWith(t, "kafka-python==2.0.2", "six==1.16.0", "python-snappy==0.7.3", "lz4==4.4.4", "zstandard==0.23.0")
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

var (
	//go:embed testdata/java/streams-pom.xml
	streamsPOM []byte
	//go:embed testdata/java/connect-pom.xml
	connectPOM []byte
)

// javaProgram prepares one of the programs under testdata/java, which javac
// compiles once per run.
func javaProgram(t *testing.T, class string, args ...string) *exec.Cmd {
	t.Helper()
	jars, java := mavenJars(t, "kafka-streams-4.4.0", streamsPOM)
	path := jars + "/*" + string(os.PathListSeparator) + javaClasses(t, java, jars)
	return exec.CommandContext(within(t, 10*time.Minute), java, slices.Concat(applicationFlags, []string{"-cp", path, class}, args)...)
}

// connectStandalone prepares a worker of Connect.
func connectStandalone(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	jars, java := mavenJars(t, "kafka-connect-4.3.1", connectPOM)
	args = slices.Concat(applicationFlags, []string{"-cp", jars + "/*", "org.apache.kafka.connect.cli.ConnectStandalone"}, args)
	return exec.CommandContext(within(t, 10*time.Minute), java, args...)
}

// applicationFlags suit an application that lives for a minute.
var applicationFlags = []string{"-Xmx512m", "-XX:+UseSerialGC"}

func mavenJars(t *testing.T, name string, pom []byte) (jars, java string) {
	t.Helper()
	jars, err := bench.MavenJars(within(t, 5*time.Minute), name, pom)
	if err != nil {
		t.Fatal(err)
	}
	if java, err = bench.Java(); err != nil {
		t.Fatal(err)
	}
	return jars, java
}

var compiled struct {
	sync.Mutex
	dir string // of the class files; lives for the run
}

// javaClasses compiles testdata/java with the javac beside java, or the one
// that Debian's package brings, for the Java that will run them.
func javaClasses(t *testing.T, java, jars string) string {
	t.Helper()
	compiled.Lock()
	defer compiled.Unlock()
	if compiled.dir != "" {
		return compiled.dir
	}
	javac := filepath.Join(filepath.Dir(java), "javac")
	if _, err := os.Stat(javac); err != nil {
		javac = installed(t, "javac", "default-jdk-headless")
	}
	cache, err := bench.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(cache, "classes-")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob(filepath.Join("testdata", "java", "*.java"))
	if err != nil {
		t.Fatal(err)
	}
	run(t, 2*time.Minute, exec.Command(javac, append([]string{"--release", "17", "-cp", jars + "/*", "-d", dir}, sources...)...))
	compiled.dir = dir
	return dir
}

// removeClasses deletes what javac made, at the end of the run.
func removeClasses() {
	if compiled.dir != "" {
		_ = os.RemoveAll(compiled.dir) // in the cache at worst
	}
}
