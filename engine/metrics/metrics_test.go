package metrics

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestHistogramBuckets puts durations beside every bound.
func TestHistogramBuckets(t *testing.T) {
	for i, bound := range bounds {
		for _, c := range []struct {
			d    time.Duration
			want int
		}{{bound - 1, i}, {bound, i}, {bound + 1, i + 1}} {
			var h Histogram
			h.Observe(c.d)
			if h.counts[c.want] != 1 || h.Count() != 1 || h.Sum() != c.d {
				t.Errorf("%v: want bucket %d, have %v", c.d, c.want, h.counts)
			}
		}
	}
	var h Histogram
	h.Observe(-time.Second)
	h.Observe(0)
	h.Observe(1<<63 - 1)
	if h.counts[0] != 2 || h.counts[len(bounds)] != 1 {
		t.Errorf("the ends: %v", h.counts)
	}
}

func TestRequests(t *testing.T) {
	var a, b Requests
	a.Began(0, 9, 100)
	a.Answered(0, 10*time.Millisecond, time.Millisecond, 2*time.Millisecond)
	a.Answered(0, 4*time.Microsecond, 0, 0)
	b.Began(0, 9, 50)
	b.Began(0, 3, 50)
	b.Began(-1, 0, 1)   // of no API
	b.Began(500, -7, 1) // nor this
	b.Began(1, 300, 1)
	b.Failed(0, 6)
	b.Failed(0, 0)
	a.Add(&b)
	p := a.API(0)
	if p.Versions[9] != 2 || p.Versions[3] != 1 || p.Bytes != 200 {
		t.Errorf("%+v", p)
	}
	for _, h := range []*Histogram{&p.Total, &p.Local, &p.Remote, &p.Queue} {
		if h.Count() != 2 {
			t.Errorf("%d of two requests are in a histogram", h.Count())
		}
	}
	if p.Local.Sum() != 7004*time.Microsecond || p.Remote.Sum() != 2*time.Millisecond || p.Queue.Sum() != time.Millisecond || p.Total.Sum() != 10004*time.Microsecond {
		t.Errorf("local %v, remote %v, queue %v", p.Local.Sum(), p.Remote.Sum(), p.Queue.Sum())
	}
	if a.API(1).Versions[versionsMax-1] != 1 || a.API(2) != nil || a.API(-1) != nil {
		t.Error("an unheard-of version counts as the last, an unheard-of API not at all")
	}
	if errors := a.Errors(); len(errors) != 1 || errors[APIError{0, 6}] != 1 {
		t.Errorf("errors %v", errors)
	}
}

// TestWriter reads back what a source has written, in the exposition format.
func TestWriter(t *testing.T) {
	var h Histogram
	h.Observe(3 * time.Millisecond)
	h.Observe(300 * time.Second)
	g := Gatherer(func(w *Writer) {
		w.Set(MessagesIn, 7, "bad \xff name")
		w.SetBool(Ready, true)
		w.Histogram(LogFlushes, &h)
	})
	want := `
# HELP kafka_log_logflushstats_logflushrateandtimems Flushes of logs to disk, off the event loops.
# TYPE kafka_log_logflushstats_logflushrateandtimems histogram
BUCKETS
kafka_log_logflushstats_logflushrateandtimems_sum 300003
kafka_log_logflushstats_logflushrateandtimems_count 2
# HELP kafka_server_brokertopicmetrics_messagesin_total Records appended for producers.
# TYPE kafka_server_brokertopicmetrics_messagesin_total counter
kafka_server_brokertopicmetrics_messagesin_total{topic="bad ` + "\uFFFD" + ` name"} 7
# HELP posthouse_ready Whether /readyz says yes.
# TYPE posthouse_ready gauge
posthouse_ready 1
`
	var buckets strings.Builder
	for i, le := range []string{"0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "25", "50", "100", "250", "500", "1000", "2500", "5000", "10000", "30000", "+Inf"} {
		n := "0"
		if i >= 6 {
			n = "1"
		}
		if le == "+Inf" {
			n = "2"
		}
		buckets.WriteString(`kafka_log_logflushstats_logflushrateandtimems_bucket{le="` + le + `"} ` + n + "\n")
	}
	want = strings.Replace(want, "BUCKETS\n", buckets.String(), 1)
	if err := testutil.GatherAndCompare(g, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestList holds the list to its own rules.
func TestList(t *testing.T) {
	name := regexp.MustCompile(`^(kafka|posthouse)_[a-z0-9_]+$`)
	seen := map[string]bool{}
	for _, m := range All() {
		switch {
		case !name.MatchString(m.Name) || seen[m.Name]:
			t.Errorf("%s: bad or repeated", m.Name)
		case m.Help == "" || !strings.HasSuffix(m.Help, ".") || m.Unit == "":
			t.Errorf("%s: help %q, unit %q", m.Name, m.Help, m.Unit)
		case (m.Kind == Counter) != strings.HasSuffix(m.Name, "_total"):
			t.Errorf("%s is a %v", m.Name, m.Kind)
		case m.Kind == HistogramKind && (m.Unit == milliseconds) != strings.HasSuffix(m.Name, "ms"):
			t.Errorf("%s is in %s", m.Name, m.Unit)
		}
		seen[m.Name] = true
	}
}

func BenchmarkAnswered(b *testing.B) {
	var r Requests
	b.ReportAllocs()
	d := time.Duration(0)
	for b.Loop() {
		d = (d*5 + 12345) & (1<<24 - 1)
		r.Began(0, 9, 100)
		r.Answered(0, d, 0, 0)
	}
}
