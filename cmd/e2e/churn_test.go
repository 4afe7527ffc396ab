//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const churnPartitions = 12

// TestGroupChurn is a random run (its seed is printed): members join, leave,
// crash and commit while the node is killed by SIGKILL and started again. At
// no time does a committed offset go back, at no time do two members own a
// partition in one generation, and once all is calm the group reaches the end.
func TestGroupChurn(t *testing.T) {
	onEachEngineInFull(t, func(t *testing.T, engine string) {
		for _, protocol := range []string{"cooperative-sticky", "range", "consumer"} {
			if testing.Short() && protocol == "range" {
				continue
			}
			t.Run(protocol, func(t *testing.T) { testGroupChurn(t, engine, protocol) })
		}
	})
}

func testGroupChurn(t *testing.T, engine, protocol string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := startServer(t, engine, "group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000",
		"group.consumer.heartbeat.interval.ms=500", "group.consumer.min.heartbeat.interval.ms=500",
		"group.consumer.session.timeout.ms=3000", "group.consumer.min.session.timeout.ms=3000")
	mustCreateTopic(t, s.addr, "churn", churnPartitions, nil)
	c := &churn{s: s, protocol: protocol, rng: rand.New(rand.NewPCG(seed, 0)), owners: map[ownership]string{}, acked: map[int32]int64{}}
	t.Cleanup(c.closing.Wait) // after those of the members
	ctx, cancel := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { c.produce(ctx) })
	background.Go(func() { c.watch(ctx) })
	defer func() { cancel(); background.Wait() }()

	kills := 0
	for until := time.Now().Add(time.Duration(amount(40, 10)) * time.Second); time.Now().Before(until); {
		c.check(t)
		switch action := c.rng.IntN(10); {
		case len(c.members) < 2 || action < 3 && len(c.members) < 7:
			c.join(t)
		case action < 5:
			c.remove().leave()
		case action < 6:
			c.remove().crash()
		case action < 8:
			s.Process.Kill()
			time.Sleep(time.Duration(c.rng.IntN(300)) * time.Millisecond)
			s.start(t)
			kills++
		}
		time.Sleep(time.Duration(c.rng.IntN(600)) * time.Millisecond)
	}
	// Calm: what is left of the group reads on to the end.
	c.calm.Store(true)
	if len(c.members) == 0 {
		c.join(t)
	}
	waitUntil(t, 90*time.Second, "end of the topic in the group's offsets", func() bool {
		c.check(t)
		return maps.Equal(c.committed(t), c.ends(t))
	})
	for len(c.members) > 0 {
		c.remove().leave()
	}
	c.check(t)
	t.Logf("%d kills, %d members, %d commits acknowledged, %d looks at the offsets, %d ownerships",
		kills, c.joined, c.commits.Load(), c.looks.Load(), len(c.owners))
	if c.commits.Load() == 0 || c.looks.Load() == 0 || kills == 0 && !testing.Short() {
		t.Error("nothing was tested")
	}
}

// churn is one random run.
type churn struct {
	s        *server
	protocol string
	rng      *rand.Rand // of the test's goroutine
	members  []*churnMember
	joined   int
	calm     atomic.Bool // no more is produced
	closing  sync.WaitGroup
	commits  atomic.Int64
	looks    atomic.Int64
	failure  atomic.Pointer[error]

	mu     sync.Mutex
	owners map[ownership]string // guarded by mu: who said that it owns it
	acked  map[int32]int64      // guarded by mu: the highest offset whose commit was acknowledged
}

type ownership struct {
	generation int32
	partition  int32
}

func (c *churn) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	c.failure.CompareAndSwap(nil, &err)
}

func (c *churn) check(t *testing.T) {
	t.Helper()
	if err := c.failure.Load(); err != nil {
		t.Fatal(*err)
	}
}

