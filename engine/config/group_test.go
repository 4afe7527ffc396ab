package config

import "testing"

func TestCheckGroup(t *testing.T) {
	b, _, err := Load(map[string]string{"group.consumer.max.heartbeat.interval.ms": "50000", "group.streams.assignors": "sticky,other"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ key, value, err string }{
		{"consumer.session.timeout.ms", "50000", ""},
		{"consumer.session.timeout.ms", "44999", "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"consumer.session.timeout.ms", "60001", "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"consumer.session.timeout.ms", "x", "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT"},
		{"consumer.heartbeat.interval.ms", "46000", "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"},
		{"consumer.assignment.interval.ms", "0", ""},
		{"no.such.key", "1", "Unknown group config name: no.such.key"},
		{"share.auto.offset.reset", "by_duration:P1DT2H3M4.5S", ""},
		{"share.auto.offset.reset", "by_duration:P", "Invalid value by_duration:P for configuration share.auto.offset.reset: Invalid value `by_duration:P` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."},
		{"share.delivery.count.limit", "11", "share.delivery.count.limit must be in the range 2 to 10 inclusive."},
		{"streams.num.standby.replicas", "3", "streams.num.standby.replicas must be less than or equal to 2"},
		{"streams.assignor.name", "other", ""},
		{"streams.assignor.name", "best", "streams.assignor.name 'best' is not a registered task assignor. Registered assignors are: [sticky, other]."},
	}
	for _, tt := range tests {
		if got := text(b.CheckGroup(map[string]string{tt.key: tt.value})); got != tt.err {
			t.Errorf("%s=%s: %q, want %q", tt.key, tt.value, got, tt.err)
		}
	}
}

func TestGroup(t *testing.T) {
	b, _, err := Load(map[string]string{"group.consumer.session.timeout.ms": "50000"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Group(nil), (Group{5000, 50000, 1000}); got != want {
		t.Errorf("defaults are %+v, want %+v", got, want)
	}
	// Values of a time with other bounds, or of a newer version.
	got := b.Group(map[string]string{"consumer.session.timeout.ms": "99999", "consumer.heartbeat.interval.ms": "1", "consumer.assignment.interval.ms": "soon"})
	if want := (Group{5000, 60000, 1000}); got != want {
		t.Errorf("out of bounds: %+v, want %+v", got, want)
	}
	dynamic, err := b.WithDynamic(map[string]string{"group.consumer.assignment.interval.ms": "2000", "group.consumer.session.timeout.ms": "55000"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := dynamic.Group(nil), (Group{5000, 50000, 2000}); got != want {
		t.Errorf("with dynamic configs %+v, want %+v", got, want)
	}
	for _, e := range b.DescribeGroup(map[string]string{"consumer.session.timeout.ms": "51000"}) {
		switch e.Name {
		case "consumer.session.timeout.ms":
			if *e.Value != "51000" || e.Source != SourceGroup || len(e.Synonyms) != 3 || *e.Synonyms[1].Value != "50000" {
				t.Errorf("overridden: %+v", e)
			}
		case "streams.assignor.name":
			if *e.Value != "sticky" || e.Source != SourceDefault || e.Synonyms[0].Name != "group.streams.assignors" {
				t.Errorf("default: %+v", e)
			}
		}
	}
}

func TestBoundsOfConsumers(t *testing.T) {
	for properties, want := range map[[2]string]string{
		{"group.consumer.session.timeout.ms", "44000"}:        "Invalid value 44000 for configuration group.consumer.session.timeout.ms: must be greater than or equal to group.consumer.min.session.timeout.ms",
		{"group.consumer.heartbeat.interval.ms", "16000"}:     "Invalid value 16000 for configuration group.consumer.heartbeat.interval.ms: must be less than or equal to group.consumer.max.heartbeat.interval.ms",
		{"group.consumer.max.session.timeout.ms", "1000"}:     "Invalid value 1000 for configuration group.consumer.max.session.timeout.ms: must be greater than or equal to group.consumer.min.session.timeout.ms",
		{"group.consumer.min.heartbeat.interval.ms", "20000"}: "Invalid value 15000 for configuration group.consumer.max.heartbeat.interval.ms: must be greater than or equal to group.consumer.min.heartbeat.interval.ms",
	} {
		if _, _, err := Load(map[string]string{properties[0]: properties[1]}, nil); text(err) != want {
			t.Errorf("%v: %q, want %q", properties, text(err), want)
		}
	}
}
