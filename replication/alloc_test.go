//go:build !race

package replication

import (
	"path/filepath"
	"testing"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

type inPlace struct{}

func (inPlace) Submit(job func()) { job() }

type noDone struct{}

func (noDone) AppendDone(*Append) {}

// onDisk is a partition on the real file system.
func onDisk(t testing.TB) *Partition {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "logs")
	must(vfs.OS().MkdirAll(dir))
	broker, _, err := config.Load(map[string]string{"node.id": "1", "log.dirs": dir}, nil)
	must(err)
	clock := &stillClock{now: baseTimeMs}
	logs, err := storage.OpenManager(storage.ManagerConfig{FS: vfs.OS(), Dirs: []string{dir}, NodeID: 1, ClusterID: "c", Executor: inPlace{}, Clock: clock, Logger: logger()})
	must(err)
	t.Cleanup(func() { must(logs.Close(nil)) })
	must(logs.Load(t.Context(), func(storage.FoundLog) (storage.LogConfig, bool) { return storage.LogConfig{}, false }, nil))
	tp, id := record.TopicPartition{Topic: "t"}, record.NewTopicID()
	p := newPartition(tp, id, 1, &wakers{}, inPlace{})
	cfg := NewTopicConfig(&broker.TopicDefaults)
	p.prepare(&meta.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}, cfg)
	log, err := logs.Create(tp, id, cfg.Log)
	must(err)
	p.open(log)
	return p
}

const baseTimeMs = 1_700_000_000_000

// TestNoAllocations holds the promise of the hot path: appending, reading at
// the tail and waiting allocate nothing.
func TestNoAllocations(t *testing.T) {
	p := onDisk(t)
	batch := record.NewBuilder().Add(baseTimeMs, []byte("k"), make([]byte, 1000)).Build(record.None)
	first, second := &Append{Done: noDone{}}, &Append{Done: noDone{}}
	var waker Waker = make(chanWaker, 1)
	step := func() {
		first.Batch, second.Batch = batch, batch
		first.Next = second
		p.Append(first)
		if first.Err != nil || second.Err != nil {
			t.Fatal(first.Err, second.Err)
		}
		p.Wait(3, waker)
		res, err := p.Read(ReadParams{Offset: first.BaseOffset, MaxBytes: 1 << 20, MinOne: true, Nowait: true,
			CurrentLeaderEpoch: record.NoLeaderEpoch, LastFetchedEpoch: record.NoLeaderEpoch})
		if err != nil || res.Span == nil {
			t.Fatal(res, err)
		}
		res.Span.Release()
		p.Unwait(3)
	}
	for range 1000 {
		step()
	}
	if n := testing.AllocsPerRun(2000, step); n != 0 {
		t.Fatalf("%v allocations for an append and a read", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	p := onDisk(b)
	batch := record.NewBuilder().Add(baseTimeMs, []byte("k"), make([]byte, 1000)).Build(record.None)
	a := &Append{Done: noDone{}}
	b.ReportAllocs()
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		a.Batch = batch
		p.Append(a)
		if a.Err != nil {
			b.Fatal(a.Err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	p := onDisk(b)
	batch := record.NewBuilder().Add(baseTimeMs, []byte("k"), make([]byte, 1000)).Build(record.None)
	a := &Append{Done: noDone{}}
	a.Batch = batch
	p.Append(a)
	b.ReportAllocs()
	for b.Loop() {
		res, err := p.Read(ReadParams{MaxBytes: 1 << 20, MinOne: true, Nowait: true, CurrentLeaderEpoch: record.NoLeaderEpoch, LastFetchedEpoch: record.NoLeaderEpoch})
		if err != nil {
			b.Fatal(err)
		}
		res.Span.Release()
	}
}

// BenchmarkAppendContended has two loops append to one partition; whoever holds
// writes for both.
func BenchmarkAppendContended(b *testing.B) {
	p := onDisk(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		batch := record.NewBuilder().Add(baseTimeMs, []byte("k"), make([]byte, 1000)).Build(record.None)
		done := make(doneChan, 16)
		ring := make([]Append, cap(done))
		for i := range ring {
			ring[i].Done = done
			ring[i].Batch = append(record.Batch(nil), batch...)
			done <- &ring[i]
		}
		for pb.Next() {
			a := <-done
			if a.Err != nil {
				b.Error(a.Err)
				return
			}
			p.Append(a)
		}
		for range ring {
			<-done
		}
	})
}

type doneChan chan *Append

func (d doneChan) AppendDone(a *Append) { d <- a }
