package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/storage/record"
)

// facts are what the checks judge. They are gathered in one place, so that
// tests can make them up.
type facts struct {
	Config   *config.Broker // nil where there is none, or none that is valid
	Warnings []string
	Invalid  error // why Config is nil

	Kernel       string
	CPUs         int
	Engine       string
	EngineReason string
	EngineErr    error
	UringBuilt   bool

	FilesSoft, FilesHard uint64
	Dirs                 []dirFacts
	Sysctls              map[string]string // of those that could be read
	HugePages            string            // the line of transparent_hugepage/enabled
	ClockSynced          bool
	ClockKnown           bool
	ClockSource          string
	MemoryBytes          int64 // of the machine, or less by a cgroup; 0 is not known
	SwapBytes            int64

	Reached     []addressFacts // what clients are told, and how dialing it went
	Asked       string         // the address of a broker that was asked, "" if none
	AskErr      error
	Controllers int
}

// dirFacts are those of a log directory.
type dirFacts struct {
	Path       string
	Err        error // why it cannot be used
	Missing    bool  // not there yet; the rest is of its closest parent
	Type       string
	Mount      string
	Options    []string
	Device     uint64
	TotalBytes uint64
	FreeBytes  uint64
	FreeInodes uint64
	Partitions int
	Segments   int
}

// addressFacts are those of an address that clients are told.
type addressFacts struct {
	Name     string // the listener's, or the broker's id
	Host     string
	Port     int32
	IPs      []net.IP
	LookUp   error
	Dial     error
	Dialed   bool
	Loopback bool
}

// sysctls are the kernel's settings that matter to a broker.
var sysctls = []string{
	"vm.max_map_count", "vm.swappiness", "vm.dirty_ratio", "vm.dirty_background_ratio", "vm.dirty_bytes", "vm.dirty_background_bytes",
	"net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_congestion_control", "fs.file-max", "kernel.io_uring_disabled",
}

// gatherHost asks the machine.
func gatherHost(f *facts) {
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	f.CPUs = runtime.NumCPU()
	engine := netio.EngineAuto
	if f.Config != nil {
		engine = f.Config.Netio.Engine
	}
	f.Engine, f.EngineReason, f.EngineErr = netio.ChooseEngine(engine)
	f.UringBuilt = slices.Contains(netio.Engines(), netio.EngineUring)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		f.FilesSoft, f.FilesHard = limit.Cur, limit.Max
	}
	f.Sysctls = map[string]string{}
	for _, key := range sysctls {
		if v, ok := readLine("/proc/sys/" + strings.ReplaceAll(key, ".", "/")); ok {
			f.Sysctls[key] = v
		}
	}
	f.HugePages, _ = readLine("/sys/kernel/mm/transparent_hugepage/enabled")
	f.ClockSource, _ = readLine("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	var clock unix.Timex
	if state, err := unix.Adjtimex(&clock); err == nil {
		f.ClockKnown, f.ClockSynced = true, state != unix.TIME_ERROR && clock.Status&unix.STA_UNSYNC == 0
	}
	f.MemoryBytes, f.SwapBytes = memory()
	if f.Config != nil {
		for _, dir := range f.Config.LogDirs {
			f.Dirs = append(f.Dirs, gatherDir(dir))
		}
	}
}

func readLine(path string) (string, bool) {
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err == nil
}

// memory is what the process may use, and the machine's swap.
func memory() (bytes, swap int64) {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0, 0
	}
	bytes, swap = int64(info.Totalram)*int64(info.Unit), int64(info.Totalswap)*int64(info.Unit)
	if text, ok := readLine("/sys/fs/cgroup/memory.max"); ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			bytes = min(bytes, n)
		}
	}
	return bytes, swap
}

// gatherDir asks the file system of a log directory, or of the parent that it
// will be made in. Nothing is written: access(2) tells whether that would work.
func gatherDir(path string) dirFacts {
	d := dirFacts{Path: path}
	if absolute, err := filepath.Abs(path); err == nil {
		d.Path = absolute
	}
	at := d.Path
	for {
		info, err := os.Stat(at)
		if err == nil {
			if !info.IsDir() {
				d.Err = fmt.Errorf("%s is not a directory", at)
				return d
			}
			break
		}
		if !os.IsNotExist(err) || at == "/" {
			d.Err = err
			return d
		}
		d.Missing, at = true, filepath.Dir(at)
	}
	if err := unix.Access(at, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		d.Err = fmt.Errorf("%s: %w", at, err)
	}
	var fs unix.Statfs_t
	var stat unix.Stat_t
	if err := unix.Statfs(at, &fs); err == nil {
		d.TotalBytes, d.FreeBytes, d.FreeInodes = fs.Blocks*uint64(fs.Bsize), fs.Bavail*uint64(fs.Bsize), fs.Ffree
	}
	if err := unix.Stat(at, &stat); err == nil {
		d.Device = stat.Dev
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	d.Mount, d.Type, d.Options = mountOf(at, string(mounts))
	if !d.Missing {
		d.Partitions, d.Segments = countLogs(d.Path)
	}
	return d
}

// mountOf finds the mount that holds a path: the longest mount point above it,
// the last of several on one.
func mountOf(path, mounts string) (point, fsType string, options []string) {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		at := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(fields[1])
		above := at == "/" || path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/")
		if above && len(at) >= len(point) {
			point, fsType, options = at, fields[2], strings.Split(fields[3], ",")
		}
	}
	return point, fsType, options
}

// countLogs counts partitions and their segments.
func countLogs(dir string) (partitions, segments int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0
	}
	for _, e := range entries {
		if _, err := record.ParseDir(e.Name()); err != nil || !e.IsDir() {
			continue
		}
		partitions++
		files, err := os.ReadDir(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name(), ".log") {
				segments++
			}
		}
	}
	return partitions, segments
}

// reach looks an address up and, with dial, connects to it.
func reach(ctx context.Context, name, host string, port int32, dial bool, timeout time.Duration) addressFacts {
	a := addressFacts{Name: name, Host: host, Port: port}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if a.LookUp = err; err != nil {
		return a
	}
	a.Loopback = len(addresses) > 0
	for _, ip := range addresses {
		a.IPs = append(a.IPs, ip.IP)
		a.Loopback = a.Loopback && ip.IP.IsLoopback()
	}
	if dial {
		a.Dialed = true
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
		if a.Dial = err; err == nil {
			_ = conn.Close()
		}
	}
	return a
}
