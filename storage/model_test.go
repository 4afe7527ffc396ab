package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// modelBatch is one batch of the plain model of a log.
type modelBatch struct {
	base, last record.Offset
	epoch      record.LeaderEpoch
	producer   record.ProducerID
	prodEpoch  record.ProducerEpoch
	firstSeq   record.Sequence
	times      []record.Timestamp
	values     []string
}

// model is a log as a list.
type model struct {
	t          *testing.T
	rng        *rand.Rand
	e          *env
	l          *Log
	batches    []modelBatch
	start, end record.Offset
	epoch      record.LeaderEpoch
	stamp      record.Timestamp
	serial     int
}

// TestModel compares a log with a plain list under random appends, reads,
// rolls, truncations, deletions of records, clean restarts and kills.
func TestModel(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds * *rounds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { runModel(t, seed) })
	}
}

func runModel(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	cfg := LogConfig{SegmentBytes: 1000 + rng.Int32N(8000), IndexIntervalBytes: rng.Int32N(600),
		SegmentMs: 1000 + rng.Int64N(100000), SegmentJitterMs: rng.Int64N(500), FileDeleteDelayMs: rng.Int64N(5000)}
	if rng.IntN(3) == 0 {
		cfg.SegmentIndexBytes = 64 + rng.Int32N(200)
	}
	e := newEnv(t, vfs.NewMem(), cfg)
	if rng.IntN(2) == 0 {
		e.exec = &queue{}
	}
	e.clock.now = 1000 // that of the records, or their producers would expire
	m := &model{t: t, rng: rng, e: e, stamp: 1000}
	m.l = e.open()
	for range 150 {
		m.step()
	}
	m.readEverything()
}

