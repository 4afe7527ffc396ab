package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthouse/posthouse/results"
	"github.com/posthouse/posthouse/results/hdr"
)

// wantLine checks what every line must be.
func wantLine(t *testing.T, o *Outcome, name string, least int64) *Line {
	t.Helper()
	l := o.Line(name)
	if l == nil {
		t.Fatalf("no line %s in %+v", name, o)
	}
	if l.Records < least || l.Errors != 0 || l.Unfinished != 0 {
		t.Errorf("%s: %d records (want %d at least), %d errors, %d unfinished", name, l.Records, least, l.Errors, l.Unfinished)
	}
	if l.Bytes < l.Records*32 || l.Histogram.Count() == 0 {
		t.Errorf("%s: %d bytes, %d latencies of %d records", name, l.Bytes, l.Histogram.Count(), l.Records)
	}
	return l
}

// TestModes runs each mode against a broker, with what makes producers differ.
func TestModes(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		b, address := startBroker(t, t.TempDir(), engine, "")
		defer stopBroker(t, b)

		t.Run("closed", func(t *testing.T) {
			o := runFor(t, engine, address, short(ModeProduce, func(w *Workload) { w.Topic, w.Consumers, w.CatchUp = "closed", 2, 1 }))
			wantLine(t, o, LineAck, 100)
			wantLine(t, o, LineFetch, 100)
			wantLine(t, o, LineCatchUp, 100)
		})
		t.Run("consume", func(t *testing.T) {
			// What the run before has left, over and over, every checksum verified.
			o := runFor(t, engine, address, short(ModeConsume, func(w *Workload) {
				w.Topic, w.Rewind, w.Fetch.CheckCRC, w.Fetch.PartitionBytes = "closed", true, true, 100_000
			}))
			wantLine(t, o, LineFetch, 100)
		})
		t.Run("consume records", func(t *testing.T) {
			w := short(ModeConsume, func(w *Workload) {
				w.Topic, w.Records, w.Warmup, w.Duration = "closed", 500, 0, Duration(time.Minute)
			})
			begun := time.Now()
			wantLine(t, runFor(t, engine, address, w), LineFetch, 500)
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("500 records took %v", took)
			}
		})
		// Paced, so most of them is waiting: all at once.
		t.Run("e2e", func(t *testing.T) { testE2E(t, engine, address) })
		t.Run("produce records", func(t *testing.T) {
			w := short(ModeProduce, func(w *Workload) {
				w.Topic, w.Records, w.Warmup, w.Duration, w.DeleteAfter = "count", 1001, 0, Duration(time.Minute), true
			})
			if l := wantLine(t, runFor(t, engine, address, w), LineAck, 1001); l.Records != 1001 {
				t.Errorf("%d records, want 1001", l.Records)
			}
			w.Create, w.DeleteAfter = "never", false
			if _, err := Run(within(t, time.Second), Options{Bootstrap: []string{address}, Workload: w}); err == nil {
				t.Error("the topic is there though it was to be deleted")
			}
		})
	})
}

// testE2E measures from end to end, with all that makes producers differ.
func testE2E(t *testing.T, engine, address string) {
	for name, change := range map[string]func(w *Workload){
		"constant": func(*Workload) {},
		"poisson":  func(w *Workload) { w.Schedule.Kind = Poisson },
		"steps": func(w *Workload) {
			w.Schedule = Schedule{Kind: Steps, Steps: []Step{{1000, Duration(time.Second / 2)}, {3000, 0}}}
		},
		"zstd": func(w *Workload) {
			w.Compression, w.Compressibility, w.Linger = "zstd", 0.5, Duration(5*time.Millisecond)
		},
		"keys":       func(w *Workload) { w.Keys.Distribution, w.Linger = "zipf", Duration(2*time.Millisecond) },
		"sizes":      func(w *Workload) { w.Record, _ = ParseSizes("uniform:40-3000") },
		"acks all":   func(w *Workload) { w.Acks, w.Idempotent = AcksAll, true },
		"acks 0":     func(w *Workload) { w.Acks = 0 },
		"one record": func(w *Workload) { w.BatchRecords, w.InFlight = 1, 1 },
		"1 MiB":      func(w *Workload) { w.BatchBytes, w.Linger = 1<<20, Duration(200*time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := short(ModeE2E, change)
			w.Topic = "e2e-" + strings.ReplaceAll(name, " ", "-")
			o := runFor(t, engine, address, w)
			wantLine(t, o, LineAck, 100)
			e2e := wantLine(t, o, LineE2E, 100)
			want := w.Schedule.scheduledRecords(int64(w.Warmup), int64(w.Duration))
			if n := float64(e2e.Histogram.Count()); n < want*0.9 || n > want*1.1 {
				t.Errorf("%v latencies of %v records in the schedule", n, want)
			}
		})
	}
}

