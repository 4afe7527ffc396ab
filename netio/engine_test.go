package netio

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestEngineChoice checks that auto takes the best engine of this build, says
// why in one line, and that names are checked.
func TestEngineChoice(t *testing.T) {
	if want := testEngines; !slices.Equal(sorted(Engines()), sorted(want)) {
		t.Errorf("Engines() = %v, want %v", Engines(), want)
	}
	var log bytes.Buffer
	s, err := NewServer(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, &testHandler{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	name, reason := s.Engine()
	// Where io_uring is built in it must work: falling back is a failure here.
	if want := testEngines[len(testEngines)-1]; name != want {
		t.Errorf("auto took %s (%s), want %s", name, reason, want)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "engine="+name) {
		t.Errorf("log: %s", log.String())
	}
	if name == EngineEpoll && !strings.Contains(reason, "not built in") {
		t.Errorf("reason: %s", reason)
	}
	if _, err := NewServer(Config{Engine: "kqueue"}, &testHandler{}); err == nil {
		t.Error("engine kqueue was taken")
	}
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

const deniedEnv = "NETIO_TEST_DENY_IO_URING"

// TestFallback runs this test binary again with io_uring_setup denied, as
// containers do: auto must serve by epoll and say why, io_uring by name fail.
func TestFallback(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS, unix.ENOMEM} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDeniedChild$", "-test.v")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", deniedEnv, errno))
			out, err := cmd.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("--- PASS: TestDeniedChild")) {
				t.Fatalf("child: %v\n%s", err, out)
			}
		})
	}
}

// TestDeniedChild is the child's part; alone it only checks the filter's form.
func TestDeniedChild(t *testing.T) {
	var errno unix.Errno
	if v := os.Getenv(deniedEnv); v == "" {
		if n := len(denyFilter(unix.EPERM)); n != 6 {
			t.Errorf("filter of %d instructions", n)
		}
		return
	} else if _, err := fmt.Sscan(v, &errno); err != nil {
		t.Fatal(err)
	}
	deny(t, errno)
	builtIn := len(testEngines) > 1
	if _, err := NewServer(Config{Engine: EngineUring, Logger: quietLogger}, &testHandler{}); err == nil {
		t.Error("io_uring by name was started though it is denied")
	} else if builtIn && !strings.Contains(err.Error(), errno.Error()) {
		t.Errorf("io_uring by name: %v", err)
	}
	var log bytes.Buffer
	s, addr := env{EngineEpoll, 2}.start(t, &testHandler{}, func(c *Config) {
		c.Engine = EngineAuto
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	if _, reason := s.Engine(); builtIn && !strings.Contains(reason, errno.Error()) {
		t.Errorf("reason %q does not name %v", reason, errno)
	}
	if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "engine=epoll") {
		t.Errorf("log: %s", log.String())
	}
	p := dial(t, addr)
	p.send(numbered(1, 100), numbered(2, 300_000))
	p.want(numbered(1, 100))
	p.want(numbered(2, 300_000))
}

// denyFilter is a seccomp program: io_uring_setup fails with errno, all else
// is allowed.
func denyFilter(errno unix.Errno) []unix.SockFilter {
	const (
		ioUringSetup = 425
		archOffset   = 4
		auditX86     = 0xc000003e
		auditArm     = 0xc00000b7
	)
	arch := uint32(auditX86)
	if runtime.GOARCH == "arm64" {
		arch = auditArm
	}
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: archOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: ioUringSetup, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
}

// deny installs the filter on every thread of this process.
func deny(t *testing.T, errno unix.Errno) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	filter := denyFilter(errno)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if e != 0 {
		t.Fatalf("seccomp: %v", e)
	}
	if _, _, e := unix.Syscall(425, 1, 0, 0); e != errno {
		t.Fatalf("io_uring_setup is not denied: %v", e)
	}
}
