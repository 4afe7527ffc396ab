package broker

import (
	"strconv"

	"github.com/posthouse/posthouse/engine/group"
	"github.com/posthouse/posthouse/engine/metrics"
	"github.com/posthouse/posthouse/replication"
	"github.com/posthouse/posthouse/storage/record"
)

// replicaMetrics tells of this node's partitions: sums, and what each topic and
// partition has, if there are not too many.
func (b *Broker) replicaMetrics(w *metrics.Writer, filter func(topic string) bool) {
	partitions, all := b.replicas.Stats()
	topics := make(map[string]replication.Traffic)
	var shown []*replication.PartitionStats
	var leaders, offline, under, underMin, atMin, producers int
	count := func(n *int, yes bool) {
		if yes {
			*n++
		}
	}
	for i := range partitions {
		p := &partitions[i]
		all.Add(p.Traffic)
		producers += p.Producers
		count(&leaders, p.Leader)
		count(&offline, p.Offline)
		count(&under, p.Leader && p.ISR < p.Replicas)
		count(&underMin, p.Leader && p.ISR < p.MinISR)
		count(&atMin, p.Leader && p.ISR == p.MinISR)
		if filter(p.TP.Topic) {
			t := topics[p.TP.Topic]
			t.Add(p.Traffic)
			topics[p.TP.Topic] = t
			shown = append(shown, p)
		}
	}
	w.Set(metrics.PartitionCount, float64(len(partitions)))
	w.Set(metrics.LeaderCount, float64(leaders))
	w.Set(metrics.OfflineReplicas, float64(offline))
	w.Set(metrics.UnderReplicated, float64(under))
	w.Set(metrics.UnderMinISR, float64(underMin))
	w.Set(metrics.AtMinISR, float64(atMin))
	w.Set(metrics.ProducerIDs, float64(producers))
	trafficMetrics(w, "", all)
	if b.few(w, "topic", len(topics)) {
		for topic, t := range topics {
			trafficMetrics(w, topic, t)
		}
	}
	if b.few(w, "partition", len(shown)) {
		for _, p := range shown {
			partitionMetrics(w, p)
		}
	}
}

// few says whether n items may have series of their own, and tells if not.
func (b *Broker) few(w *metrics.Writer, kind string, n int) bool {
	if n <= int(b.static.HTTP.PartitionsMax) {
		w.Set(metrics.LeftOut, 0, kind)
		return true
	}
	w.Set(metrics.LeftOut, float64(n), kind)
	return false
}

func trafficMetrics(w *metrics.Writer, topic string, t replication.Traffic) {
	w.Set(metrics.MessagesIn, float64(t.Records), topic)
	w.Set(metrics.BytesIn, float64(t.Bytes), topic)
	w.Set(metrics.BytesOut, float64(t.BytesRead), topic)
	w.Set(metrics.ProduceRequests, float64(t.Batches), topic)
	w.Set(metrics.FailedProduces, float64(t.FailedProduces), topic)
	w.Set(metrics.FailedFetches, float64(t.FailedFetches), topic)
}

func partitionMetrics(w *metrics.Writer, p *replication.PartitionStats) {
	if !p.Ready {
		return
	}
	topic, partition := p.TP.Topic, strconv.Itoa(int(p.TP.Partition))
	w.Set(metrics.LogSize, float64(p.Bytes), topic, partition)
	w.Set(metrics.LogEndOffset, float64(p.Offsets.LEO), topic, partition)
	w.Set(metrics.LogStartOffset, float64(p.Offsets.LogStart), topic, partition)
	w.Set(metrics.LogSegments, float64(p.Segments), topic, partition)
}

// logMetrics tells of disks, and of what went wrong with logs.
func (b *Broker) logMetrics(w *metrics.Writer) {
	failures := b.storage.Stats()
	w.Set(metrics.AppendFailures, float64(failures.AppendFailures))
	w.Set(metrics.LogsFailed, float64(failures.LogFailures))
	flushes := b.flushes.Snapshot()
	w.Histogram(metrics.LogFlushes, &flushes)
	w.Set(metrics.LogsLoading, float64(b.loadTotal.Load()-b.loadDone.Load()))
	dirs, fresh := b.dirs.get(scrapePatience)
	offline := 0
	for _, d := range dirs {
		bad := d.Err != nil || !fresh
		w.SetBool(metrics.LogDirOffline, bad, d.Path)
		if bad {
			offline++
		}
		if d.Err == nil {
			w.Set(metrics.DiskFree, float64(d.Free), d.Path)
			w.Set(metrics.DiskSize, float64(d.Total), d.Path)
		}
	}
	w.Set(metrics.OfflineLogDirs, float64(offline))
}

// groupMetrics tells of the groups that this node coordinates.
func (b *Broker) groupMetrics(w *metrics.Writer, filter func(topic string) bool) {
	coordinator := b.engine.Groups()
	counters := coordinator.Counters()
	w.Set(metrics.GroupRebalances, float64(counters.Rebalances))
	w.Set(metrics.OffsetCommits, float64(counters.Commits))
	w.Set(metrics.OffsetCommitErrors, float64(counters.CommitErrors))
	w.Set(metrics.OffsetsExpired, float64(counters.Expired))
	groups := coordinator.Stats()
	states := make(map[[2]string]int)
	offsets := 0
	for i := range groups {
		g := &groups[i]
		states[[2]string{g.Protocol, g.State}]++
		for _, o := range g.Offsets {
			if filter(o.Topic) {
				offsets++
			}
		}
	}
	for of, n := range states {
		w.Set(metrics.GroupCount, float64(n), of[0], of[1])
	}
	if b.few(w, "group", len(groups)) {
		for i := range groups {
			w.Set(metrics.GroupMembers, float64(groups[i].Members), groups[i].Group)
		}
	}
	if b.few(w, "group partition", offsets) {
		for i := range groups {
			b.lagMetrics(w, &groups[i], filter)
		}
	}
}

// lagMetrics compares what a group has committed with where logs end.
func (b *Broker) lagMetrics(w *metrics.Writer, g *group.Stats, filter func(topic string) bool) {
	for _, o := range g.Offsets {
		if !filter(o.Topic) {
			continue
		}
		partition := strconv.Itoa(int(o.Partition))
		w.Set(metrics.GroupOffset, float64(o.Offset), g.Group, o.Topic, partition)
		p := b.replicas.Get(record.TopicPartition{Topic: o.Topic, Partition: o.Partition})
		if p != nil && p.CheckLeader(record.NoLeaderEpoch) == nil {
			w.Set(metrics.GroupLag, float64(max(0, int64(p.Offsets().HW)-o.Offset)), g.Group, o.Topic, partition)
		}
	}
}
