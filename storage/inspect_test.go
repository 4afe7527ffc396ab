package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
)

// TestInspect reads the small files of a real log from outside.
func TestInspect(t *testing.T) {
	dir := t.TempDir()
	writeSample(t, dir)
	read := func(pattern string) (string, []byte) {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, "*", pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		name := names[len(names)-1]
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return name, data
	}
	name, data := read("*" + snapshotSuffix)
	producers, err := InspectSnapshot(name, data)
	if err != nil || len(producers) != 3 {
		t.Fatalf("%+v, %v", producers, err)
	}
	for _, p := range producers {
		if p.ID%1000 != 0 || p.Epoch != 1 || p.LastOffset < 0 || p.LastTimestamp < 1_700_000_000_000 {
			t.Errorf("%+v", p)
		}
	}
	data[len(data)-1]++
	var corruption *CorruptionError
	if _, err := InspectSnapshot(name, data); !errors.As(err, &corruption) || corruption.File != name {
		t.Errorf("%v", err)
	}
	name, data = read(leaderEpochName)
	if epochs, err := InspectEpochs(name, data); err != nil || len(epochs) == 0 || epochs[0].Start != 0 {
		t.Errorf("%+v, %v", epochs, err)
	}
	name, data = read("*" + txnIndexSuffix)
	if txns, err := InspectTxnIndex(name, data); err != nil || len(txns) == 0 || txns[0].ProducerID != 3000 {
		t.Errorf("%+v, %v", txns, err)
	}
	if offsets, err := InspectOffsets("c", []byte("0\n1\na-b 3 7\n")); err != nil || offsets[record.TopicPartition{Topic: "a-b", Partition: 3}] != 7 {
		t.Errorf("%v, %v", offsets, err)
	}
	id := record.NewTopicID()
	if got, err := InspectPartitionMetadata("m", formatTopicID(id)); err != nil || got != id {
		t.Errorf("%v, %v", got, err)
	}
	meta, err := InspectMetaProperties("p", metaProperties{ClusterID: "c", NodeID: 3, HasNodeID: true, DirectoryID: id}.format())
	if err != nil || meta != (MetaProperties{"c", 3, id}) {
		t.Errorf("%+v, %v", meta, err)
	}
}

// TestGarbageIsCutShort keeps a damaged meta.properties out of the error's line.
func TestGarbageIsCutShort(t *testing.T) {
	garbage := strings.Repeat("\x00z", 5000)
	for _, text := range []string{garbage, "version=" + garbage, "node.id=" + garbage, "directory.id=" + garbage, "version=1\nnode.id=" + garbage} {
		if _, err := InspectMetaProperties("meta.properties", []byte(text)); err == nil || len(err.Error()) > 600 || !strings.HasPrefix(err.Error(), "meta.properties: ") {
			t.Errorf("%.40q: %.200v", text, err)
		}
	}
}
