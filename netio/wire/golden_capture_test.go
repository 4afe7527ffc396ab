//go:build golden

package wire

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The program that made testdata/golden/*.json. It needs a running Apache Kafka
// 4.4 of one node without topics (and with default settings, but for replication
// factors of 1 of the internal topics), which it does not start:
//
//	go test -tags golden -run TestCaptureGolden ./netio/wire -args -kafka 127.0.0.1:9092
//
// It sends every version of the six APIs, answers that are errors included, and
// writes down both sides. Ids, times and ports differ from run to run.
var kafkaAddress = flag.String("kafka", "", "host:port of an Apache Kafka 4.4 without topics")

// capture is one connection and what went over it.
type capture struct {
	t           *testing.T
	conn        net.Conn
	correlation int32
	files       map[int16][]goldenFrame // by API key; nil while setting up
	topicID     TopicID                 // of "golden"
	unknownID   TopicID
}

func TestCaptureGolden(t *testing.T) {
	if *kafkaAddress == "" {
		t.Fatal("-kafka is needed")
	}
	conn, err := net.DialTimeout("tcp", *kafkaAddress, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	c := &capture{t: t, conn: conn, unknownID: TopicID([]byte("no such topic id"))}
	c.setUp()
	c.files = map[int16][]goldenFrame{}
	for _, api := range goldenAPIs {
		for version := api.least; version <= api.most; version++ {
			map[int16]func(int16){
				0: c.produce, 1: c.fetch, 2: c.listOffsets, 3: c.metadata, 18: c.apiVersions, 19: c.createTopics,
			}[api.key](version)
		}
	}
	c.unknownVersions()
	for _, api := range goldenAPIs {
		c.write(api.name, c.files[api.key])
	}
}

// write puts one frame on a line, so that a diff shows what changed.
func (c *capture) write(name string, frames []goldenFrame) {
	out := []byte("[\n")
	for i, f := range frames {
		line, err := json.Marshal(f)
		if err != nil {
			c.t.Fatal(err)
		}
		out = append(out, line...)
		if i < len(frames)-1 {
			out = append(out, ',')
		}
		out = append(out, '\n')
	}
	if err := os.WriteFile(filepath.Join("testdata", "golden", name+".json"), append(out, "]\n"...), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// ask sends a request in version and returns the answer, decoded in answerVersion.
func (c *capture) ask(name string, version int16, q kmsg.Request) kmsg.Response {
	c.t.Helper()
	return c.askAs(name, version, version, q)
}

func (c *capture) askAs(name string, version, answerVersion int16, q kmsg.Request) kmsg.Response {
	c.t.Helper()
	q.SetVersion(version)
	c.correlation++
	frame := AppendRequestHeader(make([]byte, 4), q.Key(), version, c.correlation, []byte("golden"), q.IsFlexible())
	frame = q.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := c.conn.Write(frame); err != nil {
		c.t.Fatalf("%s v%d: %v", name, version, err)
	}
	var length [4]byte
	if _, err := io.ReadFull(c.conn, length[:]); err != nil {
		c.t.Fatalf("key %d v%d %s: %v", q.Key(), version, name, err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(c.conn, answer); err != nil {
		c.t.Fatalf("key %d v%d %s: %v", q.Key(), version, name, err)
	}
	_, body, err := ParseResponseHeader(answer, q.Key(), q.IsFlexible())
	r := q.ResponseKind()
	r.SetVersion(answerVersion)
	if err == nil {
		err = r.ReadFrom(body)
	}
	if err != nil {
		c.t.Fatalf("key %d v%d %s: %v", q.Key(), version, name, err)
	}
	if c.files != nil {
		c.files[q.Key()] = append(c.files[q.Key()], goldenFrame{name, version, frame[4:], answer})
	}
	return r
}

// setUp makes the topic "golden" with two partitions; partition 1 gets a batch, an
// aborted transaction and another batch.
func (c *capture) setUp() {
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = append(create.Topics, newTopic("golden", 2, 1))
	made := c.ask("", 7, create).(*kmsg.CreateTopicsResponse).Topics[0]
	if made.ErrorCode != 0 {
		c.t.Fatalf("topic golden: error %d: the Kafka must have no topics", made.ErrorCode)
	}
	c.topicID = made.TopicID
	c.until("the topic is ready", func() bool { return c.send(1, batch(0, -1, "first")) == 0 })

	initialise := kmsg.NewPtrInitProducerIDRequest()
	initialise.TransactionalID, initialise.TransactionTimeoutMillis = kmsg.StringPtr("golden"), 60000
	coordinator := kmsg.NewPtrFindCoordinatorRequest()
	coordinator.CoordinatorKey, coordinator.CoordinatorType = "golden", 1
	c.until("the coordinator is found", func() bool {
		return c.ask("", 3, coordinator).(*kmsg.FindCoordinatorResponse).ErrorCode == 0
	})
	var producer *kmsg.InitProducerIDResponse
	c.until("the coordinator is ready", func() bool {
		producer = c.ask("", 4, initialise).(*kmsg.InitProducerIDResponse)
		return producer.ErrorCode == 0
	})
	c.until("the partition is in the transaction", func() bool {
		add := kmsg.NewPtrAddPartitionsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch = "golden", producer.ProducerID, producer.ProducerEpoch
		add.Topics = append(add.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: "golden", Partitions: []int32{1}})
		return c.ask("", 3, add).(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode == 0
	})
	transactional := batch(0, producer.ProducerID, "aborted")
	binary.BigEndian.PutUint16(transactional[21:], 0x10)
	if code := c.send(1, seal(transactional)); code != 0 {
		c.t.Fatalf("transactional produce: error %d", code)
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch = "golden", producer.ProducerID, producer.ProducerEpoch
	c.until("the transaction is aborted", func() bool { return c.ask("", 3, end).(*kmsg.EndTxnResponse).ErrorCode == 0 })
	c.until("the marker is written", func() bool {
		fetch := c.fetchRequest(12, 1, 0)
		p := c.ask("", 12, fetch).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		return p.HighWatermark == 3 && p.LastStableOffset == 3
	})
	if code := c.send(1, batch(0, -1, "last")); code != 0 {
		c.t.Fatalf("last batch: error %d", code)
	}
}

func (c *capture) until(what string, done func() bool) {
	c.t.Helper()
	for range 300 {
		if done() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatalf("timed out until %s", what)
}

// send produces one batch in v11 and returns the partition's error.
func (c *capture) send(partition int32, records []byte) int16 {
	q := c.produceRequest(11, partition, records)
	if attributes := binary.BigEndian.Uint16(records[21:]); attributes&0x10 != 0 {
		q.TransactionID = kmsg.StringPtr("golden")
	}
	return c.ask("", 11, q).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
}

// batch is a batch with one record of each value, in Kafka's format.
func batch(timestamp, producerID int64, values ...string) []byte {
	if timestamp == 0 {
		timestamp = time.Now().UnixMilli()
	}
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(values) - 1), FirstTimestamp: timestamp,
		MaxTimestamp: timestamp, ProducerID: producerID, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(values)),
	}
	if producerID >= 0 {
		b.ProducerEpoch, b.FirstSequence = 0, 0
	}
	for i, value := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Key: []byte("key"), Value: []byte(value)}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b.Records = r.AppendTo(b.Records)
	}
	return seal(b.AppendTo(nil))
}

// seal writes a batch's length and checksum.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func (c *capture) produceRequest(version int16, partition int32, records []byte) *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.Acks = -1
	t := kmsg.NewProduceRequestTopic()
	if t.TopicID = c.topicID; version < 13 {
		t.Topic = "golden"
	}
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return q
}

func (c *capture) produce(version int16) {
	c.ask("acks all", version, c.produceRequest(version, 0, batch(0, -1, fmt.Sprintf("v%d", version), "second")))
	q := c.produceRequest(version, 0, batch(0, -1, "leader only"))
	q.Acks = 1
	c.ask("acks leader", version, q)
	corrupt := batch(0, -1, "corrupt")
	corrupt[len(corrupt)-1]++
	c.ask("corrupt batch", version, c.produceRequest(version, 0, corrupt))
	future := time.Now().Add(100 * time.Hour).UnixMilli()
	c.ask("timestamp of each record in the future", version, c.produceRequest(version, 0, batch(future, -1, "a", "b")))
	c.ask("unknown partition", version, c.produceRequest(version, 9, batch(0, -1, "x")))
	q = c.produceRequest(version, 0, batch(0, -1, "x"))
	q.Topics[0].Topic, q.Topics[0].TopicID = "unknown", c.unknownID
	c.ask("unknown topic", version, q)
	q = c.produceRequest(version, 0, batch(0, -1, "x"))
	q.Acks = 2
	c.ask("invalid acks", version, q)
	q = c.produceRequest(version, 0, batch(0, -1, "x"))
	q.Topics = nil
	c.ask("no topics", version, q)
	c.ask("no records", version, c.produceRequest(version, 0, []byte{}))
}

func (c *capture) fetchRequest(version int16, partition int32, offset int64) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes = 10, 1, 1<<20
	t := kmsg.NewFetchRequestTopic()
	if t.TopicID = c.topicID; version < 13 {
		t.Topic = "golden"
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return q
}

func (c *capture) fetch(version int16) {
	c.ask("read uncommitted", version, c.fetchRequest(version, 1, 0))
	q := c.fetchRequest(version, 1, 0)
	q.IsolationLevel, q.Rack = 1, "rack"
	c.ask("read committed", version, q)
	q = c.fetchRequest(version, 1, 3)
	q.IsolationLevel = 1
	c.ask("read committed behind the aborted", version, q)
	c.ask("at the end", version, c.fetchRequest(version, 1, 4))
	c.ask("offset out of range", version, c.fetchRequest(version, 1, 1000))
	c.ask("unknown partition", version, c.fetchRequest(version, 9, 0))
	q = c.fetchRequest(version, 0, 0)
	q.Topics[0].Topic, q.Topics[0].TopicID = "unknown", c.unknownID
	c.ask("unknown topic", version, q)
	q = c.fetchRequest(version, 1, 0)
	q.Topics = nil
	c.ask("no topics", version, q)
	if version >= 7 {
		c.fetchSession(version)
	}
	if version >= 9 {
		q = c.fetchRequest(version, 1, 0)
		q.Topics[0].Partitions[0].CurrentLeaderEpoch = 99
		c.ask("unknown leader epoch", version, q)
	}
	if version >= 12 {
		q = c.fetchRequest(version, 1, 1000)
		q.Topics[0].Partitions[0].LastFetchedEpoch = 0
		c.ask("diverging epoch", version, q)
	}
}

func (c *capture) fetchSession(version int16) {
	q := c.fetchRequest(version, 1, 3)
	q.SessionEpoch = 0
	session := c.ask("new session", version, q).(*kmsg.FetchResponse).SessionID
	q = c.fetchRequest(version, 1, 3)
	forgotten := kmsg.FetchRequestForgottenTopic{Topic: q.Topics[0].Topic, TopicID: c.topicID, Partitions: []int32{1}}
	q.Topics, q.SessionID, q.SessionEpoch = nil, session, 1
	q.ForgottenTopics = append(q.ForgottenTopics, forgotten)
	c.ask("forget a partition", version, q)
	q = c.fetchRequest(version, 1, 3)
	q.SessionID, q.SessionEpoch = session, 77
	c.ask("invalid session epoch", version, q)
	q.SessionID, q.SessionEpoch = session+1, 1
	c.ask("unknown session", version, q)
}

func (c *capture) listOffsets(version int16) {
	list := func(name, topic string, partition int32, timestamp int64, epoch int32) {
		q := kmsg.NewPtrListOffsetsRequest()
		q.ReplicaID, q.IsolationLevel, q.TimeoutMillis = -1, int8(partition), 1000
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestamp, epoch
		t.Partitions = append(t.Partitions, p)
		q.Topics = append(q.Topics, t)
		c.ask(name, version, q)
	}
	list("latest", "golden", 1, -1, -1)
	list("earliest", "golden", 1, -2, -1)
	list("by time", "golden", 1, 1000, 0)
	list("time in the future", "golden", 0, time.Now().Add(time.Hour).UnixMilli(), -1)
	list("unknown topic", "unknown", 0, -1, -1)
	list("unknown partition", "golden", 9, -1, -1)
	if version >= 4 {
		list("unknown leader epoch", "golden", 0, -1, 99)
	}
	for i, special := range []string{"max timestamp", "earliest local", "latest tiered", "earliest pending upload"} {
		if version >= []int16{7, 8, 9, 11}[i] {
			list(special, "golden", 1, -3-int64(i), -1)
		}
	}
}

func (c *capture) metadata(version int16) {
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("golden")}, {Topic: kmsg.StringPtr("not a valid name")}}
	c.ask("two topics", version, q)
	q = kmsg.NewPtrMetadataRequest()
	q.Topics, q.AllowAutoTopicCreation = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(fmt.Sprintf("made-by-v%d", version))}}, version < 6
	c.ask("unknown topic", version, q)
	q = kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{}
	c.ask("empty list", version, q)
	if version >= 8 {
		q = kmsg.NewPtrMetadataRequest()
		q.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("golden")}}
		q.IncludeTopicAuthorizedOperations, q.IncludeClusterAuthorizedOperations = true, version <= 10
		c.ask("authorized operations", version, q)
	}
	if version >= 12 {
		q = kmsg.NewPtrMetadataRequest()
		q.Topics = []kmsg.MetadataRequestTopic{{TopicID: c.topicID}, {TopicID: c.unknownID}}
		c.ask("by id", version, q)
	}
}

func (c *capture) apiVersions(version int16) {
	q := kmsg.NewPtrApiVersionsRequest()
	q.ClientSoftwareName, q.ClientSoftwareVersion = "golden", "1.0"
	c.ask("all", version, q)
	if version >= 3 {
		q.ClientSoftwareName = "-golden-"
		c.ask("invalid software name", version, q)
	}
	if version >= 5 {
		q.ClientSoftwareName, q.ClusterID, q.NodeID = "golden", kmsg.StringPtr("another cluster"), 7
		c.ask("another cluster", version, q)
	}
}

// unknownVersions asks for versions of ApiVersions that do not exist.
func (c *capture) unknownVersions() {
	for _, version := range []int16{6, 99} {
		q := kmsg.NewPtrApiVersionsRequest()
		q.ClientSoftwareName, q.ClientSoftwareVersion = "golden", "1.0"
		c.askAs("unknown version", version, 0, q)
	}
}

func newTopic(name string, partitions int32, factor int16) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, factor
	return t
}

func (c *capture) createTopics(version int16) {
	create := func(name string, validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) {
		q := kmsg.NewPtrCreateTopicsRequest()
		q.Topics, q.TimeoutMillis, q.ValidateOnly = topics, 10000, validateOnly
		c.ask(name, version, q)
	}
	full := newTopic(fmt.Sprintf("created-by-v%d", version), 3, 1)
	full.Configs = append(full.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms", Value: kmsg.StringPtr("3600000")})
	create("created", false, full)
	create("exists", false, newTopic("golden", 1, 1))
	assigned := newTopic("assigned", -1, -1)
	assigned.ReplicaAssignment = append(assigned.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Replicas: []int32{1}})
	create("validate an assignment", true, assigned)
	wrong := newTopic("wrong-config", 1, 1)
	wrong.Configs = append(wrong.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "no.such.config", Value: kmsg.StringPtr("1")})
	create("errors", false, wrong, newTopic("no-partitions", 0, 1), newTopic("three-replicas", 1, 3), newTopic("bad name", 1, 1))
}
