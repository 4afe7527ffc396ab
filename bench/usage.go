package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/posthouse/posthouse/results"
)

// MachineCPU is the time of all CPUs together since the boot.
type MachineCPU struct {
	Busy  time.Duration // user, nice, system, interrupts; steal not
	Steal time.Duration // runnable, while the hypervisor ran others
}

// ReadMachineCPU reads /proc/stat.
func ReadMachineCPU() (MachineCPU, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return MachineCPU{}, err
	}
	cpu, err := parseMachineCPU(string(data))
	if err != nil {
		return MachineCPU{}, fmt.Errorf("/proc/stat: %w", err)
	}
	return cpu, nil
}

// parseMachineCPU takes the line of all CPUs: user nice system idle iowait irq
// softirq steal guest guest_nice. Guests are in user and nice already.
func parseMachineCPU(stat string) (MachineCPU, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	const least = 9 // the name, and the times up to steal
	if len(fields) < least || fields[0] != "cpu" {
		return MachineCPU{}, fmt.Errorf("first line %q", line)
	}
	var ticks [least - 1]int64
	for i := range ticks {
		var err error
		if ticks[i], err = strconv.ParseInt(fields[i+1], 10, 64); err != nil {
			return MachineCPU{}, fmt.Errorf("first line %q: %w", line, err)
		}
	}
	busy := ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]
	return MachineCPU{Busy: time.Duration(busy) * tick, Steal: time.Duration(ticks[7]) * tick}, nil
}

// writtenBytes is what a process has had written to storage.
func writtenBytes(pid int) (int64, error) {
	name := fmt.Sprintf("/proc/%d/io", pid)
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	written, err := countAfter(string(data), "write_bytes:")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return written, nil
}

// countAfter is the number in the line that begins with the key.
func countAfter(text, key string) (int64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}
	return 0, fmt.Errorf("no line %s", key)
}

// threadSwitches are the context switches of each thread of a process,
// voluntary or not.
func threadSwitches(pid int) (map[string]int64, error) {
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return nil, err
	}
	switches := make(map[string]int64, len(names))
	for _, name := range names {
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		voluntary, err := countAfter(string(data), "voluntary_ctxt_switches:")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		others, err := countAfter(string(data), "nonvoluntary_ctxt_switches:")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		switches[name] = voluntary + others
	}
	return switches, nil
}

// reading is what the meters show at one moment.
type reading struct {
	at       time.Time
	client   CPUTime
	machine  MachineCPU
	server   CPUTime // this and what follows stay zero without a process
	written  int64
	switches map[string]int64
}

// read reads the meters; pid 0 is a server that is not ours to read.
func read(pid int) (reading, error) {
	r := reading{at: time.Now(), client: SelfCPU()}
	var err error
	if r.machine, err = ReadMachineCPU(); err != nil || pid == 0 {
		return r, err
	}
	if r.server, err = ProcessCPU(pid); err != nil {
		return r, err
	}
	if r.written, err = writtenBytes(pid); err != nil {
		return r, err
	}
	r.switches, err = threadSwitches(pid)
	return r, err
}

// usage is what was used between two readings.
func usage(from, to reading) results.Usage {
	u := results.Usage{
		ServerCPUSeconds:  to.server.Sub(from.server).Total().Seconds(),
		ClientCPUSeconds:  to.client.Sub(from.client).Total().Seconds(),
		MachineCPUSeconds: max(0, to.machine.Busy-from.machine.Busy).Seconds(),
		StealSeconds:      max(0, to.machine.Steal-from.machine.Steal).Seconds(),
		WrittenBytes:      max(0, to.written-from.written),
	}
	// A thread that ended in between is lost with what it did.
	for thread, n := range to.switches {
		u.ContextSwitches += n - from.switches[thread]
	}
	return u
}

// meter reads what a turn uses: at the begin and the end of its measured part,
// and the server's CPU and memory once a second in between.
type meter struct {
	pid int // 0: not ours to read

	mu       sync.Mutex
	from, to reading
	cpu, rss []results.Point // of the server, by second of the measured part
	err      error

	stop chan struct{}
	done chan struct{}
}

// startMeter begins to read at the given time.
func startMeter(pid int, at time.Time) *meter {
	m := &meter{pid: pid, stop: make(chan struct{}), done: make(chan struct{})}
	go m.run(at)
	return m
}

func (m *meter) run(at time.Time) {
	defer close(m.done)
	if !m.sleepUntil(at) {
		return
	}
	from, err := read(m.pid)
	m.mu.Lock()
	m.from, m.err = from, err
	m.mu.Unlock()
	if err != nil || m.pid == 0 {
		return
	}
	last := from
	for n := 1; m.sleepUntil(from.at.Add(time.Duration(n) * time.Second)); n++ {
		now := reading{at: time.Now()}
		memory, err := ProcessMemory(m.pid)
		if err == nil {
			now.server, err = ProcessCPU(m.pid)
		}
		if err != nil {
			return // the process is gone: the turn says so
		}
		m.mu.Lock()
		second := now.at.Sub(from.at).Seconds()
		cores := now.server.Sub(last.server).Total().Seconds() / now.at.Sub(last.at).Seconds()
		m.cpu = append(m.cpu, results.Point{second, cores})
		m.rss = append(m.rss, results.Point{second, float64(memory.RSS)})
		m.mu.Unlock()
		last = now
	}
}

// sleepUntil reports false once the meter is stopped.
func (m *meter) sleepUntil(at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-m.stop:
		return false
	}
}

// end takes the last reading.
func (m *meter) end() {
	to, err := read(m.pid)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.to = to
	if m.err == nil {
		m.err = err
	}
}

// result stops the meter and gives what it read; an error if the process could
// not be read or the measured part never began.
func (m *meter) result() (results.Usage, []results.Series, error) {
	close(m.stop)
	<-m.done
	if m.err != nil {
		return results.Usage{}, nil, m.err
	}
	if m.from.at.IsZero() || m.to.at.IsZero() {
		return results.Usage{}, nil, errors.New("the run ended before its measured part began")
	}
	u := usage(m.from, m.to)
	var series []results.Series
	if m.pid != 0 {
		memory, err := ProcessMemory(m.pid)
		if err != nil {
			return u, nil, err
		}
		u.PeakRSSBytes = memory.PeakRSS
		series = []results.Series{
			{Name: results.SeriesCPU, Unit: "cores", Points: m.cpu},
			{Name: results.SeriesRSS, Unit: "bytes", Points: m.rss},
		}
	}
	return u, series, nil
}

// dropFile writes a file's dirty pages back and has the kernel forget its pages.
func dropFile(name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
