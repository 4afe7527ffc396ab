package main

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is USER_HZ, the unit of times in /proc, which is 100 on every
// Linux architecture that Go supports.
const ticksPerSecond = 100

// processStart is when the kernel started this process, so that the ready
// line counts what the runtime and the loader took as well. Where /proc does
// not tell it is now.
func processStart() time.Time {
	now := time.Now()
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return now
	}
	// The second field is the command in parentheses and may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const startTime = 22 - 3
	if len(fields) <= startTime {
		return now
	}
	ticks, err := strconv.ParseInt(string(fields[startTime]), 10, 64)
	if err != nil {
		return now
	}
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return now
	}
	age := time.Duration(boot.Nano()) - time.Duration(ticks)*time.Second/ticksPerSecond
	return now.Add(-age)
}
