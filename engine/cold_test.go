package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sendRaw sends a request with any body.
func (c *client) sendRaw(key, version int16, body []byte) {
	c.Helper()
	frame := wire.AppendRequestHeader(make([]byte, 4), key, version, 1, []byte("test"), flexible(key, version))
	frame = append(frame, body...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := c.net.Write(frame); err != nil {
		c.Fatal(err)
	}
}

func TestApiVersionsOverTheWire(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	c := b.dial()
	cluster, node := b.control.Image().ClusterID, int32(testNode)
	ask := func(version int16, change func(*kmsg.ApiVersionsRequest)) *kmsg.ApiVersionsResponse {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version = version
		req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1.0"
		change(req)
		return c.ask(req).(*kmsg.ApiVersionsResponse)
	}
	for v := range int16(6) {
		if resp := ask(v, func(*kmsg.ApiVersionsRequest) {}); resp.ErrorCode != 0 || len(resp.ApiKeys) != len(apis) {
			t.Errorf("v%d: %+v", v, resp)
		}
	}
	for name, tc := range map[string]struct {
		change func(*kmsg.ApiVersionsRequest)
		want   int16
	}{
		"bad name":            {func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareName = "a b" }, kerr.InvalidRequest.Code},
		"no version":          {func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareVersion = "" }, kerr.InvalidRequest.Code},
		"cluster alone":       {func(r *kmsg.ApiVersionsRequest) { r.ClusterID = &cluster }, kerr.InvalidRequest.Code},
		"node alone":          {func(r *kmsg.ApiVersionsRequest) { r.NodeID = node }, kerr.InvalidRequest.Code},
		"this broker":         {func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = &cluster, node }, 0},
		"another node":        {func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = &cluster, 9 }, kerr.RebootstrapRequired.Code},
		"another cluster":     {func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = kmsg.StringPtr("x"), node }, kerr.RebootstrapRequired.Code},
		"nothing named at v5": {func(*kmsg.ApiVersionsRequest) {}, 0},
	} {
		if resp := ask(5, tc.change); resp.ErrorCode != tc.want {
			t.Errorf("%s: error %d, want %d", name, resp.ErrorCode, tc.want)
		}
	}
	// A version of the future is answered as v0, whatever its body.
	for _, v := range []int16{6, 99, 1<<15 - 1} {
		c.sendRaw(18, v, []byte{1, 2, 3})
		frame, err := c.receiveRaw(clientTimeout)
		if err != nil {
			t.Fatal(err)
		}
		resp := kmsg.NewPtrApiVersionsResponse()
		if err := resp.ReadFrom(frame[4:]); err != nil || resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) != 1 {
			t.Fatalf("v%d: %+v, %v", v, resp, err)
		}
	}
}

// TestBadRequestsCloseTheConnection, and only theirs.
func TestBadRequestsCloseTheConnection(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	other := b.dial()
	for _, tc := range []struct {
		name         string
		key, version int16
		body         []byte
	}{
		{"unknown key", 200, 0, nil},
		{"negative key", -1, 0, nil},
		{"key that is not served", 10, 4, []byte{0}},
		{"controller's key", 62, 0, []byte{0}},
		{"version too new", 0, 99, nil},
		{"version too old", 0, 2, nil},
		{"version of a cold API too new", 19, 8, nil},
		{"negative version", 3, -1, nil},
		{"cut produce", 0, 9, []byte{0, 0}},
		{"cut fetch", 1, 12, []byte{0, 0, 0}},
		{"cut cold request", 19, 5, []byte{9}},
		{"cut list offsets", 2, 6, []byte{0}},
		{"negative array", 1, 4, []byte{255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 254}},
		{"huge array", 20, 1, []byte{127, 255, 255, 255}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := b.dial()
			c.sendRaw(tc.key, tc.version, tc.body)
			c.closed()
		})
	}
	other.produce("t", 0, "still here")
	// What came before is answered first.
	c := b.dial()
	req := produceTo(9, -1, "t", 0, batchOf("a"))
	c.send(req)
	c.sendRaw(99, 0, nil)
	c.receive(req)
	c.closed()
}

