package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/results"
)

func TestParseMachineCPU(t *testing.T) {
	for _, c := range []struct {
		name, stat string
		want       MachineCPU
		wantErr    string
	}{
		{name: "plain", stat: "cpu  10 20 30 1000 2000 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8 9 10\n",
			want: MachineCPU{Busy: 690 * time.Millisecond, Steal: 60 * time.Millisecond}},
		{name: "old kernel", stat: "cpu 1 2 3 4\n", wantErr: "first line"},
		{name: "empty", stat: "", wantErr: "first line"},
		{name: "not a number", stat: "cpu 1 2 3 4 5 6 7 x 9 10\n", wantErr: "invalid syntax"},
		{name: "another file", stat: "intr 1 2 3 4 5 6 7 8 9\n", wantErr: "first line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseMachineCPU(c.stat)
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("error %v, want one with %q", err, c.wantErr)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestCountAfter(t *testing.T) {
	const text = "rchar: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n"
	if n, err := countAfter(text, "write_bytes:"); n != 4096 || err != nil {
		t.Error(n, err)
	}
	if _, err := countAfter(text, "bytes:"); err == nil {
		t.Error("a key inside a line is found")
	}
	if _, err := countAfter("a: b\n", "a:"); err == nil {
		t.Error("a word passes as a number")
	}
}

// TestUsage charges each what it used between two readings.
func TestUsage(t *testing.T) {
	from := reading{
		client: CPUTime{User: time.Second}, server: CPUTime{System: 2 * time.Second},
		machine: MachineCPU{Busy: 10 * time.Second, Steal: time.Second},
		written: 100, switches: map[string]int64{"old": 50, "gone": 9},
	}
	to := reading{
		client: CPUTime{User: time.Second, System: 500 * time.Millisecond}, server: CPUTime{User: time.Second, System: 3 * time.Second},
		machine: MachineCPU{Busy: 13 * time.Second, Steal: 1250 * time.Millisecond},
		written: 4196, switches: map[string]int64{"old": 70, "new": 5},
	}
	want := results.Usage{ServerCPUSeconds: 2, ClientCPUSeconds: 0.5, MachineCPUSeconds: 3, StealSeconds: 0.25,
		WrittenBytes: 4096, ContextSwitches: 25}
	if got := usage(from, to); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestMeter meters this process while it works.
func TestMeter(t *testing.T) {
	m := startMeter(os.Getpid(), time.Now())
	for end := time.Now().Add(1200 * time.Millisecond); time.Now().Before(end); {
		runtime.Gosched()
	}
	m.end()
	used, series, err := m.result()
	if err != nil {
		t.Fatal(err)
	}
	if used.ServerCPUSeconds < 0.1 || used.ClientCPUSeconds < 0.1 || used.MachineCPUSeconds < 0.1 || used.PeakRSSBytes < 1<<20 {
		t.Errorf("%+v", used)
	}
	if len(series) != 2 || len(series[0].Points) != 1 || series[0].Points[0][1] < 0.05 || series[1].Points[0][1] < 1<<20 {
		t.Errorf("series %+v", series)
	}
}

func TestMeterOfARunThatNeverBegan(t *testing.T) {
	m := startMeter(os.Getpid(), time.Now().Add(time.Hour))
	m.end()
	if _, _, err := m.result(); err == nil {
		t.Error("no error")
	}
}

func TestMeterOfAProcessThatIsGone(t *testing.T) {
	p, err := StartProcess(ProcessSpec{Name: "short", Path: "/bin/true", LogPath: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	m := startMeter(p.PID(), time.Now())
	m.end()
	if _, _, err := m.result(); err == nil {
		t.Error("no error")
	}
}
