package broker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/netio"
)

const cleanMark = ".kafka_cleanshutdown"

// onEachEngine runs f with every engine of this build.
func onEachEngine(t *testing.T, f func(t *testing.T, engine string)) {
	for _, engine := range netio.Engines() {
		t.Run(engine, func(t *testing.T) { f(t, engine) })
	}
}

// within bounds one step of a test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// lines is a log that a test can read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// options is a node on dir at a port of the system's choice. overrides are
// key=value and win.
func options(t *testing.T, dir string, overrides ...string) (Options, *lines) {
	t.Helper()
	properties := map[string]string{"log.dirs": dir, "listeners": "PLAINTEXT://127.0.0.1:0", "http.listeners": ""}
	for _, o := range overrides {
		key, value, _ := strings.Cut(o, "=")
		properties[key] = value
	}
	cfg, _, err := config.Load(properties, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	})
	return Options{Config: cfg, Logger: slog.New(slog.NewTextHandler(log, nil))}, log
}

// start starts a node that must come up, all logs open.
func start(t *testing.T, dir string, overrides ...string) *Broker {
	t.Helper()
	opts, _ := options(t, dir, overrides...)
	b, err := Start(within(t, 30*time.Second), opts)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	await(t, b)
	return b
}

func await(t *testing.T, b *Broker) {
	t.Helper()
	select {
	case <-b.Loaded():
	case <-time.After(30 * time.Second):
		t.Fatal("logs are still being opened after 30 s")
	}
	if err := b.Err(); err != nil {
		t.Fatalf("opening logs: %v", err)
	}
}

// stop stops a node that must end in order.
func stop(t *testing.T, b *Broker) {
	t.Helper()
	begun := time.Now()
	if err := b.Stop(within(t, 30*time.Second), nil); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Fatalf("the stop took %v", took)
	}
}

// address is where clients reach a node.
func address(b *Broker) string {
	return strings.TrimPrefix(b.Listeners(), "PLAINTEXT://")
}

func client(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return clientAt(t, address(b), opts...)
}

func clientAt(t *testing.T, address string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation(),
		kgo.UnknownTopicRetries(10), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// produce writes the values [from, to) to a topic and waits for their acks.
func produce(t *testing.T, b *Broker, topic string, from, to int) {
	t.Helper()
	cl := client(t, b, kgo.DefaultProduceTopic(topic))
	defer cl.Close()
	records := make([]*kgo.Record, 0, to-from)
	for i := from; i < to; i++ {
		records = append(records, kgo.StringRecord(fmt.Sprint(i)))
	}
	if err := cl.ProduceSync(within(t, 30*time.Second), records...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// consume reads a topic of one partition and fails unless it holds exactly the
// values [0, n), in order.
func consume(t *testing.T, b *Broker, topic string, n int) {
	t.Helper()
	cl := client(t, b, kgo.ConsumeTopics(topic))
	defer cl.Close()
	ctx := within(t, 30*time.Second)
	for next := 0; next < n; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("consume: %v after %d of %d records", err, next, n)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != fmt.Sprint(next) || r.Offset != int64(next) {
				t.Fatalf("offset %d holds %q, want offset and value %d", r.Offset, r.Value, next)
			}
			next++
		})
	}
}

// holdings is what a process can leak.
type holdings struct{ goroutines, files int }

func held(t *testing.T) holdings {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return holdings{runtime.NumGoroutine(), len(files)}
}

// wantHeld fails unless the process comes back to holding no more than before.
func wantHeld(t *testing.T, before holdings) {
	t.Helper()
	var now holdings
	for range 200 {
		if now = held(t); now.goroutines <= before.goroutines && now.files <= before.files {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var open []string
	files, _ := os.ReadDir("/proc/self/fd")
	for _, f := range files {
		to, _ := os.Readlink("/proc/self/fd/" + f.Name())
		open = append(open, f.Name()+"→"+to)
	}
	t.Fatalf("before %+v, now %+v\nfiles: %s\n%s", before, now, strings.Join(open, " "), stacks)
}

func exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}
