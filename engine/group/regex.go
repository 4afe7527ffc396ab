package group

import (
	"errors"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Subscriptions by a regular expression are resolved here (KIP-848): which topics
// match is kept in the log, one record for each expression of a group, and looked
// at anew when topics come, and now and then. The dialect is RE2's, which Kafka
// uses too; an expression must match the whole name.

// regexPause is how long topics that come must wait to be found by expressions
// that have been matched (REGEX_BATCH_REFRESH_MIN_INTERVAL_MS).
const regexPause = 10 * time.Second

// resolvedRegex is the topics that an expression matched.
type resolvedRegex struct {
	topics      []string // ascending
	version     int64    // of the cluster's state that was looked at
	timestampMs int64    // when
}

// changeRegex is the part of consumerStep.subscribe for a member that changes its
// expression. known says that the topics of the new one are known already.
func (st *consumerStep) changeRegex() (known bool, err *refusal) {
	c, old, next := st.c, st.member.regex, st.next.regex
	if old != "" && c.regexCounts[old] == 1 {
		st.records = append(st.records, kv{key: consumerKey(keyConsumerRegularExpression, st.g.id, old)})
	}
	if next == "" {
		return true, nil
	}
	if c.regexCounts[next] > 0 {
		return c.regexes[next] != nil, nil
	}
	if err := checkRegex(next); err != nil {
		reason := err.Error()
		var bad *syntax.Error
		if errors.As(err, &bad) {
			reason = string(bad.Code)
		}
		return false, refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex `%s` is not a valid regular expression: %s.", next, reason)
	}
	return false, nil
}

// checkRegex says what is wrong with an expression. It is only parsed: one of a few
// kilobytes may compile to a million instructions, which is work for where it is
// matched and not for a heartbeat.
func checkRegex(expression string) error {
	_, err := syntax.Parse(expression, syntax.Perl)
	return err
}

// compileRegex compiles an expression that is to match all of a name.
func compileRegex(expression string) (*regexp.Regexp, error) {
	if err := checkRegex(expression); err != nil {
		return nil, err
	}
	return regexp.Compile("^(?:" + expression + ")$")
}

// regexesDue says that the expressions are to be matched: one has not been, there
// are other topics than when they were, or that is long ago.
func (c *consumerGroup) regexesDue() bool {
	if len(c.regexCounts) == 0 || c.resolving {
		return false
	}
	last := int64(-1)
	for regex := range c.regexCounts {
		x := c.regexes[regex]
		if x == nil {
			return true
		}
		last = max(last, x.timestampMs)
	}
	age := time.Duration(c.group.shard.coordinator.nowMs()-last) * time.Millisecond
	names := c.image().Names
	sameTopics := len(names) == len(c.names) && (len(names) == 0 || &names[0] == &c.names[0])
	return age > regexPause && !sameTopics || age > c.group.shard.settings().ConsumerRegexRefreshInterval
}

// refreshRegexes has the expressions matched, if that is due, on a worker:
// clusters have many topics.
func (c *consumerGroup) refreshRegexes() {
	if !c.regexesDue() {
		return
	}
	c.resolving = true
	s, im, nowMs := c.group.shard, c.image(), c.group.shard.coordinator.nowMs()
	expressions := slices.Sorted(maps.Keys(c.regexCounts))
	s.coordinator.config.Executor.Submit(func() {
		found := make(map[string]*resolvedRegex, len(expressions))
		for _, expression := range expressions {
			found[expression] = &resolvedRegex{topics: matching(expression, im.Names), version: int64(im.Revision), timestampMs: nowMs}
		}
		s.mu.Lock()
		c.group.whenIdle(func() { c.regexesResolved(found, im.Names) })
		s.leave()
	})
}

// matching is the names that an expression matches; none for one that does not
// compile, which a log of another broker may hold.
func matching(expression string, names []string) []string {
	re, err := compileRegex(expression)
	if err != nil {
		return nil
	}
	var out []string
	for _, name := range names {
		if re.MatchString(name) {
			out = append(out, name)
		}
	}
	return out
}

// regexesResolved writes what the expressions matched. The group's epoch moves on
// if that is other topics (GroupMetadataManager.handleRegularExpressionsResult).
func (c *consumerGroup) regexesResolved(found map[string]*resolvedRegex, names []string) {
	c.resolving = false
	g := c.group
	if g.resigned || g.protocol != protocol(c) {
		return
	}
	im := c.image()
	var records []kv
	bump := false
	resolved := maps.Clone(c.regexes)
	for _, expression := range slices.Sorted(maps.Keys(found)) {
		if c.regexCounts[expression] == 0 {
			continue
		}
		x := found[expression]
		if old := c.regexes[expression]; old == nil && len(x.topics) > 0 || old != nil && !slices.Equal(old.topics, x.topics) {
			bump = true
		}
		resolved[expression] = x
		records = append(records, kv{key: consumerKey(keyConsumerRegularExpression, g.id, expression), value: regexValue(x)})
	}
	hash := topicsHash(im, c.subscribedTo(resolved))
	if bump || hash != c.metadataHash {
		records = append(records, c.epochRecord(c.epoch+1, hash))
	}
	g.shard.write(g, records, true, func(err error) {
		if err == nil {
			c.names, c.seen = names, im.Revision
		}
	})
}
