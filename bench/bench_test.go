package bench

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       CPUTime
		wantErr    string
	}{
		{name: "plain", line: "7 (posthouse) S 1 7 7 0 -1 4194560 1 0 0 0 12 34 5 6 20 0 9", want: CPUTime{120 * time.Millisecond, 340 * time.Millisecond}},
		{name: "name with brackets", line: "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 5 6", want: CPUTime{10 * time.Millisecond, 20 * time.Millisecond}},
		{name: "cut", line: "7 (posthouse) S 1 7 7", wantErr: "4 fields"},
		{name: "no name", line: "", wantErr: "no command name"},
		{name: "not a number", line: "7 (p) S 1 7 7 0 -1 4194560 1 0 0 0 x 2 5 6", wantErr: "utime"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseStat([]byte(c.line))
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("error %v, want one with %q", err, c.wantErr)
				}
				return
			}
			if err != nil || got != c.want {
				t.Fatalf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestOwnProcess(t *testing.T) {
	cpu, err := ProcessCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// The two sources agree but for the coarser one's tick per thread time.
	if self := SelfCPU().Total(); cpu.Total() > self+5*tick {
		t.Errorf("/proc says %v, getrusage %v", cpu.Total(), self)
	}
	memory, err := ProcessMemory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if memory.RSS <= 0 || memory.PeakRSS < memory.RSS/2 || memory.Anon > memory.RSS {
		t.Errorf("memory %+v", memory)
	}
}

func TestProcess(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	spec := ProcessSpec{Name: "shell", Path: "/bin/sh", LogPath: filepath.Join(t.TempDir(), "log"),
		Args: []string{"-c", `trap 'echo bye; exit 3' TERM; echo first; echo trouble >&2; echo ready now; while :; do sleep 0.05; done`}}
	p, err := StartProcess(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if line, err := p.WaitLine(ctx, "ready "); err != nil || line != "ready now" {
		t.Fatalf("%q, %v", line, err)
	}
	if code := p.ExitCode(); code != -1 {
		t.Errorf("exit code %d of a running process", code)
	}
	if code, err := p.Stop(ctx); code != 3 || err != nil {
		t.Errorf("stop: %d, %v", code, err)
	}
	for _, want := range []string{"first", "trouble", "bye"} {
		if !strings.Contains(p.LogTail(), want) {
			t.Errorf("the log lacks %q:\n%s", want, p.LogTail())
		}
	}
	if _, err := p.WaitLine(ctx, "never"); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("waiting for an ended process: %v", err)
	}
}

func TestProcessThatWillNotStop(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	p, err := StartProcess(ProcessSpec{Name: "stubborn", Path: "/bin/sh", LogPath: filepath.Join(t.TempDir(), "log"),
		Args: []string{"-c", `trap '' TERM; echo ready; while :; do sleep 0.05; done`}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.WaitLine(ctx, "ready"); err != nil {
		t.Fatal(err)
	}
	if code, err := p.Stop(ctx); code != -1 || err == nil {
		t.Errorf("stop: %d, %v", code, err)
	}
	select {
	case <-p.Exited():
	default:
		t.Error("it was not killed")
	}
}

// TestBatch reads a batch back field by field, as a consumer does.
func TestBatch(t *testing.T) {
	raw := Batch(rand.New(rand.NewPCG(1, 1)), 3, 1000)
	var batch kmsg.RecordBatch
	if err := batch.ReadFrom(raw); err != nil {
		t.Fatal(err)
	}
	if int(batch.Length) != len(raw)-12 || batch.NumRecords != 3 || batch.LastOffsetDelta != 2 || batch.Magic != 2 {
		t.Errorf("batch %+v", batch)
	}
	if got := crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)); int32(got) != batch.CRC {
		t.Errorf("CRC %x, want %x", uint32(batch.CRC), got)
	}
	rest := batch.Records
	for i := range int32(3) {
		length, n := binary.Varint(rest)
		var record kmsg.Record
		if err := record.ReadFrom(rest[:n+int(length)]); err != nil {
			t.Fatal(err)
		}
		if record.OffsetDelta != i || len(record.Value) != 1000 {
			t.Errorf("record %d: delta %d, %d bytes", i, record.OffsetDelta, len(record.Value))
		}
		rest = rest[n+int(length):]
	}
	if len(rest) != 0 {
		t.Errorf("%d bytes behind the records", len(rest))
	}
}

// header puts a response behind the header that the raw client expects.
func header(correlation uint32, resp kmsg.Response) []byte {
	return resp.AppendTo(append(binary.BigEndian.AppendUint32(nil, correlation), 0))
}

func TestCheckProduceAnswer(t *testing.T) {
	answer := func(code int16) []byte {
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = "some-topic"
		partition := kmsg.NewProduceResponseTopicPartition()
		partition.Partition, partition.ErrorCode, partition.BaseOffset = 3, code, 77
		topic.Partitions = append(topic.Partitions, partition)
		resp.Topics = append(resp.Topics, topic)
		return header(5, resp)
	}
	if err := checkProduceAnswer(answer(0), 5); err != nil {
		t.Error(err)
	}
	if err := checkProduceAnswer(answer(kerr.NotLeaderForPartition.Code), 5); err != kerr.NotLeaderForPartition {
		t.Errorf("got %v", err)
	}
	if err := checkProduceAnswer(answer(0), 6); err == nil {
		t.Error("another request's answer passes")
	}
	for n := range 24 {
		if err := checkProduceAnswer(answer(0)[:n], 5); err == nil {
			t.Errorf("%d bytes of an answer pass", n)
		}
	}
}

func TestFetchedBytes(t *testing.T) {
	answer := func(code int16, records []byte, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction) []byte {
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = 12
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = "some-topic"
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.ErrorCode, partition.RecordBatches, partition.AbortedTransactions = code, records, aborted
		topic.Partitions = append(topic.Partitions, partition)
		resp.Topics = append(resp.Topics, topic)
		return header(0, resp)
	}
	for _, aborted := range [][]kmsg.FetchResponseTopicPartitionAbortedTransaction{nil, {}} {
		if n, err := fetchedBytes(answer(0, make([]byte, 70_000), aborted)); n != 70_000 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if _, err := fetchedBytes(answer(kerr.OffsetOutOfRange.Code, nil, nil)); err != kerr.OffsetOutOfRange {
		t.Errorf("got %v", err)
	}
	if _, err := fetchedBytes(answer(0, nil, nil)); err == nil {
		t.Error("an answer without records passes")
	}
}

func TestSample(t *testing.T) {
	if got := (Sample{3, 1, 20}).String(); got != "3.00 (1.00–20.0)" {
		t.Error(got)
	}
	if got := Ratios(Sample{2, 9}, Sample{4, 3, 8}); got[0] != 0.5 || got[1] != 3 || len(got) != 2 {
		t.Error(got)
	}
}

func TestJavaMajor(t *testing.T) {
	for release, want := range map[string]int{
		"IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"25.0.1\"\n": 25,
		"JAVA_VERSION=\"17.0.15\"":                     17,
		"nothing":                                      0,
	} {
		if got := javaMajor(release); got != want {
			t.Errorf("%q: %d", release, got)
		}
	}
}
