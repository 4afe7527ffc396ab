package replication

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	baseTime = record.Timestamp(1_700_000_000_000)
	noEpoch  = record.NoLeaderEpoch
)

// filled is a partition with 10 batches of 3 records; batch i has timestamps
// baseTime+100i to +100i+2.
func filled(t *testing.T, configs map[string]string) (*node, *Partition) {
	n := newNode(t).start()
	n.create("t", 1, configs)
	n.settle()
	p := n.get("t", 0)
	for i := range 10 {
		if a := appendOne(t, p, batchOf(t, baseTime+record.Timestamp(100*i), 3, "v"), acksAll); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	n.exec.drain()
	return n, p
}

func TestReadBounds(t *testing.T) {
	_, p := filled(t, nil)
	if _, err := p.DeleteRecords(4); err != nil {
		t.Fatal(err)
	}
	// A HW and an LSO below the LEO, as a follower that has just become leader
	// and an open transaction have them.
	p.offsets.set(Offsets{LogStart: 4, LSO: 12, HW: 21, LEO: 30})
	for _, c := range []struct {
		offset    record.Offset
		isolation record.Isolation
		replica   bool
		some      bool
		err       error
	}{
		{offset: -1, err: kerr.OffsetOutOfRange},
		{offset: 3, err: kerr.OffsetOutOfRange},
		{offset: 4, some: true},
		{offset: 20, some: true},
		{offset: 21},
		{offset: 29},
		{offset: 30},
		{offset: 31, err: kerr.OffsetOutOfRange},
		{offset: 11, isolation: record.ReadCommitted, some: true},
		{offset: 12, isolation: record.ReadCommitted},
		{offset: 30, isolation: record.ReadCommitted},
		{offset: 31, isolation: record.ReadCommitted, err: kerr.OffsetOutOfRange},
		{offset: 29, replica: true, some: true},
		{offset: 30, replica: true},
	} {
		res, err := p.Read(ReadParams{Offset: c.offset, MaxBytes: 1 << 20, MinOne: true, Isolation: c.isolation, Replica: c.replica,
			CurrentLeaderEpoch: noEpoch, LastFetchedEpoch: noEpoch})
		if !errors.Is(err, c.err) || (res.Span != nil) != c.some {
			t.Errorf("%+v: span %v, error %v", c, res.Span != nil, err)
		}
		if (res.Offsets != Offsets{LogStart: 4, LSO: 12, HW: 21, LEO: 30}) {
			t.Errorf("%+v: offsets %+v", c, res.Offsets)
		}
		if res.Span != nil {
			res.Span.Release()
		}
	}
}

func TestReadEpochs(t *testing.T) {
	n, p := filled(t, nil)
	image, err := n.controller.BumpLeaderEpochs(n.ctx, []record.TopicPartition{p.tp})
	n.ok(err)
	n.settle()
	if e := image.Partition(p.tp).LeaderEpoch; e != 1 || p.LeaderEpoch() != 1 {
		t.Fatalf("epoch %d in the image, %d in the partition", e, p.LeaderEpoch())
	}
	appendOne(t, p, batchOf(t, baseTime, 5, "w"), 1)
	read := func(offset record.Offset, current, last record.LeaderEpoch) (ReadResult, error) {
		res, err := p.Read(ReadParams{Offset: offset, MaxBytes: 1 << 20, CurrentLeaderEpoch: current, LastFetchedEpoch: last})
		if res.Span != nil {
			res.Span.Release()
		}
		return res, err
	}
	for _, c := range []struct {
		offset        record.Offset
		current, last record.LeaderEpoch
		err           error
		diverging     bool
		epoch         record.LeaderEpoch
		end           record.Offset
	}{
		{offset: 0, current: 0, last: noEpoch, err: kerr.FencedLeaderEpoch},
		{offset: 0, current: 2, last: noEpoch, err: kerr.UnknownLeaderEpoch},
		{offset: 0, current: 1, last: noEpoch},
		{offset: 30, current: 1, last: 0},
		{offset: 35, current: 1, last: 1},
		{offset: 31, current: 1, last: 0, diverging: true, epoch: 0, end: 30},
		{offset: 36, current: 1, last: 1, diverging: true, epoch: 1, end: 35},
		{offset: 30, current: 1, last: 7, err: kerr.OffsetOutOfRange},
		{offset: 40, current: noEpoch, last: noEpoch, err: kerr.OffsetOutOfRange},
	} {
		res, err := read(c.offset, c.current, c.last)
		if !errors.Is(err, c.err) || res.Diverging != c.diverging || c.diverging && (res.DivergingEpoch != c.epoch || res.DivergingEnd != c.end) {
			t.Errorf("%+v: %+v, %v", c, res, err)
		}
	}
	for _, c := range []struct {
		asked, epoch record.LeaderEpoch
		end          record.Offset
	}{{0, 0, 30}, {1, 1, 35}, {2, noEpoch, -1}} {
		epoch, end, err := p.EndOffsetForEpoch(1, c.asked)
		if err != nil || epoch != c.epoch || end != c.end {
			t.Errorf("end of epoch %d: %d, %d, %v", c.asked, epoch, end, err)
		}
	}
	if _, _, err := p.EndOffsetForEpoch(0, 0); !errors.Is(err, kerr.FencedLeaderEpoch) {
		t.Errorf("error is %v", err)
	}
}

// TestEpochsWithoutRecords: a leadership counts from its beginning, before its
// first record. After an unclean stop it may be all that is left of several.
func TestEpochsWithoutRecords(t *testing.T) {
	n, p := filled(t, nil)
	n.create("empty", 1, nil)
	n.settle()
	empty := n.get("empty", 0)
	for range 3 {
		_, err := n.controller.BumpLeaderEpochs(n.ctx, []record.TopicPartition{p.tp, empty.tp})
		n.ok(err)
		n.settle()
	}
	check := func(when string) {
		t.Helper()
		for _, c := range []struct {
			p            *Partition
			asked, epoch record.LeaderEpoch
			end          record.Offset
		}{
			{p, 0, 0, 30}, {p, 1, 0, 30}, {p, 2, 0, 30}, {p, 4, noEpoch, -1}, {p, noEpoch, noEpoch, -1},
			{empty, 0, 0, 0}, {empty, 2, 2, 0}, {empty, 4, noEpoch, -1}, // Kafka gives back what was asked
		} {
			epoch, end, err := c.p.EndOffsetForEpoch(3, c.asked)
			if err != nil || epoch != c.epoch || end != c.end {
				t.Errorf("%s: end of epoch %d of %s: %d, %d, %v; want %d, %d", when, c.asked, c.p.tp, epoch, end, err, c.epoch, c.end)
			}
		}
		if l, err := empty.ListOffset(ListParams{Timestamp: EarliestTimestamp, CurrentLeaderEpoch: noEpoch}); err != nil || l.Offset != 0 || l.LeaderEpoch != 3 {
			t.Errorf("%s: the empty log begins at %+v, %v", when, l, err)
		}
		// A reader of records that are gone learns where histories part.
		res, err := p.Read(ReadParams{Offset: 33, MaxBytes: 1 << 20, CurrentLeaderEpoch: 3, LastFetchedEpoch: 2})
		if err != nil || !res.Diverging || res.DivergingEpoch != 0 || res.DivergingEnd != 30 {
			t.Errorf("%s: a reader with epoch 2 gets %+v, %v", when, res, err)
		}
	}
	check("before the first record")
	appendOne(t, p, batchOf(t, baseTime, 5, "w"), 1)
	appendOne(t, empty, batchOf(t, baseTime, 5, "w"), 1)
	check("after it")
	for _, p := range []*Partition{p, empty} {
		if epoch, end, err := p.EndOffsetForEpoch(3, 3); epoch != 3 || end != p.Offsets().LEO || err != nil {
			t.Errorf("%s: %d, %d, %v", p.tp, epoch, end, err)
		}
	}
}

func TestListOffsets(t *testing.T) {
	n, p := filled(t, nil)
	if _, err := p.DeleteRecords(4); err != nil {
		t.Fatal(err)
	}
	p.offsets.set(Offsets{LogStart: 4, LSO: 12, HW: 21, LEO: 30})
	const none = record.NoTimestamp
	check := func(r ListParams, want Listed, wantErr error) {
		t.Helper()
		r.CurrentLeaderEpoch = noEpoch
		got, err := p.ListOffset(r)
		if got != want || !errors.Is(err, wantErr) {
			t.Errorf("%+v: %+v, %v; want %+v, %v", r, got, err, want, wantErr)
		}
	}
	check(ListParams{Timestamp: LatestTimestamp}, Listed{21, none, 0}, nil)
	check(ListParams{Timestamp: LatestTimestamp, Isolation: record.ReadCommitted}, Listed{12, none, 0}, nil)
	check(ListParams{Timestamp: LatestTimestamp, Replica: true}, Listed{30, none, 0}, nil)
	check(ListParams{Timestamp: EarliestTimestamp}, Listed{4, none, 0}, nil)
	check(ListParams{Timestamp: EarliestLocalTimestamp}, Listed{4, none, 0}, nil)
	check(ListParams{Timestamp: LatestTieredTimestamp}, nothingListed, nil)
	check(ListParams{Timestamp: EarliestPendingUploadTS}, nothingListed, nil)
	check(ListParams{Timestamp: -99}, nothingListed, kerr.InvalidRequest)
	check(ListParams{Timestamp: baseTime + 401}, Listed{13, baseTime + 401, 0}, nil)
	check(ListParams{Timestamp: baseTime + 401, Isolation: record.ReadCommitted}, nothingListed, nil)
	check(ListParams{Timestamp: baseTime + 5000}, nothingListed, nil)
	check(ListParams{Timestamp: MaxTimestamp}, nothingListed, nil) // the newest record is above the HW
	check(ListParams{Timestamp: MaxTimestamp, Replica: true}, Listed{29, baseTime + 902, 0}, nil)

	// A new leader whose HW has not reached its epoch's start (KIP-207).
	v := *p.view.Load()
	v.epochStart = 25
	p.view.Store(&v)
	check(ListParams{Timestamp: LatestTimestamp}, nothingListed, kerr.OffsetNotAvailable)
	check(ListParams{Timestamp: LatestTimestamp, Replica: true}, Listed{30, none, 0}, nil)
	check(ListParams{Timestamp: EarliestTimestamp}, Listed{4, none, 0}, nil)
	check(ListParams{Timestamp: baseTime + 401}, Listed{13, baseTime + 401, 0}, nil)
	check(ListParams{Timestamp: baseTime + 900}, nothingListed, kerr.OffsetNotAvailable)
	n.exec.drain()
	for ts, worker := range map[record.Timestamp]bool{LatestTimestamp: false, EarliestTimestamp: false, MaxTimestamp: true, 0: true, -99: false} {
		if ListOffsetNeedsWorker(ts) != worker {
			t.Errorf("timestamp %d on a worker: %v", ts, !worker)
		}
	}
}

func TestDeleteRecords(t *testing.T) {
	n, p := filled(t, nil)
	check := func(offset, low record.Offset, want error) {
		t.Helper()
		got, err := p.DeleteRecords(offset)
		if got != low || !errors.Is(err, want) {
			t.Errorf("to %d: low %d, %v; want %d, %v", offset, got, err, low, want)
		}
	}
	check(4, 4, nil)
	check(2, 4, nil)
	check(31, -1, kerr.OffsetOutOfRange)
	check(-2, -1, kerr.OffsetOutOfRange)
	check(HighWatermarkOffset, 30, nil)
	if o := p.Offsets(); o != (Offsets{30, 30, 30, 30}) {
		t.Fatalf("offsets %+v", o)
	}
	n.ok(n.controller.AlterTopicConfigs(n.ctx, "t", map[string]string{"cleanup.policy": "compact"}, nil))
	n.settle()
	check(HighWatermarkOffset, -1, kerr.PolicyViolation)
	n.ok(n.controller.AlterTopicConfigs(n.ctx, "t", map[string]string{"cleanup.policy": "compact,delete"}, nil))
	n.settle()
	check(HighWatermarkOffset, 30, nil)
	n.kill()
	n.start()
	if o := n.get("t", 0).Offsets(); o != (Offsets{30, 30, 30, 30}) {
		t.Fatalf("offsets after a kill %+v", o)
	}
	if low, err := n.manager.DeleteRecords(n.ctx, record.TopicPartition{Topic: "t", Partition: 1}, 0); low != -1 || !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("unknown partition: %d, %v", low, err)
	}
}

