package broker

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/posthouse/posthouse/engine/metrics"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/storage"
	"github.com/posthouse/posthouse/storage/record"
)

const withHTTP = "http.listeners=127.0.0.1:0"

// get asks a node's HTTP endpoints.
func get(t *testing.T, b *Broker, path string) (code int, body string) {
	t.Helper()
	client := http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + b.HTTP()[0] + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// ask calls the handler in the test's own goroutine.
func ask(b *Broker, path string) (code int, body string) {
	w := httptest.NewRecorder()
	b.httpHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// scrape parses /metrics.
func scrape(t *testing.T, b *Broker, query string) map[string]*dto.MetricFamily {
	t.Helper()
	code, body := get(t, b, "/metrics"+query)
	if code != http.StatusOK {
		t.Fatalf("/metrics%s: %d %s", query, code, body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value is the value of the series with exactly these labels, name and value in
// turn; -1 if there is none.
func value(f *dto.MetricFamily, labels ...string) float64 {
	for _, m := range f.GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetName(), l.GetValue())
		}
		if !slices.Equal(have, labels) {
			continue
		}
		switch f.GetType() {
		case dto.MetricType_COUNTER:
			return m.GetCounter().GetValue()
		case dto.MetricType_HISTOGRAM:
			return float64(m.GetHistogram().GetSampleCount())
		}
		return m.GetGauge().GetValue()
	}
	return -1
}

// smoke puts something into most of what is measured.
func smoke(t *testing.T, b *Broker) {
	t.Helper()
	produce(t, b, "orders", 0, 100)
	cl := client(t, b, kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("readers"), kgo.DisableAutoCommit())
	defer cl.Close()
	ctx := within(t, 30*time.Second)
	for n := 0; n < 100; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		n += fetches.NumRecords()
	}
	if err := cl.CommitRecords(ctx, &kgo.Record{Topic: "orders", Offset: 39, LeaderEpoch: -1}); err != nil {
		t.Fatal(err)
	}
	if err := b.storage.Logs()[0].Flush(1); err != nil {
		t.Fatal(err)
	}
}

// TestMetrics wants every metric of the list after a little traffic, with the
// figures of that traffic.
func TestMetrics(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		b := start(t, t.TempDir(), withHTTP, "netio.engine="+engine, "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=2")
		defer stop(t, b)
		smoke(t, b)
		families := scrape(t, b, "")
		for _, m := range metrics.All() {
			if families[m.Name] == nil {
				t.Errorf("no series of %s", m.Name)
			}
		}
		for _, c := range []struct {
			metric *metrics.Metric
			labels []string
			want   float64
		}{
			{metrics.MessagesIn, []string{"topic", "orders"}, 100},
			{metrics.LogEndOffset, []string{"partition", "0", "topic", "orders"}, 100},
			{metrics.GroupOffset, []string{"consumergroup", "readers", "partition", "0", "topic", "orders"}, 40},
			{metrics.GroupLag, []string{"consumergroup", "readers", "partition", "0", "topic", "orders"}, 60},
			{metrics.ActiveController, nil, 1},
			{metrics.Ready, nil, 1},
			{metrics.LoopsStalled, nil, 0},
			{metrics.OfflineReplicas, nil, 0},
			{metrics.ConnectionsRefused, []string{"listener", "PLAINTEXT"}, 0},
		} {
			if got := value(families[c.metric.Name], c.labels...); got != c.want {
				t.Errorf("%s%v is %v, want %v", c.metric.Name, c.labels, got, c.want)
			}
		}
		for _, m := range []*metrics.Metric{metrics.BytesIn, metrics.BytesOut} {
			if topic, all := value(families[m.Name], "topic", "orders"), value(families[m.Name], "topic", ""); topic <= 0 || all < topic {
				t.Errorf("%s: %v of %v", m.Name, topic, all)
			}
		}
		for _, request := range []string{"Produce", "Fetch", "FetchConsumer", "JoinGroup", "OffsetCommit"} {
			if n := value(families[metrics.TotalTime.Name], "request", request); n < 1 {
				t.Errorf("%s was timed %v times", request, n)
			}
		}
		for _, name := range []string{"go_sched_pauses_total_gc_seconds", "process_resident_memory_bytes", "go_goroutines"} {
			if families[name] == nil {
				t.Errorf("no %s", name)
			}
		}
	})
}

