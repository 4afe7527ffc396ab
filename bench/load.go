package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bound ends a load: at the deadline, or once a connection has done Requests
// of them (0 is no bound).
type Bound struct {
	Deadline time.Time
	Requests int
}

func (b Bound) more(sent int) bool {
	if b.Requests > 0 && sent >= b.Requests {
		return false
	}
	return b.Deadline.IsZero() || time.Now().Before(b.Deadline)
}

// Pipeline sends one prebuilt Produce frame (v9, one partition, acks 1 or all)
// over a connection until the bound, with at most depth of them unanswered, and
// checks the error code of each answer. The correlation id is the number of the
// frame. It returns how many were acknowledged.
func Pipeline(conn *RawConn, frame []byte, bound Bound, depth int) (acked int, err error) {
	const correlationAt = 8
	var answer []byte
	for sent := 0; ; acked++ {
		for sent-acked < depth && bound.more(sent) {
			binary.BigEndian.PutUint32(frame[correlationAt:], uint32(sent))
			if _, err := conn.Write(frame); err != nil {
				return acked, fmt.Errorf("send request %d: %w", sent, err)
			}
			sent++
		}
		if acked == sent {
			return acked, nil
		}
		if answer, err = conn.readFrameInto(answer); err != nil {
			return acked, fmt.Errorf("answer %d: %w", acked, err)
		}
		if err := checkProduceAnswer(answer, uint32(acked)); err != nil {
			return acked, fmt.Errorf("answer %d: %w", acked, err)
		}
	}
}

// checkProduceAnswer reads as much of a Produce response v9 as says whether
// the one partition was written; a decoder would cost more than the sending.
func checkProduceAnswer(answer []byte, correlation uint32) error {
	// correlation id 4, header tags 1, topics 1, name 1+n, partitions 1, index 4, error 2
	const nameAt = 6
	if len(answer) <= nameAt {
		return fmt.Errorf("of %d bytes", len(answer))
	}
	if got := binary.BigEndian.Uint32(answer); got != correlation {
		return fmt.Errorf("has correlation id %d", got)
	}
	errorAt := nameAt + int(answer[nameAt]) + 1 + 4 // a compact string's length counts itself
	if len(answer) < errorAt+2 {
		return errors.New("is cut")
	}
	return kerr.ErrorForCode(int16(binary.BigEndian.Uint16(answer[errorAt:])))
}

// readFrameInto reads one response without its length prefix into buf, which
// it grows as needed and returns.
func (c *RawConn) readFrameInto(buf []byte) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(c.reader, prefix[:]); err != nil {
		return buf, err
	}
	size := int32(binary.BigEndian.Uint32(prefix[:]))
	if size < 4 || size > 128<<20 {
		return buf, fmt.Errorf("response of %d bytes", size)
	}
	if cap(buf) < int(size) {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	_, err := io.ReadFull(c.reader, buf)
	return buf, err
}

// Written describes a partition that holds nothing but equal batches, which is
// what lets a reader know the next offset without looking into them.
type Written struct {
	Topic        string
	Partition    int32
	BatchBytes   int
	BatchRecords int
	End          int64 // offset behind the last record
}

// ReadLoop fetches a partition from its start to its end, again and again until
// the bound, fetchBytes a request and one request at a time, and throws the
// records away. It returns the records in whole batches and the bytes that came.
func ReadLoop(conn *RawConn, w Written, bound Bound, fetchBytes int32) (records, bytes int64, err error) {
	var answer, frame []byte
	offset := int64(0)
	for sent := 0; bound.more(sent); sent++ {
		frame = AppendFrame(frame[:0], FetchRequest(w.Topic, w.Partition, offset, fetchBytes), int32(sent))
		if _, err := conn.Write(frame); err != nil {
			return records, bytes, err
		}
		if answer, err = conn.readFrameInto(answer); err != nil {
			return records, bytes, err
		}
		size, err := fetchedBytes(answer)
		if err != nil {
			return records, bytes, fmt.Errorf("fetch at %d: %w", offset, err)
		}
		whole := int64(size / w.BatchBytes)
		if whole == 0 {
			return records, bytes, fmt.Errorf("fetch at %d brings no whole batch (%d bytes)", offset, size)
		}
		records += whole * int64(w.BatchRecords)
		bytes += int64(size)
		if offset += whole * int64(w.BatchRecords); offset >= w.End {
			offset = 0
		}
	}
	return records, bytes, nil
}

// fetchedBytes reads the length of the records of the one partition out of a
// Fetch response v12, and its error code.
func fetchedBytes(answer []byte) (int, error) {
	// correlation id 4, header tags 1, throttle 4, error 2, session 4, topics 1
	const errorAt, nameAt = 9, 16
	if len(answer) <= nameAt {
		return 0, fmt.Errorf("response of %d bytes", len(answer))
	}
	if err := kerr.ErrorForCode(int16(binary.BigEndian.Uint16(answer[errorAt:]))); err != nil {
		return 0, err
	}
	// partitions 1, index 4, error 2, three offsets 8 each, aborted 1, preferred replica 4
	partitionError := nameAt + int(answer[nameAt]) + 1 + 4
	lengthAt := partitionError + 2 + 24 + 1 + 4
	if len(answer) <= lengthAt {
		return 0, errors.New("response is cut")
	}
	if err := kerr.ErrorForCode(int16(binary.BigEndian.Uint16(answer[partitionError:]))); err != nil {
		return 0, err
	}
	size, n := binary.Uvarint(answer[lengthAt:])
	if n <= 0 || size == 0 {
		return 0, errors.New("response without records")
	}
	return int(size - 1), nil
}

// OnConns opens n connections, runs f on each from its own goroutine and
// returns the first error. The connections end with ctx's deadline.
func OnConns(ctx context.Context, addr string, n int, f func(i int, conn *RawConn) error) error {
	errs := make([]error, n)
	conns := make([]*RawConn, n)
	for i := range conns {
		conn, err := DialRaw(ctx, addr)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		defer conn.Close()
		conns[i] = conn
	}
	var wg sync.WaitGroup
	for i, conn := range conns {
		wg.Go(func() { errs[i] = f(i, conn) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// CreateTopic creates a topic and waits until each partition is served.
func CreateTopic(ctx context.Context, addr, topic string, partitions int32, configs map[string]string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	req.TimeoutMillis = 30_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 1
	for name, value := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	conn, err := DialRaw(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := conn.Do(req)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode); err != nil {
		return fmt.Errorf("create %s: %w", topic, err)
	}
	for p := range partitions {
		if err := waitServed(ctx, conn, topic, p); err != nil {
			return err
		}
	}
	return nil
}

// waitServed asks for the end of a partition until its leader answers.
func waitServed(ctx context.Context, conn *RawConn, topic string, partition int32) error {
	for {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = 7, -1
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, -1, -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := conn.Do(req)
		if err != nil {
			return err
		}
		err = kerr.ErrorForCode(resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s-%d is not served: %w (last: %w)", topic, partition, ctx.Err(), err)
		}
	}
}

// DeleteTopic asks for a topic's deletion.
func DeleteTopic(ctx context.Context, addr, topic string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	req.TimeoutMillis = 30_000
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	conn, err := DialRaw(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := conn.Do(req)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode); err != nil {
		return fmt.Errorf("delete %s: %w", topic, err)
	}
	return nil
}
