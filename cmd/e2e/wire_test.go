//go:build e2e

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/posthouse/posthouse/bench"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ask sends one request over a connection of its own, once, and returns the
// response; an error means that no answer came.
func ask(t *testing.T, addr string, req kmsg.Request) (kmsg.Response, error) {
	t.Helper()
	conn, err := bench.DialRaw(within(t, 20*time.Second), addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Do(req)
}

// mustAsk is ask where an answer must come.
func mustAsk(t *testing.T, addr string, req kmsg.Request) kmsg.Response {
	t.Helper()
	resp, err := ask(t, addr, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// createTopic asks once for a topic. answered tells an error that the broker
// gave from the lack of an answer.
func createTopic(t *testing.T, addr, topic string, partitions int32, configs map[string]string) (answered bool, err error) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, 1
	for name, value := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		rt.Configs = append(rt.Configs, c)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := ask(t, addr, req)
	if err != nil {
		return false, err
	}
	return true, kerr.ErrorForCode(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
}

// mustCreateTopic creates a topic and waits until its partitions are served.
func mustCreateTopic(t *testing.T, addr, topic string, partitions int32, configs map[string]string) {
	t.Helper()
	if _, err := createTopic(t, addr, topic, partitions, configs); err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
	waitTopic(t, addr, topic, int(partitions))
}

// waitTopic waits until all partitions of a topic are led and served, as a
// client does between retries.
func waitTopic(t *testing.T, addr, topic string, partitions int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		found, exists := describeTopic(t, addr, topic)
		led := 0
		for _, p := range found.Partitions {
			if p.ErrorCode == 0 && p.Leader >= 0 {
				led++
			}
		}
		if exists && led == partitions {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d of %d partitions have a leader after 10 s", topic, led, partitions)
		}
	}
	// Metadata may run ahead of the leader itself.
	for p := range int32(partitions) {
		endOffset(t, addr, topic, p)
	}
}

// deleteTopic asks once for a topic's deletion.
func deleteTopic(t *testing.T, addr, topic string) (answered bool, err error) {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	req.TimeoutMillis = 10_000
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp, err := ask(t, addr, req)
	if err != nil {
		return false, err
	}
	return true, kerr.ErrorForCode(resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode)
}

// describeTopic returns a topic's metadata and whether it exists.
func describeTopic(t *testing.T, addr, topic string) (kmsg.MetadataResponseTopic, bool) {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	found := mustAsk(t, addr, req).(*kmsg.MetadataResponse).Topics[0]
	err := kerr.ErrorForCode(found.ErrorCode)
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.LeaderNotAvailable) {
		t.Fatalf("metadata of %s: %v", topic, err)
	}
	return found, err == nil
}

// retry repeats a call while the broker's answer is an error that a client
// would repeat it for: leadership of a new topic arrives after its creation.
func retry(t *testing.T, what string, call func() int16) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := kerr.ErrorForCode(call())
		if err == nil {
			return
		}
		if !kerr.IsRetriable(err) || time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// endOffset is the offset that a consumer sees as the end of a partition.
func endOffset(t *testing.T, addr, topic string, partition int32) int64 {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 7
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = partition, -1, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	var offset int64
	retry(t, fmt.Sprintf("end of %s-%d", topic, partition), func() int16 {
		answer := mustAsk(t, addr, req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		offset = answer.Offset
		return answer.ErrorCode
	})
	return offset
}

// produceRequest holds one prebuilt batch, acks=all.
func produceRequest(topic string, partition int32, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	req.Acks, req.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// produceBatch writes one prebuilt batch with acks=all and returns its base
// offset.
func produceBatch(t *testing.T, addr, topic string, partition int32, batch []byte) int64 {
	t.Helper()
	req := produceRequest(topic, partition, batch)
	var base int64
	retry(t, fmt.Sprintf("produce to %s-%d", topic, partition), func() int16 {
		answer := mustAsk(t, addr, req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		base = answer.BaseOffset
		return answer.ErrorCode
	})
	return base
}

// fetchBytes reads the raw batches of a partition from offset 0 to its end, as
// the broker serves them, along one connection.
func fetchBytes(t *testing.T, addr, topic string, partition int32) []byte {
	t.Helper()
	conn, err := bench.DialRaw(within(t, time.Minute), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var all []byte
	for offset := int64(0); ; {
		resp, err := conn.Do(bench.FetchRequest(topic, partition, offset, 4<<20))
		if err != nil {
			t.Fatal(err)
		}
		answer := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
			t.Fatalf("fetch of %s-%d at %d: %v", topic, partition, offset, err)
		}
		if offset == answer.HighWatermark {
			return all
		}
		// The last batch may be cut.
		before := offset
		for batches := answer.RecordBatches; len(batches) >= 61; {
			size := 12 + int(binary.BigEndian.Uint32(batches[8:]))
			if size > len(batches) {
				break
			}
			offset = int64(binary.BigEndian.Uint64(batches)) + int64(binary.BigEndian.Uint32(batches[23:])) + 1
			all = append(all, batches[:size]...)
			batches = batches[size:]
		}
		if offset == before {
			t.Fatalf("fetch of %s-%d at %d brings no whole batch (%d bytes), the high watermark is %d",
				topic, partition, offset, len(answer.RecordBatches), answer.HighWatermark)
		}
	}
}
