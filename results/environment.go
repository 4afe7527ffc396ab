package results

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Environment is the machine that a run was taken on.
type Environment struct {
	CapturedAt   time.Time `json:"capturedAt"`
	OS           string    `json:"os,omitempty"` // PRETTY_NAME of os-release
	Kernel       string    `json:"kernel"`
	Architecture string    `json:"architecture"`
	CPUModel     string    `json:"cpuModel"`
	CPUs         int       `json:"cpus"` // online
	// Governor is the frequency governor of CPU 0; Hypervisor says that the
	// CPU reports one.
	Governor   string `json:"governor,omitempty"`
	Hypervisor bool   `json:"hypervisor"`

	MemoryBytes     int64 `json:"memoryBytes"`
	MemoryFreeBytes int64 `json:"memoryFreeBytes"` // when captured: see WarnMachineNotPrepared
	SwapBytes       int64 `json:"swapBytes"`

	Filesystem Filesystem `json:"filesystem"`

	CongestionControl    string `json:"congestionControl"`    // net.ipv4.tcp_congestion_control
	TransparentHugepages string `json:"transparentHugepages"` // the chosen one of always, madvise, never
	// Writeback are the kernel's limits, "vm." left off; see writebackKeys.
	Writeback map[string]int64 `json:"writeback"`

	GoVersion        string `json:"goVersion"`
	PosthouseVersion string `json:"posthouseVersion"`
	// Unknown names what could not be read, with why.
	Unknown []string `json:"unknown,omitempty"`
}

// Filesystem is where the contenders' data lay.
type Filesystem struct {
	MountPoint string `json:"mountPoint"`
	Type       string `json:"type"`
	Device     string `json:"device"`
	Options    string `json:"options"` // per-mount, then the super block's, comma-separated
	FreeBytes  int64  `json:"freeBytes"`
	Scheduler  string `json:"scheduler,omitempty"` // of the block device
	Rotational bool   `json:"rotational,omitempty"`
}

var writebackKeys = []string{
	"dirty_ratio", "dirty_background_ratio", // percent
	"dirty_bytes", "dirty_background_bytes", // 0: the ratio holds
	"dirty_expire_centisecs", "dirty_writeback_centisecs",
	"swappiness",
}

// CaptureEnvironment reads the machine's state; dir is where the contenders
// keep their data, version is this program's. What cannot be read is named in
// Unknown and does no other harm.
func CaptureEnvironment(dir, version string) *Environment {
	return probe{root: "/"}.capture(dir, version)
}

// probe reads /proc, /sys and /etc below a root that tests choose.
type probe struct{ root string }

func (p probe) capture(dir, version string) *Environment {
	e := &Environment{
		CapturedAt: time.Now().UTC().Truncate(time.Second), Architecture: runtime.GOARCH,
		GoVersion: runtime.Version(), PosthouseVersion: version, Writeback: make(map[string]int64),
	}
	unknown := func(what string, err error) {
		if err != nil {
			e.Unknown = append(e.Unknown, fmt.Sprintf("%s: %v", what, err))
		}
	}
	var err error
	e.Kernel, err = p.line("proc/sys/kernel/osrelease")
	unknown("kernel", err)
	if release, err := p.read("etc/os-release"); err == nil {
		e.OS = strings.Trim(keyed(release, "PRETTY_NAME="), `"`)
	}
	unknown("cpu", p.cpu(e))
	unknown("memory", p.memory(e))
	e.CongestionControl, err = p.line("proc/sys/net/ipv4/tcp_congestion_control")
	unknown("congestion control", err)
	if hugepages, err := p.line("sys/kernel/mm/transparent_hugepage/enabled"); err == nil {
		e.TransparentHugepages = chosen(hugepages)
	} else {
		unknown("transparent hugepages", err)
	}
	for _, key := range writebackKeys {
		text, err := p.line("proc/sys/vm/" + key)
		if err == nil {
			e.Writeback[key], err = strconv.ParseInt(text, 10, 64)
		}
		unknown("vm."+key, err)
	}
	unknown("file system", p.filesystem(dir, &e.Filesystem))
	return e
}

func (p probe) read(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(p.root, name))
	return string(data), err
}

func (p probe) line(name string) (string, error) {
	text, err := p.read(name)
	return strings.TrimSpace(text), err
}

// keyed is what follows a prefix on the first line that has it.
func keyed(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(strings.TrimLeft(rest, "\t :"))
		}
	}
	return ""
}

// chosen is the word in brackets of "always [madvise] never"; without
// brackets, all of it.
func chosen(text string) string {
	_, after, ok := strings.Cut(text, "[")
	word, _, closed := strings.Cut(after, "]")
	if !ok || !closed {
		return text
	}
	return word
}

func (p probe) cpu(e *Environment) error {
	info, err := p.read("proc/cpuinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(info) {
		if strings.HasPrefix(line, "processor") {
			e.CPUs++
		}
	}
	// Arm's cpuinfo has no model name.
	e.CPUModel = cmp.Or(keyed(info, "model name"), keyed(info, "Model"), keyed(info, "CPU part"), "unknown")
	e.Hypervisor = slices.Contains(strings.Fields(keyed(info, "flags")), "hypervisor")
	e.Governor, _ = p.line("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") // virtual machines have none
	return nil
}

