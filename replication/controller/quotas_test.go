package controller

import (
	"reflect"
	"testing"

	"github.com/posthouse/posthouse/replication/meta"
)

func TestQuotasGroupConfigsAndFeaturesSurvive(t *testing.T) {
	f := newFixture(t)
	alice := meta.QuotaEntity{User: meta.ExactQuota("alice")}
	all := meta.QuotaEntity{ClientID: meta.DefaultQuota}
	f.ok(f.AlterQuotas(f.ctx, []meta.QuotaAlteration{
		{Entity: alice, Set: map[string]float64{"producer_byte_rate": 100, "request_percentage": 12.5}},
		{Entity: all, Set: map[string]float64{"consumer_byte_rate": 7}},
	}))
	f.ok(f.AlterQuotas(f.ctx, []meta.QuotaAlteration{
		{Entity: alice, Remove: []string{"producer_byte_rate", "never there"}},
		{Entity: all, Set: map[string]float64{"consumer_byte_rate": 7}},
	}))
	f.ok(f.AlterGroupConfigs(f.ctx, "a group", map[string]string{"consumer.session.timeout.ms": "50000", "x": "y"}, nil))
	f.ok(f.AlterGroupConfigs(f.ctx, "a group", nil, []string{"x"}))
	f.ok(f.UpdateFeatures(f.ctx, map[string]int16{"group.version": 1}))
	check := func() {
		t.Helper()
		im := f.Image()
		quotas := map[meta.QuotaEntity]map[string]float64{alice: {"request_percentage": 12.5}, all: {"consumer_byte_rate": 7}}
		groups := map[string]map[string]string{"a group": {"consumer.session.timeout.ms": "50000"}}
		if !reflect.DeepEqual(im.Quotas, quotas) || !reflect.DeepEqual(im.GroupConfigs, groups) || im.Features["group.version"] != 1 {
			t.Fatalf("quotas %v, groups %v, features %v", im.Quotas, im.GroupConfigs, im.Features)
		}
	}
	check()
	f.kill()
	f.start("")
	check()
	f.ok(f.AlterQuotas(f.ctx, []meta.QuotaAlteration{{Entity: alice, Remove: []string{"request_percentage"}}, {Entity: all, Remove: []string{"consumer_byte_rate"}}}))
	f.ok(f.AlterGroupConfigs(f.ctx, "a group", nil, []string{"consumer.session.timeout.ms"}))
	if im := f.Image(); len(im.Quotas) != 0 || len(im.GroupConfigs) != 0 {
		t.Fatalf("what has no value is kept: %v, %v", im.Quotas, im.GroupConfigs)
	}
	if err := f.AlterQuotas(f.ctx, make([]meta.QuotaAlteration, meta.MaxTxnOps+1)); err == nil {
		t.Fatal("more than a transaction holds was accepted")
	}
}