func TestInitProducerID(t *testing.T) {
	b := startBroker(t, brokerOptions{loops: 2})
	c := b.dial()
	seen := make(map[int64]bool)
	for i := range 2500 { // over more than two blocks
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version = int16(i % 6)
		req.ProducerID, req.ProducerEpoch = -1, -1
		if i%2 == 1 && req.Version >= 3 {
			req.ProducerID, req.ProducerEpoch = 7, 3 // accepted, and a new one given
		}
		resp := c.ask(req).(*kmsg.InitProducerIDResponse)
		if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || resp.ProducerID < 0 || seen[resp.ProducerID] {
			t.Fatalf("request %d: %+v", i, resp)
		}
		seen[resp.ProducerID] = true
	}
	for name, tc := range map[string]struct {
		change func(*kmsg.InitProducerIDRequest)
		want   *kerr.Error
	}{
		"transactional": {func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = kmsg.StringPtr("tx") }, kerr.UnsupportedVersion},
		"empty id":      {func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = kmsg.StringPtr("") }, kerr.InvalidRequest},
		"id alone":      {func(r *kmsg.InitProducerIDRequest) { r.ProducerID = 5 }, kerr.InvalidRequest},
		"epoch alone":   {func(r *kmsg.InitProducerIDRequest) { r.ProducerEpoch = 5 }, kerr.InvalidRequest},
	} {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.ProducerID, req.ProducerEpoch = 5, -1, -1
		tc.change(req)
		if resp := c.ask(req).(*kmsg.InitProducerIDResponse); resp.ErrorCode != tc.want.Code || resp.ProducerID != -1 {
			t.Errorf("%s: %+v", name, resp)
		}
	}
}

// TestIdempotentProducer has rows 18 and 19 of the wire: repeats, gaps, epochs.
func TestIdempotentProducer(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	c := b.dial()
	now := record.Timestamp(time.Now().UnixMilli())
	batch := func(epoch record.ProducerEpoch, seq record.Sequence) []byte {
		return record.NewBuilder().Producer(9, epoch, seq).Add(now, nil, []byte("v")).Build(record.None)
	}
	for _, tc := range []struct {
		name       string
		batch      []byte
		want       *kerr.Error
		wantOffset int64
	}{
		{"first", batch(1, 0), nil, 0},
		{"second", batch(1, 1), nil, 1},
		{"repeat of the first", batch(1, 0), nil, 0},
		{"repeat of the second", batch(1, 1), nil, 1},
		{"gap", batch(1, 5), kerr.OutOfOrderSequenceNumber, -1},
		{"older epoch", batch(0, 2), kerr.InvalidProducerEpoch, -1},
		{"new epoch not at 0", batch(2, 2), kerr.OutOfOrderSequenceNumber, -1},
		{"new epoch", batch(2, 0), nil, 2},
	} {
		p := c.produced(produceTo(9, -1, "t", 0, tc.batch))
		want := int16(0)
		if tc.want != nil {
			want = tc.want.Code
		}
		if p.ErrorCode != want || p.BaseOffset != tc.wantOffset {
			t.Errorf("%s: %+v", tc.name, p)
		}
	}
}

// listed asks for one offset.
func (c *client) listed(version int16, topic string, ts int64, change func(*kmsg.ListOffsetsRequest)) kmsg.ListOffsetsResponseTopicPartition {
	c.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = version, -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = ts, -1
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	if change != nil {
		change(req)
	}
	resp := c.ask(req).(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		c.Fatalf("%+v", resp)
	}
	return resp.Topics[0].Partitions[0]
}

