package main

import (
	"log/slog"

	"golang.org/x/sys/unix"
)

// openFilesLow is the limit of open files below which a start warns: ten
// thousand connections, and some files for each partition in use.
const openFilesLow = 16384

// warnOpenFiles names a limit of open files that a busy broker would run into,
// and what raises it. The Go runtime has raised the soft limit to the hard one.
func warnOpenFiles(logger *slog.Logger) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur >= openFilesLow {
		return
	}
	logger.Warn("few files may be open at a time: each connection and each log segment in use takes one",
		"limit", limit.Cur, "advised", openFilesLow, "raise", "ulimit -Hn, LimitNOFILE= of systemd, --ulimit nofile= of a container")
}
