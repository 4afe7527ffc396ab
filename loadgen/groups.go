package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/results/hdr"
)

// GroupWorkload is a load on a group coordinator: classic groups whose members
// join, heartbeat and commit and read nothing. Every member has a connection of
// its own, since a JoinGroup that waits holds up what is sent behind it.
type GroupWorkload struct {
	Name string `json:"name"`
	// Groups of Members each.
	Groups  int `json:"groups"`
	Members int `json:"members"`
	// Topic is what they subscribe to; one that does not exist is made with a
	// partition for each member of a group, and all of them are assigned.
	Topic string `json:"topic"`
	// Heartbeat is the time between two heartbeats of a member; each begins at a
	// time of its own.
	Heartbeat Duration `json:"heartbeat"`
	// Session and Rebalance are the timeouts that members ask for.
	Session   Duration `json:"session"`
	Rebalance Duration `json:"rebalance"`
	// CommitRate is commits per second of all members together, of one partition
	// each; 0 is none. CommitClosed has every member commit as soon as it is
	// answered instead.
	CommitRate   float64 `json:"commitRate"`
	CommitClosed bool    `json:"commitClosed"`
	// Restarts has the first member of each group leave and join again as soon as
	// the group is stable, again and again.
	Restarts bool `json:"restarts"`
	// Duration is measured once all groups are stable, Warmup left out before.
	Duration Duration `json:"duration"`
	Warmup   Duration `json:"warmup"`
	Seed     uint64   `json:"seed"`
}

// DefaultGroupWorkload is 100 groups of 10 members that heartbeat every 3 s.
func DefaultGroupWorkload() GroupWorkload {
	return GroupWorkload{
		Name: "groups", Groups: 100, Members: 10, Topic: "posthouse-load-groups",
		Heartbeat: Duration(3 * time.Second), Session: Duration(45 * time.Second), Rebalance: Duration(60 * time.Second),
		Duration: Duration(15 * time.Second), Warmup: Duration(3 * time.Second), Seed: 1,
	}
}

// Validate says what makes no sense.
func (w *GroupWorkload) Validate() error {
	switch {
	case w.Groups < 1 || w.Members < 1:
		return fmt.Errorf("%d groups of %d members: want at least one of each", w.Groups, w.Members)
	case w.Heartbeat <= 0 || w.Session <= 0 || w.Rebalance <= 0 || w.Duration <= 0 || w.Warmup < 0:
		return errors.New("times must be above zero")
	case w.CommitRate < 0 || w.CommitRate > 0 && w.CommitClosed:
		return errors.New("commits have a rate or are a closed loop")
	case w.Topic == "":
		return errors.New("groups need a topic to subscribe to")
	}
	return nil
}

// GroupOptions is a GroupWorkload and against whom.
type GroupOptions struct {
	Bootstrap []string
	Workload  GroupWorkload
	Engine    string
	Loops     int // 0: one per four cores
	ClientID  string
	// Stable hears that all groups are stable, with when the measured part
	// begins; Measured that it is over. Either may be nil.
	Stable   func(formed time.Duration, measured time.Time)
	Measured func(time.Time)
}

// The lines of a group load.
const (
	LineHeartbeat = "heartbeat" // intended → answered
	LineCommit    = "commit"    // intended → answered; of closed loops sent → answered
	LineRebalance = "rebalance" // a member leaves → all members have their assignment
	LineJoin      = "join"      // first JoinGroup of a member → its assignment, before the measured part
)

var groupLines = [...]string{LineHeartbeat, LineCommit, LineRebalance, LineJoin}

type groupLineID uint8

const (
	groupHeartbeat groupLineID = iota
	groupCommit
	groupRebalance
	groupJoin
)

// GroupOutcome is what came of a group load.
type GroupOutcome struct {
	Workload  GroupWorkload
	Bootstrap []string
	StartedAt time.Time     // of the measured part
	Formed    time.Duration // from the first JoinGroup until all groups were stable
	Measured  time.Duration
	Lines     []GroupLine
	Client    ClientUsage
}

// GroupLine is one line of a GroupOutcome.
type GroupLine struct {
	Name         string
	Requests     int64
	Errors       int64 // answers with an error that is not part of a rebalance
	ErrorsByCode map[int16]int64
	PerSecond    float64
	Histogram    *hdr.Histogram
}

const (
	// formPatience bounds the time until all groups are stable.
	formPatience = 2 * time.Minute
	// leavePatience bounds the wait for members to leave at the end.
	leavePatience = 10 * time.Second
	retryPause    = 100 * time.Millisecond
)

