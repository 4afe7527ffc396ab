package loadgen

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/posthouse/posthouse/netio/wire"
)

const (
	// dialTimeout bounds one attempt to connect, answerTimeout one question.
	dialTimeout   = 5 * time.Second
	answerTimeout = 30 * time.Second
	// topicPatience is how long topics may take to be there, or gone.
	topicPatience   = 30 * time.Second
	answerBytesMax  = 256 << 20
	createBatchSize = 500
)

// control asks a broker the questions of setting up: blocking, one at a time,
// on goroutines of the run and never on a loop.
type control struct {
	address     string
	conn        net.Conn
	reader      *bufio.Reader
	format      *kmsg.RequestFormatter
	correlation int32
	versions    map[int16][2]int16 // what the broker serves, by key
	buf         []byte
}

// dialControl connects to the first of the addresses that answers.
func dialControl(ctx context.Context, addresses []string, clientID string) (*control, error) {
	if len(addresses) == 0 {
		return nil, errors.New("no bootstrap address")
	}
	var failures []error
	for _, address := range addresses {
		c, err := dialControlOne(ctx, address, clientID)
		if err == nil {
			return c, nil
		}
		failures = append(failures, err)
	}
	return nil, fmt.Errorf("cannot reach the target: %w", errors.Join(failures...))
}

func dialControlOne(ctx context.Context, address, clientID string) (*control, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &control{
		address: address, conn: conn, reader: bufio.NewReader(conn),
		format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)),
	}
	req := kmsg.NewPtrApiVersionsRequest()
	resp := kmsg.NewPtrApiVersionsResponse()
	if err = c.exchange(ctx, req, resp); err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s does not answer as a Kafka broker: %w", address, err)
	}
	c.versions = make(map[int16][2]int16, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		c.versions[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	return c, nil
}

func (c *control) close() { _ = c.conn.Close() }

// pick is the highest version of an API that both sides know, ours being
// [least, most].
func (c *control) pick(key, least, most int16) (int16, error) {
	theirs, ok := c.versions[key]
	if !ok {
		return 0, fmt.Errorf("%s does not serve %s", c.address, kmsg.NameForKey(key))
	}
	if v := min(most, theirs[1]); v >= max(least, theirs[0]) {
		return v, nil
	}
	return 0, fmt.Errorf("%s serves %s in versions %d to %d, this program speaks %d to %d",
		c.address, kmsg.NameForKey(key), theirs[0], theirs[1], least, most)
}

// ask sends req in the best version up to most and reads the answer into resp.
func (c *control) ask(ctx context.Context, req kmsg.Request, most int16, resp kmsg.Response) error {
	version, err := c.pick(req.Key(), 0, min(most, req.MaxVersion()))
	if err != nil {
		return err
	}
	req.SetVersion(version)
	return c.exchange(ctx, req, resp)
}

func (c *control) exchange(ctx context.Context, req kmsg.Request, resp kmsg.Response) error {
	deadline := time.Now().Add(answerTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = c.conn.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Now()) })
	defer stop()
	c.correlation++
	c.buf = c.format.AppendRequest(c.buf[:0], req, c.correlation)
	if _, err := c.conn.Write(c.buf); err != nil {
		return c.failed(ctx, req, err)
	}
	var prefix [4]byte
	if _, err := io.ReadFull(c.reader, prefix[:]); err != nil {
		return c.failed(ctx, req, err)
	}
	size := int32(binary.BigEndian.Uint32(prefix[:]))
	if size < 4 || size > answerBytesMax {
		return c.failed(ctx, req, fmt.Errorf("answer of %d bytes", size))
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(c.reader, payload); err != nil {
		return c.failed(ctx, req, err)
	}
	correlation, body, err := wire.ParseResponseHeader(payload, req.Key(), req.IsFlexible())
	if err == nil && correlation != c.correlation {
		err = fmt.Errorf("answer to request %d, not %d", correlation, c.correlation)
	}
	if err == nil {
		resp.SetVersion(req.GetVersion())
		err = resp.ReadFrom(body)
	}
	if err != nil {
		return c.failed(ctx, req, err)
	}
	return nil
}

func (c *control) failed(ctx context.Context, req kmsg.Request, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s to %s: %w", kmsg.NameForKey(req.Key()), c.address, err)
}

// topicState is what Metadata says of a topic.
type topicState struct {
	name    string
	leaders []int32 // by partition, -1 none
	err     error
}

// cluster is the answer to Metadata.
type cluster struct {
	addresses map[int32]string // of brokers, by node id
	topics    map[string]topicState
}

