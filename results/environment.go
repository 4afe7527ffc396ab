package results

import "time"

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
	// Writeback are the kernel's limits, "vm." left off: dirty_ratio (percent),
	// dirty_background_ratio (percent), dirty_bytes, dirty_background_bytes,
	// dirty_expire_centisecs, dirty_writeback_centisecs, swappiness.
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
	Options    string `json:"options"` // per-mount, then the super block's after " · "
	FreeBytes  int64  `json:"freeBytes"`
	Scheduler  string `json:"scheduler,omitempty"` // of the block device
	Rotational bool   `json:"rotational,omitempty"`
}