// lintAllowed are complaints that Kafka's names bring with them.
var lintAllowed = regexp.MustCompile(`^kafka_server_(socket_server_metrics_connection|group_coordinator_metrics_group)_count: non-histogram and non-summary metrics should not have "_count" suffix$` +
	`|^kafka_\w+: label names should be written in 'snake_case' not 'camelCase'$`)

func TestMetricsLint(t *testing.T) {
	b := start(t, t.TempDir(), withHTTP)
	defer stop(t, b)
	everything := func(string) bool { return true }
	problems, err := testutil.GatherAndLint(metrics.Gatherer(b.sources(t.Context(), everything)...))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if text := p.Metric + ": " + p.Text; !lintAllowed.MatchString(text) {
			t.Error(text)
		}
	}
}

// TestMetricsBound leaves series out when there are too many, and says so.
func TestMetricsBound(t *testing.T) {
	b := start(t, t.TempDir(), withHTTP, "http.metrics.partitions.max=1")
	defer stop(t, b)
	produce(t, b, "a", 0, 1)
	produce(t, b, "b", 0, 1)
	all := scrape(t, b, "")
	if n := value(all[metrics.LeftOut.Name], "kind", "partition"); n != 2 || all[metrics.LogSize.Name] != nil {
		t.Errorf("two partitions, one allowed: %v left out, sizes %v", n, all[metrics.LogSize.Name])
	}
	if n := value(all[metrics.MessagesIn.Name], "topic", ""); n != 2 {
		t.Errorf("%v records in all", n)
	}
	some := scrape(t, b, "?topic=a")
	if value(some[metrics.LogEndOffset.Name], "partition", "0", "topic", "a") != 1 || len(some[metrics.LogEndOffset.Name].GetMetric()) != 1 {
		t.Errorf("asked for topic a: %v", some[metrics.LogEndOffset.Name])
	}
	if code, body := get(t, b, "/metrics?topic=("); code != http.StatusBadRequest {
		t.Errorf("a bad expression: %d %s", code, body)
	}
}

