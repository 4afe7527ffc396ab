package broker

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/posthouse/posthouse/engine"
	"github.com/posthouse/posthouse/engine/metrics"
	"github.com/posthouse/posthouse/engine/quota"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// scrapePatience is how long a scrape waits for loops and disks.
	scrapePatience = time.Second
	// idleWindow is the least time over which the idle ratio is taken.
	idleWindow = 10 * time.Second
)

// scraper is what metrics remember from one scrape to the next.
type scraper struct {
	mu      sync.Mutex
	reports []*loopReport // the last of each loop; guarded by mu
	marks   [2]idleMark   // the older one is at least idleWindow old, if there is one
}

// idleMark is what the loops had done by a time.
type idleMark struct {
	at         time.Time
	busy, idle time.Duration
}

// sources are the parts of an answer to /metrics; filter says which topics have
// series of their own.
func (b *Broker) sources(ctx context.Context, filter func(topic string) bool) []metrics.Source {
	return []metrics.Source{
		func(w *metrics.Writer) { b.loopMetrics(ctx, w) },
		b.listenerMetrics,
		func(w *metrics.Writer) { b.replicaMetrics(w, filter) },
		b.quotaMetrics,
		b.clusterMetrics,
		b.logMetrics,
		func(w *metrics.Writer) { b.groupMetrics(w, filter) },
		func(w *metrics.Writer) { b.nodeMetrics(ctx, w) },
	}
}

// loopMetrics tells what the event loops have counted. A loop that does not
// answer is shown as it was last.
func (b *Broker) loopMetrics(ctx context.Context, w *metrics.Writer) {
	fresh := b.visitLoops(ctx, scrapePatience)
	b.scraper.mu.Lock()
	defer b.scraper.mu.Unlock()
	if b.scraper.reports == nil {
		b.scraper.reports = make([]*loopReport, len(fresh))
	}
	stalled := 0
	for i, r := range fresh {
		if r == nil {
			stalled++
		} else {
			b.scraper.reports[i] = r
		}
	}
	if b.stopping.Load() {
		stalled = 0 // they have ended
	}
	w.Set(metrics.LoopsStalled, float64(stalled))
	var engineAll engine.LoopStats
	var netAll netio.LoopStats
	for i, r := range b.scraper.reports {
		if r == nil {
			continue
		}
		loop := strconv.Itoa(i)
		w.Set(metrics.LoopBusy, r.net.Busy.Seconds(), loop)
		w.Set(metrics.LoopWakeUps, float64(r.net.WakeUps), loop)
		w.Set(metrics.LoopTurns, float64(r.net.Turns), loop)
		w.Set(metrics.LoopConnections, float64(r.net.Connections), loop)
		w.Set(metrics.LoopColdReads, float64(r.net.ColdReads), loop)
		w.Set(metrics.NetworkBytesIn, float64(r.net.BytesReceived), loop)
		w.Set(metrics.NetworkBytesOut, float64(r.net.BytesSent), loop)
		netAll.Busy += r.net.Busy
		netAll.Idle += r.net.Idle
		netAll.Waiting += r.net.Waiting
		netAll.Unanswered += r.net.Unanswered
		netAll.Unsent += r.net.Unsent
		for cause, n := range r.net.Closed {
			netAll.Closed[cause] += n
		}
		engineAll.Requests.Add(&r.engine.Requests)
		engineAll.DelayedProduces += r.engine.DelayedProduces
		engineAll.DelayedFetches += r.engine.DelayedFetches
	}
	for cause, n := range netAll.Closed {
		w.Set(metrics.ConnectionEnds, float64(n), netio.CloseCause(cause).String())
	}
	idle := b.scraper.idleRatio(time.Now(), netAll.Busy, netAll.Idle)
	w.Set(metrics.NetworkIdle, idle)
	w.Set(metrics.ProcessorIdle, idle)
	w.Set(metrics.RequestQueue, float64(netAll.Waiting))
	w.Set(metrics.RequestsInProgress, float64(netAll.Unanswered))
	w.Set(metrics.ResponseQueue, float64(netAll.Unsent))
	w.Set(metrics.Purgatory, float64(engineAll.DelayedProduces), "Produce")
	w.Set(metrics.Purgatory, float64(engineAll.DelayedFetches), "Fetch")
	requestMetrics(w, &engineAll.Requests)
}

// idleRatio is the share of time that the loops slept since the older mark. mu
// is held.
func (s *scraper) idleRatio(now time.Time, busy, idle time.Duration) float64 {
	if now.Sub(s.marks[1].at) >= idleWindow {
		s.marks[0], s.marks[1] = s.marks[1], idleMark{now, busy, idle}
	}
	since := s.marks[0]
	all := busy - since.busy + idle - since.idle
	if all <= 0 {
		return 1
	}
	return float64(idle-since.idle) / float64(all)
}

