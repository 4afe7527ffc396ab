//go:build iouring

package netio

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// Numbers of the kernel's interface, include/uapi/linux/io_uring.h. Some are
// newer than giouring, some it has in another width.
const (
	sysSetup    = 425
	sysEnter    = 426
	sysRegister = 427

	opPollAdd     = 6
	opAsyncCancel = 14
	opRecv        = 27

	setupClamp        = 1 << 4
	setupSubmitAll    = 1 << 7
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
	// Deferred task work runs only inside our own waits (Linux 6.1): without it
	// every arrival interrupts the loop.
	setupFlags = setupClamp | setupSubmitAll | setupSingleIssuer | setupDeferTaskrun

	enterGetEvents = 1 << 0
	enterExtArg    = 1 << 3
	enterNoIowait  = 1 << 7

	featNoDrop    = 1 << 1
	featExtArg    = 1 << 8
	featNoIowait  = 1 << 17
	featNecessary = featNoDrop | featExtArg

	sqeBufferSelect = 1 << 5
	recvMultishot   = 1 << 1
	pollAddMulti    = 1 << 0
	cancelAll       = 1 << 0
	cancelAny       = 1 << 2

	cqeBuffer      = 1 << 0
	cqeMore        = 1 << 1
	cqeBufferShift = 16

	registerProbe    = 8
	registerPbufRing = 22
)

// flushSQ publishes the submission entries that were filled and returns how
// many the kernel has not taken. giouring does not export it, and its exported
// ways to submit all enter the kernel with flags of their own.
//
//go:linkname flushSQ github.com/pawelgaczynski/giouring.(*Ring).internalFlushSQ
func flushSQ(ring *giouring.Ring) uint32

// waitByEpoll has rings waited for as on kernels that count a wait inside
// io_uring_enter as iowait. For tests.
var waitByEpoll atomic.Bool

// setupParams is struct io_uring_params, of which only flags and features
// matter here.
type setupParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle uint32
	features                                               uint32
	_                                                      [96]byte
}

// probeOp and probeTable are struct io_uring_probe_op and io_uring_probe.
type probeOp struct {
	op, resv uint8
	flags    uint16
	_        uint32
}

type probeTable struct {
	lastOp, opsLen uint8
	_              [14]byte
	ops            [opRecv + 1]probeOp
}

const probeOpSupported = 1 << 0

// features are those of the running kernel, once uringUsable has succeeded.
var features atomic.Uint32

func kernelFeatures() uint32 { return features.Load() }

func builtInUring() []string { return []string{EngineUring} }

// uringUsable tries all that the poller needs and says what is missing:
// containers often forbid io_uring_setup (EPERM), old kernels lack it (ENOSYS)
// or an operation, and locked memory may be short (ENOMEM).
var uringUsable = sync.OnceValue(func() error {
	var params setupParams
	params.flags = setupFlags
	fd, _, errno := unix.Syscall(sysSetup, 8, uintptr(unsafe.Pointer(&params)), 0)
	switch errno {
	case 0:
	case unix.EINVAL:
		return fmt.Errorf("io_uring_setup: %w: the kernel is older than 6.1", errno)
	default:
		return fmt.Errorf("io_uring_setup: %w", errno)
	}
	defer func() { _ = unix.Close(int(fd)) }()
	if params.features&featNecessary != featNecessary {
		return fmt.Errorf("io_uring lacks features (%#x)", featNecessary&^params.features)
	}
	var table probeTable
	_, _, errno = unix.Syscall6(sysRegister, fd, registerProbe, uintptr(unsafe.Pointer(&table)), uintptr(len(table.ops)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("io_uring_register(PROBE): %w", errno)
	}
	for _, op := range []uint8{opPollAdd, opAsyncCancel, opRecv} {
		if table.ops[op].flags&probeOpSupported == 0 {
			return fmt.Errorf("io_uring lacks operation %d", op)
		}
	}
	if err := probeBufferRing(int(fd)); err != nil {
		return err
	}
	features.Store(params.features)
	return nil
})

// probeBufferRing registers a ring of provided buffers (Linux 5.19); multishot
// receives are as old as the setup flags asked for.
func probeBufferRing(fd int) error {
	const entries = 8
	mem := mapMemory(entries * bufferEntryBytes)
	defer unmapMemory(mem)
	reg := giouring.BufReg{RingAddr: uint64(uintptr(unsafe.Pointer(&mem[0]))), RingEntries: entries, Bgid: bufferGroup}
	_, _, errno := unix.Syscall6(sysRegister, uintptr(fd), registerPbufRing, uintptr(unsafe.Pointer(&reg)), 1, 0, 0)
	if errno != 0 {
		return fmt.Errorf("io_uring_register(PBUF_RING): %w", errno)
	}
	return nil
}
