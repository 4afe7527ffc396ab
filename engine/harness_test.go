package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthouse/posthouse/engine/admin"
	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/replication/controller"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/replication/meta/metalocal"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// brokerOptions are what a test wants to be different.
type brokerOptions struct {
	loops      int
	engine     string // of netio
	properties map[string]string
	memory     bool // files in memory
	logger     *slog.Logger
}

// testBroker is one node behind a real socket.
type testBroker struct {
	testing.TB
	addr    string
	port    int32
	control *controller.Controller
	manager *replication.Manager
	engine  *Engine
	server  *netio.Server
	files   *vfs.Mem // with memory
	// shown is the image that the engine and the replicas see instead of the
	// controller's, once show has set it.
	shown atomic.Pointer[meta.Image]
}

// testNode is the node id of test brokers.
const testNode = 1

// goExecutor is a storage.Executor without bound.
type goExecutor struct{ running sync.WaitGroup }

func (g *goExecutor) Submit(task func()) { g.running.Go(task) }

type wallClock struct{}

func (wallClock) Now() record.Timestamp { return record.Timestamp(time.Now().UnixMilli()) }

func startBroker(t testing.TB, o brokerOptions) *testBroker {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b := &testBroker{TB: t}
	logger := o.logger
	if logger == nil {
		logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	broker, _, err := config.Load(o.properties, nil)
	must(err)
	workers := new(goExecutor)
	dir, fs := t.TempDir(), vfs.OS()
	if o.memory {
		mem := vfs.NewMem()
		dir, fs, b.files = "/data", mem, mem
		must(fs.MkdirAll(dir))
	}
	logs, err := storage.OpenManager(storage.ManagerConfig{
		FS: fs, Dirs: []string{dir}, NodeID: testNode, Executor: workers, Clock: wallClock{}, Logger: logger,
	})
	must(err)
	store, err := metalocal.Open("")
	must(err)
	brokerOf := func(im *meta.Image) *config.Broker {
		if len(im.BrokerDefaults) == 0 && len(im.BrokerConfigs[testNode]) == 0 {
			return broker
		}
		dynamic, err := broker.WithDynamic(im.BrokerDefaults, im.BrokerConfigs[testNode])
		if err != nil {
			t.Error(err)
			return broker
		}
		return dynamic
	}
	b.control = controller.New(controller.Config{Store: store, NodeID: testNode, Logger: logger, Clock: wallClock{}, Broker: brokerOf})
	b.manager = replication.NewManager(replication.ManagerConfig{
		Storage: logs, NodeID: testNode, Executor: workers, Clock: wallClock{}, Logger: logger, Broker: brokerOf, Epochs: b.control,
		Listed: func(im *meta.Image) { b.engine.ImageChanged(nil, im) },
	})
	b.control.Subscribe(b.manager.Apply)
	b.engine = New(Config{
		NodeID: testNode, Replicas: b.manager, Image: b.image, AllocateProducerIDs: b.control.AllocateProducerIDs,
		Workers: workers, Logger: logger,
		Admin: admin.New(admin.Config{
			NodeID: testNode, Broker: func() *config.Broker { return brokerOf(b.control.Image()) }, Image: b.control.Image,
			Controller: b.control, Replicas: b.manager, Logger: logger,
		}),
		FetchMaxBytes: broker.FetchMaxBytes, FetchSessionSlots: int(broker.FetchSessionCacheSlots),
	})
	b.control.Subscribe(b.engine.ImageChanged)
	b.server, err = netio.NewServer(netio.Config{Engine: o.engine, Loops: max(o.loops, 1), Observer: b.engine, Logger: logger}, b.engine)
	must(err)
	at, err := b.server.Listen("PLAINTEXT", "127.0.0.1:0")
	must(err)
	b.addr, b.port = at.String(), int32(at.(*net.TCPAddr).Port)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	must(b.control.Start(ctx, meta.Broker{ID: testNode, Listeners: []meta.Endpoint{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: b.port, Protocol: "PLAINTEXT"}}}))
	if logs.ClusterID() == "" {
		must(logs.SetClusterID(b.control.Image().ClusterID))
	}
	must(b.manager.Start(ctx, b.control.Image(), nil))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := b.server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		b.engine.Close()
		if err := b.manager.Close(ctx, nil); err != nil {
			t.Errorf("closing the logs: %v", err)
		}
		workers.running.Wait()
		if err := store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return b
}

