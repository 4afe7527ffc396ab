package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
	"github.com/posthouse/posthouse/results/hdr"
)

const (
	defaultClientID = "posthouse-load"
	// coresPerLoop leaves the broker, which is often on the same machine, room.
	coresPerLoop = 4
	// startDelay lets consumers ask before the first record is due.
	startDelay = 100 * time.Millisecond
	// dialsAtOnce bounds the connections that are being made.
	dialsAtOnce = 64
	// drainPoll is how often the end looks whether all answers are there.
	drainPoll = 5 * time.Millisecond
	// shapesPerLoop is how many different batches a distribution of sizes gets.
	shapesPerLoop = 32
)

// run is one run while it lasts.
type run struct {
	opts     Options
	workload Workload
	limits   limits
	values   *values
	// id tells this run's records from others'.
	id uint64
	// shaped says that batches are made once: neither marked nor with keys.
	shaped                       bool
	produceVersion, fetchVersion int16
	streams                      int

	server    *netio.Server
	loops     []*loopState
	producers []*producer
	consumers []*consumer

	// startInstant is the begin of the schedule on the loops' clock, start on the
	// wall's; far in the future until all connections are there.
	startInstant atomic.Int64
	start        time.Time

	// ending says that lost connections no longer matter.
	ending atomic.Bool
	// failure has the first reason to end early.
	failure    chan error
	background context.Context // of reconnects
	cancel     context.CancelFunc
	helpers    sync.WaitGroup
	reconnects atomic.Int64
	broken     atomic.Int64 // connections that are away

	problemsMu sync.Mutex
	problems   []string

	// Sums over all loops, as collected.
	sums     [lineCount]*lineStats
	lateness *hdr.Histogram
	ticks    []Tick
}

// now is the time in ns since the run began, negative before.
func (r *run) now() int64 { return int64(netio.InstantOf(time.Now())) - r.startInstant.Load() }

// instant is the loops' clock at t ns after the run began.
func (r *run) instant(t int64) netio.Instant { return netio.Instant(r.startInstant.Load() + t) }

