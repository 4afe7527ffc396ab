package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
)

// maxAdopted bounds the partition number of a found directory: a name like
// x-2000000000 is a mistake, not two thousand million partitions.
const maxAdopted = 100000

// adopted is a topic seen in the log directories.
type adopted struct {
	id   record.TopicID
	dir  string // of the partition that told the id
	last int32  // highest partition
	bad  bool
}

// AdoptTopics makes topics of partition directories that a Kafka broker wrote,
// if the store has no topic of its own. Ids are those of partition.metadata;
// partitions are 0 to the highest found, and those that are missing are made
// like a new topic's. Kafka kept the topics' configs elsewhere: configs, by
// topic, gives those that matter, the rest are defaults. What is not adopted is
// left to become a stray.
//
// Producer ids are not given out (COORDINATOR_LOAD_IN_PROGRESS, which producers
// retry) until ReserveProducerIDs has told which ones the adopted logs know.
// The mark that says so also makes the next start go on where a crash stopped
// this one: there may be more topics than one transaction takes.
func (c *Controller) AdoptTopics(ctx context.Context, found []storage.FoundLog, configs map[string]map[string]string) error {
	im := c.Image()
	if len(im.Names) > 0 && !im.Adopting() {
		return nil
	}
	topics := c.gather(im, found)
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if topics[name] == nil {
			c.cfg.Logger.Warn("configs given for a topic that has no directory", "topic", name)
		}
		if _, err := config.ParseTopic(configs[name], c.cfg.Broker(im)); err != nil {
			return fmt.Errorf("controller: configs given for topic %s: %w", name, err)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	if !im.Adopting() {
		c.cfg.Logger.Warn("the metadata store is empty, the log directories are not: their partitions become topics anew, with default configs. "+
			"Meant for directories that Kafka wrote; where the log directory that held the store was dropped from log.dirs or moved, stop, and name it again or set meta.dir: "+
			"configs, and what is in that directory, are missing otherwise", "topics", len(topics))
	}
	err := c.step(ctx, func(im *meta.Image) (*plan, error) {
		p := &plan{}
		if !im.Adopting() {
			p.put(im, meta.KeyAdopting, meta.Encode(&meta.CounterValue{Next: c.nowMs()}))
			p.end(nil)
		}
		return p, nil
	})
	if err != nil {
		return fmt.Errorf("controller: adopting topics: %w", err)
	}
	err = c.step(ctx, func(im *meta.Image) (*plan, error) {
		p := &plan{}
		for _, name := range slices.Sorted(maps.Keys(topics)) {
			t := topics[name]
			if im.Topics[name] != nil {
				continue
			}
			v := meta.TopicValue{ID: t.id.String(), Partitions: make([]meta.AssignmentValue, t.last+1)}
			for i := range v.Partitions {
				v.Partitions[i].Replicas = []int32{c.cfg.NodeID}
			}
			planCreation(im, p, name, v, configs[name])
			p.end(nil)
			c.cfg.Logger.Info("adopting topic", "topic", name, "id", v.ID, "partitions", len(v.Partitions))
		}
		return p, nil
	})
	if err != nil {
		return fmt.Errorf("controller: adopting topics: %w", err)
	}
	return nil
}

// gather groups directories by topic and leaves out what cannot be adopted,
// naming it in the log.
func (c *Controller) gather(im *meta.Image, found []storage.FoundLog) map[string]*adopted {
	topics := map[string]*adopted{}
	for _, f := range found {
		skip := func(reason string) {
			c.cfg.Logger.Warn("partition directory is not adopted", "dir", f.Dir, "reason", reason)
		}
		if _, deleted := im.Deleted[f.TopicID]; deleted {
			continue // this cluster's own, on its way out
		}
		switch reason := meta.InvalidTopicName(f.TP.Topic); {
		case f.TopicID.IsZero():
			skip("it has no topic id (partition.metadata)")
			continue
		case reason != "":
			skip(reason)
			continue
		case f.TP.Partition >= maxAdopted:
			skip(fmt.Sprintf("partition numbers of %d and more are not adopted", maxAdopted))
			continue
		}
		t := topics[f.TP.Topic]
		if t == nil {
			t = &adopted{id: f.TopicID, dir: f.Dir}
			topics[f.TP.Topic] = t
		}
		if t.id != f.TopicID {
			skip(fmt.Sprintf("its topic id %s differs from %s in %s", f.TopicID, t.id, t.dir))
			t.bad = true
			continue
		}
		t.last = max(t.last, f.TP.Partition)
	}
	maps.DeleteFunc(topics, func(_ string, t *adopted) bool { return t.bad })
	return topics
}
