package quota

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/posthouse/posthouse/replication/meta"
)

func exact(user, clientID string) (e meta.QuotaEntity) {
	part := func(name string) meta.QuotaName {
		switch name {
		case "":
			return meta.QuotaName{}
		case "*":
			return meta.DefaultQuota
		}
		return meta.ExactQuota(name)
	}
	return meta.QuotaEntity{User: part(user), ClientID: part(clientID)}
}

func TestTheMostSpecificQuotaHolds(t *testing.T) {
	levels := []struct {
		user, clientID string
		shared         tags
	}{
		{"u", "c", tags{"u", "c"}}, {"u", "*", tags{"u", "c"}}, {"u", "", tags{"u", ""}}, {"*", "c", tags{"u", "c"}},
		{"*", "*", tags{"u", "c"}}, {"*", "", tags{"u", ""}}, {"", "c", tags{"", "c"}}, {"", "*", tags{"", "c"}},
	}
	all := limits{}
	for i, l := range levels {
		all[exact(l.user, l.clientID)] = [kinds]float64{Fetch: float64(i + 1)}
	}
	for i, l := range levels {
		limit, shared, ok := all.resolve(Fetch, "u", "c")
		if !ok || limit != float64(i+1) || shared != l.shared {
			t.Errorf("level %d: limit %v shared by %v, %v", i+1, limit, shared, ok)
		}
		if ofTags, ok := all.ofTags(Fetch, shared); !ok || ofTags != limit {
			t.Errorf("level %d: the measurement's limit is %v, %v", i+1, ofTags, ok)
		}
		if _, _, ok := all.resolve(Produce, "u", "c"); ok {
			t.Error("a quota of fetches holds a producer")
		}
		delete(all, exact(l.user, l.clientID))
	}
	if _, _, ok := all.resolve(Fetch, "u", "c"); ok {
		t.Error("a quota is left")
	}
}

// TestThrottleTime follows a client over a quota of 1000 bytes/s by hand: 11
// windows of 1 s, ten of which count as past from the start.
func TestThrottleTime(t *testing.T) {
	m := New(Settings{})
	m.Update(map[meta.QuotaEntity]map[string]float64{exact("", "c"): {"producer_byte_rate": 1000}})
	var c Client
	m.Identify(&c, Anonymous, []byte("c"), 0)
	for _, step := range []struct {
		atMs   int64
		value  float64
		wantMs int64
	}{
		{0, 10_000, 0},        // 10 s of full windows: exactly the quota
		{0, 1_000, 1_000},     // 11000 B / 10 s = 1100/s: 0.1 × 10 s
		{999, 0, 1},           // 11000 B / 10.999 s
		{1_000, 0, 1_000},     // the window is full, so that one fewer is made up: 10 s again
		{1_500, 1_000, 1_500}, // 12000 B, one full window and nine made up: (1143-1000)/1000 × 10.5 s
		{20_000, 0, 0},        // all of it is long past
	} {
		got := m.Record(&c, Produce, step.value, step.atMs)
		if got != step.wantMs {
			t.Errorf("at %d ms, %v bytes: throttled for %d ms, want %d", step.atMs, step.value, got, step.wantMs)
		}
	}
}

// TestARateStaysWithinItsQuota lets a greedy client obey its throttle times, as
// a muted connection must, and holds the average against the quota.
func TestARateStaysWithinItsQuota(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for _, k := range []Kind{Produce, Fetch} {
		const quota = 50_000.0
		m := New(Settings{})
		m.Update(map[meta.QuotaEntity]map[string]float64{exact("*", ""): {k.String(): quota}})
		var greedy, other Client
		m.Identify(&greedy, "greedy", []byte("c"), 0)
		m.Identify(&other, "other", []byte("c"), 0)
		now, sum := int64(0), 0.0
		const endMs = 120_000
		for now < endMs {
			n := float64(random.IntN(40_000))
			sum += n
			now += m.Record(&greedy, k, n, now) + int64(random.IntN(20))
			if ms := m.Record(&other, k, 10, now); ms != 0 {
				t.Fatalf("the other client is throttled for %d ms", ms)
			}
		}
		// Ten windows may pass at once in the beginning.
		perSecond := (sum - 10*quota) / (float64(now) / 1000)
		if perSecond > quota*1.05 || perSecond < quota*0.80 {
			t.Errorf("%v: %.0f a second pass a quota of %.0f", k, perSecond, quota)
		}
	}
}

