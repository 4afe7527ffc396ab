package replication

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/controller"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/replication/meta/metalocal"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

const (
	testNode = 1
	testDir  = "/data"
)

// stillClock stands still until it is moved.
type stillClock struct {
	mu  sync.Mutex
	now record.Timestamp
}

func (c *stillClock) Now() record.Timestamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stillClock) advance(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += record.Timestamp(ms)
}

// queue is an executor whose jobs run when the test says so.
type queue struct {
	mu   sync.Mutex
	jobs []func()
}

func (q *queue) Submit(job func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs = append(q.jobs, job)
}

// one runs the oldest job, if there is one.
func (q *queue) one() bool {
	q.mu.Lock()
	if len(q.jobs) == 0 {
		q.mu.Unlock()
		return false
	}
	job := q.jobs[0]
	q.jobs = q.jobs[1:]
	q.mu.Unlock()
	job()
	return true
}

func (q *queue) drain() {
	for q.one() {
	}
}

// node is a store, a controller and a manager on a file system that can crash.
type node struct {
	t     testing.TB
	fs    *vfs.Mem
	path  string // of the store
	exec  *queue
	clock *stillClock
	seed  uint64

	broker     *config.Broker
	logs       *storage.Manager
	store      *metalocal.Store
	controller *controller.Controller
	manager    *Manager
	ctx        context.Context
}

func newNode(t testing.TB) *node {
	n := &node{t: t, fs: vfs.NewMem(), clock: &stillClock{now: 1_700_000_000_000}, seed: 1,
		path: filepath.Join(t.TempDir(), "meta.db")}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	n.ctx = ctx
	t.Cleanup(func() {
		cancel()
		if n.store != nil {
			n.store.Close()
		}
	})
	broker, _, err := config.Load(map[string]string{"node.id": "1", "log.dirs": testDir, "broker.rack": "r1"}, nil)
	n.ok(err)
	n.broker = broker
	n.ok(n.fs.MkdirAll(testDir))
	n.fs.SyncAll()
	return n
}