// TestVerify checks content, across a restart of the broker too.
func TestVerify(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		for _, c := range []struct {
			name   string
			change func(w *Workload)
		}{
			{"idempotent", func(*Workload) {}},
			{"acks 1", func(w *Workload) { w.Acks, w.Idempotent = 1, false }},
			{"keys closed lz4", func(w *Workload) {
				w.Keys.Distribution, w.Schedule, w.Compression, w.Idempotent = "uniform", Schedule{Kind: Closed}, "lz4", false
				w.Records = 20_000
			}},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				b, address := startBroker(t, dir, engine, "")
				w := short(ModeVerify, c.change)
				w.Warmup, w.Duration = 0, Duration(2*time.Second)
				restarted := make(chan struct{})
				opts := Options{Bootstrap: []string{address}, Workload: w, Engine: engine, Started: func(time.Time, time.Time) {
					go func() {
						defer close(restarted)
						time.Sleep(500 * time.Millisecond)
						stopBroker(t, b)
						b, _ = startBroker(t, dir, engine, address)
					}()
				}}
				o, err := Run(within(t, 60*time.Second), opts)
				if o == nil {
					t.Fatal(err)
				}
				<-restarted
				stopBroker(t, b)
				if err != nil {
					t.Fatalf("%v: errors %v, %+v", err, o.Line(LineAck).ErrorsByCode, o.Verify)
				}
				v := o.Verify
				if !v.OK || v.Acked == 0 || v.Received < v.Acked || v.Lost+v.Duplicates+v.Reordered+v.Corrupt+v.Foreign > 0 {
					t.Fatalf("%+v", v)
				}
				if w.Records == 0 && v.Reconnects == 0 {
					t.Error("no connection was made again")
				}
				if w.Idempotent && v.Unknown > 0 {
					t.Errorf("%d records of idempotent producers are neither acknowledged nor there", v.Unknown)
				}
			})
		}
	})
}

// TestVerifyFindsLoss has the broker come back without its data.
func TestVerifyFindsLoss(t *testing.T) {
	b, address := startBroker(t, t.TempDir(), netioEngine, "")
	w := short(ModeVerify, func(w *Workload) {
		w.Warmup, w.Duration, w.Acks, w.Idempotent, w.Partitions = 0, Duration(2*time.Second), 1, false, 3
	})
	restarted := make(chan struct{})
	opts := Options{Bootstrap: []string{address}, Workload: w, Started: func(time.Time, time.Time) {
		go func() {
			defer close(restarted)
			time.Sleep(700 * time.Millisecond)
			stopBroker(t, b)
			b, _ = startBroker(t, t.TempDir(), netioEngine, address, "num.partitions=3")
			c, err := dialControl(t.Context(), []string{address}, "test")
			if err != nil {
				t.Error(err)
				return
			}
			defer c.close()
			if err := c.createTopics(t.Context(), w.topicNames(), &w); err != nil {
				t.Error(err)
			}
		}()
	}}
	o, err := Run(within(t, 60*time.Second), opts)
	if o == nil {
		t.Fatal(err)
	}
	<-restarted
	stopBroker(t, b)
	if err == nil || o.Verify == nil {
		t.Fatalf("no error: %+v", o)
	}
	// What consumers had read before is no loss to them; what they had not is.
	if v := o.Verify; v.OK || v.Lost == 0 && v.Reordered == 0 && v.Duplicates == 0 {
		t.Errorf("%v: %+v", err, v)
	}
	if o.Failure == "" || strings.Contains(o.Failure, "\n") {
		t.Errorf("failure %q, want one line", o.Failure)
	}
}

// netioEngine is the engine of tests that do not depend on it.
const netioEngine = "epoll"

