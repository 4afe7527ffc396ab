package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
)

// Op is a kind of call.
type Op int8

// The kinds of call that Mem tells a hook of, in the words of a Call.
const (
	OpAny         Op = iota // in a Fault: every kind
	OpOpen                  // Open, OpenRead
	OpCreate                // Create
	OpRead                  // ReadAt
	OpReadNowait            // ReadNowait
	OpWrite                 // WriteAt, WritevAt
	OpTruncate              // Truncate; Offset is the size
	OpSync                  // Sync
	OpDatasync              // Datasync
	OpPreallocate           // Preallocate, Extend
	OpSyncRange             // SyncRange
	OpDropBehind            // DropBehind
	OpMap                   // Map
	OpRename                // Rename
	OpRemove                // Remove, and each one of RemoveAll
	OpMkdir                 // Mkdir, and each one of MkdirAll
	OpReadDir               // ReadDir
	OpStat                  // Stat, Size, Exists, DiskFree
	OpSyncDir               // SyncDir
	OpLock                  // Lock
)

var opNames = [...]string{"any", "open", "create", "read", "read nowait", "write", "truncate", "sync", "datasync",
	"preallocate", "sync range", "drop behind", "map", "rename", "remove", "mkdir", "readdir", "stat", "syncdir", "lock"}

func (op Op) String() string { return opNames[op] }

// Changes reports whether calls of the kind change what a disk holds or has
// promised to hold: the ones worth a crash after each.
func (op Op) Changes() bool {
	switch op {
	case OpCreate, OpWrite, OpTruncate, OpSync, OpDatasync, OpPreallocate, OpRename, OpRemove, OpMkdir, OpSyncDir:
		return true
	}
	return false
}

// Call is one call about to be made.
type Call struct {
	N              int64 // how many calls came before on this file system
	Op             Op
	Path           string
	To             string // Rename's second path
	Offset, Length int64
}

// Fault makes calls fail.
type Fault struct {
	// Op restricts the fault to one kind of call; OpAny is all.
	Op Op
	// Path is a pattern of path.Match for the last element of the path; empty is
	// all.
	Path string
	// Skip lets as many matching calls pass first.
	Skip int
	// Times is how many calls fail after that; 0 is one, below 0 all.
	Times int
	// Err is the error, for instance unix.EIO.
	Err error
	// Short makes a write fail after that many bytes instead of none.
	Short int64
}

// Inject adds a fault. Faults are tried in order of their injection, the first
// to match fails the call.
func (m *Mem) Inject(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, &f)
}

// ClearFaults removes all faults.
func (m *Mem) ClearFaults() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = nil
}

// SetHook has fn called before each call, without any lock held; it may call
// the file system, which calls fn again. Its error becomes the call's, wrapped
// with operation and path, except ErrWouldBlock and io.EOF, which stay bare. A
// nil fn ends it.
func (m *Mem) SetHook(fn func(Call) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = fn
}

// shortError fails a write after n bytes.
type shortError struct {
	n   int64
	err error
}

func (e *shortError) Error() string { return e.err.Error() }

func (e *shortError) Unwrap() error { return e.err }

// intercept asks hook and faults.
func (m *Mem) intercept(c Call) error {
	m.mu.Lock()
	c.N = m.calls
	m.calls++
	hook := m.hook
	err := m.fault(c)
	m.mu.Unlock()
	if hook != nil {
		if hookErr := hook(c); hookErr != nil {
			err = hookErr
		}
	}
	if err == nil || err == ErrWouldBlock || err == io.EOF {
		return err
	}
	var short *shortError
	if errors.As(err, &short) {
		return err
	}
	return &fs.PathError{Op: c.Op.String(), Path: c.Path, Err: err}
}

// fault finds the first fault that fails the call.
func (m *Mem) fault(c Call) error {
	for i, f := range m.faults {
		if f.Op != OpAny && f.Op != c.Op {
			continue
		}
		if f.Path != "" {
			if ok, err := path.Match(f.Path, path.Base(c.Path)); err != nil || !ok {
				continue
			}
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				m.faults = slices.Delete(m.faults, i, i+1)
			}
		}
		if f.Short > 0 && c.Op == OpWrite {
			return &shortError{n: f.Short, err: f.Err}
		}
		return f.Err
	}
	return nil
}