func logger() *slog.Logger {
	if os.Getenv("REPLICATION_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

func (n *node) ok(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// open starts everything but the manager, which is at hand as n.manager.
func (n *node) open(adopt map[string]map[string]string) {
	n.t.Helper()
	var err error
	n.exec = &queue{}
	n.logs, err = storage.OpenManager(storage.ManagerConfig{FS: n.fs, Dirs: []string{testDir}, NodeID: testNode,
		Executor: n.exec, Clock: n.clock, Logger: logger()})
	n.ok(err)
	n.store, err = metalocal.Open(n.path)
	n.ok(err)
	brokerOf := func(*meta.Image) *config.Broker { return n.broker }
	n.seed++
	n.controller = controller.New(controller.Config{Store: n.store, NodeID: testNode, ClusterID: n.logs.ClusterID(),
		Logger: logger(), Clock: n.clock, Broker: brokerOf, Seed: n.seed})
	n.ok(n.controller.Start(n.ctx, meta.Broker{Rack: "r1", Listeners: []meta.Endpoint{{Name: "PLAINTEXT", Host: "h", Port: 9092, Protocol: "PLAINTEXT"}}}))
	n.ok(n.logs.SetClusterID(n.controller.Image().ClusterID))
	found, err := n.logs.Scan()
	n.ok(err)
	n.ok(n.controller.AdoptTopics(n.ctx, found, adopt))
	n.manager = NewManager(ManagerConfig{Storage: n.logs, NodeID: testNode, Executor: n.exec, Clock: n.clock,
		Logger: logger(), Broker: brokerOf, Epochs: n.controller})
	n.controller.Subscribe(n.manager.Apply)
}

// start is open and the manager's start, with all that follows.
func (n *node) start() *node {
	n.t.Helper()
	n.open(nil)
	n.begin()
	return n
}

func (n *node) begin() {
	n.t.Helper()
	n.ok(n.manager.Start(n.ctx, n.controller.Image(), nil))
	n.settle()
}

func (n *node) settle() {
	n.t.Helper()
	n.exec.drain()
	n.ok(n.manager.Settle(n.ctx))
}

// kill stops the process: the page cache stays, jobs that wait are lost.
func (n *node) kill() {
	n.t.Helper()
	n.crash(vfs.Crash{Mode: vfs.CrashKeep})
}

// crash stops the process, and with the power what the disk had not got.
func (n *node) crash(c vfs.Crash) {
	n.t.Helper()
	n.fs = n.fs.Crash(c)
	n.ok(n.store.Close())
}

func (n *node) stop() {
	n.t.Helper()
	n.ok(n.manager.Close(n.ctx, nil))
	n.exec.drain()
	n.ok(n.controller.Close(n.ctx))
	n.ok(n.store.Close())
}

func (n *node) create(name string, partitions int32, configs map[string]string) *meta.Topic {
	n.t.Helper()
	r := n.controller.CreateTopics(n.ctx, []meta.TopicSpec{{Name: name, Partitions: partitions, ReplicationFactor: 1, Configs: configs}}, false)
	n.ok(r[0].Err)
	return r[0].Topic
}

func (n *node) delete(name string) {
	n.t.Helper()
	n.ok(n.controller.DeleteTopics(n.ctx, []record.TopicID{n.controller.Image().Topics[name].ID})[0])
}

func (n *node) get(name string, partition int32) *Partition {
	n.t.Helper()
	p := n.manager.Lookup([]byte(name), partition)
	if p == nil {
		n.t.Fatalf("no partition %s-%d", name, partition)
	}
	return p
}

// doneList collects outcomes.
type doneList struct {
	mu  sync.Mutex
	got []*Append
}

func (d *doneList) AppendDone(a *Append) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got = append(d.got, a)
}

// append appends one batch and returns its outcome.
func appendOne(t testing.TB, p *Partition, b record.Batch, acks int16) *Append {
	t.Helper()
	var d doneList
	a := &Append{RequiredAcks: acks, Done: &d}
	a.Batch, a.FromClient = b, true
	p.Append(a)
	if q, ok := p.exec.(*queue); ok {
		for len(d.got) == 0 && q.one() {
			// The first append has a worker open files.
		}
	}
	if len(d.got) != 1 || d.got[0] != a || a.Partition != p {
		t.Fatalf("%d completions", len(d.got))
	}
	return a
}

// batchOf makes a batch of n records with the tag in their values.
func batchOf(t testing.TB, ts record.Timestamp, n int, tag string) record.Batch {
	t.Helper()
	b := record.NewBuilder()
	for i := range n {
		b.Add(ts+record.Timestamp(i), []byte("k"), []byte(fmt.Sprintf("%s/%d", tag, i)))
	}
	return b.Build(record.None)
}

// values reads all values of a partition from offset on.
func values(t testing.TB, p *Partition, offset record.Offset) []string {
	t.Helper()
	var out []string
	for {
		res, err := p.Read(ReadParams{Offset: offset, MaxBytes: 1 << 20, MinOne: true,
			CurrentLeaderEpoch: record.NoLeaderEpoch, LastFetchedEpoch: record.NoLeaderEpoch})
		if err != nil {
			t.Fatal(err)
		}
		if res.Span == nil {
			return out
		}
		buf := make([]byte, res.Span.Length())
		if _, err := res.Span.ReadAt(buf, 0); err != nil {
			t.Fatal(err)
		}
		res.Span.Release()
		for len(buf) > 0 {
			b, rest, err := record.Split(buf)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Each(func(r record.Record) bool {
				out = append(out, string(r.Value))
				return true
			}); err != nil {
				t.Fatal(err)
			}
			offset, buf = b.NextOffset(), rest
		}
	}
}
