package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

// Status is how good or bad a finding is.
type Status string

// The three of them.
const (
	OK   Status = "OK"
	Warn Status = "WARN"
	Fail Status = "FAIL"
)

// Finding is the outcome of a check.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Means  string `json:"means,omitempty"`
	Do     string `json:"do,omitempty"`
}

// findings collects them.
type findings []Finding

func (fs *findings) ok(check, format string, args ...any) {
	*fs = append(*fs, Finding{Check: check, Status: OK, Found: fmt.Sprintf(format, args...)})
}

func (fs *findings) bad(status Status, check, found, means, do string) {
	*fs = append(*fs, Finding{check, status, found, means, do})
}

// judge runs every check.
func judge(f *facts) []Finding {
	var out findings
	judgeConfig(f, &out)
	judgeEngine(f, &out)
	judgeFiles(f, &out)
	for i := range f.Dirs {
		judgeDir(f, &f.Dirs[i], &out)
	}
	judgeDevices(f, &out)
	judgeListeners(f, &out)
	judgeKernel(f, &out)
	judgeMemory(f, &out)
	judgeClock(f, &out)
	return out
}

func judgeConfig(f *facts, out *findings) {
	switch {
	case f.Invalid != nil:
		fix := "correct the value; docs/configuration.md lists every key"
		if errors.Is(f.Invalid, fs.ErrNotExist) {
			fix = "name the properties file that serve is started with, or none for the defaults"
		}
		out.bad(Fail, "config", f.Invalid.Error(), "serve refuses to start with it", fix)
	case len(f.Warnings) > 0:
		for _, w := range f.Warnings {
			out.bad(Warn, "config", w, "the setting does not do what it seems to", "remove or correct it; docs/configuration.md lists every key")
		}
	case f.Config != nil:
		out.ok("config", "all keys are known and valid")
	}
	switch {
	case f.AskErr != nil:
		out.bad(Fail, "broker", f.AskErr.Error(), "clients that begin there get no further", "start the broker, or correct --bootstrap")
	case f.Asked != "":
		out.ok("broker", "%s answers", f.Asked)
	}
}

func judgeEngine(f *facts, out *findings) {
	switch {
	case f.EngineErr != nil:
		out.bad(Fail, "engine", f.EngineErr.Error(), "netio.engine asks for what this machine does not have: serve refuses to start", "set netio.engine=auto, or allow io_uring: kernel 6.1 or newer, kernel.io_uring_disabled=0, a container profile that permits its system calls")
	case !f.UringBuilt:
		out.bad(Warn, "engine", "epoll: this binary was built without io_uring", "the same behaviour, up to some 20 % slower with many small connections", "build with make build")
	case f.Engine == "epoll" && strings.HasPrefix(f.EngineReason, "io_uring"):
		out.bad(Warn, "engine", "epoll: "+f.EngineReason, "the same behaviour, up to some 20 % slower with many small connections", "kernel 6.1 or newer, kernel.io_uring_disabled=0, a container profile that permits io_uring")
	default:
		out.ok("engine", "%s: %s", f.Engine, f.EngineReason)
	}
}

const (
	filesGood         = 100_000
	filesPerPartition = 4 // a segment, one that is being rolled to, and indexes while they are used
	filesForRest      = 1_000
	mapsPerSegment    = 2 // its two indexes, while they are used
	mapsForRest       = 5_000
)

func (f *facts) logs() (partitions, segments int) {
	for _, d := range f.Dirs {
		partitions, segments = partitions+d.Partitions, segments+d.Segments
	}
	return partitions, segments
}

