package broker

import (
	"log/slog"
	"math"

	"golang.org/x/sys/unix"
)

const (
	// openFilesLow is the limit of open files below which a start warns: ten
	// thousand connections, and some files for each partition in use.
	openFilesLow = 16384
	// filesForLogs is the part of the limit, one in so many, that connections
	// leave to the logs: a connection that waits is better than a log that
	// cannot open its next segment.
	filesForLogs = 4
)

// connectionsMax bounds the connections by the limit of open files, which a
// warning names where it is low. The Go runtime has raised the soft limit to
// the hard one.
func connectionsMax(configured int32, logger *slog.Logger) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return int(configured)
	}
	files := int(min(limit.Cur, math.MaxInt32))
	bound := min(int(configured), files-files/filesForLogs)
	if files < openFilesLow {
		logger.Warn("few files may be open at a time: each connection and each log segment in use takes one",
			"limit", files, "advised", openFilesLow, "connections", bound,
			"raise", "ulimit -Hn, LimitNOFILE= of systemd, --ulimit nofile= of a container")
	}
	return bound
}
