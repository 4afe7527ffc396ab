package loadgen

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/posthouse/posthouse/cmd/broker"
	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/netio"
	"github.com/posthouse/posthouse/netio/wire"
)

// onEachEngine runs f with every engine of this build, on both ends.
func onEachEngine(t *testing.T, f func(t *testing.T, engine string)) {
	for _, engine := range netio.Engines() {
		t.Run(engine, func(t *testing.T) { f(t, engine) })
	}
}

// within bounds one step of a test.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// lines is a log for failed tests.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// startBroker runs a broker in this process. listen is an address, or empty for
// a port of the system's choice.
func startBroker(t *testing.T, dir, engine, listen string, overrides ...string) (b *broker.Broker, address string) {
	t.Helper()
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	properties := map[string]string{"log.dirs": dir, "listeners": "PLAINTEXT://" + listen, "netio.engine": engine}
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
			t.Logf("broker:\n%s", log.text.String())
		}
	})
	b, err = broker.Start(within(t, 30*time.Second), broker.Options{Config: cfg, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	<-b.Loaded()
	return b, strings.TrimPrefix(b.Listeners(), "PLAINTEXT://")
}

func stopBroker(t *testing.T, b *broker.Broker) {
	t.Helper()
	if err := b.Stop(within(t, 30*time.Second), nil); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// short is a workload of a second or less.
func short(mode Mode, change func(w *Workload)) Workload {
	w := DefaultWorkload(mode)
	w.Partitions, w.Duration, w.Warmup = 3, Duration(1200*time.Millisecond), Duration(200*time.Millisecond)
	if testing.Short() {
		w.Duration, w.Warmup = Duration(700*time.Millisecond), Duration(100*time.Millisecond)
	}
	w.Connections = min(w.Connections, 3)
	w.Consumers = min(w.Consumers, 3)
	if w.Schedule.Open() {
		w.Schedule.Rate = 2000
	}
	w.Drain = Duration(20 * time.Second)
	if change != nil {
		change(&w)
	}
	return w
}

// runFor runs a workload that must succeed.
func runFor(t *testing.T, engine, address string, w Workload) *Outcome {
	t.Helper()
	o, err := Run(within(t, 60*time.Second), Options{Bootstrap: []string{address}, Workload: w, Engine: engine})
	if err != nil {
		t.Fatalf("%s: %v (outcome %+v)", w.Mode, err, o)
	}
	if o.Client.Engine != engine {
		t.Errorf("the client ran %s, want %s", o.Client.Engine, engine)
	}
	return o
}

// fakeBroker answers as a broker with one topic for every name, and keeps
// nothing: what a client costs by itself, and a broker that misbehaves at will.
type fakeBroker struct {
	partitions int
	missing    bool // no topic exists
	port       atomic.Int32
	// produce, if set, is asked before a Produce request is answered, and gives
	// the error code; it may sleep, which stalls everything.
	produce func() int16

	produced atomic.Int64 // requests
}

// fakeLoop is what the requests of one loop share.
type fakeLoop struct {
	request  wire.ProduceRequest
	response wire.ProduceResponse
}

func startFake(t testing.TB, engine string, f *fakeBroker) (address string) {
	t.Helper()
	if f.partitions == 0 {
		f.partitions = 1
	}
	s, err := netio.NewServer(netio.Config{Engine: engine, LoopbackCongestion: "cubic", Logger: slog.New(slog.DiscardHandler)}, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	addr, err := s.Listen("PLAINTEXT", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.port.Store(int32(addr.(*net.TCPAddr).Port))
	return addr.String()
}

func (f *fakeBroker) Opened(*netio.Conn)        {}
func (f *fakeBroker) Pipelined([]byte) bool     { return true }
func (f *fakeBroker) EndTurn(*netio.Loop)       {}
func (f *fakeBroker) Drain(*netio.Loop)         {}
func (f *fakeBroker) Closed(*netio.Conn, error) {}

func (f *fakeBroker) Request(c *netio.Conn, r *netio.Request) {
	header, err := wire.ParseRequestHeader(r.Payload(), func(key, version int16) bool {
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		return req.IsFlexible()
	})
	if err != nil {
		r.Fail(err)
		return
	}
	if header.Key == wire.KeyProduce {
		f.answerProduce(c, r, &header)
		return
	}
	req := kmsg.RequestForKey(header.Key)
	req.SetVersion(header.Version)
	if err := req.ReadFrom(header.Body); err != nil {
		r.Fail(err)
		return
	}
	resp := f.answer(req)
	resp.SetVersion(header.Version)
	out := r.Out()
	out.Buf = wire.AppendResponseHeader(out.Buf, header.Key, header.Version, header.CorrelationID, req.IsFlexible())
	out.Buf = resp.AppendTo(out.Buf)
	r.Done()
}

func (f *fakeBroker) answerProduce(c *netio.Conn, r *netio.Request, header *wire.RequestHeader) {
	f.produced.Add(1)
	l, _ := c.Loop().State.(*fakeLoop)
	if l == nil {
		l = &fakeLoop{}
		c.Loop().State = l
	}
	if err := l.request.Decode(header.Version, header.Body); err != nil {
		r.Fail(err)
		return
	}
	var code int16
	if f.produce != nil {
		code = f.produce()
	}
	if l.request.Acks == 0 {
		r.NoReply()
		return
	}
	l.response.Reset()
	for _, topic := range l.request.Topics {
		t := l.response.AddTopic()
		t.Name = topic.Name
		for _, p := range topic.Partitions {
			a := l.response.AddPartition(p.Index)
			a.ErrorCode, a.BaseOffset = code, 0
		}
	}
	out := r.Out()
	out.Buf = wire.AppendResponseHeader(out.Buf, header.Key, header.Version, header.CorrelationID, header.Version >= wire.ProduceFlexibleVersion)
	out.Buf = l.response.Append(out.Buf, header.Version)
	r.Done()
}

// answer is the setting up.
func (f *fakeBroker) answer(req kmsg.Request) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{
			{ApiKey: 0, MinVersion: 3, MaxVersion: 12}, {ApiKey: 1, MinVersion: 4, MaxVersion: 12},
			{ApiKey: 3, MinVersion: 4, MaxVersion: 9}, {ApiKey: 18, MaxVersion: 3}, {ApiKey: 22, MaxVersion: 4},
		}
		return resp
	case *kmsg.MetadataRequest:
		resp := kmsg.NewPtrMetadataResponse()
		resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "127.0.0.1", Port: f.port.Load()}}
		for _, t := range req.Topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic = t.Topic
			if f.missing {
				topic.ErrorCode = kerr.UnknownTopicOrPartition.Code
				resp.Topics = append(resp.Topics, topic)
				continue
			}
			for i := range f.partitions {
				p := kmsg.NewMetadataResponseTopicPartition()
				p.Partition, p.Leader = int32(i), 1
				topic.Partitions = append(topic.Partitions, p)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp
	case *kmsg.InitProducerIDRequest:
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ProducerID = 5
		return resp
	}
	return req.ResponseKind()
}