// createTopic makes a topic and waits until it can be used.
func (b *testBroker) createTopic(name string, partitions int32, configs map[string]string) record.TopicID {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, r := range b.control.CreateTopics(ctx, []meta.TopicSpec{{Name: name, Partitions: partitions, ReplicationFactor: 1, Configs: configs}}, false) {
		if r.Err != nil {
			b.Fatalf("creating %s: %v", name, r.Err)
		}
	}
	if err := b.manager.WaitReady(ctx, name); err != nil {
		b.Fatalf("topic %s: %v", name, err)
	}
	return b.control.Image().Topics[name].ID
}

func (b *testBroker) image() *meta.Image {
	if im := b.shown.Load(); im != nil {
		return im
	}
	return b.control.Image()
}

// show makes the engine and the replicas see the cluster with one partition
// changed, and waits until the replicas have taken it on.
func (b *testBroker) show(tp record.TopicPartition, change func(*meta.Image, *meta.Partition)) {
	b.Helper()
	old := b.image()
	next := *old
	next.Revision++
	topic := *old.Topics[tp.Topic]
	topic.Partitions = slices.Clone(topic.Partitions)
	p := &topic.Partitions[tp.Partition]
	p.PartitionEpoch++
	change(&next, p)
	next.Topics, next.TopicsByID = maps.Clone(old.Topics), maps.Clone(old.TopicsByID)
	next.Topics[tp.Topic], next.TopicsByID[topic.ID] = &topic, &topic
	b.shown.Store(&next)
	b.manager.Apply(old, &next)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := b.manager.Settle(ctx); err != nil {
		b.Fatal(err)
	}
}

// deleteTopic deletes a topic and waits until it is gone.
func (b *testBroker) deleteTopic(name string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if errs := b.control.DeleteTopics(ctx, []record.TopicID{b.control.Image().Topics[name].ID}); errs[0] != nil {
		b.Fatalf("deleting %s: %v", name, errs[0])
	}
	if err := b.manager.Settle(ctx); err != nil {
		b.Fatal(err)
	}
}

// testWriter sends log lines to the test.
type testWriter struct{ testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.Logf("%s", p)
	return len(p), nil
}

// client is one connection that speaks the protocol by hand.
type client struct {
	testing.TB
	id   string // the client id; empty is "test"
	net  net.Conn
	next int32
}

// clientTimeout bounds every answer that a test waits for.
const clientTimeout = 10 * time.Second

func (b *testBroker) dial() *client {
	b.Helper()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return &client{TB: b, net: c}
}

// dialAs is dial for a client with an id of its own.
func (b *testBroker) dialAs(id string) *client {
	b.Helper()
	c := b.dial()
	c.id = id
	return c
}

// frame is a request with its length prefix.
func (c *client) frame(req kmsg.Request) []byte {
	c.next++
	buf := wire.AppendRequestHeader(make([]byte, 4), req.Key(), req.GetVersion(), c.next, []byte(cmp.Or(c.id, "test")), req.IsFlexible())
	buf = req.AppendTo(buf)
	binary.BigEndian.PutUint32(buf, uint32(len(buf)-4))
	return buf
}

// send writes requests in one go.
func (c *client) send(reqs ...kmsg.Request) {
	c.Helper()
	var buf []byte
	for _, r := range reqs {
		buf = append(buf, c.frame(r)...)
	}
	if _, err := c.net.Write(buf); err != nil {
		c.Fatal(err)
	}
}

