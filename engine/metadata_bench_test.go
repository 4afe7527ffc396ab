package engine

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkMetadata times round trips over loopback by the number of partitions
// that are asked for.
func BenchmarkMetadata(b *testing.B) {
	broker := startBroker(b, brokerOptions{memory: true})
	for _, partitions := range []int32{1, 16, 128, 256, 1024} {
		topic := fmt.Sprint("t", partitions)
		broker.createTopic(topic, partitions, nil)
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			raw := broker.rawLoop()
			req := kmsg.NewPtrMetadataRequest()
			req.Version = 12
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = &topic
			req.Topics = append(req.Topics, t)
			frame := frameOf(b, req)
			b.ReportAllocs()
			for b.Loop() {
				raw.write(frame)
				raw.read()
			}
		})
	}
}