// requestMetrics tells of requests by API. The two kinds of fetches are shown
// apart and together.
func requestMetrics(w *metrics.Writer, requests *metrics.Requests) {
	apis := append(engine.APIs(), engine.ConsumerFetches, engine.FollowerFetches)
	names := make(map[int16]string, len(apis))
	for _, api := range apis {
		names[api.Key] = api.Name
		c := requests.API(api.Key)
		if c == nil {
			continue
		}
		for version, n := range c.Versions {
			if n > 0 {
				w.Set(metrics.RequestsTotal, float64(n), api.Name, strconv.Itoa(version))
			}
		}
		w.Set(metrics.RequestBytes, float64(c.Bytes), api.Name)
		if api.Name == "Fetch" {
			for _, key := range []int16{engine.ConsumerFetches.Key, engine.FollowerFetches.Key} {
				if kind := requests.API(key); kind != nil {
					c.Total.Add(&kind.Total)
					c.Local.Add(&kind.Local)
					c.Remote.Add(&kind.Remote)
					c.Queue.Add(&kind.Queue)
				}
			}
		}
		w.Histogram(metrics.TotalTime, &c.Total, api.Name)
		w.Histogram(metrics.LocalTime, &c.Local, api.Name)
		w.Histogram(metrics.RemoteTime, &c.Remote, api.Name)
		w.Histogram(metrics.QueueTime, &c.Queue, api.Name)
	}
	for e, n := range requests.Errors() {
		if name := names[e.Key]; name != "" {
			w.Set(metrics.RequestErrors, float64(n), name, errorName(e.Code))
		}
	}
}

// errorName is Kafka's name of an error code.
func errorName(code int16) string {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err.Message
	}
	return strconv.Itoa(int(code))
}

func (b *Broker) listenerMetrics(w *metrics.Writer) {
	for _, l := range b.net.ListenerStats() {
		w.Set(metrics.Connections, float64(l.Opened-l.Closed), l.Name)
		w.Set(metrics.ConnectionsCreated, float64(l.Opened), l.Name)
		w.Set(metrics.ConnectionsClosed, float64(l.Closed), l.Name)
		w.Set(metrics.ConnectionsRefused, float64(l.Refused), l.Name)
		w.Set(metrics.AcceptErrors, float64(l.Failed), l.Name)
	}
	w.Set(metrics.RequestMemory, float64(b.net.RequestMemory()))
	if limit := b.static.QueuedMaxRequestBytes; limit > 0 {
		w.Set(metrics.RequestMemoryLimit, float64(limit))
	}
	sessions, partitions := b.engine.FetchSessions()
	w.Set(metrics.FetchSessions, float64(sessions))
	w.Set(metrics.FetchSessionPartitions, float64(partitions))
}

// quotaMetrics tells how clients were held to their quotas.
func (b *Broker) quotaMetrics(w *metrics.Writer) {
	s := b.engine.Throttled()
	for name, t := range map[string]quota.Throttled{
		"produce": s.Produce, "fetch": s.Fetch, "request": s.Request, "mutation": s.Mutation, "connection": s.Connection,
	} {
		w.Set(metrics.Throttles, float64(t.Times), name)
		w.Set(metrics.ThrottleTime, float64(t.Milliseconds)/1000, name)
	}
}

// clusterMetrics tells what the cluster's image says.
func (b *Broker) clusterMetrics(w *metrics.Writer) {
	image := b.controller.Image()
	partitions, offline := 0, 0
	for _, t := range image.Topics {
		partitions += len(t.Partitions)
		for i := range t.Partitions {
			if t.Partitions[i].Leader == meta.NoLeader {
				offline++
			}
		}
	}
	fenced := 0
	for i := range image.Brokers {
		if image.Brokers[i].Fenced {
			fenced++
		}
	}
	w.SetBool(metrics.ActiveController, image.ControllerID == b.static.NodeID)
	w.Set(metrics.GlobalTopics, float64(len(image.Topics)))
	w.Set(metrics.GlobalPartitions, float64(partitions))
	w.Set(metrics.OfflinePartitions, float64(offline))
	w.Set(metrics.ActiveBrokers, float64(len(image.Brokers)-fenced))
	w.Set(metrics.FencedBrokers, float64(fenced))
	w.Set(metrics.NodeInfo, 1, strconv.Itoa(int(b.static.NodeID)), image.ClusterID)
}

func (b *Broker) nodeMetrics(ctx context.Context, w *metrics.Writer) {
	name, _ := b.net.Engine()
	w.Set(metrics.BuildInfo, 1, Version, runtime.Version(), name)
	w.SetBool(metrics.Ready, ready(b.readiness(ctx)))
}
