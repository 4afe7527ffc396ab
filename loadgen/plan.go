package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// topicNames are the workload's topics.
func (w *Workload) topicNames() []string {
	if w.Topics == 1 {
		return []string{w.Topic}
	}
	names := make([]string, w.Topics)
	for i := range names {
		names[i] = w.Topic + "-" + strconv.Itoa(i)
	}
	return names
}

// ensureTopics brings the topics into being, as Create says, and returns the
// cluster with every partition led.
func (r *run) ensureTopics(ctx context.Context, c *control) (*cluster, error) {
	w := &r.workload
	names := w.topicNames()
	if w.Create == "fresh" {
		if err := c.deleteTopics(ctx, names); err != nil {
			return nil, err
		}
	}
	ensure := c.createMissing
	if w.Create == "never" {
		ensure = c.requireTopics
	}
	if err := ensure(ctx, names, w); err != nil {
		return nil, err
	}
	if err := c.awaitTopics(ctx, names, topicState.led); err != nil {
		return nil, err
	}
	return c.metadata(ctx, names)
}

// led says that a topic is there and every partition of it has a leader. One
// that will not come by itself is none: its error shows.
func (t topicState) led() bool {
	return t.err == nil && len(t.leaders) > 0 && !slices.Contains(t.leaders, -1)
}

// existPatience is how long a topic that must exist may be unknown: a broker may
// hear of it a moment later than whoever has created it.
const existPatience = time.Second

// requireTopics fails unless all topics exist.
func (c *control) requireTopics(ctx context.Context, names []string, w *Workload) error {
	for deadline := time.Now().Add(existPatience); ; {
		cl, err := c.metadata(ctx, names)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(names, func(name string) bool { return errors.Is(cl.topics[name].err, kerr.UnknownTopicOrPartition) })
		if i < 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("topic %s does not exist at %s, and %s does not create it", names[i], c.address, w.Mode)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func (c *control) createMissing(ctx context.Context, names []string, w *Workload) error {
	cl, err := c.metadata(ctx, names)
	if err != nil {
		return err
	}
	var missing []string
	for _, name := range names {
		if t := cl.topics[name]; t.err != nil || len(t.leaders) == 0 {
			missing = append(missing, name)
		}
	}
	return c.createTopics(ctx, missing, w)
}

// location is a partition and its leader.
type location struct {
	placeKey
	leader int32
}

// locate lists the partitions of the topics, as many as the workload says or,
// where it creates none, as there are.
func (r *run) locate(cl *cluster) ([]location, error) {
	w := &r.workload
	var all []location
	for _, name := range w.topicNames() {
		leaders := cl.topics[name].leaders
		if w.Create != "never" && len(leaders) != w.Partitions {
			return nil, fmt.Errorf("topic %s has %d partitions and the workload wants %d: use create: fresh, or another topic",
				name, len(leaders), w.Partitions)
		}
		for i, leader := range leaders {
			all = append(all, location{placeKey{name, int32(i)}, leader})
		}
	}
	return all, nil
}

// deal gives each of n connections its partitions, all of one leader: with
// fewer connections than partitions each partition to one of them, else each
// connection one partition, in turn.
func deal(all []location, n int) ([][]location, error) {
	hands := make([][]location, n)
	if n >= len(all) {
		for i := range hands {
			hands[i] = []location{all[i%len(all)]}
		}
		return hands, nil
	}
	byLeader := slices.Clone(all)
	slices.SortStableFunc(byLeader, func(a, b location) int { return cmp.Compare(a.leader, b.leader) })
	var groups [][]location
	for i, l := range byLeader {
		if i == 0 || l.leader != byLeader[i-1].leader {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], l)
	}
	if n < len(groups) {
		return nil, fmt.Errorf("%d connections for partitions led by %d brokers: at least one each is needed", n, len(groups))
	}
	// One connection each, the others to whoever has most partitions for each.
	sizes := make([]int, len(groups))
	for i := range sizes {
		sizes[i] = 1
	}
	for range n - len(groups) {
		most := 0
		for i := range groups {
			if len(groups[i])*sizes[most] > len(groups[most])*sizes[i] {
				most = i
			}
		}
		sizes[most]++
	}
	first := 0
	for g, group := range groups {
		for i, l := range group {
			h := first + i%sizes[g]
			hands[h] = append(hands[h], l)
		}
		first += sizes[g]
	}
	return hands, nil
}

func places(hand []location) []placeKey {
	keys := make([]placeKey, len(hand))
	for i, l := range hand {
		keys[i] = l.placeKey
	}
	slices.SortFunc(keys, func(a, b placeKey) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return keys
}

// deleteTopics deletes the topics at the end, if the workload says so.
func (r *run) deleteTopics() error {
	if !r.workload.DeleteAfter {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), topicPatience)
	defer cancel()
	c, err := dialControl(ctx, r.opts.Bootstrap, r.opts.ClientID)
	if err != nil {
		return err
	}
	defer c.close()
	return c.deleteTopics(ctx, r.workload.topicNames())
}
