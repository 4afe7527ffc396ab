package engine

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTableIsConsistent holds the table against kmsg, which knows what the
// versions mean.
func TestTableIsConsistent(t *testing.T) {
	last := int16(-1)
	for i := range apis {
		a := &apis[i]
		if a.Key <= last {
			t.Errorf("%s: key %d after %d", a.Name, a.Key, last)
		}
		last = a.Key
		if a.onLoop == nil && a.offLoop == nil {
			t.Errorf("%s: a handler is wanted", a.Name)
		}
		if a.Min > a.Max || a.AdvertiseMin > a.Min {
			t.Errorf("%s: versions %d–%d, advertised from %d", a.Name, a.Min, a.Max, a.AdvertiseMin)
		}
		req := kmsg.RequestForKey(a.Key)
		// Where kmsg's name is its own: Kafka's says what it does.
		kafkas := map[string]string{"AlterPartitionAssignments": "AlterPartitionReassignments"}
		if got := kmsg.NameForKey(a.Key); !strings.EqualFold(got, a.Name) && kafkas[got] != a.Name {
			t.Errorf("key %d is %s, not %s", a.Key, got, a.Name)
		}
		if a.Max > req.MaxVersion() {
			t.Errorf("%s: kmsg does not know v%d", a.Name, a.Max)
		}
		for v := a.Min; v <= a.Max; v++ {
			req.SetVersion(v)
			if req.IsFlexible() != flexible(a.Key, v) {
				t.Errorf("%s v%d: flexible is %v", a.Name, v, flexible(a.Key, v))
			}
		}
		if lookupAPI(a.Key) != a {
			t.Errorf("%s is not found by its key", a.Name)
		}
	}
	for _, key := range []int16{-1, 4, 5, 6, 7, 52, 95, 1<<15 - 1, -1 << 15} {
		if lookupAPI(key) != nil {
			t.Errorf("key %d is served", key)
		}
	}
}

func TestApiVersionsBodies(t *testing.T) {
	b := newApiVersionsBodies(nil, 0)
	for v := range int16(len(b.ok)) {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.Version = v
		if err := resp.ReadFrom(b.ok[v]); err != nil {
			t.Fatalf("v%d: %v", v, err)
		}
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != len(apis) {
			t.Fatalf("v%d: error %d, %d keys", v, resp.ErrorCode, len(resp.ApiKeys))
		}
		for _, k := range resp.ApiKeys {
			if k.ApiKey == 0 && (k.MinVersion != 0 || k.MaxVersion != 13) {
				t.Errorf("v%d: Produce is advertised as %d–%d", v, k.MinVersion, k.MaxVersion)
			}
		}
		for _, f := range resp.SupportedFeatures {
			if v < 4 && f.MinVersion == 0 {
				t.Errorf("v%d names %s with minimum 0", v, f.Name)
			}
		}
		if want := map[bool]int{true: 3, false: 1}[v >= 4]; v >= 3 && len(resp.SupportedFeatures) != want {
			t.Errorf("v%d: %d supported features", v, len(resp.SupportedFeatures))
		}
		if v >= 3 && (len(resp.FinalizedFeatures) != 2 || resp.FinalizedFeaturesEpoch < 0) {
			t.Errorf("v%d: finalized %v at %d", v, resp.FinalizedFeatures, resp.FinalizedFeaturesEpoch)
		}
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(b.unsupported); err != nil {
		t.Fatal(err)
	}
	if resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) != 1 {
		t.Fatalf("refusal: %+v", resp)
	}
	if k := resp.ApiKeys[0]; k.ApiKey != 18 || k.MinVersion != 0 || k.MaxVersion != 5 {
		t.Fatalf("refusal names %+v", k)
	}
}

func TestValidSoftware(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "kgo": true, "apache-kafka-java": true, "3.7.0": true, "A-.z9": true,
		"": false, "-a": false, "a-": false, ".": false, "a b": false, "a/b": false, "é": false, "a\x00b": false,
	} {
		if got := validSoftware(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}
