package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPUTime is what a process has used since its start.
type CPUTime struct{ User, System time.Duration }

// Total is user and system time together.
func (c CPUTime) Total() time.Duration { return c.User + c.System }

// Sub is the time used between an earlier reading and this one.
func (c CPUTime) Sub(earlier CPUTime) CPUTime {
	return CPUTime{User: c.User - earlier.User, System: c.System - earlier.System}
}

// tick is the unit of /proc/<pid>/stat: USER_HZ is 100 on every Linux that Go
// runs on.
const tick = 10 * time.Millisecond

// ProcessCPU reads the CPU time of a process with all its threads, those that
// have ended included. Its resolution is 10 ms.
func ProcessCPU(pid int) (CPUTime, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	data, err := os.ReadFile(name)
	if err != nil {
		return CPUTime{}, err
	}
	cpu, err := parseStat(data)
	if err != nil {
		return CPUTime{}, fmt.Errorf("%s: %w", name, err)
	}
	return cpu, nil
}

// parseStat takes utime and stime, fields 14 and 15, out of a stat line. The
// command's name, field 2, may itself hold spaces and brackets: the fields are
// counted from the last closing one.
func parseStat(line []byte) (CPUTime, error) {
	end := bytes.LastIndexByte(line, ')')
	if end < 0 {
		return CPUTime{}, fmt.Errorf("no command name in %q", line)
	}
	fields := bytes.Fields(line[end+1:])
	const user, system = 14 - 3, 15 - 3 // the first field after the name is number 3
	if len(fields) <= system {
		return CPUTime{}, fmt.Errorf("%d fields after the command name in %q", len(fields), line)
	}
	u, err := strconv.ParseInt(string(fields[user]), 10, 64)
	if err != nil {
		return CPUTime{}, fmt.Errorf("utime: %w", err)
	}
	s, err := strconv.ParseInt(string(fields[system]), 10, 64)
	if err != nil {
		return CPUTime{}, fmt.Errorf("stime: %w", err)
	}
	return CPUTime{User: time.Duration(u) * tick, System: time.Duration(s) * tick}, nil
}

// SelfCPU is the CPU time of this process: the client's share of a run.
func SelfCPU() CPUTime {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic("BUG: getrusage(RUSAGE_SELF): " + err.Error())
	}
	return CPUTime{User: time.Duration(usage.Utime.Nano()), System: time.Duration(usage.Stime.Nano())}
}

// Memory is what a process holds, in bytes.
type Memory struct {
	RSS     int64 // resident now
	PeakRSS int64 // the most since its start, or since ResetPeakRSS
	Anon    int64 // of RSS, what no file backs
}

// ProcessMemory reads the memory of a process.
func ProcessMemory(pid int) (Memory, error) {
	name := fmt.Sprintf("/proc/%d/status", pid)
	data, err := os.ReadFile(name)
	if err != nil {
		return Memory{}, err
	}
	values, err := parseKiB(data, "VmRSS", "VmHWM", "RssAnon")
	if err != nil {
		return Memory{}, fmt.Errorf("%s: %w", name, err)
	}
	return Memory{RSS: values[0], PeakRSS: values[1], Anon: values[2]}, nil
}

// ResetPeakRSS lets PeakRSS count from now on.
func ResetPeakRSS(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// parseKiB finds lines of the form "Key:   123 kB" and returns bytes, in the
// order of keys.
func parseKiB(data []byte, keys ...string) ([]int64, error) {
	values := make([]int64, len(keys))
	for i, key := range keys {
		found := false
		for line := range strings.Lines(string(data)) {
			rest, ok := strings.CutPrefix(line, key+":")
			if !ok {
				continue
			}
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			values[i], found = kib<<10, true
			break
		}
		if !found {
			return nil, fmt.Errorf("no line %s", key)
		}
	}
	return values, nil
}
