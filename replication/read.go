package replication

import (
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// ReadParams is one partition of a Fetch.
type ReadParams struct {
	Offset   record.Offset
	MaxBytes int32
	// MinOne gives the first batch whole though it exceeds MaxBytes (KIP-74).
	MinOne    bool
	Isolation record.Isolation
	// Replica reads up to the LEO, as followers and debuggers do.
	Replica bool
	// Nowait refuses to touch what is not in memory: vfs.ErrWouldBlock, and the
	// caller comes again from a worker without it.
	Nowait bool
	// CurrentLeaderEpoch and LastFetchedEpoch are record.NoLeaderEpoch when the
	// request does not carry them.
	CurrentLeaderEpoch record.LeaderEpoch
	LastFetchedEpoch   record.LeaderEpoch
}

// ReadResult is the answer. Offsets are those before the read, set in case of
// an error too, if the partition is ready.
type ReadResult struct {
	Span *storage.Span // nil: nothing there now; otherwise the caller releases it
	Offsets
	// Diverging is set when the reader's history differs from this log's: it
	// must truncate to DivergingEnd, the end of DivergingEpoch here (KIP-595).
	Diverging      bool
	DivergingEpoch record.LeaderEpoch
	DivergingEnd   record.Offset
}

// Read finds the batches that answer a Fetch. No allocation, no lock.
//
// OFFSET_OUT_OF_RANGE only outside [LogStart, LEO]: between the reader's limit
// (HW, LSO) and the LEO the answer is empty, since after a failover a consumer
// may know more than the new leader's HW says (KAFKA: LocalLog.read).
func (p *Partition) Read(r ReadParams) (ReadResult, error) {
	v := p.view.Load()
	var res ReadResult
	if err := v.checkLeader(r.CurrentLeaderEpoch); err != nil {
		return res, err
	}
	res.Offsets = p.offsets.load()
	if r.LastFetchedEpoch != record.NoLeaderEpoch {
		if err := p.diverges(v, &r, &res); err != nil || res.Diverging {
			return res, err
		}
	}
	if r.Offset < res.LogStart || r.Offset > res.LEO {
		return res, kerr.OffsetOutOfRange
	}
	limit := res.HW
	switch {
	case r.Replica:
		limit = res.LEO
	case r.Isolation == record.ReadCommitted:
		limit = res.LSO
	}
	if r.Offset >= limit {
		return res, nil
	}
	var err error
	res.Span, err = v.log.Read(r.Offset, limit, r.MaxBytes, r.MinOne, r.Nowait)
	return res, err
}

// diverges compares the reader's last epoch with this log (Partition.scala,
// readRecords).
func (p *Partition) diverges(v *view, r *ReadParams, res *ReadResult) error {
	epoch, end := v.endOffsetForEpoch(r.LastFetchedEpoch, res.LEO)
	if epoch == record.NoLeaderEpoch || r.Offset < res.LogStart {
		return kerr.OffsetOutOfRange
	}
	if epoch < r.LastFetchedEpoch || end < r.Offset {
		res.Diverging, res.DivergingEpoch, res.DivergingEnd = true, epoch, end
	}
	return nil
}

// endOffsetForEpoch is the largest epoch that is at most epoch, and where it
// ends: the start of the next one, or the LEO. Of an epoch before all that are
// known it is the epoch itself, and where the first known one starts. It is
// NoLeaderEpoch and -1 of an epoch above all
// (LeaderEpochFileCache.endOffsetFor).
//
// The log learns of a leadership with the first append under it. Until then the
// answer is given as if it stood there, from epochStart on: after an unclean
// stop a reader may have seen epochs of which no record is left.
func (v *view) endOffsetForEpoch(epoch record.LeaderEpoch, leo record.Offset) (record.LeaderEpoch, record.Offset) {
	if !v.isLeader {
		return v.log.EndOffsetForEpoch(epoch)
	}
	latest := v.log.LatestEpoch()
	switch {
	case epoch == v.leaderEpoch:
		return epoch, leo
	case epoch < 0 || epoch > v.leaderEpoch || epoch <= latest:
		return v.log.EndOffsetForEpoch(epoch)
	case latest == record.NoLeaderEpoch:
		return epoch, v.epochStart
	}
	return latest, v.epochStart
}

// AbortedTxns appends the transactions that were aborted in [from, to) to dst,
// in order of their first offset: what a read_committed reader of that range
// must skip. vfs.ErrWouldBlock as in Read.
func (p *Partition) AbortedTxns(dst []storage.AbortedTxn, from, to record.Offset, nowait bool) ([]storage.AbortedTxn, error) {
	v := p.view.Load()
	if v.log == nil {
		return dst, kerr.NotLeaderForPartition
	}
	return v.log.AbortedTxns(dst, from, to, nowait)
}
