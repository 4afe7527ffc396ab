package wire

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The judges of this package's tests: the same messages as kmsg values.

func pointer(s string) *string { return &s }

// nullable is a kmsg string of bytes of which nil is null.
func nullable(b []byte) *string {
	if b == nil {
		return nil
	}
	return pointer(string(b))
}

// message is a kmsg string of a string of which "" is null.
func message(s string) *string {
	if s == "" {
		return nil
	}
	return pointer(s)
}

func (r *ProduceRequest) kmsg(version int16) *kmsg.ProduceRequest {
	k := kmsg.NewPtrProduceRequest()
	k.Version, k.TransactionID, k.Acks, k.TimeoutMillis = version, nullable(r.TransactionalID), r.Acks, r.TimeoutMs
	for _, t := range r.Topics {
		kt := kmsg.NewProduceRequestTopic()
		kt.Topic, kt.TopicID = string(t.Name), t.ID
		for _, p := range t.Partitions {
			kp := kmsg.NewProduceRequestTopicPartition()
			kp.Partition, kp.Records = p.Index, p.Records
			kt.Partitions = append(kt.Partitions, kp)
		}
		k.Topics = append(k.Topics, kt)
	}
	return k
}

func (r *ProduceResponse) kmsg(version int16) *kmsg.ProduceResponse {
	k := kmsg.NewPtrProduceResponse()
	k.Version, k.ThrottleMillis = version, r.ThrottleMs
	for _, t := range r.Topics {
		kt := kmsg.NewProduceResponseTopic()
		kt.Topic, kt.TopicID = string(t.Name), t.ID
		for _, p := range t.Partitions {
			kp := kmsg.NewProduceResponseTopicPartition()
			kp.Partition, kp.ErrorCode, kp.BaseOffset = p.Index, p.ErrorCode, p.BaseOffset
			kp.LogAppendTime, kp.LogStartOffset = p.LogAppendTimeMs, p.LogStartOffset
			kp.ErrorMessage = message(p.ErrorMessage)
			for _, e := range p.RecordErrors {
				ke := kmsg.NewProduceResponseTopicPartitionErrorRecord()
				ke.RelativeOffset, ke.ErrorMessage = e.BatchIndex, message(e.Message)
				kp.ErrorRecords = append(kp.ErrorRecords, ke)
			}
			if version >= 10 { // kmsg would write it in any flexible version
				kp.CurrentLeader.LeaderID, kp.CurrentLeader.LeaderEpoch = p.CurrentLeader.ID, p.CurrentLeader.Epoch
			}
			kt.Partitions = append(kt.Partitions, kp)
		}
		k.Topics = append(k.Topics, kt)
	}
	if version >= 10 {
		for _, n := range r.NodeEndpoints {
			kn := kmsg.NewProduceResponseBroker()
			kn.NodeID, kn.Host, kn.Port, kn.Rack = n.NodeID, n.Host, n.Port, message(n.Rack)
			k.Brokers = append(k.Brokers, kn)
		}
	}
	return k
}

