package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/replication/meta/metalocal"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

type stillClock struct{ now record.Timestamp }

func (c *stillClock) Now() record.Timestamp { return c.now }

// flaky is a store whose transactions fail when the test says so.
type flaky struct {
	meta.Store
	before func() error // instead of the transaction
	after  func() error // the transaction was written, the answer is lost
}

func (f *flaky) Txn(ctx context.Context, guards []meta.Guard, ops []meta.Op) (meta.Revision, error) {
	if f.before != nil {
		if err := f.before(); err != nil {
			return 0, err
		}
	}
	r, err := f.Store.Txn(ctx, guards, ops)
	if err == nil && f.after != nil {
		err = f.after()
	}
	return r, err
}

type fixture struct {
	*Controller
	t     *testing.T
	path  string
	store *flaky
	clock *stillClock
	ctx   context.Context
}

func newFixture(t *testing.T, brokers ...meta.Broker) *fixture {
	f := &fixture{t: t, path: filepath.Join(t.TempDir(), "meta.db"), clock: &stillClock{1_700_000_000_000}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	f.ctx = ctx
	t.Cleanup(func() {
		cancel()
		f.store.Close()
	})
	f.start("")
	for _, b := range brokers {
		f.ok(f.RegisterBroker(f.ctx, b))
	}
	return f
}

func (f *fixture) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) start(clusterID string) {
	f.t.Helper()
	f.ok(f.tryStart(clusterID))
}

func (f *fixture) tryStart(clusterID string) error {
	f.t.Helper()
	store, err := metalocal.Open(f.path)
	f.ok(err)
	f.store = &flaky{Store: store}
	broker, _, err := config.Load(map[string]string{"node.id": "1", "num.partitions": "3"}, nil)
	f.ok(err)
	f.Controller = New(Config{Store: f.store, NodeID: 1, ClusterID: clusterID, Logger: slog.New(slog.DiscardHandler), Clock: f.clock,
		Broker: func(*meta.Image) *config.Broker { return broker }})
	return f.Start(f.ctx, meta.Broker{Rack: "r1", Listeners: []meta.Endpoint{{Name: "PLAINTEXT", Host: "h", Port: 9092, Protocol: "PLAINTEXT"}}})
}

// kill drops the process; what the store has stays.
func (f *fixture) kill() {
	f.t.Helper()
	f.ok(f.store.Close())
}

// same checks that the image is what a fresh load of the store shows.
func (f *fixture) same() {
	f.t.Helper()
	loaded, err := meta.Load(f.ctx, f.store)
	f.ok(err)
	if got, want := fmt.Sprintf("%+v", summary(f.Image())), fmt.Sprintf("%+v", summary(loaded)); got != want {
		f.t.Fatalf("image  %s\nstore  %s", got, want)
	}
}

func summary(im *meta.Image) []any {
	out := []any{im.ClusterID, im.ControllerID, im.Brokers, im.Names, im.BrokerConfigs, im.BrokerDefaults, len(im.Deleted)}
	for _, name := range im.Names {
		t := im.Topics[name]
		out = append(out, t.Name, t.ID, t.Partitions, t.Configs, t.Stated())
	}
	return out
}

func spec(name string) meta.TopicSpec {
	return meta.TopicSpec{Name: name, Partitions: -1, ReplicationFactor: -1}
}

func (f *fixture) create(s meta.TopicSpec) (*meta.Topic, error) {
	f.t.Helper()
	r := f.CreateTopics(f.ctx, []meta.TopicSpec{s}, false)[0]
	if (r.Topic == nil) == (r.Err == nil) {
		f.t.Fatalf("result %+v", r)
	}
	return r.Topic, r.Err
}

// refused checks code and, for record.Errors, text.
func (f *fixture) refused(err error, code *kerr.Error, text string) {
	f.t.Helper()
	if !errors.Is(err, code) {
		f.t.Fatalf("error is %v, want %v", err, code)
	}
	if got := message(err); text != "" && got != text {
		f.t.Fatalf("text is\n%s\nwant\n%s", got, text)
	}
}

