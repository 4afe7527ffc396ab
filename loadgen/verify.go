package loadgen

import (
	"fmt"
	"slices"
	"sort"
)

// intervals is a set of record numbers as sorted, disjoint, half-open runs.
// Adding behind the last one, the usual case, costs nothing.
type intervals struct{ runs []numbers }

// numbers are [from, to).
type numbers struct{ from, to uint64 }

// add puts [from, to) in.
func (s *intervals) add(from, to uint64) {
	if from >= to {
		return
	}
	if n := len(s.runs); n == 0 || from > s.runs[n-1].to {
		s.runs = append(s.runs, numbers{from, to})
		return
	} else if from >= s.runs[n-1].from {
		s.runs[n-1].to = max(s.runs[n-1].to, to)
		return
	}
	// The runs that [from, to) touches become one with it.
	first := sort.Search(len(s.runs), func(i int) bool { return s.runs[i].to >= from })
	last := first
	for last < len(s.runs) && s.runs[last].from <= to {
		from, to = min(from, s.runs[last].from), max(to, s.runs[last].to)
		last++
	}
	s.runs = slices.Replace(s.runs, first, last, numbers{from, to})
}

// remove takes one number out and reports whether it was in.
func (s *intervals) remove(k uint64) bool {
	i := sort.Search(len(s.runs), func(i int) bool { return s.runs[i].to > k })
	if i == len(s.runs) || k < s.runs[i].from {
		return false
	}
	r := s.runs[i]
	var rest []numbers
	if r.from < k {
		rest = append(rest, numbers{r.from, k})
	}
	if k+1 < r.to {
		rest = append(rest, numbers{k + 1, r.to})
	}
	s.runs = slices.Replace(s.runs, i, i+1, rest...)
	return true
}

func (s *intervals) size() (n uint64) {
	for _, r := range s.runs {
		n += r.to - r.from
	}
	return n
}

// common calls fn with what both sets have.
func (s *intervals) common(o *intervals, fn func(numbers)) {
	for i, j := 0, 0; i < len(s.runs) && j < len(o.runs); {
		a, b := s.runs[i], o.runs[j]
		if from, to := max(a.from, b.from), min(a.to, b.to); from < to {
			fn(numbers{from, to})
		}
		if a.to < b.to {
			i++
		} else {
			j++
		}
	}
}

// received is what a consumer has read of one stream. The numbers of a stream
// are given out in order and each stream lies in one partition, so that each
// comes one above the last unless something went wrong.
type received struct {
	next                  uint64    // above the highest seen
	missing               intervals // below next and not seen
	duplicates, reordered int64
}

// take notes that number k was read.
func (r *received) take(k uint64) {
	switch {
	case k == r.next:
		r.next++
	case k > r.next:
		r.missing.add(r.next, k)
		r.next = k + 1
	case r.missing.remove(k):
		r.reordered++
	default:
		r.duplicates++
	}
}

// problemsMax bounds what is named of what went wrong.
const problemsMax = 20

// report compares what was acknowledged with what was read. All connections
// must be at rest. complete says that the consumers came to the end.
func (r *run) report(complete bool) *VerifyReport {
	v := &VerifyReport{Reconnects: r.reconnects.Load()}
	if !complete {
		r.problem("the run ended before the consumers had read everything: what counts as lost may be there")
	}
	streams := make([]*received, r.streams)
	for _, c := range r.consumers {
		v.Corrupt += c.corrupt
		v.Foreign += c.foreign
		for i, s := range c.streams {
			if s != nil {
				streams[i] = s
			}
		}
	}
	for _, p := range r.producers {
		for _, part := range p.parts {
			r.reportStream(v, p, part, streams[part.stream])
		}
	}
	r.problemsMu.Lock()
	v.Problems = append(v.Problems, r.problems...)
	r.problemsMu.Unlock()
	v.OK = complete && v.Lost == 0 && v.Duplicates == 0 && v.Reordered == 0 && v.Corrupt == 0 && v.Foreign == 0
	return v
}

func (r *run) reportStream(v *VerifyReport, p *producer, part *part, got *received) {
	if got == nil {
		got = &received{}
	}
	sent := part.nextNumber
	v.Sent += int64(sent)
	v.Acked += int64(part.acked.size())
	v.Duplicates += got.duplicates
	v.Reordered += got.reordered
	missing := intervals{runs: slices.Clone(got.missing.runs)}
	missing.add(got.next, max(sent, got.next))
	v.Received += int64(max(sent, got.next) - missing.size())
	lost := int64(0)
	part.acked.common(&missing, func(n numbers) {
		lost += int64(n.to - n.from)
		r.problem("%s-%d: records %d to %d of producer %d were acknowledged and are not there",
			part.topic, part.index, n.from, n.to-1, p.home.number)
	})
	v.Lost += lost
	v.Unknown += int64(missing.size()) - lost
	if got.duplicates > 0 || got.reordered > 0 {
		r.problem("%s-%d: of producer %d %d records came twice, %d out of order",
			part.topic, part.index, p.home.number, got.duplicates, got.reordered)
	}
}

// problem notes one line for the report. Any goroutine.
func (r *run) problem(format string, args ...any) {
	r.problemsMu.Lock()
	defer r.problemsMu.Unlock()
	if len(r.problems) < problemsMax {
		r.problems = append(r.problems, fmt.Sprintf(format, args...))
	}
}