func TestRequestTimeIsThrottledForOneWindow(t *testing.T) {
	m := New(Settings{})
	m.Update(map[meta.QuotaEntity]map[string]float64{exact("", "*"): {"request_percentage": 1}})
	var c Client
	m.Identify(&c, Anonymous, []byte("c"), 0)
	if ms := m.Record(&c, Request, 100_000, 0); ms != 1000 {
		t.Errorf("throttled for %d ms", ms)
	}
}

func TestUpdatesHoldAtOnce(t *testing.T) {
	m := New(Settings{})
	var c Client
	m.Identify(&c, Anonymous, []byte("c"), 0)
	if m.Any() || m.Record(&c, Produce, 1e9, 0) != 0 {
		t.Fatal("throttled without a quota")
	}
	update := func(values map[string]float64) {
		m.Update(map[meta.QuotaEntity]map[string]float64{exact("", "c"): values})
		m.Identify(&c, Anonymous, []byte("c"), 0)
	}
	update(map[string]float64{"producer_byte_rate": 1000})
	if ms := m.Record(&c, Produce, 9000, 0); ms != 0 {
		t.Fatalf("throttled for %d ms", ms)
	}
	update(map[string]float64{"producer_byte_rate": 100})
	if ms := m.Record(&c, Produce, 0, 0); ms != 80_000 {
		t.Fatalf("after the quota fell: throttled for %d ms", ms)
	}
	if most, ok := m.Most(&c, Produce, 0); !ok || most != 1000 {
		t.Fatalf("most is %v, %v", most, ok)
	}
	m.Note(&c, Produce, -9000, 0)
	if ms := m.Record(&c, Produce, 10, 0); ms != 0 {
		t.Fatalf("taken back, and throttled for %d ms", ms)
	}
	m.Update(nil)
	// Not identified again: the connection is in the middle of a request.
	if ms := m.Record(&c, Produce, 1e9, 0); ms != 0 || m.Any() {
		t.Fatalf("without a quota again: throttled for %d ms", ms)
	}
}

func TestMutations(t *testing.T) {
	m, now := New(Settings{}), int64(5_000)
	clock := func() int64 { return now }
	if q := m.Mutations("u", "c", clock); q != nil || !q.Take(1000, true) || q.ThrottleMs() != 0 {
		t.Fatal("limited without a quota")
	}
	m.Update(map[meta.QuotaEntity]map[string]float64{exact("u", ""): {"controller_mutation_rate": 2}})
	q := m.Mutations("u", "c", clock)
	// The bucket holds 11 s × 2; what exhausts it passes.
	if !q.Take(22, true) || !q.Take(10, true) || q.ThrottleMs() != 0 {
		t.Fatal("refused before the bucket is empty")
	}
	if q.Take(1, true) || q.ThrottleMs() != 5000 {
		t.Fatalf("overdrawn by 10 and throttled for %d ms", q.ThrottleMs())
	}
	if now += 2000; q.ThrottleMs() != 3000 {
		t.Fatalf("two seconds later %d ms are left", q.ThrottleMs())
	}
	lax := m.Mutations("u", "other", clock)
	if !lax.Take(4, false) || lax.ThrottleMs() != 5000 {
		t.Fatalf("permissive: throttled for %d ms", lax.ThrottleMs())
	}
	if now += 5000; !m.Mutations("u", "c", clock).Take(1, true) {
		t.Fatal("refused though the debt is paid")
	}
}

