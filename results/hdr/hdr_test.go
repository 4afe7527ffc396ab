package hdr

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func filled(seed uint64, n int) *Histogram {
	rng := rand.New(rand.NewPCG(seed, 1))
	h := New()
	for range n {
		h.Record(int64(rng.ExpFloat64() * 1000))
	}
	return h
}

func TestRecordClampsToRange(t *testing.T) {
	h := New()
	h.Record(-5)
	h.Record(0)
	h.RecordDuration(48 * time.Hour)
	if h.Count() != 3 || h.Min() != LowestUs {
		t.Fatalf("count %d, min %d; want 3 and %d", h.Count(), h.Min(), LowestUs)
	}
	if got := float64(h.Max()) / float64(HighestUs); got < 0.999 || got > 1.001 {
		t.Fatalf("max %d µs, want about an hour", h.Max())
	}
}

// TestPrecision holds every percentile to three digits of the exact value.
func TestPrecision(t *testing.T) {
	h := New()
	for us := int64(1); us <= 100_000; us++ {
		h.Record(us)
	}
	for _, p := range h.Table(1, 50, 90, 99, 99.9) {
		if exact := p.P * 1000; float64(p.Us) < exact || float64(p.Us) > exact*1.001+1 {
			t.Errorf("p%g is %d µs, want %g within 0.1 %%", p.P, p.Us, exact)
		}
	}
	if New().Table() != nil || New().Curve(5) != nil {
		t.Error("an empty histogram has percentiles")
	}
}

func TestMergeIsSum(t *testing.T) {
	a, b, both := filled(1, 5000), filled(2, 3000), New()
	both.Merge(a)
	both.Merge(b)
	if both.Count() != 8000 || both.Max() != max(a.Max(), b.Max()) || both.Min() != min(a.Min(), b.Min()) {
		t.Fatalf("merged: count %d, range %d..%d", both.Count(), both.Min(), both.Max())
	}
	both.Reset()
	if both.Count() != 0 {
		t.Fatal("reset kept counts")
	}
}

func TestEncodingRoundTrips(t *testing.T) {
	h := filled(3, 4000)
	back, err := Decode(h.Encode())
	if err != nil || !back.Equal(h) {
		t.Fatalf("decoded differs: %v", err)
	}
	type holder struct{ H *Histogram }
	text, err := json.Marshal(holder{h})
	if err != nil {
		t.Fatal(err)
	}
	var out holder
	if err := json.Unmarshal(text, &out); err != nil || !out.H.Equal(h) {
		t.Fatalf("JSON round trip: %v", err)
	}
	for _, bad := range []string{"", "x", "HISTFAAAAB", h.Encode()[:40]} {
		if _, err := Decode(bad); err == nil {
			t.Errorf("%q decoded without an error", bad)
		}
	}
}

func TestLogRoundTrips(t *testing.T) {
	start := time.UnixMilli(1_700_000_000_123)
	var text bytes.Buffer
	w, err := NewLogWriter(&text, start, "produce 16 KiB")
	if err != nil {
		t.Fatal(err)
	}
	want := []Interval{
		{Tag: "ack", Start: start, End: start.Add(time.Second), Histogram: filled(4, 100)},
		{Tag: "e2e", Start: start, End: start.Add(time.Second), Histogram: filled(5, 200)},
		{Start: start.Add(time.Second), End: start.Add(2 * time.Second), Histogram: filled(6, 1)},
	}
	for _, i := range want {
		if err := w.Write(i); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadLog(strings.NewReader(text.String()))
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d intervals, %v\n%s", len(got), err, text.String())
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.Tag != w.Tag || !g.Histogram.Equal(w.Histogram) ||
			g.Start.Sub(w.Start).Abs() > time.Millisecond || g.End.Sub(w.End).Abs() > time.Millisecond {
			t.Errorf("interval %d: %q %v–%v, want %q %v–%v", i, g.Tag, g.Start, g.End, w.Tag, w.Start, w.End)
		}
	}
	if w.Write(Interval{Tag: "a,b", Histogram: New()}) == nil {
		t.Error("a tag with a comma was written")
	}
	if _, err := NewLogWriter(&text, start, "two\nlines"); err == nil {
		t.Error("a comment of two lines was written")
	}
}

func TestPercentileText(t *testing.T) {
	var text bytes.Buffer
	if err := filled(7, 1000).WritePercentiles(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Percentile", "TotalCount", "#[Mean"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestRecorderIntervals(t *testing.T) {
	r := NewRecorder()
	var seen []int64
	for i := range 3 {
		r.RecordN(int64(100*(i+1)), int64(i))
		interval := New()
		r.TakeInterval(interval)
		seen = append(seen, interval.Count())
	}
	r.Record(7)
	total := New()
	r.TakeTotal(total)
	if seen[0] != 0 || seen[1] != 1 || seen[2] != 2 || total.Count() != 4 || total.Min() != 7 {
		t.Fatalf("intervals %v, total %d from %d µs", seen, total.Count(), total.Min())
	}
}

func BenchmarkRecord(b *testing.B) {
	r := NewRecorder()
	for i := range b.N {
		r.Record(int64(i & 0xffff))
	}
}
