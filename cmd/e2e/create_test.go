//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/posthouse/posthouse/bench"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestNewTopicServes produces to a topic in the moment that its creation is
// answered: it must not be refused, since a Java client then waits 100 ms
// before its first record and an old sarama reorders. Kafka itself refuses
// some; there the number is only printed.
func TestNewTopicServes(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		s := startServer(t, engine)
		batch := bench.Batch(newRand(t), 1, 10)
		conn, err := bench.DialRaw(within(t, toolLimit), s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		refused := 0
		topics := amount(100, 20)
		for n := range topics {
			topic := fmt.Sprintf("new-%d", n)
			if _, err := createTopic(t, s.addr, topic, 2, nil); err != nil {
				t.Fatal(err)
			}
			resp, err := conn.Do(produceRequest(topic, int32(n%2), batch))
			if err != nil {
				t.Fatal(err)
			}
			err = kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
			if err != nil && !kerr.IsRetriable(err) {
				t.Fatalf("%s: %v", topic, err)
			}
			if err != nil {
				refused++
			}
		}
		t.Logf("%d of %d new topics refused their first record", refused, topics)
		if refused > 0 && engine != engineKafka {
			t.Errorf("%d of %d topics were answered before they served", refused, topics)
		}
		s.stop(t)
	})
}
