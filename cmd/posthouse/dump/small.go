package dump

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
)

// smallMax bounds a file that is read whole.
const smallMax = 1 << 30

// small is a kind of file that is read whole.
type small struct {
	what string
	show func(r *report, path string, data []byte) error
}

// smallFile is how to read a file, by its name; nil for any other.
func smallFile(name string) *small {
	switch filepath.Ext(name) {
	case ".index":
		return &small{"offset index", showOffsetIndex}
	case ".timeindex":
		return &small{"time index", showTimeIndex}
	case ".txnindex":
		return &small{"transaction index", showTxnIndex}
	case ".snapshot":
		return &small{"producer snapshot", showSnapshot}
	}
	switch name {
	case "leader-epoch-checkpoint":
		return &small{"leader epochs", showEpochs}
	case "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint":
		return &small{strings.ReplaceAll(strings.TrimSuffix(name, "-offset-checkpoint"), "-", " ") + " checkpoint", showOffsets}
	case "meta.properties":
		return &small{"identity of the log directory", showMetaProperties}
	case "partition.metadata":
		return &small{"identity of the topic", showPartitionMetadata}
	case ".kafka_cleanshutdown":
		return &small{"mark of a clean stop", showCleanMark}
	}
	return nil
}

func dumpSmall(r *report, path string, s *small) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() > smallMax {
		return fmt.Errorf("%s: %s is too much for a %s", path, cli.Bytes(info.Size()), s.what)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r.bytes += int64(len(data))
	r.file(path, fmt.Sprintf("%s, %d bytes", s.what, len(data)))
	if err := s.show(r, path, data); err != nil {
		r.failure(path, err)
	}
	return nil
}

func showOffsetIndex(r *report, path string, data []byte) error {
	entries := offsetEntries(r, path, data, max(baseOf(path), 0))
	for _, e := range entries {
		r.item(path, "entry", func() string { return fmt.Sprintf("offset %d at byte %d", e.offset, e.position) },
			func() object { return object{{"offset", e.offset}, {"position", e.position}} })
	}
	rising(r, path, entries, false)
	return nil
}

func showTimeIndex(r *report, path string, data []byte) error {
	entries := timeEntries(r, path, data, max(baseOf(path), 0))
	for _, e := range entries {
		r.item(path, "entry", func() string {
			return fmt.Sprintf("%s (%d): offset %d", cli.FormatTime(int64(e.timestamp)), e.timestamp, e.offset)
		}, func() object { return object{{"timestamp", e.timestamp}, {"offset", e.offset}} })
	}
	rising(r, path, entries, true)
	return nil
}

func showTxnIndex(r *report, path string, data []byte) error {
	txns, err := storage.InspectTxnIndex(path, data)
	for _, t := range txns {
		r.item(path, "aborted", func() string {
			return fmt.Sprintf("producer %d aborted [%d, %d], last stable offset %d", t.ProducerID, t.FirstOffset, t.LastOffset, t.LastStableOffset)
		}, func() object {
			return object{{"producerId", t.ProducerID}, {"firstOffset", t.FirstOffset}, {"lastOffset", t.LastOffset}, {"lastStableOffset", t.LastStableOffset}}
		})
	}
	return err
}

func showSnapshot(r *report, path string, data []byte) error {
	producers, err := storage.InspectSnapshot(path, data)
	for _, p := range producers {
		r.item(path, "producer", func() string {
			line := fmt.Sprintf("producer %d/%d: last sequence %d, last offset %d (%d records), at %s, coordinator epoch %d",
				p.ID, p.Epoch, p.LastSequence, p.LastOffset, p.OffsetDelta+1, cli.FormatTime(int64(p.LastTimestamp)), p.CoordinatorEpoch)
			if p.TxnFirstOffset >= 0 {
				line += fmt.Sprintf(", transaction open since offset %d", p.TxnFirstOffset)
			}
			return line
		}, func() object {
			return object{{"producerId", p.ID}, {"epoch", p.Epoch}, {"lastSequence", p.LastSequence}, {"lastOffset", p.LastOffset}, {"offsetDelta", p.OffsetDelta},
				{"lastTimestamp", p.LastTimestamp}, {"coordinatorEpoch", p.CoordinatorEpoch}, {"transactionFirstOffset", p.TxnFirstOffset}}
		})
	}
	return err
}

func showEpochs(r *report, path string, data []byte) error {
	epochs, err := storage.InspectEpochs(path, data)
	for _, e := range epochs {
		r.item(path, "epoch", func() string { return fmt.Sprintf("epoch %d from offset %d", e.Epoch, e.Start) },
			func() object { return object{{"epoch", e.Epoch}, {"startOffset", e.Start}} })
	}
	return err
}

func showOffsets(r *report, path string, data []byte) error {
	offsets, err := storage.InspectOffsets(path, data)
	partitions := make([]record.TopicPartition, 0, len(offsets))
	for tp := range offsets {
		partitions = append(partitions, tp)
	}
	slices.SortFunc(partitions, func(a, b record.TopicPartition) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	for _, tp := range partitions {
		r.item(path, "offset", func() string { return fmt.Sprintf("%v: %d", tp, offsets[tp]) },
			func() object {
				return object{{"topic", tp.Topic}, {"partition", tp.Partition}, {"offset", offsets[tp]}}
			})
	}
	return err
}

func showMetaProperties(r *report, path string, data []byte) error {
	p, err := storage.InspectMetaProperties(path, data)
	if err != nil {
		return err
	}
	r.item(path, "identity", func() string {
		return fmt.Sprintf("cluster %s, node %d, directory %v", cli.OrDash(p.ClusterID), p.NodeID, p.DirectoryID)
	}, func() object {
		return object{{"clusterId", p.ClusterID}, {"nodeId", p.NodeID}, {"directoryId", p.DirectoryID.String()}}
	})
	return nil
}

func showPartitionMetadata(r *report, path string, data []byte) error {
	id, err := storage.InspectPartitionMetadata(path, data)
	if err != nil {
		return err
	}
	r.item(path, "topic", func() string { return "topic id " + id.String() }, func() object { return object{{"topicId", id.String()}} })
	return nil
}

func showCleanMark(r *report, path string, data []byte) error {
	r.item(path, "mark", func() string { return string(bytes.TrimSpace(data)) }, func() object { return object{{"content", text(data)}} })
	return nil
}
