package storage

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// CorruptionError says where a file does not hold what it must.
type CorruptionError struct {
	File     string
	Position Position
	Err      error
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("%s: corrupt at byte %d: %v", e.File, e.Position, e.Err)
}

func (e *CorruptionError) Unwrap() error { return e.Err }

// errClosed is why a log that was closed or deleted takes no more appends.
var errClosed = errors.New("log is closed")

// errLost marks a failed sync of batches: what it has lost no second sync
// brings back, so it is never tried again.
var errLost = errors.New("sync failed")

// outOfSpace says of an error that nothing is lost by waiting for disk space.
func outOfSpace(err error) bool {
	return (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) && !errors.Is(err, errLost)
}

func corrupt(file string, pos int64, format string, args ...any) error {
	return &CorruptionError{File: file, Position: Position(pos), Err: fmt.Errorf(format, args...)}
}
