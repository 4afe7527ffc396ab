package replication

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sys/unix"
)

// dirs lists the directories under the log dir whose names contain part.
func (n *node) dirs(part string) []string {
	n.t.Helper()
	entries, err := n.fs.ReadDir(testDir)
	n.ok(err)
	var out []string
	for _, e := range entries {
		if e.IsDir && strings.Contains(e.Name, part) {
			out = append(out, e.Name)
		}
	}
	slices.Sort(out)
	return out
}

// agree checks that partitions, directories and image say the same.
func (n *node) agree() {
	n.t.Helper()
	im := n.controller.Image()
	for _, name := range im.Names {
		t := im.Topics[name]
		for i := range t.Partitions {
			p := n.manager.Lookup([]byte(name), int32(i))
			if p == nil || p != n.manager.LookupID(t.ID, int32(i)) || p.TopicID() != t.ID {
				n.t.Fatalf("%s-%d is not in the index", name, i)
			}
			if err := p.CheckLeader(t.Partitions[i].LeaderEpoch); err != nil {
				n.t.Fatalf("%s-%d: %v (%v)", name, i, err, p.Err())
			}
			if id := p.Log().TopicID(); id != t.ID {
				n.t.Fatalf("%s-%d: the log has id %v, the topic %v", name, i, id, t.ID)
			}
		}
		if n.manager.Lookup([]byte(name), int32(len(t.Partitions))) != nil || n.manager.Lookup([]byte(name), -1) != nil {
			n.t.Fatalf("%s has partitions beyond its end", name)
		}
	}
	found, err := n.logs.Scan()
	n.ok(err)
	for _, f := range found {
		if im.Partition(f.TP) == nil {
			n.t.Fatalf("directory %s belongs to no topic", f.Dir)
		}
	}
}

func TestCreateDeleteRecreate(t *testing.T) {
	n := newNode(t).start()
	topic := n.create("t", 3, nil)
	// In the index at once, served once its directory is there.
	p := n.get("t", 2)
	if p.Ready() || !errors.Is(p.CheckLeader(noEpoch), kerr.NotLeaderForPartition) {
		t.Fatalf("before its directory is there: ready %v, %v", p.Ready(), p.CheckLeader(noEpoch))
	}
	if a := appendOne(t, p, batchOf(t, baseTime, 1, "early"), 1); !errors.Is(a.Err, kerr.NotLeaderForPartition) {
		t.Fatalf("early append: %v", a.Err)
	}
	ctx, cancel := context.WithTimeout(n.ctx, time.Millisecond)
	if err := n.manager.WaitReady(ctx, "t"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("WaitReady before the work is done: %v", err)
	}
	cancel()
	n.settle()
	n.ok(n.manager.WaitReady(n.ctx, "t"))
	n.ok(n.manager.WaitReady(n.ctx, "unknown"))
	n.agree()
	if a := appendOne(t, p, batchOf(t, baseTime, 2, "old"), 1); a.Err != nil {
		t.Fatal(a.Err)
	}
	n.ok(n.controller.CreatePartitions(n.ctx, "t", 5, nil, false))
	n.settle()
	n.agree()
	if n.get("t", 2) != p {
		t.Fatal("growing replaced a partition")
	}
	n.delete("t")
	n.create("t", 2, nil)
	n.settle()
	n.agree()
	if err := p.CheckLeader(noEpoch); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("the old partition answers %v", err)
	}
	if n.manager.LookupID(topic.ID, 0) != nil || n.manager.TopicByID(topic.ID) != nil {
		t.Fatal("the old id is still in the index")
	}
	if got := values(t, n.get("t", 1), 0); len(got) != 0 {
		t.Fatalf("the new topic has old records %v", got)
	}
	n.stop()
	n.start()
	n.agree()
	if s := n.dirs("-stray"); len(s) != 0 {
		t.Fatalf("strays %v", s)
	}
}

