package assignor

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/posthouse/posthouse/storage/record"
)

func topic(n int) record.TopicID {
	var id record.TopicID
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func topics(ns ...int) []record.TopicID {
	ids := make([]record.TopicID, len(ns))
	for i, n := range ns {
		ids[i] = topic(n)
	}
	return ids
}

// counts is the number of partitions of topics 1, 2, ….
func counts(ns ...int) func(record.TopicID) int {
	return func(id record.TopicID) int { return ns[binary.BigEndian.Uint64(id[8:])-1] }
}

func of(n int, partitions ...int32) TopicPartitions {
	return TopicPartitions{Topic: topic(n), Partitions: partitions}
}

func show(as []Assignment) string {
	text := ""
	for i, a := range as {
		text += fmt.Sprintf("%d:", i)
		for _, tp := range a {
			text += fmt.Sprintf(" %d%v", binary.BigEndian.Uint64(tp.Topic[8:]), tp.Partitions)
		}
		text += "\n"
	}
	return text
}

func TestExamples(t *testing.T) {
	a, b, c := Member{ID: "a", Topics: topics(1)}, Member{ID: "b", Topics: topics(1)}, Member{ID: "c", Topics: topics(1)}
	ab := Member{ID: "ab", Topics: topics(1, 2)}
	tests := []struct {
		name string
		run  Func
		spec Spec
		want string
	}{
		{"nobody", Uniform, Spec{}, ""},
		{"nobody", Range, Spec{}, ""},
		{"no topics", Uniform, Spec{Members: []Member{{ID: "a"}, {ID: "b"}}, Partitions: counts()}, "0:\n1:\n"},
		{"runs of partitions", Uniform, Spec{Members: []Member{a, b}, Partitions: counts(5)}, "0: 1[0 1 2]\n1: 1[3 4]\n"},
		{"more members than partitions", Uniform, Spec{Members: []Member{a, b, c}, Partitions: counts(2)}, "0: 1[0]\n1: 1[1]\n2:\n"},
		{"only what is too much moves", Uniform, Spec{
			Members:    []Member{{ID: "a", Topics: topics(1), Assigned: Assignment{of(1, 0, 1, 2, 3, 4, 5)}}, b},
			Partitions: counts(6),
		}, "0: 1[0 1 2]\n1: 1[3 4 5]\n"},
		{"the odd partition stays", Uniform, Spec{
			Members:    []Member{{ID: "a", Topics: topics(1), Assigned: Assignment{of(1, 0, 1)}}, {ID: "b", Topics: topics(1), Assigned: Assignment{of(1, 2, 3, 4)}}},
			Partitions: counts(5),
		}, "0: 1[0 1]\n1: 1[2 3 4]\n"},
		{"topics that differ", Uniform, Spec{Members: []Member{a, ab}, Partitions: counts(2, 2)}, "0: 1[0 1]\n1: 2[0 1]\n"},
		{"a move makes it even", Uniform, Spec{
			Members:    []Member{a, {ID: "ab", Topics: topics(1, 2), Assigned: Assignment{of(1, 0, 1), of(2, 0, 1)}}},
			Partitions: counts(2, 2),
		}, "0: 1[0 1]\n1: 2[0 1]\n"},
		{"co-partitioned", Range, Spec{Members: []Member{ab, {ID: "z", Topics: topics(1, 2)}}, Partitions: counts(3, 3)}, "0: 1[0 1] 2[0 1]\n1: 1[2] 2[2]\n"},
		{"static members first", Range, Spec{
			Members:    []Member{a, {ID: "b", InstanceID: "2", Topics: topics(1)}, {ID: "c", InstanceID: "1", Topics: topics(1)}},
			Partitions: counts(4),
		}, "0: 1[3]\n1: 1[2]\n2: 1[0 1]\n"},
		{"range of some", Range, Spec{Members: []Member{a, ab, {ID: "z", Topics: topics(2)}}, Partitions: counts(4, 3)}, "0: 1[0 1]\n1: 1[2 3] 2[0 1]\n2: 2[2]\n"},
	}
	for _, test := range tests {
		if got := show(test.run(test.spec)); got != test.want {
			t.Errorf("%s: got\n%swant\n%s", test.name, got, test.want)
		}
	}
}

// world is a group that changes at random.
type world struct {
	*rand.Rand
	sizes   []int
	members []Member
	next    int
	same    bool // all members subscribe to the same topics
}

func (w *world) spec() Spec { return Spec{Members: w.members, Partitions: counts(w.sizes...)} }

func (w *world) subscription() []record.TopicID {
	var ids []record.TopicID
	for i := range w.sizes {
		if w.same || w.IntN(2) == 0 {
			ids = append(ids, topic(i+1))
		}
	}
	return ids
}

func (w *world) join() {
	m := Member{ID: fmt.Sprintf("m%04d", w.IntN(1000)*1000+w.next), Topics: w.subscription()}
	if w.IntN(4) == 0 {
		m.InstanceID = fmt.Sprintf("i%d", w.next)
	}
	w.next++
	i, _ := slices.BinarySearchFunc(w.members, m.ID, func(m Member, id string) int {
		if m.ID < id {
			return -1
		}
		return 1
	})
	w.members = slices.Insert(w.members, i, m)
}

// change is one event in the life of the group.
func (w *world) change() {
	switch w.IntN(6) {
	case 0, 1:
		w.join()
	case 2:
		if len(w.members) > 1 {
			i := w.IntN(len(w.members))
			w.members = slices.Delete(w.members, i, i+1)
		}
	case 3:
		w.sizes[w.IntN(len(w.sizes))] += 1 + w.IntN(5)
	case 4:
		if !w.same {
			w.members[w.IntN(len(w.members))].Topics = w.subscription()
		}
	case 5:
		if w.same {
			// A topic is deleted, or is there again, for everybody.
			for topics, m := w.subscription(), 0; m < len(w.members); m++ {
				w.members[m].Topics = topics
			}
		}
	}
}

// check asserts what every assignor promises.
func check(t *testing.T, spec Spec, got []Assignment) (loads []int) {
	t.Helper()
	owned := make(map[string]int)
	loads = make([]int, len(got))
	for m, a := range got {
		if !slices.IsSortedFunc(a, func(x, y TopicPartitions) int { return CompareTopics(x.Topic, y.Topic) }) {
			t.Fatalf("member %d: topics are not sorted", m)
		}
		for _, tp := range a {
			if !slices.Contains(spec.Members[m].Topics, tp.Topic) {
				t.Fatalf("member %d does not subscribe to %v", m, tp.Topic)
			}
			if len(tp.Partitions) == 0 || !slices.IsSorted(tp.Partitions) {
				t.Fatalf("member %d: partitions %v", m, tp.Partitions)
			}
			for _, p := range tp.Partitions {
				owned[fmt.Sprint(tp.Topic, p)]++
				loads[m]++
				if int(p) >= spec.Partitions(tp.Topic) || owned[fmt.Sprint(tp.Topic, p)] > 1 {
					t.Fatalf("partition %d of %v goes to member %d", p, tp.Topic, m)
				}
			}
		}
	}
	want := 0
	for _, id := range union(spec.Members) {
		want += spec.Partitions(id)
	}
	if len(owned) != want {
		t.Fatalf("%d partitions are assigned, want %d", len(owned), want)
	}
	return loads
}

// moved is how many partitions belong to another member than before.
func moved(spec Spec, got []Assignment) int {
	n := 0
	for m, a := range got {
		for _, tp := range a {
			had := spec.Members[m].Assigned.Partitions(tp.Topic)
			for _, p := range tp.Partitions {
				if !slices.Contains(had, p) {
					n++
				}
			}
		}
	}
	return n
}

func TestRandomGroups(t *testing.T) {
	for _, name := range []string{NameUniform, NameRange} {
		for _, same := range []bool{true, false} {
			for range 30 {
				seed := rand.Uint64()
				t.Run(fmt.Sprintf("%s/%v/%d", name, same, seed), func(t *testing.T) {
					w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), same: same}
					for range 1 + w.IntN(4) {
						w.sizes = append(w.sizes, 1+w.IntN(20))
					}
					for range 1 + w.IntN(8) {
						w.join()
					}
					for range 40 {
						w.change()
						w.step(t, ByName(name), name == NameUniform)
					}
				})
			}
		}
	}
}

