package replication

import (
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// The timestamps of a ListOffsets request that are questions of their own
// (ListOffsetsRequest.java).
const (
	LatestTimestamp         record.Timestamp = -1
	EarliestTimestamp       record.Timestamp = -2
	MaxTimestamp            record.Timestamp = -3 // KIP-734
	EarliestLocalTimestamp  record.Timestamp = -4 // KIP-405
	LatestTieredTimestamp   record.Timestamp = -5 // KIP-1005
	EarliestPendingUploadTS record.Timestamp = -6 // KIP-1023
)

// HighWatermarkOffset is the offset of a DeleteRecords that means the HW.
const HighWatermarkOffset record.Offset = -1

// Listed is the answer to a ListOffsets; Offset -1 when there is none.
type Listed struct {
	Offset      record.Offset
	Timestamp   record.Timestamp
	LeaderEpoch record.LeaderEpoch
}

var nothingListed = Listed{Offset: -1, Timestamp: record.NoTimestamp, LeaderEpoch: record.NoLeaderEpoch}

// ListParams is one partition of a ListOffsets.
type ListParams struct {
	Timestamp          record.Timestamp
	Isolation          record.Isolation
	Replica            bool // a follower: latest is the LEO
	CurrentLeaderEpoch record.LeaderEpoch
}

// ListOffsetNeedsWorker says whether ListOffset may read files for this
// timestamp, and so must leave the loop.
func ListOffsetNeedsWorker(ts record.Timestamp) bool { return ts >= 0 || ts == MaxTimestamp }

// ListOffset finds an offset by timestamp. After an election, until the HW has
// reached the start of the new epoch, clients get OFFSET_NOT_AVAILABLE for the
// latest offset and for times beyond the HW (KIP-207); callers turn it into
// LEADER_NOT_AVAILABLE for requests before v5.
func (p *Partition) ListOffset(r ListParams) (Listed, error) {
	v := p.view.Load()
	if err := v.checkLeader(r.CurrentLeaderEpoch); err != nil {
		return nothingListed, err
	}
	o := p.offsets.load()
	limit := o.HW
	switch {
	case r.Replica:
		limit = o.LEO
	case r.Isolation == record.ReadCommitted:
		limit = o.LSO
	}
	lagging := !r.Replica && v.epochStart > o.HW
	switch r.Timestamp {
	case LatestTimestamp:
		if lagging {
			return nothingListed, kerr.OffsetNotAvailable
		}
		return Listed{Offset: limit, Timestamp: record.NoTimestamp, LeaderEpoch: v.leaderEpoch}, nil
	case EarliestTimestamp, EarliestLocalTimestamp:
		epoch := v.log.EpochForOffset(o.LogStart)
		if epoch == record.NoLeaderEpoch && o.LogStart >= v.epochStart {
			epoch = v.leaderEpoch // which the log learns with its first record
		}
		return Listed{Offset: o.LogStart, Timestamp: record.NoTimestamp, LeaderEpoch: epoch}, nil
	case LatestTieredTimestamp, EarliestPendingUploadTS:
		return nothingListed, nil
	}
	found, ts, epoch, err := record.Offset(-1), record.NoTimestamp, record.NoLeaderEpoch, error(nil)
	switch {
	case r.Timestamp == MaxTimestamp:
		found, ts, epoch, err = v.log.MaxTimestampOffset()
	case r.Timestamp >= 0:
		found, ts, epoch, err = v.log.OffsetForTimestamp(r.Timestamp)
	default:
		return nothingListed, kerr.InvalidRequest
	}
	if err != nil {
		return nothingListed, err
	}
	if found >= 0 && found < limit {
		return Listed{Offset: found, Timestamp: ts, LeaderEpoch: epoch}, nil
	}
	if lagging {
		return nothingListed, kerr.OffsetNotAvailable
	}
	return nothingListed, nil
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest epoch of this log
// that is at most epoch, and its end; record.NoLeaderEpoch and -1 when there is
// none (KIP-279).
func (p *Partition) EndOffsetForEpoch(current, epoch record.LeaderEpoch) (record.LeaderEpoch, record.Offset, error) {
	v := p.view.Load()
	if err := v.checkLeader(current); err != nil {
		return record.NoLeaderEpoch, -1, err
	}
	e, end := v.endOffsetForEpoch(epoch, record.Offset(p.offsets.leo.Load()))
	return e, end, nil
}

// DeleteRecords moves the log's start to offset, or to the HW when it is
// HighWatermarkOffset, and returns the low watermark. It may sleep: worker
// context. POLICY_VIOLATION on a topic that is not cleaned by deletion,
// OFFSET_OUT_OF_RANGE above the HW (KIP-107).
//
// Appends go on while the new start is made durable: a start at or below the
// HW stays at or below it.
func (p *Partition) DeleteRecords(offset record.Offset) (low record.Offset, err error) {
	v := p.view.Load()
	if err := v.checkLeader(record.NoLeaderEpoch); err != nil {
		return -1, err
	}
	if v.config.Compact && !v.config.Delete {
		return -1, record.Errorf(kerr.PolicyViolation, "Records of partition %s can not be deleted due to the configured policy", p.tp)
	}
	o := p.offsets.load()
	if offset == HighWatermarkOffset {
		offset = o.HW
	}
	if offset < 0 {
		return -1, record.Errorf(kerr.OffsetOutOfRange, "The offset %d for partition %s is not valid", offset, p.tp)
	}
	if offset > o.HW {
		return -1, record.Errorf(kerr.OffsetOutOfRange, "Cannot increment the log start offset to %d of partition %s since it is larger than the high watermark %d", offset, p.tp, o.HW)
	}
	if offset > o.LogStart {
		if err := v.log.SetStartOffset(offset); err != nil {
			return -1, err
		}
		p.Refresh()
	}
	return p.offsets.load().LogStart, nil
}
