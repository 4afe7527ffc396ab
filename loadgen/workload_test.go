package loadgen

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

func TestDefaultsAreValid(t *testing.T) {
	for _, mode := range []Mode{ModeProduce, ModeConsume, ModeE2E, ModeVerify} {
		w := DefaultWorkload(mode)
		if err := w.Validate(); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if w.Name != string(mode) {
			t.Errorf("%s: name %q", mode, w.Name)
		}
	}
}

// TestValidateRefuses names each contradiction in one line.
func TestValidateRefuses(t *testing.T) {
	for _, c := range []struct {
		mode   Mode
		change func(w *Workload)
		want   string
	}{
		{"mix", func(*Workload) {}, `mode "mix"`},
		{ModeProduce, func(w *Workload) { w.Topic = "" }, "topic:"},
		{ModeProduce, func(w *Workload) { w.Partitions = 0 }, "partitions: 0"},
		{ModeProduce, func(w *Workload) { w.Topics, w.Partitions = 1000, 1000 }, "partitions: 1000 of 1000 topics"},
		{ModeProduce, func(w *Workload) { w.Replication = 0 }, "replication: 0"},
		{ModeProduce, func(w *Workload) { w.Create = "perhaps" }, "create:"},
		{ModeProduce, func(w *Workload) { w.Create, w.DeleteAfter = "never", true }, "delete-after:"},
		{ModeProduce, func(w *Workload) { w.Connections = 0 }, "connections: 0"},
		{ModeE2E, func(w *Workload) { w.Record = Fixed(10) }, "record: e2e marks each value"},
		{ModeProduce, func(w *Workload) { w.Compression = "rar" }, `compression: "rar"`},
		{ModeProduce, func(w *Workload) { w.Compressibility = 2 }, "compressibility: 2"},
		{ModeProduce, func(w *Workload) { w.Idempotent = true }, "idempotent: needs acks all"},
		{ModeProduce, func(w *Workload) { w.Idempotent, w.Acks, w.InFlight = true, AcksAll, 6 }, "idempotent: at most 5"},
		{ModeProduce, func(w *Workload) { w.InFlight = 0 }, "in-flight: 0"},
		{ModeVerify, func(w *Workload) { w.Acks, w.Idempotent = 0, false }, "acks: verify needs"},
		{ModeProduce, func(w *Workload) { w.Linger = -1 }, "linger:"},
		{ModeProduce, func(w *Workload) { w.BatchBytes = 0 }, "batch-bytes: 0"},
		{ModeProduce, func(w *Workload) { w.Keys.Distribution = "odd" }, `keys: distribution "odd"`},
		{ModeProduce, func(w *Workload) { w.Keys.Distribution, w.Keys.Count = "zipf", 0 }, "keys: count 0"},
		{ModeProduce, func(w *Workload) { w.Keys.Distribution, w.Keys.Skew = "zipf", 0 }, "keys: skew 0"},
		{ModeProduce, func(w *Workload) { w.Keys.Distribution, w.Keys.Bytes = "uniform", 3 }, "keys: 3 bytes"},
		{ModeProduce, func(w *Workload) { w.Schedule.Rate = 5 }, "schedule: closed"},
		{ModeProduce, func(w *Workload) { w.Schedule = Schedule{Kind: Constant} }, "schedule: rate 0"},
		{ModeProduce, func(w *Workload) { w.Schedule = Schedule{Kind: "odd"} }, `schedule: kind "odd"`},
		{ModeProduce, func(w *Workload) { w.Schedule = Schedule{Kind: Steps} }, "schedule: steps without"},
		{ModeProduce, func(w *Workload) {
			w.Schedule = Schedule{Kind: Steps, Steps: []Step{{Rate: 5}, {Rate: 6}}}
		}, "schedule: step 1"},
		{ModeConsume, func(w *Workload) { w.Connections = 3 }, "connections: 3 producers"},
		{ModeConsume, func(w *Workload) { w.Consumers = 0 }, "consumers: consume needs"},
		{ModeConsume, func(w *Workload) { w.Create = "fresh" }, "create: fresh topics"},
		{ModeConsume, func(w *Workload) { w.From = "middle" }, `from: "middle"`},
		{ModeConsume, func(w *Workload) { w.Fetch.MinBytes = w.Fetch.MaxBytes + 1 }, "fetch: min-bytes"},
		{ModeProduce, func(w *Workload) { w.Rewind = true }, "rewind:"},
		{ModeVerify, func(w *Workload) { w.CatchUp = 1 }, "catch-up:"},
		{ModeProduce, func(w *Workload) { w.Duration = 0 }, "duration:"},
		{ModeProduce, func(w *Workload) { w.Warmup = w.Duration }, "warmup:"},
	} {
		w := DefaultWorkload(c.mode)
		c.change(&w)
		err := w.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", c.mode, err, c.want)
		}
	}
}

