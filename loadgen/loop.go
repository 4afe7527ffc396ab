package loadgen

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/results/hdr"
)

// peer is what stands behind a connection: a producer or a consumer. All but
// endpoint is called on its loop.
type peer interface {
	opened(c *netio.Conn)
	frame(payload []byte)
	writable()
	closed(reason error)
	// turn is called once at the end of a turn in which the peer was marked.
	turn()
	isDirty() *bool
	endpoint() *endpoint
}

// endpoint is where a peer's connection goes.
type endpoint struct {
	number int // for people: of the producers, or of the consumers
	what   string
	leader int32
	loop   int
	places []placeKey
	// address changes while there is no connection.
	address string
}

// loopState is what the peers of one loop share; it belongs to the loop.
type loopState struct {
	run     *run
	netLoop *netio.Loop
	encoder encoder
	shapes  []*shape
	pieces  [][]byte

	producers []*producer
	consumers []*consumer
	dirty     []peer
	started   bool
	// window has the end of the run, which an interrupt brings forward.
	window window

	lines    [lineCount]*lineStats
	lateness *hdr.Histogram
	// dueBySecond and receivedBySecond count marked records by the second they
	// were intended in: those that were acknowledged or given up, and those that
	// came.
	dueBySecond, receivedBySecond []int64
	usage                         threadUsage // at the begin of the measured part
}

// markDirty has a peer's turn come at the end of this turn.
func (l *loopState) markDirty(p peer) {
	if d := p.isDirty(); !*d {
		*d = true
		l.dirty = append(l.dirty, p)
	}
}

// countSecond adds n to the count of t's second.
func countSecond(by *[]int64, t, n int64) {
	second := t / 1e9
	if t < 0 || second > 1e6 {
		return
	}
	for int64(len(*by)) <= second {
		*by = append(*by, 0)
	}
	(*by)[second] += n
}

// netHandler hands what comes from the network to the peers.
type netHandler struct{}

func (netHandler) Opened(c *netio.Conn) { c.State.(peer).opened(c) }

func (netHandler) Pipelined([]byte) bool { return true }

func (netHandler) Request(c *netio.Conn, r *netio.Request) {
	c.State.(peer).frame(r.Payload())
	r.NoReply()
}

func (netHandler) EndTurn(l *netio.Loop) {
	s, ok := l.State.(*loopState)
	if !ok {
		return
	}
	for i := 0; i < len(s.dirty); i++ {
		p := s.dirty[i]
		*p.isDirty() = false
		p.turn()
	}
	s.dirty = s.dirty[:0]
}

func (netHandler) Drain(*netio.Loop) {}

func (netHandler) Closed(c *netio.Conn, reason error) { c.State.(peer).closed(reason) }

func (netHandler) Writable(c *netio.Conn) { c.State.(peer).writable() }

// onLoop runs f on a loop.
type onLoop func(l *netio.Loop)

func (f onLoop) Run(l *netio.Loop) { f(l) }

// onEach runs f on every loop, in parallel, and waits. Not from a loop.
func (r *run) onEach(f func(s *loopState)) {
	var wg sync.WaitGroup
	for _, s := range r.loops {
		wg.Add(1)
		s.netLoop.Post(onLoop(func(*netio.Loop) {
			defer wg.Done()
			f(s)
		}))
	}
	wg.Wait()
}

// prepareThread is run on a loop's own thread.
func (s *loopState) prepareThread() {
	s.netLoop.State = s
	// The default slack of 50 µs is longer than the gap between two records.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0)
}
