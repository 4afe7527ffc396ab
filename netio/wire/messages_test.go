package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// messageTopic and messageDirectory are the ids in Messages.java.
var (
	messageTopic     = TopicID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	messageDirectory = TopicID{17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32}
)

const messageRecords = "not really records"

// messageValues are the values that testdata/golden/Messages.java gives to the
// messages named "full"; those named "default" are empty or reset.
func messageValue(kind, name string) codec {
	switch kind + " " + name {
	case "ProduceRequest default":
		return new(ProduceRequest)
	case "ProduceResponse default":
		return new(ProduceResponse)
	case "FetchResponse default":
		return new(FetchResponse)
	case "FetchRequest default":
		r := new(FetchRequest)
		r.Reset()
		return r
	case "ProduceRequest full":
		return &ProduceRequest{TransactionalID: []byte("transaction"), Acks: -1, TimeoutMs: 1500, Topics: []ProduceTopic{{
			Name: []byte("topic"), ID: messageTopic,
			Partitions: []ProducePartition{{Index: 3, Records: []byte(messageRecords)}, {Index: 4}},
		}}}
	case "ProduceResponse full":
		r := &ProduceResponse{ThrottleMs: 12, NodeEndpoints: []NodeEndpoint{
			{NodeID: 13, Host: "host", Port: 9092, Rack: "rack"}, {NodeID: 15, Host: "another", Port: 9093},
		}}
		t := r.AddTopic()
		t.Name, t.ID = []byte("topic"), messageTopic
		p := r.AddPartition(3)
		p.ErrorCode, p.BaseOffset, p.LogAppendTimeMs, p.LogStartOffset, p.ErrorMessage = 6, 7, 8, 9, "message"
		p.RecordErrors = []RecordError{{BatchIndex: 10, Message: "wrong"}, {BatchIndex: 11}}
		p.CurrentLeader = LeaderIDAndEpoch{ID: 13, Epoch: 14}
		return r
	case "FetchRequest full":
		return &FetchRequest{
			ReplicaID: 17, ReplicaEpoch: 18, MaxWaitMs: 10, MinBytes: 11, MaxBytes: 12, Isolation: 1, SessionID: 13,
			SessionEpoch: 14, RackID: []byte("rack"), ClusterID: []byte("cluster"),
			Topics: []FetchTopic{{Name: []byte("topic"), ID: messageTopic, Partitions: []FetchPartition{{
				Index: 3, CurrentLeaderEpoch: 4, FetchOffset: 5, LastFetchedEpoch: 9, LogStartOffset: 6, MaxBytes: 7,
				DirectoryID: messageDirectory, HighWatermark: 8,
			}}}},
			Forgotten: []ForgottenTopic{{Name: []byte("topic"), ID: messageTopic, Partitions: []int32{15, 16}}},
		}
	case "FetchResponse full":
		r := &FetchResponse{ThrottleMs: 19, ErrorCode: 20, SessionID: 21, NodeEndpoints: []NodeEndpoint{
			{NodeID: 15, Host: "host", Port: 9092, Rack: "rack"},
		}}
		t := r.AddTopic()
		t.Name, t.ID = []byte("topic"), messageTopic
		p := r.AddPartition(3)
		p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = 6, 7, 8, 9
		p.Aborted, p.PreferredReadReplica = []AbortedTransaction{{ProducerID: 10, FirstOffset: 11}}, 12
		p.DivergingEpoch, p.CurrentLeader = EpochEndOffset{Epoch: 13, EndOffset: 14}, LeaderIDAndEpoch{ID: 15, Epoch: 16}
		p.SnapshotID = SnapshotID{EndOffset: 17, Epoch: 18}
		p.Records, p.RecordsLength = []byte(messageRecords), int32(len(messageRecords))
		p = r.AddPartition(4)
		p.HighWatermark, p.RecordsLength = 0, -1
		return r
	default:
		return nil
	}
}

// TestMessagesOfKafka compares with what Kafka's own classes write: every field of
// every version, those too that a lone broker never sends.
func TestMessagesOfKafka(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "golden", "Messages.json"))
	if err != nil {
		t.Fatal(err)
	}
	var messages []struct {
		Kind, Name string
		Version    int16
		Body       hexed
	}
	if err := json.Unmarshal(data, &messages); err != nil {
		t.Fatal(err)
	}
	versions := int(ProduceMaxVersion-ProduceMinVersion+1) + int(FetchMaxVersion-FetchMinVersion+1)
	if want := 4 * versions; len(messages) != want {
		t.Fatalf("%d messages, want %d", len(messages), want)
	}
	decoders := map[string]codec{
		"ProduceRequest": new(ProduceRequest), "ProduceResponse": new(ProduceResponse),
		"FetchRequest": new(FetchRequest), "FetchResponse": new(FetchResponse),
	}
	for _, m := range messages {
		t.Run(fmt.Sprintf("%s/v%d/%s", m.Kind, m.Version, m.Name), func(t *testing.T) {
			value := messageValue(m.Kind, m.Name)
			same(t, "encoded message", value.append(nil, m.Version), m.Body)
			decoder := decoders[m.Kind]
			if err := decoder.Decode(m.Version, m.Body); err != nil {
				t.Fatal(err)
			}
			same(t, "decoded message", decoder.append(nil, m.Version), m.Body)
		})
	}
	if NoHighWatermark != math.MaxInt64 {
		t.Error("Kafka's default high watermark is the greatest long")
	}
}