func TestKillBetweenCommitAndDirectories(t *testing.T) {
	n := newNode(t).start()
	n.create("kept", 1, nil)
	n.create("gone", 2, nil)
	n.settle()
	n.delete("gone")
	n.create("gone", 1, nil) // its directory is not the old one's
	n.create("fresh", 3, nil)
	n.kill() // none of the directories was touched
	if d := n.dirs("gone-"); len(d) != 2 {
		t.Fatalf("directories %v", d)
	}
	n.start()
	n.agree()
	if s := n.dirs("-stray"); len(s) != 0 {
		t.Fatalf("directories of a deleted topic were kept as strays: %v", s)
	}
	// Once more, without the topic being there at all.
	n.delete("gone")
	n.kill()
	n.start()
	n.agree()
	n.clock.advance(120_000)
	n.logs.Tick()
	if d := n.dirs("gone"); len(d) != 0 {
		t.Fatalf("directories %v", d)
	}
}

// life is a random history of a node and what must be true of it.
type life struct {
	*node
	random *rand.Rand
	acked  map[record.TopicID][]string // values in partition 0, in order
}

// TestRandomLife creates, grows, deletes and writes, and stops the node, kills
// it or cuts its power at any point between two pieces of work. After each
// start image and directories agree; what was acknowledged is there, in order,
// after a stop and a kill, and a prefix of it after a power cut.
func TestRandomLife(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := &life{node: newNode(t).start(), random: rand.New(rand.NewPCG(seed, 1)), acked: map[record.TopicID][]string{}}
	rounds := 40
	if testing.Short() {
		rounds = 12
	}
	for range rounds {
		for range l.random.IntN(12) {
			l.act()
			for range l.random.IntN(4) {
				l.exec.one()
			}
		}
		power := false
		switch l.random.IntN(3) {
		case 0:
			l.exec.drain()
			l.stop()
		case 1:
			l.kill()
		case 2:
			power = true
			l.crash(vfs.Crash{Mode: vfs.CrashDrop + vfs.CrashMode(l.random.IntN(3)), Seed: l.random.Uint64()})
		}
		l.start()
		l.agree()
		l.judge(power)
	}
	if s := l.dirs("-stray"); len(s) > 0 {
		t.Fatalf("directories of this cluster's own topics became strays: %v", s)
	}
}

func (l *life) act() {
	name := fmt.Sprintf("t%d", l.random.IntN(4))
	switch topic := l.controller.Image().Topics[name]; {
	case topic == nil:
		l.create(name, 1+l.random.Int32N(3), nil)
	case l.random.IntN(5) == 0:
		l.delete(name)
		delete(l.acked, topic.ID)
	case l.random.IntN(5) == 0:
		l.ok(l.controller.CreatePartitions(l.ctx, name, int32(len(topic.Partitions))+1, nil, false))
	default:
		value := fmt.Sprint(l.random.Uint64())
		if a := appendOne(l.t, l.get(name, 0), batchOf(l.t, baseTime, 1, value), acksAll); a.Err == nil {
			l.acked[topic.ID] = append(l.acked[topic.ID], value+"/0")
		}
	}
}

func (l *life) judge(power bool) {
	for _, topic := range l.controller.Image().Topics {
		got, want := values(l.t, l.get(topic.Name, 0), 0), l.acked[topic.ID]
		if !slices.Equal(got, want[:min(len(got), len(want))]) || !power && len(got) != len(want) {
			l.t.Fatalf("%s has %v, acknowledged were %v (power cut: %v)", topic.Name, got, want, power)
		}
		l.acked[topic.ID] = got
	}
}

