package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCapture reads a made-up machine.
func TestCapture(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data := t.TempDir()
	put("proc/sys/kernel/osrelease", "6.1.0-test\n")
	put("etc/os-release", "NAME=\"T\"\nPRETTY_NAME=\"Test Linux 1\"\n")
	put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Big CPU: 3 GHz\nflags\t\t: fpu hypervisor sse\n\nprocessor\t: 1\nmodel name\t: Big CPU: 3 GHz\n")
	put("proc/meminfo", "MemTotal:       24689912 kB\nMemFree:          100000 kB\nSwapTotal:             0 kB\n")
	put("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n")
	put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
	for _, key := range writebackKeys {
		put("proc/sys/vm/"+key, "7\n")
	}
	put("sys/devices/disk/vda/queue/scheduler", "none [mq-deadline]\n")
	put("sys/devices/disk/vda/queue/rotational", "1\n")
	put("sys/devices/disk/vda/vda1/partition", "1\n")
	if err := os.MkdirAll(filepath.Join(root, "sys/dev/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../devices/disk/vda/vda1", filepath.Join(root, "sys/dev/block/254:1")); err != nil {
		t.Fatal(err)
	}
	put("proc/self/mountinfo", "22 1 0:20 / / rw,relatime shared:1 - overlay overlay rw\n"+
		"23 22 254:1 / "+filepath.Dir(data)+" rw,noatime master:2 - ext4 /dev/vda1 rw,noatime,data=ordered\n"+
		"24 22 254:2 / "+filepath.Dir(data)+"x rw - xfs /dev/vdb rw\n")

	e := probe{root}.capture(data, "v1")
	if len(e.Unknown) != 0 {
		t.Errorf("unknown: %v", e.Unknown)
	}
	if e.Kernel != "6.1.0-test" || e.OS != "Test Linux 1" || e.CPUs != 2 || e.CPUModel != "Big CPU: 3 GHz" || !e.Hypervisor ||
		e.MemoryBytes != 24689912<<10 || e.MemoryFreeBytes != 100000<<10 || e.CongestionControl != "cubic" ||
		e.TransparentHugepages != "madvise" || e.Writeback["dirty_ratio"] != 7 || e.PosthouseVersion != "v1" {
		t.Errorf("%+v", e)
	}
	f := e.Filesystem
	if f.Type != "ext4" || f.Device != "/dev/vda1" || f.Options != "rw,noatime,data=ordered" || f.Scheduler != "mq-deadline" || !f.Rotational || f.FreeBytes == 0 {
		t.Errorf("%+v", f)
	}

	// An empty machine: nothing fails, all that is missing is named.
	e = probe{t.TempDir()}.capture(data, "v1")
	said := strings.Join(e.Unknown, "\n")
	for _, what := range []string{"kernel", "cpu", "memory", "congestion control", "transparent hugepages", "vm.dirty_bytes", "file system"} {
		if !strings.Contains(said, what+": ") {
			t.Errorf("nothing is said of %s:\n%s", what, said)
		}
	}
}

// TestCaptureHere reads the machine that the test runs on.
func TestCaptureHere(t *testing.T) {
	e := CaptureEnvironment(t.TempDir(), "test")
	if e.Kernel == "" || e.CPUs < 1 || e.MemoryBytes == 0 || e.Filesystem.Type == "" {
		t.Errorf("%+v", e)
	}
	if d := EnvironmentDifferences(e, e); d != nil {
		t.Errorf("a machine differs from itself: %v", d)
	}
	other := *e
	other.Kernel, other.MemoryFreeBytes = "other", 1
	if d := EnvironmentDifferences(e, &other); len(d) != 1 || !strings.Contains(d[0], "was other") {
		t.Errorf("%v", d)
	}
}
