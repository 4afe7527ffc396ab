package broker

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
)

func TestEffectiveConfigIsOnePointerPerState(t *testing.T) {
	static, _, err := config.Load(map[string]string{"num.partitions": "3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	effective := effectiveConfig{static: static, logger: slog.New(slog.NewTextHandler(log, nil))}
	image := func(defaults, own map[string]string) *meta.Image {
		return &meta.Image{BrokerDefaults: defaults, BrokerConfigs: map[int32]map[string]string{static.NodeID: own}}
	}
	if effective.under(image(nil, nil)) != static {
		t.Error("without dynamic configs the static ones are in force")
	}

	got := make([]*config.Broker, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = effective.under(image(map[string]string{"log.segment.bytes": "2097152"}, nil)) })
	}
	wg.Wait()
	for _, b := range got {
		if b != got[0] {
			t.Fatal("two configurations for one state")
		}
	}
	if got[0].TopicDefaults.SegmentBytes != 2<<20 {
		t.Errorf("segment.bytes is %d", got[0].TopicDefaults.SegmentBytes)
	}
	own := effective.under(image(map[string]string{"log.segment.bytes": "2097152"}, map[string]string{"log.segment.bytes": "4194304"}))
	if own == got[0] || own.TopicDefaults.SegmentBytes != 4<<20 {
		t.Error("this broker's own configs come first")
	}

	// Of a newer version, say.
	bad := image(map[string]string{"log.segment.bytes": "much"}, nil)
	for range 2 {
		if effective.under(bad) != static {
			t.Error("what cannot be read leaves the static configs in force")
		}
	}
	if n := strings.Count(log.String(), "dynamic configs"); n != 1 {
		t.Errorf("%d lines of log, want one:\n%s", n, log)
	}
}
