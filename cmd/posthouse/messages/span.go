package messages

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

// place is where to begin or to end.
type place struct {
	kind placeKind
	n    int64 // offset, number of records, or milliseconds
	text string
}

type placeKind int

const (
	atBeginning placeKind = iota
	atEnd
	atOffset
	lastRecords // n before the end
	atTime
)

// parsePlace reads beginning, end, 17, -17, @time.
func parsePlace(flag, text string, now time.Time) (place, error) {
	switch text {
	case "beginning", "earliest", "start":
		return place{atBeginning, 0, text}, nil
	case "end", "latest":
		return place{atEnd, 0, text}, nil
	}
	if when, ok := strings.CutPrefix(text, "@"); ok {
		t, err := cli.ParseTime(when, now)
		if err != nil {
			return place{}, cli.Usagef("--%s: %w", flag, err)
		}
		return place{atTime, t.UnixMilli(), text}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return place{}, cli.Usagef("--%s %q: want beginning, end, an offset, -N for the last N, or @ and a time", flag, text)
	case strings.HasPrefix(text, "-"):
		return place{lastRecords, -n, text}, nil
	}
	return place{atOffset, n, text}, nil
}

// reset is the place as a group's client takes it where nothing is committed.
func (p place) reset() (kgo.Offset, error) {
	o := kgo.NewOffset()
	switch p.kind {
	case atBeginning:
		return o.AtStart(), nil
	case atEnd:
		return o.AtEnd(), nil
	case lastRecords:
		return o.AtEnd().Relative(-p.n), nil
	case atTime:
		return o.AfterMilli(p.n), nil
	}
	return o, cli.Usagef("--offset %s: a group begins where it has committed, or else at beginning, end, -N or @time; posthouse group reset-offsets puts it at an offset", p.text)
}

// part is what to read of one partition: [from, to).
type part struct {
	topic     string
	partition int32
	from, to  int64
}

type span []part

// findSpan resolves names and places into what to read. Its ends are where the
// partitions end now.
func findSpan(ctx context.Context, s *cli.Session, names []string, from, to place, committed bool) (span, error) {
	var topics []string
	var chosen []cli.TopicPartitions
	for _, name := range names {
		tp, err := cli.ParseTopicPartitions(name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(topics, tp.Topic) {
			return nil, cli.Usagef("topic %q is named twice", tp.Topic)
		}
		topics, chosen = append(topics, tp.Topic), append(chosen, tp)
	}
	details, err := s.FindTopics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	listEnds := s.Admin.ListEndOffsets
	if committed {
		listEnds = s.Admin.ListCommittedOffsets
	}
	starts, err := s.Admin.ListStartOffsets(ctx, topics...)
	if err != nil && len(starts) == 0 {
		return nil, err
	}
	ends, err := listEnds(ctx, topics...)
	if err != nil && len(ends) == 0 {
		return nil, err
	}
	fromTimes, err := lookUp(ctx, s, from, topics)
	if err != nil {
		return nil, err
	}
	toTimes, err := lookUp(ctx, s, to, topics)
	if err != nil {
		return nil, err
	}
	var all span
	for i, d := range details {
		existing := d.Partitions.Numbers()
		slices.Sort(existing)
		partitions := chosen[i].Partitions
		if partitions == nil {
			partitions = existing
		}
		for _, p := range partitions {
			if !slices.Contains(existing, p) {
				return nil, fmt.Errorf("topic %q has no partition %d: it has %s, from 0", d.Topic, p, cli.Count(len(existing), "partition"))
			}
			one, err := findPart(d.Topic, p, from, to, starts, ends, fromTimes, toTimes)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	return all, nil
}

func findPart(topic string, p int32, from, to place, starts, ends, fromTimes, toTimes kadm.ListedOffsets) (part, error) {
	start, _ := starts.Lookup(topic, p)
	end, known := ends.Lookup(topic, p)
	for _, o := range []kadm.ListedOffset{start, end} {
		if o.Err != nil {
			return part{}, fmt.Errorf("topic %q partition %d: %w", topic, p, cli.Broken(o.Err, ""))
		}
	}
	if !known {
		return part{}, fmt.Errorf("topic %q partition %d: the broker does not say where it ends", topic, p)
	}
	one := part{topic, p, from.offset(start.Offset, end.Offset, fromTimes, topic, p), 0}
	one.to = min(end.Offset, to.offset(start.Offset, end.Offset, toTimes, topic, p))
	if one.from < start.Offset || one.from > end.Offset {
		return part{}, fmt.Errorf("topic %q partition %d: offset %d is not in it: it holds [%d, %d)", topic, p, one.from, start.Offset, end.Offset)
	}
	return one, nil
}

// offset is the place in a partition that holds [start, end).
func (p place) offset(start, end int64, times kadm.ListedOffsets, topic string, number int32) int64 {
	switch p.kind {
	case atBeginning:
		return start
	case atEnd:
		return end
	case lastRecords:
		return max(start, end-p.n)
	case atTime:
		if o, ok := times.Lookup(topic, number); ok && o.Err == nil && o.Offset >= 0 {
			return min(end, o.Offset)
		}
		return end
	}
	return p.n
}

// starts are where the client is to begin: without the partitions that ends,
// if there are any, leaves nothing of.
func (s span) starts(ends remaining) map[string]map[int32]kgo.Offset {
	out := map[string]map[int32]kgo.Offset{}
	for _, p := range s {
		if ends != nil && p.from >= p.to {
			continue
		}
		if out[p.topic] == nil {
			out[p.topic] = map[int32]kgo.Offset{}
		}
		out[p.topic][p.partition] = kgo.NewOffset().At(p.from)
	}
	return out
}

// ends are where to end in each partition that has something to read.
func (s span) ends() remaining {
	left := remaining{}
	for _, p := range s {
		if p.from < p.to {
			left[partition{p.topic, p.partition}] = p.to
		}
	}
	return left
}

type partition struct {
	topic  string
	number int32
}

// remaining are the partitions whose end is still to come, and their ends. Nil
// has no ends.
type remaining map[partition]int64

func (m remaining) done() bool { return len(m) == 0 }

// past says that a record lies past what was to be read.
func (m remaining) past(r *kgo.Record) bool {
	if m == nil {
		return false
	}
	end, ok := m[partition{r.Topic, r.Partition}]
	if ok && r.Offset >= end {
		delete(m, partition{r.Topic, r.Partition})
		return true
	}
	return !ok
}

// reached notes a record, and says whether it was the last of all.
func (m remaining) reached(r *kgo.Record) bool {
	if m == nil {
		return false
	}
	key := partition{r.Topic, r.Partition}
	if r.Offset+1 >= m[key] {
		delete(m, key)
	}
	return m.done()
}