// TestNoCoordinatedOmission stalls a server for a while. Closed-loop figures
// would show one slow request per connection; all the records that were due
// meanwhile must show here, each with its own wait.
func TestNoCoordinatedOmission(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine string) {
		const rate, stall = 2000, 500 * time.Millisecond
		for _, kind := range []string{Constant, Poisson} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				var stallNow atomic.Bool
				fake := &fakeBroker{produce: func() int16 {
					if stallNow.CompareAndSwap(true, false) {
						time.Sleep(stall)
					}
					return 0
				}}
				address := startFake(t, engine, fake)
				w := short(ModeProduce, func(w *Workload) {
					w.Schedule = Schedule{Kind: kind, Rate: rate}
					w.Partitions, w.Connections, w.InFlight, w.BatchRecords = 1, 4, 5, 1
					w.Warmup, w.Duration = Duration(200*time.Millisecond), Duration(2200*time.Millisecond)
				})
				opts := Options{Bootstrap: []string{address}, Workload: w, Engine: engine, Started: func(time.Time, time.Time) {
					time.AfterFunc(800*time.Millisecond, func() { stallNow.Store(true) })
				}}
				o, err := Run(within(t, 60*time.Second), opts)
				if err != nil {
					t.Fatal(err)
				}
				l := wantLine(t, o, LineAck, rate/2)
				slow := slowerThan(l.Histogram, stall/2)
				// Half the records that were due during the stall waited for more than
				// half of it: a quarter second's worth. A closed loop would have 20.
				if want := float64(rate) * (stall / 2).Seconds(); slow < 0.7*want {
					t.Errorf("%s: %.0f records waited more than %v, want about %.0f", kind, slow, stall/2, want)
				}
				if top := time.Duration(l.Histogram.Max()) * time.Microsecond; top < stall*9/10 {
					t.Errorf("%s: the longest wait is %v, want %v", kind, top, stall)
				}
			})
		}
	})
}

// slowerThan is about how many latencies exceed d.
func slowerThan(h *hdr.Histogram, d time.Duration) float64 {
	low, high := 0.0, 100.0
	for range 50 {
		if mid := (low + high) / 2; h.At(mid) > d.Microseconds() {
			high = mid
		} else {
			low = mid
		}
	}
	return float64(h.Count()) * (100 - high) / 100
}

// TestStallUntilTheEnd never answers again: what was due then is not left out.
func TestStallUntilTheEnd(t *testing.T) {
	const rate = 1000
	begun := time.Now()
	release := make(chan struct{})
	fake := &fakeBroker{produce: func() int16 {
		if time.Since(begun) > time.Second {
			<-release
		}
		return 0
	}}
	address := startFake(t, netioEngine, fake)
	defer close(release)
	w := short(ModeProduce, func(w *Workload) {
		w.Schedule = Schedule{Kind: Constant, Rate: rate}
		w.Partitions, w.Connections, w.Warmup = 1, 2, Duration(200*time.Millisecond)
		w.Duration, w.Drain = Duration(2200*time.Millisecond), Duration(100*time.Millisecond)
	})
	o, err := Run(within(t, 60*time.Second), Options{Bootstrap: []string{address}, Workload: w})
	if err != nil {
		t.Fatal(err)
	}
	l := o.Line(LineAck)
	if all := l.Histogram.Count(); all < 1950 || all > 2050 {
		t.Errorf("%d latencies of 2000 records in the schedule", all)
	}
	if l.Unfinished < 1000 || l.Histogram.At(75) < 200_000 {
		t.Errorf("%d unfinished, p75 %d µs", l.Unfinished, l.Histogram.At(75))
	}
	for _, code := range []string{WarnUnfinished, WarnRateNotReached, WarnBehindSchedule} {
		if !hasWarning(o, code) {
			t.Errorf("no warning %s in %+v", code, o.Warnings)
		}
	}
}

func hasWarning(o *Outcome, code string) bool {
	for _, w := range o.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}

// TestErrorsAreCounted has the broker refuse every third batch.
func TestErrorsAreCounted(t *testing.T) {
	var n atomic.Int64
	fake := &fakeBroker{produce: func() int16 {
		if n.Add(1)%3 == 0 {
			return 19 // NOT_ENOUGH_REPLICAS
		}
		return 0
	}}
	address := startFake(t, netioEngine, fake)
	w := short(ModeProduce, func(w *Workload) { w.Partitions, w.Acks = 1, AcksAll })
	o, err := Run(within(t, 60*time.Second), Options{Bootstrap: []string{address}, Workload: w})
	if err != nil {
		t.Fatal(err)
	}
	l := o.Line(LineAck)
	if l.Records == 0 || l.Errors == 0 || l.ErrorsByCode["NOT_ENOUGH_REPLICAS"] < l.Errors || !hasWarning(o, WarnErrors) {
		t.Errorf("%d records, %d errors, by code %v, warnings %v", l.Records, l.Errors, l.ErrorsByCode, o.Warnings)
	}
}