// counter is a waker that counts.
type counter struct{ n atomic.Int64 }

func (c *counter) PartitionAdvanced(*Partition) { c.n.Add(1) }

func TestWakeUps(t *testing.T) {
	n, p := filled(t, nil)
	var a, b counter
	woken := func(what string, wantA, wantB int64) {
		t.Helper()
		if gotA, gotB := a.n.Swap(0), b.n.Swap(0); gotA != wantA || gotB != wantB {
			t.Errorf("%s: slot 0 woken %d times, slot 63 %d; want %d, %d", what, gotA, gotB, wantA, wantB)
		}
	}
	appendOne(t, p, batchOf(t, baseTime, 1, "x"), 1)
	woken("nobody waits", 0, 0)
	p.Wait(0, &a)
	p.Wait(63, &b)
	p.Wait(0, &a)
	appendOne(t, p, batchOf(t, baseTime, 1, "x"), 1)
	woken("append", 1, 1)
	p.Unwait(63)
	appendOne(t, p, batchOf(t, baseTime, 1, "x"), 1)
	woken("after Unwait", 1, 0)
	if _, err := p.DeleteRecords(5); err != nil {
		t.Fatal(err)
	}
	woken("log start", 1, 0)
	if _, err := n.controller.BumpLeaderEpochs(n.ctx, []record.TopicPartition{p.tp}); err != nil {
		t.Fatal(err)
	}
	n.settle()
	woken("leadership", 1, 0)
	n.delete("t")
	n.settle()
	woken("deletion", 1, 0)
	if err := p.CheckLeader(noEpoch); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("a deleted partition answers %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("two wakers in one slot")
		}
	}()
	p.Wait(63, &a)
}