func (r *FetchRequest) kmsg(version int16) *kmsg.FetchRequest {
	k := kmsg.NewPtrFetchRequest()
	k.Version, k.ClusterID = version, nullable(r.ClusterID)
	k.ReplicaID = r.ReplicaID
	if version >= 15 {
		k.ReplicaState.ID, k.ReplicaState.Epoch = r.ReplicaID, r.ReplicaEpoch
	}
	k.MaxWaitMillis, k.MinBytes, k.MaxBytes, k.IsolationLevel = r.MaxWaitMs, r.MinBytes, r.MaxBytes, r.Isolation
	k.SessionID, k.SessionEpoch, k.Rack = r.SessionID, r.SessionEpoch, string(r.RackID)
	for _, t := range r.Topics {
		kt := kmsg.NewFetchRequestTopic()
		kt.Topic, kt.TopicID = string(t.Name), t.ID
		for _, p := range t.Partitions {
			kp := kmsg.NewFetchRequestTopicPartition()
			kp.Partition, kp.CurrentLeaderEpoch, kp.FetchOffset = p.Index, p.CurrentLeaderEpoch, p.FetchOffset
			kp.LastFetchedEpoch, kp.LogStartOffset, kp.PartitionMaxBytes = p.LastFetchedEpoch, p.LogStartOffset, p.MaxBytes
			if version >= 17 {
				kp.ReplicaDirectoryID = p.DirectoryID
			}
			if version >= 18 {
				kp.HighWatermark = p.HighWatermark
			}
			kt.Partitions = append(kt.Partitions, kp)
		}
		k.Topics = append(k.Topics, kt)
	}
	for _, t := range r.Forgotten {
		kt := kmsg.NewFetchRequestForgottenTopic()
		kt.Topic, kt.TopicID, kt.Partitions = string(t.Name), t.ID, t.Partitions
		k.ForgottenTopics = append(k.ForgottenTopics, kt)
	}
	return k
}

func (r *FetchResponse) kmsg(version int16) *kmsg.FetchResponse {
	k := kmsg.NewPtrFetchResponse()
	k.Version, k.ThrottleMillis, k.ErrorCode, k.SessionID = version, r.ThrottleMs, r.ErrorCode, r.SessionID
	for _, t := range r.Topics {
		kt := kmsg.NewFetchResponseTopic()
		kt.Topic, kt.TopicID = string(t.Name), t.ID
		for i := range t.Partitions {
			kt.Partitions = append(kt.Partitions, t.Partitions[i].kmsg())
		}
		k.Topics = append(k.Topics, kt)
	}
	if version >= 16 {
		for _, n := range r.NodeEndpoints {
			kn := kmsg.NewFetchResponseBroker()
			kn.NodeID, kn.Host, kn.Port, kn.Rack = n.NodeID, n.Host, n.Port, message(n.Rack)
			k.Brokers = append(k.Brokers, kn)
		}
	}
	return k
}

func (p *FetchPartitionResponse) kmsg() kmsg.FetchResponseTopicPartition {
	k := kmsg.NewFetchResponseTopicPartition()
	k.Partition, k.ErrorCode, k.HighWatermark = p.Index, p.ErrorCode, p.HighWatermark
	k.LastStableOffset, k.LogStartOffset = p.LastStableOffset, p.LogStartOffset
	k.DivergingEpoch.Epoch, k.DivergingEpoch.EndOffset = p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset
	k.CurrentLeader.LeaderID, k.CurrentLeader.LeaderEpoch = p.CurrentLeader.ID, p.CurrentLeader.Epoch
	k.SnapshotID.EndOffset, k.SnapshotID.Epoch = p.SnapshotID.EndOffset, p.SnapshotID.Epoch
	k.PreferredReadReplica = p.PreferredReadReplica
	k.RecordBatches = p.Records
	if p.RecordsLength == 0 && k.RecordBatches == nil {
		k.RecordBatches = []byte{}
	}
	if p.Aborted != nil {
		k.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	}
	for _, a := range p.Aborted {
		ka := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		ka.ProducerID, ka.FirstOffset = a.ProducerID, a.FirstOffset
		k.AbortedTransactions = append(k.AbortedTransactions, ka)
	}
	return k
}

// normalise removes from a kmsg value what this package drops on purpose: unknown
// tags, and the difference between "" and null in messages and racks.
func normalise(v any) { normaliseValue(reflect.ValueOf(v).Elem()) }

func normaliseValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			switch name := v.Type().Field(i).Name; {
			case name == "UnknownTags":
				f.SetZero()
			case name == "ErrorMessage" || name == "Rack" && f.Kind() == reflect.Pointer:
				if !f.IsNil() && f.Elem().Len() == 0 {
					f.SetZero()
				}
			default:
				normaliseValue(f)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				normaliseValue(v.Index(i))
			}
		}
	}
}
