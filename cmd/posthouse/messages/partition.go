package messages

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

// noPartition marks a record whose partition the partitioner chooses.
const noPartition = -1

// partitioners choose among partitions as the Java client's do. The hash of a
// key is murmur2 of its bytes without the sign, modulo the number of
// partitions (BuiltInPartitioner.java).
var partitioners = map[string]func() kgo.Partitioner{
	"key-hash":    func() kgo.Partitioner { return kgo.StickyKeyPartitioner(nil) },
	"round-robin": kgo.RoundRobinPartitioner,
	"sticky":      kgo.StickyPartitioner,
}

const defaultPartitioner = "key-hash"

func parsePartitioner(name string) (kgo.Partitioner, error) {
	make, ok := partitioners[name]
	if !ok {
		return nil, cli.Usagef("--partitioner %q: want %s", name, strings.Join(cli.SortedNames(partitioners), ", "))
	}
	return named{make()}, nil
}

// named lets a record that names its partition go there, and others where the
// partitioner inside says.
type named struct{ inner kgo.Partitioner }

func (n named) ForTopic(topic string) kgo.TopicPartitioner {
	return &namedTopic{n.inner.ForTopic(topic)}
}

type namedTopic struct{ kgo.TopicPartitioner }

func (n *namedTopic) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition != noPartition || n.TopicPartitioner.RequiresConsistency(r)
}

func (n *namedTopic) Partition(r *kgo.Record, count int) int {
	if r.Partition != noPartition {
		return int(r.Partition)
	}
	return n.TopicPartitioner.Partition(r, count)
}

// OnNewBatch is how sticky partitioners hear that a batch is full.
func (n *namedTopic) OnNewBatch() {
	if t, ok := n.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		t.OnNewBatch()
	}
}
