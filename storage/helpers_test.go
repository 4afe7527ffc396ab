package storage

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
	"github.com/posthouse/posthouse/storage/vfs"
)

// rounds multiplies the seeds of the random tests: go test ./storage -rounds 20.
var rounds = flag.Uint64("rounds", 1, "multiplies the seeds of the random tests")

// testClock is a clock that stands still.
type testClock struct {
	mu  sync.Mutex
	now record.Timestamp
}

func (c *testClock) Now() record.Timestamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) advance(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += record.Timestamp(ms)
}

// queue is an executor whose jobs run when the test says so.
type queue struct {
	mu   sync.Mutex
	jobs []func()
}

func (q *queue) Submit(job func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs = append(q.jobs, job)
}

// one runs the oldest job, if there is one.
func (q *queue) one() bool {
	q.mu.Lock()
	if len(q.jobs) == 0 {
		q.mu.Unlock()
		return false
	}
	job := q.jobs[0]
	q.jobs = q.jobs[1:]
	q.mu.Unlock()
	job()
	return true
}

// any runs a job chosen by rng.
func (q *queue) any(rng *rand.Rand) bool {
	q.mu.Lock()
	if len(q.jobs) == 0 {
		q.mu.Unlock()
		return false
	}
	i := rng.IntN(len(q.jobs))
	job := q.jobs[i]
	q.jobs = append(q.jobs[:i:i], q.jobs[i+1:]...)
	q.mu.Unlock()
	job()
	return true
}

func (q *queue) drain() {
	for q.one() {
	}
}

const testDir = "/data"

var testTP = record.TopicPartition{Topic: "t", Partition: 0}

var testID = record.TopicID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// env is a manager on a file system of its own.
type env struct {
	t     testing.TB
	fs    vfs.FS
	dir   string
	exec  Executor
	clock *testClock
	cfg   LogConfig
	m     *Manager
	log   *Log
	mcfg  ManagerConfig
}

func newEnv(t testing.TB, fsys vfs.FS, cfg LogConfig) *env {
	return &env{t: t, fs: fsys, dir: testDir, exec: inPlace{}, clock: &testClock{now: 1_700_000_000_000}, cfg: cfg}
}

func testLogger() *slog.Logger {
	if os.Getenv("STORAGE_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// start opens the manager and loads what is there.
func (e *env) start() error {
	cfg := e.mcfg
	cfg.FS, cfg.Dirs, cfg.ClusterID, cfg.NodeID = e.fs, []string{e.dir}, "c", 1
	cfg.Executor, cfg.Clock, cfg.Logger = e.exec, e.clock, testLogger()
	m, err := OpenManager(cfg)
	if err != nil {
		return err
	}
	e.m = m
	if err := m.Load(context.Background(), func(FoundLog) (LogConfig, bool) { return e.cfg, true }, nil); err != nil {
		return err
	}
	e.log = m.Get(testTP)
	return nil
}

// open is start and a log.
func (e *env) open() *Log {
	e.t.Helper()
	if err := e.start(); err != nil {
		e.t.Fatalf("start: %v", err)
	}
	if e.log == nil {
		l, err := e.m.Create(testTP, testID, e.cfg)
		if err != nil {
			e.t.Fatalf("create: %v", err)
		}
		e.log = l
	}
	return e.log
}

// stop closes in order.
func (e *env) stop() {
	e.t.Helper()
	if err := e.m.Close(nil); err != nil {
		e.t.Fatalf("close: %v", err)
	}
	if q, ok := e.exec.(*queue); ok {
		q.drain()
	}
}

// restart is a clean one.
func (e *env) restart() *Log {
	e.t.Helper()
	e.stop()
	return e.open()
}

// kill leaves the manager as it is and starts another one on what a crash of
// the file system leaves.
func (e *env) kill(c vfs.Crash) *Log {
	e.t.Helper()
	e.fs = e.fs.(*vfs.Mem).Crash(c)
	if _, ok := e.exec.(*queue); ok {
		e.exec = &queue{}
	}
	return e.open()
}

// batch builds n records with values of a size, that begin with tag.
func batch(ts record.Timestamp, n, size int, tag string) record.Batch {
	b := record.NewBuilder()
	for i := range n {
		b.Add(ts, nil, value(tag, i, size))
	}
	return b.Build(record.None)
}

func value(tag string, i, size int) []byte {
	v := fmt.Appendf(nil, "%s/%d/", tag, i)
	if len(v) < size {
		v = append(v, bytes.Repeat([]byte{'x'}, size-len(v))...)
	}
	return v
}

// idempotent builds a batch of a producer.
func idempotent(ts record.Timestamp, id record.ProducerID, epoch record.ProducerEpoch, seq record.Sequence, n int) record.Batch {
	b := record.NewBuilder().Producer(id, epoch, seq)
	for i := range n {
		b.Add(ts, nil, value("p", i, 10))
	}
	return b.Build(record.None)
}

// appendBatch appends one batch in epoch 0 as a client's.
func appendBatch(l *Log, b record.Batch) *Append {
	a := &Append{Batch: b, FromClient: true, AppendTime: 42}
	l.AppendAsLeader(0, []*Append{a})
	return a
}

func mustAppend(t testing.TB, l *Log, b record.Batch) *Append {
	t.Helper()
	a := appendBatch(l, b)
	if a.Err != nil {
		t.Fatalf("append: %v", a.Err)
	}
	return a
}

// spanBytes reads and releases a span.
func spanBytes(t testing.TB, s *Span) []byte {
	t.Helper()
	defer s.Release()
	p := make([]byte, s.Length())
	if _, err := s.ReadAt(p, 0); err != nil {
		t.Fatalf("span: %v", err)
	}
	return p
}

// stored is one record as a reader finds it.
type stored struct {
	offset record.Offset
	value  string
}

// readAll reads everything from an offset to the end, maxBytes at a time.
func readAll(t testing.TB, l *Log, from record.Offset, maxBytes int32) []stored {
	t.Helper()
	out, err := tryReadAll(l, from, maxBytes)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return out
}

func tryReadAll(l *Log, from record.Offset, maxBytes int32) ([]stored, error) {
	var out []stored
	for from < l.EndOffset() {
		s, err := l.Read(from, l.EndOffset(), maxBytes, true, false)
		if err != nil {
			return out, err
		}
		if s == nil {
			return out, fmt.Errorf("nothing at %d below the end %d", from, l.EndOffset())
		}
		p := make([]byte, s.Length())
		_, err = s.ReadAt(p, 0)
		s.Release()
		if err != nil {
			return out, err
		}
		before := from
		for {
			b, rest, err := record.Split(p)
			if errors.Is(err, record.ErrShort) {
				break
			}
			if err != nil {
				return out, err
			}
			if !b.VerifyCRC() {
				return out, fmt.Errorf("bad CRC at %d", b.BaseOffset())
			}
			err = b.Each(func(r record.Record) bool {
				if r.Offset >= from {
					out = append(out, stored{r.Offset, string(r.Value)})
				}
				return true
			})
			if err != nil {
				return out, err
			}
			from = b.NextOffset()
			p = rest
		}
		if from == before {
			return out, fmt.Errorf("no progress at %d", from)
		}
	}
	return out, nil
}