const workloadText = `
mode: e2e
name: paced
topic: t
partitions: 3
record: mix:100@0.9,10KiB@0.1
keys: {distribution: zipf, count: 50, bytes: 12, skew: 1.1}
acks: all
linger: 2ms
batch-bytes: 64KiB
topic-configs: {retention.ms: "60000"}
fetch: {min-bytes: 1, wait: 100ms}
schedule:
  # the kind follows from the steps
  poisson: true
  steps:
    - {rate: 1000, for: 10s}
    - {rate: 2000}
duration: 1m
warmup: 5s
`

func TestParseWorkload(t *testing.T) {
	w, err := ParseWorkload([]byte(workloadText), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	if w.Mode != ModeE2E || w.Partitions != 3 || w.Record.String() != "mix:100@0.9,10KiB@0.1" || w.Acks != AcksAll ||
		w.Linger != Duration(2*time.Millisecond) || w.BatchBytes != 64<<10 || w.TopicConfigs["retention.ms"] != "60000" ||
		w.Fetch.MaxBytes != 4<<20 || len(w.Schedule.Steps) != 2 || w.Schedule.Steps[0].For != Duration(10*time.Second) ||
		w.Duration != Duration(time.Minute) || w.Consumers != 8 {
		t.Fatalf("%+v", w)
	}
	for what, back := range map[string]func() (Workload, error){
		"YAML": func() (Workload, error) {
			text, err := yaml.Dump(&w)
			if err != nil {
				return w, err
			}
			return ParseWorkload(text, ModeE2E)
		},
		"JSON": func() (again Workload, err error) {
			text, err := json.Marshal(&w)
			if err != nil {
				return w, err
			}
			return again, json.Unmarshal(text, &again)
		},
	} {
		again, err := back()
		if err != nil || again.Record.String() != w.Record.String() || again.Schedule.Steps[1] != w.Schedule.Steps[1] ||
			again.Fetch != w.Fetch || again.Keys != w.Keys || again.Acks != w.Acks || again.Linger != w.Linger {
			t.Errorf("%s and back: %v\n%+v\n%+v", what, err, again, w)
		}
	}
}

func TestParseWorkloadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"acks: 7":               "acks",
		"speed: 9":              "speed",
		"mode: produce":         "the file says produce, the command e2e",
		"duration: soon":        "soon",
		"batch-bytes: lots":     "lots",
		"record: uniform:9":     "uniform:9",
		"schedule: [1]":         "",
		"topic: [":              "",
		"record: mix:1@0":       "mix",
		"record: normal:5":      "normal",
		"record: triangle:1-2":  "triangle",
		"batch-bytes: 3GiB":     "3GiB",
		"duration: 1s\nseed: x": "",
	} {
		_, err := ParseWorkload([]byte(text), ModeE2E)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want one line with %q", text, err, want)
		}
	}
}

func TestSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for text, c := range map[string]struct{ low, high, mean int }{
		"100":               {100, 100, 100},
		"1KiB":              {1024, 1024, 1024},
		"uniform:100-300":   {100, 300, 200},
		"normal:1000±100":   {500, 1500, 1000},
		"normal:1000+-100":  {500, 1500, 1000},
		"mix:10@3,1000@1":   {10, 1000, 257},
		"mix:10@0.5,30@0.5": {10, 30, 20},
	} {
		s, err := ParseSizes(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		const draws = 20_000
		sum := 0
		for range draws {
			n := s.draw(rng)
			if n < c.low || n > c.high {
				t.Errorf("%q drew %d", text, n)
			}
			sum += n
		}
		if mean := sum / draws; mean < c.mean*95/100 || mean > c.mean*105/100 {
			t.Errorf("%q: mean %d, want %d", text, mean, c.mean)
		}
		if again, err := ParseSizes(s.String()); err != nil || again.String() != s.String() {
			t.Errorf("%q is shown as %q, which gives %v, %v", text, s, again, err)
		}
	}
}

func TestDeal(t *testing.T) {
	var all []location
	for i := range 12 {
		all = append(all, location{placeKey{"t", int32(i)}, int32(i % 3)})
	}
	for _, n := range []int{3, 4, 5, 7, 11, 12, 30} {
		hands, err := deal(all, n)
		if err != nil {
			t.Fatal(err)
		}
		dealt := map[placeKey]int{}
		for i, h := range hands {
			if len(h) == 0 {
				t.Errorf("%d connections: number %d has nothing", n, i)
			}
			for _, l := range h {
				dealt[l.placeKey]++
				if l.leader != h[0].leader {
					t.Errorf("%d connections: number %d has partitions of two brokers", n, i)
				}
			}
		}
		if len(dealt) != len(all) {
			t.Errorf("%d connections: %d of %d partitions dealt", n, len(dealt), len(all))
		}
		for place, times := range dealt {
			if n <= len(all) && times != 1 {
				t.Errorf("%d connections: %v dealt %d times", n, place, times)
			}
		}
	}
	if _, err := deal(all, 2); err == nil {
		t.Error("two connections to three brokers")
	}
}