// groupRun is one group load while it lasts.
type groupRun struct {
	opts    GroupOptions
	work    GroupWorkload
	id      uint64
	address string
	server  *netio.Server
	groups  []*loadedGroup
	members []*member
	loops   []*groupLoop

	unstable atomic.Int64  // groups that are not stable yet
	formed   chan struct{} // closed when none is left
	left     atomic.Int64  // members that have not left yet
	gone     chan struct{}
	failure  chan error
	ending   atomic.Bool
	// window is the measured part on the loops' clock; far away until it is known.
	from, to atomic.Int64
}

// loadedGroup is what its members, on whatever loops, know together.
type loadedGroup struct {
	id string
	mu sync.Mutex
	// All guarded by mu: the newest generation, how many members are stable in
	// it, when a restart began, and whether the group was ever complete.
	generation int32
	stable     int
	restarted  netio.Instant
	complete   bool
}

// groupLoop is what the members of one loop count; the loop's own.
type groupLoop struct {
	run    *groupRun
	net    *netio.Loop
	lines  [len(groupLines)]groupCount
	began  netio.LoopStats // at the begin of the measured part
	format *kmsg.RequestFormatter
	random *rand.Rand
}

type groupCount struct {
	requests, errors int64
	byCode           map[int16]int64
	latencies        *hdr.Histogram
}

// RunGroups makes the load and measures it. The outcome is not nil as soon as
// something was measured; an error beside it says what went wrong.
func RunGroups(ctx context.Context, opts GroupOptions) (*GroupOutcome, error) {
	if err := opts.Workload.Validate(); err != nil {
		return nil, err
	}
	if opts.ClientID == "" {
		opts.ClientID = defaultClientID
	}
	if opts.Loops <= 0 {
		opts.Loops = max(1, runtime.NumCPU()/coresPerLoop)
	}
	r := &groupRun{
		opts: opts, work: opts.Workload, id: rand.Uint64(), formed: make(chan struct{}), gone: make(chan struct{}), failure: make(chan error, 1),
	}
	r.from.Store(1 << 62)
	r.to.Store(1 << 62)
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer r.server.Close()
	began := time.Now()
	if err := r.connect(ctx); err != nil {
		return nil, err
	}
	if err := r.await(ctx, r.formed, formPatience, "groups are not stable"); err != nil {
		return nil, err
	}
	return r.measure(ctx, time.Since(began))
}

// prepare makes the topic and everything that is no connection.
func (r *groupRun) prepare(ctx context.Context) error {
	c, err := dialControl(ctx, r.opts.Bootstrap, r.opts.ClientID)
	if err != nil {
		return err
	}
	defer c.close()
	topic := DefaultWorkload(ModeProduce)
	topic.Partitions = r.work.Members
	if err := c.createTopics(ctx, []string{r.work.Topic}, &topic); err != nil {
		return err
	}
	good := func(t topicState) bool {
		return t.err == nil && len(t.leaders) > 0 && !slices.Contains(t.leaders, -1)
	}
	if err := c.awaitTopics(ctx, []string{r.work.Topic}, good); err != nil {
		return err
	}
	if err := r.findCoordinator(ctx, c); err != nil {
		return err
	}
	r.server, err = netio.NewServer(netio.Config{
		Engine: r.opts.Engine, Loops: r.opts.Loops, LoopbackCongestion: "cubic", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, groupHandler{})
	if err != nil {
		return err
	}
	for i, l := range r.server.Loops() {
		s := &groupLoop{run: r, net: l, random: rand.New(rand.NewPCG(r.work.Seed, uint64(i)))}
		s.format = kmsg.NewRequestFormatter(kmsg.FormatterClientID(r.opts.ClientID))
		for n := range s.lines {
			s.lines[n] = groupCount{byCode: map[int16]int64{}, latencies: hdr.New()}
		}
		r.loops = append(r.loops, s)
	}
	r.onEach(func(s *groupLoop) { s.net.State = s })
	for g := range r.work.Groups {
		group := &loadedGroup{id: fmt.Sprintf("%s-%x-%d", r.work.Topic, r.id, g)}
		r.groups = append(r.groups, group)
		for m := range r.work.Members {
			r.members = append(r.members, newMember(r, group, len(r.members), m))
		}
	}
	r.unstable.Store(int64(len(r.groups)))
	r.left.Store(int64(len(r.members)))
	return nil
}

// findCoordinator asks where the groups are kept; all on one broker is what this
// load can do.
func (r *groupRun) findCoordinator(ctx context.Context, c *control) error {
	for deadline := time.Now().Add(topicPatience); ; {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey = r.work.Topic
		resp := kmsg.NewPtrFindCoordinatorResponse()
		if err := c.ask(ctx, req, 3, resp); err != nil {
			return err
		}
		err := kerr.ErrorForCode(resp.ErrorCode)
		if err == nil {
			r.address = fmt.Sprintf("%s:%d", resp.Host, resp.Port)
			return nil
		}
		if !kerr.IsRetriable(err) || time.Now().After(deadline) {
			return fmt.Errorf("FindCoordinator to %s: %w", c.address, err)
		}
		if err := pause(ctx, retryPause); err != nil {
			return err
		}
	}
}

// connect makes all connections, several at once; each member joins as soon as
// it has its own.
func (r *groupRun) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var once sync.Once
	var failure error
	slots := make(chan struct{}, dialsAtOnce)
	for i, m := range r.members {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			dialling, cancelDial := context.WithTimeout(ctx, dialTimeout)
			defer cancelDial()
			if _, err := r.server.Dial(dialling, r.address, i%len(r.loops), m); err != nil {
				once.Do(func() { failure = fmt.Errorf("member %d: %w", i, err); cancel() })
			}
		})
	}
	wg.Wait()
	return failure
}

