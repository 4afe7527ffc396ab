package replication

import (
	"sync/atomic"

	"github.com/posthouse/posthouse/storage/record"
)

// counts is what a partition counts. What comes with appends is written by the
// holder of the combiner alone, once for each write: readers see whole numbers
// and nobody waits for a locked instruction. Reads may come from several loops
// at once; they are counted once for each answer with records.
type counts struct {
	batches, records, bytes     atomic.Uint64 // combiner
	failedProduces, failedReads atomic.Uint64
	bytesRead                   atomic.Uint64
}

// Traffic is what went into and out of a partition since it is here.
type Traffic struct {
	// Batches were handed to Append; of them, Records and Bytes were written for
	// clients, repeats left out.
	Batches, Records, Bytes uint64
	// BytesRead went to consumers.
	BytesRead uint64
	// FailedProduces and FailedFetches were answered with an error.
	FailedProduces, FailedFetches uint64
}

// Add puts o on top.
func (t *Traffic) Add(o Traffic) {
	t.Batches += o.Batches
	t.Records += o.Records
	t.Bytes += o.Bytes
	t.BytesRead += o.BytesRead
	t.FailedProduces += o.FailedProduces
	t.FailedFetches += o.FailedFetches
}

// Traffic is what was counted so far. Any goroutine.
func (p *Partition) Traffic() Traffic {
	c := &p.counts
	return Traffic{
		Batches: c.batches.Load(), Records: c.records.Load(), Bytes: c.bytes.Load(), BytesRead: c.bytesRead.Load(),
		FailedProduces: c.failedProduces.Load(), FailedFetches: c.failedReads.Load(),
	}
}

// CountRead notes bytes that an answer takes to a consumer.
func (p *Partition) CountRead(bytes int64) { p.counts.bytesRead.Add(uint64(bytes)) }

// CountFailedProduce notes a batch that is answered with an error.
func (p *Partition) CountFailedProduce() { p.counts.failedProduces.Add(1) }

// CountFailedFetch notes a fetch of this partition that is answered with one.
func (p *Partition) CountFailedFetch() { p.counts.failedReads.Add(1) }

// written counts the appends of one write. The combiner is held.
func (c *counts) written(appends []*Append) {
	records, bytes := uint64(0), uint64(0)
	for _, a := range appends {
		if a.Err == nil && !a.Duplicate && a.FromClient {
			records += uint64(a.LastOffset - a.BaseOffset + 1)
			bytes += uint64(len(a.Batch))
		}
	}
	c.batches.Store(c.batches.Load() + uint64(len(appends)))
	if records > 0 {
		c.records.Store(c.records.Load() + records)
		c.bytes.Store(c.bytes.Load() + bytes)
	}
}

// PartitionStats is one replica of this node as metrics show it.
type PartitionStats struct {
	TP       record.TopicPartition
	Traffic  Traffic
	Ready    bool // its log is open; the next four are zero otherwise
	Offsets  Offsets
	Bytes    int64
	Segments int
	Offline  bool // its log could not be opened or written
	Leader   bool // this node leads it
	// ISR and Replicas are numbers of brokers; MinISR is how many are needed for
	// acks=all.
	ISR, Replicas, MinISR int
	Producers             int // producer ids that the log remembers
}

// Stats describes all replicas of this node, and the traffic of those that were
// here once and are gone. Any goroutine; it waits for no log.
func (m *Manager) Stats() (partitions []PartitionStats, gone Traffic) {
	m.mu.Lock()
	gone = m.gone
	m.mu.Unlock()
	for _, t := range m.index.Load().byName {
		for _, p := range t.Partitions {
			if p != nil {
				partitions = append(partitions, p.stats())
			}
		}
	}
	return partitions, gone
}

func (p *Partition) stats() PartitionStats {
	v := p.view.Load()
	s := PartitionStats{
		TP: p.tp, Traffic: p.Traffic(), Leader: v.isLeader,
		ISR: len(v.isr), Replicas: len(v.replicas), MinISR: v.minISR,
		Offline: p.Err() != nil,
	}
	if v.state == ready {
		s.Ready, s.Offsets = true, p.offsets.load()
		s.Bytes, s.Segments, s.Producers = v.log.SizeBytes(), v.log.SegmentCount(), v.log.ProducerCount()
	}
	return s
}