func (c *control) metadata(ctx context.Context, topics []string) (*cluster, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	resp := kmsg.NewPtrMetadataResponse()
	if err := c.ask(ctx, req, 9, resp); err != nil {
		return nil, err
	}
	cl := &cluster{addresses: map[int32]string{}, topics: map[string]topicState{}}
	for _, b := range resp.Brokers {
		cl.addresses[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for _, t := range resp.Topics {
		state := topicState{name: *t.Topic, err: kerr.ErrorForCode(t.ErrorCode), leaders: make([]int32, len(t.Partitions))}
		for _, p := range t.Partitions {
			if int(p.Partition) >= len(state.leaders) || p.Partition < 0 {
				state.err = fmt.Errorf("the broker names partition %d of %d", p.Partition, len(state.leaders))
				break
			}
			state.leaders[p.Partition] = p.Leader
		}
		cl.topics[state.name] = state
	}
	return cl, nil
}

// createTopics creates topics and returns the first refusal; one that exists
// already is none.
func (c *control) createTopics(ctx context.Context, names []string, w *Workload) error {
	for len(names) > 0 {
		n := min(len(names), createBatchSize)
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = int32(topicPatience / time.Millisecond)
		for _, name := range names[:n] {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(w.Partitions), int16(w.Replication)
			for key, value := range w.TopicConfigs {
				config := kmsg.NewCreateTopicsRequestTopicConfig()
				config.Name, config.Value = key, &value
				t.Configs = append(t.Configs, config)
			}
			req.Topics = append(req.Topics, t)
		}
		resp := kmsg.NewPtrCreateTopicsResponse()
		if err := c.ask(ctx, req, 6, resp); err != nil {
			return err
		}
		for _, t := range resp.Topics {
			err := kerr.ErrorForCode(t.ErrorCode)
			if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
				continue
			}
			if t.ErrorMessage != nil {
				return fmt.Errorf("topic %s cannot be created: %s (%w)", t.Topic, *t.ErrorMessage, err)
			}
			return fmt.Errorf("topic %s cannot be created: %w", t.Topic, err)
		}
		names = names[n:]
	}
	return nil
}

// deleteTopics deletes those of the topics that exist and waits until they are
// gone.
func (c *control) deleteTopics(ctx context.Context, names []string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(topicPatience / time.Millisecond)
	req.TopicNames = names
	resp := kmsg.NewPtrDeleteTopicsResponse()
	if err := c.ask(ctx, req, 5, resp); err != nil {
		return err
	}
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("topic %s cannot be deleted: %w", *t.Topic, err)
		}
	}
	return c.awaitTopics(ctx, names, func(t topicState) bool { return errors.Is(t.err, kerr.UnknownTopicOrPartition) })
}

// awaitTopics asks until every topic is as wanted.
func (c *control) awaitTopics(ctx context.Context, names []string, good func(topicState) bool) error {
	for deadline := time.Now().Add(topicPatience); ; {
		cl, err := c.metadata(ctx, names)
		if err != nil {
			return err
		}
		var waiting *topicState
		for _, name := range names {
			if t := cl.topics[name]; !good(t) {
				waiting = &t
				break
			}
		}
		if waiting == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("topic %s is not as it should be after %v: leaders %v, %w",
				waiting.name, topicPatience, waiting.leaders, waiting.err)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause sleeps unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Positions for listOffsets.
const (
	positionLatest   int64 = -1
	positionEarliest int64 = -2
)

// placeKey names a partition among the workload's topics.
type placeKey struct {
	topic     string
	partition int32
}

// listOffsets asks for the start or end of partitions that this broker leads.
func (c *control) listOffsets(ctx context.Context, places []placeKey, position int64) (map[placeKey]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	topics := map[string]int{}
	for _, place := range places {
		i, ok := topics[place.topic]
		if !ok {
			i = len(req.Topics)
			topics[place.topic] = i
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = place.topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = place.partition, position, -1
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	resp := kmsg.NewPtrListOffsetsResponse()
	if err := c.ask(ctx, req, 6, resp); err != nil {
		return nil, err
	}
	offsets := make(map[placeKey]int64, len(places))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("offsets of %s-%d: %w", t.Topic, p.Partition, err)
			}
			offsets[placeKey{t.Topic, p.Partition}] = p.Offset
		}
	}
	if len(offsets) != len(places) {
		return nil, fmt.Errorf("ListOffsets to %s: %d answers for %d partitions", c.address, len(offsets), len(places))
	}
	return offsets, nil
}

// listOffsetsPatiently asks again while leaders are moving or starting.
func (c *control) listOffsetsPatiently(ctx context.Context, places []placeKey, position int64) (map[placeKey]int64, error) {
	for deadline := time.Now().Add(topicPatience); ; {
		offsets, err := c.listOffsets(ctx, places, position)
		if err == nil || !kerr.IsRetriable(err) || time.Now().After(deadline) {
			return offsets, err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// initProducerID asks for an idempotent producer's identity.
func (c *control) initProducerID(ctx context.Context) (id int64, epoch int16, err error) {
	for deadline := time.Now().Add(topicPatience); ; {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch = -1, -1
		req.TransactionTimeoutMillis = 60_000
		resp := kmsg.NewPtrInitProducerIDResponse()
		if err := c.ask(ctx, req, 4, resp); err != nil {
			return -1, -1, err
		}
		err := kerr.ErrorForCode(resp.ErrorCode)
		if err == nil {
			return resp.ProducerID, resp.ProducerEpoch, nil
		}
		if !kerr.IsRetriable(err) || time.Now().After(deadline) {
			return -1, -1, fmt.Errorf("InitProducerId to %s: %w", c.address, err)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return -1, -1, err
		}
	}
}