func TestListOffsets(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	b.createTopic("empty", 1, nil)
	c := b.dial()
	base := time.Now().UnixMilli() - 10_000
	for i, codec := range []record.Codec{record.None, record.Gzip, record.LZ4} {
		batch := record.NewBuilder()
		for j := range 3 { // three records, 100 ms apart
			batch.Add(record.Timestamp(base+int64(i*3+j)*100), nil, []byte("v"))
		}
		if p := c.produced(produceTo(9, -1, "t", 0, batch.Build(codec))); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	low, err := b.manager.DeleteRecords(context.Background(), record.TopicPartition{Topic: "t"}, 1)
	if low != 1 || err != nil {
		t.Fatal(low, err)
	}
	epoch := int32(b.manager.Lookup([]byte("t"), 0).LeaderEpoch())
	for _, tc := range []struct {
		name      string
		version   int16
		topic     string
		ts        int64
		offset    int64
		timestamp int64
		err       *kerr.Error
	}{
		{"latest", 1, "t", -1, 9, -1, nil},
		{"latest", 11, "t", -1, 9, -1, nil},
		{"earliest", 4, "t", -2, 1, -1, nil},
		{"maximum", 7, "t", -3, 8, base + 800, nil},
		{"maximum, before its version", 6, "t", -3, -1, -1, kerr.UnsupportedVersion},
		{"earliest local", 8, "t", -4, 1, -1, nil},
		{"latest tiered", 9, "t", -5, -1, -1, nil},
		{"pending upload", 11, "t", -6, -1, -1, nil},
		{"pending upload, before its version", 10, "t", -6, -1, -1, kerr.UnsupportedVersion},
		{"unknown special", 11, "t", -7, -1, -1, kerr.UnsupportedVersion},
		{"time of a record", 4, "t", base + 200, 2, base + 200, nil},
		{"between records, inside a compressed batch", 4, "t", base + 401, 5, base + 500, nil},
		{"first record of a batch", 4, "t", base + 600, 6, base + 600, nil},
		{"after all", 4, "t", base + 801, -1, -1, nil},
		{"latest of nothing", 4, "empty", -1, 0, -1, nil},
		{"maximum of nothing", 7, "empty", -3, -1, -1, nil},
		{"time in nothing", 4, "empty", base, -1, -1, nil},
		{"unknown topic", 4, "nope", -1, -1, -1, kerr.UnknownTopicOrPartition},
	} {
		p := c.listed(tc.version, tc.topic, tc.ts, nil)
		want := int16(0)
		if tc.err != nil {
			want = tc.err.Code
		}
		if p.ErrorCode != want || p.Offset != tc.offset || p.Timestamp != tc.timestamp {
			t.Errorf("%s v%d: %+v", tc.name, tc.version, p)
		}
		if tc.version >= 4 && p.Offset >= 0 && p.LeaderEpoch != epoch && tc.topic == "t" {
			t.Errorf("%s: leader epoch %d, want %d", tc.name, p.LeaderEpoch, epoch)
		}
	}
	if p := c.listed(4, "t", -1, func(r *kmsg.ListOffsetsRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch + 1 }); p.ErrorCode != kerr.UnknownLeaderEpoch.Code {
		t.Errorf("newer epoch: %+v", p)
	}
	if p := c.listed(4, "t", -1, func(r *kmsg.ListOffsetsRequest) {
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, r.Topics[0].Partitions[0])
	}); p.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("named twice: %+v", p)
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	c := b.dial()
	c.produce("t", 0, "a", "b")
	epoch := int32(b.manager.Lookup([]byte("t"), 0).LeaderEpoch())
	for _, tc := range []struct {
		name           string
		topic          string
		current, asked int32
		wantEpoch      int32
		wantEnd        int64
		err            *kerr.Error
	}{
		{"the current one", "t", -1, epoch, epoch, 2, nil},
		{"one of the future", "t", epoch, epoch + 5, -1, -1, nil},
		{"one before all", "t", -1, -1, -1, -1, nil},
		{"newer leader epoch", "t", epoch + 1, epoch, -1, -1, kerr.UnknownLeaderEpoch},
		{"unknown topic", "nope", -1, 0, -1, -1, kerr.UnknownTopicOrPartition},
	} {
		for version := int16(2); version <= 4; version++ {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.Version, req.ReplicaID = version, -2
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.CurrentLeaderEpoch, p.LeaderEpoch = tc.current, tc.asked
			req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: tc.topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
			got := c.ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
			want := int16(0)
			if tc.err != nil {
				want = tc.err.Code
			}
			if got.ErrorCode != want || got.LeaderEpoch != tc.wantEpoch || got.EndOffset != tc.wantEnd {
				t.Errorf("%s v%d: %+v", tc.name, version, got)
			}
		}
	}
}

// TestColdRequestsKeepOrder: a produce, a cold request and a produce of one
// connection are answered in this order.
func TestColdRequestsKeepOrder(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	c := b.dial()
	one, two := produceTo(9, 1, "t", 0, batchOf("a")), produceTo(9, 1, "t", 0, batchOf("b"))
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 12
	c.send(one, meta, two, meta, meta)
	c.receive(one)
	if resp := c.receive(meta).(*kmsg.MetadataResponse); len(resp.Brokers) != 1 || len(resp.Topics) != 1 {
		t.Fatalf("%+v", resp)
	}
	c.receive(two)
	c.receive(meta)
	c.receive(meta)
}

// TestLargeColdRequestsLeaveTheLoop: the answer is the same.
func TestLargeColdRequestsLeaveTheLoop(t *testing.T) {
	b := startBroker(t, brokerOptions{})
	b.createTopic("t", 1, nil)
	c := b.dial()
	c.produce("t", 0, "a")
	const n = 3000
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version, list.ReplicaID = 6, -1
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t"}}
	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epochs.Version, epochs.ReplicaID = 4, -1
	epochs.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t"}}
	for i := range int32(n) {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = i, -1, -1
		list.Topics[0].Partitions = append(list.Topics[0].Partitions, p)
		q := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		q.Partition, q.CurrentLeaderEpoch = i, -1
		epochs.Topics[0].Partitions = append(epochs.Topics[0].Partitions, q)
	}
	listed := c.ask(list).(*kmsg.ListOffsetsResponse).Topics[0].Partitions
	if len(listed) != n || listed[0].Offset != 1 || listed[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("%d offsets, the first %+v", len(listed), listed[0])
	}
	ends := c.ask(epochs).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions
	if len(ends) != n || ends[0].EndOffset != 1 {
		t.Errorf("%d ends, the first %+v", len(ends), ends[0])
	}
	c.sendRaw(2, 6, bytes.Repeat([]byte{255}, 40<<10)) // malformed, found on the goroutine
	c.closed()
}
