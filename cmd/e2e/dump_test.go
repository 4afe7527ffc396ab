//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
)

// segments says which files of a partition directory DumpLogSegments must
// accept.
type segments int

const (
	allSegments    segments = iota // after a clean stop
	rolledSegments                 // while the broker runs: all but the active one
)

// goodDumpLines are the lines that DumpLogSegments prints when it has nothing
// to complain about. Every other line, on stdout or stderr, is a complaint.
var goodDumpLines = []*regexp.Regexp{
	regexp.MustCompile(`^\| offset: \d+ (CreateTime|LogAppendTime): -?\d+ keySize: `),
	regexp.MustCompile(`^baseOffset: .* isvalid: true$`),
	regexp.MustCompile(`^offset: \d+ position: \d+$`),
	regexp.MustCompile(`^timestamp: \d+ offset: \d+$`),
	regexp.MustCompile(`^producerId: \d+ producerEpoch: \d+ `),
	regexp.MustCompile(`^Dumping `),
	regexp.MustCompile(`^Log starting offset: \d+$`),
	regexp.MustCompile(`^Snapshot end offset: \d+, epoch: \d+$`),
	regexp.MustCompile(`index is empty\.$`),
	javaNoise,
}

// javaNoise is what the JVM says of Kafka's jars rather than of our files.
var javaNoise = regexp.MustCompile(`^(SLF4J|WARNING): `)

// dumpLogs lets Kafka's own tool read the files of every partition under dir
// and fails at the first complaint. It returns how many files it read.
func dumpLogs(t *testing.T, dir string, which segments) int {
	t.Helper()
	files := segmentFiles(t, dir, which)
	if len(files) == 0 {
		t.Fatalf("nothing to dump under %s", dir)
	}
	for chunk := range slices.Chunk(files, 400) {
		dumpFiles(t, chunk)
	}
	return len(files)
}

// segmentFiles lists .log, .index, .timeindex and .snapshot files.
func segmentFiles(t *testing.T, dir string, which segments) []string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*-[0-9]*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	active := map[string]string{} // by directory: the name of its last segment
	for _, log := range logs {
		name := strings.TrimSuffix(filepath.Base(log), ".log")
		active[filepath.Dir(log)] = max(active[filepath.Dir(log)], name)
	}
	var files []string
	for partition, last := range active {
		if base := filepath.Base(partition); strings.HasPrefix(base, "__cluster_metadata") || strings.HasSuffix(base, "-delete") {
			continue
		}
		entries, err := os.ReadDir(partition)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name, ext := strings.TrimSuffix(entry.Name(), filepath.Ext(entry.Name())), filepath.Ext(entry.Name())
			if !slices.Contains([]string{".log", ".index", ".timeindex", ".snapshot"}, ext) {
				continue
			}
			if which == rolledSegments && name >= last {
				continue
			}
			files = append(files, filepath.Join(partition, entry.Name()))
		}
	}
	slices.Sort(files)
	return files
}

func dumpFiles(t *testing.T, files []string) {
	t.Helper()
	cmd := javaCommand(t, bench.ToolFlags, "org.apache.kafka.tools.DumpLogSegments",
		"--deep-iteration", "--files", strings.Join(files, ","))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	// Bounded: the read ends with the process.
	timer := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	complaints := readDump(r)
	if err := cmd.Wait(); err != nil {
		complaints = append(complaints, fmt.Sprintf("DumpLogSegments: %v", err))
	}
	if len(complaints) > 0 {
		t.Errorf("DumpLogSegments complains (%d lines) of %d files:\n%s", len(complaints), len(files),
			strings.Join(complaints[:min(len(complaints), 20)], "\n"))
	}
}

// readDump returns the lines that are not good ones, each behind the file that
// was being dumped where it does not name one itself.
func readDump(r io.Reader) []string {
	var complaints []string
	dumping := ""
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), " ")
		if strings.HasPrefix(line, "Dumping ") {
			dumping = line
		}
		good := line == "" || slices.ContainsFunc(goodDumpLines, func(re *regexp.Regexp) bool { return re.MatchString(line) })
		switch {
		case good:
		case strings.HasPrefix(line, " ") || strings.Contains(line, "offsets in "):
			complaints = append(complaints, line)
		default:
			complaints = append(complaints, dumping+": "+line)
		}
	}
	if err := lines.Err(); err != nil {
		complaints = append(complaints, err.Error())
	}
	return dropFirstOffsets(complaints)
}

var (
	gapHeader = regexp.MustCompile(`^Non-consecutive offsets in .*/(\d{20})\.log$`)
	gapPair   = regexp.MustCompile(`^  (-?\d+) is followed by (\d+)$`)
)

// dropFirstOffsets removes the one complaint that Kafka 4.4's tool has of
// Kafka's own files as well (see FINDINGS.md): with --deep-iteration it starts
// from offset -1 and so reports the first record of every segment whose base
// offset is not 0. A gap anywhere else stays.
func dropFirstOffsets(complaints []string) []string {
	var kept []string
	for i := 0; i < len(complaints); i++ {
		header := gapHeader.FindStringSubmatch(complaints[i])
		if header == nil {
			kept = append(kept, complaints[i])
			continue
		}
		base := strings.TrimLeft(header[1], "0")
		var gaps []string
		for ; i+1 < len(complaints) && gapPair.MatchString(complaints[i+1]); i++ {
			pair := gapPair.FindStringSubmatch(complaints[i+1])
			if pair[1] != "-1" || pair[2] != base {
				gaps = append(gaps, complaints[i+1])
			}
		}
		if len(gaps) > 0 {
			kept = append(append(kept, header[0]), gaps...)
		}
	}
	return kept
}