// await waits until done is closed.
func (r *groupRun) await(ctx context.Context, done <-chan struct{}, patience time.Duration, what string) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case err := <-r.failure:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%s after %v (%d of %d groups were never complete)", what, patience, r.unstable.Load(), len(r.groups))
	}
}

// measure lets the load run, ends it and adds up.
func (r *groupRun) measure(ctx context.Context, formed time.Duration) (*GroupOutcome, error) {
	start := time.Now().Add(time.Duration(r.work.Warmup))
	end := start.Add(time.Duration(r.work.Duration))
	r.from.Store(int64(netio.InstantOf(start)))
	r.to.Store(int64(netio.InstantOf(end)))
	if r.opts.Stable != nil {
		r.opts.Stable(formed, start)
	}
	r.onEach((*groupLoop).startLoad)
	failure := r.until(ctx, start)
	if failure == nil {
		r.onEach(func(s *groupLoop) { s.began = s.net.Stats() })
		failure = r.until(ctx, end)
	}
	over := time.Now()
	if over.Before(end) {
		r.to.Store(int64(netio.InstantOf(over)))
	}
	if r.opts.Measured != nil {
		r.opts.Measured(over)
	}
	o := &GroupOutcome{Workload: r.work, Bootstrap: r.opts.Bootstrap, StartedAt: start, Formed: formed, Measured: over.Sub(start)}
	o.Client.Engine, _ = r.server.Engine()
	o.Client.Loops = len(r.loops)
	r.collect(o)
	// Members that leave in order leave no sessions for the broker to time out
	// while somebody else is measured.
	r.ending.Store(true)
	r.onEach((*groupLoop).leaveAll)
	if err := r.await(context.WithoutCancel(ctx), r.gone, leavePatience, "members have not left"); err != nil && failure == nil {
		failure = err
	}
	if failure == nil {
		for i := range o.Lines {
			if l := &o.Lines[i]; l.Errors > 0 {
				failure = fmt.Errorf("%d errors in answers to %s: %v", l.Errors, l.Name, l.ErrorsByCode)
			}
		}
	}
	return o, failure
}

// until sleeps to a time, unless something fails before.
func (r *groupRun) until(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case err := <-r.failure:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// collect adds up what the loops counted.
func (r *groupRun) collect(o *GroupOutcome) {
	var mu sync.Mutex
	sums := make([]GroupLine, len(groupLines))
	for i, name := range groupLines {
		sums[i] = GroupLine{Name: name, ErrorsByCode: map[int16]int64{}, Histogram: hdr.New()}
	}
	r.onEach(func(s *groupLoop) {
		mu.Lock()
		defer mu.Unlock()
		for i := range s.lines {
			from, to := &s.lines[i], &sums[i]
			to.Requests += from.requests
			to.Errors += from.errors
			for code, n := range from.byCode {
				to.ErrorsByCode[code] += n
			}
			to.Histogram.Merge(from.latencies)
		}
		now := s.net.Stats()
		if all := now.Busy + now.Idle - s.began.Busy - s.began.Idle; all > 0 {
			o.Client.LoopShare = max(o.Client.LoopShare, float64(now.Busy-s.began.Busy)/float64(all))
		}
	})
	for i := range sums {
		if sums[i].Requests > 0 || sums[i].Errors > 0 {
			if groupLineID(i) != groupJoin { // which are over before the measured part
				sums[i].PerSecond = float64(sums[i].Requests) / o.Measured.Seconds()
			}
			o.Lines = append(o.Lines, sums[i])
		}
	}
}

// onEach runs f on every loop, in parallel, and waits. Not from a loop.
func (r *groupRun) onEach(f func(s *groupLoop)) {
	var wg sync.WaitGroup
	for _, s := range r.loops {
		wg.Add(1)
		s.net.Post(onLoop(func(*netio.Loop) {
			defer wg.Done()
			f(s)
		}))
	}
	wg.Wait()
}

// fail ends the run early; the first reason counts.
func (r *groupRun) fail(err error) {
	if r.ending.Load() {
		return
	}
	select {
	case r.failure <- err:
	default:
	}
}