// Run makes the load and measures it. The Outcome is not nil as soon as
// anything was measured, also beside an error: when the broker went away, when
// nothing was acknowledged, when verify found a fault. A ctx that ends stops
// the run early, which is no error: the outcome says interrupted.
func Run(ctx context.Context, opts Options) (*Outcome, error) {
	if err := opts.Workload.Validate(); err != nil {
		return nil, err
	}
	r := newRun(opts)
	defer r.close()
	if err := r.setUp(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return r.measure(ctx)
}

func newRun(opts Options) *run {
	if opts.ClientID == "" {
		opts.ClientID = defaultClientID
	}
	if opts.Loops <= 0 {
		opts.Loops = max(1, runtime.NumCPU()/coresPerLoop)
	}
	w := opts.Workload
	r := &run{
		opts: opts, workload: w, limits: newLimits(&w), id: rand.Uint64() | 1,
		shaped:  !w.stamped() && w.Keys.Distribution == "none",
		failure: make(chan error, 1), lateness: hdr.New(),
	}
	r.background, r.cancel = context.WithCancel(context.Background())
	r.startInstant.Store(math.MaxInt64 / 2)
	for i := range r.sums {
		r.sums[i] = newLineStats()
	}
	return r
}

// close ends everything that runs.
func (r *run) close() {
	r.ending.Store(true)
	r.cancel()
	r.helpers.Wait()
	if r.server != nil {
		r.server.Close()
	}
}

// fail ends the run early; the first reason counts. Any goroutine.
func (r *run) fail(err error) {
	select {
	case r.failure <- err:
	default:
	}
}

// setUp does everything that comes before the first record.
func (r *run) setUp(ctx context.Context) error {
	c, err := dialControl(ctx, r.opts.Bootstrap, r.opts.ClientID)
	if err != nil {
		return err
	}
	defer c.close()
	if r.produceVersion, err = c.pick(wire.KeyProduce, produceVersionMin, produceVersionMax); err != nil {
		return err
	}
	if r.fetchVersion, err = c.pick(wire.KeyFetch, fetchVersionMin, fetchVersionMax); err != nil {
		return err
	}
	cl, err := r.ensureTopics(ctx, c)
	if err != nil {
		return err
	}
	all, err := r.locate(cl)
	if err != nil {
		return err
	}
	if err := r.makePeers(all, cl); err != nil {
		return err
	}
	if err := r.startOffsets(ctx); err != nil {
		return err
	}
	if err := r.identities(ctx, c); err != nil {
		return err
	}
	if err := r.startLoops(); err != nil {
		return err
	}
	return r.connectAll(ctx)
}

// makePeers makes producers and consumers and gives them their partitions.
func (r *run) makePeers(all []location, cl *cluster) error {
	w := &r.workload
	if w.produces() {
		hands, err := deal(all, w.Connections)
		if err != nil {
			return fmt.Errorf("connections: %w", err)
		}
		for i, hand := range hands {
			r.producers = append(r.producers, r.newProducer(i, hand, cl))
		}
	}
	consumers := w.Consumers
	if w.stamped() {
		// Each record is to be received once.
		consumers = min(consumers, len(all))
	}
	groups := []struct {
		n      int
		line   lineID
		rewind bool
	}{{consumers, lineFetch, w.Rewind}, {w.CatchUp, lineCatchUp, true}}
	for _, g := range groups {
		if g.n == 0 {
			continue
		}
		hands, err := deal(all, g.n)
		if err != nil {
			return fmt.Errorf("consumers: %w", err)
		}
		for _, hand := range hands {
			c := newConsumer(r, g.line, g.rewind, places(hand))
			c.home = r.newEndpoint(len(r.consumers), "consumer", hand, cl)
			c.timer.Task = c
			r.consumers = append(r.consumers, c)
		}
	}
	return nil
}

func (r *run) newEndpoint(number int, what string, hand []location, cl *cluster) endpoint {
	return endpoint{
		number: number, what: what, leader: hand[0].leader, address: cl.addresses[hand[0].leader],
		loop: number % r.opts.Loops, places: places(hand),
	}
}

func (r *run) newProducer(i int, hand []location, cl *cluster) *producer {
	w := &r.workload
	p := &producer{run: r, home: r.newEndpoint(i, "producer", hand, cl), left: math.MaxInt64, producerID: -1, producerEpoch: -1}
	p.timer.Task = p
	p.rng = rand.New(rand.NewPCG(w.Seed, uint64(i)))
	p.keys = newKeyPicker(&w.Keys, p.rng)
	if w.Schedule.Open() {
		p.arrivals = newArrivals(&w.Schedule, i, w.Connections, w.Seed)
	}
	if w.Records > 0 {
		n := int64(w.Connections)
		p.left = w.Records/n + boolToInt(int64(i) < w.Records%n)
	}
	for _, place := range p.home.places {
		p.parts = append(p.parts, &part{topic: place.topic, index: place.partition, stream: uint32(r.streams)})
		r.streams++
	}
	// Producers of many partitions do not all begin with the first.
	p.current = i % len(p.parts)
	return p
}

func boolToInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// startOffsets finds where consumers begin.
func (r *run) startOffsets(ctx context.Context) error {
	if len(r.consumers) == 0 {
		return nil
	}
	latest := r.workload.produces() || r.workload.From == "latest"
	for _, line := range []lineID{lineFetch, lineCatchUp} {
		position := positionEarliest
		if line == lineFetch && latest {
			position = positionLatest
		}
		offsets, err := r.askOffsets(ctx, line, position)
		if err != nil {
			return err
		}
		for _, c := range r.consumers {
			if c.line == line {
				for _, p := range c.parts {
					p.begin = offsets[p.place]
					p.offset = p.begin
				}
			}
		}
	}
	return nil
}

// askOffsets asks the leaders of the partitions of a line's consumers.
func (r *run) askOffsets(ctx context.Context, line lineID, position int64) (map[placeKey]int64, error) {
	wanted := map[string][]placeKey{}
	seen := map[placeKey]bool{}
	for _, c := range r.consumers {
		for _, p := range c.parts {
			if c.line == line && !seen[p.place] {
				seen[p.place] = true
				wanted[c.home.address] = append(wanted[c.home.address], p.place)
			}
		}
	}
	offsets := map[placeKey]int64{}
	for address, keys := range wanted {
		c, err := dialControlOne(ctx, address, r.opts.ClientID)
		if err != nil {
			return nil, err
		}
		got, err := c.listOffsetsPatiently(ctx, keys, position)
		c.close()
		if err != nil {
			return nil, err
		}
		for place, offset := range got {
			offsets[place] = offset
		}
	}
	return offsets, nil
}

// identities gives each idempotent producer its id.
func (r *run) identities(ctx context.Context, c *control) error {
	if !r.workload.Idempotent {
		return nil
	}
	for _, p := range r.producers {
		id, epoch, err := c.initProducerID(ctx)
		if err != nil {
			return err
		}
		p.producerID, p.producerEpoch = id, epoch
	}
	return nil
}

// startLoops starts the loops and tells each what runs on it.
func (r *run) startLoops() (err error) {
	w := &r.workload
	_, largest := w.Record.bounds()
	if w.produces() {
		r.values = newValues(rand.New(rand.NewPCG(w.Seed, 0)), largest, w.Compressibility)
	}
	r.server, err = netio.NewServer(netio.Config{
		Engine: r.opts.Engine, Loops: r.opts.Loops, LoopbackCongestion: r.opts.LoopbackCongestion,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, netHandler{})
	if err != nil {
		return err
	}
	codec, _ := w.codec()
	for i, netLoop := range r.server.Loops() {
		s := &loopState{run: r, netLoop: netLoop, lateness: hdr.New(), window: window{int64(w.Warmup), int64(w.Duration)}}
		s.encoder = encoder{run: r, codec: codec, version: r.produceVersion}
		rng := rand.New(rand.NewPCG(w.Seed, uint64(i)+1<<32))
		s.encoder.keys = newKeyPicker(&w.Keys, rng)
		if w.produces() && r.shaped {
			n := 1
			if low, high := w.Record.bounds(); low != high {
				n = shapesPerLoop
			}
			for range n {
				s.shapes = append(s.shapes, newShape(&r.limits, r.values, &w.Record, rng))
			}
		}
		for l := range s.lines {
			s.lines[l] = newLineStats()
		}
		r.loops = append(r.loops, s)
	}
	for _, p := range r.producers {
		p.loop = r.loops[p.home.loop]
		p.loop.producers = append(p.loop.producers, p)
	}
	for _, c := range r.consumers {
		c.loop = r.loops[c.home.loop]
		c.loop.consumers = append(c.loop.consumers, c)
	}
	r.onEach((*loopState).prepareThread)
	return nil
}

func (r *run) peers() []peer {
	var all []peer
	for _, p := range r.producers {
		all = append(all, p)
	}
	for _, c := range r.consumers {
		all = append(all, c)
	}
	return all
}

// connectAll makes all connections, several at once.
func (r *run) connectAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var once sync.Once
	var failure error
	slots := make(chan struct{}, dialsAtOnce)
	for _, p := range r.peers() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := r.dial(ctx, p); err != nil {
				once.Do(func() { failure = err; cancel() })
			}
		})
	}
	wg.Wait()
	return failure
}

func (r *run) dial(ctx context.Context, p peer) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	e := p.endpoint()
	if _, err := r.server.Dial(ctx, e.address, e.loop, p); err != nil {
		return fmt.Errorf("%s %d to %s: %w", e.what, e.number, e.address, err)
	}
	return nil
}

// lost is told of a connection that ended while the run goes on. Verify makes
// it again; otherwise it is the end of the run. On the peer's loop.
func (r *run) lost(p peer, reason error) {
	if r.ending.Load() {
		return
	}
	e := p.endpoint()
	if r.workload.Mode != ModeVerify {
		r.fail(fmt.Errorf("%s %d lost its connection to %s: %s", e.what, e.number, e.address, plain(reason)))
		return
	}
	r.broken.Add(1)
	r.helpers.Go(func() { r.reconnect(p, reason) })
}

// plain is a reason to close a connection in words for people.
func plain(reason error) string {
	if errors.Is(reason, netio.ErrPeerClosed) {
		return "closed by the broker"
	}
	return reason.Error()
}
