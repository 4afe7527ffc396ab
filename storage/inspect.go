package storage

import (
	"github.com/posthouse/posthouse/storage/record"
)

// What follows reads the small files of a log directory for tools that look at
// it from outside (posthouse dump), by the same code as the broker. name stands
// in front of errors. A file that is not what it must be gives a CorruptionError
// that names the byte.

// SnapshotProducer is what a producer snapshot remembers of a producer.
type SnapshotProducer struct {
	ID               record.ProducerID
	Epoch            record.ProducerEpoch
	LastSequence     record.Sequence // NoSequence before its first batch
	LastOffset       record.Offset   // -1 before its first batch
	OffsetDelta      int32           // of its last batch
	LastTimestamp    record.Timestamp
	CoordinatorEpoch int32
	TxnFirstOffset   record.Offset // of its open transaction, -1 without one
}

// InspectSnapshot reads a .snapshot.
func InspectSnapshot(name string, data []byte) ([]SnapshotProducer, error) {
	entries, err := parseSnapshot(name, data)
	if err != nil {
		return nil, err
	}
	out := make([]SnapshotProducer, len(entries))
	for i := range entries {
		e := &entries[i]
		p := SnapshotProducer{ID: e.id, Epoch: e.epoch, LastSequence: record.NoSequence, LastOffset: -1,
			LastTimestamp: e.lastTimestamp, CoordinatorEpoch: e.coordinatorEpoch, TxnFirstOffset: e.txnFirstOffset}
		if e.n > 0 {
			last := e.last()
			p.LastSequence, p.LastOffset, p.OffsetDelta = last.lastSeq, last.lastOffset, last.delta
		}
		out[i] = p
	}
	return out, nil
}

// EpochStart says at which offset a leader epoch begins.
type EpochStart struct {
	Epoch record.LeaderEpoch
	Start record.Offset
}

// InspectEpochs reads a leader-epoch-checkpoint.
func InspectEpochs(name string, data []byte) ([]EpochStart, error) {
	entries, err := parseEpochs(name, data)
	if err != nil {
		return nil, err
	}
	out := make([]EpochStart, len(entries))
	for i, e := range entries {
		out[i] = EpochStart{e.epoch, e.start}
	}
	return out, nil
}

// InspectOffsets reads one of the offset checkpoints.
func InspectOffsets(name string, data []byte) (map[record.TopicPartition]record.Offset, error) {
	return parseOffsets(name, data)
}

// InspectTxnIndex reads a .txnindex.
func InspectTxnIndex(name string, data []byte) ([]AbortedTxn, error) {
	return parseTxnIndex(name, data)
}

// MetaProperties is meta.properties of a log directory.
type MetaProperties struct {
	ClusterID   string
	NodeID      int32 // -1 where there is none
	DirectoryID record.TopicID
}

// InspectMetaProperties reads a meta.properties.
func InspectMetaProperties(name string, data []byte) (MetaProperties, error) {
	p, err := parseMetaProperties(name, data)
	if err != nil {
		return MetaProperties{}, err
	}
	out := MetaProperties{p.ClusterID, -1, p.DirectoryID}
	if p.HasNodeID {
		out.NodeID = p.NodeID
	}
	return out, nil
}

// InspectPartitionMetadata reads a partition.metadata.
func InspectPartitionMetadata(name string, data []byte) (record.TopicID, error) {
	return parsePartitionMetadata(name, data)
}
