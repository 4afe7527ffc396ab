package storage

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// fuzzFile puts a file into the partition's directory.
func fuzzFile(t *testing.T, mem *vfs.Mem, name string, data []byte) {
	t.Helper()
	f, err := mem.Create(join(join(testDir, testTP.String()), name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// sampleLog is a few batches, as a segment from offset 0 holds them.
func sampleLog() []byte {
	var out []byte
	for i := range 5 {
		b := idempotent(record.Timestamp(i), 1, 0, record.Sequence(i), 2)
		b.SetBaseOffset(record.Offset(2 * i))
		b.SetLeaderEpoch(record.LeaderEpoch(i / 2))
		out = append(out, b...)
	}
	return out
}

// FuzzRecoverSegment recovers a segment of any bytes with indexes of any
// bytes: it must end with a log whose records can be read, which further
// appends and starts do not change, and which is a prefix of what was there.
func FuzzRecoverSegment(f *testing.F) {
	log := sampleLog()
	f.Add(log, []byte{}, []byte{}, []byte{}, int64(0))
	f.Add(log, []byte{0, 0, 0, 3, 0, 0, 0, 83}, []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3}, []byte{}, int64(6))
	f.Add(append(log[:200:200], make([]byte, 300)...), []byte{0}, []byte{1}, []byte{2}, int64(0))
	f.Fuzz(func(t *testing.T, log, index, timeIndex, prepared []byte, recoveryPoint int64) {
		log, prepared = fixCRCs(log), fixCRCs(prepared)
		mem := vfs.NewMem()
		dir := join(testDir, testTP.String())
		if err := mem.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		fuzzFile(t, mem, segmentName(0, logSuffix), log)
		fuzzFile(t, mem, segmentName(0, indexSuffix), index)
		fuzzFile(t, mem, segmentName(0, timeIndexSuffix), timeIndex)
		if len(prepared) > 0 {
			fuzzFile(t, mem, preparedName, prepared)
		}
		points := map[record.TopicPartition]record.Offset{testTP: record.Offset(max(0, recoveryPoint))}
		if err := mem.WriteFileAtomic(join(testDir, recoveryPointName), formatOffsets(points)); err != nil {
			t.Fatal(err)
		}
		e := newEnv(t, mem, LogConfig{IndexIntervalBytes: 100})
		if err := e.start(); err != nil {
			t.Fatalf("start: %v", err)
		}
		l := e.log
		kept := l.list()[0].size.Load()
		data, err := mem.ReadFile(join(dir, segmentName(0, logSuffix)))
		if err != nil || !bytes.Equal(data[:kept], log[:kept]) {
			t.Fatalf("%d bytes kept are not those that were there: %v", kept, err)
		}
		if l.Err() != nil {
			return // damage below the recovery point
		}
		want, err := countBatches(l)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, batch(1, 1, 10, "x"))
		l = e.kill(vfs.Crash{})
		if got, err := countBatches(l); err != nil || got != want+1 {
			t.Fatalf("%d batches and one more are %d: %v", want, got, err)
		}
	})
}

// fixCRCs lets the fuzzer past the checksums, but for one batch in eight.
func fixCRCs(data []byte) []byte {
	data = bytes.Clone(data)
	for rest := data; ; {
		b, next, err := record.Split(rest)
		if err != nil {
			return data
		}
		if b[len(b)-1]&7 != 7 {
			binary.BigEndian.PutUint32(b[17:], record.Checksum(b[21:]))
		}
		rest = next
	}
}

// countBatches reads a log batch by batch; records inside are anybody's bytes.
func countBatches(l *Log) (int, error) {
	n := 0
	for o := l.StartOffset(); o < l.EndOffset(); n++ {
		s, err := l.Read(o, l.EndOffset(), 1, true, false)
		if err != nil || s == nil {
			return n, err
		}
		p := make([]byte, s.Length())
		_, err = s.ReadAt(p, 0)
		s.Release()
		if err != nil {
			return n, err
		}
		b, _, err := record.Split(p)
		if err != nil {
			return n, err
		}
		o = b.NextOffset()
	}
	return n, nil
}

// FuzzIndex looks things up in indexes of any bytes: positions may be wrong,
// but nothing fails.
func FuzzIndex(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 0, 0, 0, 83, 0, 0, 0, 9, 0, 0, 1, 0}, int64(4))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3}, int64(1))
	f.Fuzz(func(t *testing.T, data []byte, key int64) {
		mem := vfs.NewMem()
		dir := join(testDir, testTP.String())
		if err := mem.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		fuzzFile(t, mem, "i", data)
		x := openOffsetIndex(mem, join(dir, "i"), 0, int64(len(data)))
		if _, err := x.lookup(record.Offset(key), false); err != nil {
			t.Fatal(err)
		}
		_ = x.check(1 << 20)
		ti := openTimeIndex(mem, join(dir, "i"), 0, int64(len(data)))
		if _, err := ti.lookup(record.Timestamp(key)); err != nil {
			t.Fatal(err)
		}
		_ = ti.check()
		if _, _, err := ti.lastEntry(); err != nil {
			t.Fatal(err)
		}
		if entries, err := parseTxnIndex("x", data); err == nil && !bytes.Equal(formatTxnIndex(entries), data) {
			t.Fatal("transaction index changes when it is written back")
		}
	})
}

// FuzzSnapshot reads snapshots of any bytes; a good one comes back as it was.
func FuzzSnapshot(f *testing.F) {
	s := newProducerState(10)
	f.Add(s.appendSnapshot(nil))
	for i := range 3 {
		h, err := record.ParseHeader(idempotent(5, record.ProducerID(i), 1, 7, 2))
		if err != nil {
			f.Fatal(err)
		}
		s.apply(&h, record.EndTxnMarker{}, false)
	}
	f.Add(s.appendSnapshot(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		fixChecksum(data)
		s := newProducerState(1 << 20)
		if s.loadSnapshot("x", data) != nil {
			return
		}
		again := newProducerState(1 << 20)
		if err := again.loadSnapshot("x", s.appendSnapshot(nil)); err != nil || again.len() != s.len() {
			t.Fatalf("%d producers become %d: %v", s.len(), again.len(), err)
		}
	})
}

// fixChecksum lets the fuzzer past the checksum.
func fixChecksum(data []byte) {
	if len(data) > snapshotHeaderBytes {
		sum := record.Checksum(data[snapshotHeaderBytes:])
		data[2], data[3], data[4], data[5] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
	}
}

// FuzzCheckpoint reads the text files; good ones come back as they were.
func FuzzCheckpoint(f *testing.F) {
	f.Add([]byte("0\n2\nt 0 5\nu 1 9\n"))
	f.Add([]byte("0\n2\n0 0\n3 17\n"))
	f.Add([]byte("version: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA\n"))
	f.Add([]byte("#\ncluster.id=abc\nnode.id=1\nversion=1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if offsets, err := parseOffsets("x", data); err == nil {
			again, err := parseOffsets("x", formatOffsets(offsets))
			if err != nil || len(again) != len(offsets) {
				t.Fatalf("%v becomes %v: %v", offsets, again, err)
			}
		}
		if entries, err := parseEpochs("x", data); err == nil {
			for i := 1; i < len(entries); i++ {
				if entries[i-1].epoch >= entries[i].epoch || entries[i-1].start > entries[i].start {
					t.Fatalf("out of order: %v", entries)
				}
			}
		}
		if id, err := parsePartitionMetadata("x", data); err == nil && id.IsZero() {
			t.Fatal("the zero id")
		}
		_, _ = parseMetaProperties("x", data)
	})
}
