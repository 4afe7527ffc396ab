package assignor

import (
	"cmp"
	"container/heap"
	"slices"
)

// roundsMax bounds the search for a better balance. Subscribers that all have
// the same topics are balanced after one round; overlapping subscriptions take
// longer, each round about halving what is uneven.
const roundsMax = 16

// order is the topics in the order in which they are assigned: those with most
// partitions for each subscriber first, because they leave the least choice.
func (t *table) order() []int {
	order := make([]int, len(t.topics))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		// partitions/subscribers, without the division.
		pa, pb := len(t.owners[a])*len(t.subscribers[b]), len(t.owners[b])*len(t.subscribers[a])
		return cmp.Or(cmp.Compare(pb, pa), cmp.Compare(len(t.subscribers[a]), len(t.subscribers[b])), cmp.Compare(a, b))
	})
	return order
}

// fillUneven gives each partition that nobody has to the subscriber of its topic
// with the fewest.
func (t *table) fillUneven(loads []int) {
	for _, i := range t.order() {
		owners := t.owners[i]
		if !slices.Contains(owners, nobody) {
			continue
		}
		least := newByLoad(t.subscribers[i], loads, 1)
		for p, m := range owners {
			if m != nobody {
				continue
			}
			m = least.members[0]
			owners[p] = m
			loads[m]++
			heap.Fix(least, 0)
		}
	}
}

// balanceUneven moves partitions of one topic after the other from the
// subscriber with the most to the one with the fewest, until that gains nothing
// any more for any topic.
func (t *table) balanceUneven(loads []int) {
	order := t.order()
	for range roundsMax {
		moved := false
		for _, i := range order {
			moved = t.balanceTopic(i, loads) || moved
		}
		if !moved {
			return
		}
	}
}

// balanceTopic balances the subscribers of one topic by moving its partitions;
// it says whether any moved.
func (t *table) balanceTopic(i int, loads []int) bool {
	low, high := loads[t.subscribers[i][0]], 0
	for _, m := range t.subscribers[i] {
		low, high = min(low, loads[m]), max(high, loads[m])
	}
	if high-low < 2 {
		return false
	}
	has := make(map[int32][]int32) // partitions by owner
	var holders []int32
	for p, m := range t.owners[i] {
		if m == nobody {
			continue
		}
		if len(has[m]) == 0 {
			holders = append(holders, m)
		}
		has[m] = append(has[m], int32(p))
	}
	moved := false
	least, most := newByLoad(t.subscribers[i], loads, 1), newByLoad(holders, loads, -1)
	for len(most.members) > 0 {
		from, to := most.members[0], least.members[0]
		if loads[from]-loads[to] < 2 {
			return moved
		}
		partitions := has[from]
		p := partitions[len(partitions)-1]
		has[from] = partitions[:len(partitions)-1]
		t.owners[i][p] = to
		loads[from]--
		loads[to]++
		moved = true
		least.fix(from)
		least.fix(to)
		most.fix(to)
		if len(has[from]) == 0 {
			// What it was given here meanwhile stays: it was the one with the fewest.
			heap.Remove(most, most.place[from])
		} else {
			most.fix(from)
		}
	}
	return moved
}

// byLoad is a heap of members by how many partitions they have: the fewest first
// if sign is 1, the most if it is -1.
type byLoad struct {
	members []int32
	loads   []int
	place   map[int32]int // of a member in members
	sign    int
}

func newByLoad(members []int32, loads []int, sign int) *byLoad {
	h := &byLoad{members: slices.Clone(members), loads: loads, place: make(map[int32]int, len(members)), sign: sign}
	for i, m := range h.members {
		h.place[m] = i
	}
	heap.Init(h)
	return h
}

// fix puts a member whose load changed where it belongs, if it is in the heap.
func (h *byLoad) fix(m int32) {
	if i, ok := h.place[m]; ok {
		heap.Fix(h, i)
	}
}

func (h *byLoad) Len() int { return len(h.members) }

func (h *byLoad) Less(i, j int) bool {
	a, b := h.members[i], h.members[j]
	return cmp.Or(h.sign*cmp.Compare(h.loads[a], h.loads[b]), cmp.Compare(a, b)) < 0
}

func (h *byLoad) Swap(i, j int) {
	h.members[i], h.members[j] = h.members[j], h.members[i]
	h.place[h.members[i]], h.place[h.members[j]] = i, j
}

// Push is part of heap.Interface; members are never added.
func (h *byLoad) Push(any) { panic("BUG: assignor: a heap of members does not grow") }

func (h *byLoad) Pop() any {
	m := h.members[len(h.members)-1]
	h.members = h.members[:len(h.members)-1]
	delete(h.place, m)
	return m
}
