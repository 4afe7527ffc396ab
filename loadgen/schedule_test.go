package loadgen

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// take returns the arrivals before end, in ns.
func take(a *arrivals, end int64) (times []int64) {
	for a.head < end {
		times = append(times, a.head)
		a.advance()
	}
	return times
}

func TestConstantScheduleIsEven(t *testing.T) {
	const connections, rate = 7, 30_000
	var all []int64
	for i := range connections {
		times := take(newArrivals(&Schedule{Kind: Constant, Rate: rate}, i, connections, 1), 1e9)
		gap := 1e9 * connections / float64(rate)
		for k, at := range times {
			if want := (float64(k) + float64(i)/connections) * gap; math.Abs(float64(at)-want) > 1 {
				t.Fatalf("connection %d, record %d at %d ns, want %.0f", i, k, at, want)
			}
		}
		all = append(all, times...)
	}
	if math.Abs(float64(len(all)-rate)) > 1 {
		t.Fatalf("%d records in a second, want %d", len(all), rate)
	}
}

// TestConstantScheduleDoesNotDrift looks an hour ahead at a rate whose gap is
// no whole number of nanoseconds.
func TestConstantScheduleDoesNotDrift(t *testing.T) {
	a := newArrivals(&Schedule{Kind: Constant, Rate: 3}, 0, 1, 1)
	a.count = 3 * 3600
	a.settle()
	if drift := a.head - 3600e9; drift < -1 || drift > 1 {
		t.Fatalf("after an hour the schedule is off by %d ns", drift)
	}
}

func TestPoissonSchedule(t *testing.T) {
	const rate, seconds = 2000, 50
	times := take(newArrivals(&Schedule{Kind: Poisson, Rate: rate}, 0, 1, 42), seconds*1e9)
	// Five standard deviations.
	if n := float64(len(times)); math.Abs(n-rate*seconds) > 5*math.Sqrt(rate*seconds) {
		t.Fatalf("%v records in %d s, want about %d", n, seconds, rate*seconds)
	}
	// Gaps of a Poisson process vary as much as they are long.
	var sum, squares float64
	for i := 1; i < len(times); i++ {
		gap := float64(times[i] - times[i-1])
		sum += gap
		squares += gap * gap
	}
	n := float64(len(times) - 1)
	mean := sum / n
	if deviation := math.Sqrt(squares/n - mean*mean); math.Abs(deviation/mean-1) > 0.05 {
		t.Fatalf("gaps are %.0f ± %.0f ns", mean, deviation)
	}
	again := take(newArrivals(&Schedule{Kind: Poisson, Rate: rate}, 0, 1, 42), 1e9)
	for i := range again {
		if again[i] != times[i] {
			t.Fatal("the same seed gives another schedule")
		}
	}
}

func TestStepsFollowEachOther(t *testing.T) {
	s := &Schedule{Kind: Steps, Steps: []Step{
		{Rate: 100, For: Duration(2 * time.Second)},
		{Rate: 1000, For: Duration(time.Second)},
		{Rate: 10},
	}}
	for _, poisson := range []bool{false, true} {
		s.Poisson = poisson
		const rounds = 40
		var counts [3]float64
		for i := range rounds {
			last := int64(-1)
			for _, at := range take(newArrivals(s, i%2, 2, uint64(i)), 13e9) {
				if at < last {
					t.Fatalf("%d ns comes after %d ns", at, last)
				}
				last = at
				switch {
				case at < 2e9:
					counts[0]++
				case at < 3e9:
					counts[1]++
				default:
					counts[2]++
				}
			}
		}
		for i, want := range []float64{200, 1000, 100} {
			got := counts[i] / rounds * 2 // one of two connections
			if math.Abs(got-want) > want*0.1 {
				t.Errorf("poisson %v, step %d: %.0f records, want %.0f", poisson, i+1, got, want)
			}
		}
	}
	if n := s.scheduledRecords(1e9, 5e9); n != 100+1000+20 {
		t.Errorf("%v records scheduled in seconds 1 to 5, want 1120", n)
	}
}

func TestZipf(t *testing.T) {
	for _, skew := range []float64{0.5, 0.99, 1, 1.5} {
		const n, draws = 1000, 100_000
		z := newZipf(n, skew)
		rng := rand.New(rand.NewPCG(7, 7))
		counts := make([]float64, n+1)
		for range draws {
			k := z.next(rng)
			if k < 1 || k > n {
				t.Fatalf("skew %v drew %d", skew, k)
			}
			counts[k]++
		}
		var norm float64
		for k := 1; k <= n; k++ {
			norm += math.Pow(float64(k), -skew)
		}
		for _, k := range []int{1, 2, 3, 10, 100} {
			want := draws * math.Pow(float64(k), -skew) / norm
			if math.Abs(counts[k]-want) > 6*math.Sqrt(want) {
				t.Errorf("skew %v: rank %d drawn %.0f times, want %.0f", skew, k, counts[k], want)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	if newKeyPicker(&Keys{Distribution: "none"}, rng) != nil {
		t.Error("no keys have a picker")
	}
	k := newKeyPicker(&Keys{Distribution: "uniform", Count: 16, Bytes: 10}, rng)
	seen := map[string]int{}
	for range 16_000 {
		seen[string(k.appendKey(nil, k.next()))]++
	}
	if len(seen) != 16 || seen["000000000f"] < 800 || seen["000000000f"] > 1200 {
		t.Errorf("16 uniform keys: %v", seen)
	}
	spread := make([]int, 8)
	for key := range int64(8000) {
		spread[scatter(key, 8)]++
	}
	for i, n := range spread {
		if n < 850 || n > 1150 {
			t.Errorf("partition %d gets %d of 8000 keys", i, n)
		}
	}
}
