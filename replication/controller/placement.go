package controller

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/posthouse/posthouse/storage/record"
	"github.com/twmb/franz-go/pkg/kerr"
)

// placer spreads replicas over racks and brokers as Kafka's
// StripedReplicaPlacer does: the replicas of one partition go to racks in turn,
// each partition begins one rack further on, and within a rack each partition
// begins one broker further on. Once every live broker has led a partition the
// order is shuffled, so that the same sets do not come again. Fenced brokers
// are used last and never lead.
type placer struct {
	random    *rand.Rand
	names     []string // racks, sorted, then shuffled
	racks     map[string]*rack
	brokers   int // registered
	live      int // not fenced
	epoch     int
	firstRack int
}

type rack struct{ live, fenced brokerRing }

// brokerRing gives each of its brokers once per epoch.
type brokerRing struct {
	ids    []int32
	given  int
	offset int
	epoch  int
}

func (r *brokerRing) next(epoch int) (int32, bool) {
	if len(r.ids) == 0 {
		return 0, false
	}
	if r.epoch != epoch {
		r.epoch, r.given, r.offset = epoch, 0, (r.offset+1)%len(r.ids)
	}
	if r.given >= len(r.ids) {
		return 0, false
	}
	id := r.ids[(r.given+r.offset)%len(r.ids)]
	r.given++
	return id, true
}

func (r *brokerRing) start(random *rand.Rand) {
	if len(r.ids) > 0 {
		r.offset = random.IntN(len(r.ids))
	}
}

func newPlacer(im *meta.Image, random *rand.Rand) *placer {
	p := &placer{random: random, racks: map[string]*rack{}}
	for _, b := range im.Brokers {
		r := p.racks[b.Rack]
		if r == nil {
			r = &rack{}
			p.racks[b.Rack] = r
			p.names = append(p.names, b.Rack)
		}
		p.brokers++
		if b.Fenced {
			r.fenced.ids = append(r.fenced.ids, b.ID)
		} else {
			r.live.ids = append(r.live.ids, b.ID)
			p.live++
		}
	}
	// Racks with a live broker first.
	slices.SortFunc(p.names, func(a, b string) int {
		return cmp.Or(cmp.Compare(min(len(p.racks[b].live.ids), 1), min(len(p.racks[a].live.ids), 1)), cmp.Compare(a, b))
	})
	for _, name := range p.names {
		p.racks[name].live.start(random)
		p.racks[name].fenced.start(random)
	}
	if len(p.names) > 0 {
		p.firstRack = random.IntN(len(p.names))
	}
	return p
}

// place returns the replicas of count partitions, leaders first.
func (p *placer) place(count, replicas int) ([][]int32, error) {
	switch {
	case replicas <= 0:
		return nil, record.Errorf(kerr.InvalidReplicationFactor, "Invalid replication factor %d: the replication factor must be positive.", replicas)
	case p.live == 0:
		return nil, record.Errorf(kerr.InvalidReplicationFactor, "All brokers are currently fenced.")
	case replicas > p.brokers:
		return nil, record.Errorf(kerr.InvalidReplicationFactor, "The target replication factor of %d cannot be reached because only %d broker(s) are registered.", replicas, p.brokers)
	}
	out := make([][]int32, count)
	for i := range out {
		out[i] = p.one(replicas)
	}
	return out, nil
}

// one places one partition. There are enough brokers, so the loops end.
func (p *placer) one(replicas int) []int32 {
	if p.epoch == p.live && p.live > 1 {
		p.shuffle()
		p.epoch = 0
	}
	p.firstRack %= len(p.names)
	out := make([]int32, 0, replicas)
	leaderRack := p.firstRack
	for len(out) == 0 {
		if id, ok := p.racks[p.names[leaderRack]].live.next(p.epoch); ok {
			out = append(out, id)
			break
		}
		leaderRack = (leaderRack + 1) % len(p.names)
	}
	for at := p.firstRack; len(out) < replicas; at = (at + 1) % len(p.names) {
		if at == leaderRack {
			leaderRack = -1 // the leader's rack has had its turn in the first round
			continue
		}
		r := p.racks[p.names[at]]
		id, ok := r.live.next(p.epoch)
		if !ok {
			id, ok = r.fenced.next(p.epoch)
		}
		if ok {
			out = append(out, id)
		}
	}
	p.epoch++
	p.firstRack++
	return out
}

func (p *placer) shuffle() {
	swap := func(s []int32) func(i, j int) { return func(i, j int) { s[i], s[j] = s[j], s[i] } }
	for _, name := range p.names {
		r := p.racks[name]
		p.random.Shuffle(len(r.live.ids), swap(r.live.ids))
		p.random.Shuffle(len(r.fenced.ids), swap(r.fenced.ids))
	}
	p.random.Shuffle(len(p.names), func(i, j int) { p.names[i], p.names[j] = p.names[j], p.names[i] })
}