func TestUncleanStopBumpsEpochs(t *testing.T) {
	n := newNode(t).start()
	n.create("a", 2, nil)
	n.create("b", 1, nil)
	n.settle()
	for range 3 {
		if a := appendOne(t, n.get("a", 1), batchOf(t, baseTime, 1, "v"), acksAll); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	n.kill()
	n.start()
	n.agree()
	want := []record.TopicPartition{{Topic: "a", Partition: 0}, {Topic: "a", Partition: 1}, {Topic: "b", Partition: 0}}
	if got := n.manager.Recovered(); !slices.Equal(got, want) {
		t.Fatalf("recovered %v", got)
	}
	p := n.get("a", 1)
	if p.LeaderEpoch() != 1 || p.Offsets().HW != 3 {
		t.Fatalf("epoch %d, offsets %+v", p.LeaderEpoch(), p.Offsets())
	}
	if epoch, end, err := p.EndOffsetForEpoch(1, 0); epoch != 0 || end != 3 || err != nil {
		t.Fatalf("epoch 0 ends at %d (%d), %v", end, epoch, err)
	}
	n.stop()
	n.start()
	if got := n.manager.Recovered(); len(got) != 0 || n.get("a", 1).LeaderEpoch() != 1 {
		t.Fatalf("after a clean stop: recovered %v, epoch %d", got, n.get("a", 1).LeaderEpoch())
	}
}

func TestConfigChanges(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 1, map[string]string{"retention.ms": "1000"})
	n.settle()
	p := n.get("t", 0)
	if p.Config().RetentionMs != 1000 || p.Log().Config().RetentionMs != 1000 {
		t.Fatalf("retention.ms is %d, the log's %d", p.Config().RetentionMs, p.Log().Config().RetentionMs)
	}
	n.ok(n.controller.AlterTopicConfigs(n.ctx, "t", map[string]string{"max.message.bytes": "100", "segment.bytes": "2000000"}, []string{"retention.ms"}))
	n.settle()
	if c := p.Config(); c.RetentionMs != 604800000 || c.Policy.MaxMessageBytes != 100 || p.Log().Config().SegmentBytes != 2000000 {
		t.Fatalf("config %+v", c)
	}
	if n.manager.Topic([]byte("t")).Config != p.Config() {
		t.Fatal("topic and partition have different configs")
	}
	// The broker's defaults change.
	broker, err := n.broker.WithDynamic(map[string]string{"log.retention.ms": "5000"}, nil)
	n.ok(err)
	n.broker = broker
	n.ok(n.controller.AlterBrokerConfigs(n.ctx, -1, map[string]string{"log.retention.ms": "5000"}, nil))
	n.settle()
	if c := p.Config(); c.RetentionMs != 5000 || c.Policy.MaxMessageBytes != 100 {
		t.Fatalf("config %+v", c)
	}
}

// TestStrays has directories that the store knows nothing of, or knows under
// another id.
func TestStrays(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 1, nil)
	n.create("other", 1, nil)
	n.settle()
	n.stop()
	// Somebody restores old directories.
	logs, err := storage.OpenManager(storage.ManagerConfig{FS: n.fs, Dirs: []string{testDir}, NodeID: testNode, Executor: &queue{}, Clock: n.clock, Logger: logger()})
	n.ok(err)
	n.ok(logs.Load(n.ctx, func(storage.FoundLog) (storage.LogConfig, bool) { return storage.LogConfig{}, true }, nil))
	n.ok(logs.Delete(record.TopicPartition{Topic: "other"}))
	for _, tp := range []record.TopicPartition{{Topic: "unknown", Partition: 3}, {Topic: "other"}, {Topic: "t", Partition: 1}} {
		_, err := logs.Create(tp, record.NewTopicID(), storage.LogConfig{})
		n.ok(err)
	}
	n.ok(logs.Close(nil))
	n.start()
	n.agree()
	if s := n.dirs("-stray"); len(s) != 3 {
		t.Fatalf("strays %v", s)
	}
	n.stop()
	n.start()
	n.agree()
	if s := n.dirs("-stray"); len(s) != 3 {
		t.Fatalf("strays %v", s)
	}
}

