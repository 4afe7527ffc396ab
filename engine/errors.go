package engine

import (
	"errors"
	"time"

	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Codes that the hot path compares with.
var (
	codeNotLeader   = kerr.NotLeaderForPartition.Code
	codeFencedEpoch = kerr.FencedLeaderEpoch.Code
	codeStorage     = kerr.KafkaStorageError.Code
)

// asKerr returns the protocol error in err. What is none is trouble of this
// node: a file that cannot be read or written is KAFKA_STORAGE_ERROR, which
// makes clients look for another leader.
func asKerr(err error) *kerr.Error {
	switch e := err.(type) {
	case *kerr.Error:
		return e
	case *record.Error:
		return e.Kerr
	}
	var k *kerr.Error
	if errors.As(err, &k) {
		return k
	}
	return kerr.KafkaStorageError
}

// errorMessage is what a client is told beside the code; "" for an error whose
// code says it all.
func errorMessage(err error) string {
	var r *record.Error
	if errors.As(err, &r) {
		return r.Message
	}
	return ""
}

// expected says whether an error is an answer to the client rather than trouble
// of this node.
func expected(err error) bool {
	var k *kerr.Error
	return errors.As(err, &k)
}

// complain logs trouble of this node that a request met, at most once a second:
// a full disk fails every request.
func (e *Engine) complain(message string, args ...any) {
	now := time.Now().Unix()
	if last := e.complained.Load(); last != now && e.complained.CompareAndSwap(last, now) {
		e.log.Error(message, args...)
	}
}

// recordErrors are the records that made the broker refuse a batch.
func recordErrors(err error) []wire.RecordError {
	var r *record.Error
	if !errors.As(err, &r) || len(r.RecordErrors) == 0 {
		return nil
	}
	out := make([]wire.RecordError, len(r.RecordErrors))
	for i, e := range r.RecordErrors {
		out[i] = wire.RecordError{BatchIndex: e.BatchIndex, Message: e.Message}
	}
	return out
}

// errUnsupportedTransactions answers whoever asks for transactions.
//
// Kafka answers UNSUPPORTED_VERSION where a feature is not enabled
// (KafkaApis: a group protocol that is off), and no client retries it: the Java
// producer's TransactionManager makes it a fatal error whose text is shown, kgo
// and librdkafka fail the producer too. INVALID_TXN_STATE would be abortable,
// and a client would abort and try for ever; COORDINATOR_NOT_AVAILABLE is
// retried until a timeout that names no reason. (A stock client does not come
// as far: FindCoordinator is not advertised.)
var errUnsupportedTransactions = record.Errorf(kerr.UnsupportedVersion, "transactions are not supported by this broker yet")

// unknownPartition says why a partition is not on this node: the topic is not
// known by that id (v13+ of Produce and Fetch), the partition is not known, or
// it is elsewhere.
func (e *Engine) unknownPartition(byID bool, name []byte, id record.TopicID, partition int32) *kerr.Error {
	image := e.image()
	var t *meta.Topic
	if byID {
		if t = image.TopicsByID[id]; t == nil {
			return kerr.UnknownTopicID
		}
	} else {
		t = image.Topics[string(name)]
	}
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return kerr.UnknownTopicOrPartition
	}
	return kerr.NotLeaderForPartition
}

// leaderHint names the leader that the client should have asked, and puts its
// address on the client's listener among the answer's endpoints (KIP-951).
func (lp *loop) leaderHint(listener string, byID bool, name []byte, id record.TopicID, partition int32) wire.LeaderIDAndEpoch {
	image := lp.engine.image()
	none := wire.LeaderIDAndEpoch{ID: -1, Epoch: -1}
	t := image.Topics[string(name)]
	if byID {
		t = image.TopicsByID[id]
	}
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return none
	}
	p := &t.Partitions[partition]
	hint := wire.LeaderIDAndEpoch{ID: p.Leader, Epoch: int32(p.LeaderEpoch)}
	b := image.Broker(p.Leader)
	if b == nil {
		return hint
	}
	for _, known := range lp.endpoints {
		if known.NodeID == b.ID {
			return hint
		}
	}
	if at, ok := b.Endpoint(listener); ok {
		lp.endpoints = append(lp.endpoints, wire.NodeEndpoint{NodeID: b.ID, Host: at.Host, Port: at.Port, Rack: b.Rack})
	}
	return hint
}