// TestBrokerTotalsOutliveTopics deletes a topic: counters never fall.
func TestBrokerTotalsOutliveTopics(t *testing.T) {
	b := start(t, t.TempDir(), withHTTP)
	defer stop(t, b)
	produce(t, b, "gone", 0, 5)
	ctx := within(t, 20*time.Second)
	if errs := b.controller.DeleteTopics(ctx, []record.TopicID{b.controller.Image().Topics["gone"].ID}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if err := b.replicas.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	f := scrape(t, b, "")[metrics.MessagesIn.Name]
	if all, topic := value(f, "topic", ""), value(f, "topic", "gone"); all != 5 || topic != -1 {
		t.Errorf("after the topic is gone: broker %v, topic %v", all, topic)
	}
}

func TestReadiness(t *testing.T) {
	b := start(t, t.TempDir(), withHTTP)
	defer stop(t, b)
	if code, body := get(t, b, "/readyz"); code != http.StatusOK || !strings.HasPrefix(body, "ready\n") {
		t.Fatalf("a node that is up: %d %s", code, body)
	}
	wantNotReady := func(line string) {
		t.Helper()
		code, body := ask(b, "/readyz")
		if code != http.StatusServiceUnavailable || !strings.HasPrefix(body, "not ready\n") || !strings.Contains(body, line) {
			t.Errorf("want %q: %d %s", line, code, body)
		}
	}
	loaded := b.loaded
	b.loaded = make(chan struct{})
	b.loadDone.Store(3)
	b.loadTotal.Store(12)
	wantNotReady("logs: 3 of 12 open")
	b.loaded = loaded

	b.stopping.Store(true)
	wantNotReady("stop: the node is stopping")
	if code, body := ask(b, "/healthz"); code != http.StatusOK {
		t.Errorf("a node that stops is not dead: %d %s", code, body)
	}
	b.stopping.Store(false)

	dirs := b.dirs.ask
	b.dirs.ask = func() []storage.DirInfo {
		all := dirs()
		all[0].Err = fmt.Errorf("statfs %s: input/output error", all[0].Path)
		return all
	}
	wantNotReady("log directories: statfs ")
	if n := value(scrape(t, b, "")[metrics.OfflineLogDirs.Name]); n != 1 {
		t.Errorf("%v log directories are offline, want 1", n)
	}
	b.dirs.ask = dirs
	if code, body := ask(b, "/readyz"); code != http.StatusOK {
		t.Errorf("all is well again: %d %s", code, body)
	}
}

// blockLoop holds an event loop until released is closed.
type blockLoop struct{ begun, released chan struct{} }

func (t *blockLoop) Run(*netio.Loop) {
	close(t.begun)
	<-t.released
}

func TestHealthOfStalledLoop(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		b := start(t, t.TempDir(), withHTTP, "netio.loops=2", "netio.engine="+engine)
		defer stop(t, b)
		if code, body := get(t, b, "/healthz"); code != http.StatusOK || body != "ok\n" {
			t.Fatalf("a node that is up: %d %s", code, body)
		}
		b.loopStall = 50 * time.Millisecond
		held := &blockLoop{begun: make(chan struct{}), released: make(chan struct{})}
		b.net.Loops()[1].Post(held)
		<-held.begun
		if code, body := ask(b, "/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "event loop 1 has not turned") {
			t.Errorf("loop 1 is stuck: %d %s", code, body)
		}
		families := scrape(t, b, "")
		if n := value(families[metrics.LoopsStalled.Name]); n != 1 {
			t.Errorf("%v loops are stalled, want 1", n)
		}
		close(held.released)
		if code, body := get(t, b, "/healthz"); code != http.StatusOK {
			t.Errorf("the loop turns again: %d %s", code, body)
		}
	})
}

func TestPprofOnRequest(t *testing.T) {
	for _, on := range []bool{false, true} {
		b := start(t, t.TempDir(), withHTTP, fmt.Sprintf("http.pprof.enable=%t", on))
		code, _ := get(t, b, "/debug/pprof/goroutine?debug=1")
		_, index := get(t, b, "/")
		if (code == http.StatusOK) != on || strings.Contains(index, "pprof") != on {
			t.Errorf("pprof is %t: %d, index %q", on, code, index)
		}
		stop(t, b)
	}
}

// TestHTTPAddressTaken refuses the start for an address that was asked for, and
// goes on without the default one.
func TestHTTPAddressTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	before := held(t)
	opts, _ := options(t, t.TempDir(), "http.listeners=127.0.0.1:0,"+taken.Addr().String())
	if _, err := Start(within(t, 30*time.Second), opts); err == nil || !strings.Contains(err.Error(), "http.listeners: ") {
		t.Fatalf("the address was asked for: %v", err)
	}
	wantHeld(t, before)

	opts, log := options(t, t.TempDir())
	opts.Config.HTTP.Listeners, opts.Config.HTTP.Explicit = []string{taken.Addr().String()}, false
	b, err := Start(within(t, 30*time.Second), opts)
	if err != nil {
		t.Fatal(err)
	}
	await(t, b)
	defer stop(t, b)
	if len(b.HTTP()) != 0 || !strings.Contains(log.String(), "metrics and health are not served") {
		t.Errorf("serving on %v, the log says:\n%s", b.HTTP(), log)
	}
}

// TestHTTPLeavesNothing stops a node while a client keeps its connection.
func TestHTTPLeavesNothing(t *testing.T) {
	before := held(t)
	b := start(t, t.TempDir(), withHTTP)
	c, err := net.Dial("tcp", b.HTTP()[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAtLeast(c, make([]byte, 64), 15); err != nil {
		t.Fatal(err)
	}
	stop(t, b)
	_ = c.Close()
	wantHeld(t, before)
}
