package bench

import (
	"hash/crc32"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch builds an uncompressed record batch of count records of valueBytes
// random bytes each. It shares no code with the broker's: an error of one must
// not be hidden by the same error in the other.
func Batch(rng *rand.Rand, count, valueBytes int) []byte {
	value := make([]byte, valueBytes)
	var records []byte
	for i := range count {
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		record := kmsg.NewRecord()
		record.OffsetDelta = int32(i)
		record.Value = value
		// The length covers what follows it; it is a varint itself.
		record.Length = int32(len(record.AppendTo(nil)) - 1)
		records = record.AppendTo(records)
	}
	now := time.Now().UnixMilli()
	batch := kmsg.NewRecordBatch()
	batch.PartitionLeaderEpoch = -1
	batch.Magic = 2
	batch.LastOffsetDelta = int32(count - 1)
	batch.FirstTimestamp, batch.MaxTimestamp = now, now
	batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = -1, -1, -1
	batch.NumRecords = int32(count)
	batch.Records = records
	const beforeLength, beforeCRC = 12, 21
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - beforeLength)
	batch.CRC = int32(crc32.Checksum(raw[beforeCRC:], castagnoli))
	return batch.AppendTo(raw[:0])
}

// ProduceFrame is a whole Produce request (v9) with one batch for one
// partition.
func ProduceFrame(topic string, partition int32, acks int16, batch []byte) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	req.Acks = acks
	req.TimeoutMillis = 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition = partition
	p.Records = batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return AppendFrame(nil, req, 0)
}

// FetchRequest asks (v12, without a session) for one partition from an offset.
func FetchRequest(topic string, partition int32, offset int64, maxBytes int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version = 12
	req.ReplicaID = -1
	req.MaxWaitMillis = 500
	req.MinBytes = 1
	req.MaxBytes = maxBytes
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition = partition
	p.FetchOffset = offset
	p.CurrentLeaderEpoch = -1
	p.PartitionMaxBytes = maxBytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