// receiveRaw reads one frame; an error is the end of the connection.
func (c *client) receiveRaw(timeout time.Duration) ([]byte, error) {
	c.net.SetReadDeadline(time.Now().Add(timeout))
	var prefix [4]byte
	if _, err := io.ReadFull(c.net, prefix[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	_, err := io.ReadFull(c.net, frame)
	return frame, err
}

// receive reads the answer to a request that was sent.
func (c *client) receive(req kmsg.Request) kmsg.Response {
	c.Helper()
	frame, err := c.receiveRaw(clientTimeout)
	if err != nil {
		c.Fatalf("waiting for the answer to %s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	_, body, err := wire.ParseResponseHeader(frame, req.Key(), req.IsFlexible())
	if err != nil {
		c.Fatal(err)
	}
	if err := resp.ReadFrom(body); err != nil {
		c.Fatalf("answer to %s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

// ask sends a request and reads its answer.
func (c *client) ask(req kmsg.Request) kmsg.Response {
	c.Helper()
	c.send(req)
	return c.receive(req)
}

// reset closes the connection so that the broker hears of it at once: after a
// mere end of input it would still answer.
func (c *client) reset() {
	c.Helper()
	if err := c.net.(*net.TCPConn).SetLinger(0); err != nil {
		c.Fatal(err)
	}
	c.net.Close()
}

// closed waits for the broker to close the connection.
func (c *client) closed() {
	c.Helper()
	if frame, err := c.receiveRaw(clientTimeout); err == nil {
		c.Fatalf("an answer of %d bytes instead of the end of the connection", len(frame))
	} else if e, ok := err.(net.Error); ok && e.Timeout() {
		c.Fatal("the connection stays open")
	}
}

// silent checks that no answer comes for a while.
func (c *client) silent(d time.Duration) {
	c.Helper()
	frame, err := c.receiveRaw(d)
	if err == nil {
		c.Fatalf("an answer of %d bytes where none is due", len(frame))
	}
	if e, ok := err.(net.Error); !ok || !e.Timeout() {
		c.Fatalf("waiting for nothing: %v", err)
	}
}

// batchOf is a batch of records with the given values.
func batchOf(values ...string) record.Batch {
	b := record.NewBuilder()
	for _, v := range values {
		b.Add(record.Timestamp(time.Now().UnixMilli()), []byte("k"), []byte(v))
	}
	return b.Build(record.None)
}

// produceTo makes a request with one batch for a partition.
func produceTo(version int16, acks int16, topic string, partition int32, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// produce sends values to a partition and returns their base offset.
func (c *client) produce(topic string, partition int32, values ...string) int64 {
	c.Helper()
	resp := c.ask(produceTo(9, -1, topic, partition, batchOf(values...))).(*kmsg.ProduceResponse)
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		c.Fatalf("produce to %s-%d: error %d", topic, partition, p.ErrorCode)
	}
	return p.BaseOffset
}

// fetchFrom makes a request for one partition; wait is in milliseconds.
func fetchFrom(version int16, topic string, partition int32, offset int64, wait int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = version, wait, 1, 1<<20
	req.ReplicaID, req.SessionEpoch = -1, -1
	addFetch(req, topic, partition, offset, 1<<20)
	return req
}

// addFetch asks for one partition more.
func addFetch(req *kmsg.FetchRequest, topic string, partition int32, offset int64, maxBytes int32) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, maxBytes
	p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset = -1, -1, -1
	for i := range req.Topics {
		if req.Topics[i].Topic == topic {
			req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
			return
		}
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
}

// valuesOf lists the values of all records in the batches of a fetch.
func valuesOf(t testing.TB, batches []byte) (values []string) {
	t.Helper()
	for len(batches) >= record.HeaderSize {
		n := record.LogOverhead + int(binary.BigEndian.Uint32(batches[8:]))
		if n > len(batches) {
			break // cut, as is legal
		}
		b := record.Batch(batches[:n])
		if !b.VerifyCRC() {
			t.Fatal("a batch with a bad CRC was served")
		}
		if err := b.Each(func(r record.Record) bool { values = append(values, string(r.Value)); return true }); err != nil {
			t.Fatal(err)
		}
		batches = batches[n:]
	}
	return values
}
