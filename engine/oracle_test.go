package engine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// oracle is where an Apache Kafka 4.4 listens, say 127.0.0.1:19092: the test
// puts the same questions to both and compares the answers.
const oracle = "KAFKA_ORACLE"

// question is asked of one broker; topic is a fresh one with two partitions. It
// returns the answer as text, without what may differ.
type question struct {
	name string
	ask  func(c *client, topic string) string
}

func TestAnswersAreKafkas(t *testing.T) {
	addr := os.Getenv(oracle)
	if addr == "" {
		t.Skipf("%s does not name an Apache Kafka 4.4 to compare with", oracle)
	}
	ours := startBroker(t, brokerOptions{})
	seed := rand.Uint32()
	for i, q := range questions {
		topic := fmt.Sprintf("oracle-%08x-%d", seed, i)
		answers := make([]string, 2)
		for j, broker := range []string{addr, ours.addr} {
			conn, err := net.Dial("tcp", broker)
			if err != nil {
				t.Fatal(err)
			}
			c := &client{TB: t, net: conn}
			c.makeTopic(topic)
			answers[j] = q.ask(c, topic)
			conn.Close()
		}
		if answers[0] != answers[1] {
			t.Errorf("%s:\nKafka: %s\nours:  %s", q.name, answers[0], answers[1])
		}
	}
}

// makeTopic creates a topic through the protocol.
func (c *client) makeTopic(topic string) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 5000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 2, 1
	req.Topics = append(req.Topics, t)
	if resp := c.ask(req).(*kmsg.CreateTopicsResponse); resp.Topics[0].ErrorCode != 0 {
		c.Fatalf("creating %s: %v", topic, kerr.ErrorForCode(resp.Topics[0].ErrorCode))
	}
	for deadline := time.Now().Add(clientTimeout); ; time.Sleep(10 * time.Millisecond) {
		other := func(r *kmsg.ListOffsetsRequest) { r.Topics[0].Partitions[0].Partition = 1 }
		ready := c.listed(4, topic, -1, nil).ErrorCode == 0 && c.listed(4, topic, -1, other).ErrorCode == 0
		if ready || time.Now().After(deadline) {
			return
		}
	}
}

func errorName(code int16) string {
	if code == 0 {
		return "ok"
	}
	return kerr.TypedErrorForCode(code).Message
}

// end says how a connection goes on after a request: an answer, or its end.
func (c *client) end() string {
	frame, err := c.receiveRaw(3 * time.Second)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return "silence"
	} else if err != nil {
		return "closed"
	}
	if len(frame) < 6 {
		return "a short answer"
	}
	return "answer with error " + errorName(int16(binary.BigEndian.Uint16(frame[4:])))
}

// try asks and gives the answer, or says what came instead.
func (c *client) try(req kmsg.Request) (kmsg.Response, string) {
	c.send(req)
	frame, err := c.receiveRaw(3 * time.Second)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return nil, "silence"
	} else if err != nil {
		return nil, "closed"
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	_, body, err := wire.ParseResponseHeader(frame, req.Key(), req.IsFlexible())
	if err == nil {
		err = resp.ReadFrom(body)
	}
	if err != nil {
		return nil, err.Error()
	}
	return resp, ""
}

func describeProduce(c *client, req *kmsg.ProduceRequest) string {
	resp, otherwise := c.try(req)
	if resp == nil {
		return otherwise
	}
	var partitions []string // in any order: Kafka's is that of a hash map
	for _, t := range resp.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == kerr.InvalidRecord.Code {
				p.LogStartOffset = -1 // of no use, and Kafka's depends on which check it was
			}
			s := fmt.Sprintf("[%d %s base %d start %d]", p.Partition, errorName(p.ErrorCode), p.BaseOffset, p.LogStartOffset)
			for _, r := range p.ErrorRecords {
				s += fmt.Sprintf(" blames %d", r.RelativeOffset)
			}
			partitions = append(partitions, s)
		}
	}
	slices.Sort(partitions)
	return strings.Join(partitions, " ")
}

func describeFetch(c *client, req *kmsg.FetchRequest) string {
	answer, otherwise := c.try(req)
	if answer == nil {
		return otherwise
	}
	resp := answer.(*kmsg.FetchResponse)
	var s strings.Builder
	fmt.Fprintf(&s, "%s session %v", errorName(resp.ErrorCode), resp.SessionID != 0)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&s, " [%d %s hw %d lso %d start %d, %d bytes, aborted nil %v, diverging %d %d, leader %d %d]", p.Partition, errorName(p.ErrorCode),
				p.HighWatermark, p.LastStableOffset, p.LogStartOffset, len(p.RecordBatches), p.AbortedTransactions == nil,
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch)
		}
	}
	return s.String()
}