func judgeFiles(f *facts, out *findings) {
	partitions, segments := f.logs()
	need := uint64(partitions*filesPerPartition + filesForRest)
	found := fmt.Sprintf("%d may be open (hard limit %d), %s and %s here", f.FilesSoft, f.FilesHard, cli.Count(partitions, "partition"), cli.Count(segments, "segment"))
	raise := "LimitNOFILE=1000000 in the systemd unit, --ulimit nofile=1000000:1000000 for a container, or ulimit -n before the start"
	switch {
	case f.FilesSoft == 0:
	case f.FilesSoft < need:
		out.bad(Fail, "open files", found, fmt.Sprintf("the partitions alone may need %d: opening logs and connections will fail", need), raise)
	case f.FilesSoft < filesGood:
		out.bad(Warn, "open files", found, "each connection and each segment in use takes one: a quarter is kept for logs, the rest bounds the connections", raise)
	default:
		out.ok("open files", "%s", found)
	}
	if maps, err := strconv.Atoi(f.Sysctls["vm.max_map_count"]); err == nil {
		need := segments*mapsPerSegment + mapsForRest
		if maps < need {
			out.bad(Warn, "memory maps", fmt.Sprintf("vm.max_map_count is %d, %s", maps, cli.Count(segments, "segment")), fmt.Sprintf("each index in use is mapped, %d may be needed: lookups in old segments can fail", need), fmt.Sprintf("sysctl -w vm.max_map_count=%d", max(262_144, 2*need)))
		} else {
			out.ok("memory maps", "vm.max_map_count is %d, %s", maps, cli.Count(segments, "segment"))
		}
	}
}

const (
	spaceFail    = 0.03
	spaceWarn    = 0.10
	inodesLow    = 10_000
	networkTypes = "nfs nfs4 cifs smb3 9p fuse.sshfs ceph glusterfs"
)

func judgeDir(f *facts, d *dirFacts, out *findings) {
	check := "log directory " + d.Path
	if d.Err != nil {
		out.bad(Fail, check, d.Err.Error(), "serve cannot keep logs there", "give it to the user that serve runs as, or set log.dirs")
		return
	}
	state := ""
	if d.Missing {
		state = ", to be created"
	}
	where := fmt.Sprintf("%s on %s (%s)%s", d.Type, d.Mount, strings.Join(d.Options, ","), state)
	switch {
	case slices.Contains(d.Options, "ro"):
		out.bad(Fail, check, where, "it is mounted read-only", "mount it with rw; a file system that turned read-only had errors, see dmesg")
	case slices.Contains(strings.Fields(networkTypes), d.Type):
		out.bad(Warn, check, where, "a network file system: locks, latency and what a sync means are those of another machine", "use a local disk")
	case d.Type == "tmpfs" || d.Type == "ramfs":
		out.bad(Warn, check, where, "it is in memory: all records are gone after a restart of the machine", "use a disk, unless this is for a test")
	case d.Type == "overlay":
		out.bad(Warn, check, where, "the container's own layer: records go with the container, and writes are slower", "mount a volume")
	case d.Type == "btrfs" || d.Type == "zfs":
		out.bad(Warn, check, where, "a copy-on-write file system: reserving space does not help there, and logs fragment", "use ext4 or xfs, or chattr +C on the empty directory (btrfs)")
	case slices.Contains(d.Options, "sync") || slices.Contains(d.Options, "dirsync"):
		out.bad(Warn, check, where, "each write waits for the disk", "mount it without sync")
	case !slices.Contains(d.Options, "noatime") && !slices.Contains(d.Options, "relatime"):
		out.bad(Warn, check, where, "each read may write an access time", "mount it with noatime")
	default:
		out.ok(check, "%s", where)
	}
	if d.TotalBytes == 0 {
		return
	}
	share := float64(d.FreeBytes) / float64(d.TotalBytes)
	space := fmt.Sprintf("%s of %s free (%.0f %%)", cli.Bytes(int64(d.FreeBytes)), cli.Bytes(int64(d.TotalBytes)), 100*share)
	segment := uint64(0)
	if f.Config != nil {
		segment = uint64(max(0, f.Config.TopicDefaults.SegmentBytes))
	}
	more := "add space, or let topics keep less: posthouse topic alter … --config retention.bytes=…"
	switch {
	case share < spaceFail || d.FreeBytes < segment:
		out.bad(Fail, "space in "+d.Path, space, "produce will be refused soon", more)
	case share < spaceWarn:
		out.bad(Warn, "space in "+d.Path, space, "file systems slow down when nearly full, and there is little room for a burst", more)
	default:
		out.ok("space in "+d.Path, "%s", space)
	}
	if d.FreeInodes > 0 && d.FreeInodes < inodesLow {
		out.bad(Warn, "inodes in "+d.Path, fmt.Sprintf("%d free", d.FreeInodes), "each segment takes some four: none is left before the space is", "make the file system with more inodes, or use xfs")
	}
}

