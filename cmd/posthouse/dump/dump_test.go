package dump

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/posthouse/posthouse/cmd/posthouse/clitest"
	"github.com/posthouse/posthouse/cmd/posthouse/messages"
	"github.com/posthouse/posthouse/cmd/posthouse/topics"
	"github.com/posthouse/posthouse/storage/record"
)

func dump(t *testing.T, args ...string) clitest.Result { return clitest.Run(t, New(), "", args...) }

// logDir is what a broker leaves behind that had records, a group and a stop.
func logDir(t *testing.T) string {
	t.Helper()
	address, dir, stop := clitest.Start(t, "log.index.interval.bytes=200", "offsets.topic.num.partitions=1")
	clitest.Run(t, topics.New(), "", "create", "orders", "-c", "segment.bytes=1048576", "-b", address).OK(t)
	var lines strings.Builder
	for i := range 200 {
		fmt.Fprintf(&lines, "k%d:value %d\n", i%7, i)
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		clitest.Run(t, messages.NewProduce(), lines.String(), "orders", "-K", ":", "-z", codec, "-H", "codec="+codec, "-b", address).OK(t)
	}
	clitest.Run(t, messages.NewConsume(), "", "orders", "-g", "readers", "-n", "10", "-b", address).OK(t)
	stop()
	return dir
}

func TestDumpOfABroker(t *testing.T) {
	dir := logDir(t)
	segment := filepath.Join(dir, "orders-0", "00000000000000000000.log")
	dump(t, "--verify", dir).Contains(t, " records; no problems\n")
	dump(t, dir).Contains(t, "orders-0/", "1 segment", "meta.properties", "identity of the log directory")
	dump(t, filepath.Join(dir, "orders-0")).Contains(t, "00000000000000000000.log", "leader-epoch-checkpoint")
	dump(t, segment).Contains(t, segment+": segment, ", "batch [0, ", "zstd producer ")
	dump(t, segment, "--records", "--from", "999", "--count", "1").Contains(t,
		`: {"key":"k3","value":"value 199","headers":[{"key":"codec","value":"zstd"}]}`)
	dump(t, filepath.Join(dir, "orders-0", "leader-epoch-checkpoint"), filepath.Join(dir, "orders-0", "partition.metadata"), filepath.Join(dir, "meta.properties")).
		Contains(t, "epoch 0 from offset 0", "topic id ", "cluster ", "node 1")
	snapshots, _ := filepath.Glob(filepath.Join(dir, "orders-0", "*.snapshot"))
	if len(snapshots) == 0 {
		t.Fatal("no snapshot")
	}
	dump(t, snapshots...).Contains(t, "last sequence 199, last offset ")
	dump(t, filepath.Join(dir, "recovery-point-offset-checkpoint"), "--json").Contains(t, `"topic":"orders","partition":0,"offset":1000}`)

	var commits, groups int
	for line := range strings.Lines(dump(t, filepath.Join(dir, "__consumer_offsets-0", "00000000000000000000.log"), "--records", "--json").OK(t)) {
		var item struct {
			Kind, Type, Group, Topic string
			Value                    struct {
				Offset  int64
				Members []struct{ ClientID string }
			}
		}
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case item.Type == "OffsetCommit" && item.Group == "readers" && item.Topic == "orders" && item.Value.Offset == 10:
			commits++
		case item.Type == "GroupMetadata" && item.Group == "readers" && len(item.Value.Members) == 1 && item.Value.Members[0].ClientID == "posthouse-cli":
			groups++
		}
	}
	if commits == 0 || groups == 0 {
		t.Errorf("%d commits, %d states of the group", commits, groups)
	}
}