func describeListed(c *client, version int16, topic string, ts int64, change func(*kmsg.ListOffsetsRequest)) string {
	p := c.listed(version, topic, ts, change)
	return fmt.Sprintf("%s offset %d time %d epoch %d", errorName(p.ErrorCode), p.Offset, p.Timestamp, p.LeaderEpoch)
}

// producing is a question of a produce request that change has spoilt.
func producing(name string, version int16, acks int16, batch func() []byte, change func(*kmsg.ProduceRequest)) question {
	return question{fmt.Sprintf("produce v%d acks %d: %s", version, acks, name), func(c *client, topic string) string {
		req := produceTo(version, acks, topic, 0, batch())
		if change != nil {
			change(req)
		}
		return describeProduce(c, req)
	}}
}

// fetching is a question of a fetch at offset, after three records were
// produced.
func fetching(name string, version int16, offset int64, change func(*kmsg.FetchRequest)) question {
	return question{fmt.Sprintf("fetch v%d at %d: %s", version, offset, name), func(c *client, topic string) string {
		c.produceAt("a", topic)
		c.produceAt("b", topic)
		c.produceAt("c", topic)
		req := fetchFrom(version, topic, 0, offset, 0)
		if change != nil {
			change(req)
		}
		return describeFetch(c, req)
	}}
}

// fixedTime is the time of the records that questions produce.
const fixedTime = record.Timestamp(1_700_000_000_000)

func at(values ...string) []byte {
	b := record.NewBuilder()
	for i, v := range values {
		b.Add(fixedTime+record.Timestamp(i), nil, []byte(v))
	}
	return b.Build(record.None)
}

func (c *client) produceAt(value, topic string) {
	if p := c.produced(produceTo(9, -1, topic, 0, at(value))); p.ErrorCode != 0 {
		c.Fatalf("produce: %s", errorName(p.ErrorCode))
	}
}

// raw is a question of a request of any bytes.
func raw(name string, key, version int16, body ...byte) question {
	return question{fmt.Sprintf("raw %d v%d: %s", key, version, name), func(c *client, _ string) string {
		c.sendRaw(key, version, body)
		return c.end()
	}}
}

// listing is a question of a ListOffsets after one batch of three records.
func listing(version int16, ts int64, change func(*kmsg.ListOffsetsRequest)) question {
	return question{fmt.Sprintf("list offsets v%d at %d", version, ts), func(c *client, topic string) string {
		c.produced(produceTo(9, -1, topic, 0, at("a", "b", "c")))
		return describeListed(c, version, topic, ts, change)
	}}
}

func describeVersions(c *client, version int16, name, software string, change func(*kmsg.ApiVersionsRequest)) string {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, name, software
	if change != nil {
		change(req)
	}
	resp, otherwise := c.try(req)
	if resp == nil {
		return otherwise
	}
	return errorName(resp.(*kmsg.ApiVersionsResponse).ErrorCode)
}

func apiVersioning(version int16, name, software string) question {
	return question{fmt.Sprintf("api versions v%d of %q %q", version, name, software), func(c *client, _ string) string {
		return describeVersions(c, version, name, software, nil)
	}}
}

func initializing(name string, change func(*kmsg.InitProducerIDRequest)) question {
	return question{"init producer id: " + name, func(c *client, _ string) string {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.ProducerID, req.ProducerEpoch = 5, -1, -1
		change(req)
		resp, otherwise := c.try(req)
		for i := 0; i < 20 && resp != nil && resp.(*kmsg.InitProducerIDResponse).ErrorCode == kerr.CoordinatorLoadInProgress.Code; i++ {
			time.Sleep(100 * time.Millisecond) // Kafka fetches its block of ids
			resp, otherwise = c.try(req)
		}
		if resp == nil {
			return otherwise
		}
		r := resp.(*kmsg.InitProducerIDResponse)
		return fmt.Sprintf("%s id %v epoch %d", errorName(r.ErrorCode), r.ProducerID >= 0, r.ProducerEpoch)
	}}
}