func TestConnections(t *testing.T) {
	m := New(Settings{ResolveHost: func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.0.0.3")} }})
	one, two, host := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	connect := func(a netip.Addr, n int, nowMs int64) (held int) {
		for range n {
			pause, hold := m.Connection(a, nowMs)
			if pause < 0 || pause > 1000 || hold < 0 || hold > 1000 {
				t.Fatalf("pause %d, hold %d", pause, hold)
			}
			if hold > 0 {
				held++
			}
		}
		return held
	}
	if held := connect(one, 1000, 0); held != 0 {
		t.Fatal("held without a limit")
	}
	ip := func(n meta.QuotaName) meta.QuotaEntity { return meta.QuotaEntity{IP: n} }
	m.Update(map[meta.QuotaEntity]map[string]float64{
		ip(meta.ExactQuota("10.0.0.1")): {connectionKey: 5}, ip(meta.DefaultQuota): {connectionKey: 1}, ip(meta.ExactQuota("a-host")): {connectionKey: 2},
	})
	// Ten full windows may pass at once.
	for addr, want := range map[netip.Addr]int{one: 50, two: 10, host: 20} {
		if held := connect(addr, 100, 0); held != 100-want {
			t.Errorf("%v: %d of 100 pass, want %d", addr, 100-held, want)
		}
	}
	m.Update(nil)
	m.SetConnectionRate(10)
	pauses := 0
	for range 101 {
		if pause, _ := m.Connection(one, 60_000); pause > 0 {
			pauses++
		}
	}
	if pauses != 1 {
		t.Errorf("%d of 101 connections pause the node", pauses)
	}
	m.SetConnectionRate(math.MaxInt32)
	if pause, _ := m.Connection(one, 60_000); pause != 0 {
		t.Error("paused without a limit")
	}
	if m.Stats().Connection.Times == 0 {
		t.Error("nothing was counted")
	}
}

func TestIdleClientsAreForgotten(t *testing.T) {
	m := New(Settings{})
	m.Update(map[meta.QuotaEntity]map[string]float64{exact("", "*"): {"producer_byte_rate": 1000}, {IP: meta.DefaultQuota}: {connectionKey: 1}})
	var first Client
	m.Identify(&first, Anonymous, []byte("first"), 0)
	m.Record(&first, Produce, 5, 0)
	for i := range 20 * sweepFrom {
		var c Client
		now := int64(i)
		m.Identify(&c, Anonymous, fmt.Append(nil, "c", i), now*20)
		m.Record(&c, Produce, 1, now*20)
		m.Connection(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now*20)
	}
	if n := len(m.sensors); n > 2*sweepFrom {
		t.Errorf("%d measurements are kept", n)
	}
	if n := len(m.addresses.rates); n > 2*sweepFrom {
		t.Errorf("%d addresses are kept", n)
	}
	if ms := m.Record(&first, Produce, 50_000, 20*20*sweepFrom); ms == 0 {
		t.Error("a client that comes back is not throttled")
	}
}

func TestARecordAllocatesNothing(t *testing.T) {
	m := New(Settings{})
	m.Update(map[meta.QuotaEntity]map[string]float64{exact("", "c"): {"producer_byte_rate": 1000}})
	var c Client
	id, now := []byte("c"), int64(0)
	step := func() {
		now += 100
		m.Identify(&c, Anonymous, id, now)
		m.Record(&c, Produce, 1000, now)
	}
	step()
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, quotas := range []map[meta.QuotaEntity]map[string]float64{nil, {exact("", "c"): {"producer_byte_rate": 1e12}}} {
		b.Run(fmt.Sprintf("%d quotas", len(quotas)), func(b *testing.B) {
			m := New(Settings{})
			m.Update(quotas)
			var c Client
			id, now := []byte("c"), int64(0)
			for b.Loop() {
				if now++; m.Active(Produce) {
					m.Identify(&c, Anonymous, id, now)
					m.Record(&c, Produce, 1000, now)
				}
			}
		})
	}
}