// produce writes records until the run is calm.
func (c *churn) produce(ctx context.Context) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.s.addr), kgo.DefaultProduceTopic("churn"), kgo.AlwaysRetryEOF())
	if err != nil {
		c.fail("producer: %w", err)
		return
	}
	defer cl.Close()
	for i := 0; ctx.Err() == nil && !c.calm.Load(); i++ {
		records := make([]*kgo.Record, 20)
		for j := range records {
			records[j] = kgo.KeyStringRecord(fmt.Sprint(i, j), "value")
		}
		if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil && ctx.Err() == nil {
			c.fail("produce: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// watch looks at the group's offsets again and again. Each is at least what had
// been acknowledged before the question, and what it was at the last look.
func (c *churn) watch(ctx context.Context) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.s.addr), kgo.AlwaysRetryEOF())
	if err != nil {
		c.fail("watcher: %w", err)
		return
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	for ctx.Err() == nil {
		c.mu.Lock()
		atLeast := maps.Clone(c.acked)
		c.mu.Unlock()
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		found, err := admin.FetchOffsets(bounded, c.group())
		cancel()
		if err == nil {
			c.looks.Add(1)
			for p, want := range atLeast {
				o, ok := found.Lookup("churn", p)
				if ok && o.Err != nil {
					continue // the node was killed: there is no answer for it
				}
				if !ok || o.At < want {
					c.fail("partition %d: the committed offset went back to %d (there: %v), it was %d", p, o.At, ok, want)
				}
			}
			c.mu.Lock()
			for p, o := range found["churn"] {
				if o.Err == nil {
					c.acked[p] = max(c.acked[p], o.At)
				}
			}
			c.mu.Unlock()
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *churn) group() string { return "churn-" + c.protocol }

func (c *churn) committed(t *testing.T) map[int32]int64 {
	return committedOffsets(t, c.s.addr, c.group(), "churn")
}

// ends are the partitions' ends, of those that have records.
func (c *churn) ends(t *testing.T) map[int32]int64 {
	t.Helper()
	ends := map[int32]int64{}
	for p := range int32(churnPartitions) {
		if end := endOffset(t, c.s.addr, "churn", p); end > 0 {
			ends[p] = end
		}
	}
	return ends
}

// remove takes a random member off the list.
func (c *churn) remove() *churnMember {
	i := c.rng.IntN(len(c.members))
	m := c.members[i]
	c.members = slices.Delete(c.members, i, i+1)
	return m
}

// churnMember is a kgo client in the group.
type churnMember struct {
	c    *churn
	cl   *kgo.Client
	wire cutWire
	stop context.CancelFunc
	done chan struct{}

	owned map[int32]bool // of the callbacks, which kgo runs one at a time while no poll is under way
}

func (c *churn) join(t *testing.T) {
	t.Helper()
	m := &churnMember{c: c, done: make(chan struct{}), owned: map[int32]bool{}}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.s.addr), kgo.ConsumerGroup(c.group()), kgo.ConsumeTopics("churn"), kgo.Dialer(m.wire.dial),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.AlwaysRetryEOF(),
		kgo.HeartbeatInterval(300 * time.Millisecond), kgo.SessionTimeout(3 * time.Second), kgo.RebalanceTimeout(5 * time.Second),
		kgo.OnPartitionsAssigned(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost),
	}
	switch c.protocol {
	case "range":
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	case "consumer":
		opts = append(opts, kgo.ServerSideBalancer())
	}
	var err error
	if m.cl, err = kgo.NewClient(opts...); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, m.stop = context.WithCancel(t.Context())
	c.members = append(c.members, m)
	c.joined++
	go m.run(ctx)
	t.Cleanup(func() { m.stop(); <-m.done; m.wire.cut(); m.close() })
}

// run polls and commits. While a poll's records are handled no rebalance takes
// anything away, so what is owned then belongs to the generation of then.
func (m *churnMember) run(ctx context.Context) {
	defer close(m.done)
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		fetches := m.cl.PollRecords(bounded, 200)
		cancel()
		m.claim()
		if !fetches.Empty() && ctx.Err() == nil {
			m.commit(ctx)
		}
		m.cl.AllowRebalance()
	}
}

// claim notes what the member owns in its generation.
func (m *churnMember) claim() {
	id, generation := m.cl.GroupMetadata()
	if generation < 0 || id == "" {
		return
	}
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	for p := range m.owned {
		key := ownership{generation, p}
		if other, taken := m.c.owners[key]; taken && other != id {
			m.c.fail("partition %d has two owners in generation %d: %s and %s", p, generation, other, id)
		}
		m.c.owners[key] = id
	}
}

// commit commits what was polled. A refusal is a rebalance under way or the end
// of the member; what is acknowledged must stay.
func (m *churnMember) commit(ctx context.Context) {
	offsets := m.cl.UncommittedOffsets()
	if len(offsets) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	m.cl.CommitOffsetsSync(bounded, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			return // no answer: it may be committed or not
		}
		m.c.mu.Lock()
		defer m.c.mu.Unlock()
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				err := kerr.ErrorForCode(p.ErrorCode)
				switch {
				case err == nil:
					m.c.acked[p.Partition] = max(m.c.acked[p.Partition], offsets["churn"][p.Partition].Offset)
					m.c.commits.Add(1)
				case !slices.ContainsFunc(churnRefusals, func(allowed error) bool { return errors.Is(err, allowed) }):
					m.c.fail("commit of partition %d: %v", p.Partition, err)
				}
			}
		}
	})
}

// churnRefusals are what a commit may be told in such a run.
var churnRefusals = []error{
	kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch,
	kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.UnknownTopicOrPartition,
}

func (m *churnMember) assigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	for _, p := range added["churn"] {
		m.owned[p] = true
	}
}

// revoked commits what was read before it gives a partition away.
func (m *churnMember) revoked(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
	m.commit(ctx)
	m.lost(ctx, nil, gone)
}

func (m *churnMember) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	for _, p := range gone["churn"] {
		delete(m.owned, p)
	}
}

// leave ends the member as a program does that is told to stop.
func (m *churnMember) leave() {
	m.stop()
	<-m.done
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = m.cl.LeaveGroupContext(ctx) // the node may be down: then the session ends it
	m.wire.cut()
	m.close()
}

// close lets go of the client, which may take its time over a network that is
// cut. It has said its last word.
func (m *churnMember) close() { m.c.closing.Go(m.cl.CloseAllowingRebalance) }

// crash ends the member without a word to the broker.
func (m *churnMember) crash() {
	m.wire.cut()
	m.stop()
	<-m.done
	m.close()
}

// cutWire is a network that can be cut for good.
type cutWire struct {
	mu    sync.Mutex
	gone  bool       // guarded by mu
	conns []net.Conn // guarded by mu
}

func (w *cutWire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	w.conns = append(w.conns, conn)
	return conn, nil
}

func (w *cutWire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	for _, conn := range w.conns {
		conn.Close()
	}
}
