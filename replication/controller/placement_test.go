package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
)

func cluster(racks ...int) *meta.Image {
	im := meta.EmptyImage()
	id := int32(0)
	for r, brokers := range racks {
		for range brokers {
			im.Brokers = append(im.Brokers, meta.Broker{ID: id, Rack: fmt.Sprintf("r%d", r)})
			id++
		}
	}
	return im
}

func rackOf(im *meta.Image, id int32) string { return im.Broker(id).Rack }

// TestPlacementSpreads checks what an operator counts on: distinct brokers, as
// many racks as can be, leaders spread evenly.
func TestPlacementSpreads(t *testing.T) {
	for _, c := range []struct {
		racks    []int
		replicas int
	}{
		{[]int{1}, 1}, {[]int{3}, 3}, {[]int{3}, 2}, {[]int{1, 1, 1}, 3}, {[]int{2, 2, 2}, 3}, {[]int{3, 3, 3}, 2}, {[]int{4, 1}, 3}, {[]int{2, 3, 1}, 6},
	} {
		im := cluster(c.racks...)
		seed := rand.Uint64()
		placed, err := newPlacer(im, rand.New(rand.NewPCG(seed, 0))).place(120, c.replicas)
		if err != nil {
			t.Fatal(err)
		}
		leaders := map[int32]int{}
		for i, replicas := range placed {
			sorted := slices.Sorted(slices.Values(replicas))
			if len(replicas) != c.replicas || len(slices.Compact(sorted)) != c.replicas {
				t.Fatalf("%v seed %d: partition %d is on %v", c, seed, i, replicas)
			}
			racks := map[string]bool{}
			for _, id := range replicas {
				racks[rackOf(im, id)] = true
			}
			if want := min(c.replicas, len(c.racks)); len(racks) < want {
				t.Fatalf("%v seed %d: partition %d is on %v, in %d racks", c, seed, i, replicas, len(racks))
			}
			leaders[replicas[0]]++
		}
		even := true
		for _, n := range c.racks {
			even = even && n == c.racks[0]
		}
		for id, n := range leaders {
			if share := 120 / len(im.Brokers); even && (n < share/2 || n > share*2) {
				t.Fatalf("%v seed %d: broker %d leads %d of 120", c, seed, id, n)
			}
		}
	}
}

func TestPlacementWithFencedBrokers(t *testing.T) {
	im := cluster(2, 2)
	im.Brokers[0].Fenced = true
	placed, err := newPlacer(im, rand.New(rand.NewPCG(1, 2))).place(50, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, replicas := range placed {
		if replicas[0] == 0 {
			t.Fatalf("a fenced broker leads %v", replicas)
		}
	}
	for i := range im.Brokers {
		im.Brokers[i].Fenced = true
	}
	if _, err := newPlacer(im, rand.New(rand.NewPCG(1, 2))).place(1, 1); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Fatalf("error is %v", err)
	}
	if _, err := newPlacer(meta.EmptyImage(), rand.New(rand.NewPCG(1, 2))).place(1, 1); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Fatalf("error is %v", err)
	}
}