func TestNothingGoesThrough(t *testing.T) {
	address := startFake(t, netioEngine, &fakeBroker{produce: func() int16 { return 29 }})
	w := short(ModeProduce, func(w *Workload) { w.Partitions = 1 })
	o, err := Run(within(t, 60*time.Second), Options{Bootstrap: []string{address}, Workload: w})
	if err == nil || !strings.Contains(err.Error(), "TOPIC_AUTHORIZATION_FAILED") || o == nil || o.Failure == "" {
		t.Fatalf("%v, outcome %+v", err, o)
	}
}

// TestBadInput wants one line for each thing that goes wrong at the start.
func TestBadInput(t *testing.T) {
	b, address := startBroker(t, t.TempDir(), netioEngine, "", "auto.create.topics.enable=false")
	defer stopBroker(t, b)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unreachable := closed.Addr().String()
	_ = closed.Close()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	go func() {
		for {
			c, err := mute.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("SSH-2.0-nothing\r\n"))
			_ = c.Close()
		}
	}()
	for _, c := range []struct {
		name, address, want string
		change              func(w *Workload)
	}{
		{"unreachable", unreachable, "cannot reach the target", nil},
		{"no broker", mute.Addr().String(), "does not answer as a Kafka broker", nil},
		{"no address", "", "missing", nil},
		{"bad topic name", address, "cannot be created", func(w *Workload) { w.Topic = "no/slashes" }},
		{"bad topic config", address, "cannot be created", func(w *Workload) { w.TopicConfigs = map[string]string{"retention.ms": "soon"} }},
		{"too many replicas", address, "cannot be created", func(w *Workload) { w.Replication = 3 }},
		{"contradiction", address, "idempotent: needs acks all", func(w *Workload) { w.Idempotent = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := Run(within(t, 50*time.Second), Options{Bootstrap: []string{c.address}, Workload: short(ModeProduce, c.change)})
			if err == nil || o != nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, outcome %+v; want an error with %q", err, o, c.want)
			}
		})
	}
}

// TestPartitionsDiffer refuses a topic that is not as the workload wants it.
func TestPartitionsDiffer(t *testing.T) {
	b, address := startBroker(t, t.TempDir(), netioEngine, "")
	defer stopBroker(t, b)
	runFor(t, netioEngine, address, short(ModeProduce, nil))
	_, err := Run(within(t, 60*time.Second), Options{Bootstrap: []string{address}, Workload: short(ModeProduce, func(w *Workload) { w.Partitions = 5 })})
	if err == nil || !strings.Contains(err.Error(), "has 3 partitions and the workload wants 5") {
		t.Fatal(err)
	}
	runFor(t, netioEngine, address, short(ModeProduce, func(w *Workload) { w.Partitions, w.Create = 5, "fresh" }))
}

// TestBrokerDies wants what was measured until then, and one line.
func TestBrokerDies(t *testing.T) {
	for _, mode := range []Mode{ModeProduce, ModeE2E, ModeConsume} {
		b, address := startBroker(t, t.TempDir(), netioEngine, "")
		if mode == ModeConsume {
			runFor(t, netioEngine, address, short(ModeProduce, nil))
		}
		w := short(mode, func(w *Workload) { w.Duration, w.Rewind = Duration(30*time.Second), mode == ModeConsume })
		stopped := make(chan struct{})
		opts := Options{Bootstrap: []string{address}, Workload: w, Started: func(time.Time, time.Time) {
			go func() {
				defer close(stopped)
				time.Sleep(900 * time.Millisecond)
				stopBroker(t, b)
			}()
		}}
		begun := time.Now()
		o, err := Run(within(t, 60*time.Second), opts)
		if o == nil {
			t.Fatal(err)
		}
		<-stopped
		if err == nil || !strings.Contains(err.Error(), "lost its connection to "+address) {
			t.Fatalf("%s: %v, outcome %+v", mode, err, o)
		}
		if o.Lines[0].Records == 0 || o.Failure == "" || !hasWarning(o, WarnFailed) || time.Since(begun) > 20*time.Second {
			t.Errorf("%s: after %v: %+v", mode, time.Since(begun), o)
		}
		if run := o.Result([]string{"posthouse"}); run.Validate() != nil {
			t.Errorf("%s: the result of a failed run: %v", mode, run.Validate())
		}
	}
}