// TestDamage changes a byte here and there: each is named with file and place.
func TestDamage(t *testing.T) {
	dir := logDir(t)
	partition := filepath.Join(dir, "orders-0")
	file := func(name string) string { return filepath.Join(partition, name) }
	snapshots, _ := filepath.Glob(filepath.Join(partition, "*.snapshot"))
	segment, index, times := file("00000000000000000000.log"), file("00000000000000000000.index"), file("00000000000000000000.timeindex")
	for _, c := range []struct {
		name   string
		path   string
		change func(data []byte) []byte
		want   string
	}{
		{"a record", segment, func(d []byte) []byte { d[100] ^= 1; return d }, ": at byte 0: the batch at offset 0 has the checksum "},
		{"a length", segment, func(d []byte) []byte { d[8] = 0x7f; return d }, ": at byte 0: the batch at offset 0 of "},
		{"an offset", segment, func(d []byte) []byte { d[7] = 0xff; d[6] = 0xff; return d }, "where 65"},
		{"the end", segment, func(d []byte) []byte { return d[:len(d)-1] }, "cut short by 1"},
		{"a magic", segment, func(d []byte) []byte { d[16] = 1; return d }, "at byte 0: no batch: magic 1"},
		{"behind the end", segment, func(d []byte) []byte { return append(d, append(make([]byte, 100), 1)...) }, "a hole in the segment"},
		{"a header's end", segment, func(d []byte) []byte { return append(d, 0, 0, 0, 1) }, "the file ends inside a batch's header"},
		{"an index position", index, func(d []byte) []byte { d[7]++; return d }, "no batch begins at byte"},
		{"an index offset", index, func(d []byte) []byte { d[3]++; return d }, "at byte 0: the batch at byte"},
		{"an index's length", index, func(d []byte) []byte { return append(d, 1) }, "after the last whole entry"},
		{"a time", times, func(d []byte) []byte { d[7]++; return d }, "the entry says"},
		{"a time's offset", times, func(d []byte) []byte { d[8] = 0x7f; return d }, "past the end of the segment"},
		{"a snapshot", snapshots[0], func(d []byte) []byte { d[20]++; return d }, "checksum"},
		{"epochs", file("leader-epoch-checkpoint"), func(d []byte) []byte { return append(d, "x\n"...) }, "entry \"x\""},
		{"a checkpoint", filepath.Join(dir, "recovery-point-offset-checkpoint"), func([]byte) []byte { return []byte("7\n0\n") }, `version "7", want 0`},
		{"the identity", filepath.Join(dir, "meta.properties"), func([]byte) []byte { return []byte("garbage") }, "is not key=value"},
	} {
		before, err := os.ReadFile(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(c.path, c.change(append([]byte{}, before...)), 0o600); err != nil {
			t.Fatal(err)
		}
		r := dump(t, "--verify", dir)
		r.Fails(t, 1, " found")
		if !strings.Contains(r.Out, "PROBLEM "+c.path+": at byte ") || !strings.Contains(r.Out, c.want) {
			t.Errorf("%s: %s", c.name, r.Out)
		}
		if r := dump(t, "--verify", "--json", dir); !strings.Contains(r.Out, `{"file":"`+c.path+`","position":`) {
			t.Errorf("%s: %s", c.name, r.Out)
		}
		// Shown without being verified it must not panic.
		_ = dump(t, c.path, "--records")
		if err := os.WriteFile(c.path, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dump(t, "--verify", dir).Contains(t, "no problems")
}

// TestReservedSpace takes zeros behind a segment and in indexes for what they are.
func TestReservedSpace(t *testing.T) {
	dir := logDir(t)
	for _, name := range []string{"00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex"} {
		path := filepath.Join(dir, "orders-0", name)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, 12*1000)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	dump(t, "--verify", dir).Contains(t, "no problems")
	dump(t, filepath.Join(dir, "orders-0", "00000000000000000000.log")).Contains(t, "note: at byte ", "12000 bytes of zeros")
}

// TestTransactions verifies an index of aborted transactions and shows markers.
func TestTransactions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t-0")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	data := record.NewBuilder().Producer(7, 0, 0).Transactional().Add(1_700_000_000_000, nil, []byte("x")).Build(record.None)
	marker := record.NewEndTxnMarker(1_700_000_000_001, 7, 0, record.EndTxnMarker{Type: record.ControlAbort, CoordinatorEpoch: 3})
	marker.SetBaseOffset(1)
	segment := filepath.Join(dir, "00000000000000000000.log")
	index := binary.BigEndian.AppendUint16(nil, 0)
	for _, n := range []uint64{7, 0, 1, 0} {
		index = binary.BigEndian.AppendUint64(index, n)
	}
	for name, content := range map[string][]byte{segment: append(append([]byte{}, data...), marker...), strings.TrimSuffix(segment, ".log") + ".txnindex": index} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dump(t, "--verify", dir).Contains(t, "no problems")
	dump(t, segment, "--records").Contains(t, `{"type":"abort","coordinatorEpoch":3}`, "transactional, control")
	txnIndex := strings.TrimSuffix(segment, ".log") + ".txnindex"
	dump(t, txnIndex).Contains(t, "producer 7 aborted [0, 1], last stable offset 0")
	index[9] = 8
	if err := os.WriteFile(txnIndex, index, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := dump(t, "--verify", dir); r.Code != 1 || !strings.Contains(r.Out, txnIndex+": at byte 0: producer 8 has no abort marker at offset 1") {
		t.Errorf("%s", r.Out)
	}
}

func TestMistakes(t *testing.T) {
	dump(t).Fails(t, 2, "which path?")
	dump(t, "x", "--decode", "tea").Fails(t, 2, "want auto, none, offsets, transactions")
	dump(t, "x", "--count", "-1").Fails(t, 2, "want 0 or more")
	dump(t, filepath.Join(t.TempDir(), "none")).Fails(t, 1, "no such file")
	dump(t, t.TempDir()).Fails(t, 1, "holds nothing that belongs to a log directory")
	file := filepath.Join(t.TempDir(), "letter.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dump(t, file).Fails(t, 1, "not a file of a log directory by its name")
}

// TestDecodeOffsets reads records as Kafka's message definitions lay them out.
func TestDecodeOffsets(t *testing.T) {
	id := record.TopicID{1}
	key := func(kind int16, names ...string) []byte {
		b := kbin.AppendInt16(nil, kind)
		for _, n := range names {
			b = kbin.AppendString(b, n)
		}
		return b
	}
	value := func(build func(b []byte) []byte) []byte { return build(kbin.AppendInt16(nil, 0)) }
	partitions := func(b []byte, tagged bool) []byte {
		b = kbin.AppendCompactArrayLen(b, 1)
		b = kbin.AppendUuid(b, id)
		b = kbin.AppendInt32(kbin.AppendInt32(kbin.AppendCompactArrayLen(b, 2), 0), 5)
		if !tagged {
			return kbin.AppendUvarint(b, 0)
		}
		epochs := kbin.AppendInt32(kbin.AppendInt32(kbin.AppendCompactArrayLen(nil, 2), 3), 4)
		b = kbin.AppendUvarint(kbin.AppendUvarint(kbin.AppendUvarint(b, 1), 0), uint32(len(epochs)))
		return append(b, epochs...)
	}
	commit := kmsg.NewOffsetCommitValue()
	commit.Version, commit.Offset, commit.LeaderEpoch, commit.Metadata = 3, 42, -1, "m"
	for _, c := range []struct {
		name       string
		key, value []byte
		want       string
	}{
		{"commit", append(kbin.AppendString(kbin.AppendString(kbin.AppendInt16(nil, 1), "g"), "t"), 0, 0, 0, 2), commit.AppendTo(nil),
			`{"type":"OffsetCommit","group":"g","topic":"t","partition":2,"value":{"offset":42,"leaderEpoch":-1,"metadata":"m","commitTimestamp":0}}`},
		{"commit's tombstone", append(kbin.AppendString(kbin.AppendString(kbin.AppendInt16(nil, 1), "g"), "t"), 0, 0, 0, 2), nil,
			`{"type":"OffsetCommit","group":"g","topic":"t","partition":2,"value":null}`},
		{"epoch", key(3, "g"), value(func(b []byte) []byte { return kbin.AppendUvarint(kbin.AppendInt32(b, 9), 0) }),
			`{"type":"ConsumerGroupMetadata","group":"g","value":{"epoch":9}}`},
		{"epoch and hash", key(3, "g"), value(func(b []byte) []byte {
			return kbin.AppendInt64(kbin.AppendUvarint(kbin.AppendUvarint(kbin.AppendUvarint(kbin.AppendInt32(b, 9), 1), 0), 8), 77)
		}), `{"type":"ConsumerGroupMetadata","group":"g","value":{"epoch":9,"metadataHash":77}}`},
		{"target", key(7, "g", "m"), value(func(b []byte) []byte { return kbin.AppendUvarint(partitions(b, false), 0) }),
			`{"type":"ConsumerGroupTargetAssignmentMember","group":"g","memberId":"m","value":{"topicPartitions":[{"topicId":"` + id.String() + `","partitions":[0,5]}]}}`},
		{"current", key(8, "g", "m"), value(func(b []byte) []byte {
			b = kbin.AppendInt8(kbin.AppendInt32(kbin.AppendInt32(b, 4), 3), 1)
			return kbin.AppendUvarint(kbin.AppendCompactArrayLen(partitions(b, true), 0), 0)
		}), `{"type":"ConsumerGroupCurrentMemberAssignment","group":"g","memberId":"m","value":{"memberEpoch":4,"previousMemberEpoch":3,"state":1,` +
			`"assignedPartitions":[{"topicId":"` + id.String() + `","partitions":[0,5],"assignmentEpochs":[3,4]}],"partitionsPendingRevocation":[]}}`},
		{"a kind of the future", key(99, "g"), []byte{1}, `{"type":"kind 99","key":"0063000167","value":"01"}`},
		{"a version of the future", key(3, "g"), []byte{0, 9, 1}, `{"type":"ConsumerGroupMetadata","group":"g","value":"000901"}`},
		{"cut short", key(3, "g"), []byte{0, 0, 1}, "error: value of ConsumerGroupMetadata: epoch: it ends too early"},
		{"no key", nil, nil, "error: a key of 0 bytes"},
	} {
		got := ""
		if o, err := decodeOffsets(c.key, c.value); err != nil {
			got = "error: " + err.Error()
		} else if text, err := o.MarshalJSON(); err != nil {
			t.Fatal(err)
		} else {
			got = string(text)
		}
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

// FuzzDecode must end with an object or an error, whatever the bytes.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0, 3, 0, 1, 'g'}, []byte{0, 0, 0, 0, 0, 9, 0})
	f.Add([]byte{0, 5, 0, 1, 'g', 0, 1, 'm'}, []byte{0, 0, 0, 0, 1, 1, 2, 'x', 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0, 1}, []byte{0, 3})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		for name, decode := range decoders {
			if o, err := decode(key, value); err == nil {
				if _, err := o.MarshalJSON(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		_, _ = decodeControl(key, value)
	})
}
