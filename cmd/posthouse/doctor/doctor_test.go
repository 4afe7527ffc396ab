package doctor

import (
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/posthouse/posthouse/cmd/posthouse/clitest"
	"github.com/posthouse/posthouse/engine/config"
)

func load(properties ...string) Load {
	return func(_, overrides []string) (*config.Broker, []string, error) {
		set := map[string]string{}
		for _, p := range append(properties, overrides...) {
			key, value, _ := strings.Cut(p, "=")
			set[key] = value
		}
		return config.Load(set, nil)
	}
}

// healthy are facts that nothing is to be said of.
func healthy(t *testing.T) *facts {
	cfg, _, err := load("log.dirs=/srv/a")(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &facts{
		Config: cfg, Kernel: "6.18.0", CPUs: 2, Engine: "io_uring", EngineReason: "the kernel offers all that is needed", UringBuilt: true,
		FilesSoft: 1_000_000, FilesHard: 1_000_000,
		Dirs: []dirFacts{{Path: "/srv/a", Type: "ext4", Mount: "/srv", Options: []string{"rw", "noatime"}, Device: 1,
			TotalBytes: 100 << 30, FreeBytes: 50 << 30, FreeInodes: 1 << 20, Partitions: 10, Segments: 30}},
		Sysctls: map[string]string{"vm.max_map_count": "262144", "vm.swappiness": "1", "vm.dirty_ratio": "20", "vm.dirty_bytes": "0",
			"net.core.somaxconn": "4096", "net.ipv4.tcp_max_syn_backlog": "4096", "net.ipv4.tcp_congestion_control": "cubic"},
		HugePages: "always [madvise] never", ClockSynced: true, ClockKnown: true, ClockSource: "tsc", MemoryBytes: 8 << 30, SwapBytes: 1 << 30,
		Reached: []addressFacts{{Name: "as PLAINTEXT", Host: "127.0.0.1", Port: 9092, Loopback: true}},
	}
}

func TestChecks(t *testing.T) {
	for _, found := range judge(healthy(t)) {
		if found.Status != OK {
			t.Errorf("healthy: %+v", found)
		}
	}
	for _, c := range []struct {
		name   string
		change func(f *facts)
		check  string
		status Status
		says   string
	}{
		{"a bad value", func(f *facts) { f.Config, f.Invalid = nil, errors.New("node.id=x") }, "config", Fail, "correct the value"},
		{"a missing file", func(f *facts) {
			f.Config, f.Invalid = nil, &fs.PathError{Op: "open", Path: "a.properties", Err: unix.ENOENT}
		}, "config", Fail, "name the properties file"},
		{"an unknown key", func(f *facts) { f.Warnings = []string{"unknown key a.b"} }, "config", Warn, "a.b"},
		{"no io_uring", func(f *facts) { f.Engine, f.EngineReason = "epoll", "io_uring cannot be used: EPERM" }, "engine", Warn, "EPERM"},
		{"epoll asked for", func(f *facts) { f.Engine, f.EngineReason = "epoll", "asked for" }, "engine", OK, "asked for"},
		{"epoll build", func(f *facts) { f.UringBuilt = false }, "engine", Warn, "built without"},
		{"io_uring demanded", func(f *facts) { f.EngineErr = errors.New("netio: io_uring cannot be used") }, "engine", Fail, "cannot be used"},
		{"few files", func(f *facts) { f.FilesSoft = 4096 }, "open files", Warn, "4096 may be open"},
		{"too few files", func(f *facts) { f.FilesSoft, f.Dirs[0].Partitions = 4096, 1000 }, "open files", Fail, "5000"},
		{"few maps", func(f *facts) { f.Sysctls["vm.max_map_count"], f.Dirs[0].Segments = "65530", 100_000 }, "memory maps", Warn, "65530"},
		{"no access", func(f *facts) { f.Dirs[0].Err = unix.EACCES }, "log directory /srv/a", Fail, "permission denied"},
		{"read-only", func(f *facts) { f.Dirs[0].Options = []string{"ro"} }, "log directory /srv/a", Fail, "(ro)"},
		{"nfs", func(f *facts) { f.Dirs[0].Type = "nfs4" }, "log directory /srv/a", Warn, "nfs4"},
		{"tmpfs", func(f *facts) { f.Dirs[0].Type = "tmpfs" }, "log directory /srv/a", Warn, "tmpfs"},
		{"overlay", func(f *facts) { f.Dirs[0].Type = "overlay" }, "log directory /srv/a", Warn, "overlay"},
		{"btrfs", func(f *facts) { f.Dirs[0].Type = "btrfs" }, "log directory /srv/a", Warn, "btrfs"},
		{"sync", func(f *facts) { f.Dirs[0].Options = []string{"rw", "sync", "relatime"} }, "log directory /srv/a", Warn, "sync"},
		{"atime", func(f *facts) { f.Dirs[0].Options = []string{"rw"} }, "log directory /srv/a", Warn, "(rw)"},
		{"missing", func(f *facts) { f.Dirs[0].Missing = true }, "log directory /srv/a", OK, "to be created"},
		{"nearly full", func(f *facts) { f.Dirs[0].FreeBytes = 5 << 30 }, "space in /srv/a", Warn, "5 %"},
		{"full", func(f *facts) { f.Dirs[0].FreeBytes = 2 << 30 }, "space in /srv/a", Fail, "2 %"},
		{"no room for a segment", func(f *facts) { f.Dirs[0].TotalBytes, f.Dirs[0].FreeBytes = 1<<30, 1<<29 }, "space in /srv/a", Fail, "50 %"},
		{"few inodes", func(f *facts) { f.Dirs[0].FreeInodes = 100 }, "inodes in /srv/a", Warn, "100 free"},
		{"one disk", func(f *facts) { f.Dirs = append(f.Dirs, f.Dirs[0]); f.Dirs[1].Path = "/srv/b" }, "log directories", Warn, "/srv/a and /srv/b"},
		{"no such name", func(f *facts) { f.Reached[0].LookUp = errors.New("no such host") }, "advertised as PLAINTEXT", Fail, "no such host"},
		{"no answer", func(f *facts) { f.Reached[0].Dial = &net.OpError{Op: "dial", Err: unix.ECONNREFUSED} }, "advertised as PLAINTEXT", Fail, "127.0.0.1:9092: connection refused"},
		{"loopback for others", func(f *facts) { f.Config.Listeners[0].Host = "0.0.0.0" }, "advertised as PLAINTEXT", Warn, "loopback"},
		{"loopback from afar", func(f *facts) { f.Asked = "broker.example:9092" }, "advertised as PLAINTEXT", Warn, "loopback"},
		{"a name for others", func(f *facts) { f.Reached[0].Loopback, f.Reached[0].Dialed = false, true }, "advertised as PLAINTEXT", OK, "accepts connections"},
		{"nobody there", func(f *facts) { f.Asked, f.AskErr = "a:1", errors.New("no broker can be reached") }, "broker", Fail, "no broker"},
		{"old kernel", func(f *facts) { f.Kernel = "5.15.0-91-generic" }, "kernel", Warn, "5.15"},
		{"short backlog", func(f *facts) { f.Sysctls["net.core.somaxconn"] = "128" }, "net.core.somaxconn", Warn, "128"},
		{"bbr", func(f *facts) { f.Sysctls["net.ipv4.tcp_congestion_control"] = "bbr" }, "congestion control", Warn, "bbr"},
		{"much dirty", func(f *facts) { f.Sysctls["vm.dirty_ratio"] = "80" }, "writeback", Warn, "80"},
		{"little memory", func(f *facts) { f.MemoryBytes = 512 << 20 }, "memory", Warn, "512.0 MiB"},
		{"swap", func(f *facts) { f.Sysctls["vm.swappiness"] = "60" }, "swap", Warn, "60"},
		{"huge pages", func(f *facts) { f.HugePages = "[always] madvise never" }, "transparent huge pages", Warn, "always"},
		{"clock", func(f *facts) { f.ClockSynced = false }, "clock", Warn, "synchronised"},
		{"hpet", func(f *facts) { f.ClockSource = "hpet" }, "clock source", Warn, "hpet"},
	} {
		f := healthy(t)
		c.change(f)
		found := judge(f)
		i := slices.IndexFunc(found, func(f Finding) bool { return f.Check == c.check })
		if i < 0 || found[i].Status != c.status || !strings.Contains(found[i].Found+found[i].Means+found[i].Do, c.says) {
			t.Errorf("%s: %+v", c.name, found)
			continue
		}
		if (found[i].Status == OK) != (found[i].Means == "") || (found[i].Means == "") != (found[i].Do == "") {
			t.Errorf("%s: %+v", c.name, found[i])
		}
	}
}

// TestThisMachine gathers real facts: whatever they are, each finding is whole.
func TestThisMachine(t *testing.T) {
	dir := t.TempDir()
	r := clitest.Run(t, New(load("log.dirs="+dir+","+filepath.Join(dir, "new", "er"))), "", "--json")
	r.Error = nil // what fails here is the machine's
	found := clitest.Decode[[]Finding](t, r)
	if len(found) < 8 {
		t.Errorf("%+v", found)
	}
	for _, f := range found {
		if f.Check == "" || f.Found == "" || f.Status != OK && (f.Means == "" || f.Do == "") {
			t.Errorf("%+v", f)
		}
	}
	if r := clitest.Run(t, New(load("log.dirs=/dev/null")), ""); r.Code != 1 || !strings.Contains(r.Out, "FAIL  log directory /dev/null: /dev/null is not a directory") {
		t.Errorf("%v\n%s", r.Error, r.Out)
	}
}

func TestAskingABroker(t *testing.T) {
	address, dir := clitest.Broker(t)
	r := clitest.Run(t, New(load("log.dirs="+dir)), "", "-b", address)
	if !strings.Contains(r.Out, "OK    broker: "+address+" answers\n") || !strings.Contains(r.Out, "OK    advertised by broker 1: "+address) {
		t.Errorf("%s", r.Out)
	}
	if r := clitest.Run(t, New(load("log.dirs="+dir)), "", "-b", "127.0.0.1:1", "--timeout", "1s"); r.Code != 1 || !strings.Contains(r.Out, "FAIL  broker: no broker can be reached at 127.0.0.1:1") {
		t.Errorf("%s", r.Out)
	}
	if r := clitest.Run(t, New(load("node.id=x")), ""); r.Code != 1 || !strings.Contains(r.Out, "FAIL  config: ") {
		t.Errorf("%s", r.Out)
	}
	clitest.Run(t, New(load()), "", "a", "b").Fails(t, 2, "at most 1 arg")
}

func TestMountOf(t *testing.T) {
	mounts := "a / ext4 rw,relatime 0 0\nb /srv xfs rw,noatime 0 0\nc /srv/with\\040space tmpfs rw 0 0\nd /srvx nfs rw 0 0\ne /srv btrfs rw 0 0\n"
	for path, want := range map[string]string{
		"/home": "/ ext4", "/srv": "/srv btrfs", "/srv/a/b": "/srv btrfs", "/srv/with space/x": "/srv/with space tmpfs", "/srvy": "/ ext4",
	} {
		if point, fsType, _ := mountOf(path, mounts); point+" "+fsType != want {
			t.Errorf("%s: %s %s, want %s", path, point, fsType, want)
		}
	}
}

func TestOlder(t *testing.T) {
	for release, want := range map[string]bool{"6.1.0": false, "6.0.19": true, "5.15.0-91-generic": true, "10.0": false, "6.18.3-cloud": false, "6": true, "": true} {
		if got := older(release, "6.1"); got != want {
			t.Errorf("%s: %v", release, got)
		}
	}
}
