package assignor

import (
	"cmp"
	"slices"
)

// Range gives each subscriber of a topic one run of consecutive partitions.
// Topics with the same subscribers and as many partitions are cut alike, so that
// who owns partition 3 of one owns partition 3 of the other, as joins need it.
// Static members come first, in order of their instance ids: a restart under
// another member id changes nothing.
func Range(spec Spec) []Assignment {
	if len(spec.Members) == 0 {
		return nil
	}
	t := newTable(spec)
	rank := ranks(spec.Members)
	ordered := make([]int32, 0, len(spec.Members))
	for i, owners := range t.owners {
		if i == 0 || !t.homogeneous {
			ordered = append(ordered[:0], t.subscribers[i]...)
			slices.SortFunc(ordered, func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) })
		}
		share, extra := len(owners)/len(ordered), len(owners)%len(ordered)
		next := 0
		for k, m := range ordered {
			n := share
			if k < extra {
				n++
			}
			for ; n > 0; n-- {
				owners[next] = m
				next++
			}
		}
	}
	return t.assignments()
}

// ranks is the place of each member when static members come first.
func ranks(members []Member) []int {
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &members[a], &members[b]
		switch {
		case x.InstanceID != "" && y.InstanceID != "":
			return cmp.Compare(x.InstanceID, y.InstanceID)
		case x.InstanceID != "":
			return -1
		case y.InstanceID != "":
			return 1
		}
		return cmp.Compare(x.ID, y.ID)
	})
	rank := make([]int, len(members))
	for place, m := range order {
		rank[m] = place
	}
	return rank
}