// TestInterrupt ends a run early; the result is there and says so.
func TestInterrupt(t *testing.T) {
	b, address := startBroker(t, t.TempDir(), netioEngine, "")
	defer stopBroker(t, b)
	for _, after := range []time.Duration{50 * time.Millisecond, 800 * time.Millisecond} {
		ctx, cancel := context.WithCancel(within(t, 60*time.Second))
		w := short(ModeE2E, func(w *Workload) { w.Duration = Duration(time.Hour) })
		o, err := Run(ctx, Options{Bootstrap: []string{address}, Workload: w, Started: func(time.Time, time.Time) {
			time.AfterFunc(startDelay+after, cancel)
		}})
		if err != nil || o == nil || !o.Interrupted || !hasWarning(o, WarnInterrupted) {
			t.Fatalf("after %v: %v, %+v", after, err, o)
		}
		if after > time.Duration(w.Warmup) {
			wantLine(t, o, LineE2E, 100)
		}
		if run := o.Result(nil); run.Validate() != nil {
			t.Errorf("after %v: the result: %v", after, run.Validate())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o, err := Run(ctx, Options{Bootstrap: []string{address}, Workload: short(ModeProduce, nil)}); !errors.Is(err, context.Canceled) || o != nil {
		t.Errorf("ended before the begin: %v, %+v", err, o)
	}
}

// TestResult writes and reads a run in the schema of recorded runs.
func TestResult(t *testing.T) {
	b, address := startBroker(t, t.TempDir(), netioEngine, "")
	defer stopBroker(t, b)
	w := short(ModeE2E, func(w *Workload) { w.Duration, w.Warmup = Duration(3*time.Second), Duration(time.Second) })
	o := runFor(t, netioEngine, address, w)
	path := filepath.Join(t.TempDir(), "run.json")
	if err := o.Result([]string{"posthouse", "load"}).Write(path); err != nil {
		t.Fatal(err)
	}
	run, err := results.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	l := run.Line(LineE2E)
	if l == nil || l.Records != o.Line(LineE2E).Records || len(l.Intervals) == 0 || run.DurationMs != 2000 || run.WarmupMs != 1000 {
		t.Fatalf("%+v", run)
	}
	var sum hdr.Histogram = *hdr.New()
	for _, i := range l.Intervals {
		h, err := hdr.Decode(i.Histogram)
		if err != nil {
			t.Fatal(err)
		}
		sum.Merge(h)
	}
	all, err := l.Latencies()
	if err != nil {
		t.Fatal(err)
	}
	// Ticks that come late on a busy machine reach over the ends.
	if d := sum.Count() - all.Count(); d < -all.Count()/2 || d > all.Count()/4 {
		t.Errorf("intervals have %d latencies, the line %d", sum.Count(), all.Count())
	}
	var again Workload
	if err := json.Unmarshal(run.Workload.Parameters, &again); err != nil || again.Schedule.Rate != 2000 {
		t.Errorf("parameters: %v, %+v", err, again)
	}
	var log strings.Builder
	if err := o.WriteLog(&log); err != nil {
		t.Fatal(err)
	}
	if intervals, err := hdr.ReadLog(strings.NewReader(log.String())); err != nil || len(intervals) < 9 {
		t.Errorf("the log has %d intervals: %v", len(intervals), err)
	}
}

// TestMissingTopic checks that a topic that nobody creates is named soon.
func TestMissingTopic(t *testing.T) {
	address := startFake(t, netioEngine, &fakeBroker{missing: true})
	w := short(ModeConsume, func(w *Workload) { w.Topic = "nowhere" })
	begun := time.Now()
	_, err := Run(within(t, 2*time.Minute), Options{Bootstrap: []string{address}, Workload: w})
	if err == nil || !strings.Contains(err.Error(), "topic nowhere does not exist at "+address) {
		t.Errorf("%v", err)
	}
	if took := time.Since(begun); took > topicPatience {
		t.Errorf("it took %v", took)
	}
}