func (w *world) step(t *testing.T, assign Func, uniform bool) {
	spec := w.spec()
	got := assign(spec)
	loads := check(t, spec, got)
	if again := assign(spec); show(again) != show(got) {
		t.Fatalf("a second look is another assignment:\n%s\n%s", show(got), show(again))
	}
	if uniform && w.same {
		least, odd := 0, 0
		if len(spec.Members[0].Topics) > 0 {
			total := newTable(spec).partitions
			least, odd = total/len(loads), total%len(loads)
		}
		// Whoever is to have more gets it; nothing else moves.
		need := 0
		held := newTable(spec).keep()
		for m, load := range loads {
			if load < least || load > least+1 {
				t.Fatalf("loads %v", loads)
			}
			need += max(0, load-held[m])
		}
		if n := moved(spec, got); n != need {
			t.Fatalf("%d partitions moved, want %d (loads %v, odd %d)", n, need, loads, odd)
		}
	}
	for m := range w.members {
		w.members[m].Assigned = got[m]
	}
	if uniform {
		if n := moved(w.spec(), assign(w.spec())); n != 0 {
			t.Fatalf("%d partitions move though nothing changed", n)
		}
	}
}

// TestUnevenBalance: no single move can make members of different subscriptions
// more even.
func TestUnevenBalance(t *testing.T) {
	for range 50 {
		seed := rand.Uint64()
		w := &world{Rand: rand.New(rand.NewPCG(seed, 2)), sizes: []int{7, 12, 3, 9}}
		for range 8 {
			w.join()
		}
		spec := w.spec()
		got := Uniform(spec)
		loads := check(t, spec, got)
		for m, a := range got {
			for _, tp := range a {
				for other := range spec.Members {
					if slices.Contains(spec.Members[other].Topics, tp.Topic) && loads[m]-loads[other] > 1 {
						t.Errorf("seed %d: member %d of %d partitions could give one to member %d of %d", seed, m, loads[m], other, loads[other])
					}
				}
			}
		}
	}
}

// big is a group of many members and topics.
func big(members, topicCount, partitions int, same bool) *world {
	w := &world{Rand: rand.New(rand.NewPCG(1, 2)), same: same}
	for range topicCount {
		w.sizes = append(w.sizes, partitions)
	}
	for range members {
		w.join()
	}
	return w
}

func BenchmarkAssign(b *testing.B) {
	for _, bench := range []struct {
		name string
		run  Func
		same bool
	}{{"uniform", Uniform, true}, {"uneven", Uniform, false}, {"range", Range, true}} {
		for _, topicCount := range []int{1, 100} {
			w := big(1000, topicCount, 5000/topicCount, bench.same)
			for m, a := range bench.run(w.spec()) {
				w.members[m].Assigned = a
			}
			gone := w.members[500]
			w.members = slices.Delete(w.members, 500, 501)
			b.Run(fmt.Sprintf("%s/topics=%d", bench.name, topicCount), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					bench.run(w.spec())
				}
			})
			w.members = append(w.members, gone)
		}
	}
}
