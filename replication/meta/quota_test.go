package meta

import (
	"reflect"
	"strings"
	"testing"
)

func TestQuotaKeys(t *testing.T) {
	names := []QuotaName{{}, DefaultQuota, ExactQuota("alice"), ExactQuota("a/b=c d%+ü"), ExactQuota(".."), ExactQuota("<default>")}
	seen := map[string]QuotaEntity{}
	check := func(e QuotaEntity) {
		if e == (QuotaEntity{}) {
			return
		}
		key := KeyQuota(e)
		if other, taken := seen[key]; taken {
			t.Errorf("%v and %v share the key %q", e, other, key)
		}
		seen[key] = e
		got, err := ParseQuotaKey(key)
		if err != nil || got != e {
			t.Errorf("%q: got %v, %v; want %v", key, got, err, e)
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) || strings.HasSuffix(key, "/") {
			t.Errorf("%q is no key", key)
		}
	}
	for _, user := range names {
		for _, client := range names {
			check(QuotaEntity{User: user, ClientID: client})
		}
		check(QuotaEntity{IP: user})
	}
	for _, key := range []string{"quotas/", "quotas/user/user", "quotas/color=red", "quotas/user=%zz", "topics/x"} {
		if e, err := ParseQuotaKey(key); err == nil {
			t.Errorf("%q is read as %v", key, e)
		}
	}
}

func TestImageHoldsQuotasGroupsAndFeatures(t *testing.T) {
	im := EmptyImage()
	apply := func(key string, value Value) {
		t.Helper()
		c := Change{Entry: Entry{Key: key, Version: Version(im.Revision + 1)}, Deleted: value == nil}
		if value != nil {
			c.Value = Encode(value)
		}
		next, err := im.Apply(Event{Revision: im.Revision + 1, Changes: []Change{c}})
		if err != nil {
			t.Fatal(err)
		}
		im = next
	}
	alice := QuotaEntity{User: ExactQuota("alice"), ClientID: DefaultQuota}
	limits := map[string]float64{"producer_byte_rate": 1024}
	apply(KeyQuota(alice), &QuotaValue{Values: limits})
	before := im
	apply(KeyGroupConfig("my/group"), &ConfigValue{Values: map[string]string{"a": "1"}})
	apply(KeyFeatures, &FeaturesValue{Levels: map[string]int16{"group.version": 1}})
	if !reflect.DeepEqual(im.Quotas[alice], limits) || im.GroupConfigs["my/group"]["a"] != "1" || im.Features["group.version"] != 1 {
		t.Fatalf("image has quotas %v, groups %v, features %v", im.Quotas, im.GroupConfigs, im.Features)
	}
	if im.QuotaRevision != 1 {
		t.Fatalf("quotas changed at revision %d, want 1", im.QuotaRevision)
	}
	if len(before.GroupConfigs) != 0 || im.Version(KeyQuota(alice)) == 0 {
		t.Fatal("an earlier image changed, or a version is missing")
	}
	apply(KeyQuota(alice), nil)
	apply(KeyGroupConfig("my/group"), nil)
	apply(KeyFeatures, nil)
	if len(im.Quotas) != 0 || len(im.GroupConfigs) != 0 || len(im.Features) != 0 || im.Version(KeyFeatures) != 0 {
		t.Fatalf("after removal: quotas %v, groups %v, features %v", im.Quotas, im.GroupConfigs, im.Features)
	}
}
