package assignor

// Uniform gives all members as many partitions, give or take one, and leaves as
// many as it can where they are. Where members subscribe to different topics the
// counts are as even as subscriptions and a bounded search allow
// (balanceUneven).
func Uniform(spec Spec) []Assignment {
	if len(spec.Members) == 0 {
		return nil
	}
	t := newTable(spec)
	loads := t.keep()
	if t.homogeneous {
		t.fillEven(loads)
	} else {
		t.fillUneven(loads)
		t.balanceUneven(loads)
	}
	return t.assignments()
}

// fillEven takes what members have above their quota and gives all that nobody
// has to those below theirs. The members that have more than the others keep
// the odd partitions: Kafka gives those to the first members instead, and may
// move partitions between members that were balanced already.
func (t *table) fillEven(loads []int) {
	quota := t.quotas(loads)
	// What a member keeps is the first of what it has.
	kept := make([]int, len(loads))
	for _, owners := range t.owners {
		for p, m := range owners {
			if m == nobody {
				continue
			}
			if kept[m] == quota[m] {
				owners[p] = nobody
				continue
			}
			kept[m]++
		}
	}
	next := 0
	for _, owners := range t.owners {
		for p, m := range owners {
			if m != nobody {
				continue
			}
			for kept[next] == quota[next] {
				next++
			}
			owners[p] = int32(next)
			kept[next]++
		}
	}
}

// quotas is how many partitions each member is to have.
func (t *table) quotas(loads []int) []int {
	least, odd := t.partitions/len(loads), t.partitions%len(loads)
	quota := make([]int, len(loads))
	for m, load := range loads {
		quota[m] = least
		if load > least && odd > 0 {
			quota[m]++
			odd--
		}
	}
	for m := range quota {
		if odd > 0 && quota[m] == least {
			quota[m]++
			odd--
		}
	}
	return quota
}
