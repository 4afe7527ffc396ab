package config

import (
	"fmt"
	"slices"
	"testing"
)

func TestDescribeSources(t *testing.T) {
	b, _ := mustLoad(t, "log.roll.hours=3", "ssl.key.password=hush", "log.retention.minutes=5", "log.retention.hours=9")
	b, err := b.WithDynamic(p("log.roll.ms=70"), p("log.retention.ms=80", "a.plugin=x"))
	if err != nil {
		t.Fatal(err)
	}
	show := func(e Entry) string {
		s := e.Name + "="
		if e.Value != nil {
			s += *e.Value
		}
		s += fmt.Sprintf(" %d %v %v", e.Source, e.ReadOnly, e.Sensitive)
		for _, y := range e.Synonyms {
			v := "<null>"
			if y.Value != nil {
				v = *y.Value
			}
			s += fmt.Sprintf(" [%s=%s %d]", y.Name, v, y.Source)
		}
		return s
	}
	pick := func(entries []Entry, names ...string) (out []string) {
		for i, e := range entries {
			if i > 0 && entries[i-1].Name >= e.Name {
				t.Errorf("%s is out of order", e.Name)
			}
			if slices.Contains(names, e.Name) {
				out = append(out, show(e))
			}
		}
		return out
	}
	if got, want := pick(b.Describe(), "log.roll.ms", "log.retention.ms", "log.retention.minutes", "ssl.key.password", "a.plugin", "producer.id.expiration.check.interval.ms"), []string{
		"a.plugin= 2 true true [a.plugin=<null> 2]",
		"log.retention.minutes=5 4 true false [log.retention.minutes=5 4] [log.retention.hours=9 4] [log.retention.hours=168 5]",
		"log.retention.ms=80 2 false false [log.retention.ms=80 2] [log.retention.minutes=5 4] [log.retention.hours=9 4] [log.retention.hours=168 5]",
		"log.roll.ms=70 3 false false [log.roll.ms=70 3] [log.roll.hours=3 4] [log.roll.hours=168 5]",
		"ssl.key.password= 4 true true [ssl.key.password=<null> 4]",
	}; !slices.Equal(got, want) {
		t.Errorf("broker:\n got %q\nwant %q", got, want)
	}
	if got, want := pick(b.DescribeTopic(p("retention.ms=1")), "retention.ms", "segment.ms", "internal.segment.bytes"), []string{
		"retention.ms=1 1 false false [retention.ms=1 1] [log.retention.ms=80 2] [log.retention.minutes=5 4] [log.retention.hours=9 4] [log.retention.hours=168 5]",
		"segment.ms=70 3 false false [log.roll.ms=70 3] [log.roll.hours=3 4] [log.roll.hours=168 5]",
	}; !slices.Equal(got, want) {
		t.Errorf("topic:\n got %q\nwant %q", got, want)
	}
	if got, want := pick(b.TopicValues(p("flush.ms= 7 ", "internal.segment.bytes=100")), "retention.ms", "segment.ms", "flush.ms", "segment.bytes", "internal.segment.bytes"), []string{
		"flush.ms= 7  1 false false",
		"internal.segment.bytes=100 1 false false",
		"retention.ms=80 2 false false",
		"segment.bytes=1073741824 5 false false",
		"segment.ms=70 3 false false",
	}; !slices.Equal(got, want) {
		t.Errorf("values:\n got %q\nwant %q", got, want)
	}
	if got, want := pick(b.DescribeClusterDefaults(), "log.roll.ms"), []string{"log.roll.ms=70 3 false false [log.roll.ms=70 3]"}; !slices.Equal(got, want) {
		t.Errorf("cluster: got %q, want %q", got, want)
	}
}
