package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// FindTopics are the details of topics that must exist, in the order of names.
func (s *Session) FindTopics(ctx context.Context, names ...string) ([]kadm.TopicDetail, error) {
	details, err := s.Admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	found := make([]kadm.TopicDetail, 0, len(names))
	var errs []error
	for _, name := range names {
		d, ok := details[name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("topic %q: the broker says nothing of it", name))
		case d.Err != nil:
			errs = append(errs, s.TopicError(ctx, name, d.Err, ""))
		default:
			found = append(found, d)
		}
	}
	return found, errors.Join(errs...)
}

// TopicError is what to say of an error that a topic's name stands beside.
func (s *Session) TopicError(ctx context.Context, name string, err error, message string) error {
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("topic %q: %w", name, Broken(err, message))
	}
	hint := "posthouse topic list shows those that do"
	if all, listErr := s.Admin.ListTopics(ctx); listErr == nil {
		if near := Nearest(name, all.Names()); near != "" && near != name {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
	}
	return &answered{kerr.UnknownTopicOrPartition, fmt.Sprintf("topic %q does not exist: %s", name, hint)}
}

// IsUnknownTopic says of an error of FindTopics that nothing but the topic is
// missing.
func IsUnknownTopic(err error) bool { return errors.Is(err, kerr.UnknownTopicOrPartition) }

// TopicPartitions is one topic, and the partitions of it that were named: nil
// stands for all.
type TopicPartitions struct {
	Topic      string
	Partitions []int32
}

// ParseTopicPartitions reads topic, topic:3 and topic:0,2-5, as the Java tools'
// --topic does.
func ParseTopicPartitions(text string) (TopicPartitions, error) {
	topic, list, some := strings.Cut(text, ":")
	if topic == "" {
		return TopicPartitions{}, Usagef("%q names no topic", text)
	}
	tp := TopicPartitions{Topic: topic}
	if !some {
		return tp, nil
	}
	var err error
	tp.Partitions, err = ParsePartitions(list)
	return tp, err
}

// partitionsMax bounds what a range of partitions may become.
const partitionsMax = 1 << 20

// ParsePartitions reads 3 and 0,2-5.
func ParsePartitions(list string) ([]int32, error) {
	var partitions []int32
	for _, part := range strings.Split(list, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := strconv.ParseInt(from, 10, 32)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseInt(to, 10, 32)
		}
		if err != nil || first < 0 || last < first || last-first > partitionsMax {
			return nil, Usagef("partitions %q: want numbers and ranges, such as 0,2-5", list)
		}
		for p := first; p <= last; p++ {
			partitions = append(partitions, int32(p))
		}
	}
	return partitions, nil
}

// timeLayouts are the ways to write a point in time; those without a zone are
// of the local one.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
}

// ParseTime reads a date and time, milliseconds since the epoch, or a duration
// before now such as 2h.
func ParseTime(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return time.UnixMilli(ms), nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	if d, err := ParseDuration(text); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, Usagef("%q: want a time such as 2024-05-01T12:30:00Z, milliseconds since 1970, or how long ago, such as 2h", text)
}

// ParseDuration reads 90s, 1h30m, 2d and, as the Java tools write it, PT1H30M
// and P2D.
func ParseDuration(text string) (time.Duration, error) {
	plain := strings.ToLower(strings.TrimSpace(text))
	if iso, ok := strings.CutPrefix(plain, "p"); ok {
		plain = strings.Replace(iso, "t", "", 1)
	}
	days := time.Duration(0)
	if head, tail, ok := strings.Cut(plain, "d"); ok {
		n, err := strconv.ParseInt(head, 10, 32)
		if err != nil || n < 0 || n > 100_000 {
			return 0, badDuration(text)
		}
		days, plain = time.Duration(n)*24*time.Hour, tail
		if plain == "" {
			return days, nil
		}
	}
	d, err := time.ParseDuration(plain)
	if err != nil || d < 0 || days+d < 0 {
		return 0, badDuration(text)
	}
	return days + d, nil
}

func badDuration(text string) error {
	return Usagef("%q: want a duration such as 90s, 2h or 7d", text)
}

// FormatTime shows a record's timestamp; below 0 it has none.
func FormatTime(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// Assignments reads key=value pairs; a value may be empty.
func Assignments(pairs []string) (map[string]string, error) {
	set := make(map[string]string, len(pairs))
	for _, p := range pairs {
		key, value, ok := strings.Cut(p, "=")
		if !ok || key == "" {
			return nil, Usagef("%q: want key=value", p)
		}
		set[key] = value
	}
	return set, nil
}