func (m *model) step() {
	n := m.rng.IntN(100)
	if testing.Verbose() {
		m.t.Logf("step %d on [%d, %d) epoch %d, log epochs %v, recovery point %d, segments %v", n, m.start, m.end, m.epoch, m.l.epochs.entries, m.l.RecoveryPoint(), m.l.Segments())
	}
	switch {
	case n < 50:
		m.appendLeader()
	case n < 55:
		m.appendFollower()
	case n < 70:
		m.readOne()
	case n < 74:
		m.lookUpTime()
	case n < 78:
		if q, ok := m.e.exec.(*queue); ok {
			q.any(m.rng)
		}
	case n < 80:
		m.must(m.l.Roll())
	case n < 82:
		m.truncate()
	case n < 84:
		m.deleteRecords()
	case n < 86:
		m.must(m.e.m.Checkpoint())
		m.e.clock.advance(m.rng.Int64N(3000))
		m.e.m.Tick()
	case n < 88:
		m.must(m.l.Flush(m.l.EndOffset()))
	case n < 91:
		m.epoch += record.LeaderEpoch(1 + m.rng.IntN(3))
		m.must(m.l.AssignEpoch(m.epoch, m.end))
	case n < 95:
		m.l = m.e.restart()
		m.readEverything()
	case n < 98:
		m.l = m.e.kill(vfs.Crash{Mode: vfs.CrashKeep})
		m.readEverything()
	default:
		m.readEverything()
	}
	if m.l.EndOffset() != m.end || m.l.StartOffset() != m.start {
		m.t.Fatalf("log [%d, %d), want [%d, %d)", m.l.StartOffset(), m.l.EndOffset(), m.start, m.end)
	}
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// build makes a batch and its model at the given end.
func (m *model) build(at record.Offset, epoch record.LeaderEpoch) (record.Batch, modelBatch) {
	n := 1 + m.rng.IntN(5)
	mb := modelBatch{base: at, last: at + record.Offset(n) - 1, epoch: epoch, producer: record.NoProducerID}
	b := record.NewBuilder().At(at, epoch)
	if m.rng.IntN(2) == 0 {
		mb.producer = record.ProducerID(1 + m.rng.IntN(3))
		mb.prodEpoch, mb.firstSeq = m.nextSequence(mb.producer)
		b.Producer(mb.producer, mb.prodEpoch, mb.firstSeq)
	}
	for i := range n {
		m.serial++
		ts := m.stamp + record.Timestamp(m.rng.IntN(100))
		v := value(fmt.Sprint("m", m.serial), i, m.rng.IntN(200))
		b.Add(ts, nil, v)
		mb.times = append(mb.times, ts)
		mb.values = append(mb.values, string(v))
	}
	m.stamp += record.Timestamp(m.rng.IntN(40))
	return b.Build(record.Codec(m.rng.IntN(5))), mb
}

// nextSequence is what a producer must send next. Sometimes it begins a new
// epoch, at 0.
func (m *model) nextSequence(id record.ProducerID) (record.ProducerEpoch, record.Sequence) {
	for i := len(m.batches) - 1; i >= 0; i-- {
		if b := &m.batches[i]; b.producer == id {
			if m.rng.IntN(20) == 0 {
				return b.prodEpoch + 1, 0
			}
			return b.prodEpoch, b.firstSeq.Add(int32(len(b.values)))
		}
	}
	return 0, 0
}

func (m *model) appendLeader() {
	before := len(m.batches)
	end := m.end
	var as []*Append
	for range 1 + m.rng.IntN(4) {
		b, mb := m.build(end, m.epoch)
		m.batches = append(m.batches, mb)
		end = mb.last + 1
		as = append(as, &Append{Batch: b, FromClient: true})
	}
	// A repeat of one of the last batches of a producer, sometimes.
	if repeat := m.lastOf(); repeat != nil && m.rng.IntN(3) == 0 {
		b := record.NewBuilder().Producer(repeat.producer, repeat.prodEpoch, repeat.firstSeq)
		for i := range repeat.values {
			b.Add(repeat.times[i], nil, []byte(repeat.values[i]))
		}
		as = append(as, &Append{Batch: b.Build(record.None), FromClient: true})
		defer func() {
			if a := as[len(as)-1]; a.Err != nil || !a.Duplicate || a.BaseOffset != repeat.base || a.LastOffset != repeat.last {
				m.t.Fatalf("repeat of %d..%d: %+v", repeat.base, repeat.last, a)
			}
		}()
	}
	m.l.AppendAsLeader(m.epoch, as)
	for i, mb := range m.batches[before:] {
		if a := as[i]; a.Err != nil || a.Duplicate || a.BaseOffset != mb.base || a.LastOffset != mb.last {
			m.t.Fatalf("append %+v, want base %d", a, mb.base)
		}
	}
	m.end = end
}

// lastOf is the latest batch of some producer, which survives restarts too.
func (m *model) lastOf() *modelBatch {
	id := record.ProducerID(1 + m.rng.IntN(3))
	for i := len(m.batches) - 1; i >= 0; i-- {
		if b := &m.batches[i]; b.producer == id {
			return b
		}
	}
	return nil
}

func (m *model) appendFollower() {
	var records []byte
	end := m.end
	if m.rng.IntN(4) == 0 {
		m.epoch++
	}
	for range 1 + m.rng.IntN(4) {
		b, mb := m.build(end, m.epoch)
		records = append(records, b...)
		m.batches = append(m.batches, mb)
		end = mb.last + 1
	}
	if m.rng.IntN(2) == 0 { // a cut batch at the end
		cut, _ := m.build(end, m.epoch)
		records = append(records, cut[:m.rng.IntN(len(cut))]...)
	}
	m.must(m.l.AppendAsFollower(records))
	m.end = end
}

// at is the index of the batch that holds an offset.
func (m *model) at(o record.Offset) int {
	for i := range m.batches {
		if m.batches[i].last >= o {
			return i
		}
	}
	return len(m.batches)
}

func (m *model) readOne() {
	o := m.start + record.Offset(m.rng.IntN(int(m.end-m.start)+3)) - 1
	limit := m.start + record.Offset(m.rng.IntN(int(m.end-m.start)+1))
	maxBytes := int32(1 + m.rng.IntN(3000))
	minOne := m.rng.IntN(2) == 0
	s, err := m.l.Read(o, limit, maxBytes, minOne, false)
	if o < m.start || o > m.end {
		if !errors.Is(err, kerr.OffsetOutOfRange) {
			m.t.Fatalf("read at %d of [%d, %d): %v", o, m.start, m.end, err)
		}
		return
	}
	m.must(err)
	i := m.at(o)
	if o >= limit || i < len(m.batches) && m.batches[i].last >= limit {
		if s != nil {
			m.t.Fatalf("read at %d with limit %d gives %d bytes from %d", o, limit, s.Length(), s.BaseOffset())
		}
		return
	}
	if s == nil {
		if minOne {
			m.t.Fatalf("read at %d with limit %d of [%d, %d): nothing", o, limit, m.start, m.end)
		}
		return
	}
	if s.BaseOffset() != m.batches[i].base {
		m.t.Fatalf("read at %d begins at %d, want %d", o, s.BaseOffset(), m.batches[i].base)
	}
	m.compareBatches(spanBytes(m.t, s), i, limit, minOne)
}

// compareBatches compares the bytes of a span with the batches from index i.
func (m *model) compareBatches(p []byte, i int, limit record.Offset, minOne bool) {
	first := true
	for len(p) > 0 {
		b, rest, err := record.Split(p)
		if errors.Is(err, record.ErrShort) && !(first && minOne) {
			return
		}
		m.must(err)
		mb := &m.batches[i]
		if b.BaseOffset() != mb.base || b.LastOffset() != mb.last || b.LeaderEpoch() != mb.epoch || !b.VerifyCRC() || mb.last >= limit {
			m.t.Fatalf("batch %v, want %d..%d of epoch %d below %d", b, mb.base, mb.last, mb.epoch, limit)
		}
		k := 0
		m.must(b.Each(func(r record.Record) bool {
			if string(r.Value) != mb.values[k] || r.Timestamp != mb.times[k] {
				m.t.Fatalf("record %d is %q at %d", r.Offset, r.Value, r.Timestamp)
			}
			k++
			return true
		}))
		i, p, first = i+1, rest, false
	}
}

func (m *model) lookUpTime() {
	ts := m.stamp - record.Timestamp(m.rng.IntN(int(m.stamp))) + 50
	want, wantTs, wantEpoch := record.Offset(-1), record.NoTimestamp, record.NoLeaderEpoch
search:
	for _, b := range m.batches {
		for k, t := range b.times {
			if o := b.base + record.Offset(k); t >= ts && o >= m.start {
				want, wantTs, wantEpoch = o, t, b.epoch
				break search
			}
		}
	}
	o, at, epoch, err := m.l.OffsetForTimestamp(ts)
	m.must(err)
	if o != want || at != wantTs || epoch != wantEpoch {
		m.t.Fatalf("first at or after %d: %d at %d of epoch %d, want %d at %d of epoch %d", ts, o, at, epoch, want, wantTs, wantEpoch)
	}
}

func (m *model) truncate() {
	i := m.at(m.start + record.Offset(m.rng.IntN(int(m.end-m.start)+1)))
	to := m.end
	if i < len(m.batches) {
		to = max(m.batches[i].base, m.start)
		if to > m.batches[i].base {
			return // inside a batch whose head is deleted
		}
		m.batches = m.batches[:i]
	}
	m.must(m.l.TruncateSuffix(to))
	m.end = to
}

func (m *model) deleteRecords() {
	to := m.start + record.Offset(m.rng.IntN(int(m.end-m.start)+2))
	err := m.l.SetStartOffset(to)
	if to > m.end {
		if !errors.Is(err, kerr.OffsetOutOfRange) {
			m.t.Fatalf("start %d past the end %d: %v", to, m.end, err)
		}
		return
	}
	m.must(err)
	m.start = to
}

// readEverything compares all batches, the epochs and the producers.
func (m *model) readEverything() {
	if m.l.StartOffset() != m.start || m.l.EndOffset() != m.end {
		m.t.Fatalf("log [%d, %d), want [%d, %d)", m.l.StartOffset(), m.l.EndOffset(), m.start, m.end)
	}
	for o := m.start; o < m.end; {
		s, err := m.l.Read(o, m.end, 1<<20, true, false)
		m.must(err)
		if s == nil {
			m.t.Fatalf("nothing at %d", o)
		}
		p := spanBytes(m.t, s)
		m.compareBatches(p, m.at(o), m.end, true)
		for len(p) > 0 {
			b, rest, err := record.Split(p)
			m.must(err)
			o, p = b.NextOffset(), rest
		}
	}
	for _, b := range m.batches {
		if b.base >= m.start {
			if e := m.l.EpochForOffset(b.base); e != b.epoch {
				m.t.Fatalf("epoch of %d is %d, want %d", b.base, e, b.epoch)
			}
		}
	}
	last := map[record.ProducerID]*modelBatch{}
	for i := range m.batches {
		if b := &m.batches[i]; b.producer >= 0 {
			last[b.producer] = b
		}
	}
	for _, p := range m.l.Producers() {
		b := last[p.ProducerID]
		if b == nil {
			continue // its batches were truncated below what a snapshot remembers
		}
		if b.base >= m.start && (p.Epoch != b.prodEpoch || p.LastSequence != b.firstSeq.Add(int32(len(b.values))-1)) {
			m.t.Fatalf("producer %+v, want epoch %d and sequence %d of %d", p, b.prodEpoch, b.firstSeq, len(b.values))
		}
		delete(last, p.ProducerID)
	}
	for id, b := range last {
		if b.base >= m.start {
			m.t.Fatalf("producer %d is forgotten, its last batch is at %d", id, b.base)
		}
	}
}