func TestStart(t *testing.T) {
	f := newFixture(t)
	im := f.Image()
	if len(im.ClusterID) != 22 || im.ControllerID != 1 || len(im.Brokers) != 1 {
		t.Fatalf("image %+v", im)
	}
	b := im.Brokers[0]
	if e, ok := b.Endpoint("PLAINTEXT"); !ok || e.Port != 9092 || b.Rack != "r1" || b.ID != 1 || b.Fenced {
		t.Fatalf("broker %+v", b)
	}
	f.same()
	f.ok(f.Close(f.ctx))
	f.ok(f.Close(f.ctx))
	if _, err := f.create(spec("t")); err == nil {
		t.Fatal("a controller out of office wrote")
	}
	f.kill()
	f.start(im.ClusterID)
	if next := f.Image(); next.ClusterID != im.ClusterID || next.Brokers[0].Epoch <= b.Epoch {
		t.Fatalf("started again as %+v after %+v", next.Brokers[0], b)
	}
	f.kill()
	err := f.tryStart("somebody-elses")
	if err == nil || !strings.Contains(err.Error(), "somebody-elses") || !strings.Contains(err.Error(), im.ClusterID) {
		t.Fatalf("error is %v", err)
	}
}

func TestStartAdoptsTheDirectoriesCluster(t *testing.T) {
	f := newFixture(t)
	f.kill()
	f.path += ".new"
	f.start("from-the-disks")
	if id := f.Image().ClusterID; id != "from-the-disks" {
		t.Fatalf("cluster id %s", id)
	}
}