// TestAdoption starts an empty store on directories of another one.
func TestAdoption(t *testing.T) {
	n := newNode(t).start()
	topic := n.create("a.topic", 4, nil)
	n.create("b", 1, nil)
	n.settle()
	if _, err := n.controller.BumpLeaderEpochs(n.ctx, []record.TopicPartition{{Topic: "b"}}); err != nil {
		t.Fatal(err)
	}
	n.settle()
	appendOne(t, n.get("b", 0), batchOf(t, baseTime, 1, "b"), acksAll)
	b := record.NewBuilder().Producer(4711, 0, 0).Add(baseTime, []byte("k"), []byte("v")).Build(record.None)
	if a := appendOne(t, n.get("a.topic", 3), b, acksAll); a.Err != nil {
		t.Fatal(a.Err)
	}
	n.ok(n.logs.Delete(record.TopicPartition{Topic: "a.topic", Partition: 1}))
	cluster := n.controller.Image().ClusterID
	n.stop()

	n.path += ".new"
	n.open(map[string]map[string]string{"a.topic": {"retention.ms": "-1"}})
	if _, _, err := n.controller.AllocateProducerIDs(n.ctx); !errors.Is(err, kerr.CoordinatorLoadInProgress) {
		t.Fatalf("producer ids before the adopted logs are read: %v", err)
	}
	n.begin()
	n.agree()
	im := n.controller.Image()
	got := im.Topics["a.topic"]
	if im.ClusterID != cluster || got == nil || got.ID != topic.ID || len(got.Partitions) != 4 || got.Configs["retention.ms"] != "-1" {
		t.Fatalf("adopted %+v in cluster %s", got, im.ClusterID)
	}
	if v := values(t, n.get("a.topic", 3), 0); !slices.Equal(v, []string{"v"}) {
		t.Fatalf("records %v", v)
	}
	if e := n.get("b", 0).LeaderEpoch(); e != 2 {
		t.Fatalf("leader epoch %d: it must be above what the log knows", e)
	}
	if first, _, err := n.controller.AllocateProducerIDs(n.ctx); err != nil || first <= 4711 {
		t.Fatalf("producer ids from %d, %v", first, err)
	}
	n.stop()
	// Not empty any more: new directories are strays now.
	n.start()
	n.agree()
	if n.controller.Image().Adopting() {
		t.Fatal("still adopting")
	}
}

func TestBadLogTakesOnlyItselfOffline(t *testing.T) {
	n := newNode(t).start()
	n.create("bad", 1, nil)
	n.create("good", 1, nil)
	n.settle()
	n.fs.Inject(vfs.Fault{Op: vfs.OpMkdir, Path: "worse-0*", Times: -1, Err: unix.EIO})
	n.create("worse", 2, nil)
	n.settle()
	if err := n.manager.WaitReady(n.ctx, "worse"); err == nil {
		t.Fatal("a topic without a directory is ready")
	}
	p := n.get("worse", 0)
	if err := p.CheckLeader(noEpoch); !errors.Is(err, kerr.KafkaStorageError) || p.Err() == nil {
		t.Fatalf("offline: %v, %v", err, p.Err())
	}
	if a := appendOne(t, p, batchOf(t, baseTime, 1, "x"), 1); !errors.Is(a.Err, kerr.KafkaStorageError) {
		t.Fatalf("offline: %v", a.Err)
	}
	if a := appendOne(t, n.get("worse", 1), batchOf(t, baseTime, 1, "x"), 1); a.Err != nil {
		t.Fatal(a.Err)
	}
	n.kill()
	n.fs.Inject(vfs.Fault{Op: vfs.OpOpen, Path: "leader-epoch-checkpoint", Times: 1, Err: unix.EIO})
	n.start()
	ready := 0
	for _, name := range []string{"bad", "good"} {
		if n.get(name, 0).Ready() {
			ready++
		}
	}
	if ready == 0 {
		t.Fatal("one bad log kept all from serving")
	}
}