func endOfEpoch(name string, epoch, current int32) question {
	return question{"offset for leader epoch: " + name, func(c *client, topic string) string {
		c.produceAt("a", topic)
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version, req.ReplicaID = 4, -1
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.LeaderEpoch, p.CurrentLeaderEpoch = epoch, current
		req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
		resp, otherwise := c.try(req)
		if resp == nil {
			return otherwise
		}
		a := resp.(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
		return fmt.Sprintf("%s epoch %d end %d", errorName(a.ErrorCode), a.LeaderEpoch, a.EndOffset)
	}}
}

var good = func() []byte { return at("a") }

var questions = []question{
	producing("good", 9, 1, good, nil),
	producing("good", 3, -1, good, nil),
	producing("acks 5", 9, 5, good, nil),
	producing("unknown partition", 9, 1, good, func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = 9 }),
	producing("unknown topic", 9, 1, good, func(r *kmsg.ProduceRequest) { r.Topics[0].Topic += "x" }),
	producing("unknown topic with acks 5", 9, 5, good, func(r *kmsg.ProduceRequest) { r.Topics[0].Topic += "x" }),
	producing("unknown id", 13, 1, good, func(r *kmsg.ProduceRequest) { r.Topics[0].TopicID[5] = 9 }),
	// Not asked: null records, on which Kafka 4.4 answers nothing at all.
	producing("empty records", 9, 1, func() []byte { return []byte{} }, nil),
	producing("half a batch", 9, 1, func() []byte { return at("abc")[:64] }, nil),
	producing("two batches", 9, 1, func() []byte { return append(at("a"), at("b")...) }, nil),
	producing("bad crc", 9, 1, func() []byte { b := at("abc"); b[len(b)-3] ^= 1; return b }, nil),
	producing("magic 1", 9, 1, func() []byte { b := at("abc"); b[16] = 1; return b }, nil),
	producing("control", 9, 1, func() []byte {
		return record.NewBuilder().Producer(5, 0, 0).Control().Add(fixedTime, nil, []byte("v")).Build(record.None)
	}, nil),
	producing("zstd of old", 6, 1, func() []byte { return record.NewBuilder().Add(fixedTime, nil, []byte("v")).Build(record.Zstd) }, nil),
	producing("zstd", 7, 1, func() []byte { return record.NewBuilder().Add(fixedTime, nil, []byte("v")).Build(record.Zstd) }, nil),
	producing("future", 9, 1, func() []byte {
		now := record.Timestamp(time.Now().UnixMilli())
		return record.NewBuilder().Add(now, nil, []byte("v")).Add(now+2*3600_000, nil, []byte("v")).Build(record.None)
	}, nil),
	producing("too large", 9, 1, func() []byte { return at(strings.Repeat("x", 1<<20)) }, nil),
	producing("partition twice", 9, 1, func() []byte { return at("a", "b") }, func(r *kmsg.ProduceRequest) {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Records = at("c")
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, p)
	}),
	producing("topic twice", 9, 1, func() []byte { return at("a", "b") }, func(r *kmsg.ProduceRequest) {
		t := kmsg.NewProduceRequestTopic()
		t.Topic = r.Topics[0].Topic
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = 1, at("c")
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
	}),
	producing("idempotent, first sequence 7", 9, 1, func() []byte {
		return record.NewBuilder().Producer(99, 0, 7).Add(fixedTime, nil, []byte("v")).Build(record.None)
	}, nil),
	producing("no topics", 9, 1, good, func(r *kmsg.ProduceRequest) { r.Topics = nil }),

	fetching("beginning", 4, 0, nil),
	fetching("beginning", 12, 0, nil),
	fetching("end", 12, 3, nil),
	fetching("beyond the end", 12, 4, nil),
	fetching("negative", 12, -1, nil),
	fetching("negative", 4, -5, nil),
	fetching("read_committed", 12, 1, func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 }),
	fetching("read_committed at the end", 12, 3, func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 }),
	fetching("read_committed beyond", 12, 5, func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 }),
	fetching("other isolation", 12, 0, func(r *kmsg.FetchRequest) { r.IsolationLevel = 9 }),
	fetching("as an unknown replica", 12, 0, func(r *kmsg.FetchRequest) { r.ReplicaID = 7 }),
	fetching("as the leader itself", 12, 0, func(r *kmsg.FetchRequest) { r.ReplicaID = 1 }),
	fetching("as a debugger", 12, 0, func(r *kmsg.FetchRequest) { r.ReplicaID = -2 }),
	fetching("newer leader epoch", 12, 0, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 7 }),
	fetching("last epoch 0", 12, 2, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].LastFetchedEpoch = 0 }),
	fetching("last epoch 5", 12, 2, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].LastFetchedEpoch = 5 }),
	fetching("unknown topic", 12, 0, func(r *kmsg.FetchRequest) { r.Topics[0].Topic += "x" }),
	fetching("unknown partition", 12, 0, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].Partition = 9 }),
	fetching("unknown id", 16, 0, func(r *kmsg.FetchRequest) { r.Topics[0].TopicID[5] = 9 }),
	fetching("max bytes 0", 12, 0, func(r *kmsg.FetchRequest) { r.MaxBytes = 0 }),
	fetching("partition max bytes 0", 12, 0, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].PartitionMaxBytes = 0 }),
	fetching("negative max bytes", 12, 0, func(r *kmsg.FetchRequest) { r.MaxBytes = -1 }),
	fetching("negative partition max bytes", 12, 0, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].PartitionMaxBytes = -1 }),
	fetching("little room", 12, 0, func(r *kmsg.FetchRequest) { r.MaxBytes = 100 }),
	fetching("new session", 12, 0, func(r *kmsg.FetchRequest) { r.SessionEpoch = 0 }),
	fetching("unknown session", 12, 0, func(r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = 77, 3 }),
	fetching("negative session epoch", 12, 0, func(r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = 77, -3 }),
	fetching("nothing", 12, 0, func(r *kmsg.FetchRequest) { r.Topics = nil }),
	fetching("nothing, new session", 12, 0, func(r *kmsg.FetchRequest) { r.Topics, r.SessionEpoch = nil, 0 }),
	fetching("partition twice", 12, 0, func(r *kmsg.FetchRequest) { addFetch(r, r.Topics[0].Topic, 0, 2, 1<<20) }),
	fetching("both partitions", 12, 0, func(r *kmsg.FetchRequest) { addFetch(r, r.Topics[0].Topic, 1, 0, 1<<20) }),

	listing(1, -1, nil), listing(4, -1, nil), listing(4, -2, nil), listing(4, -3, nil), listing(7, -3, nil),
	listing(7, -4, nil), listing(8, -4, nil), listing(9, -5, nil), listing(11, -5, nil), listing(11, -6, nil), listing(11, -9, nil),
	listing(4, int64(fixedTime), nil), listing(4, int64(fixedTime)+1, nil), listing(4, int64(fixedTime)+3, nil), listing(4, 0, nil),
	listing(4, -1, func(r *kmsg.ListOffsetsRequest) { r.ReplicaID = -2 }),
	listing(4, -1, func(r *kmsg.ListOffsetsRequest) { r.ReplicaID = 7 }),
	listing(4, -1, func(r *kmsg.ListOffsetsRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 5 }),
	listing(4, -1, func(r *kmsg.ListOffsetsRequest) {
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, r.Topics[0].Partitions[0])
	}),

	apiVersioning(3, "a b", "1"), apiVersioning(5, "a", "1"), apiVersioning(4, "", ""), apiVersioning(4, "a-", "1"),
	{"api versions v5 names another node", func(c *client, _ string) string {
		return describeVersions(c, 5, "a", "1", func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = kmsg.StringPtr("x"), 4 })
	}},
	{"api versions v5 names a cluster alone", func(c *client, _ string) string {
		return describeVersions(c, 5, "a", "1", func(r *kmsg.ApiVersionsRequest) { r.ClusterID = kmsg.StringPtr("x") })
	}},
	{"api versions v5 names a node alone", func(c *client, _ string) string {
		return describeVersions(c, 5, "a", "1", func(r *kmsg.ApiVersionsRequest) { r.NodeID = 1 })
	}},
	initializing("plain", func(*kmsg.InitProducerIDRequest) {}),
	initializing("empty id", func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = kmsg.StringPtr("") }),
	initializing("id alone", func(r *kmsg.InitProducerIDRequest) { r.ProducerID = 4 }),
	initializing("id and epoch", func(r *kmsg.InitProducerIDRequest) { r.ProducerID, r.ProducerEpoch = 4, 4 }),
	endOfEpoch("current", 0, -1), endOfEpoch("future", 7, -1), endOfEpoch("none", -1, -1), endOfEpoch("newer leader", 0, 7),

	raw("unknown key", 200, 0), raw("version too new", 0, 50), raw("version too old", 0, 2), raw("cut", 0, 9, 0, 0),
	raw("cut api versions", 18, 3, 1), raw("api versions of the future, any body", 18, 90, 1, 2, 3),
	raw("bytes behind the body", 18, 0, 1, 2, 3),
}