func TestTopicNames(t *testing.T) {
	f := newFixture(t)
	for name, text := range map[string]string{
		"":                       "Topic name is invalid: the empty string is not allowed",
		".":                      "Topic name is invalid: '.' is not allowed",
		"..":                     "Topic name is invalid: '..' is not allowed",
		"a b":                    "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
		"ü":                      "Topic name is invalid: 'ü' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
		"a/b":                    "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
		strings.Repeat("x", 250): "Topic name is invalid: the length of '" + strings.Repeat("x", 250) + "' is longer than the max allowed length 249",
	} {
		_, err := f.create(spec(name))
		f.refused(err, kerr.InvalidTopicException, text)
	}
	for _, name := range []string{"a.b", "A-9", "...", "__consumer_offsets", strings.Repeat("x", 249)} {
		if _, err := f.create(spec(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	_, err := f.create(spec("a_b"))
	f.refused(err, kerr.InvalidTopicException, "Topic 'a_b' collides with existing topic: a.b")
	_, err = f.create(spec("a.b"))
	f.refused(err, kerr.TopicAlreadyExists, "Topic 'a.b' already exists.")
	_, err = f.create(spec("__cluster_metadata"))
	f.refused(err, kerr.InvalidRequest, "Creation of internal topic __cluster_metadata is prohibited.")
	if !f.Image().Topics["__consumer_offsets"].Internal || f.Image().Topics["a.b"].Internal {
		t.Error("internal topics are not told from others")
	}
	// Within one request too.
	r := f.CreateTopics(f.ctx, []meta.TopicSpec{spec("x.y"), spec("x_y"), spec("z"), spec("z")}, false)
	f.ok(r[0].Err)
	f.refused(r[1].Err, kerr.InvalidTopicException, "Topic 'x_y' collides with existing topic: x.y")
	f.ok(r[2].Err)
	f.refused(r[3].Err, kerr.TopicAlreadyExists, "")
	f.same()
}

func TestCreateTopicCounts(t *testing.T) {
	f := newFixture(t)
	topic, err := f.create(spec("default"))
	f.ok(err)
	if len(topic.Partitions) != 3 || topic != f.Image().Topics["default"] && topic.ID != f.Image().Topics["default"].ID {
		t.Fatalf("topic %+v", topic)
	}
	if p := topic.Partitions[2]; p.Leader != 1 || !slices.Equal(p.Replicas, []int32{1}) || !slices.Equal(p.ISR, []int32{1}) || p.LeaderEpoch != 0 || len(p.Offline) != 0 {
		t.Fatalf("partition %+v", p)
	}
	for _, c := range []struct {
		partitions  int32
		replication int16
		code        *kerr.Error
		text        string
	}{
		{0, 1, kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value."},
		{-2, -1, kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value."},
		{1, 0, kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value."},
		{1, -2, kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value."},
		{1, 3, kerr.InvalidReplicationFactor, "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 1 broker(s) are registered."},
		{10001, 1, kerr.PolicyViolation, ""},
	} {
		_, err := f.create(meta.TopicSpec{Name: "t", Partitions: c.partitions, ReplicationFactor: c.replication})
		f.refused(err, c.code, c.text)
	}
	_, err = f.create(meta.TopicSpec{Name: "t", Partitions: 1, ReplicationFactor: 1, Configs: map[string]string{"no.such.key": "1"}})
	f.refused(err, kerr.InvalidConfig, "Unknown topic config name: no.such.key")
	r := f.CreateTopics(f.ctx, []meta.TopicSpec{{Name: "dry", Partitions: 7, ReplicationFactor: 1, Configs: map[string]string{"retention.ms": "1"}}}, true)
	if r[0].Err != nil || len(r[0].Topic.Partitions) != 7 || r[0].Topic.Configs["retention.ms"] != "1" || f.Image().Topics["dry"] != nil {
		t.Fatalf("validate only: %+v", r[0])
	}
	wide, err := f.create(meta.TopicSpec{Name: "wide", Partitions: 10000, ReplicationFactor: 1})
	f.ok(err)
	if len(wide.Partitions) != 10000 {
		t.Fatalf("%d partitions", len(wide.Partitions))
	}
	f.same()
}

func TestManualAssignment(t *testing.T) {
	f := newFixture(t, meta.Broker{ID: 2}, meta.Broker{ID: 3, Fenced: true})
	for text, a := range map[string]map[int32][]int32{
		"The manual partition assignment includes an empty replica list.":                                                                                       {0: {}},
		"The manual partition assignment includes broker 9, but no such broker is registered.":                                                                  {0: {1, 9}},
		"The manual partition assignment includes the broker 2 more than once.":                                                                                 {0: {2, 2}},
		"The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with previous partitions, which have 2 replica(s).": {0: {1, 2}, 1: {1}},
		"partitions should be a consecutive 0-based integer sequence":                                                                                           {0: {1}, 2: {1}},
		"All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown.":                                        {0: {3}},
	} {
		s := spec("t")
		s.Assignment = a
		_, err := f.create(s)
		f.refused(err, kerr.InvalidReplicaAssignment, text)
	}
	s := meta.TopicSpec{Name: "t", Partitions: 1, ReplicationFactor: -1, Assignment: map[int32][]int32{0: {1}}}
	_, err := f.create(s)
	f.refused(err, kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	s.Partitions, s.ReplicationFactor = -1, 1
	_, err = f.create(s)
	f.refused(err, kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	s.ReplicationFactor, s.Assignment = -1, map[int32][]int32{0: {3, 2, 1}, 1: {2, 1, 3}}
	topic, err := f.create(s)
	f.ok(err)
	p := topic.Partitions[0]
	if p.Leader != 2 || !slices.Equal(p.ISR, []int32{2, 1}) || !slices.Equal(p.Replicas, []int32{3, 2, 1}) || !slices.Equal(p.Offline, []int32{3}) {
		t.Fatalf("partition %+v", p)
	}
	f.same()
}

func TestCreatePartitions(t *testing.T) {
	f := newFixture(t, meta.Broker{ID: 2})
	_, err := f.create(meta.TopicSpec{Name: "t", Partitions: 2, ReplicationFactor: 1})
	f.ok(err)
	grow := func(count int32, a [][]int32, validate bool) error {
		return f.CreatePartitions(f.ctx, "t", count, a, validate)
	}
	f.refused(f.CreatePartitions(f.ctx, "unknown", 3, nil, false), kerr.UnknownTopicOrPartition, "")
	f.refused(grow(2, nil, false), kerr.InvalidPartitions, "Topic already has 2 partition(s).")
	f.refused(grow(1, nil, false), kerr.InvalidPartitions, "The topic t currently has 2 partition(s); 1 would not be an increase.")
	f.refused(grow(4, [][]int32{{1}}, false), kerr.InvalidReplicaAssignment, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.")
	f.refused(grow(3, [][]int32{{1, 2}}, false), kerr.InvalidReplicaAssignment, "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with previous partitions, which have 1 replica(s).")
	f.ok(grow(5, nil, true))
	if n := len(f.Image().Topics["t"].Partitions); n != 2 {
		t.Fatalf("validate only made %d partitions", n)
	}
	f.ok(grow(4, [][]int32{{2}, {1}}, false))
	f.ok(grow(6, nil, false))
	parts := f.Image().Topics["t"].Partitions
	if len(parts) != 6 || parts[2].Leader != 2 || parts[3].Leader != 1 {
		t.Fatalf("partitions %+v", parts)
	}
	f.same()
}

func TestDeleteTopics(t *testing.T) {
	f := newFixture(t)
	topic, err := f.create(meta.TopicSpec{Name: "t", Partitions: 2, ReplicationFactor: 1, Configs: map[string]string{"retention.ms": "5"}})
	f.ok(err)
	_, err = f.BumpLeaderEpochs(f.ctx, []record.TopicPartition{{Topic: "t", Partition: 1}})
	f.ok(err)
	errs := f.DeleteTopics(f.ctx, []record.TopicID{topic.ID, {1}, topic.ID})
	f.ok(errs[0])
	f.refused(errs[1], kerr.UnknownTopicID, "")
	f.refused(errs[2], kerr.UnknownTopicID, "")
	if f.Image().Deleted[topic.ID] != "t" {
		t.Fatal("the deletion is not remembered")
	}
	again, err := f.create(spec("t"))
	f.ok(err)
	if again.ID == topic.ID || len(again.Configs) != 0 || again.Partitions[1].LeaderEpoch != 0 {
		t.Fatalf("made again as %+v", again)
	}
	states, _, err := f.store.List(f.ctx, meta.PrefixStates)
	f.ok(err)
	if len(states) != 0 {
		t.Fatalf("states of a deleted topic: %v", states)
	}
	f.same()
	// Leftovers of a crash, and what was deleted long ago, go at the next start.
	_, err = f.store.Txn(f.ctx, nil, []meta.Op{meta.Put(meta.KeyState(topic.ID, 0), meta.Encode(&meta.StateValue{}))})
	f.ok(err)
	f.kill()
	f.clock.now += deletedMemoryMs + 1
	f.start("")
	entries, _, err := f.store.List(f.ctx, "")
	f.ok(err)
	for _, e := range entries {
		if strings.HasPrefix(e.Key, meta.PrefixStates) || strings.HasPrefix(e.Key, meta.PrefixDeleted) {
			t.Fatalf("%s is left", e.Key)
		}
	}
}

func TestConfigs(t *testing.T) {
	f := newFixture(t)
	_, err := f.create(meta.TopicSpec{Name: "t", Partitions: 1, ReplicationFactor: 1, Configs: map[string]string{"retention.ms": "5"}})
	f.ok(err)
	f.ok(f.AlterTopicConfigs(f.ctx, "t", map[string]string{"cleanup.policy": "compact", "segment.ms": "7"}, []string{"retention.ms", "never.set"}))
	want := map[string]string{"cleanup.policy": "compact", "segment.ms": "7"}
	if got := f.Image().Topics["t"].Configs; !maps.Equal(got, want) {
		t.Fatalf("configs %v", got)
	}
	// One bad key, and nothing changes.
	f.refused(f.AlterTopicConfigs(f.ctx, "t", map[string]string{"segment.ms": "8", "retention.ms": "x"}, []string{"cleanup.policy"}), kerr.InvalidConfig, "")
	if got := f.Image().Topics["t"].Configs; !maps.Equal(got, want) {
		t.Fatalf("configs %v", got)
	}
	f.refused(f.AlterTopicConfigs(f.ctx, "unknown", nil, nil), kerr.UnknownTopicOrPartition, "The topic 'unknown' does not exist.")
	f.ok(f.AlterTopicConfigs(f.ctx, "t", nil, []string{"cleanup.policy", "segment.ms"}))
	if got := f.Image().Topics["t"].Configs; len(got) != 0 {
		t.Fatalf("configs %v", got)
	}
	f.ok(f.AlterBrokerConfigs(f.ctx, -1, map[string]string{"log.retention.ms": "9"}, nil))
	f.ok(f.AlterBrokerConfigs(f.ctx, 1, map[string]string{"log.retention.ms": "8"}, nil))
	f.refused(f.AlterBrokerConfigs(f.ctx, 1, map[string]string{"log.retention.ms": "x"}, nil), kerr.InvalidConfig, "")
	if im := f.Image(); im.BrokerDefaults["log.retention.ms"] != "9" || im.BrokerConfigs[1]["log.retention.ms"] != "8" {
		t.Fatalf("broker configs %v %v", im.BrokerDefaults, im.BrokerConfigs)
	}
	f.same()
	f.kill()
	f.start("")
	f.ok(f.AlterBrokerConfigs(f.ctx, 1, nil, []string{"log.retention.ms"}))
	if im := f.Image(); im.BrokerDefaults["log.retention.ms"] != "9" || len(im.BrokerConfigs[1]) != 0 {
		t.Fatalf("broker configs %v %v", im.BrokerDefaults, im.BrokerConfigs)
	}
}

// TestProducerIDs takes ids from several goroutines, over kills.
func TestProducerIDs(t *testing.T) {
	f := newFixture(t)
	seen := map[record.ProducerID]bool{}
	for life := range 4 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 700 {
					id, err := f.NextProducerID(f.ctx)
					mu.Lock()
					if err != nil || seen[id] || id < 0 {
						t.Errorf("id %d: %v, seen %v", id, err, seen[id])
					}
					seen[id] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if life == 2 {
			// The answer to a block is lost: the block must not come again.
			f.store.after = func() error { return errors.New("connection lost") }
			if _, _, err := f.AllocateProducerIDs(f.ctx); err == nil {
				t.Fatal("no error")
			}
		}
		f.kill()
		f.start("")
	}
	f.ok(f.ReserveProducerIDs(f.ctx, 1_000_000))
	if first, count, err := f.AllocateProducerIDs(f.ctx); first != 1_000_001 || count != 1000 || err != nil {
		t.Fatalf("block %d+%d, %v", first, count, err)
	}
	f.ok(f.ReserveProducerIDs(f.ctx, 5))
	if first, _, err := f.AllocateProducerIDs(f.ctx); first != 1_001_001 || err != nil {
		t.Fatalf("block %d, %v", first, err)
	}
}

func TestLeaderEpochs(t *testing.T) {
	f := newFixture(t)
	_, err := f.create(meta.TopicSpec{Name: "t", Partitions: 400, ReplicationFactor: 1})
	f.ok(err)
	var tps []record.TopicPartition
	for i := range int32(400) {
		tps = append(tps, record.TopicPartition{Topic: "t", Partition: i})
	}
	tps = append(tps, tps[3], record.TopicPartition{Topic: "t", Partition: 9999}, record.TopicPartition{Topic: "unknown"})
	im, err := f.BumpLeaderEpochs(f.ctx, tps)
	f.ok(err)
	for _, tp := range []int{0, 3, 399} {
		if p := im.Topics["t"].Partitions[tp]; p.LeaderEpoch != 1 || p.PartitionEpoch != 1 || p.Leader != 1 {
			t.Fatalf("partition %+v", p)
		}
	}
	_, err = f.RaiseLeaderEpochs(f.ctx, map[record.TopicPartition]record.LeaderEpoch{tps[0]: 7, tps[1]: 1})
	f.ok(err)
	f.kill()
	f.start("")
	parts := f.Image().Topics["t"].Partitions
	if parts[0].LeaderEpoch != 7 || parts[1].LeaderEpoch != 1 || parts[2].LeaderEpoch != 1 {
		t.Fatalf("epochs %d %d %d", parts[0].LeaderEpoch, parts[1].LeaderEpoch, parts[2].LeaderEpoch)
	}
	f.same()
}

// TestLostAnswers loses the answer of a transaction that was written, and of
// one that was not: the next step sees what is true.
func TestLostAnswers(t *testing.T) {
	f := newFixture(t)
	var images []int64
	f.Subscribe(func(old, next *meta.Image) {
		if next.Revision < old.Revision {
			t.Errorf("revision %d after %d", next.Revision, old.Revision)
		}
		images = append(images, int64(next.Revision))
	})
	lost := errors.New("connection lost")
	f.store.after = func() error { return lost }
	if _, err := f.create(spec("written")); !errors.Is(err, lost) {
		t.Fatalf("error is %v", err)
	}
	f.store.after = nil
	_, err := f.create(spec("written"))
	f.refused(err, kerr.TopicAlreadyExists, "")
	f.store.before = func() error { return lost }
	if _, err := f.create(spec("not written")); err == nil {
		t.Fatal("no error")
	}
	if err := f.AlterTopicConfigs(f.ctx, "written", map[string]string{"retention.ms": "1"}, nil); !errors.Is(err, lost) {
		t.Fatalf("error is %v", err)
	}
	f.store.before = nil
	if _, err := f.create(spec("after")); err != nil {
		t.Fatal(err)
	}
	if got := f.Image().Names; !slices.Equal(got, []string{"after", "written"}) {
		t.Fatalf("topics %v", got)
	}
	if len(images) == 0 {
		t.Fatal("subscribers were not told")
	}
	f.same()
}

// TestAForeignWrite has somebody else write between decision and write.
func TestAForeignWrite(t *testing.T) {
	f := newFixture(t)
	_, err := f.create(spec("t"))
	f.ok(err)
	once := true
	f.store.before = func() error {
		if once {
			once = false
			_, err := f.store.Store.Txn(f.ctx, nil, []meta.Op{meta.Put(meta.KeyTopicConfig("t"), meta.Encode(&meta.ConfigValue{Values: map[string]string{"segment.ms": "1"}}))})
			f.ok(err)
		}
		return nil
	}
	f.ok(f.AlterTopicConfigs(f.ctx, "t", map[string]string{"retention.ms": "2"}, nil))
	if got := f.Image().Topics["t"].Configs; !maps.Equal(got, map[string]string{"segment.ms": "1", "retention.ms": "2"}) {
		t.Fatalf("configs %v", got)
	}
	f.same()
}

func TestADeposedControllerCannotWrite(t *testing.T) {
	f := newFixture(t)
	office := f.office
	f.ok(office.Resign(f.ctx))
	if _, err := f.create(spec("t")); !errors.Is(err, meta.ErrConflict) {
		t.Fatalf("error is %v", err)
	}
	if f.Image().Topics["t"] != nil {
		t.Fatal("it wrote")
	}
}

func TestManyTopicsInOneRequest(t *testing.T) {
	f := newFixture(t)
	var specs []meta.TopicSpec
	for i := range 600 {
		specs = append(specs, meta.TopicSpec{Name: fmt.Sprintf("t%d", i), Partitions: 1, ReplicationFactor: 1, Configs: map[string]string{"retention.ms": "1"}})
	}
	// The second transaction fails: what was written before it stays.
	n := 0
	f.store.before = func() error {
		if n++; n == 2 {
			return errors.New("connection lost")
		}
		return nil
	}
	made, failed := 0, 0
	for _, r := range f.CreateTopics(f.ctx, specs, false) {
		if r.Err == nil {
			made++
		} else {
			failed++
		}
	}
	f.store.before = nil
	if made == 0 || failed == 0 || made != len(f.Image().Names) {
		t.Fatalf("%d made, %d failed, %d in the image", made, failed, len(f.Image().Names))
	}
	for _, r := range f.CreateTopics(f.ctx, specs, false) {
		if r.Err != nil && !errors.Is(r.Err, kerr.TopicAlreadyExists) {
			t.Fatal(r.Err)
		}
	}
	var ids []record.TopicID
	for _, topic := range f.Image().Topics {
		ids = append(ids, topic.ID)
	}
	if len(ids) != len(specs) {
		t.Fatalf("%d topics", len(ids))
	}
	for _, err := range f.DeleteTopics(f.ctx, ids) {
		f.ok(err)
	}
	if len(f.Image().Topics) != 0 || len(f.Image().Deleted) != len(specs) {
		t.Fatalf("%d topics, %d deleted", len(f.Image().Topics), len(f.Image().Deleted))
	}
	f.same()
}