// TestNoLostWakeUp waits as a loop does: set, look, sleep.
func TestNoLostWakeUp(t *testing.T) {
	n, p := filled(t, nil)
	const rounds = 500
	var wg sync.WaitGroup
	start := p.Offsets().HW
	for slot := range 3 {
		wg.Go(func() {
			w := make(chanWaker, 1)
			for want := start + 1; want <= start+rounds; want++ {
				p.Wait(slot, w)
				for p.Offsets().HW < want {
					<-w
				}
				p.Unwait(slot)
			}
		})
	}
	for range rounds {
		appendOne(t, p, batchOf(t, baseTime, 1, "x"), 1)
		n.exec.drain()
	}
	wg.Wait()
}

type chanWaker chan struct{}

func (w chanWaker) PartitionAdvanced(*Partition) {
	select {
	case w <- struct{}{}:
	default:
	}
}

func TestOffsetsAreChecked(t *testing.T) {
	for _, o := range []Offsets{{5, 4, 6, 7}, {1, 3, 2, 7}, {1, 2, 8, 7}, {-1, 0, 0, 0}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v passed", o)
				}
			}()
			new(offsetsCell).set(o)
		}()
	}
}

// TestOffsetsOrderForReaders reads offsets while they move.
func TestOffsetsOrderForReaders(t *testing.T) {
	var c offsetsCell
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := record.Offset(0); i < 20000; i++ {
			c.set(Offsets{i, i + i%2, i + 2, i + 3})
		}
	}()
	for {
		if o := c.load(); o.LogStart > o.LSO || o.LSO > o.HW || o.HW > o.LEO {
			t.Fatalf("out of order: %+v", o)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestStaleStatesArePassedOver(t *testing.T) {
	n, p := filled(t, nil)
	part := *n.controller.Image().Partition(p.tp)
	newer := part
	newer.LeaderEpoch, newer.PartitionEpoch = 3, 3
	p.change(&newer, p.Config())
	older := part
	older.LeaderEpoch, older.Leader = 2, 2
	p.change(&older, p.Config())
	if id, epoch := p.Leader(); id != testNode || epoch != 3 {
		t.Fatalf("leader %d in epoch %d", id, epoch)
	}
	gone := newer
	gone.LeaderEpoch, gone.Leader = 4, meta.NoLeader
	p.change(&gone, p.Config())
	if err := p.CheckLeader(4); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Fatalf("error is %v", err)
	}
	if err := p.CheckLeader(3); !errors.Is(err, kerr.FencedLeaderEpoch) {
		t.Fatalf("error is %v", err)
	}
}