func TestLogDirsAndTick(t *testing.T) {
	n := newNode(t).start()
	n.create("b", 1, nil)
	n.create("a", 2, nil)
	n.settle()
	a := appendOne(t, n.get("a", 1), batchOf(t, baseTime, 1, "x"), 1)
	dirs := n.manager.LogDirs()
	if len(dirs) != 1 || dirs[0].Path != testDir || len(dirs[0].Replicas) != 3 {
		t.Fatalf("directories %+v", dirs)
	}
	if r := dirs[0].Replicas[1]; r != (meta.ReplicaSize{TP: record.TopicPartition{Topic: "a", Partition: 1}, Bytes: int64(len(a.Batch))}) {
		t.Fatalf("replica %+v", r)
	}
	n.manager.Tick()
	n.exec.drain()
	n.clock.advance(10_000)
	n.manager.Tick()
	n.exec.drain()
	data, err := n.fs.ReadFile(testDir + "/replication-offset-checkpoint")
	if err != nil || !strings.Contains(string(data), "a 1 1\n") {
		t.Fatalf("checkpoint %q, %v", data, err)
	}
	// Nothing moves, nothing is written.
	writes := 0
	n.fs.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpWrite {
			writes++
		}
		return nil
	})
	tick := func() {
		n.clock.advance(10_000)
		n.manager.Tick()
		n.exec.drain()
	}
	tick()
	if writes != 0 {
		t.Fatalf("%d writes on an idle node", writes)
	}
	appendOne(t, n.get("b", 0), batchOf(t, baseTime, 1, "x"), 1)
	writes = 0
	if tick(); writes == 0 {
		t.Fatal("no checkpoint after an append")
	}
}

func TestClose(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 2, nil)
	n.settle()
	p := n.get("t", 0)
	appendOne(t, p, batchOf(t, baseTime, 1, "x"), 1)
	var told []int
	n.ok(n.manager.Close(n.ctx, func(done, total int) { told = append(told, done, total) }))
	if !slices.Equal(told, []int{1, 2, 2, 2}) {
		t.Fatalf("progress %v", told)
	}
	if a := appendOne(t, p, batchOf(t, baseTime, 1, "x"), 1); !errors.Is(a.Err, kerr.NotLeaderForPartition) {
		t.Fatalf("append after Close: %v", a.Err)
	}
	if err := n.manager.Close(n.ctx, nil); !errors.Is(err, ErrStopped) {
		t.Fatalf("second Close: %v", err)
	}
	n.create("late", 1, nil)
	n.exec.drain()
	if d := n.dirs("late"); len(d) != 0 {
		t.Fatalf("directories %v", d)
	}
	n.ok(n.store.Close())
	n.start()
	n.agree()
}

// TestCloseWaitsForUpkeep: upkeep at work must not write a checkpoint into
// directories that are unlocked and maybe another process's by then.
func TestCloseWaitsForUpkeep(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 1, nil)
	n.settle()
	n.clock.advance(10_000)
	n.manager.Tick() // its work is still with the executor
	closed := make(chan error, 1)
	go func() { closed <- n.manager.Close(n.ctx, nil) }()
	select {
	case err := <-closed:
		t.Fatalf("closed before the upkeep was over: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	n.exec.drain()
	n.ok(<-closed)
	n.clock.advance(10_000)
	n.manager.Tick()
	if n.exec.one() {
		t.Error("upkeep after the close")
	}
}

func TestStartReportsProgressAndStopsWithContext(t *testing.T) {
	n := newNode(t).start()
	n.create("t", 3, nil)
	n.settle()
	n.stop()
	n.open(nil)
	last := 0
	n.ok(n.manager.Start(n.ctx, n.controller.Image(), func(done, total int) {
		if total != 3 || done < last {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	}))
	n.settle()
	if last != 3 {
		t.Fatalf("progress ended at %d", last)
	}
	n.stop()
	n.open(nil)
	ctx, cancel := context.WithCancel(n.ctx)
	cancel()
	if err := n.manager.Start(ctx, n.controller.Image(), nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v", err)
	}
}