// judgeDevices finds log directories that gain nothing from being several.
func judgeDevices(f *facts, out *findings) {
	byDevice := map[uint64]string{}
	for _, d := range f.Dirs {
		if d.Device == 0 || d.Err != nil {
			continue
		}
		if other, ok := byDevice[d.Device]; ok {
			out.bad(Warn, "log directories", fmt.Sprintf("%s and %s are on one file system", other, d.Path), "several log.dirs spread the load over disks; on one disk they only cost", "put each on a disk of its own, or keep one")
			return
		}
		byDevice[d.Device] = d.Path
	}
}

func judgeListeners(f *facts, out *findings) {
	wide := false
	if f.Config != nil && f.Asked == "" {
		for _, l := range f.Config.Listeners {
			ip := net.ParseIP(l.Host)
			wide = wide || l.Host == "" || ip != nil && !ip.IsLoopback()
		}
	}
	askedHost, _, _ := net.SplitHostPort(f.Asked)
	if ip := net.ParseIP(askedHost); f.Asked != "" && askedHost != "localhost" && (ip == nil || !ip.IsLoopback()) {
		wide = true
	}
	for _, a := range f.Reached {
		judgeAddress(a, wide, out)
	}
}

func judgeAddress(a addressFacts, wide bool, out *findings) {
	check := "advertised " + a.Name
	at := net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
	advertise := "set advertised.listeners to a name and port that clients reach"
	switch {
	case a.LookUp != nil:
		out.bad(Fail, check, fmt.Sprintf("%s: %v", at, rootCause(a.LookUp)), "clients are told a name that does not resolve here", advertise)
	case a.Dial != nil:
		out.bad(Fail, check, fmt.Sprintf("%s: %v", at, rootCause(a.Dial)), "clients connect once, are told this address, and time out", advertise+"; open the port in firewalls and port mappings")
	case a.Loopback && wide:
		out.bad(Warn, check, at+" is this machine's loopback", "clients on other machines are told to connect to themselves", advertise)
	case a.Loopback:
		out.ok(check, "%s: for clients on this machine alone", at)
	default:
		dialed := ""
		if a.Dialed {
			dialed = ", accepts connections"
		}
		out.ok(check, "%s%s", at, dialed)
	}
}

// rootCause leaves out what the finding says anyway.
func rootCause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

// kernelForUring is where io_uring has what the engine needs.
const kernelForUring = "6.1"