func (p probe) memory(e *Environment) error {
	info, err := p.read("proc/meminfo")
	if err != nil {
		return err
	}
	for key, into := range map[string]*int64{"MemTotal:": &e.MemoryBytes, "MemFree:": &e.MemoryFreeBytes, "SwapTotal:": &e.SwapBytes} {
		text := keyed(info, key)
		kib, err := strconv.ParseInt(strings.TrimSuffix(text, " kB"), 10, 64)
		if err != nil {
			return fmt.Errorf("/proc/meminfo: %s %q", key, text)
		}
		*into = kib << 10
	}
	return nil
}

// filesystem finds the mount that holds dir: the longest mount point above it,
// of equal ones the last, which hides the others.
func (p probe) filesystem(dir string, f *Filesystem) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	mounts, err := p.read("proc/self/mountinfo")
	if err != nil {
		return err
	}
	number := ""
	for line := range strings.Lines(mounts) {
		m, ok := parseMount(line)
		if ok && holds(m.MountPoint, dir) && len(m.MountPoint) >= len(f.MountPoint) {
			number, *f = m.number, m.Filesystem
		}
	}
	if number == "" {
		return fmt.Errorf("no mount holds %s", dir)
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err == nil {
		f.FreeBytes = int64(stat.Bavail) * stat.Bsize
	}
	p.blockDevice(number, f)
	return nil
}

func holds(mountPoint, dir string) bool {
	return mountPoint == "/" || dir == mountPoint || strings.HasPrefix(dir, mountPoint+"/")
}

type mount struct {
	number string // major:minor
	Filesystem
}

// parseMount takes a line of mountinfo apart: id parent major:minor root
// mountpoint options optional... - type source superoptions.
func parseMount(line string) (mount, bool) {
	before, after, ok := strings.Cut(line, " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !ok || len(left) < 6 || len(right) < 2 {
		return mount{}, false
	}
	m := mount{number: left[2]}
	m.MountPoint, m.Options = unescape(left[4]), left[5]
	m.Type, m.Device = right[0], unescape(right[1])
	if len(right) > 2 {
		for option := range strings.SplitSeq(right[2], ",") {
			if !slices.Contains(strings.Split(m.Options, ","), option) {
				m.Options += "," + option
			}
		}
	}
	return m, true
}

// unescape undoes mountinfo's octal escapes of blanks.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// blockDevice reads the queue's settings, of the whole disk where the mount is
// a partition. Mounts without a device (tmpfs, overlay) have none.
func (p probe) blockDevice(number string, f *Filesystem) {
	device, err := filepath.EvalSymlinks(filepath.Join(p.root, "sys/dev/block", number))
	if err != nil {
		return
	}
	for _, dir := range []string{device, filepath.Dir(device)} {
		scheduler, err := os.ReadFile(filepath.Join(dir, "queue/scheduler"))
		if err != nil {
			continue
		}
		f.Scheduler = chosen(strings.TrimSpace(string(scheduler)))
		rotational, _ := os.ReadFile(filepath.Join(dir, "queue/rotational"))
		f.Rotational = strings.TrimSpace(string(rotational)) == "1"
		return
	}
}

// Field is one line of an environment, for people.
type Field struct {
	Name, Value string
	// Varies says that it differs from run to run on one machine.
	Varies bool
}

// Fields are all lines, the same names in the same order for any environment.
func (e *Environment) Fields() []Field {
	virtual := ""
	if e.Hypervisor {
		virtual = ", virtual machine"
	}
	disk := cmp.Or(e.Filesystem.Scheduler, "unknown")
	if e.Filesystem.Rotational {
		disk += ", rotational"
	}
	var writeback []string
	for _, key := range writebackKeys {
		if v, ok := e.Writeback[key]; ok {
			writeback = append(writeback, fmt.Sprintf("%s=%d", key, v))
		}
	}
	return []Field{
		{Name: "CPU", Value: fmt.Sprintf("%d × %s%s", e.CPUs, e.CPUModel, virtual)},
		{Name: "Frequency governor", Value: cmp.Or(e.Governor, "none reported")},
		{Name: "Memory", Value: bytesText(e.MemoryBytes)},
		{Name: "Free memory at the start", Value: bytesText(e.MemoryFreeBytes), Varies: true},
		{Name: "Swap", Value: bytesText(e.SwapBytes)},
		{Name: "Operating system", Value: cmp.Or(e.OS, "unknown")},
		{Name: "Kernel", Value: e.Kernel + " " + e.Architecture},
		{Name: "File system", Value: strings.TrimSpace(e.Filesystem.Type + " (" + e.Filesystem.Options + ")")},
		{Name: "Device", Value: e.Filesystem.Device + " at " + e.Filesystem.MountPoint},
		{Name: "I/O scheduler", Value: disk},
		{Name: "Free space at the start", Value: bytesText(e.Filesystem.FreeBytes), Varies: true},
		{Name: "TCP congestion control", Value: cmp.Or(e.CongestionControl, "unknown")},
		{Name: "Transparent hugepages", Value: cmp.Or(e.TransparentHugepages, "unknown")},
		{Name: "Writeback (vm.)", Value: strings.Join(writeback, " ")},
		{Name: "Go", Value: e.GoVersion},
		{Name: "Posthouse", Value: e.PosthouseVersion},
		{Name: "Not readable", Value: cmp.Or(strings.Join(e.Unknown, "; "), "nothing")},
	}
}

// bytesText is a size for people.
func bytesText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.0f GiB", float64(n)/(1<<30))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%d B", n)
	}
}
