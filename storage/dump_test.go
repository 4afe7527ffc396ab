package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// writeSample fills a log with rolled segments, compressed batches, idempotent
// and transactional producers, and leaves it in order.
func writeSample(t testing.TB, dir string) {
	rng := rand.New(rand.NewPCG(7, 7))
	e := newEnv(t, vfs.OS(), LogConfig{SegmentBytes: 64 << 10, IndexIntervalBytes: 1024})
	e.dir = dir
	l := e.open()
	seqs := map[record.ProducerID]record.Sequence{}
	for i := range 2000 {
		b := record.NewBuilder()
		n := 1 + rng.IntN(5)
		id := record.ProducerID(rng.IntN(4)) * 1000
		if id > 0 {
			b.Producer(id, 1, seqs[id])
			seqs[id] += record.Sequence(n)
			if id == 3000 {
				b.Transactional()
			}
		}
		for k := range n {
			b.Add(1_700_000_000_000+record.Timestamp(i*10-rng.IntN(50)), fmt.Appendf(nil, "k%d", k), value("s", k, 40+rng.IntN(200)))
		}
		mustAppend(t, l, b.Build(record.Codec(rng.IntN(5))))
		if i%50 == 49 {
			mustAppendMarker(t, l, 3000, 1, i%100 == 99)
		}
	}
	e.restart()
	mustAppend(t, e.log, batch(1_700_000_100_000, 3, 50, "last"))
	e.stop()
}

// mustAppendMarker ends a transaction.
func mustAppendMarker(t testing.TB, l *Log, id record.ProducerID, epoch record.ProducerEpoch, abort bool) {
	t.Helper()
	kind := byte(1)
	if abort {
		kind = 0
	}
	b := record.NewBuilder().Producer(id, epoch, record.NoSequence).Transactional().Control().
		Add(1_700_000_000_000, []byte{0, 0, 0, kind}, []byte{0, 0, 0, 0, 0, 5}).Build(record.None)
	a := &Append{Batch: b}
	l.AppendAsLeader(0, []*Append{a})
	if a.Err != nil {
		t.Fatalf("marker: %v", a.Err)
	}
}

// TestKafkaDumpsOurFiles has Kafka's own tool read a log that was left in
// order, where KAFKA_LIBS names a directory of Kafka's jars.
func TestKafkaDumpsOurFiles(t *testing.T) {
	dir := t.TempDir()
	writeSample(t, dir)
	files := []string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		switch filepath.Ext(path) {
		case logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix, snapshotSuffix:
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	libs := os.Getenv("KAFKA_LIBS")
	if libs == "" {
		t.Log("KAFKA_LIBS is not set: our own reader only")
		return
	}
	cmd := exec.Command("java", "-Xmx256m", "-cp", filepath.Join(libs, "*"), "org.apache.kafka.tools.DumpLogSegments",
		"--deep-iteration", "--files", strings.Join(files, ","))
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	lines := strings.Split(strings.TrimSpace(complaints.String()), "\n")
	for i, line := range lines {
		switch {
		case line == "", strings.Contains(line, "SLF4J"), strings.Contains(line, "log4j"):
		case startQuirk(line), i+1 < len(lines) && strings.HasPrefix(line, "Non-consecutive") && startQuirk(lines[i+1]):
		default:
			t.Errorf("complaint: %s", line)
		}
	}
	for _, word := range []string{"Mismatch", "not found", "Non-consecutive", "orrupt", "isvalid: false"} {
		if i := strings.Index(out.String(), word); i >= 0 {
			t.Errorf("%s", out.String()[i:min(i+300, out.Len())])
		}
	}
	t.Logf("%d files, %d bytes of dump", len(files), out.Len())
}

// startQuirk says that a complaint is Kafka 4.4's own: its tool compares the
// first offset of every file with 0, so segments that begin elsewhere displease
// it, whoever wrote them.
func startQuirk(line string) bool {
	return strings.HasPrefix(strings.TrimSpace(line), "-1 is followed by ")
}