func judgeKernel(f *facts, out *findings) {
	if f.Kernel != "" {
		if older(f.Kernel, kernelForUring) {
			out.bad(Warn, "kernel", f.Kernel, "io_uring is used from "+kernelForUring+" on; epoll runs", "a newer kernel, if you want io_uring")
		} else {
			out.ok("kernel", "%s, %s", f.Kernel, cli.Count(f.CPUs, "CPU"))
		}
	}
	for _, key := range []string{"net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"} {
		if n, err := strconv.Atoi(f.Sysctls[key]); err == nil && n < 1024 {
			out.bad(Warn, key, strconv.Itoa(n), "when many clients come at once, after a restart say, connections are dropped and tried again seconds later", "sysctl -w "+key+"=4096")
		} else if err == nil {
			out.ok(key, "%d", n)
		}
	}
	switch algorithm := f.Sysctls["net.ipv4.tcp_congestion_control"]; algorithm {
	case "":
	case "bbr":
		out.bad(Warn, "congestion control", algorithm, "it paces even loopback, to a third of the speed; Posthouse takes netio.loopback.congestion.control for those peers", "keep netio.loopback.congestion.control=cubic; for clients on loopback: sysctl -w net.ipv4.tcp_congestion_control=cubic")
	default:
		out.ok("congestion control", "%s", algorithm)
	}
	if n, err := strconv.Atoi(f.Sysctls["vm.dirty_ratio"]); err == nil && f.Sysctls["vm.dirty_bytes"] == "0" {
		if n > 40 {
			out.bad(Warn, "writeback", fmt.Sprintf("vm.dirty_ratio is %d", n), "so much unwritten data gathers in memory that its writing stalls producers for seconds, and a power cut loses it", "sysctl -w vm.dirty_ratio=20 vm.dirty_background_ratio=5")
		} else {
			out.ok("writeback", "vm.dirty_ratio is %d, vm.dirty_background_ratio %s", n, f.Sysctls["vm.dirty_background_ratio"])
		}
	}
}

// older compares kernel releases such as 6.1.0-13-amd64.
func older(release, than string) bool {
	parse := func(s string) (n [2]int) {
		parts := strings.SplitN(s, ".", 3)
		for i := range min(2, len(parts)) {
			digits := strings.IndexFunc(parts[i]+"x", func(r rune) bool { return r < '0' || r > '9' })
			n[i], _ = strconv.Atoi(parts[i][:digits])
		}
		return n
	}
	a, b := parse(release), parse(than)
	return a[0] < b[0] || a[0] == b[0] && a[1] < b[1]
}

const memoryLow = 1 << 30

func judgeMemory(f *facts, out *findings) {
	if f.MemoryBytes > 0 {
		if f.MemoryBytes < memoryLow {
			out.bad(Warn, "memory", cli.Bytes(f.MemoryBytes), "the page cache is what makes reads and writes fast, and little is left for it; requests in flight may take queued.max.request.bytes", "give it more, or lower queued.max.request.bytes")
		} else {
			out.ok("memory", "%s", cli.Bytes(f.MemoryBytes))
		}
	}
	if n, err := strconv.Atoi(f.Sysctls["vm.swappiness"]); err == nil && f.SwapBytes > 0 {
		if n > 10 {
			out.bad(Warn, "swap", fmt.Sprintf("%s of swap, vm.swappiness is %d", cli.Bytes(f.SwapBytes), n), "pages of the broker itself may be swapped out in favour of the log's: latency of seconds", "sysctl -w vm.swappiness=1")
		} else {
			out.ok("swap", "vm.swappiness is %d", n)
		}
	}
	if f.HugePages != "" {
		if strings.Contains(f.HugePages, "[always]") {
			out.bad(Warn, "transparent huge pages", "always", "compaction of memory can stall a process for milliseconds, and memory use grows", "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
		} else {
			out.ok("transparent huge pages", "%s", f.HugePages)
		}
	}
}

func judgeClock(f *facts, out *findings) {
	if f.ClockKnown {
		if f.ClockSynced {
			out.ok("clock", "synchronised")
		} else {
			out.bad(Warn, "clock", "the kernel does not know it to be synchronised", "timestamps, retention by time and lookups by time are as wrong as the clock", "run chrony or systemd-timesyncd; in a container or guest ask the host")
		}
	}
	switch f.ClockSource {
	case "":
	case "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter":
		out.ok("clock source", "%s", f.ClockSource)
	default:
		out.bad(Warn, "clock source", f.ClockSource, "reading the time is a system call there, and each request reads it several times", "tsc or kvm-clock, if the machine offers it: /sys/devices/system/clocksource/clocksource0/available_clocksource")
	}
}
